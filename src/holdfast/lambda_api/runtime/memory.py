"""How much memory a process and everything below it has for itself, from the process table. Where there is none, nobody can tell.

Address space says nothing (Node reserves gigabytes that it never touches), so what is counted is memory in use, without the files that all
processes share. What a process shares with a child that it forked is counted once.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

from holdfast.hosts import processes

_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_MB: Final = 1024 * 1024


def exceeds(guard: int, limit_mb: int) -> bool:
    """Whether all that runs below a guard has more than so much."""
    most = limit_mb * _MB
    used = {pid: found for pid in below(guard) if (found := _private(pid))}
    if sum(used.values()) <= most or len(used) == 1:
        return sum(used.values()) > most
    # When one ends, what it shared becomes another's, and may be met twice; but not in two rounds.
    return all(sum(map(_fair_share, used)) > most for _ in range(2))


def below(pid: int) -> Iterator[int]:
    """The descendants of a process; each thread of a process may have children of its own."""
    todo = [pid]
    while todo:
        try:
            children = processes.children(todo.pop())
        except processes.Unreadable:  # another user's process: its memory could not be read either
            continue
        yield from children
        todo += children


def _private(pid: int) -> int:
    """What is in memory and no file's."""
    try:
        _, resident, shared, *_ = processes.read(f"/proc/{pid}/statm").split()
    except (OSError, ValueError):
        return 0
    # Nothing: it is gone, or its first thread is, and the memory is still there for the others.
    return (int(resident) - int(shared)) * _PAGE if int(resident) else _of_all_threads(pid)


def _of_all_threads(pid: int) -> int:
    try:
        found = processes.uses(pid)
    except processes.Unreadable:
        return 0
    return 0 if found is None else found.kilobytes * 1024


def _fair_share(pid: int) -> int:
    """The same, but what several have is shared out between them; that takes the kernel longer to say."""
    try:
        return processes.share(pid) * 1024
    except processes.Unreadable:
        return _private(pid)

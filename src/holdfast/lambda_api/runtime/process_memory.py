"""The private memory of a process and its descendants, from `/proc`. On a system without `/proc` it is unknown.

Address space is no measure, because Node reserves gigabytes that it never uses. So memory in use is counted, without the files that all
processes share. Memory that a process shares with a forked child is counted once.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

from holdfast.hosts import processes

_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_MB: Final = 1024 * 1024


def exceeds(guard: int, limit_mb: int) -> bool:
    """Whether all processes below a guard together use more than this limit."""
    most = limit_mb * _MB
    used = {pid: found for pid in below(guard) if (found := _private(pid))}
    if sum(used.values()) <= most or len(used) == 1:
        return sum(used.values()) > most
    # When a process ends, its shared memory is counted for another one, and may be counted twice; but not in two rounds.
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
    """The memory of a process that is in use and does not belong to a file."""
    try:
        _, resident, shared, *_ = processes.read(f"/proc/{pid}/statm").split()
    except (OSError, ValueError):
        return 0
    # Zero: the process has ended, or only its first thread has, and its other threads still use the memory.
    return (int(resident) - int(shared)) * _PAGE if int(resident) else _of_all_threads(pid)


def _of_all_threads(pid: int) -> int:
    try:
        found = processes.uses(pid)
    except processes.Unreadable:
        return 0
    return 0 if found is None else found.kilobytes * 1024


def _fair_share(pid: int) -> int:
    """The bytes of memory of a process, where memory that processes share is divided among them. The kernel takes longer for this."""
    try:
        return processes.share(pid) * 1024
    except processes.Unreadable:
        return _private(pid)

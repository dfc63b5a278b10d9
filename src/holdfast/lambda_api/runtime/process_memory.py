"""The private memory of the descendants of a process, from `/proc`. On a system without `/proc` no process exceeds a limit.

The size of the address space cannot be used, because Node reserves gigabytes that it never uses. So memory in use is counted, without the
files that processes share. Memory that a process shares with a forked child is counted once.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

from holdfast.hosts import processes

_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_MB: Final = 1024 * 1024


def exceeds(guard: int, limit_mb: int) -> bool:
    """Whether all descendants of a guard together use more memory than this limit. `guard` is its pid."""
    most = limit_mb * _MB
    used = {pid: found for pid in below(guard) if (found := _private(pid))}
    if sum(used.values()) <= most or len(used) == 1:
        return sum(used.values()) > most
    # While a process ends, its shared memory moves to another process and may be counted twice. So two measurements must exceed the limit.
    return all(sum(map(_fair_share, used)) > most for _ in range(2))


def below(pid: int) -> Iterator[int]:
    """The pids of all descendants of a process, except those of a process whose children cannot be read."""
    todo = [pid]
    while todo:
        try:
            children = processes.children(todo.pop())
        except processes.Unreadable:  # another user's process: its memory could not be read either
            continue
        yield from children
        todo += children


def _private(pid: int) -> int:
    """The bytes of memory that a process uses and that belong to no file; 0 if they cannot be read."""
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
    """The bytes of memory of a process. Memory that several processes share is divided among them. This takes longer than `_private`. If it
    cannot be read, the result of `_private` is used."""
    try:
        return processes.share(pid) * 1024
    except processes.Unreadable:
        return _private(pid)

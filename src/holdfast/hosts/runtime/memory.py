"""How much memory a process and everything below it has for itself, from the process table. Where there is none, nobody can tell.

Address space says nothing (Node reserves gigabytes that it never touches), so what is counted is memory in use, without the files that all
processes share. What a process shares with a child that it forked is counted once.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_OWN: Final = (b"Pss_Anon:", b"Pss_Shmem:")
_MB: Final = 1024 * 1024


def exceeds(guard: int, limit_mb: int) -> bool:
    """Whether all that runs below a guard has more than so much."""
    most = limit_mb * _MB
    used = {pid: found for pid in _below(guard) if (found := _private(pid))}
    if sum(used.values()) <= most or len(used) == 1:
        return sum(used.values()) > most
    # When one ends, what it shared becomes another's, and may be met twice; but not in two rounds.
    return all(sum(map(_fair_share, used)) > most for _ in range(2))


def _below(pid: int) -> Iterator[int]:
    """The descendants of a process; each thread of a process may have children of its own."""
    todo = [pid]
    while todo:
        tasks = f"/proc/{todo.pop()}/task"
        try:
            children = [int(child) for task in os.listdir(tasks) for child in _read(f"{tasks}/{task}/children").split()]
        except OSError:  # it is gone, or nobody can tell
            continue
        yield from children
        todo += children


def _read(path: str) -> bytes:
    """A small file of the kernel's: this is done often, while others wait for the loop."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(file, 1 << 16)
    finally:
        os.close(file)


def _private(pid: int) -> int:
    """What is in memory and no file's."""
    try:
        _, resident, shared, *_ = _read(f"/proc/{pid}/statm").split()
    except (OSError, ValueError):
        return 0
    return (int(resident) - int(shared)) * _PAGE


def _fair_share(pid: int) -> int:
    """The same, but what several have is shared out between them; that takes the kernel longer to say."""
    try:
        lines = _read(f"/proc/{pid}/smaps_rollup").splitlines()
    except OSError:  # it is gone, or somebody else's
        return _private(pid)
    shares = [int(line.split()[1]) * 1024 for line in lines if line.startswith(_OWN)]
    return sum(shares) if shares else _private(pid)

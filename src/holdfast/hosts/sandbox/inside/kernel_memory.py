"""What a body may make the kernel keep for it, which no count of its own memory shows: sockets, and locks on files.

A socket that no process reads keeps what was sent through it, and may itself be on its way through another socket, where no process has it
any more. So all sockets of the body's network namespace are counted, wherever they are, each as if it were full. A body cannot make
one larger: the filter refuses SO_SNDBUF, a larger pipe, and locks that outlive their descriptor (filters.py).
"""

from __future__ import annotations

import contextlib
from typing import Final

from holdfast.hosts import processes

MOST_LOCKS: Final = 10_000
_USUAL_BYTES: Final = 212_992
_FREE: Final = 16
"""So many sockets cost nothing: an honest program has a few, and they are mostly empty."""
_LOOKS: Final = 8
"""Locks are counted at every eighth look: that many of them are made slowly, and looking at each descriptor takes a while."""


class KernelMemory:
    """What the kernel keeps for one body."""

    def __init__(self, body: int, own_network: bool) -> None:
        self._body = body
        self._each = _buffer_bytes()
        self._own_network = own_network and _in_namespace() is not None
        self._looks = 0

    def of_sockets(self) -> int:
        """Kilobytes they may hold. Without a network namespace only those are seen that the body has open, which is a bounded number."""
        count = _in_namespace() if self._own_network else processes.open_sockets(self._body)
        if count is None:
            raise processes.Unreadable("the kernel tells no more how many sockets it has")
        return max(0, count - _FREE) * self._each // 1024

    def too_many_locks(self, pids: list[int]) -> bool:
        """Whether these processes hold more locks than anybody needs. Their number has no limit of its own in the kernel."""
        self._looks += 1
        return self._looks % _LOOKS == 0 and sum(map(processes.file_locks, pids)) > MOST_LOCKS


def _in_namespace() -> int | None:
    """Of the namespace that we have made for the body, and live in ourselves."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        lines = processes.read("/proc/self/net/protocols").split(b"\n")
        return sum(int(line.split()[2]) for line in lines if line.startswith(b"UNIX"))
    return None


def _buffer_bytes() -> int:
    """How much is kept for a socket, and a packet beyond that."""
    found = _USUAL_BYTES
    with contextlib.suppress(OSError, ValueError):
        found = int(processes.read("/proc/sys/net/core/wmem_default"))
    return found + found // 8

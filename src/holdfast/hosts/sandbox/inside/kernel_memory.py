"""Kernel memory that a body can use and that is not part of its own memory: socket buffers, and locks on files.

A socket that no process reads keeps the sent data. The socket itself may be in flight through another socket, and then no process has it
open. So all sockets of the body's network namespace are counted, each as if its buffer were full. In a jail, the filter (filters.py)
refuses larger socket buffers, larger pipes, and locks that outlive their descriptor.
"""

from __future__ import annotations

import contextlib
from typing import Final

from holdfast.hosts import processes

MOST_LOCKS: Final = 10_000
_USUAL_BYTES: Final = 212_992
_FREE: Final = 16
"""This many sockets of a body are not counted, because an honest program has a few sockets, which are mostly empty."""
_LOOKS: Final = 8
"""Locks are counted at every eighth look. Counting is slow, because it reads every descriptor; making many locks is slow too."""


class KernelMemory:
    """The kernel memory of one body."""

    def __init__(self, body: int, own_network: bool) -> None:
        self._body = body
        self._each = _buffer_bytes()
        self._own_network = own_network and _in_namespace() is not None
        self._looks = 0

    def of_sockets(self) -> int:
        """The kilobytes that the body's sockets may hold, without the first 16 sockets. If the body has no network namespace of its own,
        only the sockets that it has open are counted. Raises Unreadable if the kernel does not say how many sockets there are."""
        count = _in_namespace() if self._own_network else processes.open_sockets(self._body)
        if count is None:
            raise processes.Unreadable("the kernel no longer tells how many sockets the body has")
        return max(0, count - _FREE) * self._each // 1024

    def too_many_locks(self, pids: list[int]) -> bool:
        """Whether these processes together hold more locks on files than an honest program needs. Only every eighth call counts the locks;
        the other calls return False. The kernel itself has no limit for locks."""
        self._looks += 1
        return self._looks % _LOOKS == 0 and sum(map(processes.file_locks, pids)) > MOST_LOCKS


def _in_namespace() -> int | None:
    """The number of sockets in the network namespace of this process, the keeper; the body is in the same one. None if the number cannot be
    read."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        lines = processes.read("/proc/self/net/protocols").split(b"\n")
        return sum(int(line.split()[2]) for line in lines if line.startswith(b"UNIX"))
    return None


def _buffer_bytes() -> int:
    """The most bytes that one socket can hold: the kernel's buffer size, and an eighth more, because the kernel accepts a last packet that
    goes beyond the size."""
    found = _USUAL_BYTES
    with contextlib.suppress(OSError, ValueError):
        found = int(processes.read("/proc/sys/net/core/wmem_default"))
    return found + found // 8

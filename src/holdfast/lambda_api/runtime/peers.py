"""Finds out whether the process at the other end of a local connection is a descendant of the guard.

The kernel's tables of connections have the inode of each socket. A socket that its owner has closed stays in the table with inode 0 and
user 0, whichever process owned it. So a connection is accepted only if it is established at both ends, and if the socket at its other end
is an open descriptor of a descendant of the guard at this moment. If the tables cannot be read, the connection is refused. A system
without `/proc` accepts every connection.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from holdfast.lambda_api.runtime.process_memory import below

_TABLE: Final = "/proc/net/tcp"
_TABLE_6: Final = "/proc/net/tcp6"
_ESTABLISHED: Final = b"01"
_INODE: Final = 5
"""The index of the inode among the fields of a row that come after the state; the first of these has the index 0."""
_MAPPED: Final = bytes(10) + b"\xff\xff"
_LOOKS: Final = 2
"""The socket is searched at most this many times: while a child ends, the kernel's list of children may miss another child."""
_MOST_DESCRIPTORS: Final = 20_000
"""A search looks at this many descriptors of the descendants of a guard at most, because more would take too long. If the socket is not
among these descriptors, the connection is refused."""


def can_tell() -> bool:
    """Whether this system has `/proc`, which tells which process owns a connection."""
    return os.path.isdir("/proc/self")


def is_from_below(transport: asyncio.Transport, guard: int | None) -> bool:
    """Whether the other end of a connection belongs to a descendant of the process with the pid `guard`. False if that cannot be found out;
    True on a system without `/proc`."""
    if not can_tell():
        return True
    theirs, ours = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
    own = transport.get_extra_info("socket")
    if guard is None or theirs is None or ours is None or own is None:
        return False  # the connection is closed already, or there is no guard yet
    try:
        table = Path(_TABLE).read_bytes()
        if _socket_of(table, _hexed(ours), _hexed(theirs)) != os.fstat(own.fileno()).st_ino:
            return False
        # The end of a program that uses IPv6 sockets for both protocols is in the other table.
        inode = _socket_of(table, _hexed(theirs), _hexed(ours)) or _socket_of(
            Path(_TABLE_6).read_bytes(), _hexed(theirs, _MAPPED), _hexed(ours, _MAPPED)
        )
        return inode != 0 and any(_is_open(inode, guard) for _ in range(_LOOKS))
    except (OSError, ValueError, IndexError):
        return False


def _socket_of(table: bytes, here: bytes, there: bytes) -> int:
    """The inode of the socket at the address `here`, if the table has an established connection from `here` to `there`; else 0."""
    _, found, rest = table.partition(b" %s %s %s " % (here, there, _ESTABLISHED))
    return int(rest[: rest.find(b"\n")].split()[_INODE]) if found else 0


def _hexed(address: tuple[str, int], before: bytes = b"") -> bytes:
    """An address in the form of the kernel's table: words of four bytes in this machine's byte order. `before` has the bytes that come
    before an IPv4 address in its IPv6 form; empty for the table of IPv4."""
    host, port = address[:2]
    packed = before + socket.inet_aton(host)
    words = (packed[at : at + 4] for at in range(0, len(packed), 4))
    return b"%s:%04X" % (b"".join(b"%08X" % int.from_bytes(word, sys.byteorder) for word in words), port)


def _is_open(inode: int, guard: int) -> bool:
    wanted = f"socket:[{inode}]"
    for count, descriptor in enumerate(_descriptors(guard)):
        if count >= _MOST_DESCRIPTORS:
            return False
        try:
            if os.readlink(descriptor) == wanted:
                return True
        except OSError:  # closed meanwhile
            continue
    return False


def _descriptors(guard: int) -> Iterator[str]:
    for pid in below(guard):
        folder = f"/proc/{pid}/fd"
        try:
            names = os.listdir(folder)
        except OSError:  # this process has ended meanwhile
            continue
        yield from (f"{folder}/{name}" for name in names)

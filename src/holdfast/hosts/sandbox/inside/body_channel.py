"""The bytes and the descriptors that the runner, the stub, the keeper and the body send each other over sockets."""

from __future__ import annotations

import array
import errno
import select
import socket
from typing import Final

_CROWDED_SECONDS: Final = 0.01
AS_THE_JAIL_SAYS: Final = b"a"
WITHOUT_CHILDREN: Final = b"n"
"""For each attempt the runner sends two bytes to the stub. The first is WITHOUT_CHILDREN if the body may start no processes, else
AS_THE_JAIL_SAYS: then the jail decides. The second is the nice value."""
SCRATCH: Final = b"s"
ARE_YOU_THERE: Final = b"?"
I_AM: Final = b"!"
"""A process in lockdown sends ARE_YOU_THERE to its keeper before it sends its report. The keeper answers with I_AM."""


def sent_along(line: socket.socket, data: memoryview, *fds: int) -> int:
    """Send data with descriptors, and return how many bytes were sent.

    The kernel counts descriptors in flight per user, and bodies share a user. So a body waits here while another body has too many
    descriptors in flight. The timeout of the waiting body continues to run.
    """
    while True:
        try:
            return line.sendmsg([data], rights(*fds))
        except OSError as error:
            if error.errno != errno.ETOOMANYREFS:
                raise
            select.select([], [], [], _CROWDED_SECONDS)


def rights(*fds: int) -> list[tuple[int, int, bytes]]:
    """The ancillary data that carries these descriptors."""
    return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds).tobytes())]


def received(ancillary: list[tuple[int, int, bytes]]) -> list[int]:
    """The descriptors in the ancillary data of a received message."""
    fds = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
    return list(fds)

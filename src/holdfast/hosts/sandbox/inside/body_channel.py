"""The body's end of the channel. A frame is four bytes of length, big-endian, then a JSON object; it may carry one descriptor."""

from __future__ import annotations

import array
import errno
import json
import select
import socket
from typing import Any, Final

_LENGTH: Final = 4
_CHUNK: Final = 64 * 1024
_FDS: Final = 4
_CROWDED_SECONDS: Final = 0.01
AS_THE_JAIL_SAYS: Final = b"a"
WITHOUT_CHILDREN: Final = b"n"
"""For each attempt the runner sends two bytes to the stub. The first is WITHOUT_CHILDREN if the body may start no processes, else
AS_THE_JAIL_SAYS: then the jail decides. The second is the nice value."""
SCRATCH: Final = b"s"
ARE_YOU_THERE: Final = b"?"
I_AM: Final = b"!"
"""A process in lockdown sends ARE_YOU_THERE to its keeper before it sends its report. The keeper answers with I_AM."""


class Channel:
    """The body's end of the channel. Its calls block. Frames arrive in the order in which they were sent. At most one thread may send at a
    time, and at most one may receive."""

    def __init__(self, fd: int) -> None:
        self._socket = socket.socket(fileno=fd)
        self._buffer = b""
        self._fds: list[int] = []

    def fileno(self) -> int:
        """The descriptor, for a body that waits for frames in its own loop."""
        return self._socket.fileno()

    def send(self, frame: dict[str, Any], fd: int | None = None) -> None:
        """Send one frame, with a descriptor if `fd` is given."""
        text = json.dumps(frame, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
        data = memoryview(len(text).to_bytes(_LENGTH, "big") + text)
        if fd is not None:
            data = data[sent_along(self._socket, data, fd) :]
        if data:
            self._socket.sendall(data)

    def receive(self) -> tuple[dict[str, Any], list[int]] | None:
        """Receive one frame with its descriptors; None when the runner has closed the channel."""
        while (frame := self._next()) is None:
            data, ancillary, _, _ = self._socket.recvmsg(_CHUNK, socket.CMSG_SPACE(_FDS * 4))
            if not data:
                return None
            self._buffer += data
            self._fds += received(ancillary)
        fds, self._fds = self._fds, []
        return frame, fds

    def _next(self) -> dict[str, Any] | None:
        end = _LENGTH + int.from_bytes(self._buffer[:_LENGTH], "big")
        if len(self._buffer) < max(end, _LENGTH):
            return None
        text, self._buffer = self._buffer[_LENGTH:end], self._buffer[end:]
        frame = json.loads(text)
        assert isinstance(frame, dict)
        return frame


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

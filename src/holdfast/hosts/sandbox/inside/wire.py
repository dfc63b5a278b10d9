"""Frames as a body speaks them: four bytes of length, big-endian, then a JSON object; one descriptor may ride along."""

from __future__ import annotations

import array
import json
import socket
from typing import Any, Final

_LENGTH: Final = 4
_CHUNK: Final = 64 * 1024
_FDS: Final = 4
AS_THE_JAIL_SAYS: Final = b"a"
WITHOUT_CHILDREN: Final = b"n"
"""What the runner asks the stub for, one byte for each attempt."""


class Channel:
    """The body's end: blocking, in order. One thread sends at a time, one receives."""

    def __init__(self, fd: int) -> None:
        self._socket = socket.socket(fileno=fd)
        self._buffer = b""
        self._fds: list[int] = []

    def fileno(self) -> int:
        """For whoever waits for frames in a loop of its own."""
        return self._socket.fileno()

    def send(self, frame: dict[str, Any], fd: int | None = None) -> None:
        """One frame out."""
        text = json.dumps(frame, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
        data = memoryview(len(text).to_bytes(_LENGTH, "big") + text)
        if fd is not None:
            data = data[self._socket.sendmsg([data], rights(fd)) :]
        if data:
            self._socket.sendall(data)

    def receive(self) -> tuple[dict[str, Any], list[int]] | None:
        """One frame in, with what rode along; None when the runner closed the line."""
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


def rights(*fds: int) -> list[tuple[int, int, bytes]]:
    """Descriptors as they ride on a message."""
    return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds).tobytes())]


def received(ancillary: list[tuple[int, int, bytes]]) -> list[int]:
    """The descriptors of a message."""
    fds = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
    return list(fds)

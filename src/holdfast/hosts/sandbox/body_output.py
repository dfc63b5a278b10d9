"""The output of a body. Its beginning is kept, up to a limit. The output after that is read slowly and dropped, so that too much output
slows the body, not the runner."""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import Final

_CHUNK: Final = 64 * 1024
_PAUSE_SECONDS: Final = 0.02


class BodyOutput:
    """The reading end of the body's standard output and error."""

    def __init__(self, fd: int, most: int, loop: asyncio.AbstractEventLoop) -> None:
        self._fd = fd
        self._most = most
        self._loop = loop
        self._kept = bytearray()
        self._pause: asyncio.TimerHandle | None = None
        self._open = True
        self._cut = False
        os.set_blocking(fd, False)
        loop.add_reader(fd, self._read)

    def kept(self) -> bytes:
        """The output of the body, up to the limit."""
        return bytes(self._kept)

    def close(self) -> None:
        """Read what is left in the pipe, until the limit of the kept output is reached, and close the pipe. Call this when the body is
        dead."""
        if self._pause is not None:
            self._pause.cancel()
        more = self._open and not self._cut
        while more:
            more = self._read() and not self._cut
        self._end()

    def _read(self) -> bool:
        try:
            data = os.read(self._fd, _CHUNK)
        except BlockingIOError:
            return False
        if not data:
            self._end()
            return False
        room = self._most - len(self._kept)
        self._kept += data[:room]
        if len(data) > room:
            self._cut = True
            self._loop.remove_reader(self._fd)
            self._pause = self._loop.call_later(_PAUSE_SECONDS, self._again)
        return True

    def _again(self) -> None:
        if self._open:
            self._loop.add_reader(self._fd, self._read)

    def _end(self) -> None:
        if not self._open:
            return
        self._open = False
        with contextlib.suppress(OSError, ValueError):
            self._loop.remove_reader(self._fd)
        os.close(self._fd)

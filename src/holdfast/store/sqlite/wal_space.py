"""Space in the WAL for what is written next.

A file that grows costs more to sync: the kernel must write its new length as well, which may take as long as the data. So the WAL is made
longer in large pieces, with zeros that SQLite then writes over. When it is read, what follows the last good frame counts as nothing.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Final

_PIECE: Final = bytes(1024 * 1024)
_TAIL: Final = 8192
"""More than a frame has, whose head is never all zeros."""


class WalSpace:
    """The WAL of one open file."""

    def __init__(self, where: str) -> None:
        self._file: int | None = os.open(f"{where}-wal", os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        self._length: int | None = None

    def make(self) -> None:
        """Make it longer if it has grown since. Only inside a transaction that writes: then nobody else does."""
        assert self._file is not None
        length = os.fstat(self._file).st_size
        grown, self._length = self._length is not None and length > self._length, length
        if grown and any(os.pread(self._file, _TAIL, max(0, length - _TAIL))):  # else somebody else has made room
            with suppress(OSError):  # a full disk is told of by the write that needs it
                self._length += os.pwrite(self._file, _PIECE, length)

    def close(self) -> None:
        """Let go of the file, once: its number may be somebody else's by then."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

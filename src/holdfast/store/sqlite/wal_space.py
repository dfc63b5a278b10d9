"""Space in the WAL for the next writes.

A file that grows costs more to sync: the kernel must write its new length as well, which may take as long as writing the data. So the store
makes the WAL longer in large pieces of zeros, and SQLite then writes over the zeros. When SQLite reads the WAL, it ignores everything after
the last good frame.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Final

_PIECE: Final = bytes(1024 * 1024)
_TAIL: Final = 8192
"""`make` reads this many bytes at the end of the WAL. If all of them are zeros, there is still space: a frame is shorter than this, and its
head is never all zeros."""


class WalSpace:
    """The WAL of one open file."""

    def __init__(self, where: str) -> None:
        self._file: int | None = os.open(f"{where}-wal", os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        self._length: int | None = None

    def make(self) -> None:
        """Make the WAL longer if SQLite has used up its space since the last call. Call it only inside a write transaction: then no other
        process writes."""
        assert self._file is not None
        length = os.fstat(self._file).st_size
        grown, self._length = self._length is not None and length > self._length, length
        if grown and any(os.pread(self._file, _TAIL, max(0, length - _TAIL))):  # else another process has made space
            with suppress(OSError):  # if the disk is full, the write that needs the space reports it
                self._length += os.pwrite(self._file, _PIECE, length)

    def close(self) -> None:
        """Close the file. A second call does nothing."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

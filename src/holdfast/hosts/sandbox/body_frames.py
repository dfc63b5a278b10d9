"""FrameReader: splits, checks and counts the frames of a body. The body may be hostile, so this happens before their content is used."""

from __future__ import annotations

import fcntl
import os
import stat
from typing import Any, Final

import msgspec

from holdfast.hosts.sandbox.jail import Frame
from holdfast.model.shapes import crowding

_LENGTH: Final = 4
_FDS_PER_FRAME: Final = 1
_LARGE: Final = 64 * 1024
_DEPTH: Final = 200
_WORK_PER_SECOND: Final = 1000
"""How many units of work the frames of a body may cause in a second. A frame is at least one unit, and a large frame is more. The runner
needs less than a tenth of a millisecond for one unit."""
_BYTES_OF_WORK: Final = 16 * 1024
_VALUES_OF_WORK: Final = 200
_LONGEST_REST: Final = 1.0


class Malformed(Exception):
    """The body broke a rule of the channel. The message names the rule."""


class FrameReader:
    """Turns the bytes that a body sends into frames."""

    def __init__(self, frame_bytes: int, frames_per_second: int, now: float) -> None:
        self._most = frame_bytes
        self._rate = frames_per_second
        self._credit = float(frames_per_second)
        self._counted_at = now
        self._work = float(_WORK_PER_SECOND)
        self._buffer = bytearray()
        self._fds: list[int] = []

    @property
    def rest(self) -> float:
        """The seconds, at most 1, that the runner must wait before it reads from this body again. 0 unless the body's frames caused more
        work than `_WORK_PER_SECOND` allows."""
        return min(max(0.0, -self._work / _WORK_PER_SECOND), _LONGEST_REST)

    def take(self, data: bytes, fds: list[int], now: float) -> list[Frame]:
        """Add received bytes, and return the frames that are complete now. The descriptors `fds` belong to the frame that the last byte of
        `data` is part of: the kernel ends a read after bytes that carry descriptors.

        Raises Malformed if the body broke a rule. Then all descriptors are closed: those in `fds`, and those of frames that were not
        returned yet.
        """
        self._buffer += data
        begun, self._fds = self._fds, []
        frames: list[Frame] = []
        try:
            for fd in fds:
                _check(fd)
            while (text := self._cut()) is not None:
                frames.append(Frame(_decoded(text), tuple(begun)))
                begun = []
                self._count(now, 1 + len(text) // _LARGE)
                self._work -= 1 + len(text) // _BYTES_OF_WORK + (text.count(b",") + text.count(b"[")) // _VALUES_OF_WORK
            self._fds = begun
            if fds and frames and not self._buffer:
                frames[-1] = Frame(frames[-1].data, (*frames[-1].fds, *fds))
            else:
                self._fds = self._fds + fds
            if any(len(held) > _FDS_PER_FRAME for held in (self._fds, *(frame.fds for frame in frames))):
                raise Malformed("more than one descriptor with a frame")
        except Malformed:
            for fd in {*begun, *fds, *self._fds, *(fd for frame in frames for fd in frame.fds)}:
                os.close(fd)
            self._fds = []
            raise
        return frames

    def close(self) -> None:
        """Close descriptors that belong to no complete frame."""
        for fd in self._fds:
            os.close(fd)
        self._fds = []

    def _cut(self) -> bytes | None:
        if len(self._buffer) < _LENGTH:
            return None
        length = int.from_bytes(self._buffer[:_LENGTH], "big")
        if length > self._most:
            raise Malformed(f"a frame of {length} bytes; at most {self._most} are allowed")
        end = _LENGTH + length
        if len(self._buffer) < end:
            return None
        text = bytes(self._buffer[_LENGTH:end])
        del self._buffer[:end]
        return text

    def _count(self, now: float, frames: int) -> None:
        """Count frames against the rate limit. `frames` is 1 for a small frame, and more for a large one. All frames that one second allows
        may come at the same moment. Raises Malformed if the limit is exceeded."""
        passed = now - self._counted_at
        self._credit = min(self._rate, self._credit + passed * self._rate)
        self._work = min(_WORK_PER_SECOND, self._work + passed * _WORK_PER_SECOND)
        self._counted_at = now
        self._credit -= frames
        if self._credit < 0:
            raise Malformed(f"more than {self._rate} frames in a second; a frame counts once more for each 64 KiB")


def encoded(frame: dict[str, Any]) -> bytes:
    """The bytes of one frame, with its length."""
    text = msgspec.json.encode(frame)
    return len(text).to_bytes(_LENGTH, "big") + text


def _decoded(text: bytes) -> dict[str, Any]:
    if (crowded := crowding(text, _DEPTH)) is not None:
        raise Malformed(f"a frame that {crowded}")
    try:
        data = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise Malformed(f"a frame that is not JSON: {error}") from None
    if not isinstance(data, dict):
        raise Malformed("a frame that is not an object")
    return data


def _check(fd: int) -> None:
    """Raises Malformed unless the descriptor is a regular file that is open for reading: a read of a pipe, socket or device could block."""
    flags = fcntl.fcntl(fd, fcntl.F_GETFL)
    if not stat.S_ISREG(os.fstat(fd).st_mode) or flags & os.O_ACCMODE == os.O_WRONLY or flags & getattr(os, "O_PATH", 0):
        raise Malformed("a descriptor that is not a regular file open for reading")

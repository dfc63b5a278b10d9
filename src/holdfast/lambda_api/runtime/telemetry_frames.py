"""Telemetry frames: log records that a runtime client writes to the descriptor in `_LAMBDA_TELEMETRY_LOG_FD`, with length and level.

    type, 4 bytes: 0xa55a00 and a byte of bits | length, 4 bytes | microseconds, 8 bytes | the record

The two lowest bits of the type are 2 for JSON and 3 for text; the bits above them are the level. A frame may contain line ends, so a
traceback of many lines is one record. The client runs in the function's own process, so it is not trusted: bytes that are not a frame are
passed on as text, and memory is never reserved for the length that a frame states.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

_HEAD: Final = struct.Struct(">IIQ")
_MAGIC: Final = b"\xa5\x5a\x00"
_LEVELS: Final = (None, "TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL")


class TelemetryFrame(NamedTuple):
    """A log record that the client wrote, a piece of a record that is too long, or a line that was in no frame. `level` is None for such a
    line and for a record without a level."""

    text: bytes
    level: str | None


class TelemetryFrames:
    """Splits the bytes that a runtime client writes into records."""

    def __init__(self, most: int) -> None:
        """A record with more than `most` bytes is returned in pieces of `most` bytes."""
        self._most = most
        self._held = b""
        self._left: int | None = None
        """How many bytes of the current record have not been returned; None between two records."""
        self._level: str | None = None

    def take(self, data: bytes) -> list[TelemetryFrame]:
        """Add the bytes that have arrived, and return the records and pieces that are complete now, and the lines between frames."""
        held, at, found = self._held + data, 0, list[TelemetryFrame]()
        while True:
            if self._left is None:
                if len(held) - at < _HEAD.size:
                    break
                if not self._begin(held, at):
                    until = _stray(held, at)
                    found += [TelemetryFrame(line, None) for line in held[at:until].split(b"\n") if line]
                    at = until
                    continue
                at += _HEAD.size
            left = self._left or 0
            size = min(left, self._most)
            if len(held) - at < size:
                break
            found.append(self._piece(held[at : at + size], is_last=size == left))
            at += size
            self._left = left - size or None
        self._held = held[at:]
        return found

    def rest(self) -> list[TelemetryFrame]:
        """Call this when the process has ended. Returns the bytes that are left as one record, or an empty list. The record has the level
        of its frame if the head of the frame was complete, else none."""
        level = None if self._left is None else self._level
        held, self._held, self._left = self._held, b"", None
        return [TelemetryFrame(held, level)] if held else []

    def _begin(self, held: bytes, at: int) -> bool:
        kind, length, _ = _HEAD.unpack_from(held, at)
        bits = kind & 0xFF
        if not held.startswith(_MAGIC, at) or bits & 2 == 0 or bits >> 2 >= len(_LEVELS):
            return False
        self._left, self._level = length, _LEVELS[bits >> 2]
        return True

    def _piece(self, text: bytes, *, is_last: bool) -> TelemetryFrame:
        return TelemetryFrame(text.removesuffix(b"\n") if is_last else text, self._level)


def _stray(held: bytes, at: int) -> int:
    """`held` has bytes at the index `at` that are not a frame. Returns the index where they end and the next frame may begin."""
    begins = held.find(_MAGIC, at + 1)
    return begins if begins >= 0 else max(len(held) - len(_MAGIC) + 1, at + 1)

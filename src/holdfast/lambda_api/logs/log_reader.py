"""LogReader: pages of kept records, forwards and backwards. Each page has limits: the number of records, their bytes, the bytes searched,
and the time. So a page may have fewer records than the caller asked for, even none, and not be the last one.

A position is the number of a segment and an offset in it. It stays valid when newer records are added and when the oldest are removed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from itertools import takewhile, zip_longest
from pathlib import Path
from typing import Final

import msgspec

from holdfast.lambda_api.logs.log_lines import LogLine
from holdfast.lambda_api.logs.segments import KeptRecord, LogFolder, LogPosition, Segment, read
from holdfast.model.clock import monotonic

MAX_EVENTS: Final = 10_000
_PAGE_BYTES: Final = 1024 * 1024
_LOOKED_BYTES: Final = 4 * 1024 * 1024
_LOOKED_SECONDS: Final = 1.0
_SUMMARIES: Final = 4096

LineFilter = Callable[[LogLine], bool]
BEGINNING: Final = LogPosition(0, 0)


class LogPage(msgspec.Struct, frozen=True):
    """The records of one page, in the order in which they were read."""

    found: list[KeptRecord]
    end: LogPosition
    """The position at which the next page begins."""
    is_last: bool
    """True if the search reached the end of the log in its direction (backwards: the beginning, or a segment that ends before the time
    `since`). New records may be added later."""


class Stream(msgspec.Struct):
    """A summary of one stream: the times of its first and its last record, and the bytes of its records in UTF-8 (`size`)."""

    first: int
    last: int
    size: int = 0


StreamSummary = dict[tuple[str, str | None], Stream]
"""Summaries of streams, by the name of the stream and the tenant."""


class LogReader:
    """Reads the log folder. All methods block."""

    def __init__(self, folder: LogFolder, now: Callable[[], float] = monotonic) -> None:
        self.folder = folder
        self._now = now
        self._summaries: dict[tuple[Path, int], StreamSummary] = {}
        self._adding = threading.Lock()

    def forward(self, function: str, begin: LogPosition, since: int, wanted: LineFilter, limit: int) -> LogPage:
        """The next records after the position `begin` for which `wanted` returns True, the oldest first, at most `limit`. Segments that end
        before the time `since` are skipped; older records in other segments are skipped only if `wanted` refuses them."""
        collected = _Collected(limit, self._now)
        end = begin
        segments = [one for one in self.folder.segments(function) if one.number >= begin.segment and one.last >= since]
        for segment, later in zip_longest(segments, segments[1:]):
            offset = begin.offset if segment.number == begin.segment else 0
            for kept in read(segment, offset):
                end = kept.end
                if (wanted(kept.record) and collected.is_full_with(kept)) or collected.is_late:
                    return LogPage(collected.found, end, is_last=False)
            collected.looked += segment.size - offset
            if later is not None and collected.looked > _LOOKED_BYTES:  # not the end of the last record: what follows it may be unreadable
                return LogPage(collected.found, LogPosition(later.number, 0), is_last=False)
        return LogPage(collected.found, end, is_last=True)

    def backward(self, function: str, end: LogPosition | None, since: int, wanted: LineFilter, limit: int) -> LogPage:
        """The next records before the position `end` for which `wanted` returns True, the newest first, at most `limit`. If `end` is None,
        the newest record comes first. Segments that end before the time `since` are skipped; older records in other segments are skipped
        only if `wanted` refuses them."""
        collected = _Collected(limit, self._now)
        begin = end or self.newest(function)
        for segment in reversed(self.folder.segments(function)):
            if end is not None and LogPosition(segment.number, 0) >= end:
                continue
            if segment.last < since:
                break
            before = read(segment) if end is None else takewhile(lambda kept: kept.begin < end, read(segment))
            for kept in reversed(list(before)):
                begin = kept.begin
                if (wanted(kept.record) and collected.is_full_with(kept)) or collected.is_late:
                    return LogPage(collected.found, begin, is_last=False)
            collected.looked += segment.size
            if collected.looked > _LOOKED_BYTES:
                return LogPage(collected.found, min(begin, LogPosition(segment.number, 0)), is_last=False)
        return LogPage(collected.found, begin, is_last=True)

    def newest(self, function: str) -> LogPosition:
        """The position after the newest record; BEGINNING if the log has no segment."""
        segments = self.folder.segments(function)
        return LogPosition(segments[-1].number, segments[-1].size) if segments else BEGINNING

    def streams(self, function: str, tenant: str | None, since: int) -> dict[str, Stream]:
        """The streams of a log, by name. Only records of `tenant` count; if `tenant` is None, the records of all tenants. The records of a
        stream in one segment count only if the last of them is at or after the time `since`."""
        found: dict[str, Stream] = {}
        for segment in self.folder.segments(function):
            for (name, whose), part in self._summary(segment).items():
                if part.last < since or (tenant is not None and whose != tenant):
                    continue
                whole = found.setdefault(name, Stream(part.first, part.last))
                whole.first, whole.last = min(whole.first, part.first), max(whole.last, part.last)
                whole.size += part.size
        return found

    def _summary(self, segment: Segment) -> StreamSummary:
        key = (segment.path, segment.size)  # a segment only grows, so an equal size means equal content
        found = self._summaries.get(key)
        if found is None:
            found = _summed(kept.record for kept in read(segment))
            with self._adding:
                self._summaries[key] = found
                while len(self._summaries) > _SUMMARIES:
                    del self._summaries[next(iter(self._summaries))]
        return found


class _Collected:
    def __init__(self, limit: int, now: Callable[[], float]) -> None:
        self._now = now
        self._until = now() + _LOOKED_SECONDS
        self.found: list[KeptRecord] = []
        self.looked = 0
        self._limit = limit
        self._bytes = 0

    @property
    def is_late(self) -> bool:
        """Whether the time for this page is used up. There is a time limit, because a caller may choose a slow filter. The next page
        continues where this page ended."""
        return self._now() > self._until

    def is_full_with(self, kept: KeptRecord) -> bool:
        self.found.append(kept)
        self._bytes += _size(kept.record.text)
        return len(self.found) >= self._limit or self._bytes >= _PAGE_BYTES


def _summed(records: Iterable[LogLine]) -> StreamSummary:
    found: StreamSummary = {}
    for record in records:
        stream = found.setdefault((record.stream, record.tenant), Stream(record.at, record.at))
        stream.first, stream.last = min(stream.first, record.at), max(stream.last, record.at)
        stream.size += _size(record.text)
    return found


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))

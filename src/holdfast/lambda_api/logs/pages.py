"""Reading: pages of what is kept, forwards and backwards. A page is bounded in records, bytes, and how much is looked at for how long.

Places are segments and offsets, so a page is found again also after others were added, and after the oldest went.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from itertools import takewhile
from pathlib import Path
from typing import Final

import msgspec

from holdfast.lambda_api.logs.records import Record
from holdfast.lambda_api.logs.segments import Folder, Kept, Position, Segment, read
from holdfast.model.clock import monotonic

MAX_EVENTS: Final = 10_000
_PAGE_BYTES: Final = 1024 * 1024
_LOOKED_BYTES: Final = 4 * 1024 * 1024
_LOOKED_SECONDS: Final = 1.0
_SUMMARIES: Final = 4096

Wanted = Callable[[Record], bool]
BEGINNING: Final = Position(0, 0)


class Page(msgspec.Struct, frozen=True):
    """Some records, in the order they were looked at."""

    found: list[Kept]
    end: Position
    """Where to go on."""
    is_last: bool
    """Nothing is left in this direction, for now."""


class Stream(msgspec.Struct):
    """What a process logged of one tenant, in short."""

    first: int
    last: int
    size: int = 0


Summary = dict[tuple[str, str | None], Stream]
"""By stream and tenant."""


class Reader:
    """Reads a folder. Everything here blocks."""

    def __init__(self, folder: Folder, now: Callable[[], float] = monotonic) -> None:
        self.folder = folder
        self._now = now
        self._summaries: dict[tuple[Path, int], Summary] = {}
        self._adding = threading.Lock()

    def forward(self, function: str, begin: Position, since: int, wanted: Wanted, limit: int) -> Page:
        """The next records from a place on."""
        collected = _Collected(limit, self._now)
        end = begin
        for segment in self.folder.segments(function):
            if segment.number < begin.segment or segment.last < since:
                continue
            offset = begin.offset if segment.number == begin.segment else 0
            for kept in read(segment, offset):
                end = kept.end
                if (wanted(kept.record) and collected.is_full_with(kept)) or collected.is_late:
                    return Page(collected.found, end, is_last=False)
            collected.looked += segment.size - offset
            if collected.looked > _LOOKED_BYTES:
                return Page(collected.found, max(end, Position(segment.number, 0)), is_last=False)
        return Page(collected.found, end, is_last=True)

    def backward(self, function: str, end: Position | None, since: int, wanted: Wanted, limit: int) -> Page:
        """The records before a place, or before now, the newest first."""
        collected = _Collected(limit, self._now)
        begin = end or self.newest(function)
        for segment in reversed(self.folder.segments(function)):
            if end is not None and segment.number > end.segment:
                continue
            if segment.last < since:
                break
            before = read(segment) if end is None else takewhile(lambda kept: kept.begin < end, read(segment))
            for kept in reversed(list(before)):
                begin = kept.begin
                if (wanted(kept.record) and collected.is_full_with(kept)) or collected.is_late:
                    return Page(collected.found, begin, is_last=False)
            collected.looked += segment.size
            if collected.looked > _LOOKED_BYTES:
                return Page(collected.found, min(begin, Position(segment.number, 0)), is_last=False)
        return Page(collected.found, begin, is_last=True)

    def newest(self, function: str) -> Position:
        """The place after everything."""
        segments = self.folder.segments(function)
        return Position(segments[-1].number, segments[-1].size) if segments else BEGINNING

    def streams(self, function: str, tenant: str | None, since: int) -> dict[str, Stream]:
        """The streams of a log, of all tenants or of one."""
        found: dict[str, Stream] = {}
        for segment in self.folder.segments(function):
            for (name, whose), part in self._summary(segment).items():
                if part.last < since or (tenant is not None and whose != tenant):
                    continue
                whole = found.setdefault(name, Stream(part.first, part.last))
                whole.first, whole.last = min(whole.first, part.first), max(whole.last, part.last)
                whole.size += part.size
        return found

    def _summary(self, segment: Segment) -> Summary:
        key = (segment.path, segment.size)  # a segment only grows, so its size says whether it is the same
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
        self.found: list[Kept] = []
        self.looked = 0
        self._limit = limit
        self._bytes = 0

    @property
    def is_late(self) -> bool:
        """A caller chooses what is compared with each record; the next page goes on from here."""
        return self._now() > self._until

    def is_full_with(self, kept: Kept) -> bool:
        self.found.append(kept)
        self._bytes += len(kept.record.text)
        return len(self.found) >= self._limit or self._bytes >= _PAGE_BYTES


def _summed(records: Iterable[Record]) -> Summary:
    found: Summary = {}
    for record in records:
        stream = found.setdefault((record.stream, record.tenant), Stream(record.at, record.at))
        stream.first, stream.last = min(stream.first, record.at), max(stream.last, record.at)
        stream.size += len(record.text)
    return found

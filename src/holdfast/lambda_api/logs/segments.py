"""The files: JSON lines in segments, a folder of them for each function, beside the store.

    lock                        held while something is added or removed
    NAME-HASH/group.json        whose log it is, and since when
    NAME-HASH/0000000001.jsonl  records in the order they came; full ones never change, and the oldest go first

A segment's time of modification is the time of its last record. Nothing is synced: a log is not worth a disk's time, and a torn line is
left out. Several processes may write to one folder.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from holdfast.files import private
from holdfast.lambda_api.logs.records import Record

DAY_MS: Final = 86_400_000
_SUFFIX: Final = ".jsonl"
_ODD: Final = re.compile(r"[^A-Za-z0-9_-]")
_decode = msgspec.json.Decoder(Record).decode
_encode = msgspec.json.Encoder().encode


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """How much of the logs is kept: what is over one of these goes, the oldest first."""

    max_bytes: int = 256 * 1024 * 1024
    """Of all functions together; 0 keeps nothing."""
    max_days: int = 14

    @property
    def segment_bytes(self) -> int:
        """When a segment is full: a small part of all, because a segment goes as a whole."""
        return max(64 * 1024, min(4 * 1024 * 1024, self.max_bytes // 16))

    def oldest(self, now: int) -> int:
        """The time before which nothing is kept."""
        return now - self.max_days * DAY_MS


class Group(msgspec.Struct, frozen=True):
    """The log of one function."""

    function: str
    created: int


class Position(NamedTuple):
    """A place between two records."""

    segment: int
    offset: int


class Kept(NamedTuple):
    """A record and where it is."""

    begin: Position
    end: Position
    record: Record


class Segment(NamedTuple):
    """One file."""

    number: int
    path: Path
    size: int
    last: int
    """The time of its last record."""


def folder_of(store: str) -> Path | None:
    """Where the logs of a store are kept: beside its file; for a database, in the current folder; for memory, nowhere."""
    if store == ":memory:":
        return None
    return Path("holdfast.logs").absolute() if "://" in store else Path(f"{store}.logs").absolute()


class Folder:
    """All logs of a store on this machine. Everything here blocks."""

    def __init__(self, root: Path, retention: Retention) -> None:
        self.root = root
        self.retention = retention

    # --- reading

    def groups(self) -> list[Group]:
        """Every function that has a log."""
        return sorted(filter(None, map(_group, self.root.glob("*/group.json"))), key=lambda group: group.function)

    def group(self, function: str) -> Group | None:
        """The log of a function."""
        return _group(self._place(function) / "group.json")

    def segments(self, function: str) -> list[Segment]:
        """The files of a log, the oldest first."""
        return _segments(self._place(function))

    def has(self, function: str, position: Position) -> bool:
        """Whether a place is between two records, or was before they went."""
        found = self.segments(function)
        if not found or position.segment > found[-1].number:
            return False
        segment = next((one for one in found if one.number == position.segment), None)
        if segment is None or position.offset == 0:
            return True
        with contextlib.suppress(OSError), segment.path.open("rb") as file:
            file.seek(position.offset - 1)
            return file.read(1) == b"\n"
        return False

    # --- writing

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Be the one who writes; raises OSError where nothing can be written."""
        private.own_folder(self.root)
        lock = private.open_file(self.root / "lock")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def append(self, function: str, records: Sequence[Record], now: int) -> bool:
        """Add records, under the lock: all of them or, with an OSError, none. Whether it filled a segment."""
        place = self._place(function)
        newest = _newest(place)
        if newest is None:
            private.own_folder(place)
            _make_group(place, Group(function, now))
            newest = _made(place, 1)
        filled = newest.size >= self.retention.segment_bytes
        if filled:
            newest = _made(place, newest.number + 1)
        _append(newest, b"".join(_encode(record) + b"\n" for record in records))
        last = max(newest.last if newest.size else 0, records[-1].at)
        os.utime(newest.path, ns=(last * 1_000_000,) * 2)
        return filled

    def sweep(self, now: int) -> None:
        """Remove what is too old or too much, under the lock."""
        oldest, spare = self.retention.oldest(now), self.retention.max_bytes
        everything = [(segment, segments[-1]) for place in self._places() if (segments := _segments(place)) for segment in segments]
        for segment, newest in sorted(everything, key=lambda found: (found[0].last, found[0].number), reverse=True):
            spare -= segment.size
            if (spare < 0 or segment.last < oldest) and segment.size:
                if segment is newest:  # its number is not used again, so that nobody reads on in the middle of another
                    _made(segment.path.parent, segment.number + 1)
                segment.path.unlink(missing_ok=True)

    def _place(self, function: str) -> Path:
        """Inside the folder, whatever somebody asks for."""
        return self.root / f"{_ODD.sub('_', function)[:64]}-{hashlib.sha256(function.encode(errors='replace')).hexdigest()[:8]}"

    def _places(self) -> list[Path]:
        return [path.parent for path in self.root.glob("*/group.json")]


def read(segment: Segment, offset: int = 0) -> Iterator[Kept]:
    """The whole records of a segment from an offset on. What is torn is left out; a file that went has none."""
    try:
        with segment.path.open("rb") as file:
            file.seek(offset)
            data = file.read()
    except FileNotFoundError:
        return
    at = offset
    for line in data.split(b"\n")[:-1]:
        end = at + len(line) + 1
        with contextlib.suppress(msgspec.MsgspecError):
            yield Kept(Position(segment.number, at), Position(segment.number, end), _decode(line))
        at = end


def _segments(place: Path) -> list[Segment]:
    found = []
    with contextlib.suppress(FileNotFoundError), os.scandir(place) as entries:
        for entry in entries:
            number = entry.name.removesuffix(_SUFFIX)
            if entry.name.endswith(_SUFFIX) and number.isdecimal():
                with contextlib.suppress(FileNotFoundError):
                    status = entry.stat()
                    found.append(Segment(int(number), Path(entry.path), status.st_size, status.st_mtime_ns // 1_000_000))
    return sorted(found)


def _newest(place: Path) -> Segment | None:
    found = _segments(place)
    return found[-1] if found else None


def _made(place: Path, number: int) -> Segment:
    path = place / f"{number:010d}{_SUFFIX}"
    os.close(private.open_file(path))
    return Segment(number, path, 0, 0)


def _append(segment: Segment, data: bytes) -> None:
    file = os.open(segment.path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        size = os.fstat(file).st_size
        if size and os.pread(file, 1, size - 1) != b"\n":
            data = b"\n" + data  # somebody was killed while it wrote
        try:
            written = 0
            while written < len(data):
                written += os.write(file, data[written:])
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(file, size)
            raise
    finally:
        os.close(file)


def _make_group(place: Path, group: Group) -> None:
    draft = place / "group.json.new"
    draft.unlink(missing_ok=True)
    private.write_new(draft, _encode(group))
    draft.replace(place / "group.json")


def _group(path: Path) -> Group | None:
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        return msgspec.json.decode(path.read_bytes(), type=Group)
    return None

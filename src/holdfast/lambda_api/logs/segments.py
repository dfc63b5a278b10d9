"""The files of the logs: JSON lines in segments, one folder for each function, beside the store.

    lock                        held while records are added or removed
    NAME-HASH/group.json        the function of this log, and when the log began
    NAME-HASH/0000000001.jsonl  a segment: records in the order they came; a full segment never changes, and the oldest is removed first

The modification time of a segment is the time of its last record; or of its last write, if the file system refuses to set it. The files
are not synced to disk, because that would cost too much for a log: a crash of the machine may leave an incomplete line, and a reader skips
it. Several processes may write to one folder.
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
from holdfast.lambda_api.logs.log_lines import LogLine
from holdfast.model import json_structs

DAY_MS: Final = 86_400_000
_SUFFIX: Final = ".jsonl"
_ODD: Final = re.compile(r"[^A-Za-z0-9_-]")
_decode = json_structs.decoder(LogLine).decode
_encode = msgspec.json.Encoder().encode


class LogRetention(msgspec.Struct, frozen=True, kw_only=True):
    """How much of the logs is kept. If a limit is exceeded, whole segments are removed, the oldest first."""

    max_bytes: int = 256 * 1024 * 1024
    """If all logs together have more bytes than this, the oldest segments are removed: when a new segment begins, and else about every 10
    minutes while functions log. 0: no log is kept."""
    max_days: int = 14
    """Older records are not shown. Their segments are removed at the same times."""

    @property
    def segment_bytes(self) -> int:
        """A segment of this many bytes is full. The number is a sixteenth of `max_bytes`, because a segment is removed as a whole; but at
        least 64 KB, and at most 4 MB."""
        return max(64 * 1024, min(4 * 1024 * 1024, self.max_bytes // 16))

    def oldest(self, now: int) -> int:
        """The time of the oldest record that may be shown, in milliseconds since 1970."""
        return now - self.max_days * DAY_MS


class LogGroup(msgspec.Struct, frozen=True):
    """The log of one function, and when it began."""

    function: str
    created: int


class LogPosition(NamedTuple):
    """A position between two records: the number of a segment, and an offset in bytes."""

    segment: int
    offset: int


class KeptRecord(NamedTuple):
    """A record, and the positions before and after it."""

    begin: LogPosition
    end: LogPosition
    record: LogLine


class Segment(NamedTuple):
    """One file of a log. `number` is the number in its name; a newer segment has a higher number."""

    number: int
    path: Path
    size: int
    last: int
    """The time of its last record, in milliseconds since 1970."""


def folder_of(store: str) -> Path | None:
    """The folder for the logs of a store: beside the file of an SQLite store, or in the current folder for a Postgres store. None for a
    store in memory."""
    if store == ":memory:":
        return None
    return Path("holdfast.logs").absolute() if "://" in store else Path(f"{store}.logs").absolute()


class LogFolder:
    """All logs of a store on this machine. All methods block."""

    def __init__(self, root: Path, retention: LogRetention) -> None:
        self.root = root
        self.retention = retention

    # --- reading

    def groups(self) -> list[LogGroup]:
        """The logs of all functions that have logged a line, sorted by the name of the function."""
        return sorted(filter(None, map(_group, self.root.glob("*/group.json"))), key=lambda group: group.function)

    def group(self, function: str) -> LogGroup | None:
        """The log of a function; None if it has logged nothing, or if the file of its log cannot be read."""
        return _group(self._place(function) / "group.json")

    def segments(self, function: str) -> list[Segment]:
        """The files of a log, the oldest first."""
        return _segments(self._place(function))

    def has(self, function: str, position: LogPosition) -> bool:
        """Whether reading can continue at a position: it is at the beginning of a segment, directly after a record, or in an old segment
        that was removed. False if the log has no segments, or the position is beyond the newest one."""
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
        """Make the folder if it is missing, and hold its lock for writing; waits for the lock. Raises OSError if the folder cannot be
        written, and NotPrivate if it cannot be made private to this user."""
        private.own_folder(self.root)
        lock = private.open_file(self.root / "lock")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def append(self, function: str, records: Sequence[LogLine], now: int) -> bool:
        """Add records to the log of a function. The caller holds the lock. If they cannot be written, raises OSError or NotPrivate, and
        none of them is added. A log that does not exist yet is made; it begins at the time `now`.

        Returns True if the newest segment was full, so that a new segment began.
        """
        place = self._place(function)
        newest = _newest(place)
        if newest is None:
            private.own_folder(place)
            _make_group(place, LogGroup(function, now))
            newest = _made(place, 1)
        filled = newest.size >= self.retention.segment_bytes
        if filled:
            newest = _made(place, newest.number + 1)
        _append(newest, b"".join(_encode(record) + b"\n" for record in records))
        last = max(newest.last if newest.size else 0, records[-1].at)
        with contextlib.suppress(OSError):  # the records are written; the file system's own time is close to that of the last record
            os.utime(newest.path, ns=(last * 1_000_000,) * 2)
        return filled

    def sweep(self, now: int) -> None:
        """Remove the segments in which all records are too old. If all logs together still exceed the size limit, remove the oldest
        segments of all logs. The caller holds the lock."""
        oldest, spare = self.retention.oldest(now), self.retention.max_bytes
        everything = [(segment, segments[-1]) for place in self._places() if (segments := _segments(place)) for segment in segments]
        for segment, newest in sorted(everything, key=lambda found: (found[0].last, found[0].number), reverse=True):
            spare -= segment.size
            if (spare < 0 or segment.last < oldest) and segment.size:
                if segment is newest:  # so that its number is not used again: a reader's position must not point into another segment
                    _made(segment.path.parent, segment.number + 1)
                segment.path.unlink(missing_ok=True)

    def _place(self, function: str) -> Path:
        """The folder of a function's log. It is always directly inside the log folder, whatever characters the name has that a client
        sends."""
        return self.root / f"{_ODD.sub('_', function)[:64]}-{hashlib.sha256(function.encode(errors='replace')).hexdigest()[:8]}"

    def _places(self) -> list[Path]:
        return [path.parent for path in self.root.glob("*/group.json")]


def read(segment: Segment, offset: int = 0) -> Iterator[KeptRecord]:
    """The records of a segment, from an offset in bytes to the end. Incomplete lines are skipped. If the file was removed, there are no
    records."""
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
            yield KeptRecord(LogPosition(segment.number, at), LogPosition(segment.number, end), _decode(line))
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
            data = b"\n" + data  # a process was killed in the middle of a write
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


def _make_group(place: Path, group: LogGroup) -> None:
    draft = place / "group.json.new"
    draft.unlink(missing_ok=True)
    private.write_new(draft, _encode(group))
    draft.replace(place / "group.json")


def _group(path: Path) -> LogGroup | None:
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        return json_structs.decoded(path.read_bytes(), LogGroup)
    return None

"""LogWriter: a thread that writes the log lines of functions, so that no function waits for its log or fails because of it.

When too many lines wait, or the disk cannot be written, new lines are dropped and counted. The server logs a warning. The next line that is
written to the log is preceded by a record that says how many lines are missing.
"""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from holdfast.lambda_api.logs.log_lines import LogLine, dropped, record_of
from holdfast.lambda_api.logs.segments import LogFolder
from holdfast.lambda_api.runtime.process_output import OutputLine
from holdfast.model.clock import Clock
from holdfast.model.errors import NotPrivate

log = logging.getLogger("holdfast.service")

MAX_WAITING_BYTES: Final = 16 * 1024 * 1024
_GATHER_SECONDS: Final = 0.05
"""How long the thread waits for more lines before it writes, so that a busy function does not wake it for each line."""
_SWEEP_MS: Final = 600_000
_CLOSE_SECONDS: Final = 5.0
_TOO_MUCH: Final = "more lines came than could be written"


class LogWriter:
    """Writes the logs into a folder. Any thread may call its methods."""

    def __init__(self, folder: LogFolder, clock: Clock, *, max_waiting_bytes: int = MAX_WAITING_BYTES) -> None:
        self.folder = folder
        self.dropped = 0
        """The number of lines that were dropped since the writer was made."""
        self._clock = clock
        self._most = max_waiting_bytes
        self._changed = threading.Condition()
        self._waiting: list[OutputLine] = []
        self._bytes = 0
        self._came = 0
        self._done = 0
        self._hurry = False
        self._closed = False
        self._lost: dict[str, tuple[int, str]] = {}
        self._failing = False
        self._swept: int | None = None
        self._thread: threading.Thread | None = None

    def put(self, lines: Sequence[OutputLine]) -> None:
        """Queue these lines for writing, and return at once. If too many bytes would wait then, these lines are dropped and counted
        instead. After `close`, or if no logs are kept, nothing is queued."""
        if not self.folder.retention.max_bytes:
            return
        size = sum(len(line.text) for line in lines)
        with self._changed:
            if self._closed:
                return
            if self._bytes + size > self._most:
                self._lose([line.function for line in lines], _TOO_MUCH)
                return
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="holdfast-logs", daemon=True)
                self._thread.start()
            self._waiting.extend(lines)
            self._bytes += size
            self._came += len(lines)
            self._changed.notify_all()

    def flush(self, seconds: float) -> bool:
        """Wait until all lines that were queued before this call are written or dropped. Returns False if this takes longer than
        `seconds`."""
        with self._changed:
            came = self._came
            if self._done >= came:
                return True
            self._hurry = True
            self._changed.notify_all()
            return self._changed.wait_for(lambda: self._done >= came, seconds)

    def close(self) -> None:
        """Write the queued lines and stop the thread. Waits at most 5 seconds, because a disk may hang; lines that are not written then may
        be lost."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(_CLOSE_SECONDS)

    # --- the thread

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closed)
                self._changed.wait_for(lambda: self._hurry or self._closed, _GATHER_SECONDS)
                lines, self._waiting, self._bytes, self._hurry = self._waiting, [], 0, False
                closed = self._closed
            try:
                self._write(lines)
            except Exception:  # a bug in Holdfast loses these lines, but not the later ones
                log.exception("%d lines that functions logged were dropped", len(lines))
            with self._changed:
                self._done += len(lines)
                self._changed.notify_all()
                if closed and not self._waiting:
                    return

    def _write(self, lines: list[OutputLine]) -> None:
        logs: defaultdict[str, list[LogLine]] = defaultdict(list)
        for line in sorted(lines, key=lambda line: line.at):
            logs[line.function].append(record_of(line))
        try:
            with self.folder.locked():
                now = self._clock.now()
                most = self.folder.retention.segment_bytes
                full = [self._append(name, part, now) for name, records in logs.items() for part in _parts(records, most)]
                if any(full) or self._swept is None or now - self._swept > _SWEEP_MS:
                    self._sweep(now)
        except (OSError, NotPrivate) as error:
            with self._changed:
                self._lose([function for function, records in logs.items() for _ in records], _reason(error))

    def _append(self, function: str, records: list[LogLine], now: int) -> bool:
        """Append records to the log of a function. If lines of this log were dropped before, a record that says so is written first.
        Returns True if the newest segment was full, so that a new segment began. If the disk cannot be written, the records are dropped and
        counted, and it returns False."""
        with self._changed:
            lost, reason = self._lost.pop(function, (0, ""))
        first = [dropped(records[0].stream, records[0].at, lost, reason)] if lost else []
        try:
            full = self.folder.append(function, first + records, now)
        except (OSError, NotPrivate) as error:
            with self._changed:
                self._lose([function] * len(records), _reason(error))
                self._lost[function] = (self._lost[function][0] + lost, _reason(error))
            return False
        if lost:
            self._failing = False
            log.warning("the log of %s is written again; %d lines of it were dropped", function, lost)
        return full

    def _sweep(self, now: int) -> None:
        self._swept = now
        try:
            self.folder.sweep(now)
        except (OSError, NotPrivate) as error:
            log.warning("old logs could not be removed: %s", _reason(error))

    def _lose(self, functions: Sequence[str], reason: str) -> None:
        """Count lost lines; `functions` has one name for each line. The server logs a warning at the first loss, and another one only if a
        log that had lost lines was written again in between. The caller holds the lock."""
        for function in functions:
            before, _ = self._lost.get(function, (0, ""))
            self._lost[function] = (before + 1, reason)
        self.dropped += len(functions)
        if not self._failing:
            self._failing = True
            log.warning("log lines of functions are dropped: %s", reason)


def _parts(records: list[LogLine], most: int) -> Iterator[list[LogLine]]:
    """The records in parts of about `most` bytes at most, or of one record that is larger. So no segment becomes much larger than its
    limit."""
    part, size = list[LogLine](), 0
    for record in records:
        if part and size + len(record.text) > most:
            yield part
            part, size = [], 0
        part.append(record)
        size += len(record.text)
    yield part


def _reason(error: OSError | NotPrivate) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)

"""The output of a process, record by record. Each record is passed on with the id of its request. The last 4 KB of a request's output are
kept for its caller."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

import msgspec

from holdfast.lambda_api.runtime.log_levels import LogLevels
from holdfast.lambda_api.runtime.platform_log import PlatformEvent
from holdfast.lambda_api.runtime.runtime_description import Runtime
from holdfast.lambda_api.runtime.telemetry_frames import TelemetryFrames

log = logging.getLogger("holdfast.hosts")

MAX_LINE: Final = 256 * 1024
"""A line with more bytes is passed on in pieces of this size."""
TAIL: Final = 4096


class OutputLine(msgspec.Struct, frozen=True, gc=False):
    """One line that a function printed, one record that it logged, or one event of the platform. A record may have several lines."""

    at: int
    """When this server read it, in milliseconds since 1970."""
    function: str
    version: str
    stream: str
    text: str
    request: str | None = None
    execution: str | None = None
    """The ARN of the durable execution; None if the function is not durable, and before the first request of a process."""
    tenant: str | None = None
    platform: bool = False
    """True if the platform wrote the line, not the function."""
    level: str | None = None
    """The level, if the writer gave it beside the text; else None."""


OutputLog = Callable[[list[OutputLine]], None]


def stream_of(version: str, process: str, began: int) -> str:
    """The name of the log stream of a process: the day (UTC) on which it began, the function's version, and the name of the process
    (`process`). `began` is in milliseconds since 1970."""
    return f"{datetime.fromtimestamp(began / 1000, UTC):%Y/%m/%d}/[{version}]{process.replace('-', '')}"


class ProcessOutput:
    """Reads the output of one process, and passes on to `tell` each complete line and record that the log level allows. It keeps the
    unfinished line or record, and the tail of the current request."""

    def __init__(self, runtime: Runtime, stream: str, now: Callable[[], int], tell: OutputLog | None) -> None:
        self._runtime = runtime
        self._stream = stream
        self._now = now
        self._tell = tell
        self._wanted = LogLevels(runtime)
        self._frames = TelemetryFrames(MAX_LINE)
        self._part = b""
        self._tail = bytearray()
        self._request: str | None = None
        self._execution: str | None = None
        self._tenant: str | None = None

    def begin(self, request: str, execution: str | None, tenant: str | None = None) -> None:
        """Begin a request: the output from now on belongs to it. Earlier output is not part of its tail."""
        self.flush()
        self._request, self._execution, self._tenant = request, execution, tenant
        self._tail.clear()

    def tail(self) -> bytes:
        """The last 4 KB of the lines since the current or last request began; before the first request, since the process began."""
        return bytes(self._tail[-TAIL:])

    def take(self, printed: bytes) -> None:
        """Read bytes that the process wrote to its standard output or standard error."""
        *whole, self._part = (self._part + printed).split(b"\n")
        while len(self._part) > MAX_LINE:
            whole.append(self._part[:MAX_LINE])
            self._part = self._part[MAX_LINE:]
        if whole:
            self._give(whole)

    def log(self, framed: bytes) -> None:
        """Read bytes of telemetry frames that the runtime client wrote."""
        for text, level in self._frames.take(framed):
            self._give([text], level=level)

    def flush(self) -> None:
        """Pass on the unfinished line, as if its line end had arrived."""
        if self._part:
            part, self._part = self._part, b""
            self._give([part])

    def close(self) -> None:
        """Pass on the unfinished line and the unfinished record, because the process has ended."""
        self.flush()
        for text, level in self._frames.rest():
            self._give([text], level=level)

    def say(self, event: PlatformEvent) -> None:
        """Pass on an event of the platform, if the log level allows it."""
        self.flush()
        if self._wanted.from_platform(event.level):
            text = event.json(self._now()) if self._runtime.log_format == "JSON" else event.text
            self._give([text.encode()], platform=True, level=event.level)

    def _give(self, lines: list[bytes], *, platform: bool = False, level: str | None = None) -> None:
        if self._wanted.filters and not platform:
            lines = [line for line in lines if self._wanted.from_function(line, level)]
        for line in lines[-TAIL:]:  # each line adds at least one byte, its line end
            self._tail += line[-TAIL:] + b"\n"
            if len(self._tail) > 4 * TAIL:
                del self._tail[:-TAIL]
        if self._tell is None:
            return
        at, made, of = self._now(), [], (self._request, self._execution, self._tenant, platform, level)
        for line in lines:
            for start in range(0, max(len(line), 1), MAX_LINE):
                text = line[start : start + MAX_LINE].decode(errors="replace").rstrip("\r")
                made.append(OutputLine(at, self._runtime.function, self._runtime.version, self._stream, text, *of))
        try:
            self._tell(made)
        except Exception:
            log.exception("the output of %s could not be passed on", self._runtime.function)

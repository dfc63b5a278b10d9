"""What functions log that run in this process: lines of the logger that their contexts have by themselves, Python's root logger.

Such a record says of which execution it is; whose that is, and which request runs it, is known from the invocation. A filter sees the
records and lets them all pass, so that nothing changes for whatever else the program does with its logging.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Final

from holdfast.hosts.choosing import Home
from holdfast.lambda_api.logs.records import encoded, iso
from holdfast.lambda_api.runtime.output import TAIL, Line, stream_of
from holdfast.model.clock import Clock
from holdfast.model.errors import HoldfastError
from holdfast.model.execution import Outcome
from holdfast.model.ids import Arn
from holdfast.model.ports import Invocation, Port

_OF_RECORDS: Final = frozenset({*vars(logging.LogRecord("", 0, "", 0, "", (), None)), "message", "asctime"})

_TAILS: Final = 256
"""Executions whose last lines are kept, for those who wait for them."""


class InlineLogs(logging.Filter):
    """A host around another, which hears what its functions log. Use it with `with`."""

    def __init__(self, home: Home, put: Callable[[Sequence[Line]], None], clock: Clock, process: str) -> None:
        super().__init__()
        self._home = home
        self._put = put
        self._clock = clock
        self._process = process
        self._began = clock.now()
        self._live: dict[str, tuple[str, str | None]] = {}
        self._tails: dict[str, bytes] = {}

    def __enter__(self) -> InlineLogs:
        logging.getLogger().addFilter(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        logging.getLogger().removeFilter(self)

    # --- a host

    def invoke(self, invocation: Invocation, port: Port, done: Callable[[Outcome, int], None]) -> None:
        """Begin an invocation, and know whose it is."""
        header = invocation.header
        live = self._live[header.id] = (header.invocation or header.id, header.tenant)

        def over(outcome: Outcome, seen: int) -> None:
            if self._live.get(header.id) is live:
                del self._live[header.id]
            done(outcome, seen)

        self._home.invoke(invocation, port, over)

    def hosts(self, function: str, version: str) -> bool:
        """Whether this function runs here."""
        return self._home.hosts(function, version)

    def cancel(self, execution: str) -> None:
        """End an invocation."""
        self._live.pop(execution, None)
        self._home.cancel(execution)

    def nudge(self, execution: str) -> None:
        """Something changed."""
        self._home.nudge(execution)

    def tail(self, execution: str) -> bytes:
        """The last 4 KB that an execution logged, if that was not long ago."""
        return self._tails.get(execution, b"")

    def idle(self) -> bool:
        """Whether nothing runs here."""
        return self._home.idle()

    # --- its log

    def filter(self, record: logging.LogRecord) -> bool:
        """Keep what an execution says; everything passes. A log must not fail a function, so neither does this."""
        arn = getattr(record, "executionArn", None)
        if isinstance(arn, str):
            try:
                self._put([self._line(record, arn)])
            except Exception:
                logging.getLogger("holdfast.service").exception("what %s logged could not be kept", arn)
        return True

    def _line(self, record: logging.LogRecord, arn: str) -> Line:
        at, of = self._clock.now(), Arn.parse(arn)
        request, tenant = self._live.get(of.id, (None, None))
        message = _message(record)
        self._keep_tail(of.id, f"[{record.levelname}]\t{iso(at)}\t{request}\t{message}\n")
        told: dict[str, Any] = {"timestamp": iso(at), "level": record.levelname, "message": message, "logger": record.name}
        if record.exc_info and record.exc_info[0] is not None:
            told["errorType"] = record.exc_info[0].__name__
            told["errorMessage"] = str(record.exc_info[1])
            told["stackTrace"] = traceback.format_exception(*record.exc_info)
        told |= {name: value for name, value in vars(record).items() if name not in _OF_RECORDS}
        stream = stream_of(of.version, self._process, self._began)
        return Line(at, of.function, of.version, stream, encoded(told), request, arn, tenant)

    def _keep_tail(self, execution: str, line: str) -> None:
        before = self._tails.pop(execution, b"")
        self._tails[execution] = (before + line.encode(errors="replace"))[-TAIL:]
        while len(self._tails) > _TAILS:
            self._tails.pop(next(iter(self._tails)), None)


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except (TypeError, ValueError, HoldfastError):  # arguments that do not fit
        return str(record.msg)

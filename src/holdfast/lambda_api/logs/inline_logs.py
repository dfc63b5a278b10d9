"""The log lines of functions that run in this process: their `context.logger` writes to Python's root logger by default.

Each such record has the ARN of its execution; the tenant and the request id come from the invocation. A logging filter reads the records
and lets all of them pass, so that the logging of the program does not change.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Collection, Sequence
from types import TracebackType
from typing import Any, Final

from holdfast.hosts.choosing_host import FunctionHost
from holdfast.lambda_api.logs.log_lines import encoded, iso
from holdfast.lambda_api.runtime.process_output import TAIL, OutputLine, stream_of
from holdfast.model.clock import Clock
from holdfast.model.errors import HoldfastError
from holdfast.model.execution import Execution, Outcome
from holdfast.model.ids import Arn
from holdfast.model.operations import Operation
from holdfast.model.ports import Invocation, Port

_OF_RECORDS: Final = frozenset({*vars(logging.LogRecord("", 0, "", 0, "", (), None)), "message", "asctime"})

_TAILS: Final = 256
"""The last log lines of this many executions are kept, because a caller may ask for them with the result."""


class InlineLogs(logging.Filter):
    """A host that wraps another host (`inner`) and collects the log lines of its functions: `put` is called with each line. Lines are
    collected only inside a `with` statement. `process` is a part of the name of the log stream."""

    def __init__(self, inner: FunctionHost, put: Callable[[Sequence[OutputLine]], None], clock: Clock, process: str) -> None:
        super().__init__()
        self._inner = inner
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
        """Begin an invocation in the inner host, and remember its tenant and request id until it ends."""
        header = invocation.header
        live = self._live[header.id] = (header.invocation or header.id, header.tenant)

        def over(outcome: Outcome, seen: int) -> None:
            if self._live.get(header.id) is live:
                del self._live[header.id]
            done(outcome, seen)

        self._inner.invoke(invocation, port, over)

    def hosts(self, function: str, version: str) -> bool:
        """Whether the inner host runs this version of the function."""
        return self._inner.hosts(function, version)

    def cancel(self, execution: str) -> None:
        """Cancel the invocation of an execution in the inner host."""
        self._live.pop(execution, None)
        self._inner.cancel(execution)

    def learn(self, header: Execution, operations: Collection[Operation]) -> None:
        """Tell the inner host that a write which the invocation of this execution did not make has changed `operations`."""
        self._inner.learn(header, operations)

    def recheck(self, execution: str) -> None:
        """Tell the inner host to let the invocation of this execution, if its code only waits, ask the engine again whether it may stay
        live or must end and go on later."""
        self._inner.recheck(execution)

    def tail(self, execution: str) -> bytes:
        """The last 4 KB of the log of an execution; empty if it has logged nothing here, or if they are not kept any more."""
        return self._tails.get(execution, b"")

    def idle(self) -> bool:
        """Whether no invocation runs in the inner host."""
        return self._inner.idle()

    # --- its log

    def filter(self, record: logging.LogRecord) -> bool:
        """Collect a record of an execution. Returns True, so that every record passes. Raises no error, because logging must not make a
        function fail."""
        arn = getattr(record, "executionArn", None)
        if isinstance(arn, str):
            try:
                self._put([self._line(record, arn)])
            except Exception:
                logging.getLogger("holdfast.service").exception("a log line of %s could not be kept", arn)
        return True

    def _line(self, record: logging.LogRecord, arn: str) -> OutputLine:
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
        return OutputLine(at, of.function, of.version, stream, encoded(told), request, arn, tenant)

    def _keep_tail(self, execution: str, line: str) -> None:
        before = self._tails.pop(execution, b"")
        self._tails[execution] = (before + line.encode(errors="replace"))[-TAIL:]
        while len(self._tails) > _TAILS:
            self._tails.pop(next(iter(self._tails)), None)


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except (TypeError, ValueError, HoldfastError):  # the record's arguments do not fit its format
        return str(record.msg)

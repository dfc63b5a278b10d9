"""The eye on one run: turns what the runner does into what observers are told, under names and ids that a replay gives again.

Nobody looking costs nothing but a question. What is told, when, and what never twice: see signals.observing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, Final, Protocol

from holdfast.contract.codes import CODES
from holdfast.contract.protocol import Response
from holdfast.contract.terms import Contract
from holdfast.model import codec
from holdfast.model.clock import Clock, monotonic
from holdfast.model.errors import HoldfastError
from holdfast.signals.observing import NOBODY, AttemptSeen, EndSeen, Observer, ParkedSeen, RunSeen, ToolSeen
from holdfast.signals.traceparent import below, header_of
from holdfast.workers.approvals import Requested, approval_id
from holdfast.workers.calls import Intent, Try
from holdfast.workers.hiding import Hiding
from holdfast.workers.tools.seam import Tool

MOST_LOG_BYTES: Final = 256 * 1024
"""Of a response's logs."""
_MOST_REFUSALS: Final = 100
_OTHER: Final = "other"


class Live(Protocol):
    """Those who follow runs as they go on, in this process."""

    def offer(self, run_id: str, event: str, data: Any) -> None:
        """Something that is nowhere on disk yet."""
        ...

    def nudge(self, run_id: str) -> None:
        """Something was written."""
        ...


class Eye:
    """Looks at one run in the process that has it. This one is closed: a run that nobody may hear of, such as a replay of an old one."""

    lines = 0
    """Lines that the body at work has logged."""

    def attempt_began(self, number: int) -> None:
        """It is the first time that this attempt begins."""

    def tool_began(self, tool: Tool, intent: Intent) -> None:
        """The intent is on disk, and the call is about to be made."""

    def tool_ended(self, attempted: Try) -> None:
        """A receipt is on disk."""

    def tool_reused(self, attempted: Try, attempt: int) -> None:
        """The answer came from a receipt."""

    def parked(self, kind: str, tool: str, attempt: int, operation_id: str) -> None:
        """The question is on disk."""

    def progressed(self, data: Any) -> None:
        """The body says how far it is."""

    async def hidden(self, record: dict[str, Any]) -> dict[str, Any]:
        """A line without secrets of the inputs."""
        return record

    def logged(self, record: dict[str, Any], *, clean: bool = False) -> dict[str, Any]:
        """A line of the body's, or a refusal; comes back as it may be kept. A clean one has been `hidden` already."""
        return record

    def traceparent(self, intent: Intent) -> str | None:
        """What a call hands on, so that what it calls is below it."""
        return None


CLOSED: Final = Eye()


class OpenEye(Eye):
    """Tells observers, and those who follow the run."""

    def __init__(self, run: RunSeen, observer: Observer, live: Live, clock: Clock, contract: Contract, inputs: Mapping[str, Any]) -> None:
        self.run = run
        self._observer = observer
        self._watched = observer is not NOBODY
        self._live = live
        self._clock = clock
        self._contract = contract
        self._inputs = inputs
        self._tools: dict[tuple[str, int], tuple[float, str | None]] = {}
        self._last: AttemptSeen | None = None
        self._refusals: list[Mapping[str, Any]] = []
        self._number = self._heard = 0

    @cached_property
    def _hiding(self) -> Hiding:
        return Hiding(self._inputs, self._contract.input_schema)

    # --- the run

    def began(self) -> None:
        """Its first invocation begins; there is one of those."""
        self._observer.accepted(self.run, self._clock.now())

    def ended(self, response: Response, ended_at: int) -> None:
        """Its end is on disk."""
        last, self._last = self._last, None
        if last is not None:  # a good attempt's end rides with the run's
            self._observer.attempt_ended(self.run, last)
        error = response.error
        label = (
            None
            if error is None
            else error.error_code
            if error.error_code in CODES or error.error_code in self._contract.errors
            else _OTHER
        )
        self._observer.ended(self.run, end_of(response, label, self._text(None if error is None else error.message), ended_at))

    # --- its attempts

    def attempt_began(self, number: int) -> None:
        """It is the first time that this attempt begins."""
        if self._watched:
            self._observer.attempt_began(self.run, number, self._clock.now())
        self._live.nudge(self.run.run_id)

    def begins(self, number: int, requests: Iterable[Requested]) -> None:
        """A body begins from the top; lines that it logged before it had to wait for a person were told then."""
        told = max((request.logged for request in requests if request.attempt == number), default=0)
        self._heard = max(told, self._heard if number == self._number else 0)
        self._number, self.lines = number, 0
        self._refusals.clear()

    def attempt_ended(
        self, number: int, began_at: int, duration_ms: int, status: str, error: tuple[str, str] | None, isolation: str | None
    ) -> None:
        """It failed, and that is on disk; or it did not, and that will be with the run's end."""
        self._live.nudge(self.run.run_id)
        if not self._watched:
            return
        seen = AttemptSeen(
            number=number,
            span_id=below(self.run.span_id, "attempt", number),
            began_at=began_at,
            ended_at=max(began_at, self._clock.now()),
            duration_ms=duration_ms,
            status=status,
            error_code=None if error is None else error[0],
            message=None if error is None else self._text(error[1]),
            isolation=isolation,
            refusals=tuple(self._refusals),
        )
        if error is None:
            self._last = seen
        else:
            self._observer.attempt_ended(self.run, seen)

    def progressed(self, data: Any) -> None:
        """The body says how far it is."""
        if self._watched:
            self._observer.progressed(self.run, data)
        self._live.offer(self.run.run_id, "progress", data)

    async def hidden(self, record: dict[str, Any]) -> dict[str, Any]:
        """A line without secrets of the inputs."""
        return await self._hiding.line_beside(record)

    def logged(self, record: dict[str, Any], *, clean: bool = False) -> dict[str, Any]:
        """A line of the body's, or a refusal; comes back as it may be kept. A clean one has been `hidden` already."""
        self.lines += 1
        kept = record if clean else self._hiding.line(record)
        if kept.get("event") == "tool_refused" and len(self._refusals) < _MOST_REFUSALS:
            self._refusals.append({"tool": kept["tool"], "error_code": kept["error_code"], "at": self._clock.now()})
        if self.lines > self._heard:
            self._heard = self.lines
            if self._watched:
                self._observer.logged(self.run, kept)
            self._live.offer(self.run.run_id, "log", kept)
        return kept

    # --- its tools

    def tool_began(self, tool: Tool, intent: Intent) -> None:
        """The intent is on disk, and the call is about to be made."""
        self._live.nudge(self.run.run_id)
        if self._watched:
            model_of = getattr(tool, "model_of", None)
            self._tools[intent.identity, intent.number] = monotonic(), None if model_of is None else model_of(intent.arguments)
            self._observer.tool_began(self.run, self._tool(intent, float(self._clock.now())))

    def tool_ended(self, attempted: Try) -> None:
        """A receipt is on disk."""
        self._live.nudge(self.run.run_id)
        receipt, intent = attempted.receipt, attempted.intent
        if not self._watched or receipt is None or attempted.inherited:
            return
        began, model = self._tools.pop((intent.identity, intent.number), (None, None))
        took = 0.0 if began is None else (monotonic() - began) * 1000
        error = receipt.error
        seen = self._tool(
            intent,
            max(0.0, self._clock.now() - took),
            duration_ms=took,
            error_code=None if error is None else error.error_code,
            message=None if error is None else self._text(error.message),
            lost=began is None or receipt.void,
            input_tokens=receipt.usage.input_tokens,
            output_tokens=receipt.usage.output_tokens,
            cost_usd=receipt.usage.cost_usd,
            model=model,
        )
        self._observer.tool_ended(self.run, seen)

    def tool_reused(self, attempted: Try, attempt: int) -> None:
        """Nothing was called."""
        if self._watched:
            error = None if attempted.receipt is None or attempted.receipt.error is None else attempted.receipt.error.error_code
            self._observer.tool_ended(self.run, self._tool(attempted.intent, float(attempted.at), attempt, error_code=error, reused=True))

    def _tool(self, intent: Intent, began_at: float, attempt: int | None = None, **known: Any) -> ToolSeen:
        number = intent.attempt if attempt is None else attempt
        return ToolSeen(
            tool=intent.tool,
            effect="write" if intent.write else "read",
            attempt=number,
            number=intent.number,
            span_id=self._span(intent),
            parent_span_id=below(self.run.span_id, "attempt", number),
            began_at=began_at,
            **known,
        )

    def traceparent(self, intent: Intent) -> str | None:
        """What a call hands on, so that what it calls is below it."""
        return header_of(self.run.trace_id, self._span(intent), sampled=self.run.sampled)

    def _span(self, intent: Intent) -> str:
        return below(self.run.span_id, "tool", intent.identity, intent.number)

    def parked(self, kind: str, tool: str, attempt: int, operation_id: str) -> None:
        """The question is on disk."""
        self._live.nudge(self.run.run_id)
        if self._watched:
            asked = approval_id(self.run.run_id, operation_id)
            self._observer.parked(self.run, ParkedSeen(kind=kind, tool=tool, attempt=attempt, approval_id=asked))

    def _text(self, text: str | None) -> str | None:
        return None if text is None else self._hiding.text(text)


def end_of(response: Response, label: str | None, message: str | None, ended_at: int) -> EndSeen:
    """The end of a run, as its response says."""
    seen = response.observability
    return EndSeen(
        status=response.status.value,
        error_code=None if response.error is None else response.error.error_code,
        code_label=label,
        message=message,
        attempt=seen.attempt,
        duration_ms=seen.duration_ms,
        ended_at=ended_at,
        partial=seen.partial,
        isolation=seen.isolation,
        input_tokens=seen.usage.tokens.input,
        output_tokens=seen.usage.tokens.output,
        cost_usd=seen.usage.cost_usd,
        tool_calls=seen.usage.tool_calls,
        log_fields=seen.log_fields,
    )


def log_fields(names: Iterable[str], known: Mapping[str, Any], logs: Iterable[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """The fields that a contract wants, each of them always: what the runtime knows, else what the body last logged under that name."""
    said: dict[str, Any] = {}
    for record in logs:
        said.update(record)
    return {name: known[name] if name in known else said.get(name) for name in names}


def joined(earlier: tuple[dict[str, Any], ...], logs: tuple[dict[str, Any], ...]) -> tuple[dict[str, Any], ...]:
    """The lines of one attempt after those of the attempts before it; when they are too many, the oldest go."""
    if not earlier:
        return logs
    kept: list[dict[str, Any]] = []
    size = 0
    for record in reversed((*earlier, *logs)):
        size += size_of(record)
        if size > MOST_LOG_BYTES:
            break
        kept.append(record)
    return tuple(reversed(kept))


def size_of(record: Mapping[str, Any]) -> int:
    """About how many bytes a line takes."""
    try:
        return len(codec.dumps(record))
    except HoldfastError:
        return MOST_LOG_BYTES

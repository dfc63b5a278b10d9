"""What is seen of a run, and who may look: the seam between workers, who tell, and logs, metrics and traces, which pass it on.

Whatever is told here was written to disk before, except where a line says otherwise; so a crash and a replay tell nothing twice. An
observer cannot change a run: it is called on the engine's loop, must not wait for anything, and an error of its own is its own.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any, Final, Protocol

import msgspec

log = logging.getLogger("holdfast.signals")
_TROUBLE: Final = "an observer of runs failed, and is not heard of again until it works: %s"


class RunSeen(msgspec.Struct, frozen=True, kw_only=True):
    """A run, as signals name it."""

    run_id: str
    worker_id: str
    version: str
    tenant: str
    trace_id: str
    span_id: str
    """Of the run itself: its attempts hang below it."""
    parent_span_id: str | None = None
    """The caller's span."""
    upstream_request_id: str | None = None
    sampled: bool | None = None
    """The caller's word on whether this trace is recorded; None: he said nothing."""
    started_at: int = 0

    @property
    def trace(self) -> dict[str, Any]:
        """The trace fields, by their names."""
        return {
            "trace_id": self.trace_id,
            "span_id": self.span_id,
            "parent_span_id": self.parent_span_id,
            "upstream_request_id": self.upstream_request_id,
        }


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """A request that made no run."""

    worker_id: str
    known: bool
    """Whether a worker of that id is served here: else the id is a stranger's text."""
    version: str
    tenant: str
    status: str
    error_code: str
    message: str
    at: int
    began_at: int
    trace: Mapping[str, Any]
    sampled: bool | None = None


class AttemptSeen(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt that is over."""

    number: int
    span_id: str
    began_at: int
    ended_at: int
    duration_ms: int
    """Of work: time parked is not in it."""
    status: str
    error_code: str | None = None
    message: str | None = None
    isolation: str | None = None
    refusals: tuple[Mapping[str, Any], ...] = ()
    """Calls that the gateway refused: tool, error_code, at."""


class ToolSeen(msgspec.Struct, frozen=True, kw_only=True):
    """One call of a tool, begun or over."""

    tool: str
    effect: str
    attempt: int
    number: int
    """Which try of this call it is."""
    span_id: str
    parent_span_id: str
    """The attempt's."""
    began_at: float
    """Milliseconds since the epoch."""
    duration_ms: float = 0.0
    error_code: str | None = None
    message: str | None = None
    reused: bool = False
    """Nothing was called: the answer came from its receipt."""
    lost: bool = False
    """Its answer was lost, in a crash for instance; it was settled by what somebody found out, or made again."""
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: Decimal = Decimal(0)
    model: str | None = None
    """The model that was asked for; set for calls of language models only."""


class ParkedSeen(msgspec.Struct, frozen=True, kw_only=True):
    """A run that begins to wait for a person."""

    kind: str
    tool: str
    attempt: int
    approval_id: str


class EndSeen(msgspec.Struct, frozen=True, kw_only=True):
    """A run that is over; its end is on disk."""

    status: str
    error_code: str | None
    code_label: str | None
    """The code, if it is the runtime's or the contract's; else `other`: a body may make up any number of codes."""
    message: str | None
    attempt: int
    duration_ms: int
    ended_at: int
    partial: bool = False
    isolation: str | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: Decimal = Decimal(0)
    tool_calls: int = 0
    log_fields: Mapping[str, Any] = {}
    """The contract's own, by name."""


class Observer(Protocol):
    """Whoever looks on while workers work."""

    def refused(self, refusal: Refusal) -> None: ...
    def accepted(self, run: RunSeen, at: int) -> None:
        """It was accepted and begins now."""
        ...

    def attempt_began(self, run: RunSeen, number: int, at: int) -> None:
        """Told before it is on disk: after a crash it may be told again."""
        ...

    def attempt_ended(self, run: RunSeen, attempt: AttemptSeen) -> None: ...
    def tool_began(self, run: RunSeen, tool: ToolSeen) -> None: ...
    def tool_ended(self, run: RunSeen, tool: ToolSeen) -> None: ...
    def parked(self, run: RunSeen, parked: ParkedSeen) -> None: ...
    def progressed(self, run: RunSeen, data: Any) -> None:
        """Never on disk."""
        ...

    def logged(self, run: RunSeen, record: Mapping[str, Any]) -> None:
        """On disk with the attempt's end: after a crash it may be told again."""
        ...

    def ended(self, run: RunSeen, end: EndSeen) -> None: ...


class Nobody:
    """Nobody looks. Others are made of it, and say only what they look at."""

    def refused(self, refusal: Refusal) -> None:
        """A request made no run."""

    def accepted(self, run: RunSeen, at: int) -> None:
        """A run begins."""

    def attempt_began(self, run: RunSeen, number: int, at: int) -> None:
        """An attempt begins."""

    def attempt_ended(self, run: RunSeen, attempt: AttemptSeen) -> None:
        """An attempt is over."""

    def tool_began(self, run: RunSeen, tool: ToolSeen) -> None:
        """A tool is about to be called."""

    def tool_ended(self, run: RunSeen, tool: ToolSeen) -> None:
        """A tool's call has its receipt."""

    def parked(self, run: RunSeen, parked: ParkedSeen) -> None:
        """A run waits for a person."""

    def progressed(self, run: RunSeen, data: Any) -> None:
        """A body says how far it is."""

    def logged(self, run: RunSeen, record: Mapping[str, Any]) -> None:
        """A body writes a line."""

    def ended(self, run: RunSeen, end: EndSeen) -> None:
        """A run is over."""


NOBODY: Final = Nobody()


class Observers(Nobody):
    """Several who look on. What one of them does wrong changes nothing for the others, nor for the run."""

    def __init__(self, observers: Iterable[Observer]) -> None:
        self._observers = tuple(observers)
        self._failing: set[int] = set()

    def _tell(self, tell: Callable[[Observer], None]) -> None:
        for observer in self._observers:
            try:
                tell(observer)
                self._failing.discard(id(observer))
            except Exception as error:  # said once: a broken exporter must not fill somebody's disk
                if id(observer) not in self._failing:
                    self._failing.add(id(observer))
                    log.warning(_TROUBLE, f"{type(observer).__name__}: {type(error).__name__}: {error}")

    def refused(self, refusal: Refusal) -> None:
        """Tell all."""
        self._tell(lambda observer: observer.refused(refusal))

    def accepted(self, run: RunSeen, at: int) -> None:
        """Tell all."""
        self._tell(lambda observer: observer.accepted(run, at))

    def attempt_began(self, run: RunSeen, number: int, at: int) -> None:
        """Tell all."""
        self._tell(lambda observer: observer.attempt_began(run, number, at))

    def attempt_ended(self, run: RunSeen, attempt: AttemptSeen) -> None:
        """Tell all."""
        self._tell(lambda observer: observer.attempt_ended(run, attempt))

    def tool_began(self, run: RunSeen, tool: ToolSeen) -> None:
        """Tell all."""
        self._tell(lambda observer: observer.tool_began(run, tool))

    def tool_ended(self, run: RunSeen, tool: ToolSeen) -> None:
        """Tell all."""
        self._tell(lambda observer: observer.tool_ended(run, tool))

    def parked(self, run: RunSeen, parked: ParkedSeen) -> None:
        """Tell all."""
        self._tell(lambda observer: observer.parked(run, parked))

    def progressed(self, run: RunSeen, data: Any) -> None:
        """Tell all."""
        self._tell(lambda observer: observer.progressed(run, data))

    def logged(self, run: RunSeen, record: Mapping[str, Any]) -> None:
        """Tell all."""
        self._tell(lambda observer: observer.logged(run, record))

    def ended(self, run: RunSeen, end: EndSeen) -> None:
        """Tell all."""
        self._tell(lambda observer: observer.ended(run, end))

"""Observers of a worker's run: the values that are reported, and the base class of the observers for logs, metrics and traces.

What is reported is already on disk, so a crash or a replay does not report it again; but a crash right after the write may lose the report.
The docstring of a method says if something is reported before it is on disk, or may be reported again. An observer cannot change a run. It
is called on the engine's event loop and must not block. If it raises an error, the run does not notice it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any, Final

import msgspec

log = logging.getLogger("holdfast.signals")
_TROUBLE: Final = "an observer of runs failed; it is not logged again until it works: %s"


class RunSeen(msgspec.Struct, frozen=True, kw_only=True):
    """The run to which a report belongs. Times are in milliseconds since the epoch."""

    run_id: str
    worker_id: str
    version: str
    tenant: str
    trace_id: str
    span_id: str
    """The id of the run's own span; the spans of its attempts are below it."""
    parent_span_id: str | None = None
    """The id of the caller's span; None if the caller has none."""
    upstream_request_id: str | None = None
    sampled: bool | None = None
    """Whether the caller wants this trace to be recorded; None if the caller did not say."""
    started_at: int = 0
    pipeline: str | None = None
    """The id of the pipeline that asked for the run; `node` is the node of that pipeline. Both are None if no pipeline asked for it."""
    node: str | None = None

    @property
    def trace(self) -> dict[str, Any]:
        """The fields `trace_id`, `span_id`, `parent_span_id` and `upstream_request_id` as a dictionary."""
        return {
            "trace_id": self.trace_id,
            "span_id": self.span_id,
            "parent_span_id": self.parent_span_id,
            "upstream_request_id": self.upstream_request_id,
        }


class RefusalSeen(msgspec.Struct, frozen=True, kw_only=True):
    """A request that was refused, so that no run started."""

    worker_id: str
    known: bool
    """Whether this process serves a worker with the id `worker_id`. If not, `worker_id` can be any text that a caller sent."""
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
    """An attempt of a worker's run that has ended."""

    number: int
    span_id: str
    began_at: int
    ended_at: int
    duration_ms: int
    """How many milliseconds the body ran. If it waited for a person, the body ran again from its start after that, and only this last run
    counts. The time in which a call of a tool waited for room in a shared budget is not included."""
    status: str
    error_code: str | None = None
    message: str | None = None
    isolation: str | None = None
    refusals: tuple[Mapping[str, Any], ...] = ()
    """The calls of tools that the gateway refused in this attempt, up to a bound. Each has `tool`, `error_code`, and `at`, its time in
    milliseconds since the epoch."""


class ToolSeen(msgspec.Struct, frozen=True, kw_only=True):
    """One call of a tool that begins or has ended."""

    tool: str
    effect: str
    attempt: int
    number: int
    """The number of this try of the call, from 1. A call may be tried again."""
    span_id: str
    parent_span_id: str
    """The id of the span of the attempt in which the tool was called."""
    began_at: float
    """When the call began, in milliseconds since the epoch. If the answer was reused, or if the call began in another process: when the
    receipt was written."""
    duration_ms: float = 0.0
    error_code: str | None = None
    message: str | None = None
    reused: bool = False
    """Whether the tool was not called this time, because the receipt of an earlier call had the answer."""
    lost: bool = False
    """Whether the answer of the tool was lost, for example in a crash, so that the receipt was written later: the tool's own check or a
    person said how the call ended, or the runner gave up this try of the call."""
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: Decimal = Decimal(0)
    model: str | None = None
    """The model that was asked for, if a call of a language model has ended that this process made itself; else None."""


class NodeSeen(msgspec.Struct, frozen=True, kw_only=True):
    """A node of a pipeline that ended, in one of its rounds."""

    node: str
    round: int
    state: str
    """How the node ended: ok, partial, skipped, blocked or failed."""
    span_id: str
    began_at: int
    ended_at: int
    error_code: str | None = None
    message: str | None = None


class PersonWaitSeen(msgspec.Struct, frozen=True, kw_only=True):
    """A run that begins to wait for a person."""

    kind: str
    tool: str
    attempt: int
    approval_id: str


class EndSeen(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a run, which is on disk."""

    status: str
    error_code: str | None
    code_label: str | None
    """The error code for labels of metrics; None if there is no error. A code that is neither in the table of codes nor in the worker's
    contract becomes `other`: a body may invent any number of codes, and each would make a series."""
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
    """The log fields that the worker's contract names, each with its value in this run."""


class RunObserver:
    """An observer of the runs of workers. Its methods do nothing; a subclass overrides the methods that it needs."""

    def refused(self, refusal: RefusalSeen) -> None:
        """Called when a request was refused, so that no run started. Nothing about it is on disk."""

    def accepted(self, run: RunSeen, at: int) -> None:
        """Called when an accepted run begins: its first invocation begins at the time `at`. If the run was in a queue, it was accepted
        earlier."""

    def attempt_began(self, run: RunSeen, number: int, at: int) -> None:
        """Called when attempt `number` begins, at the time `at`, before the start is on disk. So after a crash it may be called again for
        the same attempt."""

    def attempt_ended(self, run: RunSeen, attempt: AttemptSeen) -> None:
        """Called when an attempt has ended; for a successful attempt, right before `ended`."""

    def tool_began(self, run: RunSeen, tool: ToolSeen) -> None:
        """Called right before a tool is called. The record that this call begins is already on disk."""

    def tool_ended(self, run: RunSeen, tool: ToolSeen) -> None:
        """Called when the receipt of a call of a tool is on disk. Also called if the tool was not called, because the receipt of an earlier
        call had the answer (`tool.reused`); this may be reported again each time the body runs again."""

    def waits_for_person(self, run: RunSeen, wait: PersonWaitSeen) -> None:
        """Called when a run begins to wait for a person."""

    def progressed(self, run: RunSeen, data: Any) -> None:
        """Called when a body reports its progress. The progress is not stored."""

    def logged(self, run: RunSeen, record: Mapping[str, Any]) -> None:
        """Called when a body logs a line, or when the runner adds a line, for example about a refused call of a tool. The line is stored
        only when the attempt ends, so after a crash this may be called again for the same line."""

    def node_ended(self, run: RunSeen, node: NodeSeen) -> None:
        """Called when a node of a pipeline's run has ended."""

    def ended(self, run: RunSeen, end: EndSeen) -> None:
        """Called when a run has ended."""


NO_OBSERVER: Final = RunObserver()


class RunObservers(RunObserver):
    """Calls several observers. If one of them raises an error, the other observers are still called, and the run does not notice it. The
    error is logged; further errors of that observer are logged only after it has worked again."""

    def __init__(self, observers: Iterable[RunObserver]) -> None:
        self._observers = tuple(observers)
        self._failing: set[int] = set()

    def _tell(self, tell: Callable[[RunObserver], None]) -> None:
        for observer in self._observers:
            try:
                tell(observer)
                self._failing.discard(id(observer))
            except Exception as error:  # logged once: an observer that fails at every call must not fill the disk with lines
                if id(observer) not in self._failing:
                    self._failing.add(id(observer))
                    log.warning(_TROUBLE, f"{type(observer).__name__}: {type(error).__name__}: {error}")

    def refused(self, refusal: RefusalSeen) -> None:
        self._tell(lambda observer: observer.refused(refusal))

    def accepted(self, run: RunSeen, at: int) -> None:
        self._tell(lambda observer: observer.accepted(run, at))

    def attempt_began(self, run: RunSeen, number: int, at: int) -> None:
        self._tell(lambda observer: observer.attempt_began(run, number, at))

    def attempt_ended(self, run: RunSeen, attempt: AttemptSeen) -> None:
        self._tell(lambda observer: observer.attempt_ended(run, attempt))

    def tool_began(self, run: RunSeen, tool: ToolSeen) -> None:
        self._tell(lambda observer: observer.tool_began(run, tool))

    def tool_ended(self, run: RunSeen, tool: ToolSeen) -> None:
        self._tell(lambda observer: observer.tool_ended(run, tool))

    def waits_for_person(self, run: RunSeen, wait: PersonWaitSeen) -> None:
        self._tell(lambda observer: observer.waits_for_person(run, wait))

    def progressed(self, run: RunSeen, data: Any) -> None:
        self._tell(lambda observer: observer.progressed(run, data))

    def logged(self, run: RunSeen, record: Mapping[str, Any]) -> None:
        self._tell(lambda observer: observer.logged(run, record))

    def node_ended(self, run: RunSeen, node: NodeSeen) -> None:
        self._tell(lambda observer: observer.node_ended(run, node))

    def ended(self, run: RunSeen, end: EndSeen) -> None:
        self._tell(lambda observer: observer.ended(run, end))

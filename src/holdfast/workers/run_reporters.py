"""Run reporters: they report what the runner does to the observers of this process (RunObserver) and to the followers of a run.

    RunReporters     all runs of this process; reports a run's end when this process has written it
    LiveRunReporter  one run: its attempts, calls, log lines and questions
    RunReporter      has the methods of LiveRunReporter, but reports nothing: for a replay or a shard of a map

The ids of spans are the same after a crash. What is reported, when, and what is never reported twice: see `RunObserver`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import cached_property
from typing import Any, Final

from holdfast.contract.codes import meaning_of
from holdfast.contract.protocol import Response, WorkerRequest, response_from
from holdfast.contract.refusals import InvalidRequest
from holdfast.contract.terms import Contract
from holdfast.engine.engine import Engine
from holdfast.model.clock import Clock, monotonic
from holdfast.model.errors import ExecutionNotFound, LimitReached
from holdfast.model.execution import Execution, ExecutionStatus, State
from holdfast.model.ids import new_span_id
from holdfast.model.operations import Operation
from holdfast.signals.observers import (
    NO_OBSERVER,
    AttemptSeen,
    NodeSeen,
    PersonWaitSeen,
    RefusalSeen,
    RunObserver,
    RunObservers,
    RunSeen,
    ToolSeen,
)
from holdfast.signals.traceparent import below, header_of
from holdfast.workers.accepted_request import AcceptedRequest
from holdfast.workers.approvals import Requested, approval_id
from holdfast.workers.calls import Intent, Try
from holdfast.workers.input_secrets import InputSecrets
from holdfast.workers.live_run import NO_TOKENS, Ancestors, Followers, LiveRun
from holdfast.workers.observed_runs import caller_span, end_of, seen_of
from holdfast.workers.run_lookup import Caller, find_run, response_of
from holdfast.workers.tools.seam import Hears, Tool

_MOST_REFUSALS: Final = 100
_MOST_REPORTERS: Final = 10_000
_MOST_ENDED: Final = 1_000


class RunReporter:
    """Reports nothing. Used for a replay, because observers were told of the run when it ran, and for a shard of a map, because its
    pipeline's run is reported. The subclass LiveRunReporter reports."""

    lines = 0
    """How many log lines there were since the body began: from the body, and from the runner. A RunReporter itself does not count them:
    always 0."""

    def attempt_began(self, number: int) -> None:
        """Called when an attempt begins, but not when its body runs again after a wait. Does nothing."""

    def tool_began(self, tool: Tool, intent: Intent) -> AbstractAsyncContextManager[Hears | None]:
        """Called when the record that a call begins (its intent) is on disk; the gateway then makes the call inside the block that this
        returns. The block yields a function that takes the text of the result while it arrives, or None if the text is not passed on. This
        class's block always yields None."""
        return NO_TOKENS

    def tool_ended(self, attempted: Try) -> None:
        """Called when the receipt of a call is on disk. Does nothing."""

    def tool_reused(self, attempted: Try, attempt: int) -> None:
        """Called when the gateway answers a call of the attempt `attempt` from the receipt that `attempted` has. Does nothing."""

    def waits_for_person(self, kind: str, tool: str, attempt: int, operation_id: str) -> None:
        """Called when a request to a person is on disk. Does nothing."""

    def progressed(self, data: Any) -> None:
        """Called when the body reports its progress. Does nothing."""

    async def without_secrets(self, record: dict[str, Any]) -> dict[str, Any]:
        """Return a log line unchanged. (The subclass removes the secrets of the run's inputs from it.)"""
        return record

    def logged(self, record: dict[str, Any], *, clean: bool = False) -> dict[str, Any]:
        """Return a log line unchanged, and report nothing. (The subclass removes secrets from the line and reports it.)"""
        return record

    def traceparent(self, intent: Intent) -> str | None:
        """The `traceparent` header that a call sends. Always None here: no such header is sent."""
        return None

    def node_span(self, node: str, round: int) -> str | None:
        """The id of the span of a pipeline's node. Always None here: the node has no span."""
        return None

    def node_ended(self, node: str, round: int, operation: Operation | None, state: str, error: tuple[str, str] | None) -> None:
        """Called when the end of a pipeline's node is on disk. Does nothing."""


SILENT: Final = RunReporter()


class LiveRunReporter(RunReporter):
    """Reports one run to the observers of the process and to the run's followers."""

    def __init__(
        self, run: RunSeen, observer: RunObserver, live: LiveRun, clock: Clock, contract: Contract, inputs: Mapping[str, Any]
    ) -> None:
        self.run = run
        self._observer = observer
        self._observed = observer is not NO_OBSERVER
        self._live = live
        self._clock = clock
        self._contract = contract
        self._inputs = inputs
        self._tools: dict[tuple[str, int], tuple[float, str | None]] = {}
        self._last: AttemptSeen | None = None
        self._refusals: list[Mapping[str, Any]] = []
        self._number = self._reported = 0

    @cached_property
    def _secrets(self) -> InputSecrets:
        return InputSecrets(self._inputs, self._contract.input_schema)

    # --- the run

    def began(self) -> None:
        """Report that the run was accepted. Called when its first invocation begins."""
        self._observer.accepted(self.run, self._clock.now())

    def ended(self, response: Response, ended_at: int) -> None:
        """Report the end of the run, which is on disk. If its last attempt succeeded, first report the end of that attempt."""
        last, self._last = self._last, None
        if last is not None:  # a good attempt's end is written together with the run's end
            self._observer.attempt_ended(self.run, last)
        message = None if response.error is None else self._text(response.error.message)
        self._observer.ended(self.run, end_of(response, self._contract.errors, message, ended_at))

    # --- its attempts

    def attempt_began(self, number: int) -> None:
        """Report that an attempt begins. Not called when its body runs again after a wait; after a crash it may be called a second time."""
        if self._observed:
            self._observer.attempt_began(self.run, number, self._clock.now())
        self._live.wrote()

    def begins(self, number: int, requests: Iterable[Requested]) -> None:
        """Note that a body of the attempt `number` begins from its start. `requests` are the run's requests to persons. Lines that were
        logged before such a request were reported then, and are not reported again."""
        reported = max((request.logged for request in requests if request.attempt == number), default=0)
        self._reported = max(reported, self._reported if number == self._number else 0)
        self._number, self.lines = number, 0
        self._refusals.clear()

    def attempt_ended(
        self, number: int, began_at: int, duration_ms: int, status: str, error: tuple[str, str] | None, isolation: str | None
    ) -> None:
        """Report that an attempt has ended. `error` is its code and message; None: it succeeded. A failure is on disk, and is reported now.
        A success is written together with the run's end, and is reported then (`ended`)."""
        self._live.wrote()
        if not self._observed:
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
        """Report the progress that the body sent."""
        if self._observed:
            self._observer.progressed(self.run, data)
        self._live.progressed(data)

    async def without_secrets(self, record: dict[str, Any]) -> dict[str, Any]:
        """The log line without the secrets of the run's inputs."""
        return await self._secrets.line_in_thread(record)

    def logged(self, record: dict[str, Any], *, clean: bool = False) -> dict[str, Any]:
        """Report a log line, unless it was reported before the body waited for a person. Returns the line without secrets, as it may be
        stored. `clean`: the secrets were removed already."""
        self.lines += 1
        kept = record if clean else self._secrets.line(record)
        if kept.get("event") == "tool_refused" and len(self._refusals) < _MOST_REFUSALS:
            self._refusals.append({"tool": kept["tool"], "error_code": kept["error_code"], "at": self._clock.now()})
        if self.lines > self._reported:
            self._reported = self.lines
            if self._observed:
                self._observer.logged(self.run, kept)
            self._live.logged(kept)
        return kept

    # --- its tools

    def tool_began(self, tool: Tool, intent: Intent) -> AbstractAsyncContextManager[Hears | None]:
        """Report that the gateway is about to make a call whose intent is on disk. The call is made inside the block that this returns. The
        block yields a function that takes the text of the result while it arrives, or None if the text is not passed on."""
        self._live.wrote()
        if self._observed:
            model_of = getattr(tool, "model_of", None)
            self._tools[intent.identity, intent.number] = monotonic(), None if model_of is None else model_of(intent.arguments)
            self._observer.tool_began(self.run, self._tool(intent, float(self._clock.now())))
        return self._live.tokens(tool, intent, lambda: self._secrets)

    def tool_ended(self, attempted: Try) -> None:
        """Report the end of a call whose receipt is on disk. For a call that an earlier run made, observers are not told."""
        self._live.wrote()
        receipt, intent = attempted.receipt, attempted.intent
        if not self._observed or receipt is None or attempted.inherited:
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
        """Report to observers that the gateway answered a call of the attempt `attempt` from the receipt that `attempted` has."""
        if self._observed:
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
        """The `traceparent` header that a call sends, so that the callee's spans are below the call's span."""
        return header_of(self.run.trace_id, self._span(intent), sampled=self.run.sampled)

    def _span(self, intent: Intent) -> str:
        return below(self.run.span_id, "tool", intent.identity, intent.number)

    def waits_for_person(self, kind: str, tool: str, attempt: int, operation_id: str) -> None:
        """Report that a request to a person is on disk. `operation_id` is the id of its callback."""
        self._live.wrote()
        if self._observed:
            asked = approval_id(self.run.run_id, operation_id)
            self._observer.waits_for_person(self.run, PersonWaitSeen(kind=kind, tool=tool, attempt=attempt, approval_id=asked))

    # --- the nodes of a pipeline

    def node_span(self, node: str, round: int) -> str | None:
        """The id of the span of a pipeline's node, so that the spans of its child runs are below it."""
        return below(self.run.span_id, "node", node, round)

    def node_ended(self, node: str, round: int, operation: Operation | None, state: str, error: tuple[str, str] | None) -> None:
        """Report the end of a pipeline's node, which is on disk. `operation` is the node's operation; None: observers are not told. `error`
        is the code and the message; None: no error."""
        self._live.wrote()
        if self._observed and operation is not None:
            ended_at = operation.ended_at or self._clock.now()
            code, message = (None, None) if error is None else (error[0], self._text(error[1]))
            seen = NodeSeen(
                node=node,
                round=round,
                state=state,
                span_id=below(self.run.span_id, "node", node, round),
                began_at=operation.started_at,
                ended_at=ended_at,
                error_code=code,
                message=message,
            )
            self._observer.node_ended(self.run, seen)

    def _text(self, text: str | None) -> str | None:
        return None if text is None else self._secrets.text(text)


class RunReporters:
    """The reporters of all runs of this process."""

    def __init__(self, observer: RunObserver, followers: Followers) -> None:
        self._observer = NO_OBSERVER if observer is NO_OBSERVER else RunObservers([observer])
        self._followers = followers
        self._ancestors = Ancestors()
        self._reporters: OrderedDict[str, LiveRunReporter] = OrderedDict()
        self._ended: OrderedDict[str, None] = OrderedDict()

    def observe(self, observer: RunObserver) -> None:
        """Add an observer. It is told of refused requests, and of the runs that this process takes up from now on. Of runs that are under
        way here it may be told nothing, or only the rest."""
        self._observer = RunObservers([observer] if self._observer is NO_OBSERVER else [self._observer, observer])

    def attach(self, engine: Engine) -> None:
        """From now on, report the ends of runs that this engine writes."""
        self._engine = engine
        engine.endings.heard = self._heard

    def on(self, header: Execution, accepted: AcceptedRequest, contract: Contract, clock: Clock) -> LiveRunReporter:
        """The reporter of a run. If there are observers, each call for one run returns the same object, until this process has written the
        run's end or too many later runs have begun. Without observers, each call returns a new one, for followers."""
        found = self._reporters.get(header.id)
        if found is None:
            seen, store = seen_of(header, accepted), self._engine.store
            live = LiveRun(self._followers, header.id, lambda: self._ancestors.above(store, header, accepted))
            found = LiveRunReporter(seen, self._observer, live, clock, contract, accepted.request.inputs)
            if self._observer is not NO_OBSERVER:
                self._reporters[header.id] = found
                if len(self._reporters) > _MOST_REPORTERS:  # removes reporters of runs that other processes ended
                    self._reporters.popitem(last=False)
        return found

    def refused(
        self,
        request: WorkerRequest,
        caller: Caller,
        error: InvalidRequest | LimitReached,
        began_at: int,
        *,
        known: bool,
        sampled: bool | None,
    ) -> None:
        """Report a refused request, which started no run. `error` says why. `known`: whether this process serves the worker. `began_at` is
        when the request arrived. `sampled` is the sampling flag of its trace; None: it had none."""
        if self._observer is NO_OBSERVER:
            return
        code = error.error_code if isinstance(error, InvalidRequest) else "rate_limited"
        trace = {
            "trace_id": request.trace.trace_id,
            "span_id": new_span_id(),
            "parent_span_id": caller_span(request.trace),
            "upstream_request_id": request.trace.upstream_request_id,
        }
        self._observer.refused(
            RefusalSeen(
                worker_id=request.worker_id,
                known=known,
                version=request.version or "",
                tenant=caller.tenant,
                status=meaning_of(code).status.value,
                error_code=code,
                message=str(error),
                at=self._engine.clock.now(),
                began_at=began_at,
                trace=trace,
                sampled=sampled,
            )
        )

    def _heard(self, header: Execution, payload: str | None) -> None:
        """Called when the attached engine has written the end of an execution: wakes its followers and, if it is a run and no shard,
        reports its end to observers. `payload` is the result; None if it must be read from the store."""
        self._followers.nudge(header.id)
        if self._observer is NO_OBSERVER or header.state is not State.CLOSED or header.id in self._ended:
            return
        reporter = self._reporters.pop(header.id, None)
        self._ended[header.id] = None
        if len(self._ended) > _MOST_ENDED:
            self._ended.popitem(last=False)
        store, ended_at = self._engine.store, header.ended_at or self._engine.clock.now()
        if reporter is not None and header.status is ExecutionStatus.SUCCEEDED and payload is not None:
            reporter.ended(response_from(payload), ended_at)
            return
        try:
            _, accepted = find_run(store, header.id, Caller())
            response = response_of(store, header, accepted)
        except ExecutionNotFound:
            return  # the execution is not a run
        if accepted.is_shard:
            return  # a part of a map: its pipeline's run reports it
        if reporter is not None:
            reporter.ended(response, ended_at)
        else:
            self._observer.ended(seen_of(header, accepted), end_of(response, (), None, ended_at))

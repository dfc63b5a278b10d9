"""One run or execution: what its page shows above the timeline, its payloads and events, and the actions of a person on it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from holdfast.console.run_names import is_unnamed, short_id
from holdfast.console.sources.run_secrets import Veil
from holdfast.console.sources.viewer import CallerSource
from holdfast.contract.protocol import Response
from holdfast.costs.reports import CostLine
from holdfast.descriptions.executions import arn_of
from holdfast.descriptions.failure_path import failed_in
from holdfast.descriptions.pipeline_view import PipelineView, pipeline_view
from holdfast.descriptions.why import Why, why
from holdfast.model import codec
from holdfast.model.error_text import brief_class, place_of
from holdfast.model.errors import InvalidParameter
from holdfast.model.execution import Execution, ExecutionStatus, State
from holdfast.model.history import PLACE, EventType, event_to_wire
from holdfast.model.ledger import nanos_of
from holdfast.model.operations import KEPT, Kind, Operation, Status
from holdfast.model.schedules import Occurrence, occurrence_in
from holdfast.model.shown_status import ShownStatus, shown_status
from holdfast.model.starts import restart_in
from holdfast.pipelines.draw.svg import draw_svg
from holdfast.pipelines.run.served_pipeline import PACKAGE
from holdfast.queues.places import QueuePlace, queue_place
from holdfast.store.seam import Filter
from holdfast.workers.accepted_request import AcceptedRequest
from holdfast.workers.run_lookup import accepted_in, open_approvals, response_of

EVENTS: Final = 100
"""One page shows at most this many events."""
_MOST_BELOW: Final = 3
_LONG_NAME: Final = 32
"""If the name of another execution is longer, a program probably made it: the link to that execution then shows its function and id."""
_MOST_REASON: Final = 1_000
_MOST_RESULT: Final = 256 * 1024
_BLIND: Final = (
    "This console does not know the contract, so it does not know what is secret. It hides the values of the inputs in all texts. "
    "The console of the server that serves this worker shows more."
)
_MOST_EXPORT: Final = 64 * 1024 * 1024
_MOST_EXPORTED: Final = 100_000
"""A run with more operations is not exported in one reply."""
_MOST_GRAPH: Final = 5_000
"""If a run has more operations than this, the page does not read them all: it shows neither the graph of a pipeline nor the operation in
which the run failed."""
_LATEST_EVENTS: Final = 3
"""The event that says how the newest invocation ended is one of this many newest events of the history."""


class Near(msgspec.Struct, frozen=True, kw_only=True):
    """Another execution with a link on this page: a parent, a child, or an earlier or later run."""

    how: str
    id: str
    name: str
    status: str


class RunHead(msgspec.Struct, frozen=True, kw_only=True):
    """What the top of the page says."""

    header: Execution
    status: ShownStatus
    kind: Kind
    why: Why
    arn: str
    version: str
    key: str | None
    """The idempotency key of a run; None if it has none."""
    cost: CostLine
    most_cost: int | None = None
    """The most that the run may cost, in billionths of a dollar; None if there is no such limit."""
    most_tokens: int | None = None
    most_calls: int | None = None
    calls: int | None = None
    attempt: int | None = None
    attempts: int | None = None
    place: QueuePlace | None = None
    occurrence: Occurrence | None = None
    near: tuple[Near, ...] = ()
    below: int = 0
    """How many executions this one has started itself. The count stops at 1,000."""
    below_bounded: bool = False
    requested_by: str | None = None
    error: str | None = None

    @property
    def id(self) -> str:
        return self.header.id

    @property
    def title(self) -> str:
        """What people call the execution. For a run: its idempotency key. For an execution of a function: its name. Without these: its
        function."""
        named = None if self.kind is not Kind.FUNCTION or self.header.name == self.header.id else self.header.name
        return self.key or named or self.header.function

    @property
    def is_unnamed(self) -> bool:
        """Whether lists call the execution by its id."""
        return is_unnamed(self.header)

    @property
    def is_open(self) -> bool:
        """Whether the execution has not ended."""
        return self.header.status is ExecutionStatus.RUNNING

    @property
    def may_stop(self) -> bool:
        """Whether a person may stop the execution: it is open, and was not imported."""
        return self.is_open and self.header.state is not State.IMPORTED

    @property
    def may_redrive(self) -> bool:
        """Whether a person may start the run again: it is parked, and was not started again before."""
        return self.header.parked and self.header.superseded_by is None


class EventRow(msgspec.Struct, frozen=True, kw_only=True):
    """One event of the history."""

    number: int
    type: str
    at: int
    operation: str | None
    name: str | None
    details: str


class Picture(msgspec.Struct, frozen=True, kw_only=True):
    """The graph of a pipeline's run."""

    svg: str
    nodes: dict[str, str]
    """For each node that has begun, the id of its operation (of the newest, if it began several times), by the name of the node."""


class RunSource(CallerSource):
    """Reads one execution for one caller, and acts on it."""

    # --- the head

    def head(self, header: Execution) -> RunHead:
        """Everything that the top of the page says."""
        store = self._viewer.store
        accepted = accepted_in(store, header)
        detail = next((line.event.detail for line in store.history(header.id, 0, 1)), None)
        undecided = header.state is State.SUSPENDED and accepted is not None and bool(open_approvals(store, header))
        children = store.list(Filter(parent=header.id, limit=1_001))
        head = RunHead(
            header=header,
            status=shown_status(header, undecided=undecided),
            kind=_kind_of(accepted),
            why=why(store, header),
            arn=arn_of(header),
            version=header.version if accepted is None else accepted.version,
            key=None if accepted is None else accepted.request.idempotency_key,
            cost=self._viewer.client.cost(run=header.id).total,
            place=queue_place(store, header, self._viewer.now),
            occurrence=occurrence_in(detail),
            near=tuple(self._near(header, restart_in(detail), accepted, children)),
            below=min(len(children), 1_000),
            below_bounded=len(children) > 1_000,
            error=self._error(header),
        )
        if header.summary is not None:
            attempts = None if head.kind is Kind.PIPELINE else header.summary.attempts  # no run of a pipeline is tried again as a whole
            head = msgspec.structs.replace(head, attempt=header.summary.attempt, attempts=attempts)
        return head if accepted is None else self._with_limits(head, accepted)

    def _with_limits(self, head: RunHead, accepted: AcceptedRequest) -> RunHead:
        limits, response, veil = accepted.limits, self._response(head.header, accepted), Veil(self._viewer, head.header)
        seen = None if response is None else response.observability
        return msgspec.structs.replace(
            head,
            most_cost=None if limits.max_cost_usd is None else nanos_of(limits.max_cost_usd),
            most_tokens=limits.max_tokens,
            most_calls=limits.max_tool_calls,
            calls=None if seen is None else seen.usage.tool_calls,
            attempt=head.attempt if head.attempt is not None or seen is None else seen.attempt,
            requested_by=accepted.requested_by,
            error=None
            if response is None or response.error is None
            else veil.text(f"{response.error.error_code}: {response.error.message}"),
        )

    def _response(self, header: Execution, accepted: AcceptedRequest) -> Response | None:
        return response_of(self._viewer.store, header, accepted) if header.status is ExecutionStatus.SUCCEEDED else None

    def _error(self, header: Execution) -> str | None:
        if header.status in (ExecutionStatus.RUNNING, ExecutionStatus.SUCCEEDED):
            return None
        failure = codec.failure_from(self._viewer.store.result(header) or "{}")
        told = ": ".join(part for part in (brief_class(failure.type or ""), failure.message) if part)
        inside = failed_in(self._viewer.store, header, failure) if header.operations <= _MOST_GRAPH else None
        told += "" if inside is None else f" (in {inside})"
        place = place_of(failure) or self._place(header)
        told = told if place is None else f"{told} at {place}"
        return Veil(self._viewer, header).text(told) or None

    def _place(self, header: Execution) -> str | None:
        """The line of the author's code at which the newest invocation failed; None if that is not known."""
        last = self._viewer.store.history(header.id, max(0, header.events - _LATEST_EVENTS))
        found = [line.event.detail for line in last if line.event.type is EventType.INVOCATION_COMPLETED]
        place = (found[-1] or {}).get(PLACE) if found else None
        return place if isinstance(place, str) else None

    def _near(
        self, header: Execution, restart: tuple[str, str | None] | None, accepted: AcceptedRequest | None, children: Sequence[Execution]
    ) -> list[Near]:
        again = None if accepted is None or accepted.again is None else accepted.again.of
        named = [
            ("started by", header.parent),
            ("restarts", restart[0] if restart is not None else again),
            ("goes on as", header.continued_as),
            ("superseded by", header.superseded_by),
        ]
        found = [self._one(how, self._viewer.store.find(one)) for how, one in named if one is not None]
        if len(children) <= _MOST_BELOW:
            found += [self._one("started", child) for child in reversed(children)]
        return [one for one in found if one is not None]

    def _one(self, how: str, header: Execution | None) -> Near | None:
        if header is None or not self._viewer.may_see(header):
            return None
        made = is_unnamed(header) or len(header.name) > _LONG_NAME
        name = f"{header.function} {short_id(header.id)}" if made else f"{header.function}/{header.name}"
        return Near(how=how, id=header.id, name=name, status=self._viewer.status(header).value)

    # --- the graph

    def picture(self, header: Execution) -> Picture | None:
        """The graph of a pipeline's run, drawn with the states of its nodes. None if the execution is not a pipeline's run, if it has very
        many operations, or if the store does not have its graph."""
        view = self.pipeline(header)
        if view is None:
            return None
        begun: dict[str, str] = {}
        for op in self._viewer.store.contexts(header.id):
            if op.sub_type == "Node" and op.name is not None:
                begun[op.name] = op.id
        return Picture(svg=draw_svg(view.graph, view.views(), style=False), nodes=begun)

    def pipeline(self, header: Execution) -> PipelineView | None:
        """The nodes of a pipeline's run, with their present states. None if the execution is not a pipeline's run, if it has very many
        operations, or if the store does not have its graph."""
        if header.graph is None or header.operations > _MOST_GRAPH:
            return None
        accepted = accepted_in(self._viewer.store, header)
        return None if accepted is None else pipeline_view(self._viewer.store, header, accepted)

    # --- payloads

    def payloads(self, header: Execution) -> dict[str, str | None]:
        """The texts of the tab `data`, by name; None for a text that does not exist. An execution of a function has `input`, `result` and
        `logs`. A run of a worker or a pipeline has `input`, `result`, `request` and `note`, and if it ended with a response, also
        `response` and `logs`. `note` is a sentence; all others are JSON. A result may be an error."""
        store = self._viewer.store
        accepted, given, result = accepted_in(store, header), store.input(header.id), store.result(header)
        veil = Veil(self._viewer, header)
        if accepted is None:
            logs = [] if self._viewer.served is None else list(self._viewer.served.logs(header))
            return {"input": veil.given(given), "result": veil.given(result), "logs": veil.text(_text(logs)) if logs else None}
        response = self._response(header, accepted)
        told = {"request": None if veil.is_blind else veil.given(given), "result": veil.given(result)}
        told["note"] = _BLIND if veil.is_blind else None
        told["input"] = _text(veil.inputs(accepted.request.inputs))
        if response is not None:
            told["response"] = told["result"]
            told["result"] = None if response.outputs is None else veil.text(_text(response.outputs))
            told["logs"] = veil.text(_text(list(response.logs))) if response.logs else None
        return told

    def events(self, header: Execution, after: int) -> tuple[list[EventRow], bool]:
        """At most EVENTS events of the history, after the event with the number `after` (0: from the first), with AWS's names for types and
        details; and True if more events follow."""
        lines = self._viewer.store.history(header.id, max(0, after), EVENTS + 1)
        rows, veil = [], Veil(self._viewer, header)
        for line in lines[:EVENTS]:
            wire = event_to_wire(line.event, (header.id, header.name), line.operation, include_data=True)
            details = wire[f"{wire['EventType']}Details"]
            own = None if line.operation is None else line.operation.id
            rows.append(
                EventRow(
                    number=line.event.number,
                    type=line.event.type.value,
                    at=line.event.at,
                    operation=own,
                    name=None if line.operation is None else line.operation.name,
                    details=json.dumps(veil.value(details), ensure_ascii=False, default=str)[:2_000] if details else "",
                )
            )
        return rows, len(lines) > EVENTS

    def export(self, header: Execution) -> bytes:
        """The whole execution as one JSON document, without secrets. Raises InvalidParameter if it is too large."""
        if header.stored > _MOST_EXPORT or header.operations > _MOST_EXPORTED:
            raise InvalidParameter(
                f"The execution is too large for a page. Write it to a file with `holdfast executions export {header.id}`."
            )
        document = Veil(self._viewer, header).value(self._viewer.client.export(header.id))
        return json.dumps(document, ensure_ascii=False, default=str).encode("utf-8", "replace")

    # --- actions

    def stop(self, header: Execution, reason: str) -> None:
        """Stop an execution and those below it, or cancel a run of a worker or a pipeline. A reason that is not empty is written to the
        audit log. An execution of a function that has ended does not change. Raises InvalidParameter if the reason is too long, or if a run
        of a worker or a pipeline has ended already. Raises InvalidParameter also for a copy that was imported before its original had
        ended, because no runner runs such a copy."""
        viewer, reason = self._viewer, _bounded(reason)
        if accepted_in(viewer.store, header) is None:
            viewer.client.stop(header.id, reason or None, "StoppedByOperator")
        elif not viewer.client.runs.cancel(header.id).cancelled:
            raise InvalidParameter("The run has ended already, so it cannot be stopped.")
        if reason and viewer.actor is not None:
            viewer.store.note(viewer.actor.did("reason", header.id, reason, viewer.now))

    def release(self, header: Execution) -> None:
        """Let an execution run again that is quarantined, or that waits for another try after its runners died. Raises InvalidParameter if
        it is neither."""
        self._viewer.client.release(header.id)

    def redrive(self, header: Execution) -> str:
        """Start a parked execution again, and return the id of the new execution. Raises an error that says why, if this is not
        possible."""
        (done,) = self._viewer.client.queues.redrive([header])
        if done.error is not None:
            raise done.error
        return done.started or header.id

    def succeed(self, header: Execution, operation: Operation, result: str) -> None:
        """Answer an open callback with a JSON text; an empty text is an answer without a result. Raises InvalidParameter if the operation
        is no open callback or is an approval, or if the text is too long. Raises PayloadNotJson if the text is not JSON. Raises
        CallbackClosed if the callback was closed in the meantime."""
        if len(result) > _MOST_RESULT:
            raise InvalidParameter(f"A result has at most {_MOST_RESULT:,} characters.")
        if result:
            codec.loads(result)
        self._viewer.client.succeed_callback(_callback(operation), result or None)

    def fail(self, header: Execution, operation: Operation, kind: str, message: str) -> None:
        """Answer an open callback with an error; `kind` is the error's type. Raises InvalidParameter if the operation is no open callback
        or is an approval, or if a text is too long. Raises CallbackClosed if the callback was closed in the meantime."""
        self._viewer.client.fail_callback(_callback(operation), _bounded(message) or None, _bounded(kind) or None)

    def heartbeat(self, header: Execution, operation: Operation) -> None:
        """Begin the heartbeat timeout of an open callback again. Raises InvalidParameter if the operation is no open callback or is an
        approval. Raises CallbackClosed if the callback was closed in the meantime."""
        viewer = self._viewer
        viewer.client.heartbeat_callback(_callback(operation))
        if viewer.actor is not None:
            viewer.store.note(viewer.actor.did("heartbeat", header.id, "sent", viewer.now))


def _callback(operation: Operation) -> str:
    if operation.sub_type in KEPT or operation.callback_id is None:
        raise InvalidParameter(
            "This operation is not a callback that can be answered here. A question to a person is decided on the page Approvals."
        )
    if operation.status is not Status.STARTED:
        raise InvalidParameter("The callback is not open: it has been answered, or it timed out.")
    return operation.callback_id


def _bounded(text: str) -> str:
    if len(text) > _MOST_REASON:
        raise InvalidParameter(f"The text has {len(text):,} characters. Write at most {_MOST_REASON:,}.")
    return text


def _kind_of(accepted: AcceptedRequest | None) -> Kind:
    if accepted is None:
        return Kind.FUNCTION
    return Kind.PIPELINE if accepted.package.startswith(PACKAGE) else Kind.WORKER


def _text(value: Any) -> str:
    return codec.dumps(value, sort=False)

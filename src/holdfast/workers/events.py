"""The events of a run for its followers. This file makes the recorded events: each one is made from one line of the run's history, and has
the number of that line as its id.

- Recorded events are `accepted`, `attempt`, `tool`, `approval`, `node`, `choice` and `done`. The id is a number, and never changes.
- Live events (event_rings.py) are `progress`, `tokens`, `log` and `gap` (some were dropped). They are not on disk. The id is a text.
- `quarantined` has no id: the last event for followers of a run that is quarantined or that the store has removed (followed_runs.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from holdfast.contract.protocol import response_document
from holdfast.model import json_structs
from holdfast.model.history import TERMINAL, EventType
from holdfast.model.operations import APPROVAL, Operation, Status, Type
from holdfast.store.seam import ExecutionStore, HistoryEntry
from holdfast.workers.accepted_request import AcceptedRequest
from holdfast.workers.approvals import approval_id, decision_of, undecided
from holdfast.workers.attempt import AttemptResult
from holdfast.workers.ballots import ESCALATION, VOTE, added_of, vote_of
from holdfast.workers.calls import Intent, Receipt
from holdfast.workers.run_lookup import response_of
from holdfast.workers.run_operations import ATTEMPT, CHOICE, INTENT, NODE, RECEIPT, node_at, undone_at

PAGE: Final = 200
_ROUNDS: Final = 1000
_outcomes = json_structs.decoder(AttemptResult)
_intents = json_structs.decoder(Intent)
_receipts = json_structs.decoder(Receipt)


class RunEvent(msgspec.Struct, frozen=True):
    """One event of a run."""

    id: int | str | None
    """For a recorded event, the number of its line in the history, which never changes. For a live event, which is not on disk, a text
    (`12.0a1b2c3d.7`). None for `quarantined`, the last event of a run that is quarantined or that the store has removed."""
    event: str
    data: Any


def events_so_far(store: ExecutionStore, run_id: str, accepted: AcceptedRequest) -> list[RunEvent]:
    """All recorded events of a run until now, oldest first."""
    found: list[RunEvent] = []
    after = 0
    while lines := store.history(run_id, after, PAGE):
        found += events_of(store, run_id, accepted, lines)
        after = lines[-1].event.number
    return found


def events_of(store: ExecutionStore, run_id: str, accepted: AcceptedRequest, lines: Sequence[HistoryEntry]) -> list[RunEvent]:
    """The events that followers get for these lines of a run's history. Some lines have no event."""
    return [event for line in lines for event in _told(store, run_id, accepted, line)]


def _told(store: ExecutionStore, run_id: str, accepted: AcceptedRequest, line: HistoryEntry) -> Iterator[RunEvent]:
    event, operation = line.event, line.operation
    if event.type is EventType.EXECUTION_STARTED:
        yield RunEvent(event.number, "accepted", {**_who(run_id, accepted), "at": event.at})
    elif event.type in TERMINAL:
        header = store.find(run_id)
        if header is not None:
            yield RunEvent(event.number, "done", response_document(response_of(store, header, accepted)))
    elif operation is not None:
        found = _of_operation(run_id, operation, event.type, event.payload)
        if found is not None:
            name, data = found
            yield RunEvent(event.number, name, {**data, "at": event.at})


def _who(run_id: str, accepted: AcceptedRequest) -> dict[str, Any]:
    who = {"run_id": run_id, "worker_id": accepted.request.worker_id, "version": accepted.version}
    return who | {"trace_id": accepted.trace_id, "span_id": accepted.span_id}


def _of_operation(run_id: str, operation: Operation, kind: EventType, payload: str | None) -> tuple[str, dict[str, Any]] | None:
    if operation.sub_type == ATTEMPT:
        return "attempt", _attempt(operation, kind)
    if operation.sub_type == INTENT and kind is EventType.STEP_SUCCEEDED:
        return "tool", _intent(operation)
    if operation.sub_type == RECEIPT and kind is EventType.STEP_SUCCEEDED:
        return "tool", _receipt(operation)
    if operation.sub_type == APPROVAL:
        return "approval", _approval(run_id, operation, kind)
    if operation.sub_type == VOTE:
        return "approval", _vote(run_id, operation)
    if operation.sub_type == ESCALATION:
        return "approval", _added(run_id, operation)
    if operation.sub_type == NODE:
        return "node", _node(operation, kind)
    if operation.sub_type == CHOICE and kind is EventType.STEP_SUCCEEDED:
        return "choice", {"node": operation.name, **msgspec.json.decode(operation.result or "{}")}
    return None


class _NodeError(msgspec.Struct):
    code: str
    message: str


class _NodeEnd(msgspec.Struct):
    """The members of a node's end that its event shows (pipelines.record.results.Settled)."""

    state: str
    why: str | None = None
    error: _NodeError | None = None


def _node(operation: Operation, kind: EventType) -> dict[str, Any]:
    place = node_at if operation.type is Type.CONTEXT else undone_at
    name = operation.name or ""
    about = {"node": name, "round": next((n for n in range(1, _ROUNDS) if place(name, n).operation_id == operation.id), 1)}
    if kind is EventType.CONTEXT_STARTED:
        return about | {"state": "running"}
    end = json_structs.decoded((operation.result if operation.error is None else operation.error.data) or "{}", _NodeEnd)
    told = about | {"state": end.state} | ({} if end.why is None else {"why": end.why})
    return told if end.error is None else told | {"error_code": end.error.code, "message": end.error.message}


def _attempt(operation: Operation, kind: EventType) -> dict[str, Any]:
    number = int((operation.name or "-0").rpartition("-")[2])
    if kind is EventType.CONTEXT_STARTED:
        return {"attempt": number, "state": "began"}
    text = operation.result if operation.error is None else operation.error.data
    outcome = _outcomes.decode(text or "{}")
    ended = {"attempt": number, "state": "ended", "duration_ms": outcome.duration_ms}
    return ended if outcome.error is None else ended | {"error_code": outcome.error.error_code, "message": outcome.error.message}


def _intent(operation: Operation) -> dict[str, Any]:
    intent = _intents.decode(operation.result or "{}")
    return {"tool": intent.tool, "state": "began", "attempt": intent.attempt, "effect": "write" if intent.write else "read"}


def _receipt(operation: Operation) -> dict[str, Any]:
    receipt = _receipts.decode(operation.result or "{}")
    usage = {
        "tokens": {"input": receipt.usage.input_tokens, "output": receipt.usage.output_tokens},
        "cost_usd": float(receipt.usage.cost_usd),
    }
    ended = {"tool": operation.name, "state": "lost" if receipt.void else "ended", "usage": usage}
    return ended if receipt.error is None else ended | {"error_code": receipt.error.error_code, "message": receipt.error.message}


def _vote(run_id: str, operation: Operation) -> dict[str, Any]:
    vote = vote_of(operation)
    about = {"approval_id": approval_id(run_id, vote.question), "tool": operation.name}
    return about | {"state": "vote", "verdict": vote.verdict, "decided_by": vote.person}


def _added(run_id: str, operation: Operation) -> dict[str, Any]:
    added = added_of(operation)
    about = {"approval_id": approval_id(run_id, added.question), "tool": operation.name}
    return about | {"state": "escalated", "approvers": list(added.approvers)}


def _approval(run_id: str, operation: Operation, kind: EventType) -> dict[str, Any]:
    about = {"approval_id": approval_id(run_id, operation.id), "tool": operation.name}
    if kind is EventType.CALLBACK_STARTED:
        return about | {"state": "open", "expires_at": operation.timeout_at}
    decision = decision_of(operation) if operation.status is Status.SUCCEEDED else None
    return about | ({"state": undecided(operation)} if decision is None else {"state": decision.verdict, "decided_by": decision.decided_by})

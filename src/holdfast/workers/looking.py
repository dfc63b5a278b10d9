"""Runs as a store shows them, to whoever may see them: what they came to, and what they wait for. Needs no engine, and runs nothing."""

from __future__ import annotations

import contextlib
import logging
from typing import Any

import msgspec

from holdfast.contract.codes import meaning_of
from holdfast.contract.protocol import Observability, Response, ResponseError, RunUsage, Tokens, response_from
from holdfast.engine.quarantines import waits
from holdfast.model.auditing import Actor, Note
from holdfast.model.errors import CallbackClosed, CodecFailed, ExecutionNotFound, RowDamaged
from holdfast.model.execution import Execution, ExecutionStatus, State, View
from holdfast.model.history import KIND
from holdfast.model.ids import Seal
from holdfast.model.life import Claimant, next_try, reason_of
from holdfast.model.operations import APPROVAL, CANCEL, OPEN, Failure, Kind, Operation
from holdfast.model.outside import Answering, Stop
from holdfast.model.verbs import Decision as Verdict
from holdfast.store.seam import Store
from holdfast.workers.approvals import (
    SETTLING,
    Approval,
    ApprovalNotFound,
    Decision,
    approvals_of,
    checked,
    code_of,
    request_of,
    run_of,
    waiting,
)
from holdfast.workers.calls import Calls
from holdfast.workers.gateway import EFFECTS_AT
from holdfast.workers.journal import ATTEMPT, CANCEL_AT
from holdfast.workers.observing import log_fields
from holdfast.workers.running import Accepted

log = logging.getLogger("holdfast.workers")

_PAGE = 100
_accepted = msgspec.json.Decoder(Accepted)


class Asker(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks: from the credential, never from the request."""

    tenant: str = "default"
    principal: str = "local"
    logged_in: bool = False
    everywhere: bool = False
    """Of no tenant, and so of all."""
    actor: Actor | None = None
    """Whom the audit log names; None where a program asks for itself."""

    def did(self, what: str, on: str, outcome: str, now: int) -> tuple[Note, ...]:
        """The note of a decision, if it is to be noted."""
        return () if self.actor is None else self.actor.did(what, on, outcome, now)

    def may_see(self, header: Execution) -> bool:
        """Tenants see their own; where nobody logs in, everybody sees everything."""
        return not self.logged_in or self.everywhere or header.tenant == self.tenant


def find_run(store: Store, run_id: str, asker: Asker) -> tuple[Execution, Accepted]:
    """A run that the asker may see, and its order."""
    header = store.find(run_id)
    if header is not None and asker.may_see(header):
        order = order_in(store, header)
        if order is not None:
            return header, order
    raise ExecutionNotFound(f"There is no run {run_id!r:.100}.")


def order_in(store: Store, header: Execution) -> Accepted | None:
    """The order of an execution that was accepted as a run; None for any other, whatever its input says.

    Runs from before there were marks are known by their input alone.
    """
    for line in store.history(header.id, 0, 1):
        marked = (line.event.detail or {}).get(KIND) == Kind.WORKER
        if marked or header.id <= store.unmarked:
            with contextlib.suppress(msgspec.DecodeError):
                return _accepted.decode(line.event.payload or "")
    return None


def response_of(store: Store, header: Execution, accepted: Accepted) -> Response:
    """What a run came to; of one that is not over, how it stands."""
    if header.status is ExecutionStatus.SUCCEEDED:
        return response_from(store.result(header) or "{}")
    approvals = open_approvals(store, header)
    code, message = _standing(header)
    if approvals:
        code, first = code_of(approvals), approvals[0]
        message = f"A person must decide: {first.approval_id} {first.question if first.kind == 'question' else first.tool}."
    meaning = meaning_of(code)
    return Response(
        run_id=header.id,
        worker_id=header.function,
        version=accepted.version,
        status=meaning.status,
        error=ResponseError(error_code=code, message=message, retryable=meaning.retryable),
        approvals=tuple(msgspec.to_builtins(approval) for approval in approvals),
        observability=_seen(store, header, accepted, meaning.status.value, code),
    )


def _seen(store: Store, header: Execution, accepted: Accepted, status: str, code: str) -> Observability:
    """What can be seen from outside of a run that has no response of its own."""
    operations = store.operations(header.id)
    ledger = Calls(accepted.limits, EFFECTS_AT)
    ledger.read(operations)
    # The first attempt is written with what it does first: a run that somebody has begun is in it.
    attempt = max(sum(op.sub_type == ATTEMPT for op in operations), int(header.epoch > 0))
    took = (header.ended_at or header.touched_at) - header.started_at
    known: dict[str, Any] = {"worker_id": header.function, "version": accepted.version, "run_id": header.id, "tenant": accepted.tenant}
    known |= {"attempt": attempt, "duration_ms": took, "status": status, "error_code": code, "tool_calls": ledger.calls}
    known |= {"trace_id": accepted.trace_id, "span_id": accepted.span_id}
    tokens = Tokens(ledger.usage.input_tokens, ledger.usage.output_tokens)
    return Observability(
        trace_id=accepted.trace_id,
        span_id=accepted.span_id,
        attempt=attempt,
        duration_ms=took,
        usage=RunUsage(tokens=tokens, cost_usd=ledger.usage.cost_usd, tool_calls=ledger.calls),
        log_fields=log_fields(accepted.log_fields, known),
    )


def state_of(store: Store, header: Execution) -> str:
    """queued, running, waiting or done. One whose runners died waits for its next try, as long as there is one."""
    if next_try(header) is not None:
        return "waiting"
    if header.status is not ExecutionStatus.RUNNING or header.state is State.QUARANTINED:
        return "done"
    if header.state is State.SUSPENDED:
        return "waiting"
    return "running" if header.invocation is not None or header.epoch else "queued"


def _standing(header: Execution) -> tuple[str, str]:
    """The code of a run that did not come to a response of its own."""
    if header.state is State.QUARANTINED:
        return "worker_crashed", f"The run is quarantined ({reason_of(header)}); it waits until an operator releases it."
    if (aside := waits(header)) is not None:
        return "overloaded", f"The run is not over yet. {aside}"
    if header.status is ExecutionStatus.TIMED_OUT:
        return "timeout", "The run took longer than run_timeout_seconds."
    if header.status is ExecutionStatus.STOPPED:
        return "cancelled", "Somebody cancelled the run."
    if header.status is ExecutionStatus.FAILED:
        return "worker_crashed", "The run failed inside the runtime; its execution's history says why."
    return "overloaded", "The run is not over yet."


# --- people


def open_approvals(store: Store, header: Execution) -> list[Approval]:
    """What a run waits for."""
    if header.status is not ExecutionStatus.RUNNING:
        return []
    return waiting(header, store.operations(header.id))


def undecided(store: Store, asker: Asker) -> list[Approval]:
    """All that waits for a decision, oldest first."""
    found: list[Approval] = []
    beyond = ""
    while page := store.undecided(beyond, _PAGE, None if asker.everywhere or not asker.logged_in else asker.tenant):
        for run_id in page:
            try:
                header = store.find(run_id)
                if header is not None and asker.may_see(header) and order_in(store, header) is not None:
                    found += open_approvals(store, header)
            except (RowDamaged, CodecFailed) as unreadable:  # the approvals of other runs are listed all the same
                log.error("what run %s waits for is left out of lists: %s", run_id, unreadable)
        beyond = page[-1]
    return found


def find_approval(store: Store, approval_id: str, asker: Asker) -> Approval:
    """One approval, decided or not."""
    return _approval(store, approval_id, asker)[0]


def deciding(store: Store, approval_id: str, decision: Decision, asker: Asker) -> Answering:
    """The write that brings a decision; whether it comes too late is settled by the write itself."""
    approval, callback, request = _approval(store, approval_id, asker)
    if approval.state != "open":
        by = "" if approval.decided_by is None else f" by {approval.decided_by}"
        raise CallbackClosed(f"{approval_id} was decided before: {approval.state}{by}.")
    if asker.logged_in:  # the name comes from the login, whatever was said
        decision = msgspec.structs.replace(decision, decided_by=asker.principal)
    decision = checked(request_of(request), decision, logged_in=asker.logged_in)
    text = msgspec.json.encode(decision).decode()
    notes = asker.did(*_told(decision, approval_id), decision.decided_at)
    return Answering(approval.run_id, callback.id, text, kept=APPROVAL, notes=notes)


def _told(decision: Decision, approval_id: str) -> tuple[str, str, str]:
    """A decision as the audit log tells it: what, on what, and what came of it."""
    edited = ", edited" if decision.edited_arguments is not None else ""
    own = ", own request" if decision.own_request else ""
    return "settle" if decision.verdict in SETTLING else decision.verdict, approval_id, f"{decision.verdict}{edited}{own}"


def _approval(store: Store, approval_id: str, asker: Asker) -> tuple[Approval, Operation, Operation]:
    with contextlib.suppress(ExecutionNotFound):
        header, _ = find_run(store, run_of(approval_id), asker)
        for found in approvals_of(header, store.operations(header.id)):
            if found[0].approval_id == approval_id:
                return found
    raise ApprovalNotFound(f"There is no approval {approval_id!r:.100}.")


class Cancel(msgspec.Struct, frozen=True):
    """Cancel a run: its runner ends the body, and lets calls in flight record what they did. One that has written nothing ends at once."""

    execution: str
    by: Claimant | None = None
    notes: tuple[Note, ...] = ()

    def decide(self, view: View, now: int, seal: Seal) -> Verdict:
        """Settled by the write itself: a call may begin while somebody makes up his mind. Cancelling twice changes nothing."""
        header, heard = view.header, view.get(CANCEL_AT.operation_id)
        if header.status is not ExecutionStatus.RUNNING or (heard is not None and heard.status not in OPEN):
            return None, header
        if heard is None or header.state is State.QUARANTINED:
            return Stop(self.execution, Failure("Somebody cancelled the run.", "cancelled"), notes=self.notes).decide(view, now, seal)
        return Answering(self.execution, heard.id, None, Failure("cancelled"), self.by, CANCEL, self.notes).decide(view, now, seal)


def cancelling(store: Store, run_id: str, asker: Asker, now: int) -> Cancel | None:
    """The write that cancels a run that is not over."""
    header, _ = find_run(store, run_id, asker)
    if header.status is not ExecutionStatus.RUNNING:
        return None
    return Cancel(run_id, notes=asker.did("cancel", run_id, "cancelled", now))

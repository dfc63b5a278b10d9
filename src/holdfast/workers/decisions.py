"""What people decide about runs, as writes to the store: a decision on an approval, and a cancellation."""

from __future__ import annotations

from typing import Protocol, TypeAlias

import msgspec

from holdfast.model.audit import Note
from holdfast.model.errors import CallbackClosed
from holdfast.model.execution import ExecutionStatus, State, View
from holdfast.model.life import Claimant
from holdfast.model.operations import APPROVAL, CANCEL, OPEN, Failure
from holdfast.model.outside import Answering, Stop
from holdfast.model.seal import Seal
from holdfast.model.verbs import VerbDecision
from holdfast.store.seam import AuditStore, CredentialStore, ExecutionStore
from holdfast.workers.approvals import SETTLING, WITHDRAWN, Approval, ApprovalRefused, Decision, request_of
from holdfast.workers.deciders import checked, person_of
from holdfast.workers.run_lookup import Caller, approval_operations, find_run
from holdfast.workers.run_operations import CANCEL_AT
from holdfast.workers.votes import Voting

DecisionWrite: TypeAlias = Answering | Voting


class DecisionStore(ExecutionStore, CredentialStore, AuditStore, Protocol):
    """The part of a store that says what may be decided, and by whom."""


def decision_write(store: DecisionStore, approval_id: str, decision: Decision, caller: Caller, *, in_batch: bool = False) -> DecisionWrite:
    """The write of a decision: it closes the approval, or adds one vote to it. Raises ApprovalNotFound if the caller can see no such
    approval, CallbackClosed if the approval is closed, ApprovalRefused if the decision is not allowed or its value does not fit the
    approval's schema, CheckTooCostly if that check takes too long, and Overloaded if too many checks wait. `in_batch`: the decision is part
    of a batch, which the operator may forbid for an approval. The store refuses the write if the approval was closed meanwhile."""
    approval, callback, request = approval_operations(store, approval_id, caller)
    if approval.state != "open":
        by = "" if approval.decided_by is None else f" by {approval.decided_by}"
        raise CallbackClosed(f"{approval_id} is closed already: {approval.state}{by}.")
    asked = request_of(request)
    if in_batch and not asked.batch:
        raise ApprovalRefused(f"{approval_id} has the risk {asked.risk}: the operator allows no batch for it. Decide it alone.")
    person = person_of(caller, decision.decided_by, store.credentials() if caller.logged_in else ())
    decision = checked(approval, decision, person, logged_in=caller.logged_in)
    notes = caller.did(*_note(decision, approval, caller), decision.decided_at)
    if asked.is_voted:
        return Voting(
            execution=approval.run_id, operation_id=callback.id, request=asked, decision=decision, names=person.names, notes=notes
        )
    return Answering(approval.run_id, callback.id, msgspec.json.encode(decision).decode(), kept=APPROVAL, notes=notes)


def _note(decision: Decision, approval: Approval, caller: Caller) -> tuple[str, str, str]:
    """What the audit log says about a decision: the action, the id of the approval, and the outcome."""
    told = decision.verdict if not approval.is_voted else f"vote: {decision.verdict}"
    if caller.actor is not None and decision.decided_by != caller.actor.who:
        told += f", as {decision.decided_by}"
    edited = ", edited" if decision.edited_arguments is not None else ""
    own = ", own request" if decision.own_request else ""
    return "settle" if decision.verdict in SETTLING else decision.verdict, approval.approval_id, f"{told}{edited}{own}"


class Cancel(msgspec.Struct, frozen=True):
    """Cancel a run: the runner ends the body and lets calls in flight record their outcome. A run that has written no operation yet, and a
    quarantined run, are stopped at once."""

    execution: str
    by: Claimant | None = None
    notes: tuple[Note, ...] = ()

    def decide(self, view: View, now: int, seal: Seal) -> VerbDecision:
        """Decide what the cancellation does. This happens inside the write, because a call may begin at the same time. If the run has ended
        or was cancelled before, nothing changes. Raises InvalidParameter if the run is an imported copy that was not closed."""
        header, heard = view.header, view.get(CANCEL_AT.operation_id)
        stop = Stop(self.execution, Failure("The run was cancelled.", "cancelled"), notes=self.notes)
        if header.state is State.IMPORTED:
            return stop.decide(view, now, seal)
        if header.status is not ExecutionStatus.RUNNING or (heard is not None and heard.status not in OPEN):
            return None, header
        if heard is None or header.state is State.QUARANTINED:
            return stop.decide(view, now, seal)
        return Answering(self.execution, heard.id, None, Failure("cancelled"), self.by, CANCEL, self.notes).decide(view, now, seal)


def withdrawal(run_id: str, operation_id: str) -> Answering:
    """The write that takes back a question of a run. If a person's decision was written first, the store refuses this write with
    CallbackClosed, and the decision stays."""
    return Answering(run_id, operation_id, None, Failure("The run took the question back.", WITHDRAWN), kept=APPROVAL)


def cancel_write(store: ExecutionStore, run_id: str, caller: Caller, now: int) -> Cancel | None:
    """The write that cancels a run; None if the run has ended. Raises ExecutionNotFound if the caller can see no such run."""
    header, _ = find_run(store, run_id, caller)
    if header.status is not ExecutionStatus.RUNNING:
        return None
    return Cancel(run_id, notes=caller.did("cancel", run_id, "cancelled", now))

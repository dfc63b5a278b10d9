"""Approvals: what a person decides. Each is a callback of its run that takes no other answer, bound to the arguments it was asked for.

The request stands beside it in the run's history, written in the same moment; whether a decision comes too late is settled by the write
that brings it, and the intent that uses it up is written once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Any, Literal

import msgspec

from holdfast.contract.checking import told_of
from holdfast.durable.identifier import Identity
from holdfast.hosts.evaluator.checking import problems_now
from holdfast.model import codec
from holdfast.model.errors import Rejected
from holdfast.model.execution import Execution
from holdfast.model.operations import APPROVAL, Operation, Status, Type
from holdfast.workers.journal import REQUEST, place

Kind = Literal["approve", "unknown_outcome", "question"]
VERDICTS: dict[Kind, frozenset[str]] = {
    "approve": frozenset({"approve", "reject"}),
    "unknown_outcome": frozenset({"happened", "not_happened", "stop"}),
    "question": frozenset({"answer", "reject"}),
}
"""What may be said to each kind."""
SETTLING = VERDICTS["unknown_outcome"]
"""What `settle` may say. To settle a call and to approve one are two permissions: `settle` approves nothing, `approve` settles nothing."""
_PREFIX = "a_"
_SHOWN = 16
_DECIDED = ("decided_by", "decided_at", "edited_arguments", "comment", "own_request")


class ApprovalRefused(Rejected):
    """A decision cannot be taken."""

    code = "approval_refused"


class ApproverRefused(ApprovalRefused):
    """Whoever decides may not decide this."""

    code = "approver_refused"


class ApprovalNotFound(Rejected):
    """There is no such approval."""

    code = "approval_not_found"


class Requested(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be decided, as the run wrote it down."""

    kind: Kind
    tool: str
    arguments: dict[str, Any]
    arguments_sha256: str
    requested_by: str
    approvers: tuple[str, ...] = ()
    used_ms: int = 0
    """How much of the attempt's time was used up when it began to wait."""
    attempt: int = 1
    logged: int = 0
    """How many lines the body had logged: they were told then, and are not told again when it goes on."""
    question: str | None = None
    schema: dict[str, Any] | None = None
    """What edited arguments, or an answer, must fit."""


class Decision(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a person said."""

    verdict: str
    decided_by: str
    decided_at: int
    edited_arguments: dict[str, Any] | None = None
    edited_sha256: str | None = None
    result: Any = None
    """The answer to a question, or what a call that happened came to."""
    comment: str | None = None
    own_request: bool = False
    """Somebody decided what he had asked for himself: allowed only where nobody logs in."""


class Approval(msgspec.Struct, frozen=True, kw_only=True):
    """An approval as people see it."""

    approval_id: str
    kind: Kind
    run_id: str
    worker_id: str
    tool: str
    arguments: dict[str, Any]
    arguments_sha256: str
    requested_by: str
    requested_at: int
    expires_at: int | None
    approvers: tuple[str, ...]
    state: str
    question: str | None = None
    """What a body asks, or why nobody knows what became of a call."""
    decided_by: str | None = None
    decided_at: int | None = None
    edited_arguments: dict[str, Any] | None = None
    comment: str | None = None
    own_request: bool = False
    """Whoever decided had asked for it."""
    tenant: str | None = None


class ApprovalPlace(msgspec.Struct, frozen=True):
    """Where an approval and its request are kept."""

    callback: Identity
    request: Identity


_requests = msgspec.json.Decoder(Requested)
_decisions = msgspec.json.Decoder(Decision)


def approval_at(effects: Identity, kind: Kind, tool: str, identity: str, number: int) -> ApprovalPlace:
    """Where the approval of a call is kept."""
    parts = (kind, identity, number)
    callback = place(Type.CALLBACK, APPROVAL, tool, *parts, parent=effects)
    return ApprovalPlace(callback, place(Type.STEP, REQUEST, tool, *parts, parent=effects))


def arguments_hash(arguments: dict[str, Any]) -> str:
    """The identity of arguments."""
    return sha256(codec.dumps(arguments).encode()).hexdigest()


def request_of(operation: Operation) -> Requested:
    """The request that an operation holds."""
    return _requests.decode(operation.result or "{}")


def decision_of(operation: Operation) -> Decision | None:
    """The decision on a closed approval; None when its time ran out."""
    return _decisions.decode(operation.result) if operation.status is Status.SUCCEEDED and operation.result else None


def approval_id(run_id: str, operation_id: str) -> str:
    """The name of an approval; it says where it is, and gives no right to anything."""
    return f"{_PREFIX}{run_id}.{operation_id[:_SHOWN]}"


def run_of(identity: str) -> str:
    """The run an approval belongs to."""
    run, dot, _ = identity.removeprefix(_PREFIX).rpartition(".")
    if not identity.startswith(_PREFIX) or not dot:
        raise ApprovalNotFound(f"{identity!r:.100} is no approval id; they look like a_….")
    return run


def approvals_of(header: Execution, operations: Sequence[Operation]) -> list[tuple[Approval, Operation, Operation]]:
    """All approvals of a run, in the order they were asked for, with the callbacks they are and the requests beside them."""
    requests = {(op.name, op.parent_id, op.place): op for op in operations if op.sub_type == REQUEST}
    found = []
    for op in operations:
        if op.type is Type.CALLBACK and op.sub_type == APPROVAL:
            # The request is written right after its callback, so it is the next event.
            request = requests.get((op.name, op.parent_id, op.place + 1))
            if request is not None:
                found.append((_shown(header, op, request_of(request)), op, request))
    return found


def waiting(header: Execution, operations: Sequence[Operation]) -> list[Approval]:
    """The approvals that a run waits for."""
    return [approval for approval, op, _ in approvals_of(header, operations) if op.status is Status.STARTED]


def _shown(header: Execution, op: Operation, request: Requested) -> Approval:
    decision = decision_of(op)
    state = "open" if op.status is Status.STARTED else "expired" if decision is None else decision.verdict
    decided = {} if decision is None else {name: getattr(decision, name) for name in _DECIDED}
    return Approval(
        approval_id=approval_id(header.id, op.id),
        kind=request.kind,
        run_id=header.id,
        worker_id=header.function,
        tool=request.tool,
        arguments=request.arguments,
        arguments_sha256=request.arguments_sha256,
        requested_by=request.requested_by,
        requested_at=op.started_at,
        expires_at=op.timeout_at,
        approvers=request.approvers,
        state=state,
        question=request.question,
        tenant=header.tenant,
        **decided,
    )


def checked(request: Requested, decision: Decision, *, logged_in: bool) -> Decision:
    """The decision as it may be written, or why it may not be."""
    allowed = VERDICTS[request.kind]
    if decision.verdict not in allowed:
        raise ApprovalRefused(f"This takes {' or '.join(sorted(allowed))}, not {decision.verdict!r:.50}.")
    if request.approvers and decision.decided_by not in request.approvers:
        raise ApproverRefused(f"{decision.decided_by} is not among those who may decide this: {', '.join(request.approvers)}.")
    own = decision.decided_by == request.requested_by
    if own and logged_in:
        raise ApproverRefused(f"{decision.decided_by} asked for this; somebody else must decide it.")
    edited = decision.edited_arguments
    if edited is not None and (request.kind != "approve" or decision.verdict != "approve"):
        raise ApprovalRefused("Only an approval can come with edited arguments.")
    if edited is not None or decision.verdict == "answer":
        _check_fits(request.schema, edited if edited is not None else decision.result, request.requested_by)
    hashed = None if edited is None else arguments_hash(edited)
    return msgspec.structs.replace(decision, edited_sha256=hashed, own_request=own)


def check_settles(verdict: str) -> None:
    """Refuse a verdict that `settle` does not bring: who may settle need not be who may approve."""
    if verdict not in SETTLING:
        raise ApprovalRefused(f"`settle` takes {', '.join(sorted(SETTLING))}, not {verdict!r:.50}.")


def _check_fits(schema: dict[str, Any] | None, value: Any, who: str) -> None:
    if schema is None:
        return
    problems = problems_now(schema, value, who)
    if problems:
        raise ApprovalRefused(f"What was given does not fit: {told_of(problems)}.")


def code_of(approvals: Iterable[Approval]) -> str:
    """The code of a run that waits for these."""
    return "unknown_outcome" if any(approval.kind == "unknown_outcome" for approval in approvals) else "approval_required"

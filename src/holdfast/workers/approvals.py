"""Approvals: what a person decides. Each is a callback of its run, bound to exact arguments. It is closed by a decision, by its time limit
(`expired`), or by the run itself (`withdrawn`).

The request for a decision is written together with its callback. The write of a decision checks whether the approval is still open. An
approval of a call allows one call: the record that is written before that call (its intent) names the approval's callback.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import msgspec

from holdfast.contract.protocol import ResponseUsage
from holdfast.durable.identifier import Identity
from holdfast.durable.journal import identity_of
from holdfast.model import codec, json_structs
from holdfast.model.errors import Rejected
from holdfast.model.execution import Execution
from holdfast.model.operations import APPROVAL, Operation, Status, Type
from holdfast.workers.ballots import NO_BALLOT, Ballot, Vote, ballots_in
from holdfast.workers.run_operations import EFFECTS_AT, REQUEST

AskKind = Literal["approve", "unknown_outcome", "question"]
"""What is decided: whether a call may be made; whether a call took place; or the answer to a question."""
VERDICTS: dict[AskKind, frozenset[str]] = {
    "approve": frozenset({"approve", "reject"}),
    "unknown_outcome": frozenset({"happened", "not_happened", "stop"}),
    "question": frozenset({"answer", "reject"}),
}
"""The verdicts that are allowed for each kind of approval."""
SETTLING = VERDICTS["unknown_outcome"]
"""The verdicts that are allowed for `settle`, which decides about a call of unknown outcome. To settle and to approve are two
permissions."""
WITHDRAWN = "withdrawn"
"""The state of a question that its run took back, because no answer to it matters any more."""
_PREFIX = "a_"
_SHOWN = 16
_DECIDED = ("decided_by", "decided_at", "edited_arguments", "comment", "own_request")


class ApprovalRefused(Rejected):
    """A decision is refused, because it is not allowed or does not fit the approval."""

    code = "approval_refused"


class ApproverRefused(ApprovalRefused):
    """The person who decided may not decide this approval."""

    code = "approver_refused"


class VotedBefore(ApprovalRefused):
    """The person has voted on this question before."""

    code = "voted_before"


class ApprovalNotFound(Rejected):
    """There is no approval with this id that the caller may see."""

    code = "approval_not_found"


class ChainPart(msgspec.Struct, frozen=True, omit_defaults=True):
    """One part of an escalation chain: if the question is still open after this many seconds, these approvers (persons, groups or
    credentials) may decide too."""

    after_seconds: int
    approvers: tuple[str, ...]


class Requested(msgspec.Struct, frozen=True, kw_only=True):
    """The request for a decision, as the run wrote it."""

    kind: AskKind
    tool: str
    arguments: dict[str, Any]
    arguments_sha256: str
    requested_by: str
    approvers: tuple[str, ...] = ()
    """The names of the persons, groups or credentials that may decide; empty: every person with the role."""
    used_ms: int = 0
    """How many milliseconds of its time limit the attempt had used when it began to wait for this decision."""
    attempt: int = 1
    logged: int = 0
    """How many log lines there were before the question, since the body began. They were reported at that time, so they are not reported
    again when the body runs again."""
    question: str | None = None
    schema: dict[str, Any] | None = None
    """The JSON Schema for edited arguments or for an answer; None: no check."""
    node: str | None = None
    """The node of a pipeline that asks; None if a worker's run asks."""
    votes: int = 1
    """How many persons must approve."""
    group: str | None = None
    """At least one of the persons who approve must be a member of this group; None: no group is demanded."""
    groups: dict[str, tuple[str, ...]] = {}
    """The members of the groups among the approvers, and of `group`, as the operator's settings had them when the question was asked."""
    risk: str | None = None
    """low, medium or high; None if no risk is given."""
    batch: bool = True
    """Whether a person may decide it in a batch, together with other approvals."""
    links: bool = True
    """Whether a link may be made for it."""
    then: tuple[ChainPart, ...] = ()
    """The escalation chain: which approvers the run adds while the question stays open, and when."""

    @property
    def is_voted(self) -> bool:
        """Whether several persons vote, or a group must take part. If not, the first decision closes the approval."""
        return self.votes > 1 or self.group is not None


class Decision(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The decision of a person."""

    verdict: str
    decided_by: str
    decided_at: int
    edited_arguments: dict[str, Any] | None = None
    """The arguments that the person approved in place of those shown; None: the person changed nothing."""
    edited_sha256: str | None = None
    result: Any = None
    """The answer to a question, or the result of a call that a person says took place; None otherwise."""
    comment: str | None = None
    own_request: bool = False
    """Whether the person who decided had also made the request. That is allowed only on a server where callers do not log in."""

    @property
    def remark(self) -> str:
        """The comment as the end of an error message: in parentheses, or empty if the person gave no comment."""
        return "" if self.comment is None else f" ({self.comment})"


class ChainPartStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One part of the escalation chain of an approval, and whether its approvers were added."""

    at: int
    """When the approvers are added if the question is still open, in milliseconds since 1970."""
    approvers: tuple[str, ...]
    added: bool


class SpentBy(msgspec.Struct, frozen=True, kw_only=True):
    """What an execution has used so far, including all runs below it. The execution is a run, or a durable function that asked for runs."""

    run_id: str
    worker_id: str
    usage: ResponseUsage


class Approval(msgspec.Struct, frozen=True, kw_only=True):
    """An approval as people see it."""

    approval_id: str
    kind: AskKind
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
    """`open`; the verdict of the decision; `expired`, or `withdrawn`."""
    question: str | None = None
    """The text for the person who decides: the question, or why the outcome of a call is unknown. None if there is only the call to decide
    about."""
    decided_by: str | None = None
    decided_at: int | None = None
    edited_arguments: dict[str, Any] | None = None
    comment: str | None = None
    own_request: bool = False
    """Whether the person who decided had also made the request."""
    tenant: str | None = None
    node: str | None = None
    """The node of a pipeline that asks; None if a worker's run asks."""
    schema: dict[str, Any] | None = None
    """The JSON Schema for edited arguments or for an answer; None: no check."""
    groups: dict[str, tuple[str, ...]] = {}
    """The members of the groups among the approvers, and of `group`."""
    group: str | None = None
    """At least one of the persons who approve must be a member of this group; None: no group is demanded."""
    risk: str | None = None
    """low, medium or high; None if no risk is given."""
    batch: bool = True
    """Whether a person may decide it in a batch, together with other approvals."""
    links: bool = True
    """Whether a link may be made for it."""
    votes_needed: int = 1
    """How many persons must approve."""
    votes: tuple[Vote, ...] = ()
    """The votes so far; always empty if the first decision closes the approval (`is_voted` is false)."""
    chain: tuple[ChainPartStatus, ...] = ()
    spent: tuple[SpentBy, ...] = ()
    """What executions have used so far: first the run that asks, then each execution above it, up to the outermost. Empty if this was not
    read."""
    may_cost: dict[str, Any] | None = None
    """An estimate of what the outermost run may still cost from now on; None if there is no estimate."""

    @property
    def is_voted(self) -> bool:
        """Whether several persons vote, or a group must take part. If not, the first decision closes the approval."""
        return self.votes_needed > 1 or self.group is not None


class ApprovalPlace(msgspec.Struct, frozen=True):
    """The identities of the two operations of an approval: its callback, and the step with its request."""

    callback: Identity
    request: Identity


_requests = json_structs.decoder(Requested)
_decisions = json_structs.decoder(Decision)
_documents = msgspec.json.Encoder(decimal_format="number")


def approval_at(kind: AskKind, tool: str, identity: str, number: int) -> ApprovalPlace:
    """The identities of the callback and of the request of an approval. `identity` and `number` tell apart the approvals of a run that have
    the same kind and tool. The same arguments always give the same identities."""
    parts = (kind, identity, number)
    callback = identity_of(Type.CALLBACK, APPROVAL, tool, *parts, parent=EFFECTS_AT)
    return ApprovalPlace(callback, identity_of(Type.STEP, REQUEST, tool, *parts, parent=EFFECTS_AT))


def arguments_hash(arguments: dict[str, Any]) -> str:
    """The sha256 of a call's arguments as JSON. Two calls have the same arguments if these hashes are equal."""
    return codec.payload_hash(codec.dumps(arguments))


def request_of(operation: Operation) -> Requested:
    """The request for a decision that `operation` holds. `operation` is the step with the sub-type `Request` beside the approval's
    callback."""
    return _requests.decode(operation.result or "{}")


def decision_of(operation: Operation) -> Decision | None:
    """The decision in the callback of an approval; None if the approval is open, expired or was withdrawn."""
    return _decisions.decode(operation.result) if operation.status is Status.SUCCEEDED and operation.result else None


def approval_id(run_id: str, operation_id: str) -> str:
    """The id of an approval, made from the ids of its run and of its callback. It is not secret: a caller who knows it gets no right to
    decide."""
    return f"{_PREFIX}{run_id}.{operation_id[:_SHOWN]}"


def is_approval_id(text: str) -> bool:
    """Whether a text has the form of an approval's id."""
    return text.startswith(_PREFIX) and "." in text


def run_of(identity: str) -> str:
    """The id of the run that an approval belongs to. Raises ApprovalNotFound if the text does not have the form of an approval's id."""
    run, _, _ = identity.removeprefix(_PREFIX).rpartition(".")
    if not is_approval_id(identity):
        raise ApprovalNotFound(f"{identity!r:.100} is not a valid approval id: an approval id has the form a_RUN.CALLBACK.")
    return run


def approvals_of(header: Execution, operations: Sequence[Operation]) -> list[tuple[Approval, Operation, Operation]]:
    """All approvals of a run, oldest first, each with the operations of its callback and of its request."""
    requests = {(op.name, op.parent_id, op.place): op for op in operations if op.sub_type == REQUEST}
    ballots = ballots_in(operations)
    found = []
    for op in operations:
        if op.type is Type.CALLBACK and op.sub_type == APPROVAL:
            # The request is written right after its callback, so it is the next event.
            request = requests.get((op.name, op.parent_id, op.place + 1))
            if request is not None:
                found.append((_shown(header, op, request_of(request), ballots.get(op.id, NO_BALLOT)), op, request))
    return found


def waiting(header: Execution, operations: Sequence[Operation]) -> list[Approval]:
    """The approvals of a run that are open."""
    return [approval for approval, op, _ in approvals_of(header, operations) if op.status is Status.STARTED]


def _shown(header: Execution, op: Operation, request: Requested, ballot: Ballot) -> Approval:
    decision = decision_of(op)
    state = "open" if op.status is Status.STARTED else undecided(op) if decision is None else decision.verdict
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
        approvers=(*request.approvers, *(name for more in ballot.added for name in more.approvers if name not in request.approvers)),
        state=state,
        question=request.question,
        tenant=header.tenant,
        node=request.node,
        schema=request.schema,
        groups=request.groups | {name: members for more in ballot.added for name, members in more.groups.items()},
        group=request.group,
        risk=request.risk,
        batch=request.batch,
        links=request.links,
        votes_needed=request.votes,
        votes=ballot.votes,
        chain=_chain(op, request, ballot),
        **decided,
    )


def _chain(op: Operation, request: Requested, ballot: Ballot) -> tuple[ChainPartStatus, ...]:
    added = {more.number for more in ballot.added}
    return tuple(
        ChainPartStatus(at=op.started_at + part.after_seconds * 1000, approvers=part.approvers, added=number in added)
        for number, part in enumerate(request.then, 1)
    )


def undecided(op: Operation) -> str:
    """The state of an approval that was closed without a decision: `withdrawn` or `expired`. `op` is its callback. Do not call this for an
    approval that is open or decided."""
    return WITHDRAWN if op.error is not None and op.error.type == WITHDRAWN else "expired"


def check_settles(verdict: str) -> None:
    """Raise ApprovalRefused if the verdict is not `happened`, `not_happened` or `stop`: others may not be given by `settle`, which decides
    about a call of unknown outcome. (A caller who may settle is not always allowed to approve.)"""
    if verdict not in SETTLING:
        raise ApprovalRefused(f"The verdict of `settle` must be one of {', '.join(sorted(SETTLING))}, not {verdict!r:.50}.")


def approval_document(approval: Approval) -> dict[str, Any]:
    """An approval as a dict of JSON values."""
    document: dict[str, Any] = msgspec.json.decode(_documents.encode(approval))
    return document


def code_of(approvals: Iterable[Approval]) -> str:
    """The error code of a run that waits for these approvals: `unknown_outcome` if one of them is about a call of unknown outcome, else
    `approval_required`."""
    return "unknown_outcome" if any(approval.kind == "unknown_outcome" for approval in approvals) else "approval_required"

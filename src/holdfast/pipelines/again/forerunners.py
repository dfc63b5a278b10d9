"""Forerunners: the earlier runs of a restarted pipeline, and what a node of the new run takes from them.

Two things are taken. A *result* is reused if the newest run that came to the node ended it well, and the same work is asked for: then no
child run begins. *Receipts* of writes are inherited by every child run that does begin, whatever became of the earlier ones: its link
names them (workers.calls).

Work that was undone, and work that the operator wants sent again, has neither: its child run begins a family of its own, so that a
server which knows the old idempotency keys does not take the new calls for the old ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from hashlib import sha256
from typing import Literal, TypeAlias

import msgspec

from holdfast.contract.codes import Status
from holdfast.durable.identifier import Identity
from holdfast.model import codec
from holdfast.model.operations import OPEN, RUN, Kind, Operation, Order, Type
from holdfast.pipelines.graph.graph import AnyNode, MapNode, WorkerNode
from holdfast.pipelines.record.operations import REUSED, Visit, node_at, reused_at, undone_at
from holdfast.pipelines.record.responses import child_response
from holdfast.pipelines.record.results import Settled, settled_of
from holdfast.pipelines.record.reused import Reused, raw_of, reused_in
from holdfast.workers.accepted_request import AcceptedRequest, Again, Link, accepted_from, work_of
from holdfast.workers.approvals import ApprovalPlace, Decision, Requested, decision_of, request_of
from holdfast.workers.ballots import NO_BALLOT, ballots_in
from holdfast.workers.earlier_runs import EarlierRun

UNDO = "undo"
"""How the parts of a node's work begin that take back what the node did."""
Reuse: TypeAlias = Literal["all", "ok", "none"]
"""Which results of an earlier node count: all of them, those that went well, or none."""


class Earlier(msgspec.Struct, frozen=True, kw_only=True):
    """What earlier runs did at the place of a child run that is about to begin."""

    link: Link | None = None
    """The link of the child run; None: it is the first of its family."""
    candidate: Reused | None = None
    """A result that counts, if the new child run would do the same work."""

    def reusable(self, order: Order) -> Reused | None:
        """The result that stands for the ordered run. A pipeline is always run: its own nodes decide what they reuse."""
        if self.candidate is None or order.kind is Kind.PIPELINE:
            return None
        return self.candidate if work_of(accepted_from(order.input)) == self.candidate.work else None


class Forerunners:
    """The earlier runs of one run, the newest first."""

    def __init__(self, accepted: AcceptedRequest, runs: Sequence[EarlierRun]) -> None:
        self._accepted = accepted
        self._again = accepted.again
        self.runs = [_Past(run) for run in runs]

    @property
    def keeps(self) -> bool:
        """Whether what earlier runs did stays as it is if this run fails."""
        return self._again is not None and self._again.kept

    def reuse(self, node: AnyNode, round: int) -> tuple[_Past, Reuse] | None:
        """The run whose results of a node count, and which of them; None if there is none."""
        again = self._again
        if again is None or again.is_whole or node.name in again.nodes:
            return None
        for past in self.runs:
            if node.name in past.names:
                return past, past.reuse(node, round, is_retry=again.is_retry)
            if past.forced(node.name):
                return None
        return None

    def is_fresh(self, node: str, round: int) -> bool:
        """Whether nothing of earlier runs counts for what the node writes: it was undone, or it is to be sent again."""
        if self._again is not None and node in self._again.resend:
            return True
        newest = next((past for past in self.runs if node in past.names), None)
        return newest is not None and newest.is_undone(node, round)

    def child(self, node: AnyNode, visit: Visit, part: str, at: Identity, worker_id: str) -> Earlier:
        """What is known at the place of a child run."""
        round, found = visit.round, self.reuse(node, visit.round)
        candidate = None
        if found is not None and not part.startswith(UNDO):
            past, reuse = found
            candidate = counted(past.result(at), reuse)
        is_whole = self._again is None or self._again.is_whole or node.name in self._again.nodes
        return Earlier(link=self._link(node.name, round, part, worker_id, is_whole=is_whole), candidate=candidate)

    def _link(self, node: str, round: int, part: str, worker_id: str, *, is_whole: bool) -> Link | None:
        for past in self.runs:
            done = past.done(node, round, part, worker_id)
            if done:
                is_fresh = self.is_fresh(node, round) or past.is_undone(node, round)
                return linked(done[-1], self._accepted, is_whole=is_whole, is_fresh=is_fresh)
        return None

    def decision(self, node: AnyNode, round: int, place: ApprovalPlace, asked: Requested) -> Reused | None:
        """What was decided about exactly the same before, for a node that ended well. The decision of a person who asks for the new run
        does not count: a person does not decide about the own request."""
        found = self.reuse(node, round)
        if found is None or found[1] != "all":
            return None
        past, _ = found
        known = past.reused.get(reused_at(place.callback).operation_id)
        if known is not None:
            is_same = known.decision is not None and known.asked == question_hash(asked)
            return known if is_same and not known.is_own(asked.requested_by) else None
        callback, request = past.run.operations.get(place.callback.operation_id), past.run.operations.get(place.request.operation_id)
        decision: Decision | None = None if callback is None or callback.status in OPEN else decision_of(callback)
        if decision is None or request is None or question_hash(request_of(request)) != question_hash(asked):
            return None
        votes = ballots_in(past.run.operations.values()).get(place.callback.operation_id, NO_BALLOT).votes
        made = Reused(of=past.id, round=round, asked=question_hash(asked), decision=decision, voters=tuple(vote.person for vote in votes))
        return None if made.is_own(asked.requested_by) else made

    def wait(self, node: AnyNode, round: int, at: Identity) -> Reused | None:
        """A wait that was over before, for a node that ended well."""
        found = self.reuse(node, round)
        if found is None or found[1] != "all":
            return None
        past, _ = found
        known = past.run.operations.get(at.operation_id)
        is_over = known is not None and known.status not in OPEN
        return Reused(of=past.id, round=round) if is_over or reused_at(at).operation_id in past.reused else None


class _Past:
    """One earlier run, by the places of its work."""

    def __init__(self, run: EarlierRun) -> None:
        self.run = run
        self.id = run.header.id
        self.names = {operation.name for operation in run.operations.values()}
        self.reused = {op.id: reused_in(op) for op in run.operations.values() if op.sub_type == REUSED and op.type is Type.STEP}
        self._again: Again | None = run.accepted.again

    def forced(self, node: str) -> bool:
        """Whether this run was to run a node again, and never began it: then results of still earlier runs do not count."""
        return self._again is None or self._again.is_whole or node in self._again.nodes

    def settled(self, node: str, round: int) -> Settled | None:
        """How a node ended."""
        found = self.run.operations.get(node_at(node, round).operation_id)
        return None if found is None or found.status in OPEN else settled_of(found)

    def is_undone(self, node: str, round: int) -> bool:
        """Whether a node was undone."""
        return undone_at(node, round).operation_id in self.run.operations

    def reuse(self, node: AnyNode, round: int, *, is_retry: bool) -> Reuse:
        """Which results of a node count again."""
        if self.is_undone(node.name, round):
            return "none"
        settled = self.settled(node.name, round)
        if settled is not None and is_good(settled, is_retry=is_retry):
            return "all"
        return "ok" if isinstance(node, WorkerNode | MapNode) else "none"

    def result(self, at: Identity) -> Reused | None:
        """What a child run gave at exactly this place; None if none ended there."""
        known = self.reused.get(reused_at(at).operation_id)
        operation, child = self.run.operations.get(at.operation_id), self.run.children.get(at.operation_id)
        if known is not None or operation is None or child is None or operation.status in OPEN:
            return known
        return result_of(self.id, operation, child.run_id, child.accepted)

    def done(self, node: str, round: int, part: str, worker_id: str) -> list[Reused]:
        """Everything that a worker did for a part of a node's work, in order: with every turn and number, because a write is a write."""
        return [one for one in self.results if (one.node, one.round, one.part, one.worker) == (node, round, part, worker_id)]

    @cached_property
    def results(self) -> Sequence[Reused]:
        """Everything that child runs did, in the order in which they began, also those that did not end."""
        return results_in(self.run)


def question_hash(asked: Requested) -> str:
    """The hash of what persons are shown and asked, and of what is demanded of them: a decision counts only for the same question."""
    told = [asked.kind, asked.tool, asked.arguments_sha256, asked.question, asked.schema]
    demanded = [list(asked.approvers), asked.votes, asked.group, asked.risk]
    return sha256(codec.dumps([*told, *demanded]).encode()).hexdigest()


def results_in(run: EarlierRun) -> list[Reused]:
    """Everything that child runs did in one execution, in the order in which they began."""
    found: list[Reused] = []
    for operation in run.operations.values():
        if operation.sub_type == REUSED and operation.type is Type.STEP:
            found.append(reused_in(operation))
        elif operation.type is Type.CHAINED_INVOKE and operation.sub_type == RUN and operation.id in run.children:
            child = run.children[operation.id]
            found.append(result_of(run.header.id, operation, child.run_id, child.accepted))
    return [one for one in found if one.run_id]


def is_good(settled: Settled, *, is_retry: bool) -> bool:
    """Whether a node ended so that its results count again. A gate that asked for another round has done its work."""
    return settled.state == "ok" or settled.revise or (settled.state == "partial" and not is_retry)


def result_of(of: str, operation: Operation, run_id: str, accepted: AcceptedRequest) -> Reused:
    """What a child run did, as a record of the new run holds it. A child run that is not over has no response."""
    made = Reused(
        of=of,
        run_id=run_id,
        node=accepted.labels.node or "",
        part=accepted.part,
        work=work_of(accepted),
        worker=accepted.request.worker_id,
        version=accepted.version,
        package=accepted.package,
        family=accepted.family,
        link=accepted.link,
        before=accepted.before,
        item=accepted.labels.item,
        round=accepted.labels.round or 1,
    )
    return made if operation.status in OPEN else msgspec.structs.replace(made, response=raw_of(child_response(operation)))


def counted(result: Reused | None, reuse: Reuse) -> Reused | None:
    """The result if it counts."""
    if result is None or reuse == "none" or bytes(result.response) == b"null":
        return None
    return result if reuse == "all" or result.answer.status is Status.OK else None


def linked(last: Reused, accepted: AcceptedRequest, *, is_whole: bool, is_fresh: bool) -> Link:
    """The link after the last run that did this work. It inherits from the runs of that family only: keys of calls follow from it."""
    if is_fresh:
        family = sha256(f"{last.family}\0again\0{accepted.link}".encode()).hexdigest()
        return Link(family=family, number=last.link + 1)
    known = accepted.again or Again(of="")
    again = Again(of=last.run_id, is_whole=is_whole, is_retry=known.is_retry, kept=known.kept)
    return Link(family=last.family, number=last.link + 1, before=(*last.before, last.run_id), again=again)

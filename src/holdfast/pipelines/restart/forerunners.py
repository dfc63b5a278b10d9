"""Forerunners: the earlier runs of a restarted pipeline, and what a node of the new run takes from them.

Two things are taken. A *result* is reused if it is good in the newest run that reached the node (`_Forerunner.reuse`), and the new run asks
for the same work: then no child run begins. *Receipts* of writes are inherited by a child run that begins, also if the earlier child runs
failed: its link names the earlier runs (workers.calls). Work that was undone, and work that the operator wants to be sent again, gets
neither: its child run begins a new family, so that a server which remembers the old idempotency keys does not mistake the new calls for the
old ones. A node may be undone only in part: what its run had itself taken from an earlier, successful run was kept (`_Forerunner.kept`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from hashlib import sha256
from typing import Literal, TypeAlias

import msgspec

from holdfast.contract.codes import ResponseStatus
from holdfast.durable.identifier import Identity
from holdfast.model import codec
from holdfast.model.operations import OPEN, RUN, Kind, Operation, Order, Type
from holdfast.pipelines.graph.graph import AnyNode, MapNode, WorkerNode
from holdfast.pipelines.record.operations import REUSED, NodePosition, node_at, reused_at, undone_at
from holdfast.pipelines.record.responses import child_response
from holdfast.pipelines.record.results import Settled, settled_of
from holdfast.pipelines.record.reused import Reused, reused_in
from holdfast.pipelines.record.undo_tries import UndoTry, undone_in_part
from holdfast.workers.accepted_request import AcceptedRequest, FamilyLink, RunRestart, accepted_from, work_of
from holdfast.workers.approvals import ApprovalPlace, Decision, Requested, decision_of, request_of
from holdfast.workers.ballots import NO_BALLOT, ballots_in
from holdfast.workers.earlier_runs import EarlierRun
from holdfast.workers.run import text_of

UNDO = "undo"
"""The names of the parts in which a node is undone begin with this."""
Reuse: TypeAlias = Literal["all", "ok", "none"]
"""Which results of a node in an earlier run are reused: all, those whose status is ok, or none."""


class Earlier(msgspec.Struct, frozen=True, kw_only=True):
    """What earlier runs did at the place of a child run that is about to begin."""

    link: FamilyLink | None = None
    """The link of the child run to its family, which is all runs that do the same work, one after the other. None if the child run is the
    first of its family, and its place gives the family its id."""
    candidate: Reused | None = None
    """A result that is reused if the new child run would do the same work; None if there is none."""

    def reusable(self, order: Order) -> Reused | None:
        """The earlier result if it can be used in place of the run that `order` would start; None if that run must begin. A nested pipeline
        always runs: its own nodes decide what they reuse."""
        if self.candidate is None or order.kind is Kind.PIPELINE:
            return None
        return self.candidate if work_of(accepted_from(order.input)) == self.candidate.work else None


class Forerunners:
    """The earlier runs of one run, the newest first."""

    def __init__(self, accepted: AcceptedRequest, runs: Sequence[EarlierRun]) -> None:
        self._accepted = accepted
        self._again = accepted.again
        self.runs = [_Forerunner(run) for run in runs]

    @property
    def keeps(self) -> bool:
        """Whether the run that this run restarts succeeded, or was itself a restart with `keeps`. Then work that this run takes from
        earlier runs is not undone if this run fails."""
        return self._again is not None and self._again.kept

    def reuse(self, node: AnyNode, round: int) -> tuple[_Forerunner, Reuse] | None:
        """The newest earlier run that has operations of this node, and which results of the node in that run are reused: `all`, `ok` (those
        with the status ok) or `none`. None if the operator wants the node to run again, or if no such run is found. The search ends at a
        run that did not reach the node and could reuse no earlier result of it (`_Forerunner.forced`)."""
        again = self._again
        if again is None or again.is_whole or node.name in again.nodes:
            return None
        for past in self.runs:
            if node.name in past.names:
                return past, past.reuse(node, round, is_retry=again.is_retry)
            if past.forced(node.name):
                return None
        return None

    @property
    def is_retry(self) -> bool:
        """Whether the operator asked for a retry: a restart of what failed."""
        return self._again is not None and self._again.is_retry

    def resends(self, node: str) -> bool:
        """Whether the operator wants the writes of the node to be sent again."""
        return self._again is not None and node in self._again.resend

    def _is_undone(self, node: str, round: int) -> bool:
        """Whether the newest earlier run that has operations of this node undid it in this round."""
        newest = next((past for past in self.runs if node in past.names), None)
        return newest is not None and newest.is_undone(node, round)

    def child(self, node: AnyNode, position: NodePosition, part: str, at: Identity, worker_id: str) -> Earlier:
        """What earlier runs did at the place `at`, where a child run is about to begin: the link of this child run to its family, and the
        earlier result that may be reused."""
        round, found = position.round, self.reuse(node, position.round)
        candidate = None
        if found is not None and not part.startswith(UNDO):
            past, reuse = found
            result = past.result(at)
            if result is not None and past.kept(result) and reuse == "none":
                reuse = "ok"
            elif result is not None and result.run_id in past.undone_in_part(node.name, round).runs:
                reuse = "none"
            candidate = counted(result, reuse)
        is_whole = self._again is None or self._again.is_whole or node.name in self._again.nodes
        return Earlier(link=self._link(node.name, round, part, worker_id, is_whole=is_whole), candidate=candidate)

    def _link(self, node: str, round: int, part: str, worker_id: str, *, is_whole: bool) -> FamilyLink | None:
        for past in self.runs:
            done = past.done(node, round, part, worker_id)
            if done:
                last = done[-1]
                is_undone = (self._is_undone(node, round) or past.is_undone(node, round)) and not past.kept(last)
                in_part = past.undone_in_part(node, round).runs
                is_undone |= last.run_id in in_part
                if in_part and part.startswith(UNDO):  # what a successful undo took back was done again
                    is_undone |= counted(last, "ok") is not None
                return linked(last, self._accepted, is_whole=is_whole, is_fresh=self.resends(node) or is_undone)
        return None

    def decision(self, node: AnyNode, round: int, place: ApprovalPlace, asked: Requested) -> Reused | None:
        """The earlier decision about exactly the same question, if the node ended well in that run (`is_good`); else None. A decision that
        the requester of the new run made or voted on is not reused, because a person must not decide about their own request
        (`Reused.is_own` has the exception)."""
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
        """The Reused with which the new run records that a wait has already ended in an earlier run. None if the wait did not end there, or
        if not all results that the node has there are reused (`reuse`)."""
        found = self.reuse(node, round)
        if found is None or found[1] != "all":
            return None
        past, _ = found
        known = past.run.operations.get(at.operation_id)
        is_over = known is not None and known.status not in OPEN
        return Reused(of=past.id, round=round) if is_over or reused_at(at).operation_id in past.reused else None


class _Forerunner:
    """One earlier run: how its nodes ended, and the results of its child runs."""

    def __init__(self, run: EarlierRun) -> None:
        self.run = run
        self.id = run.header.id
        self.names = {operation.name for operation in run.operations.values()}
        self.reused = {op.id: reused_in(op) for op in run.operations.values() if op.sub_type == REUSED and op.type is Type.STEP}
        self._again: RunRestart | None = run.accepted.again

    def forced(self, node: str) -> bool:
        """Whether this earlier run had to run a node itself: it restarted no other run, or was asked to run the node again. If so, and if
        this run has no operations of the node, the results of the runs before this one are not reused either."""
        return self._again is None or self._again.is_whole or node in self._again.nodes

    def settled(self, node: str, round: int) -> Settled | None:
        """How a node ended in a round; None if it did not end."""
        found = self.run.operations.get(node_at(node, round).operation_id)
        return None if found is None or found.status in OPEN else settled_of(found)

    def is_undone(self, node: str, round: int) -> bool:
        """Whether a node was undone in a round, as a whole or without the results that were kept (`kept`)."""
        return undone_at(node, round).operation_id in self.run.operations

    def undone_in_part(self, node: str, round: int) -> UndoTry:
        """What of a node was undone in a round by tries of its undo that failed for the rest."""
        return undone_in_part(self.run.operations.values(), node, round)

    @property
    def keeps(self) -> bool:
        """`Forerunners.keeps`, for this earlier run."""
        return self._again is not None and self._again.kept

    def kept(self, result: Reused) -> bool:
        """Whether this earlier run had itself taken the result from an earlier, successful run, and so did not undo it."""
        return self.keeps and any(one.run_id == result.run_id for one in self.reused.values())

    def reuse(self, node: AnyNode, round: int, *, is_retry: bool) -> Reuse:
        """Which results of a node in this earlier run are reused: `none` if the node was undone, `all` if it ended well. If it did not
        end, or ended in another way: `ok` for a worker or map node, `none` for other nodes. If `is_retry`, a node that ended partial did
        not end well. Of a map that was undone, this does not say which items were (`EarlierItems.undone`). A node that was undone in part
        counts as not undone here (`undone_in_part`)."""
        if self.is_undone(node.name, round) and not isinstance(node, MapNode):
            return "none"
        settled = self.settled(node.name, round)
        if settled is not None and is_good(settled, is_retry=is_retry):
            return "all"
        return "ok" if isinstance(node, WorkerNode | MapNode) else "none"

    def result(self, at: Identity) -> Reused | None:
        """The result at this place in this earlier run: of the child run that ended there, or the result that this run itself had reused
        there. None if there is neither."""
        known = self.reused.get(reused_at(at).operation_id)
        operation, child = self.run.operations.get(at.operation_id), self.run.children.get(at.operation_id)
        if known is not None or operation is None or child is None or operation.status in OPEN:
            return known
        return result_of(self.id, operation, child.run_id, child.accepted)

    def done(self, node: str, round: int, part: str, worker_id: str) -> list[Reused]:
        """All results of a worker for a part of a node's work in one round, from all tries of the node, in the order in which the child
        runs began."""
        return [one for one in self.results if (one.node, one.round, one.part, one.worker) == (node, round, part, worker_id)]

    @cached_property
    def results(self) -> Sequence[Reused]:
        """The results of all child runs of this earlier run (`results_in`)."""
        return results_in(self.run)


def question_hash(asked: Requested) -> str:
    """A hash of what a person sees, of the question, and of who must decide and how many. A decision is reused only for a question with the
    same hash."""
    told = [asked.kind, asked.tool, asked.arguments_sha256, asked.question, asked.schema]
    demanded = [list(asked.approvers), asked.votes, asked.group, asked.risk]
    return sha256(codec.dumps([*told, *demanded]).encode()).hexdigest()


def results_in(run: EarlierRun) -> list[Reused]:
    """The results of all child runs of one execution, and those that it had itself reused, in the order in which they were recorded. The
    result of a child run that did not end has no response."""
    found: list[Reused] = []
    for operation in run.operations.values():
        if operation.sub_type == REUSED and operation.type is Type.STEP:
            found.append(reused_in(operation))
        elif operation.type is Type.CHAINED_INVOKE and operation.sub_type == RUN and operation.id in run.children:
            child = run.children[operation.id]
            found.append(result_of(run.header.id, operation, child.run_id, child.accepted))
    return [one for one in found if one.run_id]


def is_good(settled: Settled, *, is_retry: bool) -> bool:
    """Whether a node ended in a state in which all its results are reused: ok, partial (not in a retry), or a gate that asked for another
    round, because its verdict is a result."""
    return settled.state == "ok" or settled.revise or (settled.state == "partial" and not is_retry)


def result_of(of: str, operation: Operation, run_id: str, accepted: AcceptedRequest) -> Reused:
    """The result of a child run, in the form in which the new run records it. `of` is the id of the run that asked for the child run. The
    result of a child run that has not ended has no response."""
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
    if operation.status in OPEN:
        return made
    return msgspec.structs.replace(made, response=msgspec.Raw(text_of(child_response(operation)).encode()))


def counted(result: Reused | None, reuse: Reuse) -> Reused | None:
    """The same result, if it has a response and `reuse` allows to reuse it; else None."""
    if result is None or reuse == "none" or bytes(result.response) == b"null":
        return None
    return result if reuse == "all" or result.answer.status is ResponseStatus.OK else None


def linked(last: Reused, accepted: AcceptedRequest, *, is_whole: bool, is_fresh: bool) -> FamilyLink:
    """The link of a new child run that does the work which the earlier child run `last` did before. The new run joins the family of `last`
    and inherits the receipts of the earlier runs of this family; the idempotency keys of calls are made from the family. If `is_fresh`, the
    new run begins a new family and inherits nothing. `is_whole`: whether the new run, if it is a pipeline, runs all its nodes again."""
    if is_fresh:
        family = sha256(f"{last.family}\0again\0{accepted.link}".encode()).hexdigest()
        return FamilyLink(family=family, number=last.link + 1)
    known = accepted.again or RunRestart(of="")
    again = RunRestart(of=last.run_id, is_whole=is_whole, is_retry=known.is_retry, kept=known.kept)
    return FamilyLink(family=last.family, number=last.link + 1, before=(*last.before, last.run_id), again=again)

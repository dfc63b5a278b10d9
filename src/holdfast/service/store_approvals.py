"""The approvals of a store: what a person with access to the store can see and decide. It needs no engine, and it runs nothing."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from holdfast.costs.estimates import without_workers
from holdfast.costs.reports import CostStore
from holdfast.model.audit import Actor, principal
from holdfast.model.clock import Clock
from holdfast.model.errors import Rejected
from holdfast.store.one_write import write_one
from holdfast.store.seam import CommitStore
from holdfast.workers import batches
from holdfast.workers.approval_pages import undecided
from holdfast.workers.approvals import SETTLING, Approval, Decision
from holdfast.workers.batches import BatchVerdict, DecisionResult
from holdfast.workers.decisions import DecisionStore, decision_write
from holdfast.workers.links import DEFAULT_SECONDS, MadeLink, make_link
from holdfast.workers.run_lookup import Caller, find_approval, waiting_below
from holdfast.workers.run_usage import Spending


class ApprovalsStore(CommitStore, DecisionStore, CostStore, Protocol):
    """The part of a store in which approvals are shown and decided."""


class StoreApprovals:
    """Reads and decides the approvals of a store, in the name of `caller`; without one, in the name of this machine's user."""

    def __init__(self, store: ApprovalsStore, clock: Clock, actor: Actor | None = None, caller: Caller | None = None) -> None:
        self._store, self._clock, self._actor = store, clock, actor
        self._caller = caller or Caller(principal=principal(), actor=actor)

    def list(self, run: str | None = None, *, limit: int = 1000) -> Iterator[Approval]:
        """At most `limit` approvals that wait for a decision: of all runs, the oldest run first; or, if `run` is given, of this run and of
        all runs below it. Each says what the rest of the outermost run above it may cost, if the store has data for an estimate. Raises
        ExecutionNotFound if there is no such run."""
        estimates, spending = without_workers(self._store), Spending(self._store)
        if run is None:
            return estimates.with_rests(itertools.islice(undecided(self._store, self._caller), limit))
        found = waiting_below(self._store, run, self._caller)
        return estimates.with_rests(map(spending.with_spent, itertools.islice(found, limit)))

    def get(self, approval_id: str) -> Approval:
        """One approval, decided or not. Raises ApprovalNotFound if there is no such approval."""
        return without_workers(self._store).with_rest(find_approval(self._store, approval_id, self._caller))

    def decide(
        self,
        approval_id: str,
        verdict: str,
        *,
        comment: str | None = None,
        result: Any = None,
        edited_arguments: dict[str, Any] | None = None,
        in_batch: bool = False,
    ) -> Approval:
        """Write a decision; if several persons must approve, write a vote. Returns the approval as it is after the write. Raises Rejected
        if the decision is refused. `result` is the answer to a question, or the result of a call that took place. `edited_arguments` are
        the arguments to use in place of those shown. `in_batch`: the decision is one of many (`decide_many`), which the operator may forbid
        for an approval."""
        decision = Decision(
            verdict=verdict,
            decided_by=self._caller.principal,
            decided_at=self._clock.now(),
            comment=comment,
            result=result,
            edited_arguments=edited_arguments,
        )
        with self._noting_refusals("settle" if verdict in SETTLING else verdict, approval_id):
            write = decision_write(self._store, approval_id, decision, self._caller, in_batch=in_batch)
            write_one(self._store, write, self._clock.now())
        return find_approval(self._store, approval_id, self._caller, spent=not in_batch)

    def decide_many(
        self,
        verdict: BatchVerdict,
        approvals: Sequence[str] = (),
        *,
        run: str | None = None,
        node: str | None = None,
        comment: str | None = None,
        result: Any = None,
    ) -> Sequence[DecisionResult]:
        """Decide many approvals, each with its own write and its own result. If one decision is refused, the others are still made.

        Give the ids of the approvals, or a `run`: then all open approvals of this run, or of one `node` of it, and of the runs below it are
        decided. With the verdict `answer`, `result` is the answer to each of them. Raises InvalidParameter if both or neither are given, if
        `node` is given without `run`, or if there are more than 500 ids."""
        results = []
        for approval_id in batches.chosen(self._store, self._caller, approvals, run, node).ids:
            try:
                results.append(batches.done(self.decide(approval_id, verdict, comment=comment, result=result, in_batch=True)))
            except Rejected as refused:
                results.append(batches.refused(approval_id, refused))
        return results

    def link(self, approval_id: str, person: str, seconds: int = DEFAULT_SECONDS) -> MadeLink:
        """A link by which this person may decide an approval, once. The link expires after `seconds`, or with the approval, if that is
        earlier. Raises Rejected if the person may not decide the approval, if no link may be made for it, or if `person` or `seconds` is
        not valid."""
        with self._noting_refusals("link", approval_id):
            return make_link(self._store, approval_id, person, self._caller, self._clock.now(), seconds)

    @contextlib.contextmanager
    def _noting_refusals(self, what: str, on: str) -> Iterator[None]:
        """If the code inside this `with` block raises Rejected, write a note of the refusal into the audit log (not if no actor is known),
        and raise the same error again."""
        try:
            yield
        except Rejected as refused:
            if self._actor is not None:
                self._store.note([self._actor.refused(what, on, refused.code, self._clock.now())])
            raise

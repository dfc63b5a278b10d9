"""Approvals for one caller: what waits for a person, what was decided, and the decisions themselves.

The caller's credential says who decides. The audit log names the caller for each decision, each link and each refusal.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, Final

import msgspec

from holdfast.console.sources.viewer import CallerSource
from holdfast.costs.estimates import UNKNOWN_AMOUNT, UNKNOWN_HERE, Estimates, rest_in_words, without_workers
from holdfast.model.audit import NoteFilter, NoteKind
from holdfast.model.credentials import Credential
from holdfast.model.errors import CodecFailed, ExecutionNotFound, RowDamaged
from holdfast.service.store_approvals import StoreApprovals
from holdfast.store.seam import Filter
from holdfast.workers.approval_pages import approval_page
from holdfast.workers.approvals import Approval, ApprovalNotFound, ApproverRefused, approvals_of, is_approval_id, run_of
from holdfast.workers.batches import BatchVerdict
from holdfast.workers.deciders import check_person, person_of
from holdfast.workers.links import MadeLink
from holdfast.workers.run_lookup import find_approval, find_run

PAGE: Final = 25
MOST_DECIDED: Final = 50
MOST_NOTES: Final = 1_000
"""Decisions are looked for in the newest lines of the audit log, at most this many."""
MOST_RUNS: Final = 200
"""For the page of one run, decided approvals are looked for in at most this many runs: the run itself, and the runs below it (those that it
asked for, itself or through others)."""
MOST_OPERATIONS: Final = 50_000
"""To find decided approvals, the page reads at most this many operations. A run with long payloads is counted as if it had more operations
(`_size`)."""
MOST_COUNTED: Final = 1_000
_DECIDED: Final = frozenset({"approve", "reject", "answer", "settle"})


class Card(msgspec.Struct, frozen=True, kw_only=True):
    """One approval, as a page shows it."""

    approval: Approval
    refusal: str = ""
    """Why the caller may not decide the approval. Empty if the caller may decide it, or if the approval is not open."""
    rest: str = ""
    """What the rest of the outermost run above the approval may cost, in words. Empty if that is not known, and on cards of decided
    approvals and of a batch."""

    @property
    def id(self) -> str:
        return self.approval.approval_id

    @property
    def is_open(self) -> bool:
        """Whether the approval is open: it was not decided, it was not withdrawn, and it has not expired."""
        return self.approval.state == "open"

    @property
    def title(self) -> str:
        """What is asked, in one line."""
        asked = self.approval
        if asked.kind == "unknown_outcome":
            return f"Did the call of {asked.tool} happen?"
        return asked.question or f"May {asked.worker_id} call {asked.tool} with these arguments?"


class Inbox(msgspec.Struct, frozen=True, kw_only=True):
    """A page of approvals that wait; those of the oldest run are first."""

    cards: tuple[Card, ...]
    next: str | None = None
    """The id of the approval after which the next page begins; None if this is the last page."""


class Decided(msgspec.Struct, frozen=True, kw_only=True):
    """Approvals that do not wait any more: each was decided or withdrawn, or its time is over. The last one decided is first."""

    cards: tuple[Card, ...]
    bounded: bool
    """Whether there may be more such approvals than these."""


class DecisionReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result for one approval of a batch."""

    id: str
    title: str
    worker: str
    state: str | None
    """The state of the approval after the decision; None if the decision was refused."""
    problem: str = ""


class ApprovalsSource(CallerSource):
    """Reads approvals, and decides them, for one caller."""

    # --- looking

    def inbox(self, run: str | None = None, after: str | None = None) -> Inbox:
        """A page of open approvals that the caller may see. With `run`, only those of this run and of the runs below it (those that it
        asked for, itself or through others). The page begins after the approval `after`. If `after` is None or not an id of an approval,
        the page begins with the first approval. Raises ExecutionNotFound if there is no run `run`, or if the caller may not see it."""
        beyond = after if after is not None and is_approval_id(after) else None
        page = approval_page(self._viewer.store, self._viewer.caller, run=run, after=beyond, limit=PAGE)
        return Inbox(cards=tuple(self._cards(page.approvals)), next=page.next)

    def waiting(self, run: str | None = None) -> tuple[int, bool]:
        """Returns how many runs wait for a person's decision, counted up to MOST_COUNTED; and True if the count stopped there. With `run`,
        it counts the open approvals of this run and of the runs below it instead, up to PAGE. Raises ExecutionNotFound if there is no run
        `run`, or if the caller may not see it."""
        if run is not None:
            page = approval_page(self._viewer.store, self._viewer.caller, run=run, limit=PAGE)
            return len(page.approvals), page.next is not None
        found = self._viewer.store.undecided("", MOST_COUNTED, self._viewer.tenant)
        return len(found), len(found) >= MOST_COUNTED

    def decided(self, run: str | None = None) -> Decided:
        """At most MOST_DECIDED approvals that do not wait any more. Without `run`, only those on which a person decided or voted, according
        to the newest lines of the audit log. With `run`, those of this run and of the runs below it (those that it asked for, itself or
        through others). Raises ExecutionNotFound if there is no run `run`, or if the caller may not see it."""
        return self._decided_lately() if run is None else self._decided_below(run)

    def card(self, approval_id: str) -> Card:
        """One approval, decided or not. Raises ExecutionNotFound if there is none, or if the caller may not see it."""
        return self._cards([self._one(approval_id)])[0]

    def _one(self, approval_id: str) -> Approval:
        try:
            return find_approval(self._viewer.store, approval_id, self._viewer.caller)
        except ApprovalNotFound as unknown:
            raise ExecutionNotFound(str(unknown)) from None

    def _decided_lately(self) -> Decided:
        notes = self._viewer.store.audit(NoteFilter(kind=NoteKind.DECISION, limit=MOST_NOTES))
        named = dict.fromkeys(one.note.on for one in notes if one.note.what in _DECIDED and is_approval_id(one.note.on))
        known: dict[str, dict[str, Approval]] = {}
        found: list[Approval] = []
        left = MOST_OPERATIONS
        for approval_id in named:
            run = run_of(approval_id)
            if run not in known:
                left -= self._size(run)
                if left < 0:
                    break
                known[run] = {one.approval_id: one for one in self._of_run(run)}
            approval = known[run].get(approval_id)
            if approval is not None and approval.state != "open":
                found.append(approval)
            if len(found) == MOST_DECIDED:
                break
        bounded = len(notes) == MOST_NOTES or len(found) == MOST_DECIDED or left < 0
        return Decided(cards=tuple(Card(approval=one) for one in found), bounded=bounded)

    def _decided_below(self, run: str) -> Decided:
        header, _ = find_run(self._viewer.store, run, self._viewer.caller)
        runs, below = [header.id], [header.id]
        while below and len(runs) < MOST_RUNS:
            children = [one.id for one in self._viewer.store.list(Filter(parent=below.pop(0), limit=MOST_RUNS - len(runs)))]
            runs += children
            below += children
        read, left = [], MOST_OPERATIONS
        for each in runs:
            left -= self._size(each)
            if left < 0:
                break
            read.append(each)
        found = [one for each in read for one in self._of_run(each) if one.state != "open"]
        found.sort(key=lambda one: one.decided_at or one.expires_at or one.requested_at, reverse=True)
        bounded = left < 0 or len(runs) >= MOST_RUNS or len(found) > MOST_DECIDED
        return Decided(cards=tuple(Card(approval=one) for one in found[:MOST_DECIDED]), bounded=bounded)

    def _size(self, run: str) -> int:
        """How much must be read to find the approvals of a run: the number of its operations, or its stored characters divided by 1,000, if
        that is more. 0 if there is no such run, or if the caller may not see it."""
        header = self._viewer.store.find(run)
        return 0 if header is None or not self._viewer.may_see(header) else max(header.operations, header.stored // 1_000)

    def _of_run(self, run: str) -> Sequence[Approval]:
        """All approvals of a run. Empty if the caller may not see the run, or if the run cannot be read, so that the page still shows the
        approvals of other runs."""
        store = self._viewer.store
        with contextlib.suppress(ExecutionNotFound, RowDamaged, CodecFailed):
            header, _ = find_run(store, run, self._viewer.caller)
            return [approval for approval, _, _ in approvals_of(header, store.operations(header.id))]
        return ()

    def _cards(self, approvals: Iterable[Approval]) -> list[Card]:
        told = list(self._estimates.with_rests(approvals))
        return [
            Card(approval=one, refusal=self._refusal(one), rest="" if one.may_cost is None else rest_in_words(one.may_cost, self._unknown))
            for one in told
        ]

    @property
    def _estimates(self) -> Estimates:
        """Estimates of what runs may cost. They use the contracts and prices of the workers that the console's server serves. Without a
        server there are no contracts and prices to use."""
        workers = None if self._viewer.served is None else self._viewer.served.workers
        known = None if workers is None else workers.estimates
        return known if isinstance(known, Estimates) and known.store is not None else without_workers(self._viewer.store)

    @property
    def _unknown(self) -> str:
        """The words for an amount that is not known. Without a server a contract may be unknown, so the words are those of the command
        line."""
        return UNKNOWN_HERE if self._viewer.served is None or self._viewer.served.workers is None else UNKNOWN_AMOUNT

    def _refusal(self, approval: Approval) -> str:
        """Why the caller may not decide the approval. Empty if the caller may decide it, or if the approval is not open. The decision
        itself checks this once more."""
        if approval.state != "open":
            return ""
        caller = self._viewer.caller
        person = person_of(caller, caller.principal, self._credentials)
        if any(vote.person in person.names for vote in approval.votes):
            return f"You have voted, {person.name}. {len(approval.votes)} of {approval.votes_needed} persons have approved."
        try:
            check_person(approval, person, logged_in=caller.logged_in)
        except ApproverRefused as refused:
            return str(refused)
        return ""

    @cached_property
    def _credentials(self) -> Sequence[Credential]:
        return tuple(self._viewer.store.credentials()) if self._viewer.caller.logged_in else ()

    # --- deciding

    @cached_property
    def _approvals(self) -> StoreApprovals:
        return StoreApprovals(self._viewer.store, self._viewer.clock, self._viewer.actor, self._viewer.caller)

    def decide(
        self,
        approval_id: str,
        verdict: str,
        *,
        comment: str | None = None,
        result: Any = None,
        edited_arguments: dict[str, Any] | None = None,
    ) -> Approval:
        """Decide an approval in the name of the caller. If several persons must approve, this is one vote; a rejection closes the approval
        at once. Returns the approval as it is after the decision. Raises Rejected if the decision is refused."""
        decided = self._approvals.decide(approval_id, verdict, comment=comment, result=result, edited_arguments=edited_arguments)
        self._look()
        return decided

    def decide_many(self, verdict: BatchVerdict, approvals: Sequence[str], comment: str | None) -> list[DecisionReport]:
        """Decide many approvals, one by one. If one decision is refused, the other approvals are still decided. Approvals that do not
        exist, or that the caller may not see, are left out of the result."""
        titles = {card.id: card for card in self.chosen(approvals)}
        results = self._approvals.decide_many(verdict, list(titles), comment=comment) if titles else ()
        self._look()
        return [
            DecisionReport(
                id=one.approval_id,
                title=titles[one.approval_id].title,
                worker=titles[one.approval_id].approval.worker_id,
                state=one.state,
                problem=one.message or "",
            )
            for one in results
        ]

    def chosen(self, approvals: Sequence[str]) -> list[Card]:
        """The approvals with these ids, for the confirmation of a batch. Those that do not exist, or that the caller may not see, are left
        out."""
        known: dict[str, dict[str, Approval]] = {}
        found = []
        for approval_id in dict.fromkeys(one for one in approvals if is_approval_id(one)):
            run = run_of(approval_id)
            if run not in known:
                known[run] = {one.approval_id: one for one in self._of_run(run)}
            if approval_id in known[run]:
                found.append(Card(approval=known[run][approval_id], refusal=self._refusal(known[run][approval_id])))
        return found

    def _look(self) -> None:
        """Tell the runner of the console's server to look at the store now, so that a run whose approval was decided need not wait for the
        next poll. Does nothing without a server."""
        if self._viewer.served is not None:
            self._viewer.served.look_for_work()

    # --- links

    @property
    def link_base(self) -> str | None:
        """The address with which links begin, as the operator set it. Empty if the operator set none: links then begin with the address of
        this server. None if this process serves no links."""
        workers = None if self._viewer.served is None else self._viewer.served.workers
        return None if workers is None else workers.policy.link_base or ""

    def link(self, approval_id: str, person: str, seconds: int) -> MadeLink:
        """Make a link by which `person` may decide an approval, once. The link is valid for `seconds`, or until the approval expires, if
        that is earlier. Raises Rejected if the person may not decide the approval, or if no link may be made for it."""
        return self._approvals.link(approval_id, person, seconds)

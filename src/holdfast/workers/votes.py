"""The write of one vote on a question that several persons must approve. All votes of the question are counted inside the write, so two
votes at the same time are both counted, and each once.

- Each person has one vote, whichever credential the person uses. A second vote of the same person is refused.
- One `reject` closes the question with `reject`.
- The first approving vote fixes what is approved: the arguments as shown, the edited arguments, or the answer. Each further approving vote
must approve the same, so that persons never approve different things.
- When enough persons have approved (if the operator demands a group, at least one of its members among them), the last vote closes the
question in the same write.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from holdfast.durable.journal import succeeded
from holdfast.model import codec, life, transitions
from holdfast.model.audit import Note
from holdfast.model.errors import CallbackNotFound
from holdfast.model.execution import View
from holdfast.model.life import Claimant
from holdfast.model.operations import APPROVAL, Status
from holdfast.model.outside import noted, open_callback
from holdfast.model.seal import Seal
from holdfast.model.verbs import VerbDecision
from holdfast.workers.approvals import ApprovalRefused, Decision, Requested, VotedBefore, arguments_hash
from holdfast.workers.ballots import NO_BALLOT, Vote, ballots_in, vote_at

REJECT: Final = "reject"
_MOST: Final = 100
"""The most votes on one question. More votes than needed are possible until a member of the demanded group has approved. A member may vote
even if there are this many votes."""
_MOST_TEXT: Final = 4096


class Voting(msgspec.Struct, frozen=True, kw_only=True):
    """Write the vote of a person, and close the question if the vote decides it."""

    execution: str
    operation_id: str
    """The id of the question's callback."""
    request: Requested
    decision: Decision
    """The decision of the person, after `deciders.checked` has accepted it."""
    names: frozenset[str]
    """Every name of the person. The vote is refused if an earlier vote on the question has one of these names."""
    by: Claimant | None = None
    notes: tuple[Note, ...] = ()

    def decide(self, view: View, now: int, seal: Seal) -> VerbDecision:
        """Count the vote inside the write, together with all votes on the question that were written before; close the question if it is
        decided now. Raises ApprovalRefused if the vote is not allowed, CallbackClosed if the question is not open, and CallbackNotFound if
        there is no such question."""
        draft, callback = open_callback(view, self.operation_id, now)
        if callback.sub_type != APPROVAL:
            raise CallbackNotFound
        before = ballots_in(view.newer(callback.revision)).get(callback.id, NO_BALLOT).votes
        mine = self._vote(callback.id)
        self._check(before, mine)
        at = vote_at(callback.id, mine.person, self.request.tool)
        transitions.apply(draft, (succeeded(at, msgspec.json.encode(mine).decode()),), seal)
        decided = closing(self.request, self.decision, (*before, mine))
        if decided is None:
            change = draft.done()
            return noted(change, self.notes), change.header
        text = codec.fitting(codec.storable(msgspec.json.encode(decided).decode()), "CALLBACK output")
        draft.put(life.answered(draft, callback, Status.SUCCEEDED, text, None), callback)
        change, header = life.claimed_now(life.woken(draft), self.by, now)
        return noted(change, self.notes), header

    def _vote(self, question: str) -> Vote:
        decision, request = self.decision, self.request
        chose = decision.edited_sha256
        if decision.verdict == "answer":
            chose = arguments_hash({"answer": decision.result})
        return Vote(
            question=question,
            person=decision.decided_by,
            verdict=decision.verdict,
            at=decision.decided_at,
            comment=decision.comment,
            chose=chose,
            member=request.group is not None and not self.names.isdisjoint(request.groups.get(request.group, ())),
            own_request=decision.own_request,
        )

    def _check(self, before: Sequence[Vote], mine: Vote) -> None:
        for vote in before:
            if vote.person in self.names:
                raise VotedBefore(f"{mine.person} has voted on this question before: {vote.verdict}. Each person has one vote.")
        if len(before) >= _MOST and not mine.member:
            raise ApprovalRefused(
                f"The question has {len(before)} votes, the most that are allowed. Only a member of the demanded group may still vote."
            )
        first = next((vote for vote in before if vote.verdict != REJECT), None)
        if first is not None and mine.verdict != REJECT and (first.verdict, first.chose) != (mine.verdict, mine.chose):
            what = "what is shown" if first.chose is None else "other arguments" if first.verdict == "approve" else "another answer"
            raise ApprovalRefused(f"{first.person} has approved {what}. Approve exactly the same, or reject the question for all.")


def closing(request: Requested, decision: Decision, votes: Sequence[Vote]) -> Decision | None:
    """The decision that closes the question after these votes; None if the question stays open. `decision` is the decision of the newest
    vote."""
    if decision.verdict == REJECT:
        return decision
    if len(votes) < request.votes or (request.group is not None and not any(vote.member for vote in votes)):
        return None
    said = "; ".join(f"{vote.person}: {vote.comment}" for vote in votes if vote.comment)
    return msgspec.structs.replace(
        decision,
        decided_by=", ".join(vote.person for vote in votes),
        comment=said[:_MOST_TEXT] or None,
        own_request=any(vote.own_request for vote in votes),
    )

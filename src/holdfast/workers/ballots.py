"""What is recorded beside an open question: the votes of persons, and the approvers that its escalation chain added.

Each vote, and each addition of approvers, is a closed step below the run's context `effects`, like its receipts. The id of a vote follows
from the question and the person, so one person has one vote. The id of added approvers follows from the question and the place in the
chain, so each part of a chain is added once. The run never looks for a vote, so votes in the history do not change a replay.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from holdfast.durable.identifier import Identity
from holdfast.durable.journal import identity_of
from holdfast.model import json_structs
from holdfast.model.operations import Operation, Type
from holdfast.workers.run_operations import EFFECTS_AT

VOTE: Final = "Vote"
ESCALATION: Final = "Escalation"


class Vote(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The vote of one person on one question."""

    question: str
    """The id of the question's callback."""
    person: str
    verdict: str
    at: int
    comment: str | None = None
    chose: str | None = None
    """The hash of the edited arguments, or of the answer; None if the person approved the arguments as shown, or rejected."""
    member: bool = False
    """Whether the person is a member of the group of which at least one member must approve."""
    own_request: bool = False
    """Whether the same person had made the request."""


class Added(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Approvers that the escalation chain added to a question, because the question was still open after the time that the chain names."""

    question: str
    number: int
    """Which part of the chain added them, from 1."""
    approvers: tuple[str, ...]
    groups: dict[str, tuple[str, ...]] = {}
    """The members of the groups among these approvers, as the operator's settings had them when they were added."""


class Ballot(msgspec.Struct, frozen=True):
    """Everything that is recorded beside one question."""

    votes: tuple[Vote, ...] = ()
    added: tuple[Added, ...] = ()


_votes = json_structs.decoder(Vote)
_added = json_structs.decoder(Added)
NO_BALLOT: Final = Ballot()


def vote_at(question: str, person: str, tool: str) -> Identity:
    """The identity of the step that holds the vote of a person. `tool` becomes the step's name in the history."""
    return identity_of(Type.STEP, VOTE, tool, question, person, parent=EFFECTS_AT)


def added_at(question: str, number: int, tool: str) -> Identity:
    """The identity of the step that adds the approvers at one place of a question's chain. `tool` becomes the step's name in the
    history."""
    return identity_of(Type.STEP, ESCALATION, tool, question, number, parent=EFFECTS_AT)


def vote_of(operation: Operation) -> Vote:
    """The vote that a step holds."""
    return _votes.decode(operation.result or "{}")


def added_of(operation: Operation) -> Added:
    """The addition of approvers that a step holds."""
    return _added.decode(operation.result or "{}")


def ballots_in(operations: Iterable[Operation]) -> Mapping[str, Ballot]:
    """For each question, by the id of its callback: the votes and the additions of approvers among these operations, in the order of the
    history."""
    votes: dict[str, list[Vote]] = {}
    added: dict[str, list[Added]] = {}
    for operation in sorted((op for op in operations if op.sub_type in (VOTE, ESCALATION)), key=lambda op: op.place):
        if operation.type is not Type.STEP or operation.result is None:
            continue
        if operation.sub_type == VOTE:
            vote = vote_of(operation)
            votes.setdefault(vote.question, []).append(vote)
        else:
            more = added_of(operation)
            added.setdefault(more.question, []).append(more)
    return {question: Ballot(tuple(votes.get(question, ())), tuple(added.get(question, ()))) for question in {**votes, **added}}

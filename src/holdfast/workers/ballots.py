"""What is recorded beside an open question: the votes of persons, and the approvers that its chain added.

Each is a closed step below the effects of the run. Its id follows from the question and the person, or from the question and the place in
the chain, so the same person has one vote and each part of a chain is added once. The run never reads a vote by its id, so a replay sees
the votes in the history and ignores them.
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
    """The hash of the edited arguments, or of the answer; None if the person approved what is shown."""
    member: bool = False
    """Whether the person is a member of the group that must vote."""
    own_request: bool = False
    """Whether the person had also made the request."""


class Added(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Approvers that the chain added to a question after a silence."""

    question: str
    number: int
    """The place in the chain, from 1."""
    approvers: tuple[str, ...]
    groups: dict[str, tuple[str, ...]] = {}
    """The members of the groups among them, as the operator had them at that time."""


class Ballot(msgspec.Struct, frozen=True):
    """Everything that is recorded beside one question."""

    votes: tuple[Vote, ...] = ()
    added: tuple[Added, ...] = ()


_votes = json_structs.decoder(Vote)
_added = json_structs.decoder(Added)
NO_BALLOT: Final = Ballot()


def vote_at(question: str, person: str, tool: str) -> Identity:
    """The step that holds the vote of a person. `tool` is the name that people see in the history."""
    return identity_of(Type.STEP, VOTE, tool, question, person, parent=EFFECTS_AT)


def added_at(question: str, number: int, tool: str) -> Identity:
    """The step that adds the approvers of one place of a question's chain."""
    return identity_of(Type.STEP, ESCALATION, tool, question, number, parent=EFFECTS_AT)


def vote_of(operation: Operation) -> Vote:
    """The vote that a step holds."""
    return _votes.decode(operation.result or "{}")


def added_of(operation: Operation) -> Added:
    """What a step of a chain added."""
    return _added.decode(operation.result or "{}")


def ballots_in(operations: Iterable[Operation]) -> Mapping[str, Ballot]:
    """The ballots among some operations, by question, each in the order of its places in the history."""
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

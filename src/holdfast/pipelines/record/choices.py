"""What a supervisor answers, and how each of its choices is recorded: as a step, with the reason that the supervisor gave."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from holdfast.contract.notes import shown
from holdfast.contract.protocol import Response
from holdfast.durable.identifier import Identity
from holdfast.durable.journal import identity_of
from holdfast.model import json_structs
from holdfast.model.operations import Operation, Type
from holdfast.pipelines.graph.graph import FINISH
from holdfast.pipelines.record.operations import NodePosition
from holdfast.workers.run_operations import CHOICE

_MOST_REASON: Final = 2000
_MOST_LABEL: Final = 100
_MOST_SHOWN: Final = 200


class SupervisorChoice(msgspec.Struct, frozen=True):
    """What a supervisor answers in one turn."""

    choice: str
    """A label, or `finish`. A label that the node does not know is a mistake of the supervisor."""
    reason: str
    inputs: dict[str, Any] | None = None
    """The inputs of the chosen worker; None: it gets the inputs of the node."""
    outputs: dict[str, Any] | None = None
    """If `choice` is `finish`: the outputs of the node; they are required. If `choice` is a label, they are ignored."""


class Taken(msgspec.Struct, frozen=True):
    """A choice of the supervisor, and the response of the run of the chosen worker."""

    answer: SupervisorChoice
    response: Response


class Chosen(msgspec.Struct, frozen=True):
    """A choice in the form that the journal keeps."""

    turn: int
    choice: str
    reason: str


def answer_of(outputs: Any) -> SupervisorChoice | str:
    """Read the choice from a supervisor's outputs. If they are not a valid choice, the result is a text that says why. A label or a reason
    that is too long is cut."""
    try:
        found = json_structs.converted(outputs, SupervisorChoice)
    except msgspec.ValidationError as odd:
        return str(odd)[:400]
    if not found.reason.strip():
        return "it has no reason"
    if found.choice == FINISH and found.outputs is None:
        return "it finishes without outputs"
    return msgspec.structs.replace(found, choice=found.choice[:_MOST_LABEL], reason=found.reason[:_MOST_REASON])


def choice_at(position: NodePosition, number: int) -> Identity:
    """The identity of the step that records a choice. `number` is the turn of the supervisor in this try of the node, from 1."""
    return identity_of(Type.STEP, CHOICE, position.node, position.round, position.try_number, number)


def choice_text(number: int, answer: SupervisorChoice) -> str:
    """The text that the step of `choice_at` records: the turn (`number`), the choice and the reason."""
    return msgspec.json.encode(Chosen(number, answer.choice, answer.reason)).decode()


def told_choice(recorded: Operation) -> str:
    """A recorded choice in a few words, for people."""
    chosen = json_structs.decoded(recorded.result or "{}", Chosen)
    return shown(f"turn {chosen.turn}: chose {chosen.choice}: {chosen.reason}", _MOST_SHOWN)

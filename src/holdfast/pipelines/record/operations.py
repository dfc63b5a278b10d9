"""The operations of a pipeline's run: their sub-types, and their identities, which are computed from names alone.

In each round, a node has a context operation (`Node`) that begins and ends with the node. The operations of the node's work are beside the
context and not below it: a replay leaves out what is below a closed context, and later nodes still need these results.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import msgspec

from holdfast.durable.identifier import Identity
from holdfast.durable.journal import identity_of
from holdfast.model.operations import RUN, SubType, Type
from holdfast.workers.approvals import ApprovalPlace, AskKind, approval_at
from holdfast.workers.run_operations import node_at as node_at
from holdfast.workers.run_operations import undone_at as undone_at

_KEPT_IDENTITIES: Final = 4096
ENDING = "Ending"
"""The sub-type of steps of a run that ends early: ENDING_AT records why the run ends, before its open child runs and questions are ended
and its nodes are undone; ENDED_AT records that these child runs and questions have ended. A run in which none is open, no node is under
way and no node has an `undo` records neither. A restart of a good run also records KEPT_AT."""

REUSED = "Reused"
"""The sub-type of a step that records the result of an earlier run, which this run uses in place of an operation of its own."""

ENDING_AT = identity_of(Type.STEP, ENDING, "ending")
ENDED_AT = identity_of(Type.STEP, ENDING, "ended")
"""The step that is recorded when no child run and no question of the run is open any more. Only undos, and questions about them, begin
after it."""
KEPT_AT = identity_of(Type.STEP, ENDING, "kept")
"""The step that records which nested pipelines a restarted run does not undo (scene/kept_runs.py)."""
TIME_AT = identity_of(Type.WAIT, SubType.WAIT.value, "time-limit")
"""The timer for the time limit of the whole run."""


class NodePosition(msgspec.Struct, frozen=True):
    """One try of a node: the node, the round of its validation loop, and the number of the try (the first one in that round, or a further
    one that a person allowed). Rounds and tries count from 1."""

    node: str
    round: int = 1
    try_number: int = msgspec.field(default=1, name="turn")  # the name that open executions have stored


@lru_cache(maxsize=_KEPT_IDENTITIES)
def run_at(position: NodePosition, part: str, number: int) -> Identity:
    """The identity of a child run of a node. `part` names the part of the node's work (`work`, `undo`, …), and `number` is the number of
    the run in that part, from 1."""
    return identity_of(Type.CHAINED_INVOKE, RUN, position.node, position.round, position.try_number, part, number)


@lru_cache(maxsize=_KEPT_IDENTITIES)
def reused_at(at: Identity) -> Identity:
    """The identity of the step that is recorded in place of this operation if the result of an earlier run is used."""
    return identity_of(Type.STEP, REUSED, at.name or "", at.operation_id)


def wait_at(position: NodePosition, part: str, number: int = 1) -> Identity:
    """The identity of a wait of a node. `part` names the part of the node's work that waits, and `number` is the number of the wait in
    that part, from 1."""
    return identity_of(Type.WAIT, SubType.WAIT.value, position.node, position.round, position.try_number, part, number)


def node_time_at(node: str, try_number: int) -> Identity:
    """The identity of the timer for a node's time limit. All rounds share the timer; each try has its own, so that a node which a person
    lets try again gets its full time again."""
    return identity_of(Type.WAIT, SubType.WAIT.value, node, "time-limit", try_number)


def question_at(kind: AskKind, position: NodePosition, part: str, number: int = 1) -> ApprovalPlace:
    """The two identities of a question to a person: that of the callback which waits for the decision, and that of the step which records
    what is asked. `part` and `number` name the question inside the node."""
    return approval_at(kind, position.node, f"{position.round}/{position.try_number}/{part}", number)

"""The operations of a pipeline's run: the sub-type of each, and the identities that follow from their names alone.

A node's context (`Node`) begins and ends with the node, in each round. What the node does has operations beside its context and not below
it: a replay leaves out what is below a closed context, and later nodes still need these results.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import msgspec

from holdfast.durable.identifier import Identity
from holdfast.durable.journal import identity_of
from holdfast.model.operations import RUN, SubType, Type
from holdfast.workers.approvals import ApprovalPlace, Kind, approval_at
from holdfast.workers.run_operations import node_at as node_at
from holdfast.workers.run_operations import undone_at as undone_at

_KEPT_IDENTITIES: Final = 4096
ENDING = "Ending"
"""The sub-type of the step that records why a run ends early, before its open parts are ended and its nodes undone."""

REUSED = "Reused"
"""The sub-type of the step that records what an earlier run of a restarted pipeline gave at this place."""

ENDING_AT = identity_of(Type.STEP, ENDING, "ending")
ENDED_AT = identity_of(Type.STEP, ENDING, "ended")
"""The step that is recorded when no part of the run is open any more. Only undos begin after it."""
TIME_AT = identity_of(Type.WAIT, SubType.WAIT.value, "time-limit")
"""The timer of the whole run."""


class NodePosition(msgspec.Struct, frozen=True):
    """One node, in one round of a validation loop, in one turn of its failure policy. Both count from 1."""

    node: str
    round: int = 1
    turn: int = 1


@lru_cache(maxsize=_KEPT_IDENTITIES)
def run_at(position: NodePosition, part: str, number: int) -> Identity:
    """The identity of a child run of a node: the part of the node's work (`work`, `undo`, ...), and the number of the run in that part,
    from 1."""
    return identity_of(Type.CHAINED_INVOKE, RUN, position.node, position.round, position.turn, part, number)


@lru_cache(maxsize=_KEPT_IDENTITIES)
def reused_at(at: Identity) -> Identity:
    """The identity of the step that replaces an operation, because an earlier run has done its work."""
    return identity_of(Type.STEP, REUSED, at.name or "", at.operation_id)


def wait_at(position: NodePosition, part: str, number: int = 1) -> Identity:
    """The identity of a wait of a node."""
    return identity_of(Type.WAIT, SubType.WAIT.value, position.node, position.round, position.turn, part, number)


def node_time_at(node: str, turn: int) -> Identity:
    """The timer of a node: one for all its rounds. A person who lets the node try again gives it new time."""
    return identity_of(Type.WAIT, SubType.WAIT.value, node, "time-limit", turn)


def question_at(kind: Kind, position: NodePosition, part: str, number: int = 1) -> ApprovalPlace:
    """The identities of a question to a person, and of the request that stands beside it."""
    return approval_at(kind, position.node, f"{position.round}/{position.turn}/{part}", number)

"""The operations of a run: their sub-types (what an operation is for), and the identities (id, type, sub-type, name and parent) of those
that need only a fixed name or a number."""

from __future__ import annotations

from functools import lru_cache

from holdfast.durable.identifier import Identity
from holdfast.durable.journal import identity_of
from holdfast.model.operations import CANCEL, SubType, Type

ATTEMPT, EFFECTS, INTENT, RECEIPT, REQUEST, STEP = "Attempt", "Effects", "Intent", "Receipt", "Request", "BodyStep"
"""The sub-types of a run's operations, beside APPROVAL and CANCEL (holdfast.model.operations)."""
INHERITED = "Inherited"
"""The sub-type of a step in which a run stores a call of an earlier run, so that later runs of the family need not read that earlier
run."""
NODE = "Node"
"""The sub-type of a node of a pipeline's run."""
CHOICE = "Choice"
"""The sub-type of the step that records what a supervisor chose, and why."""
_KEPT_IDENTITIES = 64
_KEPT_NODES = 4096

CANCEL_AT = identity_of(Type.CALLBACK, CANCEL, "cancel")
"""The identity of the callback that is answered when a caller, an operator or the pipeline that asked for the run cancels the run."""
EFFECTS_AT = identity_of(Type.CONTEXT, EFFECTS, "effects")
"""The identity of the context that is the parent of every intent, receipt and approval. The run never closes it, so that a replay gets
everything below it."""
CARRIED_AT = identity_of(Type.STEP, INHERITED, "earlier-runs", parent=EFFECTS_AT)
"""The identity of the step that is written when the run has stored every call that it inherits."""


@lru_cache(maxsize=_KEPT_NODES)
def node_at(node: str, round: int) -> Identity:
    """The identity of the operation (of the type context) of one round of a pipeline's node: it begins and ends together with that
    round."""
    return identity_of(Type.CONTEXT, NODE, node, round)


@lru_cache(maxsize=_KEPT_NODES)
def undone_at(node: str, round: int) -> Identity:
    """The identity of the step that records that the work of one round of a pipeline's node was undone."""
    return identity_of(Type.STEP, NODE, node, "undone", round)


@lru_cache(maxsize=_KEPT_IDENTITIES)
def attempt_at(number: int) -> Identity:
    """The identity of the attempt with this number, from 1."""
    return identity_of(Type.CONTEXT, ATTEMPT, f"attempt-{number}", number)


@lru_cache(maxsize=_KEPT_IDENTITIES)
def wait_at(number: int) -> Identity:
    """The identity of the wait after the attempt with this number."""
    return identity_of(Type.WAIT, SubType.WAIT.value, f"retry-{number}", number)

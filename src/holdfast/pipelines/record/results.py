"""Results of nodes: how a node ended, and the JSON document in which references of other nodes find values.

worker  {status, outputs, error, run_id, partial}
map     {items, ok, failed, counts}                with items {index, status, outputs, error, run_id}
merge   {outputs, conflicts, completeness, missing}
gate    {verdict, reasons, round, outputs}         outputs is the candidate that the gate let pass
human   {outputs, verdict, decided_by, comment}    route {label}    step {outputs}    wait {}
supervise {outputs, turns, choices}                with choices {turn, choice, reason, status, run_id}
until   {outputs, times}                           pipeline: the same as worker
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from holdfast.contract.codes import ResponseStatus
from holdfast.contract.protocol import Response
from holdfast.model import json_structs
from holdfast.model.operations import Action, Failure, Operation, Update
from holdfast.pipelines.record.operations import node_at

EndState: TypeAlias = Literal["ok", "partial", "skipped", "blocked", "failed"]
"""The states in which a node can end. Before its end a node is `waiting` or `running`; after an undo it is `undone`."""


class NodeError(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why a node failed."""

    code: str
    message: str
    details: Any = None
    run_id: str | None = None
    """The id of the child run from which the error comes (for a map: the run of the failed item with the lowest index). None if the error
    comes from no run."""
    retryable: bool | None = None
    """Whether the error of the child run says that a retry may help; None if no run gave the error."""
    needs_human: bool = False
    """Whether the child run that failed the node ended with the status `needs_human`. In a map: the run of the failed item with the lowest
    index."""


class NodeFailure(msgspec.Struct, frozen=True):
    """The node cannot do its work. scene/failure.py decides what follows."""

    error: NodeError
    action: Literal["fail", "skip", "escalate"] | None = None
    """The action of another field of the node, such as `on_block`; None: the node's `on_failure` decides."""
    offers: dict[str, Any] | None = None
    """A JSON Schema for outputs that a person may give in place of the node's; None: any object."""
    document: dict[str, Any] | None = None
    """The part of the node's result that is known although it failed, for example the reasons of a gate."""


class Settled(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a node ended in one round."""

    state: EndState
    document: dict[str, Any] | None = None
    """The result document. None if the node has no result, or if the response of a child run is the result (`run`)."""
    run: str | None = None
    """The id of the operation whose response is the result; None if `document` is the result, or if the node has no result."""
    lost: bool = False
    """Whether a result that the author wanted is missing or only partial, so that the run is partial. The result of a node that a route or
    `when` did not choose is not missing."""
    passes: bool = True
    """For a gate and a human node: whether nodes that name this node in `after` may run. For other nodes it has no effect."""
    why: str | None = None
    """Why the node was skipped or blocked, why the gate asked for another round, or who gave the node's outputs, as a text for people."""
    error: NodeError | None = None
    revise: bool = False
    """Whether the gate asked for another round."""


NodeProgress: TypeAlias = Settled | NodeFailure | None
"""What the function `advance` of each kind of node returns: Settled (how the node ended), NodeFailure (it cannot do its work), or None
while the node waits."""

_settled = json_structs.decoder(Settled)


def settled_update(node: str, round: int, settled: Settled) -> Update:
    """The update that ends a node's context."""
    at, text = node_at(node, round), msgspec.json.encode(settled).decode()
    if settled.state == "failed" and settled.error is not None:
        return at.update(Action.FAIL, error=Failure(settled.error.message, settled.error.code, text))
    return at.update(Action.SUCCEED, payload=text)


def settled_of(operation: Operation) -> Settled:
    """How a node ended, read from the operation of its context."""
    return _settled.decode((operation.result if operation.error is None else operation.error.data) or "{}")


def settled_in(update: Update) -> Settled:
    """How a node ended, read from the update that `settled_update` made."""
    return _settled.decode((update.payload if update.error is None else update.error.data) or "{}")


def told_of(settled: Settled) -> tuple[str, str] | None:
    """The code and the message of the error with which a node ended, for observers; None if it ended without an error."""
    return None if settled.error is None else (settled.error.code, settled.error.message)


def worker_document(response: Response) -> dict[str, Any]:
    """The result document of a worker node, made from the response of its run."""
    return {
        "status": response.status.value,
        "outputs": response.outputs,
        "error": None if response.error is None else msgspec.to_builtins(response.error),
        "run_id": response.run_id,
        "partial": response.observability.partial,
    }


def error_of(response: Response) -> NodeError:
    """The NodeError of a node that fails because its child run gave this response."""
    error = response.error
    if error is None:
        return NodeError(
            code="worker_crashed", message="The run gave no error, and not the outputs that the node needs.", run_id=response.run_id or None
        )
    return NodeError(
        code=error.error_code,
        message=error.message,
        details=error.details,
        run_id=response.run_id or None,
        retryable=error.retryable,
        needs_human=response.status is ResponseStatus.NEEDS_HUMAN,
    )

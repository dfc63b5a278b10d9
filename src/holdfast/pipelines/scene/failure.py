"""What happens when a node fails. If the run of its worker fails, the node's fallbacks run one after the other, until one succeeds or is
cancelled. If none succeeds, and if the node fails for another reason, `on_failure` (or `on_block`, `on_reject`, `on_silence` or
`conflicts` of the node) has the action: fail, skip, or escalate to a person.

All of it is bounded. If the run of a worker or fallback fails, after the attempts of that run, the node begins no other run of it; if a
rate refused the request, the node makes it again, but only a limited number of times. A person can let the node try again, also only a
limited number of times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from holdfast.contract.codes import ResponseStatus
from holdfast.contract.protocol import Response
from holdfast.model.operations import OPEN, Operation
from holdfast.pipelines.graph.graph import (
    AnyNode,
    FailureAction,
    GateNode,
    HumanNode,
    MapNode,
    MergeNode,
    RouteNode,
    StepNode,
    SuperviseNode,
    Template,
    UntilNode,
    WaitNode,
)
from holdfast.pipelines.record.operations import NodePosition, reused_at, run_at
from holdfast.pipelines.record.responses import child_response, was_refused
from holdfast.pipelines.record.results import NodeError, NodeFailure, Settled
from holdfast.pipelines.scene.children import ChildRuns, Inputs
from holdfast.pipelines.scene.scene import Scene, Silence

MOST_TRIES: Final = 20
"""A node is tried at most this often in one round: the first try, and each further try that a person allows."""
_MOST_LIMITED: Final = 100
"""If a rate refuses the requests to a worker this many times in succession, the worker is treated as failed."""
RETRY, USE, SKIP, STOP = "retry", "use", "skip", "stop"
"""What a person may answer to an escalation: try the node again (a map runs all its items again), use outputs that the person gives (not
for a map or a wait), skip the node, or fail it."""


class LastChildRun(msgspec.Struct, frozen=True):
    """The child run that was the last one in a part of a node's work: its response, and the id of the operation that has the response
    (`Records.place_of`)."""

    response: Response
    operation_id: str


class AnotherTry(msgspec.Struct, frozen=True):
    """A person wants the node to be tried again."""


async def ran(
    scene: ChildRuns, workers: Sequence[str], inputs: Inputs, *, part: str = "work", template: Template = None
) -> LastChildRun | None:
    """Run the first of these workers; if it fails, run the next one, and so on. No further worker runs after one that succeeded or was
    cancelled. Returns the run that was the last of all. Does not wait for the runs: returns None while a run, or a wait for a rate,
    lasts. `inputs` is called for the inputs; `part` names this part of the node's work; errors use `template`, from which the inputs are
    made."""
    told: list[Response] = []
    while (worker := _next(workers, told)) is not None:
        number = len(told) + 1
        response = await scene.run(worker, inputs, part=part, number=number, template=template)
        if response is None:
            return None
        told.append(response)
        seconds = _rate_wait(response)
        if seconds is not None and not scene.wait(part, seconds, number):
            return None
    return LastChildRun(told[-1], scene.records.place_of(run_at(scene.position, part, len(told))))


def ended(operations: Mapping[str, Operation], position: NodePosition, part: str, workers: Sequence[str]) -> Response | None:
    """The response of the last child run in a part of a node's work (the one that `ran` returns), read from recorded operations; None if
    the part has not ended, also while it waits for a rate."""
    told: list[Response] = []
    while _next(workers, told) is not None:
        at = run_at(position, part, len(told) + 1)
        known = operations.get(at.operation_id) or operations.get(reused_at(at).operation_id)
        if known is None or known.status in OPEN:
            return None
        told.append(child_response(known))
    return told[-1]


def _next(workers: Sequence[str], told: Sequence[Response]) -> str | None:
    """The worker that runs next, after these responses. None if no further worker runs: then the last of the responses is the result."""
    at, limited = 0, 0
    for response in told:
        limited += 1
        if _rate_wait(response) is None or limited == _MOST_LIMITED:
            if response.status is ResponseStatus.OK or _code(response) == "cancelled":
                return None
            at, limited = at + 1, 0
    return workers[at] if at < len(workers) else None


def _rate_wait(response: Response) -> float | None:
    """How many seconds to wait before the same worker is tried again, if a rate refused the request; None for every other response."""
    error = response.error
    if error is None or not was_refused(response) or error.error_code != "rate_limited":
        return None
    return error.retry_after_seconds or 1.0


def _code(response: Response) -> str:
    return "" if response.error is None else response.error.error_code


async def handled(node: AnyNode, scene: Scene, failed: NodeFailure) -> Settled | AnotherTry | None:
    """Apply the action for the failure of a node: `failed.action`, else the one of `on_failure`. Returns how the node ends, AnotherTry if
    a person wants another try and MOST_TRIES allows one, and None until the person who is asked has answered."""
    action = failed.action or action_for(node, failed.error.code)
    if action == "escalate":
        return await _escalated(node, scene, failed)
    return _without(node, failed) if action == "skip" else _ended(failed)


def action_for(node: AnyNode, code: str) -> FailureAction:
    """The node's action for an error code: the entry of `on_failure` for the code, else its entry `*`, else `fail`."""
    return node.on_failure.get(code) or node.on_failure.get("*") or "fail"


def _ended(failed: NodeFailure, error: NodeError | None = None) -> Settled:
    return Settled(state="failed", error=error or failed.error, document=failed.document, lost=True, passes=False)


def _without(node: AnyNode, failed: NodeFailure) -> Settled:
    """The end of a node that failed and whose action is `skip`. A gate or a human node ends `blocked`, and the nodes that name it in
    `after` are skipped too. Every other node ends `skipped`."""
    holds_back = isinstance(node, GateNode | HumanNode)
    # A gate that asked a person has the candidate in its document. Nodes that refer to it must not run.
    known = None if failed.document is None else {name: value for name, value in failed.document.items() if name != "outputs"}
    return Settled(
        state="blocked" if holds_back else "skipped",
        document=known if holds_back else None,
        error=failed.error,
        why=f"{failed.error.code}: {failed.error.message}",
        lost=True,
        passes=not holds_back,
    )


async def _escalated(node: AnyNode, scene: Scene, failed: NodeFailure) -> Settled | AnotherTry | None:
    actions = [RETRY, *([] if isinstance(node, MapNode | WaitNode) else [USE]), SKIP, STOP]
    error = failed.error
    decision = scene.ask(
        "question",
        "escalation",
        {"node": node.name, "round": scene.position.round, "error": msgspec.to_builtins(error), "answers": actions},
        question=f"The node {node.name} failed with {error.code}: {error.message} Answer with an action: {', '.join(actions)}.",
        within=scene.run_state.service.policy.approval_seconds,
        schema=answer_schema(actions, failed.offers, optional=isinstance(node, GateNode)),
    )
    if decision is None:
        return None
    if isinstance(decision, Silence):
        told = f"No person answered in time what to do about {error.code}: {error.message}"
        return _ended(failed, NodeError(code="approval_expired", message=told, details=msgspec.to_builtins(error)))
    answer = decision.result if isinstance(decision.result, dict) else {}
    match answer.get("action") if decision.verdict == "answer" else STOP:
        case "retry":
            return AnotherTry() if scene.position.try_number < MOST_TRIES else _ended(failed)
        case "use":
            given = answer.get("outputs")
            document = await scene.run_state.values.kept(given_document(node, failed, given))
            return Settled(state="ok", document=document, why=f"Outputs given by {decision.decided_by}.")
        case "skip":
            return _without(node, failed)
        case _:
            return _ended(failed)


def given_document(node: AnyNode, failed: NodeFailure, outputs: Any) -> dict[str, Any]:
    """The result document of a node whose outputs a person gave after it had failed. For a gate, `outputs` may be None: then
    the candidate is used, or null if the gate failed before it had a verdict."""
    match node:
        case GateNode():
            known = failed.document or {}
            candidate = known.get("outputs") if outputs is None else outputs
            return {**known, "verdict": "allow", "outputs": candidate}
        case RouteNode():
            return {"label": outputs["label"]}
        case MergeNode():
            return {"conflicts": [], "missing": [], "completeness": 1.0, **(failed.document or {}), "outputs": outputs}
        case HumanNode():
            return {**(failed.document or {}), "outputs": outputs, "verdict": "approve"}
        case SuperviseNode():
            return {"turns": 0, "choices": [], **(failed.document or {}), "outputs": outputs}
        case UntilNode():
            return {"times": 0, **(failed.document or {}), "outputs": outputs}
        case StepNode():
            return {"outputs": outputs}
        case _:
            return {"status": "ok", "outputs": outputs, "error": None, "run_id": None, "partial": False}


def answer_schema(actions: Sequence[str], outputs: dict[str, Any] | None, *, optional: bool = False) -> dict[str, Any]:
    """The JSON Schema of a person's answer to an escalation: one of the actions, and outputs that fit the schema `outputs` (None: any
    object). `optional`: whether the outputs may be missing with the action `use`, by which the person gives the node's outputs."""
    offered = dict(outputs or {"type": "object"})
    defined = offered.pop("$defs", None)
    schema: dict[str, Any] = {
        "type": "object",
        "additionalProperties": False,
        "required": ["action"],
        "properties": {"action": {"enum": list(actions)}, "outputs": offered},
    }
    if not optional:
        schema["if"] = {"properties": {"action": {"const": USE}}}
        schema["then"] = {"required": ["outputs"]}
    return schema if defined is None else {**schema, "$defs": defined}

"""A gate node judges a candidate by a worker, or by a schema and rules. If the gate does not let the candidate pass, the nodes that name
the gate in `after` or need its outputs do not run.

A worker answers `{verdict, reasons}`. An answer of another form is treated as `block` with the reason `invalid_verdict`, so that a broken
validator lets no candidate pass.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final, Literal

import msgspec

from holdfast.contract.checking import told_of
from holdfast.contract.codes import ResponseStatus
from holdfast.contract.costs import SchemaInvalid
from holdfast.contract.refusals import Overloaded
from holdfast.contract.rules import MAX_REASONS, Reason, broken
from holdfast.hosts.evaluator.schema_check import CheckTooCostly, problems_in
from holdfast.model import json_structs
from holdfast.pipelines.graph.graph import GateNode
from holdfast.pipelines.record.results import NodeError, NodeFailure, NodeProgress, Settled, error_of
from holdfast.pipelines.scene.failure import ran
from holdfast.pipelines.scene.large_values import computed
from holdfast.pipelines.scene.scene import Scene

_MOST_TEXT: Final = 2000
"""At most this many characters of each text of a reason are kept."""


class GateVerdict(msgspec.Struct, frozen=True):
    """What a gate's worker answers."""

    verdict: Literal["allow", "block", "revise"]
    reasons: list[Reason] = []


async def advance(node: GateNode, scene: Scene) -> NodeProgress:
    """Judge the candidate. The node is ok after `allow`, and after any verdict of a shadow gate. `revise` asks for another round; if no
    round is left, or the node has no `revise`, this verdict is treated like `block`. After `block`, the node's `on_block` decides. If the
    gate's worker fails, or the schema cannot be checked, the node fails."""
    candidate = await scene.value(node.candidate)
    verdict = await _judged(node, scene)
    if verdict is None or isinstance(verdict, NodeFailure):
        return verdict
    document = await scene.kept(
        {
            "verdict": verdict.verdict,
            "reasons": msgspec.to_builtins(verdict.reasons),
            "round": scene.position.round,
            "outputs": candidate,
        }
    )
    if node.shadow or verdict.verdict == "allow":
        return Settled(state="ok", document=document)
    held_back = {name: value for name, value in document.items() if name != "outputs"}
    if verdict.verdict == "revise" and node.revise is not None and scene.position.round <= node.rounds:
        return Settled(state="blocked", document=held_back, revise=True, passes=False, why=_told(verdict))
    error = NodeError(code="gate_blocked", message=f"The gate {node.name} blocked: {_told(verdict)}", details=held_back)
    return NodeFailure(error, action=node.on_block, document=document if node.on_block == "escalate" else held_back)


async def _judged(node: GateNode, scene: Scene) -> GateVerdict | NodeFailure | None:
    if node.worker is not None:
        last = await ran(scene, (node.worker,), partial(scene.inputs, node.candidate), template=node.candidate)
        if last is None:
            return None
        if last.response.status is not ResponseStatus.OK:
            return NodeFailure(error_of(last.response))
        return verdict_of(last.response.outputs)
    value = await scene.whole(node.candidate)
    reasons = await computed(value, broken, node.rules, value)
    if node.schema is not None:
        try:
            problems = await problems_in(node.schema, value, scene.who)
        except (SchemaInvalid, CheckTooCostly, Overloaded) as refused:
            return NodeFailure(NodeError(code=refused.code, message=str(refused)))
        reasons += [Reason(code="schema_mismatch", path=problem.path, message=told_of((problem,))) for problem in problems[:MAX_REASONS]]
    bad = any(reason.severity == "error" for reason in reasons)
    return GateVerdict("allow" if not bad else "block" if node.revise is None else "revise", reasons)


def verdict_of(outputs: Any) -> GateVerdict:
    """The verdict in a worker's outputs. It is `block` with the reason `invalid_verdict` if the outputs are not a verdict, if `block` or
    `revise` has no reason, and if `allow` has a reason of severity `error`."""
    try:
        found = json_structs.converted(outputs, GateVerdict)
    except msgspec.ValidationError as odd:
        return _invalid(f"The validator's answer is not a verdict: {odd}")
    if found.verdict != "allow" and not found.reasons:
        return _invalid(f"The validator said {found.verdict} and gave no reason.")
    if found.verdict == "allow" and any(reason.severity == "error" for reason in found.reasons):
        return _invalid("The validator said allow and gave a reason of severity error.")
    reasons = found.reasons
    if len(reasons) > MAX_REASONS:  # then the errors are kept, so that no warning stands in the place of one
        reasons = sorted(reasons, key=lambda reason: reason.severity != "error")[:MAX_REASONS]
    return GateVerdict(found.verdict, [_bounded(reason) for reason in reasons])


def _invalid(message: str) -> GateVerdict:
    return GateVerdict("block", [Reason(code="invalid_verdict", message=message[:_MOST_TEXT])])


def _bounded(reason: Reason) -> Reason:
    return Reason(
        code=reason.code[:_MOST_TEXT], path=reason.path[:_MOST_TEXT], message=reason.message[:_MOST_TEXT], severity=reason.severity
    )


def _told(verdict: GateVerdict) -> str:
    return "; ".join(f"{reason.code}{' at ' + reason.path if reason.path else ''}: {reason.message}" for reason in verdict.reasons[:3])

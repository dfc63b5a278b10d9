"""A human node asks persons for an approval. The approval is bound to the hash of what is shown; it has approvers and expires.

With a form, the answer is JSON that fits the form. With `votes` above 1, several persons must approve. A chain adds approvers if the
question stays open.
"""

from __future__ import annotations

from typing import Any

from holdfast.contract.costs import SchemaInvalid
from holdfast.contract.refusals import Overloaded
from holdfast.hosts.evaluator.schema_check import CheckTooCostly, examined
from holdfast.pipelines.graph.graph import HumanNode
from holdfast.pipelines.record.operations import question_at
from holdfast.pipelines.record.results import NodeError, NodeFailure, NodeProgress, Settled
from holdfast.pipelines.scene.chains import end_chain, keep_chain
from holdfast.pipelines.scene.scene import Scene, Silence
from holdfast.workers.approvals import AskKind, ChainPart, Decision
from holdfast.workers.demands import demands_of, shortage

_PART = "approval"


async def advance(node: HumanNode, scene: Scene) -> NodeProgress:
    """Ask the persons. The node is ok if they approve or answer; the outputs are what was shown, what an approver made of it by editing, or
    the answer. After a rejection, `on_reject` decides what happens; if the question ended without a decision, `on_silence`. The node fails
    if the question cannot be asked (`_flaw`)."""
    value = await scene.value(node.show)
    shown = value if isinstance(value, dict) else {"value": value}
    kind: AskKind = "approve" if node.form is None else "question"
    demands = _demands(node, scene)
    if (
        scene.records.find(question_at(kind, scene.position, _PART).callback) is None
        and (flaw := await _flaw(node, scene, demands)) is not None
    ):
        return NodeFailure(flaw)
    decision = scene.ask(kind, _PART, shown, question=node.question, within=node.within_seconds, schema=node.form, demands=demands)
    if decision is None:
        keep_chain(scene, kind, _PART, node.then)
        return None
    end_chain(scene, node.then)
    if isinstance(decision, Silence):
        return NodeFailure(
            NodeError(code="approval_expired", message=f"No person decided about {node.name} in time."), action=node.on_silence
        )
    return await _decided(node, scene, decision, value)


async def _decided(node: HumanNode, scene: Scene, decision: Decision, value: Any) -> NodeProgress:
    document: dict[str, Any] = {"verdict": decision.verdict, "decided_by": decision.decided_by, "comment": decision.comment}
    if decision.verdict == "reject":
        said = f" Comment: {decision.comment}" if decision.comment else ""
        error = NodeError(code="approval_rejected", message=f"{decision.decided_by} rejected {node.name}.{said}")
        return NodeFailure(error, action=node.on_reject, offers=node.form, document=document)
    edited = decision.edited_arguments
    outputs = value if edited is None else edited if isinstance(value, dict) else edited.get("value")
    if decision.verdict == "answer":
        outputs = decision.result
    return Settled(state="ok", document=await scene.kept({**document, "outputs": outputs}))


def _demands(node: HumanNode, scene: Scene) -> dict[str, Any]:
    chain = tuple(ChainPart(part.after_seconds, part.approvers) for part in node.then)
    return demands_of(scene.run_state.service.policy, approvers=node.approvers, votes=node.votes, risk=node.risk, then=chain)


async def _flaw(node: HumanNode, scene: Scene, demands: dict[str, Any]) -> NodeError | None:
    """Why the question cannot be asked: too few persons could decide it, or its form cannot be used. None if it can be asked."""
    service, requested_by = scene.run_state.service, scene.run_state.accepted.requested_by
    if (missing := shortage(service.policy, demands, requested_by, await service.holders())) is not None:
        return NodeError(code="approval_impossible", message=f"{node.name} cannot be approved: {missing}")
    if node.form is None:
        return None
    try:
        await examined(node.form, scene.who)
    except (SchemaInvalid, CheckTooCostly, Overloaded) as refused:
        return NodeError(code=refused.code, message=f"The form of {node.name} cannot be used: {refused}")
    return None

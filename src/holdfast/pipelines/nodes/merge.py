"""A merge node makes one result from several parts. Its result lists the conflicts and the missing parts. The node's `conflicts` and
`policy` say whether conflicts fail the node; with the policy `strict`, missing parts fail it too."""

from __future__ import annotations

from typing import Any

from holdfast.contract.codes import ResponseStatus
from holdfast.contract.merges import MERGE_CONFLICT, MISSING, MergePolicy, failure_of, merged
from holdfast.pipelines.graph.graph import MergeNode
from holdfast.pipelines.record.results import NodeError, NodeFailure, NodeProgress, Settled, error_of
from holdfast.pipelines.scene.failure import ran
from holdfast.pipelines.scene.large_values import computed
from holdfast.pipelines.scene.scene import NotReached, Scene


async def advance(node: MergeNode, scene: Scene) -> NodeProgress:
    """Merge the parts by the policy or by a worker. A part whose node has no result is missing. If there are conflicts, the resolver (a
    worker that the author named) decides them; without a resolver, the node's `conflicts` or the policy `strict` may fail the node, or a
    person is asked (`escalate`). With `strict` a missing part fails the node also if the node has a resolver. The node is partial if a part
    is missing for another reason than a route or a `when` that did not choose its node. Raises NotReached, so that the node is skipped, if
    all parts are missing."""
    parts, lost = await _parts(node, scene)
    there = [(source, value) for source, value in parts if value is not MISSING]
    if not there:
        raise NotReached(lost[0] if lost else node.name)
    if node.worker is None:
        assert node.policy is not None
        document, refused = await computed(parts, _by_policy, parts, node.policy, node.key)
    else:
        outputs = await _asked(node, scene, node.worker, there)
        if not isinstance(outputs, dict):
            return outputs
        document, refused = await _by_worker(scene, outputs, [source for source, value in parts if value is MISSING]), False
    incomplete = refused and len(there) < len(parts)  # a resolver decides conflicts; it cannot replace a missing part
    if document["conflicts"] and node.resolver is not None and not incomplete:
        outputs = await _asked(node, scene, node.resolver, there, part="resolver", conflicts=document["conflicts"])
        if not isinstance(outputs, dict):
            return None if outputs is None else NodeFailure(outputs.error, document=document)
        document = {**document, "outputs": outputs["merged"]}
    elif refused or (document["conflicts"] and node.conflicts in ("fail", "escalate")):
        error = NodeError(code=MERGE_CONFLICT, message=_told(node, document), details=document)
        return NodeFailure(error, action="escalate" if node.conflicts == "escalate" else None, document=document)
    wanted = any(scene.is_lost(source) for source in lost)
    return Settled(state="partial" if wanted else "ok", document=await scene.kept(document), lost=wanted)


def _by_policy(parts: list[tuple[str, Any]], policy: MergePolicy, key: str | None) -> tuple[dict[str, Any], bool]:
    """The result document of a merge by a policy, and whether the policy does not accept this result."""
    result = merged(parts, policy, key)
    return result.document, failure_of(policy, result) is not None


async def _parts(node: MergeNode, scene: Scene) -> tuple[list[tuple[str, Any]], list[str]]:
    """Two lists. The first has the source and the value of each part; the value is MISSING if the part's node was skipped or
    blocked, and so does not have it. The second has the names of these nodes."""
    parts: list[tuple[str, Any]] = []
    lost: list[str] = []
    for part in node.parts:
        try:
            parts.append((part.source, await scene.whole(part.value)))
        except NotReached as none:
            parts.append((part.source, MISSING))
            lost.append(none.source)
    return parts, lost


async def _asked(
    node: MergeNode, scene: Scene, worker: str, there: list[tuple[str, Any]], *, part: str = "work", **more: Any
) -> dict[str, Any] | NodeFailure | None:
    """Run the worker that merges the parts, or that decides their conflicts. `there` has the source and the value of each part that has a
    value; `more` has further inputs of the worker. Returns its outputs, None while it runs, and NodeFailure if it failed or gave no
    `merged`. check/inputs.py checks the same inputs."""
    parts = [{"source": source, "value": value} for source, value in there]
    key = {} if node.key is None else {"key": node.key}
    inputs = {"parts": parts, "merge_policy": node.policy or "best_effort", **key, **more}
    last = await ran(scene, (worker,), scene.given(inputs), part=part)
    if last is None:
        return None
    outputs = last.response.outputs or {}
    return outputs if last.response.status is ResponseStatus.OK and "merged" in outputs else NodeFailure(error_of(last.response))


async def _by_worker(scene: Scene, outputs: dict[str, Any], missing: list[str]) -> dict[str, Any]:
    """The result document of a merge by a worker. If the worker reports conflicts as a value that is not a list, that value is one
    conflict."""
    told = await scene.run_state.values.opened(outputs.get("conflicts") or [])
    conflicts = told if isinstance(told, list) else [told]
    return {"outputs": outputs["merged"], "conflicts": conflicts, "completeness": outputs.get("completeness", 1.0), "missing": missing}


def _told(node: MergeNode, document: dict[str, Any]) -> str:
    paths = [conflict.get("path") if isinstance(conflict, dict) else None for conflict in document["conflicts"][:5]]
    places = ", ".join(str(path or "the whole result") for path in paths)
    missing = ", ".join(map(str, document["missing"][:5]))
    told = [f"the parts differ at {places}" if places else "", f"missing: {missing}" if missing else ""]
    return f"{node.name} cannot merge its parts: {'; '.join(part for part in told if part) or 'no result'}."

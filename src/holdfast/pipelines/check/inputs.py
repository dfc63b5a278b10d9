"""Compares values with contracts: the inputs that nodes give their workers, the outputs that gates, routes, merges and supervisors need
from their workers, and the outputs of the pipeline."""

from __future__ import annotations

from typing import Any, Final

from holdfast.pipelines.check.fit import Misfit, SchemaComparison
from holdfast.pipelines.check.reference_types import VERDICTS, Types
from holdfast.pipelines.check.shapes import Subschema, closed, made
from holdfast.pipelines.check.table import Found, named
from holdfast.pipelines.graph.graph import (
    FINISH,
    AnyNode,
    GateNode,
    Graph,
    MapNode,
    MergeNode,
    RouteNode,
    SuperviseNode,
    UntilNode,
    WorkerNode,
)

_PART: Final = {"type": "object", "properties": {"source": {"type": "string"}, "value": {}}, "required": ["source", "value"]}
_CHOICE: Final = closed(label={"type": "string"}, worker={"type": "string"}, purpose={"type": "string"})
_SUPERVISED: Final = {
    "choices": {"type": "array", "items": _CHOICE},
    "so_far": {"type": "array", "items": {"type": "object"}},
    "turns_left": {"type": "integer"},
}
"""What a supervisor gets in addition to the inputs of its node (nodes/supervise.py)."""
_CONFLICT: Final = closed(path={"type": "string"}, values={"type": "array", "items": _PART})


class Fits:
    """Compares types with contracts, and adds each misfit to `found` as a problem."""

    def __init__(self, types: Types, comparison: SchemaComparison, found: Found) -> None:
        self.types = types
        self._comparison = comparison
        self._found = found

    def takes(self, node: AnyNode, worker: str, given: tuple[Subschema, ...], code: str) -> None:
        """Add a problem for each place where the given inputs do not fit the input schema of a worker. `code` is the first part of the
        problems' codes: `input`, `fallback` or `undo`. (With `input`, a required input that is certainly not given has the code
        `missing_input`.) A worker that is not known is not checked."""
        known = self.types.known(worker)
        if known is not None:
            wanted = self.types.of_schema(known.contract.input_schema)
            for misfit in self._comparison.misfits(given, wanted):
                missing = misfit.missing and misfit.certain and code == "input" and misfit.path.count(".") == 1
                told = f"{named(worker)} accepts other inputs: {_told(misfit, 'inputs')}."
                if missing:
                    told = f"{named(worker)} requires inputs{misfit.path}, which is not given."
                self._found.add("missing_input" if missing else _code(code, misfit), node.name, told)

    def answers(self, node: AnyNode, worker: str, wanted: dict[str, Any], what: str, *, doubts: bool = True) -> None:
        """Add a problem for each place where the outputs of a worker are not what its node needs. `wanted` is the needed schema, and `what`
        its name in the message. `doubts`: whether possible misfits are added too."""
        for misfit in self._comparison.misfits(self.types.outputs_of(worker), made(wanted)):
            if misfit.certain or doubts:
                self._found.add(_code("answer", misfit), node.name, f"{named(worker)} must give {what}: {_told(misfit, 'outputs')}.")

    def gives(self, node: AnyNode, worker: str, instead_of: str) -> None:
        """Add a problem for each place where the outputs of the fallback `worker` do not fit the output schema of `instead_of`, the worker
        that it replaces."""
        for misfit in self._comparison.misfits(self.types.outputs_of(worker), self.types.outputs_of(instead_of)):
            told = f"{named(worker)} gives other outputs than {named(instead_of)}: {_told(misfit, 'outputs')}."
            self._found.add(_code("fallback", misfit), node.name, told)

    def result(self, graph: Graph) -> None:
        """Add a problem for each place where the outputs that the graph gives do not fit the output schema of its contract."""
        given = self.types.of_template(graph.gives, None)
        for misfit in self._comparison.misfits(given, self.types.of_schema(graph.contract.get("output_schema", {}))):
            self._found.add(
                _code("gives", misfit), None, f"The pipeline gives other outputs than its contract says: {_told(misfit, 'outputs')}."
            )


def check_inputs(graph: Graph, nodes: list[AnyNode], fits: Fits) -> None:
    """Compare with the contracts: the inputs that nodes give their workers, the answers that nodes need from their workers, and the outputs
    of the pipeline. Each misfit is noted as a problem."""
    for node in nodes:
        given = fits.types.templates[node.name]
        match node:
            case WorkerNode() | MapNode() | UntilNode():
                fits.takes(node, node.worker, given["inputs"], "input")
            case GateNode(worker=str(worker)):
                fits.takes(node, worker, given["candidate"], "input")
                verdict = {"type": "object", "properties": {"verdict": {"enum": list(VERDICTS)}, "reasons": {"type": "array"}}}
                fits.answers(node, worker, {**verdict, "required": ["verdict"]}, "a verdict")
            case RouteNode(worker=str(worker)):
                fits.takes(node, worker, given["value"], "input")
                label = {"type": "object", "properties": {"label": {"enum": list(node.labels)}}, "required": ["label"]}
                fits.answers(node, worker, label, "a label", doubts=node.otherwise is None)
            case SuperviseNode():
                _check_supervise(node, given["inputs"], fits)
            case MergeNode():
                _check_merge(node, fits)
            case _:
                pass  # these nodes run no worker, so there is no contract to compare with
    fits.result(graph)


def _check_supervise(node: SuperviseNode, given: tuple[Subschema, ...], fits: Fits) -> None:
    """Check a supervisor, which gets three inputs in addition to those of the node. If its outputs cannot have a field `inputs`, the
    workers that it chooses get the node's inputs, so the node's inputs are compared with the contracts of these workers too."""
    more = made({"type": "object", "properties": _SUPERVISED, "required": list(_SUPERVISED)})
    fits.takes(node, node.worker, fits.types.with_fields(given, more), "input")
    choice = {"choice": {"enum": [*node.choices, FINISH]}, "reason": {"type": "string"}}
    fits.answers(node, node.worker, {"type": "object", "properties": choice, "required": list(choice)}, "a choice", doubts=False)
    if not fits.types.may_have(fits.types.outputs_of(node.worker), "inputs"):
        for worker in dict.fromkeys(node.choices.values()):
            fits.takes(node, worker, given, "input")


def _check_merge(node: MergeNode, fits: Fits) -> None:
    """Check the workers of a merge: a worker that merges gets the parts and the policy; a worker that decides conflicts also gets the
    conflicts."""
    given: dict[str, Any] = {"parts": {"type": "array", "items": _PART}, "merge_policy": {"const": node.policy or "best_effort"}}
    if node.key is not None:
        given["key"] = {"const": node.key}
    for worker, more in ((node.worker, {}), (node.resolver, {"conflicts": {"type": "array", "items": _CONFLICT}})):
        if worker is not None:
            fits.takes(node, worker, made(closed(**given, **more)), "input")
            fits.answers(node, worker, {"type": "object", "required": ["merged"]}, "a merge")


def _code(begin: str, misfit: Misfit) -> str:
    return f"{begin}_misfit" if misfit.certain else f"{begin}_may_misfit"


def _told(misfit: Misfit, root: str) -> str:
    return f"{root}{misfit.path} {misfit.reason}"

"""`Pipeline`: how an author writes a pipeline in Python. Each call of a verb adds one node. The result is data (graph/graph.py).

    p = Pipeline("vendor-research.md")
    facts = p.worker("facts", "fact-worker", {"vendor": p.inputs.vendor})
    p.gives({"facts": facts.outputs})

The runner finds the line `p = Pipeline(…)` by reading the file, and runs the file in the sandbox. So this module imports little.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from pathlib import PurePath
from typing import Any, Final, Literal, Unpack

import msgspec

from holdfast.model import json_structs
from holdfast.pipelines.builder import arguments
from holdfast.pipelines.builder.arguments import Common
from holdfast.pipelines.builder.expressions import Expression, Ref, constant_of, template_of
from holdfast.pipelines.builder.handles import (
    GateHandle,
    Handle,
    HumanHandle,
    MapHandle,
    MergeHandle,
    RouteHandle,
    StepHandle,
)
from holdfast.pipelines.builder.worker_verbs import WorkerVerbs
from holdfast.pipelines.graph.bounds import MAX_NODES, check_node
from holdfast.pipelines.graph.durations import seconds_of
from holdfast.pipelines.graph.graph import (
    GIVES,
    AnyNode,
    BlockAction,
    FailureAction,
    GateNode,
    HumanNode,
    MapNode,
    MergeNode,
    MergePolicy,
    QuestionRisk,
    RouteNode,
    Rule,
    SourceLine,
    StepNode,
    Template,
    WaitNode,
)
from holdfast.pipelines.graph.refusals import PipelineInvalid
from holdfast.pipelines.graph.templates import INDEX, INPUTS, ITEM, PLACE, THIS, Reference

_HERE: Final = PurePath(__file__).parent


class Draft(msgspec.Struct, frozen=True):
    """The nodes and the outputs of a pipeline, and the lines on which the author wrote them. The runner adds the contract."""

    nodes: tuple[AnyNode, ...]
    gives: Template
    lines: dict[str, SourceLine] = {}


class Pipeline(WorkerVerbs):
    """A pipeline, written in Python. There is one method for each kind of node; its first argument is the name of the new node.

    `Pipeline("vendor-research.md")` has its contract on a page in the file's folder or below, in the form of a worker.md. Without a page,
    give an id, a version and the JSON Schemas of inputs and outputs; `timeout`, `max_tokens` and `max_cost_usd` then limit a whole run.
    With `gates="required"` it is an error, and not only a warning, if a worker that may change something without an approval can run
    without a gate or a person before it. `include` names further files that the file's code may read. All arguments of `Pipeline(…)` must
    be literals (or names of literals of the same file), because the runner reads them without running the file.

    Every node accepts by name: `after` (nodes that must end first, or `route.to("label")`), `when` (conditions: the node is skipped if one
    does not hold), `on_failure` (`fail`, `skip` or `escalate`, or a dict from error codes to these), and `timeout`, `max_tokens` and
    `max_cost_usd` (limits of the node).
    """

    def __init__(
        self,
        page_or_id: str,
        version: str | None = None,
        *,
        inputs: Mapping[str, Any] | None = None,
        outputs: Mapping[str, Any] | None = None,
        purpose: str = "",
        timeout: str | None = None,
        max_tokens: int | None = None,
        max_cost_usd: Decimal | float | str | None = None,
        gates: Literal["advised", "required"] = "advised",
        include: Sequence[str] = (),
    ) -> None:
        self._name = page_or_id
        limits = {"timeout": timeout, "max_tokens": max_tokens, "max_cost_usd": max_cost_usd}
        self._given = {"page_or_id": page_or_id, "version": version, "inputs": inputs, "outputs": outputs, "purpose": purpose, **limits}
        self._gates = gates
        self._nodes: dict[str, AnyNode] = {}
        self._lines: dict[str, SourceLine] = {}
        self._functions: dict[str, Callable[..., Any]] = {}
        self._gives: list[Template] = []

    def __repr__(self) -> str:
        return f"<Pipeline {self._name!r}>"

    # --- values

    @property
    def inputs(self) -> Ref:
        """The inputs of the pipeline: `p.inputs.urls`."""
        return Ref(Reference(source=INPUTS))

    @property
    def item(self) -> Ref:
        """In the inputs of a map: the element of the list. In the inputs of the map's undo: the item's row in the result of the map; there,
        the element is `p.item.item`."""
        return Ref(Reference(source=ITEM))

    @property
    def index(self) -> Ref:
        """In the inputs of a map: the index of the element in the list, from 0. In the inputs of the map's undo, use `p.item.index`."""
        return Ref(Reference(source=INDEX))

    @property
    def this(self) -> Ref:
        """In `undo=` of a worker or pipeline node, the result of that node: `undo=("unpublish", {"url": p.this.outputs.url})`."""
        return Ref(Reference(source=THIS))

    def const(self, value: Any) -> Expression:
        """A constant: JSON of at most 64 KiB that is used as it is, also if its keys begin with `$`."""
        return Expression({"$const": constant_of(value)})

    def concat(self, *lists: Any) -> Expression:
        """The elements of all these lists, in one list."""
        return Expression({"$concat": [template_of(each, "A list of concat") for each in lists]})

    def text(self, text: str, *values: Any) -> Expression:
        """A text with values in its places `{}`: texts as they are, other values as JSON. Give one value for each place."""
        if str(text).count(PLACE) != len(values):
            raise PipelineInvalid(
                f'p.text({text!r:.80}) has {len(values)} values; it needs one for each place {{}}: p.text("about {{}}", ref).'
            )
        return Expression({"$text": text, "with": [template_of(each, "A value of text") for each in values]})

    def gives(self, outputs: Any) -> None:
        """Set the outputs of the pipeline, which must fit the output schema of its contract. Call this once. If a member of `outputs`
        refers to a node without a result or to a missing value, and has no default, a run leaves this member out."""
        if self._gives:
            raise PipelineInvalid("p.gives(…) was called before. Call it once, with all outputs.")
        self._gives.append(template_of(outputs, "p.gives(…)"))
        self._lines[GIVES] = _line()

    # --- nodes

    def map(
        self,
        name: str,
        worker: str,
        over: Any,
        inputs: Any,
        *,
        at_most: int | None = None,
        at_once: int = 8,
        tolerate: int | str = 0,
        fallback: Sequence[str] = (),
        undo: Any = None,
        **common: Unpack[Common],
    ) -> MapHandle:
        """Run a worker for each element of the list `over`. `inputs` may use `p.item` and `p.index`.

        `at_most` is required: the most elements that the list may have. A longer list fails the node before any item runs. At most
        `at_once` items run at the same time. `tolerate` says how many items may fail without failing the node: a number, or a percentage
        (`"20%"`). As in `worker`, `fallback` runs for an item that failed, and `undo` takes back one that succeeded, unless the map fails.
        """
        if at_most is None:
            raise PipelineInvalid(f"The map {name!r:.80} needs at_most=, the most elements that its list may have: at_most=200.")
        count, percent = arguments.tolerate_of(tolerate)
        node = MapNode(
            worker=worker,
            over=template_of(over, "The list of a map"),
            inputs=template_of(inputs, "inputs"),
            at_most=arguments.integer_of(at_most, "at_most="),
            at_once=arguments.integer_of(at_once, "at_once="),
            tolerate=count,
            tolerate_percent=percent,
            **arguments.safety_of(fallback, undo),
            **arguments.common_of(name, common),
        )
        self._add(node)
        return MapHandle(name, "map", ("ok", "*", "outputs"))

    def merge(
        self,
        name: str,
        parts: Any,
        *,
        policy: MergePolicy | None = None,
        worker: str | None = None,
        key: str | None = None,
        conflicts: str = "report",
        **common: Unpack[Common],
    ) -> MergeHandle:
        """Make one result from several parts: a list of nodes or references, or a dict that names them. Give `policy` or `worker`.

        `policy` is `strict`, `best_effort`, `first`, `majority` or `union`; `key` is the field by which `union` recognizes equal elements
        of lists. `worker` is the id of a worker that merges. `conflicts` says what happens if parts contradict each other: `report` (the
        result lists them), `fail`, `escalate`, or the id of a worker that decides.
        """
        if (policy is None) is (worker is None):
            raise PipelineInvalid(f"The merge {name!r:.80} needs policy= or worker=, one of the two: policy='union' for instance.")
        node = MergeNode(
            parts=arguments.parts_of(parts),
            policy=policy,
            worker=worker,
            key=key,
            **arguments.conflicts_of(conflicts),
            **arguments.common_of(name, common),
        )
        self._add(node)
        return MergeHandle(name, "merge")

    def gate(
        self,
        name: str,
        worker: str | None = None,
        candidate: Any = None,
        *,
        schema: Mapping[str, Any] | None = None,
        rules: Any = (),
        revise: Handle | str | None = None,
        rounds: int = 0,
        on_block: BlockAction = "fail",
        shadow: bool = False,
        **common: Unpack[Common],
    ) -> GateHandle:
        """Judge a candidate by a worker, or by a JSON Schema and rules. If the gate does not let the candidate pass, the nodes that name
        the gate in `after` or need its outputs do not run.

        A worker gets the object `candidate` as its whole inputs and gives `{verdict, reasons}`, with `allow`, `block` or `revise`. A gate
        has either a worker, or `schema` and `rules`: with both, the check of the graph reports `gate_judges_twice`. `revise=` names a node
        above the gate. If the worker says `revise`, or the candidate breaks the schema or the rules, the named node and the nodes between
        it and the gate run again, at most `rounds` times. If no round is left, and after `block`, `on_block` says what happens: `fail` (the
        run fails), `skip` (the run goes on without the nodes that need the gate) or `escalate` (a person decides). A `shadow` gate only
        records its verdict, and lets every candidate pass.
        """
        if (revise is None) is not (rounds == 0):
            raise PipelineInvalid(f"The gate {name!r:.80} needs revise= and rounds= together: revise=facts, rounds=2.")
        node = GateNode(
            worker=worker,
            candidate=template_of(candidate, "The candidate"),
            schema=None if schema is None else constant_of(schema, "schema="),
            rules=arguments.rules_of(rules, "rules="),
            revise=None if revise is None else arguments.name_of(revise, "revise="),
            rounds=arguments.integer_of(rounds, "rounds="),
            on_block=arguments.action_of(on_block, "on_block="),
            shadow=bool(shadow),
            **arguments.common_of(name, common),
        )
        self._add(node)
        return GateHandle(name, "gate")

    def human(
        self,
        name: str,
        *,
        show: Any,
        question: str = "",
        approvers: Sequence[str] = (),
        within: str = "7d",
        form: Mapping[str, Any] | None = None,
        votes: int = 1,
        then: Sequence[tuple[str, Sequence[str]]] = (),
        risk: QuestionRisk | None = None,
        on_reject: FailureAction = "fail",
        on_silence: FailureAction = "fail",
        **common: Unpack[Common],
    ) -> HumanHandle:
        """Ask a person, who sees `show` and `question`, and approves or rejects.

        `approvers` are the persons and groups who may decide. If it is empty, the operator's approvers decide; if the operator names none
        either, every person with the role `approver` or `admin`. `within` is the time that they have. `on_reject` (after a rejection) and
        `on_silence` (no decision in that time) say what happens: `fail` (the run fails), `skip` (the run goes on without the nodes that
        name this one or need its outputs) or `escalate` (the operator's approvers decide).

        With `form`, a JSON Schema, the person gives an answer that fits it, and the answer is the node's outputs. `votes` is how many
        persons must approve; one rejection is enough to reject. `then=[("4h", ["head"])]` adds approvers if the question is still open
        after 4 hours. `risk` is `low`, `medium` or `high`; the operator may set further demands for each.
        """
        node = HumanNode(
            show=template_of(show, "show="),
            question=question,
            approvers=arguments.texts_of(approvers, "approvers="),
            within_seconds=seconds_of(within, "within="),
            on_reject=arguments.action_of(on_reject, "on_reject="),
            on_silence=arguments.action_of(on_silence, "on_silence="),
            **arguments.asked_of(form, votes, then, risk),
            **arguments.common_of(name, common),
        )
        self._add(node)
        return HumanHandle(name, "human")

    def route(
        self,
        name: str,
        worker: str | None = None,
        inputs: Any = None,
        *,
        labels: Sequence[str] = (),
        rules: Mapping[str, Any] | None = None,
        otherwise: str | None = None,
        **common: Unpack[Common],
    ) -> RouteHandle:
        """Choose one of a few labels. Nodes with `after=route.to("label")` run only if their label was chosen.

        Give `worker` and `labels`, or `rules`. The worker gets `inputs` and gives `{label}`, one of `labels`. `rules` has the conditions of
        each label, and the first label whose conditions hold is chosen: `rules={"small": p.inputs.pages.at_most(10)}`. If the worker
        gives none of `labels`, or if no conditions hold, `otherwise` is chosen; without `otherwise` the node fails.
        """
        value = template_of(inputs, "inputs")
        asked: dict[str, tuple[Rule, ...]] = {}
        if (worker is None) is (rules is None):
            raise PipelineInvalid(f"The route {name!r:.80} needs a worker with labels=, or rules=: one of the two.")
        if rules is not None:
            value, asked = arguments.route_of(rules, inputs)
        known = arguments.texts_of(labels, "labels=") or tuple(asked)
        if otherwise is not None and otherwise not in known:
            known = (*known, otherwise)
        self._add(
            RouteNode(
                labels=known,
                value=value,
                worker=worker,
                rules=asked,
                otherwise=otherwise,
                **arguments.common_of(name, common),
            )
        )
        return RouteHandle(name, known)

    def step(self, name: str, function: Callable[..., Any], inputs: Any, **common: Unpack[Common]) -> StepHandle:
        """Call a small pure function of this file in the sandbox, without tools and network. It gets the inputs as JSON, and returns JSON.

        A step takes about 20 ms. If you only want to rename a field, write the reference in the inputs of the next node instead.
        """
        called = getattr(function, "__name__", "")
        if not called or called.startswith(("_", "<")) or getattr(function, "__qualname__", "") != called:
            raise PipelineInvalid(
                f"The step {name!r:.80} calls {function!r:.120}. "
                "It must be a function at the top level of this file, with a name that does not begin with _."
            )
        self._functions[called] = function
        self._add(StepNode(function=called, inputs=template_of(inputs, "inputs"), **arguments.common_of(name, common)))
        return StepHandle(name, "step")

    def wait(self, name: str, duration: str, **common: Unpack[Common]) -> Handle:
        """Wait for a duration: an integer and s, m, h or d, such as `"2h"`. The wait holds no process."""
        self._add(WaitNode(seconds=seconds_of(duration, "The duration"), **arguments.common_of(name, common)))
        return Handle(name, "wait", None)

    # --- for the runner

    def draft(self) -> Draft:
        """The nodes and outputs so far, which the sandbox sends to the runner. Raises PipelineInvalid if `gives` was not called."""
        if not self._gives:
            raise PipelineInvalid(f"{self!r} has no outputs: call p.gives({{…}}) at the end.")
        return Draft(tuple(self._nodes.values()), self._gives[0], dict(self._lines))

    def _add(self, node: AnyNode) -> None:
        try:
            node = json_structs.converted(msgspec.to_builtins(node), type(node))  # arguments of a wrong type are found here
        except (msgspec.ValidationError, TypeError) as wrong:
            what, _, where = str(wrong).partition(" - at ")
            raise PipelineInvalid(f"The node {node.name!r:.80}: {where.strip('`$.') or 'an argument'}: {what}.") from None
        try:
            check_node(node)
        except PipelineInvalid as wrong:
            raise PipelineInvalid(f"The node {node.name!r:.80}: {wrong}") from None
        if node.name in self._nodes:
            raise PipelineInvalid(f"Two nodes are named {node.name!r}; the other is written in {self._lines[node.name]}.")
        if len(self._nodes) == MAX_NODES:
            raise PipelineInvalid(f"A pipeline has at most {MAX_NODES} nodes. Use p.map(…) to run a worker for each element of a list.")
        self._nodes[node.name] = node
        self._lines[node.name] = _line()


def _line() -> SourceLine:
    """The file and the line of the author's code: the innermost caller outside of this package."""
    frame = sys._getframe(1)
    while frame.f_back is not None and PurePath(frame.f_code.co_filename).parent == _HERE:
        frame = frame.f_back
    return SourceLine(frame.f_code.co_filename, frame.f_lineno)

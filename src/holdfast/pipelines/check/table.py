"""The one table of problems that a graph can have.

`docs/reference/pipeline-problems.md` is made from it: `python -m tests.drawings.pipeline_problems > docs/reference/pipeline-problems.md`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from holdfast.contract.notes import shown
from holdfast.contract.terms import ProblemLevel
from holdfast.pipelines.graph.graph import GIVES, SourceLine


class ProblemMeaning(NamedTuple):
    """What a problem's code means, and what the author can do."""

    level: ProblemLevel
    what: str
    cure: str


_E, _W = ProblemLevel.ERROR, ProblemLevel.WARNING

MEANINGS: Mapping[str, ProblemMeaning] = {
    # --- names and workers
    "duplicate_name": ProblemMeaning(_E, "two nodes have the same name", "Give each node a name of its own."),
    "reserved_name": ProblemMeaning(
        _E, "a node has a name that references use: `inputs`, `item`, `index` or `this`", "Give the node another name."
    ),
    "unknown_worker": ProblemMeaning(
        _E, "no worker of that id is known", "Put the worker's file beside the pipeline, name it with --worker, or correct the id."
    ),
    "unknown_version": ProblemMeaning(_E, "the worker is known, but not in that version", "Name a version that is known, or none."),
    "not_a_pipeline": ProblemMeaning(_E, "a `pipeline` node runs a worker", "Use p.worker(…) for a worker."),
    # --- order
    "cycle": ProblemMeaning(
        _E, "nodes wait for each other", "Remove one of the references or `after` between them. For a loop, use a gate's `revise`."
    ),
    "unknown_node": ProblemMeaning(_E, "a reference, an `after` or a `revise` names a node that does not exist", "Correct the name."),
    "not_upstream": ProblemMeaning(
        _E,
        "an undo refers to a node that may not have ended when the undo runs",
        "Refer to the node that is undone, or to a node above it.",
    ),
    "item_outside_map": ProblemMeaning(
        _E, "`item` or `index` is used outside the inputs of a map", "Use it only in the inputs of a map or of its undo."
    ),
    "unreachable_node": ProblemMeaning(
        _E,
        "the node's result is used neither for the pipeline's outputs, nor for a side effect, a gate or a person",
        "Use the result, or remove the node.",
    ),
    "never_runs": ProblemMeaning(
        _E,
        "the node runs only if one route chooses two labels, and a route chooses one",
        "Make a node for each label, or remove one label.",
    ),
    "unknown_label": ProblemMeaning(_E, "a route does not have this label", "Add the label in the route's `labels`, or correct it."),
    # --- loops, bounds
    "unbounded_loop": ProblemMeaning(
        _E,
        "a loop has no bound, or pipelines run each other in a circle",
        "Give a gate `rounds=`, a supervisor `turns=` and an `until` `at_most=` of 1 or more; let no pipeline run itself.",
    ),
    "unbounded_map": ProblemMeaning(_E, "a map has no `at_most`", "Give the map `at_most=` of 1 or more."),
    "revise_not_upstream": ProblemMeaning(
        _E, "a gate revises a node that is not above it", "Revise a node that the gate's candidate is made from."
    ),
    "revise_overlaps": ProblemMeaning(
        _E, "two gates would run the same node again", "Let one gate revise the node, or put one loop after the other."
    ),
    "revise_repeats_effect": ProblemMeaning(
        _W, "each round of a gate would repeat a side effect", "Put the worker that changes something after the gate."
    ),
    "until_repeats_effect": ProblemMeaning(
        _W, "an `until` runs a worker again that may change something", "Let the loop run a worker that only reads."
    ),
    "gate_judges_nothing": ProblemMeaning(_E, "a gate has no worker, no schema and no rules", "Give it at least one of the three."),
    "gate_judges_twice": ProblemMeaning(
        _E, "a gate has a worker, and also a schema or rules, which would not be used", "Use two gates, one after the other."
    ),
    "time_above_pipeline": ProblemMeaning(
        _E, "a node may take longer than the pipeline", "Lower the node's time, or raise the pipeline's."
    ),
    "budget_above_pipeline": ProblemMeaning(
        _E, "a node may spend more tokens or money than the pipeline", "Lower the node's limit, or raise the pipeline's."
    ),
    # --- data
    "impossible_field": ProblemMeaning(
        _E, "a reference names a field that its source cannot have", "Correct the path; the message names what is there."
    ),
    "uncertain_field": ProblemMeaning(
        _W, "a reference names a field that may be missing", "Give the reference a `.default(…)`, or make the field required in its schema."
    ),
    "not_a_list": ProblemMeaning(_E, "a list is needed, and the value cannot be one", "Refer to a list."),
    "missing_input": ProblemMeaning(_E, "an input that the worker requires is not given", "Give the input."),
    "input_misfit": ProblemMeaning(
        _E, "what a node gives its worker cannot fit the worker's input schema", "Give a value that fits, or convert it in a step before."
    ),
    "input_may_misfit": ProblemMeaning(
        _W,
        "what a node gives its worker may not fit the worker's input schema",
        "Make the schema of the source stricter, or give the reference a default.",
    ),
    "gives_misfit": ProblemMeaning(
        _E, "what the pipeline gives cannot fit its own output schema", "Correct `gives`, or the output schema."
    ),
    "gives_may_misfit": ProblemMeaning(
        _W,
        "what the pipeline gives may not fit its own output schema",
        "Make the schemas of the sources stricter, or the output schema less strict.",
    ),
    "answer_misfit": ProblemMeaning(
        _E,
        "a worker's outputs cannot be the verdict, label, choice or merge that its node needs",
        "Use a worker whose output schema has it.",
    ),
    "answer_may_misfit": ProblemMeaning(
        _W,
        "a worker's outputs may not be the verdict, label, choice or merge that its node needs",
        "Make it required in the worker's output schema.",
    ),
    "compared_in_part": ProblemMeaning(
        _W,
        "the schemas are too large to compare, so misfits may show only when the pipeline runs",
        "Make the schemas or the graph smaller.",
    ),
    # --- safety
    "fallback_not_safer": ProblemMeaning(
        _E, "a fallback may use tools that the worker it replaces may not", "Use a fallback with the same tools or fewer."
    ),
    "fallback_misfit": ProblemMeaning(
        _E, "a fallback cannot accept the inputs, or give the outputs, of the worker it replaces", "Use a fallback whose schemas fit."
    ),
    "fallback_may_misfit": ProblemMeaning(
        _W, "a fallback may not accept the inputs, or give the outputs, of the worker it replaces", "Use a fallback whose schemas fit."
    ),
    "undo_misfit": ProblemMeaning(
        _E, "what an undo gets cannot fit the undo worker's input schema", "Give the undo inputs of its own that fit."
    ),
    "undo_may_misfit": ProblemMeaning(
        _W, "what an undo gets may not fit the undo worker's input schema", "Give the undo inputs of its own that fit."
    ),
    "ungated_effect": ProblemMeaning(
        _W,
        "a worker that may change something runs without a gate or a person before it (an error with `gates: required`)",
        "Put a gate or a human node before it: `after=[…]`.",
    ),
}
"""Every code of a problem, with its level, its meaning and its cure."""


class GraphProblem(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong with a graph, where, and what to do."""

    level: ProblemLevel
    code: str
    node: str | None
    """The node with the problem; None if it is a problem of the whole pipeline or of its outputs."""
    line: SourceLine | None
    """The line on which the author wrote the node, or the outputs; None if it is not known, or if the problem is of the whole pipeline."""
    message: str
    cure: str

    def __str__(self) -> str:
        where = f"{self.line.file}:{self.line.line}: " if self.line else ""
        node = f" {self.node}:" if self.node is not None else ""
        return f"{where}{self.level.value}[{self.code}]{node} {self.message} {self.cure}"


class Found:
    """Collects problems. It keeps each problem once, and at most MOST errors and MOST warnings. `sorted` returns MOST of both together,
    the errors first: a pipeline with an error must never seem to have only warnings."""

    MOST = 500

    def __init__(self, lines: Mapping[str, SourceLine]) -> None:
        self._lines = lines
        self._problems: dict[tuple[str, str | None, str], GraphProblem] = {}
        self._kept: Counter[ProblemLevel] = Counter()

    def add(self, code: str, node: str | None, message: str, *, level: ProblemLevel | None = None, whole: bool = False) -> None:
        """Add a problem of a node. If `node` is None, it is a problem of the pipeline's outputs, or, with `whole`, of the whole pipeline.
        `level` replaces the level of the code."""
        key = (code, node, message)
        meaning = MEANINGS[code]
        level = level or meaning.level
        if key in self._problems or self._kept[level] >= self.MOST:
            return
        self._kept[level] += 1
        line = None if whole else self._lines.get(GIVES if node is None else node)
        self._problems[key] = GraphProblem(level=level, code=code, node=node, line=line, message=message, cure=meaning.cure)

    def sorted(self, position: Mapping[str, int]) -> list[GraphProblem]:
        """At most MOST of the problems: errors before warnings. Among the errors, and among the warnings, the problems are in the order of
        the nodes, and those without a node are last. `position` has the place of each node."""

        def place(problem: GraphProblem) -> tuple[bool, int]:
            return problem.level is ProblemLevel.WARNING, position.get(problem.node, -1) if problem.node is not None else len(position)

        return sorted(self._problems.values(), key=place)[: self.MOST]


def named(value: Any, most: int = 60) -> str:
    """A name or a value that the author wrote, as text for a message: on one line, and cut after `most` characters."""
    return f"`{shown(str(value), most)}`"


def listed(names: Any, most: int = 6) -> str:
    """Several names in a message: the first `most`, and how many more there are."""
    found = [named(name, 40) for name in names]
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return ", ".join(found[:most]) + more

"""The verbs of nodes that run workers and pipelines one at a time: `worker`, `pipeline`, `supervise` and `until`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from holdfast.pipelines.builder import arguments
from holdfast.pipelines.builder.arguments import Common
from holdfast.pipelines.builder.expressions import template_of
from holdfast.pipelines.builder.handles import SuperviseHandle, UntilHandle, WorkerHandle
from holdfast.pipelines.graph.durations import seconds_of
from holdfast.pipelines.graph.graph import AnyNode, PipelineNode, SuperviseNode, UntilNode, WorkerNode


class WorkerVerbs:
    """The methods of `Pipeline` that add nodes which run workers one at a time."""

    def _add(self, node: AnyNode) -> None:
        raise NotImplementedError

    def worker(
        self, name: str, worker: str, inputs: Any, *, fallback: Sequence[str] = (), undo: Any = None, **common: Unpack[Common]
    ) -> WorkerHandle:
        """Run a worker, which is named by its id or `id@version`.

        If the worker fails, the `fallback` workers run one after the other until one succeeds; each may use only tools that the worker may
        use. `undo` is the id of a worker that takes back what this node did, if the run later fails, takes too long or is cancelled. The
        undo worker gets `{"inputs": …, "outputs": …}` of this node. To give it other inputs, write `undo=(worker, inputs)`; in these
        inputs, `p.this` is the result of this node.
        """
        return self._child(WorkerNode, "worker", name, worker, inputs, fallback, undo, common)

    def pipeline(
        self, name: str, pipeline: str, inputs: Any, *, fallback: Sequence[str] = (), undo: Any = None, **common: Unpack[Common]
    ) -> WorkerHandle:
        """Run another pipeline, which is named by its id or `id@version`. The arguments, also `fallback` and `undo`, mean the same as in
        the method `worker`; the node runs in the same way, but drawings show it as a pipeline.

        What the other pipeline spends counts against the limits of tokens and money of this run, in addition to its own limits. If this run
        fails or is cancelled while the other pipeline runs, the other pipeline is cancelled, and undoes its own nodes. If the other
        pipeline has already succeeded, `undo` takes back what it did.
        """
        return self._child(PipelineNode, "pipeline", name, pipeline, inputs, fallback, undo, common)

    def _child(
        self,
        node: type[WorkerNode],
        kind: str,
        name: str,
        worker: str,
        inputs: Any,
        fallback: Sequence[str],
        undo: Any,
        common: Common,
    ) -> WorkerHandle:
        safety, given = arguments.safety_of(fallback, undo, name), template_of(inputs, "inputs")
        self._add(node(worker=worker, inputs=given, **safety, **arguments.common_of(name, common)))
        return WorkerHandle(name, kind)

    def supervise(
        self,
        name: str,
        worker: str,
        inputs: Any,
        *,
        choices: Mapping[str, str],
        turns: int,
        undo: Mapping[str, str] | None = None,
        **common: Unpack[Common],
    ) -> SuperviseHandle:
        """Let a worker, the supervisor, choose which worker runs next, again and again until it finishes. It is asked at most `turns`
        times.

        The supervisor gets `inputs` and, in addition, `choices` (`[{label, worker, purpose}]`), `so_far` (the last 100 of its earlier
        choices, each with its reason and the result of its run) and `turns_left`. It gives `{choice, inputs, reason}`, where `choice` is
        one of the labels of `choices`; without `inputs`, the chosen worker gets the inputs of the node. To end the node it gives `{choice:
        "finish", outputs, reason}`. If the run of a chosen worker fails, the supervisor gets the error in `so_far`. The node fails if the
        run of the supervisor fails, if its answer has a wrong form, an unknown label or inputs that do not fit, if it does not choose
        `finish` in the last turn, and if the run of a chosen worker is refused, is cancelled or exceeds a budget. `undo` is a dict: for
        each label, the worker that takes back what the chosen worker did.
        """
        node = SuperviseNode(
            worker=worker,
            inputs=template_of(inputs, "inputs"),
            choices=arguments.workers_of(choices, "choices="),
            turns=arguments.integer_of(turns, "turns="),
            undo={} if undo is None else arguments.workers_of(undo, "undo="),
            **arguments.common_of(name, common),
        )
        self._add(node)
        return SuperviseHandle(name, "supervise")

    def until(self, name: str, worker: str, inputs: Any, *, rules: Any, at_most: int, every: str, **common: Unpack[Common]) -> UntilHandle:
        """Run a worker again and again until the rules hold for its outputs: at most `at_most` times, with a wait of `every` between two
        runs.

        `rules` are dicts: `{"path": ".state", "op": "equals", "value": "done"}`. `every` is a duration (`"30s"`); the wait holds no
        process. If the rules do not hold after the last run, the node fails with `until_not_reached`. If a run fails, the node fails.
        """
        node = UntilNode(
            worker=worker,
            inputs=template_of(inputs, "inputs"),
            rules=arguments.rules_of(rules, "rules="),
            at_most=arguments.integer_of(at_most, "at_most="),
            every_seconds=seconds_of(every, "every="),
            **arguments.common_of(name, common),
        )
        self._add(node)
        return UntilHandle(name, "until")

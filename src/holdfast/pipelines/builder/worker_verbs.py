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
    """A part of `Pipeline`."""

    def _add(self, node: AnyNode) -> None:
        raise NotImplementedError

    def worker(
        self, name: str, worker: str, inputs: Any, *, fallback: Sequence[str] = (), undo: Any = None, **common: Unpack[Common]
    ) -> WorkerHandle:
        """Run a worker by its id or `id@version`.

        `fallback` workers are tried in turn if it fails; each may use only tools that the worker may use. `undo` is a worker that takes
        back what this one did if the run fails later: it gets `{"inputs": …, "outputs": …}`, or inputs of your own, in which `p.this` is
        the result of this node: `(worker, inputs)`.
        """
        safety = arguments.safety_of(fallback, undo, name)
        self._add(
            WorkerNode(
                name=arguments.text_of(name), worker=worker, inputs=template_of(inputs, "inputs"), **safety, **arguments.common_of(common)
            )
        )
        return WorkerHandle(name, "worker")

    def pipeline(
        self, name: str, pipeline: str, inputs: Any, *, fallback: Sequence[str] = (), undo: Any = None, **common: Unpack[Common]
    ) -> WorkerHandle:
        """Run another pipeline, by its id or `id@version`. Everything is as for `worker`; drawings show that the node is a pipeline.

        Limits, a cancel and undo reach the other pipeline: if this run fails or is cancelled while the other one runs, the other one undoes
        its own nodes. If the other one had ended well, `undo` takes its result back.
        """
        safety = arguments.safety_of(fallback, undo, name)
        self._add(
            PipelineNode(
                name=arguments.text_of(name), worker=pipeline, inputs=template_of(inputs, "inputs"), **safety, **arguments.common_of(common)
            )
        )
        return WorkerHandle(name, "pipeline")

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
        """Let a worker, the supervisor, choose which worker runs next, at most `turns` times, until it finishes.

        The supervisor gets `inputs`, and beside them `choices` (`[{label, worker, purpose}]`), `so_far` (what was chosen, why, and what
        came of it) and `turns_left`. It gives `{choice, inputs, reason}` with one of the labels of `choices`; without `inputs`, the
        chosen worker gets the inputs of the node. To end the node it gives `{choice: "finish", outputs, reason}`. If a chosen worker fails,
        the supervisor learns it in `so_far`. The node fails if the supervisor's answer has a wrong form, an unknown label or inputs that do
        not fit, and if the last turn does not choose `finish`. `undo` is a dict: for each label the worker that takes back what the chosen
        worker did.
        """
        node = SuperviseNode(
            name=arguments.text_of(name),
            worker=worker,
            inputs=template_of(inputs, "inputs"),
            choices=arguments.workers_of(choices, "choices="),
            turns=arguments.integer_of(turns, "turns="),
            undo={} if undo is None else arguments.workers_of(undo, "undo="),
            **arguments.common_of(common),
        )
        self._add(node)
        return SuperviseHandle(name, "supervise")

    def until(self, name: str, worker: str, inputs: Any, *, rules: Any, at_most: int, every: str, **common: Unpack[Common]) -> UntilHandle:
        """Run a worker again until the rules hold for its outputs: at most `at_most` times, with a wait of `every` between two runs.

        The wait holds no process. If the rules hold for no run, the node fails with `until_not_reached`. If a run fails, the node fails.
        """
        node = UntilNode(
            name=arguments.text_of(name),
            worker=worker,
            inputs=template_of(inputs, "inputs"),
            rules=arguments.rules_of(rules, "rules="),
            at_most=arguments.integer_of(at_most, "at_most="),
            every_seconds=seconds_of(every, "every="),
            **arguments.common_of(common),
        )
        self._add(node)
        return UntilHandle(name, "until")

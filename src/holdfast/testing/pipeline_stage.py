"""The stage of pipeline_kit: an engine in memory with a pipeline, its workers, a clock, and the people who answer."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, Final, cast

import msgspec

from holdfast.contract.page_reader import contract_of
from holdfast.contract.protocol import Response
from holdfast.engine.engine import Engine
from holdfast.engine.outbox import NO_SUBSCRIBERS
from holdfast.model.clock import VirtualClock, monotonic
from holdfast.model.errors import InvalidParameter
from holdfast.model.execution import Outcome, OutcomeStatus, State
from holdfast.model.ids import Ids
from holdfast.pipelines.builder.contract import contract_of_arguments
from holdfast.pipelines.builder.entry import written
from holdfast.pipelines.builder.pipeline import Pipeline
from holdfast.pipelines.graph.contract import json_of
from holdfast.pipelines.graph.graph import Built, Graph
from holdfast.pipelines.graph.structure import structure_of
from holdfast.pipelines.record.states import NodeStatus, node_states
from holdfast.pipelines.run.served_pipeline import ServedPipeline
from holdfast.pipelines.steps.entry import called
from holdfast.pipelines.steps.steps import StepDone, StepFailure, Steps, told_by
from holdfast.restarts.runs import restart_asked, restart_run
from holdfast.service.engines import EngineOpening
from holdfast.service.runtimes.worker_runtime import WorkerSettings
from holdfast.service.settings import Settings
from holdfast.store.seam import Store
from holdfast.testing.crashing import LAST, Crash, Crashing
from holdfast.testing.node_runs import NodeRun, below, runs_of
from holdfast.testing.runner import NotYet
from holdfast.testing.worker_kit import Stub, stubbed_settings
from holdfast.testing.worker_stubs import TestWorkers
from holdfast.workers.accept import read_request
from holdfast.workers.accepted_request import AcceptedRequest
from holdfast.workers.approvals import Approval, Decision, approvals_of
from holdfast.workers.decisions import Cancel
from holdfast.workers.events import RunEvent, events_so_far
from holdfast.workers.run_lookup import Caller, find_run, response_of
from holdfast.workers.service import WorkerService
from holdfast.workers.tools.seam import Effect, Tool

SILENCE, CANCEL = "silence", "cancel"
"""What a test may say instead of a decision: no person answers, or the run is cancelled."""
_TESTER: Final = Caller(principal="test")
_MOST_QUESTIONS: Final = 200
_PAGE: Final = 200
_SPINS: Final = 500


class PipelineRan(msgspec.Struct, frozen=True):
    """A run of a pipeline: its response, and what happened during the run. Members of the response can be read directly: `ran.status`,
    `ran.outputs`, `ran.error`. If the test restarted the run (`again`), all members describe the last restart, but the calls are those of
    all runs together."""

    response: Response
    nodes: dict[str, NodeStatus]
    """Each node with its state: `ran.nodes["publish"].state`."""
    runs: dict[str, tuple[NodeRun, ...]]
    """The runs that each node asked for: items, rounds, fallbacks and undos. They are in the order in which they began; those of a map with
    shards are in the order of the shards."""
    events: tuple[RunEvent, ...]
    """The events of the run, as `holdfast runs follow` shows them."""
    questions: tuple[Approval, ...]
    """What people were asked, in the order of the questions, with what they decided."""
    stub_calls: tuple[tuple[str, dict[str, Any]], ...] = ()
    """Each call of a stubbed worker: the worker's id, and the inputs."""
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()
    """Each call of a stubbed tool: the tool's name, and the arguments."""
    writes: tuple[tuple[str, dict[str, Any]], ...] = ()
    """The calls of stubbed tools whose effect is `write`."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.response, name)


class EndingCrash(Crash):
    """A crash at a write or, with LAST, at the `point`-th end of a handler."""

    def __init__(self, point: int, when: str) -> None:
        super().__init__(point, when)
        self.ended = 0

    def comes_last(self, outcome: Outcome) -> bool:
        """Count the end of a handler; an invocation with the outcome PENDING is not counted. Returns whether the outcome must be lost."""
        if outcome.status is OutcomeStatus.PENDING:
            return False
        self.ended += 1
        return self.when == LAST and self.ended == self.point


async def play(
    pipeline: str | os.PathLike[str] | Pipeline,
    asked: Mapping[str, Any],
    workers: Mapping[str, Any],
    tools: Mapping[str, Any],
    decisions: Mapping[str, Any],
    name: str | None,
    worker_settings: WorkerSettings | None,
    timeout: float,
    crash: Crash | None,
    again: Sequence[Mapping[str, Any]] = (),
) -> PipelineRan:
    """Run a pipeline to its end, or to a question that the test does not answer, and return what happened. `asked` are the members of the
    request, without the pipeline's id. The other arguments are those of `pipeline_kit.run`; `crash` says where the runner crashes, None:
    nowhere."""
    served = PipelineWorkers(pipeline, workers, tools, worker_settings)
    clock = PeopleClock()
    settings = Settings(clock=clock, ids=Ids(Random(0)), resting=0, tune=False)
    opening = EngineOpening(":memory:", [], NO_SUBSCRIBERS, settings, served)
    if crash is not None:
        opening.wrap = lambda host: Crashing(host.unhurried(), served.crashable(), crash)
    async with opening as engine:
        people = People(served.engine, engine.worker_service, decisions, clock)
        request = read_request({"worker_id": served.pipeline_id(name), **asked})
        begun = request if isinstance(request, Response) else await engine.worker_service.begin(request, _TESTER)
        if isinstance(begun, Response):
            return PipelineRan(begun, {}, {}, (), ())
        header, accepted = begun
        await people.attend(header.id, timeout)
        for asked_again in again:
            header, accepted = await restart_run(engine.worker_service, header.id, _TESTER, restart_asked(**asked_again))
            await people.attend(header.id, timeout)
        return seen(served, served.engine.store, header.id, accepted)


class PipelineWorkers(TestWorkers):
    """A pipeline with its workers: real ones, stubs, and real ones with stubbed tools."""

    def __init__(
        self,
        pipeline: str | os.PathLike[str] | Pipeline,
        workers: Mapping[str, Any],
        tools: Mapping[str, Any],
        settings: WorkerSettings | None,
    ) -> None:
        self._own = _built(pipeline) if isinstance(pipeline, Pipeline) else None
        super().__init__(workers, [] if isinstance(pipeline, Pipeline) else [pipeline], stubbed_settings(settings, tools))
        if isinstance(pipeline, Pipeline):
            steps = _OwnSteps(pipeline, self.pipeline_runtime.steps)
            self.pipeline_runtime.steps = cast("Steps", steps)
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self._answers = tools
        self._effects: dict[str, Effect] = {}
        self.replaced = self._stubbed
        self._found_pipelines: list[ServedPipeline] = []

    async def open(self) -> WorkerService:
        """Serve the workers, the stubs and the pipelines."""
        service = await super().open()
        if self._own is not None:
            where, built = self._own
            for served in self.pipeline_runtime.checked([(where, built)], self.packages):
                service.serve(served)
        kinds = [served for versions in service.served.values() for served in versions.values()]
        self._found_pipelines = [served for served in kinds if isinstance(served, ServedPipeline)]
        return service

    def attach(self, engine: Engine) -> None:
        """Connect the workers to the engine, which runs now."""
        super().attach(engine)
        self.engine = engine

    def pipeline_id(self, name: str | None) -> str:
        """The id of the pipeline to run: `name`, or the only pipeline. Raises InvalidParameter if `name` is None and there is not exactly
        one pipeline in the file and in the files that it needs."""
        known = [one.worker.contract.worker_id for one in self._found_pipelines]
        if name is None and len(known) != 1 and self._own is None:
            told = f"The pipelines here are {', '.join(known)}: say which one with name=." if known else "The file declares no pipeline."
            raise InvalidParameter(told)
        return name or (known[0] if self._own is None else self._own[1].graph.pipeline_id)

    def graph(self, accepted: AcceptedRequest) -> Graph:
        return next(one.graph for one in self._found_pipelines if one.package == accepted.package)

    def crashable(self) -> set[str]:
        """The functions that may crash: pipelines and real workers, but no stubs."""
        return set(self.worker_service.served) - {stub.contract.worker_id for stub in self.stubs}

    def stub_calls(self) -> list[tuple[str, dict[str, Any]]]:
        """Each call of a stubbed worker: the worker's id, and the inputs."""
        return [(stub.contract.worker_id, inputs) for stub in self.stubs for inputs in stub.calls]

    def writes(self) -> list[tuple[str, dict[str, Any]]]:
        """Each call of a stubbed tool whose effect is `write`: the tool's name, and the arguments."""
        return [call for call in self.calls if self._effects[call[0]] is Effect.WRITE]

    def _stubbed(self, tool: Tool) -> Tool:
        self._effects[tool.name] = tool.effect
        return Stub(tool, self._answers[tool.name], self.calls) if tool.name in self._answers else tool


def _built(pipeline: Pipeline) -> tuple[Path, Built]:
    """The file and the graph of a pipeline that the test wrote itself. If the pipeline names a page, it is read from the folder of the file
    that adds the first node."""
    draft, (given, gates, functions) = pipeline.draft(), written(pipeline)
    where = Path(next(iter(draft.lines.values())).file) if draft.lines else Path()
    page = str(given["page_or_id"])
    if page.endswith(".md"):
        contract = contract_of((where.parent / page).read_bytes(), name=page)
    else:
        contract = contract_of_arguments({name: value for name, value in given.items() if value is not None})
    graph = Graph(contract=json_of(contract), nodes=draft.nodes, gives=draft.gives, gates=gates)
    if functions:
        graph = msgspec.structs.replace(graph, steps=_OwnSteps.PACKAGE)
    return where, Built(graph, dict(draft.lines))


class _OwnSteps:
    """The step functions of a pipeline that the test wrote itself, called in this process."""

    PACKAGE = "test"

    def __init__(self, pipeline: Pipeline, others: Steps) -> None:
        self._functions = SimpleNamespace(**written(pipeline).functions)
        self._others = others

    async def call(self, package: str, function: str, inputs: Any, **more: Any) -> StepDone | StepFailure:
        if package != self.PACKAGE:
            return await self._others.call(package, function, inputs, **more)
        return told_by(called(cast("Any", self._functions), function, inputs))

    async def close(self) -> None:
        await self._others.close()


# --- time and people


class PeopleClock(VirtualClock):
    """A clock that skips every wait, but stops while a person is asked, because the test plays the person."""

    def __init__(self) -> None:
        super().__init__()
        self.holds: Callable[[], bool] = lambda: False
        """Whether a question is open now, other than those to which, as the test says, people stay silent."""

    def skip_to(self, at: int) -> None:
        """Move the clock to `at`, the time of the engine's next timer or schedule. Do nothing while a person is asked who does not stay
        silent (`holds` returns True)."""
        if not self.holds():
            super().skip_to(at)


class People:
    """The people of a test: they answer the questions of its runs with the decisions that the test gives."""

    def __init__(self, engine: Engine, service: WorkerService, decisions: Mapping[str, Any], clock: PeopleClock) -> None:
        self._engine = engine
        self._service = service
        self._store = engine.store
        self._decisions = decisions
        self._clock = clock
        self._asked: Counter[str] = Counter()
        self._given: dict[tuple[str, int, int], Any] = {}
        """The decisions that the test gave, by the approval's id, the number of its votes, and the number of approvers that a chain added.
        """
        clock.holds = lambda: any(self._does(approval) != SILENCE for approval in self._open())

    async def attend(self, run_id: str, timeout: float) -> None:
        """Answer questions until the run is over or quarantined, or until it asks something for which the test has no decision. Raises
        NotYet after `timeout` seconds of real time, and InvalidParameter after 200 answers."""
        deadline = monotonic() + timeout
        for _ in range(_MOST_QUESTIONS):
            approval = await self._rested(run_id, deadline)
            if approval is None or self._does(approval) is None:
                return
            await self._answer(run_id, approval, self._does(approval))
        raise InvalidParameter(f"The run asked for more than {_MOST_QUESTIONS} decisions.")

    async def _rested(self, run_id: str, deadline: float) -> Approval | None:
        """Wait until the run is over or quarantined (returns None), or until it asks a question to which the test does not let people stay
        silent. Returns that question; of several, one for which the test has a decision. Raises NotYet after the deadline."""
        spins = 0
        while True:
            spins += 1
            await asyncio.sleep(0 if spins % _SPINS else 0.001)
            header = self._store.find(run_id)
            assert header is not None
            if header.state in (State.CLOSED, State.QUARANTINED):
                return None
            if self._engine.idle and header.state is State.SUSPENDED:
                asked = [approval for approval in self._open() if self._does(approval) != SILENCE]
                if asked:
                    return next((approval for approval in asked if self._does(approval) is not None), asked[0])
            if monotonic() > deadline:
                raise NotYet(f"The run {run_id} did not end within the timeout (timeout=). It is {header.state.value}.")

    def _open(self) -> list[Approval]:
        return self._service.approvals(_TESTER)

    def _does(self, approval: Approval) -> Any:
        """What the test says that a person does about this question; None if the test says nothing about it."""
        moment = (approval.approval_id, len(approval.votes), sum(part.added for part in approval.chain))
        if moment not in self._given:
            self._given[moment] = self._next(approval)
        return self._given[moment]

    def _next(self, approval: Approval) -> Any:
        _, accepted = find_run(self._store, approval.run_id, _TESTER)
        keys = [approval.node] if approval.node else [approval.tool, approval.question, accepted.labels.node]
        key = next((key for key in keys if key is not None and key in self._decisions), None)
        if key is None:
            return None
        decision = self._decisions[key]
        if isinstance(decision, list):
            self._asked[key] += 1
            decision = decision[self._asked[key] - 1] if self._asked[key] <= len(decision) else None
        return decision(approval) if callable(decision) else decision

    async def _answer(self, run_id: str, approval: Approval, does: Any) -> None:
        if does == CANCEL:
            await self._engine.wake(lambda by: Cancel(run_id, by), run_id)
            return
        given = {"decided_by": _decider(approval), "decided_at": self._clock.now(), **_decided(approval, does)}
        await self._service.decide(approval.approval_id, Decision(**given), _TESTER)


def _decider(approval: Approval) -> str:
    """The person who decides if the test names none: the first named approver, or member of a named group, who has not voted yet. If there
    is none: `tester` for the first vote, `tester-2` for the second, and so on."""
    able = [person for name in approval.approvers for person in approval.groups.get(name, (name,))]
    able += approval.groups.get(approval.group or "", ())
    voted = {vote.person for vote in approval.votes}
    return next((person for person in able if person not in voted), f"tester-{len(voted) + 1}" if voted else "tester")


def _decided(approval: Approval, does: Any) -> dict[str, Any]:
    """The members of the Decision for what the test says that a person does (`does`): a verdict, an action, or a mapping. Raises
    InvalidParameter if it is none of these."""
    if isinstance(does, str):
        is_action = approval.kind == "question" and does != "reject"
        return {"verdict": "answer", "result": {"action": does}} if is_action else {"verdict": does}
    if not isinstance(does, Mapping):
        raise InvalidParameter(f"The decision {does!r:.100} is neither a text, such as 'approve', nor a mapping.")
    return dict(does) if "verdict" in does else {"verdict": "answer", "result": dict(does)}


# --- what happened


def seen(served: PipelineWorkers, store: Store, run_id: str, accepted: AcceptedRequest) -> PipelineRan:
    """Everything that happened in a run."""
    header = store.find(run_id)
    assert header is not None
    graph = served.graph(accepted)
    every = [header, *below(store, header)]
    questions = [approval for each in every for approval, _, _ in approvals_of(each, store.operations(each.id))]
    nodes = node_states(graph, structure_of(graph), header, store.operations(run_id))
    runs = list(runs_of(store, header))
    return PipelineRan(
        response=response_of(store, header, accepted),
        nodes={node_status.node: node_status for node_status in nodes},
        runs={node_status.node: tuple(one for one in runs if one.node == node_status.node) for node_status in nodes},
        events=tuple(events_so_far(store, run_id, accepted)),
        questions=tuple(sorted(questions, key=lambda one: one.requested_at)),
        stub_calls=tuple(served.stub_calls()),
        calls=tuple(served.calls),
        writes=tuple(served.writes()),
    )

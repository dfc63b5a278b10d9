"""The table of pipelines: every kind of node with every outcome. Each case is run straight, with a replay at each rest, and with a crash
before and after each write of the runner.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from holdfast.contract.protocol import Response, WorkerRequest
from holdfast.contract.terms import Retries, RunLimits, ToolGrant
from holdfast.model.execution import ExecutionStatus, State
from holdfast.pipelines.graph.graph import Graph
from holdfast.pipelines.steps.steps import StepDone, StepFailure
from holdfast.testing.crashing import Crash
from holdfast.workers.body.errors import WorkerError
from holdfast.workers.policy import Policy
from holdfast.workers.tools.seam import Effect, Reservation, Usage
from tests.pipelines.stage import LOCAL, PatientClock, Stage, stage, worker
from tests.workers.harness import Counted, InlineWorker

Act = Callable[[Stage, str], Any]
"""What a person or the clock does when the run rests: gets the stage and the run's id."""


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the table."""

    id: str
    graph: Graph
    inputs: dict[str, Any] = {}
    acts: tuple[Act, ...] = ()
    status: str = "ok"
    code: str | None = None
    outputs: dict[str, Any] | None = None
    partial: bool = False
    states: dict[str, str] = {}
    """The last state of each node that is named."""
    calls: dict[str, int] = {}
    """How often each worker that is named ran."""
    policy: Policy = Policy()
    inner: tuple[Graph, ...] = ()
    """Pipelines that nodes of the graph run."""


class Seen(msgspec.Struct, frozen=True):
    """What must be the same in every way of running a case."""

    status: str
    code: str | None
    outputs: Any
    partial: bool
    states: dict[str, str]
    calls: dict[str, int]
    questions: int


class FakeSteps:
    """Step functions of this process."""

    def __init__(self) -> None:
        self._failed = False

    async def call(self, package: str, function: str, inputs: Any, *, seconds: float = 1, tenant: str = "") -> StepDone | StepFailure:
        if function == "broken":
            return StepFailure("worker_crashed", "the step raised")
        if function.endswith("-once") and not self._failed:
            self._failed = True
            return StepFailure("worker_crashed", "the step raised")
        return StepDone({"n": inputs["n"] + 1})


def workers(calls: dict[str, int]) -> list[InlineWorker]:
    """The workers of all cases. Each counts its runs."""

    def counted(name: str, body: Callable[[Any], Any], **more: Any) -> InlineWorker:
        async def run(inputs: dict[str, Any], ctx: Any) -> Any:
            calls[name] = calls.get(name, 0) + 1
            return body(inputs)

        return worker(name, run, **more)

    number = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}

    def judged(inputs: Any) -> Any:
        return {"verdict": inputs["verdict"], "reasons": [{"code": "bad", "path": ".n", "message": "no"}]}

    def once(name: str, body: Callable[[Any], Any]) -> list[InlineWorker]:
        """A worker, and its twin, which fails the first time."""
        twin = f"{name}-once"
        return [counted(name, body), counted(twin, lambda inputs: body(inputs) if calls[twin] > 1 else _raise("broken_part"))]

    async def buy(inputs: dict[str, Any], ctx: Any) -> Any:
        calls["buys"] = calls.get("buys", 0) + 1
        await ctx.tools.model()
        return inputs

    model = Counted("model", Effect.READ, reservation=Reservation(tokens=10), usage=Usage(input_tokens=9, output_tokens=1))
    return [
        worker("buys", buy, model, limits=RunLimits(tools=(ToolGrant("model"),))),
        counted("double", lambda inputs: {"n": inputs["n"] * 2}, takes=number, gives=number),
        *once("echo", lambda inputs: inputs),
        counted("fails", lambda inputs: _raise("broken_part")),
        counted("asks", lambda inputs: _raise("ask_somebody", needs_human=True)),
        counted("denied", lambda inputs: _raise("access_denied")),
        counted("spent", lambda inputs: _raise("budget_exceeded")),
        counted("odd-fails", lambda inputs: {"n": inputs["n"]} if inputs["n"] % 2 == 0 else _raise("odd")),
        counted("flaky", lambda inputs: {"n": 1} if calls["flaky"] > 1 else _raise("broken_part"), gives=number),
        counted(
            "slow", lambda inputs: _raise("timeout"), retries=Retries(max_attempts=2, initial_delay_seconds=9e4, max_delay_seconds=9e4)
        ),
        counted("undo", lambda inputs: {}),
        counted("row-undo", lambda inputs: {} if inputs["index"] == inputs["row"]["index"] else _raise("cannot_undo")),
        counted("bad-undo", lambda inputs: _raise("cannot_undo") if calls["bad-undo"] == 1 else {}),
        counted("judge", judged),
        counted("asks-once", lambda inputs: {"verdict": "allow", "reasons": []} if inputs["n"] > 1 else judged({"verdict": "revise"})),
        counted("revised", lambda inputs: {"n": inputs.get("revision", {}).get("round", 1)}, takes=_takes_revision()),
        counted("liar", lambda inputs: inputs["says"]),
        *once("labels", lambda inputs: {"label": inputs["label"]}),
        *once("chooses", lambda inputs: inputs["script"][min(len(inputs["so_far"]), len(inputs["script"]) - 1)]),
        counted("polls", lambda inputs: {"n": calls["polls"]}, gives=number),
        *once("merges", lambda inputs: {"merged": {"parts": len(inputs["parts"])}, "conflicts": [], "completeness": 1.0}),
        counted("resolves", lambda inputs: {"merged": {"decided": len(inputs["conflicts"])}}),
    ]


def _takes_revision() -> dict[str, Any]:
    return {"type": "object", "properties": {"revision": {"type": "object"}}}


def _raise(code: str, *, needs_human: bool = False) -> Any:
    raise WorkerError(code, f"it is {code}", needs_human=needs_human)


async def run_case(case: Case, folder: Path, *, resting: int = 1000, crash: Crash | None = None) -> Seen:
    """Run a case to its end, and say what was seen."""
    calls: dict[str, int] = {}
    clock = PatientClock()
    async with stage(
        (case.graph, *case.inner),
        *workers(calls),
        folder=folder,
        policy=case.policy,
        resting=resting,
        clock=clock,
        crash=crash,
        steps=FakeSteps(),
    ) as made:
        begun = await made.service.begin(WorkerRequest(worker_id="p", inputs=case.inputs), LOCAL)
        assert not isinstance(begun, Response), begun
        run_id = begun[0].id
        for act in case.acts:
            await rested(made, run_id)
            await act(made, run_id)
        await rested(made, run_id)
        response = await made.service.response(run_id, LOCAL, wait=0)
        states, questions = {}, 0
        async for event in made.service.follow(run_id, LOCAL):
            if event is None:
                break
            if event.event == "node":
                states[event.data["node"]] = event.data["state"]
            questions += event.event == "approval" and event.data["state"] == "open"
        return Seen(
            response.status.value,
            None if response.error is None else response.error.error_code,
            response.outputs,
            response.observability.partial,
            states,
            calls,
            questions,
        )


async def rested(made: Stage, run_id: str) -> None:
    """Wait until the run is over, or can go on only when something from outside happens."""
    engine = made.engine._engine
    while True:
        await asyncio.sleep(0)
        header = engine.store.find(run_id)
        if header.status is not ExecutionStatus.RUNNING and header.state is State.CLOSED:
            return
        if engine.idle and header.state is State.SUSPENDED:
            due = engine.store.next_due(engine.registry.targets())
            if due is None or due - made.clock.now() > 3_600_000:
                return


# --- what people and the clock do


def answer(verdict: str, **more: Any) -> Act:
    """A person decides."""
    return lambda made, _: made.answer(verdict, **more)


def act(action: str, **more: Any) -> Act:
    """A person answers an escalation."""
    return lambda made, _: made.act(action, **more)


def cancel() -> Act:
    """A caller cancels the run."""
    return lambda made, run_id: made.cancel(run_id)


def passes(seconds: int) -> Act:
    """Time passes, and no person does anything."""

    async def moved(made: Stage, _: str) -> None:
        made.clock.move_to(made.clock.now() + seconds * 1000)
        made.engine._engine.look_for_work()

    return moved


def expected(case: Case, seen: Seen) -> None:
    """Compare what was seen with the row."""
    told = (seen.status, seen.code, seen.outputs, seen.partial)
    assert (case.status, case.code, case.outputs, case.partial) == told, seen
    assert case.states == {name: seen.states.get(name) for name in case.states}, seen
    assert case.calls == {name: seen.calls.get(name, 0) for name in case.calls}, seen


def ids(cases: Sequence[Case]) -> list[str]:
    """The names of the rows."""
    return [case.id for case in cases]

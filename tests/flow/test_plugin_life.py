"""Plugins have no part in what they see: whatever they do, the execution goes its way; and they see it from where it happens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from importlib import import_module
from typing import Any

import pytest
from aws_durable_execution_sdk_python.plugin import DurableInstrumentationPlugin as OfficialPlugin

from holdfast import AsyncDurableContext, DurableContext, Duration, StepContext, durable_execution
from holdfast.durable.config import CompletionConfig, ParallelConfig
from holdfast.durable.exceptions import ExecutionError
from holdfast.durable.plugin import (
    DurableInstrumentationPlugin,
    InvocationEndInfo,
    InvocationStartInfo,
    InvocationStatus,
    OperationChangeInfo,
    OperationEndInfo,
    UserFunctionEndInfo,
    UserFunctionOutcome,
    UserFunctionStartInfo,
)
from holdfast.model.execution import ExecutionStatus, Outcome
from holdfast.model.ids import Position
from holdfast.model.operations import Action, Update
from holdfast.model.ports import Invocation, OnAnswer, Port
from holdfast.model.verbs import Checkpointed
from tests.flow.cases import CASES, OFFICIAL, OURS, Case, Sdk, _as_def, now
from tests.flow.harness import Harness, eventually, pending
from tests.flow.official.running import ClosableHost, MakeHost, official, ours
from tests.flow.recording import HOOKS, with_plugins
from tests.flow.test_official_sdk import assert_same_history, run
from tests.parts import one_of_each


class Making:
    """A factory of whatever a call returns."""

    def __init__(self, make: Callable[[InvocationStartInfo], Any]) -> None:
        self._make = make

    def create_plugin(self, info: InvocationStartInfo) -> Any:
        return self._make(info)


def raising(error: BaseException, base: type = DurableInstrumentationPlugin) -> type:
    """A plugin that raises wherever it is called."""

    def hook(self: Any, info: Any) -> None:
        raise error

    return type("Raising", (base,), dict.fromkeys((*HOOKS, "provide_propagation_metadata"), hook))


MANNERLESS: dict[str, Callable[[InvocationStartInfo], Any]] = {
    "it raises in every hook": lambda info: raising(ValueError("a plugin's own"))(),
    "it is cancelled in every hook": lambda info: raising(asyncio.CancelledError())(),
    "it raises a group": lambda info: raising(BaseExceptionGroup("several", [ValueError(), asyncio.CancelledError()]))(),
    "it is not even made": lambda info: 1 // 0,
    "it is no plugin": lambda info: object(),
    "it is nothing": lambda info: None,
}
SOME_CASES = [
    "steps_return_what_they_returned",
    "a_child_context_that_fails_can_be_caught",
    "wait_for_callback_submits_and_waits",
    "a_condition_is_polled_until_it_is_met",
    "flat_items_leave_no_operations",
    "a_block_is_run_again_until_it_succeeds",
    "an_invoked_functions_failure_is_an_invoke_error",
]


@pytest.mark.parametrize(
    "case", one_of_each([CASES[name] for name in SOME_CASES], kind=lambda case: case.rests > 0, name=lambda case: case.name)
)
@pytest.mark.parametrize("manners", MANNERLESS)
async def test_nothing_that_a_plugin_does_changes_the_execution(case: Case, manners: str, caplog: pytest.LogCaptureFixture) -> None:
    alone = await run(case, Sdk(OURS), ours(case.make(Sdk(OURS))))
    for make, resting in ((case.make, 0), (case.twin, 100), (case.twin, 0)):
        caplog.clear()
        if make is not None:
            sdk = with_plugins(Sdk(OURS), Making(MANNERLESS[manners]))
            assert_same_history(case, await run(case, sdk, ours(make(sdk), resting=resting)), alone)
            assert any(record.name == "holdfast.plugins" and record.levelname == "ERROR" for record in caplog.records)


@pytest.mark.parametrize("plugins", [None, [Making(lambda info: DurableInstrumentationPlugin())]], ids=["alone", "watched"])
async def test_changed_code_is_found_out_where_it_would_be_without_plugins(harness: Harness, plugins: Any) -> None:
    runs: list[str] = []

    @durable_execution(plugins=plugins, on_mismatch="fail")
    def handler(event: Any, context: DurableContext) -> str:
        runs.append("a run")
        try:
            context.step(lambda _: 1, name=f"step of run {len(runs)}")
        except ExecutionError as error:
            said = str(error)
            context.wait(Duration.from_seconds(1), name="pause")
            return said
        context.wait(Duration.from_seconds(1), name="pause")
        return "?"

    assert "The code no longer matches this execution's history" in await harness.run(handler)


# --- a plugin that says stop -------------------------------------------------------------------------------------------------


def once(stop: type[BaseException], hook: str, base: type) -> Callable[[Any], Any]:
    """Plugins of which the first one that gets so far says stop, and no other."""
    said: list[str] = []

    def call(self: Any, info: Any) -> None:
        if not said and getattr(info, "name", "wanted") == "wanted":
            said.append(hook)
            raise stop

    return lambda info: type("Stopping", (base,), {hook: call})()


def stopped_case(sdk: Sdk, coloured: Callable[[Any], Any]) -> Any:
    @coloured
    async def branch(context: Any) -> Any:
        await now(context.step(lambda _: 1, name="wanted"))
        return await now(context.wait(sdk.seconds(1), name="wanted"))

    @sdk.durable_execution
    @coloured
    async def handler(event: Any, context: Any) -> Any:
        await now(context.parallel([branch], name="wanted"))
        return "done"

    return handler


@pytest.mark.parametrize("stop", [SystemExit, KeyboardInterrupt])
@pytest.mark.parametrize("hook", HOOKS)
async def test_a_plugin_that_says_stop_ends_the_invocation_which_is_tried_again(hook: str, stop: type[BaseException]) -> None:
    def sdk(root: str, base: type) -> Sdk:
        return with_plugins(Sdk(root), Making(once(stop, hook, base)))

    case = Case(name="stopped", make=lambda made: None)
    for host in (
        official(stopped_case(sdk(OFFICIAL, OfficialPlugin), _as_def)),
        ours(stopped_case(sdk(OURS, DurableInstrumentationPlugin), _as_def)),
        ours(stopped_case(sdk(OURS, DurableInstrumentationPlugin), lambda func: func), resting=0),
        ours(stopped_case(sdk(OURS, DurableInstrumentationPlugin), lambda func: func), resting=100),
    ):
        ending = await run(case, Sdk(OURS), host)
        assert ending.status is ExecutionStatus.SUCCEEDED
        invocations = [e["InvocationCompletedDetails"] for e in ending.history if e["EventType"] == "InvocationCompleted"]
        errors = [details["Error"]["Payload"]["ErrorType"] for details in invocations if "Error" in details]
        assert errors == ([] if hook == "on_operation_change" else [stop.__name__])


# --- where hooks are called --------------------------------------------------------------------------------------------------

here: ContextVar[str] = ContextVar("here", default="nowhere")


class Placing(DurableInstrumentationPlugin):
    """Says to the code inside an operation or an invocation where it is, as a tracer does."""

    made = 0

    def __init__(self) -> None:
        type(self).made += 1
        self._number = type(self).made
        self._tokens: dict[str, Any] = {}

    def on_invocation_start(self, info: InvocationStartInfo) -> None:
        self._tokens["invocation"] = here.set(f"invocation {self._number}")

    def on_invocation_end(self, info: InvocationEndInfo) -> None:
        here.reset(self._tokens.pop("invocation"))
        assert not self._tokens

    def on_user_function_start(self, info: UserFunctionStartInfo) -> None:
        self._tokens[info.operation_id] = here.set(f"{info.name} in {self._number}")

    def on_user_function_end(self, info: UserFunctionEndInfo) -> None:
        here.reset(self._tokens.pop(info.operation_id))  # raises in any other context than the one it was set in


@pytest.fixture
def placing(caplog: pytest.LogCaptureFixture) -> Making:
    Placing.made = 0
    return Making(lambda info: Placing())


def no_complaints(caplog: pytest.LogCaptureFixture) -> bool:
    return not [record for record in caplog.records if record.name == "holdfast.plugins"]


async def test_context_variables_of_hooks_are_seen_by_an_async_handler(
    harness: Harness, placing: Making, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[str] = []

    @durable_execution(plugins=[placing])
    async def handler(event: Any, context: AsyncDurableContext) -> list[str]:
        async def awaited(step: StepContext) -> str:
            return here.get()

        def blocking(step: StepContext) -> str:
            return here.get()

        async def child(inner: AsyncDurableContext) -> list[str]:
            before = here.get()
            await inner.wait(Duration.from_seconds(1))
            seen.append(here.get())
            return [before, await inner.step(awaited, name="inner"), here.get()]

        said = [here.get(), await context.step(awaited, name="awaited"), await context.step(blocking, name="blocking")]
        await context.parallel([child, child], name="both")
        seen.append(here.get())
        return [*said, here.get()]

    first, awaited, blocking, last = await harness.run(handler)
    assert (awaited, blocking) == ("awaited in 1", "blocking in 1")
    assert first == ("invocation 1" if harness.resting else "invocation 2")
    assert last == "invocation 2"
    assert seen == ["parallel-branch-0 in 2", "parallel-branch-1 in 2", "invocation 2"]
    assert here.get() == "nowhere"
    assert no_complaints(caplog)


@pytest.mark.parametrize("threads", [1, 4])
async def test_context_variables_of_hooks_are_seen_by_a_def_handler(
    harness: Harness, placing: Making, threads: int, caplog: pytest.LogCaptureFixture
) -> None:
    @durable_execution(plugins=[placing])
    def handler(event: Any, context: DurableContext) -> list[Any]:
        def child(inner: DurableContext) -> list[str]:
            inner.wait(Duration.from_seconds(1))
            return [here.get(), inner.step(lambda _: here.get(), name="inner"), here.get()]

        step = context.step(lambda _: here.get(), name="step")
        return [here.get(), step, context.parallel([child, child]).get_results(), here.get()]

    async with harness.engine(handler, threads=threads) as engine:
        first, step, branches, last = await (await engine.start(handler)).result()
    assert (first, step, last) == ("invocation 2", "step in 1", "invocation 2")
    assert branches == [[f"parallel-branch-{n} in 2", "inner in 2", f"parallel-branch-{n} in 2"] for n in (0, 1)]
    assert no_complaints(caplog)


@pytest.mark.parametrize("colour", ["def", "async"])
async def test_what_a_hook_sets_in_a_branch_and_forgets_stays_there(harness: Harness, colour: str) -> None:
    class Forgetting(DurableInstrumentationPlugin):
        def on_user_function_start(self, info: UserFunctionStartInfo) -> None:
            here.set(f"{here.get()} > {info.name}")

    @durable_execution(plugins=[Making(lambda info: Forgetting())], name="handler")
    def blocking(event: Any, context: DurableContext) -> list[str]:
        return [*context.parallel([lambda inner: here.get()] * 2, name="both").get_results(), here.get()]

    @durable_execution(plugins=[Making(lambda info: Forgetting())], name="handler")
    async def awaiting(event: Any, context: AsyncDurableContext) -> list[str]:
        async def branch(inner: AsyncDurableContext) -> str:
            return here.get()

        return [*(await context.parallel([branch] * 2, name="both")).get_results(), here.get()]

    function = blocking if colour == "def" else awaiting
    both = "nowhere > both"
    async with harness.engine(function, threads=1) as engine:
        said = await (await engine.start(function)).result()
    assert said == [f"{both} > parallel-branch-0", f"{both} > parallel-branch-1", both]
    assert here.get() == "nowhere"


async def test_each_invocation_of_a_resting_coroutine_has_plugins_of_its_own(harness: Harness) -> None:
    told: list[tuple[int, str]] = []
    runs: list[str] = []

    class Numbered(DurableInstrumentationPlugin):
        def __init__(self, number: int) -> None:
            self._number = number

        def on_invocation_start(self, info: InvocationStartInfo) -> None:
            told.append((self._number, f"first: {info.is_first_invocation}"))

        def on_operation_end(self, info: OperationEndInfo) -> None:
            told.append((self._number, f"{info.name} {info.status.value}"))

        def on_invocation_end(self, info: InvocationEndInfo) -> None:
            told.append((self._number, info.status.value))

    made: list[Numbered] = []

    def make(info: InvocationStartInfo) -> Numbered:
        made.append(Numbered(len(made) + 1))
        return made[-1]

    @durable_execution(plugins=[Making(make)])
    async def handler(event: Any, context: AsyncDurableContext) -> None:
        runs.append("handler")
        await context.wait(Duration.from_hours(1), name="first")
        await context.wait(Duration.from_hours(1), name="second")

    await harness.run(handler)
    assert runs == ["handler"] * (1 if harness.resting else 3)
    assert told == [
        (1, "first: True"),
        (1, "PENDING"),
        (2, "first: False"),
        (2, "first SUCCEEDED"),
        (2, "PENDING"),
        (3, "first: False"),
        (3, "second SUCCEEDED"),
        (3, "SUCCEEDED"),
    ]


# --- ends that come from elsewhere -------------------------------------------------------------------------------------------


class Ends(DurableInstrumentationPlugin):
    """Keeps the ends of functions and of the invocation."""

    def __init__(self, told: list[Any]) -> None:
        self._told = told

    def on_user_function_end(self, info: UserFunctionEndInfo) -> None:
        self._told.append((info.name, info.outcome))

    def on_invocation_end(self, info: InvocationEndInfo) -> None:
        self._told.append((info.status, info.error and info.error.type))


async def test_a_branch_that_nobody_waits_for_is_told_as_incomplete_before_the_invocation_ends(harness: Harness) -> None:
    told: list[Any] = []

    @durable_execution(plugins=[Making(lambda info: Ends(told))])
    async def handler(event: Any, context: AsyncDurableContext) -> None:
        async def slow(inner: AsyncDurableContext) -> None:
            async def body(step: StepContext) -> None:
                await asyncio.Event().wait()

            await inner.step(body, name="body")

        async def quick(inner: AsyncDurableContext) -> None:
            pass

        await context.parallel([slow, quick], name="race", config=ParallelConfig(completion_config=CompletionConfig(min_successful=1)))

    await harness.run(handler)
    incomplete = UserFunctionOutcome.INCOMPLETE
    assert {("body", incomplete), ("parallel-branch-0", incomplete)} < set(told)
    assert len(told) == 5
    assert told[-1] == (InvocationStatus.SUCCEEDED, None)


@pytest.mark.parametrize("rests", [True, False])
async def test_an_invocation_that_is_ended_from_outside_is_told_as_over(harness: Harness, rests: bool) -> None:
    told: list[Any] = []
    inside = asyncio.Event()

    @durable_execution(plugins=[Making(lambda info: Ends(told))])
    async def handler(event: Any, context: AsyncDurableContext) -> None:
        async def body(step: StepContext) -> None:
            inside.set()
            await asyncio.Event().wait()

        if rests:
            await context.wait(Duration.from_days(1), name="rest")
        await context.step(body, name="body")

    async with harness.engine(handler) as engine:
        harness.clock.skipping = False
        execution = await engine.start(handler)
        if rests:
            await pending(execution)
        else:
            await inside.wait()
        await execution.stop()
        await eventually(lambda: told)
    if rests:
        assert told == [(InvocationStatus.PENDING, None)]
    else:
        assert told == [("body", UserFunctionOutcome.INCOMPLETE), (InvocationStatus.RETRY, "asyncio.exceptions.CancelledError")]


# --- what checkpoints changed ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("colour", ["def", "async"])
async def test_changes_are_told_to_those_who_look_and_never_an_older_state_after_a_newer(harness: Harness, colour: str) -> None:
    seen: list[OperationChangeInfo] = []
    order = ["STARTED", "PENDING", "READY", "SUCCEEDED"]

    class Looking(DurableInstrumentationPlugin):
        def on_operation_change(self, info: OperationChangeInfo) -> None:
            seen.append(info)

    def branch(n: int) -> Any:
        async def awaited(inner: AsyncDurableContext) -> int:
            return await inner.step(lambda _: n, name=f"step {n}")

        def blocking(inner: DurableContext) -> int:
            return inner.step(lambda _: n, name=f"step {n}")

        return awaited if colour == "async" else blocking

    @durable_execution(plugins=[Making(lambda info: Looking())], name="handler")
    async def coroutine(event: Any, context: AsyncDurableContext) -> list[int]:
        return (await context.parallel([branch(n) for n in range(8)])).get_results()

    @durable_execution(plugins=[Making(lambda info: Looking())], name="handler")
    def thread(event: Any, context: DurableContext) -> list[int]:
        return context.parallel([branch(n) for n in range(8)]).get_results()

    assert await harness.run(coroutine if colour == "async" else thread) == list(range(8))
    told: dict[str, str] = {}
    for info in seen:
        assert info.updated_operations.keys() <= info.operations.keys()
        for operation_id, operation in info.updated_operations.items():
            assert order.index(operation.status.value) > order.index(told.get(operation_id, "STARTED")) or operation_id not in told
            told[operation_id] = operation.status.value
    assert list(told.values()) == ["SUCCEEDED"] * 17


async def test_a_late_answer_to_what_a_replay_would_not_know_is_told_too(harness: Harness) -> None:
    told: list[dict[str, str]] = []
    ids: list[str] = []
    inside, answered = asyncio.Event(), asyncio.Event()

    class Looking(DurableInstrumentationPlugin):
        def on_operation_change(self, info: OperationChangeInfo) -> None:
            told.append({operation.name or "": operation.status.value for operation in info.updated_operations.values()})

    @durable_execution(plugins=[Making(lambda info: Looking())])
    async def handler(event: Any, context: AsyncDurableContext) -> None:
        async def child(inner: AsyncDurableContext) -> None:
            ids.append((await inner.create_callback("late")).callback_id)

        async def body(step: StepContext) -> None:
            inside.set()
            await answered.wait()

        await context.run_in_child_context(child, name="child")
        await context.wait(Duration.from_seconds(1), name="pause")
        await context.step(body, name="body")

    async with harness.engine(handler) as engine:
        execution = await engine.start(handler)
        await inside.wait()
        await engine.succeed_callback(ids[0], "at last")
        answered.set()
        await execution.result()
    assert {"late": "SUCCEEDED", "body": "SUCCEEDED"}.items() <= {name: status for info in told for name, status in info.items()}.items()


# --- chained invokes ---------------------------------------------------------------------------------------------------------


class Listening:
    """A port that keeps the updates that go through it."""

    def __init__(self, port: Port, updates: list[Update]) -> None:
        self._port = port
        self._updates = updates

    def checkpoint(self, token: Position, updates: Sequence[Update], client_token: str | None = None) -> Checkpointed:
        self._updates += updates
        return self._port.checkpoint(token, updates, client_token)

    def checkpoint_soon(self, token: Position, updates: Sequence[Update], on_answer: OnAnswer) -> None:
        self._updates += updates
        self._port.checkpoint_soon(token, updates, on_answer)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._port, name)


def listening(make: MakeHost, updates: list[Update]) -> MakeHost:
    """The same host, behind such a port."""

    def made(clock: Any) -> ClosableHost:
        host: Any = make(clock)
        invoke = host.invoke

        def heard(invocation: Invocation, port: Port, done: Callable[[Outcome, int], None]) -> None:
            invoke(invocation, Listening(port, updates), done)

        host.invoke = heard
        return host  # type: ignore[no-any-return]

    return made


@pytest.mark.parametrize("told", [["Root=1"], [None, "Root=1"], ["  ", "Root=1", "Root=2"], [None], [7], [RuntimeError()]], ids=str)
async def test_an_invoke_carries_the_trace_id_of_the_first_plugin_that_has_one(told: list[Any]) -> None:
    case = CASES["an_invoke_has_serdes_for_both_ways"]

    def factories(plugin: Any) -> list[Making]:
        def answer(trace_id: Any) -> Any:
            def provide(self: Any, info: Any) -> Any:
                if isinstance(trace_id, Exception):
                    raise trace_id
                return None if trace_id is None else plugin.PropagationMetadata(trace_id)

            made: Any = type("Tracing", (plugin.DurableInstrumentationPlugin,), {"provide_propagation_metadata": provide})
            return lambda info: made()

        return [Making(answer(one)) for one in told]

    async def carried(root: str, make: Callable[[Sdk], Any], host: Callable[[Any], MakeHost]) -> list[str | None]:
        updates: list[Update] = []
        sdk = with_plugins(Sdk(root), *factories(import_module(f"{root}.plugin")))
        await run(case, Sdk(OURS), listening(host(make(sdk)), updates))
        return [update.trace_id for update in updates if update.function_name and update.action is Action.START]

    assert case.twin is not None
    theirs = await carried(OFFICIAL, case.make, official)
    assert theirs
    assert await carried(OURS, case.make, ours) == theirs
    assert await carried(OURS, case.twin, ours) == theirs
    assert set(theirs) == {"Root=1" if "Root=1" in told else None}


# --- without plugins ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("plugins", [None, [], [Making(lambda info: DurableInstrumentationPlugin())]])
async def test_a_function_without_plugins_has_no_hooks(harness: Harness, plugins: Any) -> None:
    @durable_execution(plugins=plugins)
    def blocking(event: Any, context: DurableContext) -> bool:
        return context._scope.state.hooks is not None

    @durable_execution(plugins=plugins)
    async def awaiting(event: Any, context: AsyncDurableContext) -> bool:
        return context._scope.state.hooks is not None

    assert await harness.run(blocking) is bool(plugins)
    assert await harness.run(awaiting) is bool(plugins)

"""invoke: one execution has another do a part of its work; what happens to the one is told to the other."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast import AsyncDurableContext, DurableContext, Duration, InvokeConfig, StepContext, durable_execution, plain_function
from holdfast.durable.exceptions import InvokeError
from holdfast.model.clock import VirtualClock
from holdfast.model.errors import ExecutionFailed, ExecutionStopped
from holdfast.model.execution import Execution, ExecutionStatus
from holdfast.service.engines import OpenEngine
from holdfast.service.open_engine.open_execution import OpenExecution
from holdfast.store.seam import Filter
from tests.flow.harness import Harness, eventually, pending, types
from tests.histories import wire


@durable_execution
async def child(event: Any, context: AsyncDurableContext) -> Any:
    return await (await context.create_callback(name="go")).result()


@durable_execution
async def parent(event: Any, context: AsyncDurableContext) -> Any:
    config: InvokeConfig[Any, Any] = InvokeConfig(cascade=event != "detached")
    return await context.invoke("child", {"from": "parent"}, name="work", config=config)


@durable_execution
def blocking_parent(event: Any, context: DurableContext) -> Any:
    return context.invoke("child", {"from": "parent"}, name="work")


def invoked(engine: OpenEngine, function: str = "child") -> list[Execution]:
    """The executions of a function, oldest first."""
    return list(engine._store.list(Filter(function=function, oldest_first=True)))


async def waiting_child(engine: OpenEngine, execution: OpenExecution) -> OpenExecution:
    """The execution it invoked, once both wait."""
    await pending(execution, "work")
    (header,) = await eventually(lambda: invoked(engine))
    found = await engine.get(header.id)
    await pending(found, "go")
    return found


@pytest.mark.parametrize("function", [parent, blocking_parent], ids=["async", "def"])
async def test_the_childs_result_wakes_the_parent(harness: Harness, function: Any) -> None:
    async with harness.engine(function, child, clock=VirtualClock(skipping=False)) as engine:
        execution = await engine.start(function)
        work = await waiting_child(engine, execution)
        assert (await work.describe()).input == {"from": "parent"}
        assert (await work.describe()).parent == execution.id
        assert (await pending(execution)).woken_by == f"the end of child/{work.name}"
        await engine.succeed_callback((await pending(work)).callback_id or "", "done")
        assert await execution.result() == "done"
        told = wire(await execution.history())
        assert types(told) == [
            "ExecutionStarted",
            "ChainedInvokeStarted",
            "InvocationCompleted",
            "ChainedInvokeSucceeded",
            "InvocationCompleted",
            "ExecutionSucceeded",
        ]
        assert told[1]["ChainedInvokeStartedDetails"]["DurableExecutionArn"] == work.arn


async def test_a_stop_takes_the_children_along(harness: Harness) -> None:
    async with harness.engine(parent, child, clock=VirtualClock(skipping=False)) as engine:
        execution = await engine.start(parent)
        work = await waiting_child(engine, execution)
        await execution.stop("enough")
        with pytest.raises(ExecutionStopped, match="enough"):
            await work.result()
        assert types(wire(await work.history()))[-1] == "ExecutionStopped"


@pytest.mark.parametrize("how", ["the child was detached", "the stop says so"])
async def test_a_child_may_survive_the_stop_as_on_aws(harness: Harness, how: str) -> None:
    async with harness.engine(parent, child, clock=VirtualClock(skipping=False)) as engine:
        detached = how == "the child was detached"
        execution = await engine.start(parent, "detached" if detached else None)
        work = await waiting_child(engine, execution)
        await execution.stop(cascade=detached)
        assert await work.status() is ExecutionStatus.RUNNING
        await engine.succeed_callback((await pending(work)).callback_id or "", "late")
        assert await work.result() == "late"
        assert await execution.status() is ExecutionStatus.STOPPED


async def test_a_whole_tree_is_stopped_from_its_root(harness: Harness) -> None:
    @durable_execution
    async def tree(event: int, context: AsyncDurableContext) -> Any:
        async def branch(context: AsyncDurableContext) -> Any:
            return await context.invoke("tree", event - 1)

        if event == 0:
            return await context.wait(Duration.from_days(1))
        return (await context.parallel([branch, branch])).get_results()

    async with harness.engine(tree, clock=VirtualClock(skipping=False)) as engine:
        root = await engine.start(tree, 3)
        await eventually(lambda: len(invoked(engine, "tree")) == 15)
        await root.stop()
        assert {header.status for header in invoked(engine, "tree")} == {ExecutionStatus.STOPPED}


async def test_a_parents_timeout_takes_the_children_along(harness: Harness) -> None:
    @durable_execution(name="parent", execution_timeout=60)
    async def hasty(event: Any, context: AsyncDurableContext) -> Any:
        return await context.invoke("child", None, name="work")

    async with harness.engine(hasty, child) as engine:
        execution = await engine.start(hasty)
        await eventually(lambda: invoked(engine) and invoked(engine)[0].status is ExecutionStatus.STOPPED)
        assert await execution.status() is ExecutionStatus.TIMED_OUT


async def test_a_stopped_or_late_child_is_an_invoke_error(harness: Harness) -> None:
    @durable_execution(name="child", execution_timeout=60)
    async def slow(event: Any, context: AsyncDurableContext) -> Any:
        await context.wait(Duration.from_days(1), name="go")

    @durable_execution
    async def patient(event: Any, context: AsyncDurableContext) -> Any:
        try:
            await context.invoke("child", None, name="work")
        except InvokeError as error:
            return [error.error_type, error.message]

    async with harness.engine(patient, slow) as engine:
        late = await engine.start(patient)
        assert await late.result() == ["ChainedInvoke.Timeout", "CHAINED_INVOKE timed out after 60 seconds."]
        assert "ChainedInvokeTimedOut" in types(wire(await late.history()))
    async with harness.engine(patient, slow, clock=VirtualClock(harness.clock.now(), skipping=False)) as engine:
        stopped = await engine.start(patient)
        await pending(stopped, "work")
        work = await engine.get(invoked(engine)[-1].id)
        await work.stop("by hand", "Operator")
        assert await stopped.result() == ["Operator", "by hand"]
        assert "ChainedInvokeStopped" in types(wire(await stopped.history()))


async def test_versions_invoke_each_other(harness: Harness) -> None:
    @durable_execution(name="callee", version=1)
    async def first(event: Any, context: AsyncDurableContext) -> Any:
        return "one"

    @durable_execution(name="callee", version=2)
    def second(event: Any, context: DurableContext) -> Any:
        return ["two", context.invoke("callee:1", None)]

    @durable_execution
    async def caller(event: Any, context: AsyncDurableContext) -> Any:
        return [await context.invoke(name, None) for name in ("callee", "callee:1", "callee:2")]

    async with harness.engine(first, second, caller) as engine:
        assert await (await engine.start(caller)).result() == [["two", "one"], "one", ["two", "one"]]


async def test_a_function_of_another_process_can_be_invoked_with_its_own_terms(harness: Harness) -> None:
    @durable_execution(name="elsewhere", execution_timeout=77)
    async def elsewhere(event: Any, context: AsyncDurableContext) -> Any:
        return "there"

    @durable_execution
    async def caller(event: Any, context: AsyncDurableContext) -> Any:
        return await context.invoke("elsewhere", None, name="work")

    async with harness.engine(elsewhere):
        pass  # it has been hosted once
    async with harness.engine(caller, clock=VirtualClock(skipping=False)) as engine:
        execution = await engine.start(caller)
        await pending(execution, "work")
        (header,) = invoked(engine, "elsewhere")
        assert header.terms.timeout_seconds == 77
    async with harness.engine(elsewhere, caller) as engine:
        assert await (await engine.get(execution.id)).result() == "there"


async def test_an_unknown_function_is_an_error_that_can_be_caught(harness: Harness) -> None:
    @durable_execution
    async def caller(event: Any, context: AsyncDurableContext) -> Any:
        await context.invoke(event, None)

    async with harness.engine(caller) as engine:
        for name, message in (
            ("unknown", "Function not found: unknown"),
            ("arn:aws:lambda:local:123456789012:function:x", "Cannot start a CHAINED_INVOKE on a function in another account."),
            ("arn:aws:lambda:eu-west-1:000000000000:function:x", "Cannot start a CHAINED_INVOKE on a function in another region."),
            ("no name", "Not a function's name or ARN: 'no name'"),
        ):
            with pytest.raises(ExecutionFailed, match=message):
                await (await engine.start(caller, name)).result()


async def test_a_plain_function_gets_an_ordinary_context_and_fails_with_its_own_error(harness: Harness) -> None:
    seen: list[Any] = []

    @plain_function(name="plainly", version=3)
    def plain(event: Any, context: Any) -> Any:
        seen.append((context.function_name, context.function_version, context.get_remaining_time_in_millis() > 0, hasattr(context, "step")))
        context.log("a line")
        return {"doubled": event * 2}

    @plain_function
    async def async_plain(event: Any, context: Any) -> Any:
        await asyncio.sleep(0)
        raise LookupError("not there")

    @durable_execution
    async def caller(event: Any, context: AsyncDurableContext) -> Any:
        doubled: Any = await context.invoke("plainly:3", 21)
        try:
            await context.invoke("async_plain", None)
        except InvokeError as error:
            return [doubled, error.error_type, error.message]

    async with harness.engine(plain, async_plain, caller) as engine:
        assert await (await engine.start(caller)).result() == [{"doubled": 42}, "LookupError", "not there"]
    assert seen == [("plainly", "3", True, False)]


def test_a_plain_function_stays_the_handler_that_it_is() -> None:
    @plain_function
    def plain(event: Any, context: Any) -> Any:
        return [event, context]

    assert plain("event", "a Lambda runtime's context") == ["event", "a Lambda runtime's context"]


async def test_many_invokes_of_one_batch_all_come_back(harness: Harness) -> None:
    @durable_execution
    async def square(event: int, context: AsyncDurableContext) -> int:
        async def work(_: StepContext) -> int:
            return event * event

        return await context.step(work)

    @durable_execution
    async def caller(event: Any, context: AsyncDurableContext) -> Any:
        async def each(context: AsyncDurableContext, item: int, index: int, items: Any) -> Any:
            return await context.invoke("square", item)

        return (await context.map(range(200), each)).get_results()

    async with harness.engine(square, caller) as engine:
        assert await (await engine.start(caller)).result() == [n * n for n in range(200)]

"""Functions come and go while an engine runs: what they left waits for them, and nothing is lost, counted or blamed."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest

from holdfast import AsyncDurableContext, DurableContext, durable_execution
from holdfast.durable.exceptions import InvokeError
from holdfast.engine.engine import Engine
from holdfast.engine.registry import Capacity, Function, Registry
from holdfast.hosts.choosing_host import ChoosingHost
from holdfast.model.errors import FunctionNotFound
from holdfast.model.execution import Execution, State
from holdfast.model.operations import Kind, Operation
from holdfast.service.engines import OpenEngine
from holdfast.store.seam import Hosted
from tests.flow.harness import Harness, eventually, pending


@durable_execution
async def waiting(event: Any, context: AsyncDurableContext) -> Any:
    callback: Any = await context.create_callback(name="go")
    return await callback.result()


@durable_execution(name="twice", version=1)
def twice(event: Any, context: DurableContext) -> Any:
    return event * 2


@durable_execution
def caller(event: Any, context: DurableContext) -> Any:
    try:
        return context.invoke(event, 4)
    except InvokeError as error:
        return str(error)


def inner(engine: OpenEngine) -> Engine:
    return engine._engine


def come(engine: Engine, function: Function) -> None:
    engine.registry.put(function)
    engine.store.publish([Hosted(function.name, function.version, function.terms)])
    engine.look_for_work()


async def test_executions_of_a_function_that_left_wait_until_it_is_back(harness: Harness) -> None:
    async with harness.engine(waiting, caller) as opened:
        engine = inner(opened)
        execution = await opened.start("waiting")
        found = await pending(execution, "go")
        function = engine.registry.get("waiting", "$LATEST")
        assert function is not None
        engine.registry.remove("waiting", "$LATEST")
        await opened.succeed_callback(found.callback_id or "", "went")
        assert (await execution.describe()).state == "ready"
        with pytest.raises(FunctionNotFound, match="No function 'waiting' is registered here"):
            await opened.start("waiting")
        assert await (await opened.start("caller", "waiting")).result() == "Function not found: waiting"
        come(engine, function)
        assert await execution.result() == "went"
        assert function.capacity.unused


async def test_a_function_that_leaves_while_it_is_claimed_is_interrupted_which_counts_nowhere(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with harness.engine(waiting) as opened:
        engine = inner(opened)
        function = engine.registry.get("waiting", "$LATEST")
        assert function is not None
        room, function.capacity.free = function.capacity.free, 0
        execution = await opened.start("waiting")
        write = engine._writer.write

        async def leave_first(claim: Any, on_answer: Any) -> Any:
            engine.registry.remove("waiting", "$LATEST")
            return await write(claim, on_answer)

        function.capacity.free = room - 1  # reserved for the claim
        monkeypatch.setattr(engine._writer, "write", leave_first)
        await engine.invocations.claim(execution.id, frozenset(), function)
        monkeypatch.undo()

        def ready() -> Any:
            header = engine.store.find(execution.id)
            return header if header is not None and header.state is State.READY else None

        header = await eventually(ready)
        assert (header.failures, header.deaths, function.capacity.free) == (0, 0, room)
        come(engine, function)
        assert (await pending(execution, "go")).name == "go"


async def test_an_invoke_reaches_a_version_by_its_alias_and_nothing_that_was_removed(harness: Harness) -> None:
    async with harness.engine(twice, caller) as opened:
        registry = inner(opened).registry
        registry.aliases["twice", "live"] = "1"
        assert await (await opened.start("caller", "twice:live")).result() == 8
        assert await (await opened.start("caller", "twice:dead")).result() == "Function not found: twice:dead"
        registry.remove("twice", "1")
        assert await (await opened.start("caller", "twice:live")).result() == "Function not found: twice:live"


def test_a_version_of_another_kind_is_not_found() -> None:
    kinds = {"1": Kind.FUNCTION, "2": Kind.WORKER}
    registry = Registry([Function(name="a", version=version, capacity=Capacity(1), kind=kind) for version, kind in kinds.items()])
    assert registry.wanted("a", None).version == registry.wanted("a", "1").version == "1"
    with pytest.raises(FunctionNotFound, match=r"'a' has no version 2 here. Known versions: 1\."):
        registry.wanted("a", "2")


def test_a_function_that_comes_while_a_suspect_runs_alone_gets_no_room_before_the_others() -> None:
    registry = Registry([Function(name="a", capacity=Capacity(1))])
    registry.shut()
    late = Function(name="b", capacity=Capacity(2))
    registry.put(late)
    registry.put(late)
    assert registry.claimable() == {}
    registry.open()
    assert sorted(target.function for targets in registry.claimable().values() for target in targets) == ["a", "b"]
    assert (late.capacity.free, registry.is_unused()) == (2, True)


class Home:
    """A host that writes down what it is asked."""

    def __init__(self, *functions: str) -> None:
        self._functions = functions
        self.asked: list[str] = []

    def hosts(self, function: str, version: str) -> bool:
        return function in self._functions

    def invoke(self, invocation: Any, port: Any, done: Any) -> None:
        self.asked.append("invoke")

    def cancel(self, execution: str) -> None:
        self.asked.append("cancel")

    def learn(self, header: Execution, operations: Collection[Operation]) -> None:
        self.asked.append("learn")

    def recheck(self, execution: str) -> None:
        self.asked.append("recheck")

    def idle(self) -> bool:
        return "invoke" not in self.asked


async def test_each_invocation_goes_to_the_host_of_its_function(harness: Harness) -> None:
    async with harness.engine(twice) as opened:
        header = inner(opened).store.find((await opened.start("twice", 1)).id)
    first, second = Home("other"), Home("twice")
    host = ChoosingHost([first, second])
    assert host.idle()
    invocation: Any = type("Invoked", (), {"header": header})
    none: Any = None
    host.invoke(invocation, none, none)
    assert (first.asked, second.asked, host.idle()) == ([], ["invoke"], False)
    host.cancel("x")
    assert header is not None
    host.learn(header, ())
    host.recheck("x")
    assert first.asked == second.asked[1:] == ["cancel", "learn", "recheck"]
    with pytest.raises(FunctionNotFound, match="Function 'twice' has no version 1 here"):
        ChoosingHost([first]).invoke(invocation, none, none)

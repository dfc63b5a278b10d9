"""A failed invocation is told at once: in the log, and to those who ask for the execution."""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import holdfast
from holdfast import AsyncDurableContext, DurableContext, durable_execution
from holdfast.cli.main import program
from holdfast.descriptions.executions import Description
from holdfast.durable.exceptions import InvocationError
from holdfast.durable.execution import DurableFunction
from holdfast.model.errors import ExecutionFailed
from holdfast.service.engines import OpenEngine
from holdfast.service.open_engine.open_execution import OpenExecution
from tests.flow.harness import Harness


def leave(_: Any) -> None:
    sys.exit("no bank today")


async def leave_async(_: Any) -> None:
    sys.exit("no bank today")


@durable_execution
def exits(event: Any, context: DurableContext) -> None:
    context.step(leave)


@durable_execution
async def exits_async(event: Any, context: AsyncDurableContext) -> None:
    await context.step(leave_async)


@durable_execution
def exits_in_a_branch(event: Any, context: DurableContext) -> None:
    context.parallel([lambda branch: branch.step(leave)])


@durable_execution
async def exits_in_an_async_branch(event: Any, context: AsyncDurableContext) -> None:
    await context.parallel([lambda branch: branch.step(leave_async)])


@durable_execution
async def cancels(event: Any, context: AsyncDurableContext) -> None:
    raise asyncio.CancelledError("no bank today")


@durable_execution
def asks_for_another_try(event: Any, context: DurableContext) -> None:
    raise InvocationError("no bank today")


ALL = [exits, exits_async, exits_in_a_branch, exits_in_an_async_branch, cancels, asks_for_another_try]


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "holdfast.engine"]


@pytest.mark.parametrize("function", ALL, ids=lambda f: f.name)
async def test_each_failed_invocation_is_logged_once_with_its_error_its_line_its_number_and_the_next_try(
    harness: Harness, function: DurableFunction, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    async with harness.engine(function) as engine:
        with pytest.raises(ExecutionFailed, match="no bank today"):
            await (await engine.start(function, name="first")).result()
    told = warnings(caplog)
    assert len(told) == 9
    assert all(line.startswith(f"{function.name}/first: an invocation failed: ") and "no bank today" in line for line in told)
    assert all(f"{__file__}:" in line for line in told)
    for number, line in zip(("1st", "2nd", "3rd", "4th"), told, strict=False):
        assert f"the {number} failure in a row; the next try is in " in line
    assert told[-1].endswith("it was the 9th failure in a row, so the execution has failed")


async def test_the_line_is_that_of_the_authors_code(harness: Harness, caplog: pytest.LogCaptureFixture) -> None:
    async with harness.engine(exits) as engine:
        with pytest.raises(ExecutionFailed):
            await (await engine.start(exits)).result()
    assert f"at {__file__}:{leave.__code__.co_firstlineno + 1} in leave;" in warnings(caplog)[0]


async def test_an_exit_in_a_branch_ends_no_other_execution(harness: Harness) -> None:
    @durable_execution
    async def healthy(event: Any, context: AsyncDurableContext) -> str:
        return await context.step(lambda _: "well")

    async with harness.engine(exits_in_an_async_branch, healthy) as engine:
        failing = await engine.start(exits_in_an_async_branch)
        with pytest.raises(ExecutionFailed):
            await failing.result()
        assert await (await engine.start(healthy)).result() == "well"


async def test_a_try_that_succeeds_ends_the_trouble(harness: Harness, caplog: pytest.LogCaptureFixture) -> None:
    tries = iter(range(9))

    @durable_execution
    def recovers(event: Any, context: DurableContext) -> str:
        if next(tries) < 2:
            raise InvocationError("not yet")
        return "done"

    async with harness.engine(recovers) as engine:
        execution = await engine.start(recovers)
        assert await execution.result() == "done"
        assert (await execution.describe()).trouble is None
    assert len(warnings(caplog)) == 2


async def _failed_once(engine: OpenEngine, function: DurableFunction, name: str) -> tuple[OpenExecution, Description]:
    execution = await engine.start(function, name=name)
    async with asyncio.timeout(20):
        while (told := await execution.describe()).trouble is None or told.state != "ready":
            await asyncio.sleep(0)
    return execution, told


async def test_show_list_and_history_tell_the_error_the_count_and_the_next_try(tmp_path: Path) -> None:
    store = str(tmp_path / "test.db")
    async with holdfast.open(store, functions=[exits]) as engine:
        _, told = await _failed_once(engine, exits, "first")
    trouble = told.trouble
    assert trouble is not None
    assert trouble.failures == 1
    assert trouble.error == "SystemExit: no bank today"
    assert trouble.place == f"{__file__}:{leave.__code__.co_firstlineno + 1} in leave"
    assert trouble.next_try_at is not None
    assert trouble.next_try_at > told.started_at
    assert (
        told.why == f"Its last invocation failed with {trouble.error}, at {trouble.place}. The engine tries again when the delay is over."
    )
    page = _program("executions", "show", "first", "--store", store)
    for fact in ("failures  1", f"last error  {trouble.error}", f"raised at  {trouble.place}", "next try"):
        assert " ".join(fact.split()) in " ".join(page.split())
    rows = _program("executions", "list", "--store", store).splitlines()
    assert rows[0].split()[-1] == "TROUBLE"
    assert "1 invocation failed: SystemExit: no bank today; " in rows[1]
    completed = [
        line for line in _program("executions", "history", "first", "--store", store).splitlines() if "InvocationCompleted" in line
    ]
    assert "SystemExit: no bank today" in completed[0]
    assert "1st failure in a row, next try at 20" in completed[0]


def _program(*words: str) -> str:
    ended = CliRunner().invoke(program("executions"), list(words))
    assert ended.exit_code == 0, ended.output
    return ended.stdout

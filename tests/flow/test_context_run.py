"""context.run: a durable function runs a worker as an execution of its own, and waits for its response."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast import AsyncDurableContext, DurableContext, Duration, RunResponse, WorkerError, WorkerFailed, durable_execution
from holdfast.durable.exceptions import ValidationError
from holdfast.durable.execution import DurableFunction
from holdfast.model.errors import ExecutionFailed, RunUnavailable
from holdfast.model.execution import ExecutionStatus
from holdfast.model.operations import Type
from holdfast.testing import Runner, crash_everywhere
from tests.workers.pages import page, write

BOTH = pytest.mark.parametrize("colour", ["async", "blocking"])
WORKERS: dict[str, Any] = {
    "scrape": lambda inputs: {"title": inputs["url"].upper()},
    "denied": WorkerError("access_denied", "robots.txt says no"),
}


def function(
    colour: str, *calls: tuple[tuple[Any, ...], dict[str, Any]], give: Callable[..., Any] = lambda *found: found[-1].outputs
) -> DurableFunction:
    """A function that makes these calls of context.run, and gives what `give` makes of the responses."""

    @durable_execution(name="caller")
    async def in_a_loop(event: Any, context: AsyncDurableContext) -> Any:
        return give(*[await context.run(*arguments, **more) for arguments, more in calls])

    @durable_execution(name="caller")
    def in_a_thread(event: Any, context: DurableContext) -> Any:
        return give(*[context.run(*arguments, **more) for arguments, more in calls])

    return in_a_loop if colour == "async" else in_a_thread


def asks(*arguments: Any, **more: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return arguments, more


@BOTH
def test_a_function_gets_the_response_of_the_worker_that_it_runs(colour: str) -> None:
    seen: list[RunResponse] = []

    def given(response: RunResponse) -> Any:
        seen.append(response)
        return response.outputs

    calling = function(colour, asks("scrape", {"url": "a"}, name="page"), give=given)
    with Runner(calling, workers=WORKERS) as runner:
        result = runner.run()
        (run,) = [header for header in runner.engine.list() if header.function == "scrape"]
    assert (result.status, result.result) == (ExecutionStatus.SUCCEEDED, {"title": "A"})
    assert result.get_invoke("page").sub_type == "Run"
    assert (seen[0].status, seen[0].worker_id, seen[0].version, seen[0].run_id) == ("ok", "scrape", "1.0", run.id)
    assert (seen[0].error, seen[0].artifacts, seen[0].usage.cost_usd) == (None, (), Decimal(0))
    assert (run.tenant, run.parent) == ("default", runner_parent(result.arn))


def runner_parent(arn: str) -> str:
    return arn.rpartition("/")[2]


@BOTH
def test_a_replay_gets_a_response_that_equals_the_first_one(colour: str) -> None:
    seen: list[tuple[RunResponse, str]] = []

    @durable_execution
    async def in_a_loop(event: Any, context: AsyncDurableContext) -> None:
        first = await context.run("scrape", {"url": "a"})
        seen.append((first, await told(context)))
        await context.wait(Duration.from_seconds(1))

    async def told(context: AsyncDurableContext) -> str:
        try:
            await context.run("denied", {})
        except WorkerFailed as failed:
            return f"{failed} {failed.error_code} {failed.response!r}"
        raise AssertionError("the worker must fail")

    @durable_execution
    def in_a_thread(event: Any, context: DurableContext) -> None:
        first = context.run("scrape", {"url": "a"})
        try:
            context.run("denied", {})
        except WorkerFailed as failed:
            seen.append((first, f"{failed} {failed.error_code} {failed.response!r}"))
        context.wait(Duration.from_seconds(1))

    with Runner(in_a_loop if colour == "async" else in_a_thread, workers=WORKERS, replay=True) as runner:
        assert runner.run().status is ExecutionStatus.SUCCEEDED
    assert len(seen) > 1
    assert all(one == seen[0] for one in seen)


@BOTH
def test_a_response_that_is_not_ok_is_raised_with_its_code_and_the_whole_response(colour: str) -> None:
    with Runner(function(colour, asks("denied", {})), workers=WORKERS) as runner:
        result = runner.run()
    assert result.status is ExecutionStatus.FAILED
    assert result.error is not None
    assert "denied: robots.txt says no [access_denied] (run " in (result.error.message or "")
    assert (result.error.type or "").endswith(".WorkerFailed")
    assert '"error_code":"access_denied"' in (result.error.data or "")


@BOTH
def test_without_check_the_response_is_given_whatever_its_status_is(colour: str) -> None:
    calling = function(colour, asks("denied", {}, check=False), give=lambda one: [one.status, one.error.error_code, one.outputs])
    with Runner(calling, workers=WORKERS) as runner:
        assert runner.run().result == ["permanent_error", "access_denied", None]


@BOTH
@pytest.mark.parametrize(
    "asked, code",
    [
        (asks("nobody", {}), "worker_not_found"),
        (asks("scrape@9.9", {"url": "a"}), "version_not_found"),
        (asks("scrape", {"url": "a"}, constraints={"timeout_seconds": 10_000}), "constraint_widened"),
        (asks("scrape", {"url": "a"}, constraints={"haste": True}), "schema_mismatch"),
    ],
)
def test_a_refused_request_fails_its_operation_in_the_write_that_starts_it(colour: str, asked: Any, code: str) -> None:
    arguments, more = asked
    calling = function(colour, (arguments, {**more, "check": False}), give=lambda one: [one.error.error_code, one.run_id])
    with Runner(calling, workers=WORKERS) as runner:
        result = runner.run()
        headers = list(runner.engine.list())
    assert result.result == [code, ""]
    assert [header.function for header in headers] == ["caller"]
    assert [event.type for event in result.history if event.type.startswith("Chained")] == ["ChainedInvokeStarted", "ChainedInvokeFailed"]


@BOTH
def test_a_worker_is_named_by_id_or_by_id_and_version(colour: str) -> None:
    workers = {"w@1.0": {"n": 1}, "w@2.0": {"n": 2}}
    calls = (asks("w", {}), asks("w@1.0", {}), asks("w", {}, version="1.0"), asks("w@2.0", {}, version="2.0"))
    with Runner(function(colour, *calls, give=lambda *found: [one.outputs["n"] for one in found]), workers=workers) as runner:
        assert runner.run().result == [2, 1, 1, 2]


@BOTH
@pytest.mark.parametrize(
    "asked, told",
    [
        (asks("scrape.py", {}), "looks like the path of a file. Serve the file"),
        (asks("./workers/scrape", {}), "looks like the path of a file"),
        (asks("", {}), "the worker's id is empty"),
        (asks(print, {}), 'Name it by its id, as its page does: `context.run("print", ...)`'),
        (asks("scrape", ["a"]), "inputs is ['a'] (list); it must be a dict"),
        (asks("scrape", {}, constraints=5), "constraints is 5 (int); it must be a dict"),
        (asks("scrape@1.0", {}, version="2.0"), "Name the version once"),
        (asks("scrape", {}, version=1.0), "version is 1.0 (float); it must be a str"),
    ],
)
def test_wrong_arguments_are_refused_on_the_authors_line_and_nothing_is_recorded(colour: str, asked: Any, told: str) -> None:
    with Runner(function(colour, asked), workers=WORKERS) as runner:
        result = runner.run()
    assert result.error is not None
    assert (result.error.type or "").endswith(ValidationError.__name__)
    assert told in (result.error.message or "")
    assert not result.operations


@BOTH
def test_models_and_mappings_are_inputs_as_their_json(colour: str) -> None:
    from dataclasses import dataclass
    from types import MappingProxyType

    @dataclass
    class Page:
        url: str

    calls = (asks("echo", MappingProxyType({"page": Page("a")})), asks("echo", Page("b")))
    calling = function(colour, *calls, give=lambda *found: [one.outputs for one in found])
    with Runner(calling, workers={"echo": lambda inputs: inputs}) as runner:
        assert runner.run().result == [{"page": {"url": "a"}}, {"url": "b"}]


@BOTH
def test_a_response_can_be_the_result_of_the_function_and_of_a_child_context(colour: str) -> None:
    @durable_execution
    async def in_a_loop(event: Any, context: AsyncDurableContext) -> RunResponse:
        async def inside(inner: AsyncDurableContext) -> RunResponse:
            return await inner.run("scrape", {"url": "a"})

        found = await context.run_in_child_context(inside)
        await context.wait(Duration.from_seconds(1))
        return found

    @durable_execution
    def in_a_thread(event: Any, context: DurableContext) -> RunResponse:
        def inside(inner: DurableContext) -> RunResponse:
            return inner.run("scrape", {"url": "a"})

        found = context.run_in_child_context(inside)
        context.wait(Duration.from_seconds(1))
        return found

    with Runner(in_a_loop if colour == "async" else in_a_thread, workers=WORKERS) as runner:
        result = runner.run().result
    assert isinstance(result, RunResponse)
    assert result.outputs == {"title": "A"}


def test_runs_of_branches_stand_beside_each_other() -> None:
    @durable_execution
    async def fan(event: Any, context: AsyncDurableContext) -> Any:
        async def one(inner: AsyncDurableContext, url: str, *_: Any) -> Any:
            return (await inner.run("scrape", {"url": url}, name=url)).outputs

        return (await context.map(["a", "b", "c"], one)).get_results()

    with Runner(fan, workers=WORKERS) as runner:
        assert runner.run().result == [{"title": "A"}, {"title": "B"}, {"title": "C"}]


@BOTH
def test_a_crash_anywhere_changes_nothing(colour: str) -> None:
    calls = (asks("scrape", {"url": "a"}), asks("denied", {}, check=False), asks("nobody", {}, check=False), asks("scrape", {"url": "b"}))
    assert crash_everywhere(function(colour, *calls, give=lambda *found: [one.status for one in found]), workers=WORKERS) > 8


# --- a worker that asks a person

BUYER = """
from holdfast import tool, worker

@tool(effect="write", approval=True)
def buy(call, item: str):
    with open({log!r}, "a") as log:
        log.write(item + " ")
    return {{"bought": item}}

@worker("buyer.md")
async def buyer(inputs, ctx):
    return await ctx.tools.buy(item=inputs["item"])
"""


@pytest.fixture
def buyer(tmp_path: Path) -> Path:
    return write(tmp_path / "buyer", BUYER.format(log=str(tmp_path / "log")), buyer=page("buyer", "buy"))


def bought(buyer: Path) -> list[str]:
    log = buyer.parent.parent / "log"
    return log.read_text().split() if log.exists() else []


@BOTH
def test_the_function_rests_while_a_person_decides_and_its_description_says_who_is_asked(colour: str, buyer: Path) -> None:
    with Runner(function(colour, asks("buyer", {"item": "tea"}, name="order")), workers=[buyer]) as runner:
        arn = runner.run_async()
        approval = runner.wait_for_approval(arn)
        told = runner.engine.get(arn).describe()
        assert bought(buyer) == []
        runner.decide(approval.approval_id)
        result = runner.wait_for_result(arn)
    assert told.state == "suspended"
    assert told.why == f"It waits for Run 'order' (approval {approval.approval_id} of run {approval.run_id})."
    assert told.waits_for[0].approvals == (approval.approval_id,)
    assert (result.result, bought(buyer)) == ({"bought": "tea"}, ["tea"])


@BOTH
def test_a_stop_of_the_function_reaches_its_run_as_a_cancel(colour: str, buyer: Path) -> None:
    with Runner(function(colour, asks("buyer", {"item": "tea"})), workers=[buyer]) as runner:
        arn = runner.run_async()
        run_id = runner.wait_for_approval(arn).run_id
        runner.engine.get(arn).stop("enough")
        response = runner.engine.get(run_id).result()
        status = runner.look(arn).status
    assert status is ExecutionStatus.STOPPED
    assert (response["status"], response["error"]["error_code"]) == ("permanent_error", "cancelled")
    assert bought(buyer) == []


# --- rates

RATED = """
from holdfast import worker

@worker("rated.md")
def rated(inputs, ctx):
    return {"n": inputs["n"]}
"""


@pytest.fixture
def rated(tmp_path: Path) -> Path:
    return write(tmp_path / "rated", RATED, rated=page("rated", rate_limit="2/min"))


@BOTH
def test_a_run_that_a_rate_refuses_waits_until_the_rate_allows_it(colour: str, rated: Path) -> None:
    calls = [asks("rated", {"n": n}, name=f"run-{n}") for n in range(5)]
    with Runner(function(colour, *calls, give=lambda *found: [one.outputs["n"] for one in found]), workers=[rated]) as runner:
        began = runner.clock.now()
        result = runner.run()
        runs = [header for header in runner.engine.list() if header.function == "rated"]
    assert result.result == [0, 1, 2, 3, 4]
    assert sorted((run.started_at - began) // 60_000 for run in runs) == [0, 0, 1, 1, 2]
    assert [operation.name for operation in result.operations if operation.type is Type.WAIT] == ["run-2", "run-4"]
    assert result.get_wait("run-2").status == "SUCCEEDED"


@BOTH
def test_a_crash_while_a_rate_is_waited_for_changes_nothing(colour: str, rated: Path) -> None:
    calls = [asks("rated", {"n": n}) for n in range(3)]
    assert crash_everywhere(function(colour, *calls), workers=[rated]) > 6


# --- where there are no workers


async def test_an_engine_without_workers_says_what_to_do() -> None:
    async with holdfast.open(":memory:", functions=[function("async", asks("scrape", {}))]) as engine:
        execution = await engine.start("caller")
        with pytest.raises(ExecutionFailed, match=r"this process serves no workers\. Give their files to the engine") as failed:
            await execution.result()
    assert (failed.value.error_type or "").endswith(RunUnavailable.__name__)


def test_a_run_takes_one_operation_and_no_operation_of_another_kind() -> None:
    with Runner(function("async", asks("scrape", {"url": "a"})), workers=WORKERS) as runner:
        assert [operation.type for operation in runner.run().operations] == [Type.CHAINED_INVOKE]

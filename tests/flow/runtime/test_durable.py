"""Durable functions in processes: the official SDK as it comes, through the real HTTP API on the private listener."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from holdfast.lambda_api.operations import LambdaApi
from holdfast.lambda_api.operations.invoke import Invoke
from holdfast.model.execution import Terms
from holdfast.model.ids import LATEST
from holdfast.model.operations import Failure, Status
from tests.flow.runtime.running import Service, alive, durable, plain, serving, until


def types(history: list[dict[str, Any]]) -> list[str]:
    assert [event["EventId"] for event in history] == list(range(1, len(history) + 1))
    return [event["EventType"] for event in history]


async def callback_of(service: Service, execution: str) -> str:
    def asked() -> str | None:
        found = [op for op in service.engine.store.operations(execution) if op.callback_id and op.status is Status.STARTED]
        return found[0].callback_id if found else None

    wanted: str = await until(asked, "the callback to be open")
    return wanted


async def test_steps_waits_children_and_branches_finish() -> None:
    async with serving(durable("order")) as service:
        execution = await service.start("order", json.dumps({"items": ["a", "b"]}))
        status, payload = await service.ending(execution)
        assert (status, json.loads(payload or "null")) == (
            "SUCCEEDED",
            {"reserved": ["a", "b"], "packed": "2 packed", "told": ["mail", "text"]},
        )
        told = types(service.history(execution))
        assert told[:4] == ["ExecutionStarted", "StepStarted", "StepSucceeded", "WaitStarted"]
        assert told[4:6] == ["InvocationCompleted", "WaitSucceeded"]
        assert told[-2:] == ["InvocationCompleted", "ExecutionSucceeded"]
        assert told.count("InvocationCompleted") == 2
        requests = {line.request for line in service.lines if line.text.startswith("START")}
        completed = {e["InvocationCompletedDetails"]["RequestId"] for e in service.history(execution) if "InvocationCompletedDetails" in e}
        assert requests == completed, "the log and the history speak of the same requests"


async def test_a_callback_is_answered_from_outside() -> None:
    async with serving(durable("approval")) as service:
        execution = await service.start("approval")
        await service.engine.answer(await callback_of(service, execution), '"yes"')
        assert await service.ending(execution) == ("SUCCEEDED", '{"answer": "\\"yes\\""}')


async def test_an_error_of_the_handler_is_the_executions() -> None:
    async with serving(durable("fails")) as service:
        status, payload = await service.ending(await service.start("fails", '"wrong"'))
        assert status == "FAILED"
        error = json.loads(payload or "{}")
        assert error["ErrorMessage"] == "wrong"
        assert error["ErrorType"].endswith("ValueError")


async def test_a_process_killed_in_a_step_is_replaced_and_what_was_acknowledged_stays(tmp_path: Path) -> None:
    async with serving(durable("dies_once")) as service:
        execution = await service.start("dies_once", json.dumps({"folder": str(tmp_path)}))
        assert await service.ending(execution) == ("SUCCEEDED", "[1, 2]")
        history = service.history(execution)
        told = types(history)
        assert told.count("StepSucceeded") == 2, "each step was acknowledged once"
        lost = [event["InvocationCompletedDetails"] for event in history if event["EventType"] == "InvocationCompleted"]
        assert len(lost) == 2
        assert lost[0]["Error"]["Payload"]["ErrorType"] == "Runtime.ExitError"
        assert "signal: killed" in lost[0]["Error"]["Payload"]["ErrorMessage"]
        assert (tmp_path / "first").read_text() == "x", "the first step did not run again"


async def test_somebody_elses_kill_is_survived_as_well(tmp_path: Path) -> None:
    async with serving(durable("hangs")) as service:
        execution = await service.start("hangs", json.dumps({"folder": str(tmp_path)}))
        pid = tmp_path / "pid"
        os.kill(int(await until(lambda: pid.exists() and pid.read_text(), "the step to hang")), signal.SIGKILL)
        assert await service.ending(execution) == ("SUCCEEDED", "[1, 2]")
        assert types(service.history(execution)).count("StepSucceeded") == 2


async def test_a_timeout_ends_the_invocation_and_the_next_one_goes_on(tmp_path: Path) -> None:
    async with serving(durable("hangs", timeout_seconds=4)) as service:
        execution = await service.start("hangs", json.dumps({"folder": str(tmp_path)}))
        assert await service.ending(execution) == ("SUCCEEDED", "[1, 2]")
        history = service.history(execution)
        first = next(event for event in history if event["EventType"] == "InvocationCompleted")
        error = first["InvocationCompletedDetails"]["Error"]["Payload"]
        assert error["ErrorType"] == "Sandbox.Timedout"
        assert error["ErrorMessage"].endswith("Task timed out after 4.00 seconds")


async def test_a_stop_kills_the_process_that_runs_it(tmp_path: Path) -> None:
    async with serving(durable("hangs")) as service:
        execution = await service.start("hangs", json.dumps({"folder": str(tmp_path)}))
        pid = tmp_path / "pid"
        number = int(await until(lambda: pid.exists() and pid.read_text(), "the step to hang"))
        await service.engine.stop(execution, Failure(message="enough"))
        await until(lambda: not alive([number]), "the process to be ended")
        assert (await service.ending(execution))[0] == "STOPPED"
        assert types(service.history(execution))[-1] == "ExecutionStopped"


async def test_closing_gives_up_what_is_live_and_the_next_engine_goes_on(tmp_path: Path) -> None:
    where, pid = tmp_path / "test.db", tmp_path / "pid"
    async with serving(durable("hangs"), where=where) as service:
        execution = await service.start("hangs", json.dumps({"folder": str(tmp_path)}))
        number = int(await until(lambda: pid.exists() and pid.read_text(), "the step to hang"))
    assert alive([number]) == []
    async with serving(durable("hangs"), where=where) as service:
        assert await service.ending(execution) == ("SUCCEEDED", "[1, 2]")


async def test_a_state_of_several_pages_is_fetched() -> None:
    async with serving(durable("remembers")) as service:
        execution = await service.start("remembers", json.dumps({"steps": 12, "size": 600_000}))
        assert await service.ending(execution) == ("SUCCEEDED", '["after", 3]')
        assert types(service.history(execution)).count("StepSucceeded") == 14


async def test_an_input_that_fills_the_first_page_is_fetched() -> None:
    async with serving(durable("measures")) as service:
        assert await service.ending(await service.start("measures", json.dumps("x" * 5_500_000))) == ("SUCCEEDED", "5500000")


async def test_a_result_too_large_for_an_answer_is_kept() -> None:
    async with serving(durable("large")) as service:
        size = 6 * 1024 * 1024 - 10
        execution = await service.start("large", str(size))
        status, payload = await service.ending(execution)
        assert (status, len(payload or "")) == ("SUCCEEDED", size + 2)
        assert types(service.history(execution)) == ["ExecutionStarted", "InvocationCompleted", "ExecutionSucceeded"]


async def test_an_execution_stopped_while_it_waits_for_a_process_never_begins(tmp_path: Path) -> None:
    async with serving(durable("hangs"), per_function=1) as service:
        first = await service.start("hangs", json.dumps({"folder": str(tmp_path)}))
        pid = tmp_path / "pid"
        await until(lambda: pid.exists() and pid.read_text(), "the step to hang")
        second = await service.start("hangs", json.dumps({"folder": "nowhere"}))
        await service.engine.stop(second, Failure())
        os.kill(int(pid.read_text()), signal.SIGKILL)
        assert (await service.ending(first))[0] == "SUCCEEDED"
        assert (await service.ending(second))[0] == "STOPPED"
        assert {line.execution for line in service.lines if line.execution and line.execution.endswith(second)} == set()
        assert service.host.idle()


async def test_what_a_handler_logs_carries_its_execution() -> None:
    async with serving(durable("tells", log_format="JSON"), terms=Terms(timeout_seconds=600)) as service:
        execution = await service.start("tells")
        await service.ending(execution)
        lines = [line for line in service.lines if "inside" in line.text or "outside" in line.text]
        assert len(lines) == 2
        assert all(line.execution is not None and line.execution.endswith(f"/{execution}") for line in lines)
        record = json.loads(lines[1].text)
        assert record["requestId"] == lines[1].request
        assert execution in lines[1].text, "the record itself names the execution"
        asked = Invoke(function="tells", qualifier=LATEST, payload=b"null", log_type="Tail", name="told")
        invoked = await LambdaApi(service.engine, tail=lambda header: service.host.tail(header.id)).invoke(asked)
        assert b"inside" in base64.b64decode(invoked.log or ""), "the caller gets the last 4 KB"


async def test_a_durable_function_invokes_a_plain_one_and_a_durable_one() -> None:
    async with serving(durable("invokes"), plain("echo"), plain("fails"), durable("steps")) as service:
        async with asyncio.TaskGroup() as group:
            calls = {"echo": {"a": 1}, "steps:$LATEST": 3, "fails": 5}
            made = {
                name: group.create_task(_ended(service, json.dumps({"function": name, "payload": payload})))
                for name, payload in calls.items()
            }
        assert made["echo"].result() == ("SUCCEEDED", '{"a": 1}')
        assert made["steps:$LATEST"].result() == ("SUCCEEDED", "3")
        status, payload = made["fails"].result()
        assert status == "FAILED"
        assert "no good: 5" in (payload or "")


async def _ended(service: Service, payload: str) -> tuple[str, str | None]:
    return await service.ending(await service.start("invokes", payload))


@pytest.mark.long
async def test_many_executions_share_few_processes() -> None:
    async with serving(durable("steps"), slots=50, per_function=3) as service:
        started = [await service.start("steps", "5") for _ in range(30)]
        assert {await service.ending(execution) for execution in started} == {("SUCCEEDED", "10")}
        assert len({line.stream for line in service.lines}) <= 3


async def test_a_function_of_ours_runs_in_a_process_too(tmp_path: Path) -> None:
    source = Path(__file__).parents[3] / "src"
    (tmp_path / "ours.py").write_text(
        "from holdfast.durable import durable_execution\n"
        "from holdfast.durable.config import Duration\n"
        "@durable_execution\n"
        "async def handler(event, context):\n"
        "    first = await context.step(lambda _: event + 1, name='first')\n"
        "    await context.wait(Duration.from_seconds(1))\n"
        "    return await context.step(lambda _: first + 1, name='second')\n"
    )
    runtime = durable("ours", folder=str(tmp_path), handler="ours.handler", environment={"PYTHONPATH": str(source)})
    async with serving(runtime) as service:
        execution = await service.start("ours", "1")
        assert await service.ending(execution) == ("SUCCEEDED", "3")
        assert types(service.history(execution)).count("InvocationCompleted") == 2


async def test_a_plain_function_cannot_be_called_as_if_it_were_not_here() -> None:
    async with serving(plain("echo")) as service:
        assert service.host.hosts("echo", LATEST)
        assert not service.host.hosts("echo", "1")
        assert (await service.host.call("echo", LATEST, b"[1]")).payload == b"[1]"

"""`holdfast serve` of functions that run workers, by the real server over HTTP: in one file with them, and in another file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.surface.serve_program import Program, programs, until
from tests.surface.served_workers import web
from tests.workers.pages import page

WORKERS = """
from holdfast import worker

@worker("echo.md")
async def echo(inputs, ctx):
    return {"heard": await ctx.ask("what?") if inputs["said"] == "?" else inputs["said"]}
"""
CALLER = """
from holdfast import durable_execution

@durable_execution(execution_timeout=600)
async def caller(event, context):
    first = await context.run("echo", {"said": event["say"]}, name="first")
    second = await context.run(event.get("then", "echo"), {"said": first.outputs["heard"]}, name="second")
    return {"heard": second.outputs["heard"], "runs": [first.run_id, second.run_id]}
"""
SAID = {"type": "object", "properties": {"said": {"type": "string"}}, "required": ["said"], "additionalProperties": False}


def files(folder: Path, together: bool) -> list[str]:
    """What is served: one file with the function and the worker, which is named twice; or a file of each."""
    (folder / "echo.md").write_text(page("echo", attempts=1, inputs=SAID))
    (folder / "workers.py").write_text(WORKERS + CALLER if together else WORKERS)
    (folder / "functions.py").write_text(CALLER)
    return ["workers.py", "workers.py:caller" if together else "functions.py"]


def invoked(client: httpx.Client, **event: Any) -> httpx.Response:
    """As curl would."""
    return client.post("/2015-03-31/functions/caller/invocations?Qualifier=%24LATEST", content=json.dumps(event))


@pytest.mark.parametrize("together", [True, False], ids=["one file", "two files"])
def test_a_served_function_runs_a_served_worker_and_waits_for_its_person(tmp_path: Path, together: bool) -> None:
    with programs(tmp_path) as started:
        server: Program = started.begun(*files(tmp_path, together)).started("/v1/workers/")
        with web(server) as client:
            answer = invoked(client, say="hello")
            runs = [client.get(f"/v1/runs/{run}").json() for run in answer.json()["runs"]]
            wrong, gone = invoked(client, say=7), invoked(client, say="x", then="gone")
            arn = server.invoke("caller:$LATEST", {"say": "?"}, InvocationType="Event")["DurableExecutionArn"]
            asked = until(lambda: client.get("/v1/approvals").json()["approvals"], "a question")
            client.post(f"/v1/approvals/{asked[0]['approval_id']}/answer", content=json.dumps({"result": "yes"})).raise_for_status()
            ended = server.ended(arn)
    assert (answer.status_code, answer.json()["heard"]) == (200, "hello")
    assert [(run["status"], run["outputs"]) for run in runs] == [("ok", {"heard": "hello"})] * 2
    for refused, code in ((wrong, "schema_mismatch"), (gone, "worker_not_found")):
        assert (refused.headers["x-amz-function-error"], code in refused.text) == ("Unhandled", True), refused.text
    assert (ended["Status"], json.loads(ended["Result"])["heard"]) == ("SUCCEEDED", "yes")
    assert any("workers.py:FUNCTION" in line for line in server.warned) is together

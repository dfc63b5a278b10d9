"""Restarts on the command line and over HTTP: what a restart will do is told first, and an answer is needed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.pipelines.graph.graph import WorkerNode
from holdfast.workers.body.errors import WorkerError
from tests.pipelines.stage import graph_of, stage, worker
from tests.surface.cli_program import Program
from tests.surface.serve_program import programs
from tests.surface.served_workers import approval_in, ask, web
from tests.surface.test_cli_pipelines import SOURCE

SALE = """from holdfast import durable_execution


@durable_execution
def sale(event, context):
    first = context.step(lambda _: "reserved", name="reserve")
    if event.get("broken"):
        raise ValueError("broken")
    return [first, context.step(lambda _: event, name="ship")]
"""


async def _broken_part(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
    raise WorkerError("broken_part", "it is broken")


async def test_without_a_terminal_a_retry_tells_its_plan_and_the_command_that_starts_it(tmp_path: Path) -> None:
    nodes = WorkerNode(name="end", worker="end", inputs={})
    graph = msgspec.structs.replace(graph_of(nodes), steps=None)
    async with stage(graph, worker("end", _broken_part), folder=tmp_path, where=str(tmp_path / "holdfast.db")) as made:
        failed = await made.run()
    holdfast = Program(tmp_path)
    asks = holdfast("runs", "retry", failed.run_id)
    assert (asks.returncode, asks.stdout) == (2, "")
    assert asks.stderr.splitlines() == [
        "  end  runs again     ended failed with broken_part",
        "0 of 1 nodes are reused; writes that earlier runs made are not made again",
        f"error[confirmation_needed]: Nothing was started. To start it: holdfast runs retry {failed.run_id} --yes",
    ]
    started = json.loads(holdfast("runs", "retry", failed.run_id, "--yes", "--json").stdout)
    assert (started["restarts"], [one["what"] for one in started["plan"]["nodes"]]) == (failed.run_id, ["again"])


@pytest.mark.long
def test_a_restart_tells_what_it_will_do_asks_and_is_found_by_its_key(tmp_path: Path) -> None:
    (tmp_path / "doubling.py").write_text(SOURCE)
    holdfast = Program(tmp_path)
    holdfast("run", "doubling.py", "--input", '{"n": 3}', "--key", "k")
    (listed,) = [json.loads(line) for line in holdfast("runs", "list", "--json").stdout.splitlines()]
    run = listed["run_id"]
    early = holdfast("runs", "retry", run, "--yes")
    assert (early.returncode, early.stderr.startswith("error[restart_refused]")) == (2, True)
    (approval,) = json.loads(holdfast("runs", "show", run, "--json").stdout)["nodes"][2]["waits_for"]
    holdfast("approvals", "reject", approval)
    holdfast("run", "doubling.py", "--input", '{"n": 3}', "--key", "k")
    asks = holdfast("runs", "retry", run)
    assert (asks.returncode, asks.stdout) == (2, "")
    assert asks.stderr.splitlines()[2].split() == ["sign-off", "runs", "again", "ended", "failed", "with", "approval_rejected"]
    assert asks.stderr.splitlines()[-1] == (
        f"error[confirmation_needed]: Nothing was started. To start it: holdfast runs retry {run} --yes"
    )
    for words, code in [
        (["--from", "nowhere"], "node_not_found"),
        ([], "invalid_parameter"),
        (["--from", "twice", "--input", "[1]"], "invalid_parameter"),
        (["--input", "{"], "payload_not_json"),
    ]:
        wrong = holdfast("runs", "restart", run, *words, "--yes")
        assert (wrong.returncode, wrong.stderr.splitlines()[-1].startswith(f"error[{code}]")) == (2, True), wrong.stderr
    started = holdfast("runs", "retry", run, "--yes")
    new = started.stdout.strip()
    assert started.returncode == 0
    again = holdfast("run", "doubling.py", "--input", '{"n": 3}', "--key", "k")
    assert (again.returncode, new in again.stderr) == (4, True), "the key leads to the new run, which asks the person again"
    shown = holdfast("runs", "show", new).stdout, holdfast("runs", "show", run).stdout
    assert (f"restarts  {run}" in shown[0], f"restarted as {new}" in shown[1]) == (True, True)
    compared = holdfast("runs", "compare", run, new)
    assert (compared.returncode, "sign-off" in compared.stdout, "failed | waiting" in compared.stdout) == (1, True, True)
    assert json.loads(holdfast("runs", "compare", run, new, "--json").stdout)["same"] is False
    noted = [json.loads(line) for line in holdfast("audit", "--json", "--what", "retry").stdout.splitlines()]
    assert [(one["on"], one["outcome"]) for one in noted] == [(run, f"as {new}")]


def test_an_execution_is_restarted_from_an_operation_with_mended_code(tmp_path: Path) -> None:
    (tmp_path / "sale.py").write_text(SALE)
    holdfast = Program(tmp_path)
    holdfast("run", "sale.py", "--input", '{"n": 1}', "--name", "s")
    wrong = holdfast("executions", "restart", "s", "sale.py", "--from", "nowhere", "--yes")
    assert (wrong.returncode, wrong.stderr.splitlines()[-1].startswith("error[operation_not_found]")) == (2, True)
    (tmp_path / "mended.py").write_text(SALE.replace('"reserve"', '"reserve-all"'))
    differs = holdfast("executions", "restart", "s", "mended.py", "--from", "ship", "--yes")
    assert (differs.returncode, "reserve" in differs.stderr) == (1, True)
    asks = holdfast("executions", "restart", "s", "sale.py", "--from", "ship")
    assert (asks.returncode, "kept: 1 operation; run again: ship" in asks.stderr, "--yes" in asks.stderr) == (2, True, True)
    started = holdfast("executions", "restart", "s", "sale.py", "--from", "ship", "--input", '{"n": 2}', "--yes")
    assert started.returncode == 0, started.stderr
    ended = holdfast("run", "sale.py", "--input", '{"n": 2}', "--name", "s")
    assert json.loads(ended.stdout) == ["reserved", {"n": 2}]
    told = holdfast("executions", "show", "s").stdout
    assert ("restarts" in told, "ship" in told) == (True, True)


def test_a_served_run_is_planned_restarted_and_compared_over_http(tmp_path: Path) -> None:
    (tmp_path / "doubling.py").write_text(SOURCE)
    with programs(tmp_path) as started, web(started.begun("doubling.py", "--trust").started("/v1/workers/")) as client:
        asked = ask(client, "doubling", {"n": 4})
        run = asked.json()["run_id"]
        early = client.post(f"/v1/runs/{run}/retry", content="{}")
        client.post(f"/v1/approvals/{approval_in(asked)['approval_id']}/reject", content="{}")
        client.get(f"/v1/runs/{run}", params={"wait": "30"})
        plan = client.post(f"/v1/runs/{run}/retry", content='{"plan": true}').json()
        unknown = client.post(f"/v1/runs/{run}/restart", content='{"from": "nowhere"}')
        odd = client.post(f"/v1/runs/{run}/restart", content='{"form": "twice"}')
        new = client.post(f"/v1/runs/{run}/restart", content='{"from": "twice", "inputs": {"n": 5}}', params={"wait": "30"}).json()
        told = client.get(f"/v1/runs/{run}/compare/{new['run_id']}").json()
        missing = client.get(f"/v1/runs/{run}/compare/none")
    assert (early.status_code, early.json()["error"]["error_code"]) == (409, "restart_refused")
    assert [(one["node"], one["what"]) for one in plan["nodes"]][2] == ("sign-off", "again")
    assert (unknown.status_code, unknown.json()["error"]["error_code"]) == (422, "node_not_found")
    assert (odd.status_code, missing.status_code) == (400, 404)
    assert new["run_id"] != run
    assert [(one["path"], one["a"], one["b"]) for one in told["inputs"]] == [("n", "4", "5")]

"""Pipelines on the command line, by the real program: run, the nodes of a run, its runs, its events and its drawing."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from pathlib import Path

import pytest

from tests.surface.cli_program import Program

SOURCE = """from holdfast import Pipeline


def doubled(inputs):
    return {"n": inputs["n"] * 2}


p = Pipeline("doubling", "1.0", inputs={"type": "object"}, outputs={"type": "object"})
twice = p.step("twice", doubled, {"n": p.inputs.n})
again = p.step("again", doubled, {"n": twice.outputs.n})
signed = p.human("sign-off", show={"n": again.outputs.n}, question="Is it right?")
p.gives({"n": again.outputs.n, "by": signed.verdict})
"""


@pytest.fixture
def holdfast(tmp_path: Path) -> Program:
    (tmp_path / "doubling.py").write_text(SOURCE)
    return Program(tmp_path)


def test_a_pipeline_runs_to_its_person_shows_its_nodes_and_goes_on_with_the_same_key(holdfast: Program) -> None:
    asked = holdfast("run", "doubling.py", "--input", '{"n": 3}', "--key", "k")
    assert asked.returncode == 4
    assert [line for line in asked.stderr.splitlines() if line.startswith(("twice", "again", "sign-off"))][:2] == [
        "twice: ● ok",
        "again: ● ok",
    ]
    (listed,) = [json.loads(line) for line in holdfast("runs", "list", "--json").stdout.splitlines()]
    run = listed["run_id"]
    shown = json.loads(holdfast("runs", "show", run, "--json").stdout)
    assert [(node["node"], node["state"]) for node in shown["nodes"]] == [("twice", "ok"), ("again", "ok"), ("sign-off", "waiting")]
    (approval,) = shown["nodes"][2]["waits_for"]
    drawn = holdfast("graph", run)
    assert (drawn.returncode, "● ok" in drawn.stdout, "◇ person" in drawn.stdout) == (0, True, True)
    assert "sign-off" in holdfast("runs", "show", run).stdout
    assert holdfast("approvals", "approve", approval).returncode == 0
    ended = holdfast("run", "doubling.py", "--input", '{"n": 3}', "--key", "k")
    assert (ended.returncode, json.loads(ended.stdout)) == (0, {"n": 12, "by": "approve"})
    events = [json.loads(line) for line in holdfast("runs", "follow", run, "--json").stdout.splitlines()]
    assert [event["event"] for event in events if event["event"] in ("accepted", "approval", "done")] == [
        "accepted",
        "approval",
        "approval",
        "done",
    ]
    ends = [event["data"]["node"] for event in events if event["event"] == "node" and event["data"]["state"] == "ok"]
    assert ends == ["twice", "again", "sign-off"]
    lines = holdfast("runs", "follow", run, "--after", str(events[0]["id"])).stdout.splitlines()
    assert [line for line in lines if line.startswith("node ") and line.endswith(": ok")] == [f"node {node}: ok" for node in ends]
    assert (lines[0].startswith("accepted"), lines[-1]) == (False, "done: ok")
    assert holdfast("runs", "follow", run, "--after", "soon").returncode == 2


def test_a_run_that_is_not_there_has_no_graph(holdfast: Program) -> None:
    holdfast("run", "doubling.py", "--input", '{"n": 3}', "--key", "k")
    missing = holdfast("graph", "no-such-run")
    assert (missing.returncode, "no-such-run" in missing.stderr, "Traceback" in missing.stderr) == (2, True, False)


def test_a_run_whose_graph_the_store_does_not_have_says_so(holdfast: Program, tmp_path: Path) -> None:
    holdfast("run", "doubling.py", "--input", '{"n": 3}', "--key", "k")
    run = json.loads(holdfast("runs", "list", "--json").stdout)["run_id"]
    with contextlib.closing(sqlite3.connect(tmp_path / "holdfast.db")) as store, store:
        store.execute("DELETE FROM graphs")
    missing = holdfast("graph", run)
    told = f"Run {run} is a run of the pipeline doubling, and this store does not have its graph."
    assert (missing.returncode, told in " ".join(missing.stderr.split()), "Traceback" in missing.stderr) == (2, True, False)

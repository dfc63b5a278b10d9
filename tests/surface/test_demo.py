"""`make demo` and `make demo-durable`, as a newcomer runs them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.service.client import Client

NODES_AFTER_THE_KILL = [
    "facts: ● ok",
    "report: ● ok · 1 conflict: .delivery_days",
    "check: ■ blocked · wants facts again: summary_too_long at .summary: It has more than 280 characters.",
    "facts (round 2): ● ok",
    "report (round 2): ● ok · 1 conflict: .delivery_days",
    "check (round 2): ● ok",
    "publish: ● ok",
    "read-back: ● ok",
]


@pytest.mark.long
def test_the_demo_of_pipelines_is_killed_while_it_publishes_and_publishes_once(root: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path), "NO_COLOR": "1"}
    ran = subprocess.run(
        [sys.executable, root / "examples/vendor_research/demo.py"], cwd=tmp_path, env=environment, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, timeout=90, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout
    waited, killed, resumed = ran.stdout.split("$ holdfast run vendor_research.py --input @case.json --key demo")[1:]
    assert "pages: ◕ partial · 6/6 · 1 failed · item 5: page_not_found" in waited
    assert "needs_human: approval a_" in waited
    assert "-- kill -9 " in re.sub(r"-- [\d.]+ s  ", "-- ", killed)
    assert [line for line in resumed.splitlines() if line in NODES_AFTER_THE_KILL] == NODES_AFTER_THE_KILL
    assert "conflict at .delivery_days: facts say 3, prices say 5" in resumed
    assert "cost: $0.0021 for 1,489 tokens, 13 tool calls" in resumed
    assert "Reports that the server received: 1," in resumed
    assert resumed.rstrip().endswith("console --store demo.db")
    with Client.open(str(tmp_path / "demo.db")) as kept:
        assert [one.accepted.labels.pipeline for one in kept.runs.list("vendor-research")] == [None]
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("holdfast-demo-")] == []


def test_the_demo_of_durable_functions_is_killed_in_the_middle_and_finishes_all_the_same(root: Path) -> None:
    ran = subprocess.run([sys.executable, "examples/order_demo.py"], cwd=root, capture_output=True, text=True, timeout=90, check=False)
    assert ran.returncode == 0, ran.stderr
    told = re.findall(r"^ *[\d.]+ s  +(.*)$", ran.stdout, re.M)
    events = [line.split()[1] for line in told if line[0].isdigit()]
    assert events == [
        "ExecutionStarted",
        "StepStarted",
        "StepSucceeded",
        "CallbackStarted",
        "StepStarted",
        "StepSucceeded",
        "InvocationCompleted",
        "CallbackSucceeded",
        "StepStarted",
        "StepFailed",
        "InvocationCompleted",
        "StepStarted",
        "InvocationCompleted",
        "StepSucceeded",
        "InvocationCompleted",
        "ExecutionSucceeded",
    ]
    assert "kill -9" in ran.stdout
    assert "Runtime.ExitError" in ran.stdout
    assert "-- result: {'order_id': '42', 'status': 'processed'}" in told

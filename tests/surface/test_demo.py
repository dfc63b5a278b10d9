"""`make demo`, as a newcomer runs it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path


def test_the_demo_is_killed_in_the_middle_and_finishes_all_the_same(root: Path) -> None:
    ran = subprocess.run([sys.executable, "examples/demo.py"], cwd=root, capture_output=True, text=True, timeout=90, check=False)
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

"""The official SDK for AWS Lambda durable functions on its local test runner, in one process.

Its settings, and why:
- the runner's SQLite store, the more durable of the two that outlive a process. It commits in WAL mode with `synchronous=NORMAL` and has
  no setting for FULL: left as it is, in its favour;
- the in-process runner, not its web server: 16 ms a step instead of 28;
- no skipped time and no waiting are involved, so its clock does not matter.

W4 and W5 are not here: it is a runner for tests, whose executions live as long as its process. HTTP is its emulator's web server
(aws_emulator.py), on the same kind of store.

    python -m bench.peers.aws_sdk WORKLOAD FOLDER SIZES
"""

from __future__ import annotations

import json
import logging
import statistics
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, Final

from aws_durable_execution_sdk_python import DurableContext, StepContext, durable_execution, durable_step
from aws_durable_execution_sdk_python_testing.runner import DurableFunctionTestRunner
from aws_durable_execution_sdk_python_testing.stores.sqlite import SQLiteExecutionStore

from bench.peers import aws_emulator
from bench.terms import PAYLOAD, Sizes

Figures = dict[str, list[float]]
LONGEST_SECONDS: Final = 3_600
numbers = count()


@durable_step
def step(context: StepContext, number: int) -> dict[str, Any]:
    return {**PAYLOAD, "number": number}


@durable_execution
def handler(event: dict[str, Any], context: DurableContext) -> int:
    """Steps one after the other, or all at once in branches of their own."""
    if not event["branches"]:
        for number in range(event["steps"]):
            context.step(step(number))
        return int(event["steps"])

    def of(number: int) -> Callable[[DurableContext], dict[str, Any]]:
        return lambda child: child.step(step(number))

    return len(context.parallel([of(number) for number in range(event["steps"])]).get_results())


class Runner:
    """The runner over a new file."""

    def __init__(self, file: Path) -> None:
        self._runner = DurableFunctionTestRunner(
            handler, execution_timeout=LONGEST_SECONDS, store=SQLiteExecutionStore.create_and_initialize(file)
        )

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.close()  # type: ignore[no-untyped-call]

    def start(self, steps: int, *, branches: bool = False) -> str:
        event = json.dumps({"steps": steps, "branches": branches, **PAYLOAD})
        return self._runner.run_async(input=event, execution_name=f"bench-{next(numbers)}")

    def wait(self, execution: str, steps: int) -> None:
        ended = self._runner.wait_for_result(execution, timeout=LONGEST_SECONDS)
        assert ended.result == str(steps), f"it ended with {ended.status}: {ended.result or ended.error}"

    def run(self, steps: int, *, branches: bool = False) -> float:
        """Seconds from start to result."""
        began = perf_counter()
        self.wait(self.start(steps, branches=branches), steps)
        return perf_counter() - began


def w1(runner: Runner, sizes: Sizes) -> Figures:
    runner.run(20)
    return {"W1": [runner.run(sizes.w1_steps) / sizes.w1_steps for _ in range(sizes.few)]}


def w2(runner: Runner, sizes: Sizes) -> Figures:
    def all_of(executions: int) -> float:
        began = perf_counter()
        for execution in [runner.start(sizes.w2_steps) for _ in range(executions)]:
            runner.wait(execution, sizes.w2_steps)
        return perf_counter() - began

    all_of(min(50, sizes.w2_executions))
    return {"W2": [sizes.w2_executions * sizes.w2_steps / all_of(sizes.w2_executions) for _ in range(sizes.few)]}


def w3(runner: Runner, sizes: Sizes) -> Figures:
    """Not the 10,000: the runner writes the whole execution again at every step, which would take an hour."""
    runner.run(20, branches=True)
    return {"W3 parallel": [runner.run(sizes.w3_branches, branches=True) for _ in range(sizes.few)]}


def w6(runner: Runner, sizes: Sizes) -> Figures:
    """Once: it is the slowest of all here."""
    for _ in range(10):
        runner.run(1)
    times = [runner.run(1) for _ in range(sizes.w6_rounds)]
    return {"W6": [statistics.median(times)], "W6 p99": [statistics.quantiles(times, n=100)[98]]}


WORKLOADS: Final = {"W1": w1, "W2": w2, "W3": w3, "W6": w6}


def main() -> None:
    logging.disable(logging.WARNING)
    workload, place, terms = sys.argv[1:]
    # Its threads may still write when it is closed, so the folder may not be empty once it was emptied.
    place_of = TemporaryDirectory(dir=place, prefix="bench-", ignore_cleanup_errors=True)
    with place_of as folder:
        if workload == "HTTP":
            print(json.dumps(aws_emulator.http(Path(folder), Sizes.from_json(terms))))
            return
        with Runner(Path(folder) / "aws.db") as runner:
            print(json.dumps(WORKLOADS[workload](runner, Sizes.from_json(terms))))


if __name__ == "__main__":
    main()

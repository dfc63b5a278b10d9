"""Runtime processes are killed at random moments; every execution finishes, and nothing that was acknowledged is lost or repeated."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
from pathlib import Path

import pytest

from holdfast.lambda_api.runtime.process_output import OutputLine
from tests.flow.runtime.running import durable, serving

EXECUTIONS = 12
STEPS = 8
KILLS = 10


@pytest.mark.long
async def test_killed_again_and_again_everything_finishes(tmp_path: Path) -> None:
    chance = random.Random(5)
    killed: list[int] = []

    async with serving(durable("counts"), where=tmp_path / "test.db", per_function=4) as service:
        loop = service.loop

        def kill(pid: int) -> None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)

        def strike(lines: list[OutputLine]) -> None:
            for line in lines:
                if line.text.startswith("pid ") and len(killed) < KILLS and chance.random() < 0.6:
                    loop.call_later(chance.random() / 20, kill, int(line.text.split()[1]))

        service.host.log = strike
        marks = tmp_path / "marks"
        marks.mkdir()
        started = {
            number: await service.start("counts", json.dumps({"folder": str(marks), "name": str(number), "steps": STEPS}))
            for number in range(EXECUTIONS)
        }
        for number, execution in started.items():
            status, payload = await service.ending(execution)
            assert status == "SUCCEEDED", payload
            results = json.loads(payload or "null")
            ran = [(marks / f"{number}-{step}").stat().st_size for step in range(STEPS)]
            assert all(1 <= result <= times for result, times in zip(results, ran, strict=True))
            told = [event["EventType"] for event in service.history(execution)]
            assert told.count("StepSucceeded") == STEPS, "each step was acknowledged once"
            assert sum(ran) <= STEPS + told.count("InvocationCompleted") - 1, "a lost invocation repeats one step at most"
        assert len(killed) >= KILLS / 2

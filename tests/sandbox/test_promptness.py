"""How soon: within 250 ms of its limit everything of an attempt is gone, and a warm attempt costs next to nothing."""

from __future__ import annotations

import asyncio
import os
import statistics

import pytest

from holdfast.hosts.sandbox.jail import BodyEnd, Frame
from holdfast.hosts.sandbox.sandbox import Sandbox
from holdfast.model.clock import monotonic
from tests.sandbox.conftest import BODIES, Scene, Scenes, in_each_setting
from tests.sandbox.scene import jail_of

pytestmark = pytest.mark.alone

SOON = 0.25
REACHED = 0.15
"""What a bomb needs to reach its limit, on a slow machine."""


WAYS = ("sleep", "sleep_through_signals", "blocked_in_c", "backtracking", "fork_bomb", "flood")
BOMBS = {
    "memory": "memory_exceeded",
    "memory_stubborn": "memory_exceeded",
    "memory_in_c": "memory_exceeded",
    "disk_in_pieces": "disk_exceeded",
    "threads": "process_limit",
}


def takes_many(body: str) -> bool:
    """Processes or threads."""
    return body in ("fork_bomb", "threads")


@pytest.mark.parametrize("setting, way", in_each_setting(WAYS, takes_many))
def test_a_timeout_ends_everything_within_250_ms(scenes: Scenes, setting: str, way: str) -> None:
    found = scenes(setting).attempt(f"greedy:{way}", timeout=0.5)
    assert found["code"] == "timeout"
    assert found["seconds"] < 0.5 + SOON


def test_idleness_ends_within_250_ms(scene: Scene) -> None:
    found = scene.attempt("greedy:sleep", timeout=20, idle_timeout=0.3)
    assert found["code"] == "idle_timeout"
    assert found["seconds"] < 0.3 + SOON


def test_cpu_ends_within_250_ms(scene: Scene) -> None:
    found = scene.attempt("greedy:cpu", jail={"cpu_seconds": 0.5})
    assert found["code"] == "cpu_exceeded"
    assert 0.4 < found["cpu"] < 0.5 + SOON * (os.cpu_count() or 1)


@pytest.mark.parametrize("setting, bomb", in_each_setting(BOMBS, takes_many))
def test_a_bomb_ends_within_250_ms(scenes: Scenes, setting: str, bomb: str) -> None:
    found = scenes(setting).attempt(f"greedy:{bomb}", jail={"memory_mb": 1024 if bomb == "threads" else 128})
    assert found["code"] == BOMBS[bomb]
    assert found["seconds"] < REACHED + SOON


def test_a_fork_bomb_ends_within_250_ms(apart: Scene) -> None:
    found = apart.attempt("greedy:fork_bomb", jail={"allow_children": True})
    assert found["code"] == "process_limit"
    assert found["seconds"] < REACHED + SOON


async def test_a_warm_attempt_starts_within_8_ms() -> None:
    sandbox = Sandbox(jail_of(str(BODIES), "talker:printing"))
    times = []
    try:
        for _ in range(30):
            await sandbox.start()
            assert sandbox._spare is not None
            await sandbox._spare.settled()
            began = monotonic()
            attempt = await sandbox.attempt(10)
            await attempt.send({"op": "run"})
            assert isinstance(await attempt.receive(), Frame)
            times.append(monotonic() - began)
            while not isinstance(await attempt.receive(), BodyEnd):
                await asyncio.sleep(0)
    finally:
        await sandbox.close()
    assert statistics.median(times) < 0.008

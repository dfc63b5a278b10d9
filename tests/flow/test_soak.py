"""`make soak`, in two seconds: the load runs, the second process and its slow reader are there, and a broken law would be noticed."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast
from bench.soak import Look, Soak, leases_lost
from holdfast import AsyncDurableContext, durable_execution
from tests.conftest import ROOT


def test_a_short_soak_keeps_every_law_and_leaves_nothing_behind(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench.soak", str(tmp_path), "--seconds", "2"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=100)
    assert (ended.returncode, ended.stderr) == (0, ""), ended.stdout + ended.stderr
    *_, told, kept = ended.stdout.splitlines()  # on a busy machine it has more to say on its way
    counted = re.fullmatch(r"([\d,]+) executions in 2 s: memory \d+ to \d+ MB, WAL at most [\d.]+ MB, nothing ran for up to [\d.]+ s", told)
    assert counted is not None
    assert int(counted[1].replace(",", "")) >= 100
    assert kept == "nothing grew, no lease was lost, every result is right"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "looks, broken",
    [
        ([Look(100, 33, 1)] * 60, []),
        ([Look(50 + n / 2, 33, n) for n in range(20)] + [Look(100, 33, 20)] * 40, []),
        ([Look(100, 33, 1)] * 30 + [Look(100, 64, 1)] + [Look(100, 33, 1)] * 30, ["the WAL grew to 64.0 MB"]),
        ([Look(300 + 5 * n, 33, 1) for n in range(60)], ["memory grew from 450 to 595 MB"]),
    ],
    ids=["flat", "flat once it is warm", "WAL", "memory"],
)
def test_what_grows_is_noticed(looks: list[Look], broken: list[str], tmp_path: Path) -> None:
    soak = Soak(tmp_path / "soak.db", 60)
    soak.looks = looks
    assert soak.broken() == broken


def test_a_wrong_result_is_noticed(tmp_path: Path) -> None:
    soak = Soak(tmp_path / "soak.db", 60)
    soak.looks = [Look(100, 33, 1)] * 60
    soak.wrong = ["steps came to 9"]
    assert soak.broken() == ["steps came to 9"]


DIES = """
import asyncio, os, signal, sys
import holdfast

@holdfast.durable_execution
async def fragile(event, context):
    return await context.step(lambda _: os.kill(os.getpid(), signal.SIGKILL))

async def main():
    async with holdfast.open(sys.argv[1], functions=[fragile]) as engine:
        await (await engine.start("fragile", name="once")).result()

asyncio.run(main())
"""


@durable_execution
async def fragile(event: None, context: AsyncDurableContext) -> str:
    return await context.step(lambda _: "whole")


def test_a_lost_lease_is_noticed(tmp_path: Path) -> None:
    """The executions of a runner that seems dead are taken over, and the history shows it; here the runner really dies."""
    store = tmp_path / "soak.db"
    ended = subprocess.run([sys.executable, "-c", DIES, str(store)], check=False, timeout=60)
    assert ended.returncode == -signal.SIGKILL
    assert leases_lost(store) == 0
    with holdfast.open(store, functions=[fragile]) as engine:
        assert engine.start("fragile", name="once").result() == "whole"
    assert leases_lost(store) == 1

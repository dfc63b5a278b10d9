"""A function has the memory that its configuration says, and no more."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast.lambda_api.runtime.jobs import JobResult
from holdfast.lambda_api.runtime.runtime_host import RuntimeHost
from holdfast.model.ids import LATEST
from tests.flow.runtime.running import hosting, plain
from tests.flow.runtime.test_node import node

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells how much memory a process has")


async def call(host: RuntimeHost, function: str, event: Any) -> JobResult:
    return await host.call(function, LATEST, json.dumps(event).encode())


def assert_out_of_memory(called: JobResult, memory_mb: int) -> None:
    assert called.error is not None
    assert called.error.type == "Runtime.ExitError"
    assert called.error.message == f"RequestId: {called.request} Error: Runtime exited with error: signal: killed"
    report = called.tail.decode().splitlines()[-1]
    assert f"Memory Size: {memory_mb} MB\tMax Memory Used: {memory_mb} MB" in report
    assert "Status: error\tError Type: Runtime.OutOfMemory" in report


async def test_a_function_with_more_memory_than_it_may_have_is_killed_and_replaced() -> None:
    async with hosting(plain("hoards", memory_mb=192)) as (host, _):
        assert (await call(host, "hoards", {"mb": 100, "seconds": 0.5})).payload == b"100"
        assert_out_of_memory(await call(host, "hoards", {"mb": 250, "seconds": 25}), 192)
        assert (await call(host, "hoards", {"mb": 10, "seconds": 0})).payload == b"10"


async def test_address_space_that_is_not_used_costs_nothing() -> None:
    async with hosting(plain("hoards", memory_mb=128)) as (host, _):
        assert (await call(host, "hoards", {"mb": 1, "seconds": 0.5, "reserve": 4096})).payload == b"1"


async def test_what_children_have_counts_and_what_they_share_counts_once() -> None:
    async with hosting(plain("hoards", memory_mb=256)) as (host, _):
        shared = await call(host, "hoards", {"mb": 120, "seconds": 1, "forks": 3})
        assert shared.payload == b"120", "four processes with the same 120 MB"
        assert_out_of_memory(await call(host, "hoards", {"mb": 1, "seconds": 25, "forks": 3, "each": 100}), 256)


async def test_memory_is_bounded_while_a_function_begins(tmp_path: Path) -> None:
    code = "import os, threading\nkept = [os.urandom(2**20) for _ in range(300)]\nthreading.Event().wait(25)\n"
    (tmp_path / "greedy.py").write_text(code)
    async with hosting(plain("echo", handler="greedy.handler", folder=str(tmp_path), memory_mb=128)) as (host, lines):
        called = await call(host, "echo", None)
        assert called.error is not None
        assert (called.error.type, "signal: killed" in str(called.error)) == ("Runtime.ExitError", True)
        assert "Error Type: Runtime.OutOfMemory" in lines[-1].text


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no node here")
async def test_node_is_bounded_too_and_lives_within_little() -> None:
    async with hosting(node("plain.hoards", memory_mb=160)) as (host, _):
        litter = await call(host, "f", {"litter": 600})
        assert litter.payload == b"600", "garbage is freed before the limit is reached"
        assert_out_of_memory(await call(host, "f", {"mb": 300}), 160)


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no node here")
async def test_node_may_use_almost_all_of_its_memory_for_its_heap_as_on_lambda() -> None:
    async with hosting(node("plain.hoards", memory_mb=128)) as (host, _):
        for _ in range(2):
            called = await call(host, "f", {"heap": 80})
            assert (called.error, called.payload) == (None, b"80")

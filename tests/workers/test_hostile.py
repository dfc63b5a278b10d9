"""A body that breaks the rules of the line ends its own attempt and nothing else; what it hands over is JSON, to the last digit."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.service.engines import BlockingEngine
from tests.workers.bodies.hostile import FRAMES, ODD
from tests.workers.pages import page, write

HOSTILE = Path(__file__).parent / "bodies" / "hostile.py"


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BlockingEngine]:
    folder = tmp_path_factory.mktemp("hostile")
    file = write(folder / "worker", HOSTILE, hostile=page("hostile", "look", attempts=1, timeout_seconds=20))
    with holdfast.open(str(folder / "s.db"), workers=[file]) as engine:
        yield engine


def run(engine: BlockingEngine, do: str, constraints: dict[str, Any] | None = None, **inputs: Any) -> Any:
    return engine.run("hostile", {"do": do, **inputs}, constraints=constraints, wait=15)


@pytest.mark.parametrize("which", FRAMES)
def test_a_frame_that_breaks_the_rules_ends_the_attempt(engine: BlockingEngine, which: str) -> None:
    response = run(engine, "frames", which=which)
    assert (response.status, response.error.error_code) == ("retryable_error", "worker_crashed")
    assert run(engine, "nothing").status == "ok"


@pytest.mark.parametrize("which", ODD)
def test_outputs_that_are_no_json_do_not_fit_and_the_response_says_why(engine: BlockingEngine, which: str) -> None:
    response = run(engine, "odd", which=which)
    assert (response.status, response.error.error_code) == ("invalid_output", "output_schema_mismatch")
    assert "JSON" in response.error.message or "Unicode" in response.error.message


def test_numbers_of_any_size_come_and_go_as_they_are(engine: BlockingEngine) -> None:
    response = run(engine, "large", n=2**80)
    assert response.outputs == {"answer": 2**80 + 1, "looked": 2**70}


@pytest.mark.parametrize("size", [1 << 20, 5 << 20, 9 << 20], ids=["1 MiB", "5 MiB", "9 MiB"])
@pytest.mark.parametrize("do", ["long argument", "long error"])
def test_a_message_that_the_runner_does_not_take_is_refused_before_it_is_sent_and_says_what_to_do(
    engine: BlockingEngine, do: str, size: int
) -> None:
    error = run(engine, do, size=size).error
    assert (error.error_code, error.retryable) == ("artifact_too_large", False)
    assert "bytes as JSON, and at most" in error.message
    assert "Store large values with ctx.artifact" in error.message


def test_names_of_any_kind_are_taken_or_refused(engine: BlockingEngine) -> None:
    response = run(engine, "names")
    assert response.status == "ok", response
    assert [line["level"] for line in response.logs] == ["warning", "info"] * 2


def test_a_body_that_does_not_read_is_ended_in_time_and_leaves_no_descriptor(engine: BlockingEngine) -> None:
    run(engine, "nothing")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        response = run(engine, "deaf", {"timeout_seconds": 1})
        assert response.error.error_code == "timeout"
    assert run(engine, "nothing").status == "ok"
    assert len(os.listdir("/proc/self/fd")) < before + 12


def test_a_body_that_hangs_in_its_own_step_is_idle(engine: BlockingEngine) -> None:
    response = run(engine, "idle", {"idle_timeout_seconds": 0.5})
    assert response.error.error_code == "idle_timeout"

"""Large payloads from real processes: what is within the limits arrives, what is not is a clear error, and nothing waits for ever."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.model.codec import MAX_PAYLOAD_BYTES
from tests.surface.serve_program import DATA, Program, programs

QUOTES = 2
"""Bytes that a text has more in JSON."""
AT_MOST = MAX_PAYLOAD_BYTES - QUOTES
SDK_BATCH_BYTES = 750 * 1024
"""What the official SDKs put into one checkpoint, unless a single update is larger."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    folder = tmp_path_factory.mktemp("large")
    shutil.copytree(DATA / "large", folder / "large", ignore=shutil.ignore_patterns("__pycache__"))
    with programs(folder) as made:
        yield made("large")


def invoked(server: Program, function: str, **event: object) -> Any:
    return server.invoke(f"{function}:$LATEST", event)


def invocations(server: Program, arn: str) -> list[str | None]:
    """How each invocation ended: the type of its error, or nothing."""
    completed = [event for event in server.history(arn) if event["EventType"] == "InvocationCompleted"]
    return [event["InvocationCompletedDetails"].get("Error", {}).get("Payload", {}).get("ErrorType") for event in completed]


@pytest.mark.parametrize("size", [1_000, SDK_BATCH_BYTES + 1, pytest.param(3_000_000, marks=pytest.mark.long), AT_MOST])
@pytest.mark.parametrize("function", ["once", "ours"])
def test_a_result_within_the_limit_arrives(server: Program, function: str, size: int) -> None:
    answer = invoked(server, function, size=size)
    assert answer["Payload"] == size
    assert invocations(server, answer["DurableExecutionArn"]) == [None]
    (payload,) = (
        event["StepSucceededDetails"]["Result"]["Payload"]
        for event in server.history(answer["DurableExecutionArn"])
        if event["EventType"] == "StepSucceeded"
    )
    assert len(payload) == size + QUOTES


@pytest.mark.parametrize("size", [AT_MOST + 1, pytest.param(8_000_000, marks=pytest.mark.long)])
def test_a_result_above_the_limit_is_awss_error_at_once(server: Program, size: int) -> None:
    answer = invoked(server, "once", size=size)
    assert answer["FunctionError"] == "Unhandled"
    assert "InvalidParameterValueException" in answer["Payload"]["errorMessage"]
    assert f"STEP output payload size must be less than or equal to {MAX_PAYLOAD_BYTES} bytes." in answer["Payload"]["errorMessage"]
    assert server.ended(answer["DurableExecutionArn"])["Status"] == "FAILED"
    assert invocations(server, answer["DurableExecutionArn"]) == [None], "a retry would be too large again"


def test_more_than_fits_into_an_event_is_there_again_after_a_suspension(server: Program) -> None:
    answer = invoked(server, "many", size=700_000, steps=12)
    assert answer["Payload"] == 12 * 700_000
    kinds = [event["EventType"] for event in server.history(answer["DurableExecutionArn"])]
    assert kinds.count("StepSucceeded") == kinds.count("StepStarted") == 12


@pytest.mark.parametrize("size", [pytest.param(AT_MOST - 100, marks=pytest.mark.long), AT_MOST])
def test_an_execution_may_return_as_much_as_an_operation_may(server: Program, size: int) -> None:
    """The official SDK writes what does not fit into its answer by a checkpoint."""
    assert len(invoked(server, "returns", size=size)["Payload"]) == size


@pytest.mark.long
def test_what_the_official_sdk_never_sends_comes_with_its_next_invocation(server: Program) -> None:
    """SDK 3.0 puts an update that does not fit beside a START aside, and then finds that it does not fit into an empty request either:
    it waits for ever, on its own emulator too. The function's timeout ends that, and the next invocation has the START already."""
    answer = invoked(server, "quick", size=SDK_BATCH_BYTES + 1)
    assert answer["Payload"] == SDK_BATCH_BYTES + 1
    assert invocations(server, answer["DurableExecutionArn"]) == ["Sandbox.Timedout", None]

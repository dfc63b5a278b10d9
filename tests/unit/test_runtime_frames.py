"""Frames of runtime clients: whole records with their levels, whatever a process writes in their place; and which of them are kept."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.lambda_api.runtime import jobs, platform_log
from holdfast.lambda_api.runtime.jobs import InvocationRequest
from holdfast.lambda_api.runtime.process_output import OutputLine, ProcessOutput
from holdfast.lambda_api.runtime.runtime_description import Runtime
from holdfast.lambda_api.runtime.telemetry_frames import TelemetryFrame, TelemetryFrames
from holdfast.model.errors import InvalidParameter
from holdfast.model.operations import Failure

TEXT, JSON = 3, 2
ERROR = 5 << 2


def frame(text: bytes, kind: int = TEXT, length: int | None = None) -> bytes:
    return struct.pack(">IIQ", 0xA55A0000 | kind, len(text) if length is None else length, 17) + text


@given(st.lists(st.binary(max_size=40), max_size=8), st.lists(st.integers(1, 50), max_size=30))
def test_records_come_out_as_they_went_in_however_the_bytes_are_cut(records: list[bytes], cuts: list[int]) -> None:
    whole = b"".join(frame(one + b"\n") for one in records)
    frames, found = TelemetryFrames(1000), list[TelemetryFrame]()
    for size in cuts:
        part, whole = whole[:size], whole[size:]
        found += frames.take(part)
    found += frames.take(whole)
    assert [one.text for one in found] == records
    assert frames.rest() == []


@pytest.mark.parametrize("bits, level", list(enumerate([None, "TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"])))
@pytest.mark.parametrize("kind", [TEXT, JSON])
def test_a_frame_says_how_grave_it_is(bits: int, level: str | None, kind: int) -> None:
    assert TelemetryFrames(100).take(frame(b"x", bits << 2 | kind)) == [TelemetryFrame(b"x", level)]


def test_what_is_no_frame_is_told_as_text_and_the_next_frame_is_found() -> None:
    found = TelemetryFrames(100).take(b"a process wrote this\nby itself" + frame(b"a record") + frame(b"x", 0xFF) + frame(b"the last"))
    assert [one.text for one in found if one.text.isascii()] == [b"a process wrote this", b"by itself", b"a record", b"the last"]


@given(st.binary(max_size=300))
def test_no_bytes_break_it_and_none_of_them_stay(data: bytes) -> None:
    frames = TelemetryFrames(64)
    frames.take(data)
    frames.rest()
    assert frames.take(frame(b"after")) == [TelemetryFrame(b"after", None)]


def test_bytes_after_the_last_record_have_no_level_and_the_begin_of_a_record_has_its_own() -> None:
    frames = TelemetryFrames(100)
    assert frames.take(frame(b"no", TEXT | ERROR) + b"stray") == [TelemetryFrame(b"no", "ERROR")]
    assert frames.rest() == [TelemetryFrame(b"stray", None)]
    frames.take(frame(b"half of", TEXT | ERROR, length=50))
    assert frames.rest() == [TelemetryFrame(b"half of", "ERROR")]


def test_a_length_that_a_process_announces_is_not_kept_in_memory() -> None:
    frames = TelemetryFrames(100)
    frames.take(frame(b"", length=2**32 - 1))
    for _ in range(50):
        assert [len(one.text) for one in frames.take(b"x" * 100)] == [100]
    assert frames.take(b"the rest") == []
    assert frames.rest() == [TelemetryFrame(b"the rest", None)], "it ended in the middle"


# --- which are kept


def output(told: list[OutputLine], **members: Any) -> ProcessOutput:
    return ProcessOutput(Runtime(function="f", folder=".", handler="a.b", **members), "stream", lambda: 1_767_225_600_000, told.extend)


@pytest.mark.parametrize(
    "level, kept",
    [
        ("TRACE", ["print", "debug", "info", "warn", "none", "frame"]),
        (None, ["print", "info", "warn", "none", "frame"]),
        ("WARN", ["warn", "frame"]),
        ("ERROR", ["frame"]),
    ],
)
def test_with_json_records_below_the_application_level_are_not_kept(level: str | None, kept: list[str]) -> None:
    told: list[OutputLine] = []
    taken = output(told, log_format="JSON", application_log_level=level)
    taken.take(b"print\n")
    for name in ("debug", "info", "warn"):
        said = {"level": name, "timestamp": "2026-01-01T00:00:00.123Z", "message": name}
        taken.take(json.dumps(said).encode() + b"\n")
    taken.take(b'{"level": "debug", "message": "none"}\n')  # without a time its level is not believed
    taken.log(frame(b"frame", ERROR | JSON))
    assert [_message(line) for line in told] == kept


def _message(line: OutputLine) -> str:
    return str(json.loads(line.text)["message"]) if line.text.startswith("{") else line.text


def test_with_text_every_record_is_kept() -> None:
    told: list[OutputLine] = []
    taken = output(told)
    taken.log(frame(b"quiet\nin two lines", 1 << 2 | TEXT))
    taken.take(b'{"level": "debug", "timestamp": "2026-01-01T00:00:00Z"}\n')
    first, _ = told
    assert (first.text, first.level) == ("quiet\nin two lines", "TRACE")


def ended(failure: Failure | None) -> platform_log.EndedRequest:
    return platform_log.EndedRequest(
        request=InvocationRequest(id="r", arn="arn"),
        failure=failure,
        kind=None if failure is None else failure.type,
        took_ms=1.5,
        memory_mb=128,
        used_mb=40,
        init_ms=9.25,
    )


@pytest.mark.parametrize(
    "level, fine, failed",
    [
        ("DEBUG", ["start", "runtimeDone", "report"], ["start", "fault", "runtimeDone", "report"]),
        (None, ["start", "report"], ["start", "fault", "runtimeDone", "report"]),
        ("WARN", [], ["fault", "runtimeDone", "report"]),
    ],
)
def test_with_json_the_platform_speaks_json_and_the_system_level_says_how_much(
    level: str | None, fine: list[str], failed: list[str]
) -> None:
    for failure, wanted in ((None, fine), (Failure(message="Runtime exited", type=jobs.EXITED), failed)):
        told: list[OutputLine] = []
        taken = output(told, log_format="JSON", system_log_level=level)
        taken.say(platform_log.started(InvocationRequest(id="r", arn="arn"), "3"))
        if failure is not None:
            taken.say(platform_log.fault(InvocationRequest(id="r", arn="arn"), failure))
        taken.say(ended(failure).done())
        taken.say(ended(failure).report())
        events = [json.loads(line.text) for line in told]
        assert [event["type"] for event in events] == [f"platform.{kind}" for kind in wanted]
        assert {event["time"] for event in events} <= {"2026-01-01T00:00:00.000Z"}
        assert all(line.platform for line in told)


def test_the_events_of_the_platform_have_lambdas_members() -> None:
    def record(event: platform_log.PlatformEvent) -> Any:
        return json.loads(event.json(0))["record"]

    metrics = {"durationMs": 1.5, "billedDurationMs": 2, "memorySizeMB": 128, "maxMemoryUsedMB": 40, "initDurationMs": 9.25}
    assert record(platform_log.started(InvocationRequest(id="r", arn="arn"), "3")) == {"requestId": "r", "version": "3"}
    assert record(ended(None).report()) == {"requestId": "r", "status": "success", "metrics": metrics}
    assert record(ended(Failure(type=jobs.TIMED_OUT)).report())["status"] == "timeout"
    raised = record(ended(Failure(type="ValueError")).done())
    assert (raised["status"], raised["errorType"]) == ("error", "ValueError")
    begun = record(platform_log.beginning(Runtime(function="f", folder=".", handler="a.b", runtime="python3.13")))
    assert (begun["initializationType"], begun["phase"], begun["runtimeVersion"]) == ("on-demand", "init", "python3.13")


@pytest.mark.parametrize(
    "members, why",
    [
        ({"application_log_level": "LOUD", "log_format": "JSON"}, "it must be one of TRACE, DEBUG, INFO, WARN, ERROR, FATAL"),
        ({"system_log_level": "ERROR", "log_format": "JSON"}, "it must be one of DEBUG, INFO, WARN"),
        ({"application_log_level": "INFO"}, "ApplicationLogLevel needs LogFormat JSON"),
    ],
)
def test_a_level_that_means_nothing_is_refused(members: dict[str, str], why: str) -> None:
    with pytest.raises(InvalidParameter, match=why):
        Runtime(function="f", folder=".", handler="a.b", **members).checked()  # type: ignore[arg-type]

"""What a process prints: whole lines, with their request, and a tail that stays small."""

from __future__ import annotations

import pytest

from holdfast.lambda_api.runtime.platform_log import PlatformEvent
from holdfast.lambda_api.runtime.process_output import MAX_LINE, TAIL, OutputLine, ProcessOutput
from holdfast.lambda_api.runtime.runtime_description import Runtime

RUNTIME = Runtime(function="f", folder=".", handler="a.b")


def output(told: list[OutputLine] | None = None) -> ProcessOutput:
    return ProcessOutput(RUNTIME, "stream", lambda: 17, None if told is None else told.extend)


def test_bytes_become_lines_however_they_come() -> None:
    told: list[OutputLine] = []
    taken = output(told)
    for part in (b"fir", b"st\nsec", "ond ü".encode()[:-1], "ü".encode()[-1:], b"\n\nlast"):
        taken.take(part)
    assert [line.text for line in told] == ["first", "second ü", ""]
    taken.flush()
    assert [line.text for line in told[3:]] == ["last"]
    taken.flush()
    assert len(told) == 4


def test_lines_carry_their_request_and_execution() -> None:
    told: list[OutputLine] = []
    taken = output(told)
    taken.take(b"while it began, to the end")
    taken.begin("r1", "arn")
    taken.take(b"in a request\n")
    assert [(line.at, line.function, line.version, line.stream, line.request, line.execution) for line in told] == [
        (17, "f", "$LATEST", "stream", None, None),
        (17, "f", "$LATEST", "stream", "r1", "arn"),
    ]


def test_a_line_without_end_is_told_in_pieces_and_not_kept() -> None:
    told: list[OutputLine] = []
    taken = output(told)
    for _ in range(40):
        taken.take(b"x" * 65536)
    assert {len(line.text) for line in told} == {MAX_LINE}
    assert sum(len(line.text) for line in told) >= 40 * 65536 - MAX_LINE
    taken.flush()
    assert sum(len(line.text) for line in told) == 40 * 65536


@pytest.mark.parametrize("size", [1, 10, TAIL - 1, TAIL, TAIL + 1, 5 * TAIL])
def test_the_tail_is_the_last_4_kb_of_the_request(size: int) -> None:
    taken = output()
    taken.begin("r0", None)
    taken.take(b"of another request\n")
    taken.begin("r1", None)
    whole = b"".join(b"%d" % number * size + b"\n" for number in range(9))
    taken.take(whole)
    assert taken.tail() == whole[-TAIL:]


def test_bytes_that_are_no_text_are_shown_as_such() -> None:
    told: list[OutputLine] = []
    output(told).take(b"\xff\xfe\r\n")
    assert told[0].text == "\ufffd\ufffd"


def test_a_log_that_fails_does_not_stop_the_function() -> None:
    def fails(_: list[OutputLine]) -> None:
        raise OSError("disk full")

    taken = ProcessOutput(RUNTIME, "stream", lambda: 17, fails)
    taken.begin("r", None)
    taken.take(b"a\n")
    taken.say(PlatformEvent("b", "start", {}))
    assert taken.tail() == b"a\nb\n"

"""What bodies and people wrote is shown, and steers no terminal; and a final answer is no 202."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from holdfast.cli.terminal import print_document, print_line, warn_of_root
from holdfast.cli.workers import summary
from holdfast.contract.codes import ResponseStatus
from holdfast.contract.protocol import Observability, Response, ResponseError, ResponseUsage, Tokens
from holdfast.server.protocol.worker_replies import http_status

STEERS = "\x1b[31m \x7f \x9b31m \u202e \u2028 \ud800"


def response(
    code: str, status: ResponseStatus = ResponseStatus.NEEDS_HUMAN, message: str = "so it is", approvals: tuple[dict[str, Any], ...] = ()
) -> Response:
    error = ResponseError(error_code=code, message=message, retryable=False)
    seen = Observability(trace_id="t", attempt=1)
    return Response(run_id="r", worker_id="w", version="1.0", status=status, error=error, approvals=approvals, observability=seen)


def test_json_for_the_terminal_says_the_same_and_steers_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    print_document({"x": STEERS, "é": "ü"})
    print_line([STEERS])
    shown = capsys.readouterr().out
    assert not set(shown) & set("\x1b\x7f\x9b\u202e\u2028\ud800")
    assert json.loads(shown.rpartition("}\n")[0] + "}") == {"x": STEERS, "é": "ü"}
    assert "ü" in shown


def test_what_a_body_says_cannot_steer_the_terminal_from_a_summary() -> None:
    asked = {"approval_id": "a_1", "kind": "question", "question": STEERS, "tool": "ask", "arguments": {}}
    called = {"approval_id": "a_1", "kind": "approve", "question": None, "tool": "pay", "arguments": {"to": STEERS, "for": ["x" * 30] * 3}}
    failed = response("mine", ResponseStatus.PERMANENT_ERROR, STEERS)
    for told in (summary(failed), summary(response("approval_required", approvals=(asked,))), summary(response("x", approvals=(called,)))):
        assert not set(told) & set("\x1b\x7f\x9b\u202e\u2028\ud800")
    assert summary(response("x", approvals=(called,))).splitlines()[0].endswith("xxx...)")


@pytest.mark.parametrize(
    "message, told",
    [
        ("The server did not answer in time.", "retryable_error: busy: The server did not answer in time, try again in 7 s, attempt 1"),
        ("It waits...", "retryable_error: busy: It waits..., try again in 7 s, attempt 1"),
    ],
)
def test_a_sentence_in_a_summary_goes_on_without_its_full_stop(message: str, told: str) -> None:
    error = ResponseError(error_code="busy", message=message, retryable=True, retry_after_seconds=7)
    answered = msgspec.structs.replace(response("busy", ResponseStatus.RETRYABLE_ERROR), error=error)
    assert summary(answered).startswith(told)


def test_a_summary_says_what_was_spent_and_that_something_is_missing() -> None:
    seen = Observability(
        trace_id="t", attempt=1, partial=True, usage=ResponseUsage(tokens=Tokens(1280, 209), cost_usd=Decimal("0.0021"), tool_calls=1)
    )
    answered = msgspec.structs.replace(response("x"), status=ResponseStatus.OK, error=None, observability=seen)
    assert summary(answered) == "ok, partial, attempt 1, 1,489 tokens, $0.0021, 1 tool call"


@pytest.mark.parametrize("code", ["unknown_outcome", "approval_required"])
def test_a_run_that_is_over_and_needs_a_person_is_a_conflict_and_no_202(code: str) -> None:
    assert http_status(response(code)) == 409
    assert http_status(response(code, approvals=({"approval_id": "a_1"},))) == 202


@pytest.mark.parametrize("code", ["output_schema_mismatch", "edge_mismatch", "a_code_of_the_contract"])
def test_outputs_that_do_not_fit_and_are_not_retried_get_no_status_that_clients_repeat(code: str) -> None:
    for retryable, status in ((True, 502), (False, 422)):
        error = ResponseError(error_code=code, message="m", retryable=retryable)
        assert http_status(msgspec.structs.replace(response(code, ResponseStatus.INVALID_OUTPUT), error=error)) == status


@pytest.mark.parametrize("uid, warned", [(0, True), (1000, False)])
def test_who_runs_as_root_is_warned_and_told_what_to_do(
    uid: int, warned: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: uid)
    warn_of_root()
    said = capsys.readouterr()
    assert (said.out, "as root" in said.err, "as an ordinary user" in said.err) == ("", warned, warned)

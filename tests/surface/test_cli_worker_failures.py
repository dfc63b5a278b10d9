"""`holdfast run` of a worker tells why a call failed and why there is another attempt."""

import msgspec
import pytest

from holdfast.cli.workers import _ProgressPrinter
from holdfast.signals.observers import AttemptSeen, RunSeen, ToolSeen

RUN = RunSeen(run_id="r", worker_id="mood", version="1.0", tenant="default", trace_id="t", span_id="s")
CALL = ToolSeen(tool="language_model", effect="read", attempt=1, number=1, span_id="s", parent_span_id="p", began_at=0.0)
FAILED = msgspec.structs.replace(CALL, error_code="tool_unavailable", message="It answered 500.")
ENDED = AttemptSeen(number=1, span_id="s", began_at=0, ended_at=1, duration_ms=1, status="retryable_error", error_code="tool_unavailable")


def test_a_failed_call_and_the_attempt_that_follows_are_told_with_their_cause(capsys: pytest.CaptureFixture[str]) -> None:
    teller = _ProgressPrinter()
    teller.attempt_began(RUN, 1, 0)
    teller.tool_began(RUN, CALL)
    teller.tool_ended(RUN, FAILED)
    teller.attempt_ended(RUN, ENDED)
    teller.attempt_began(RUN, 2, 0)
    teller.tool_began(RUN, CALL)
    teller.tool_ended(RUN, CALL)
    assert capsys.readouterr().err.splitlines() == [
        "calls language_model",
        "language_model failed: tool_unavailable: It answered 500.",
        "attempt 2: attempt 1 failed with tool_unavailable",
        "calls language_model",
    ]

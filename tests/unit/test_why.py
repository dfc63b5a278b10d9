"""Why an execution is in its present state: the sentence, and the action that helps."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holdfast.descriptions.why import why
from holdfast.model.execution import Execution, ExecutionStatus, State, Terms
from holdfast.model.life import new_execution
from holdfast.model.summary import Summary

_NO_STORE: Any = None


def ended(status: ExecutionStatus, **members: Any) -> Execution:
    header = new_execution("e", None, "order", "1", payload="{}", now=1, terms=Terms())
    return msgspec.structs.replace(header, status=status, state=State.CLOSED, **members)


@pytest.mark.parametrize("parent, cure", [(None, "restart"), ("p", None)])
def test_a_failed_execution_can_be_restarted_unless_another_one_invoked_it(parent: str | None, cure: str | None) -> None:
    told = why(_NO_STORE, ended(ExecutionStatus.FAILED, parent=parent))
    assert (told.sentence, told.cure) == ("It failed.", cure)


def test_a_run_that_ended_in_part_says_so_and_can_be_restarted_without_an_error_too() -> None:
    told = why(_NO_STORE, ended(ExecutionStatus.SUCCEEDED, summary=Summary(outcome="partial")))
    assert (told.sentence, told.cure) == ("It has only a part of its results.", "restart")


def test_an_execution_that_succeeded_needs_no_sentence() -> None:
    assert why(_NO_STORE, ended(ExecutionStatus.SUCCEEDED)).sentence == ""


@pytest.mark.parametrize(
    "status, outcome, code, sentence",
    [
        (ExecutionStatus.STOPPED, None, "stopped", "It was stopped."),
        (ExecutionStatus.STOPPED, None, "NoLongerNeeded", "It was stopped with NoLongerNeeded."),
        (ExecutionStatus.TIMED_OUT, None, "timed_out", "It timed out."),
        (ExecutionStatus.FAILED, None, "ValueError", "It failed with ValueError."),
        (ExecutionStatus.SUCCEEDED, "permanent_error", "cancelled", "It was cancelled."),
        (ExecutionStatus.SUCCEEDED, "permanent_error", "egress_denied", "It failed with egress_denied."),
        (ExecutionStatus.SUCCEEDED, "partial", "schema_mismatch", "It failed with schema_mismatch, but it has a part of its results."),
    ],
)
def test_the_end_is_told_once_and_in_one_word(status: ExecutionStatus, outcome: str | None, code: str, sentence: str) -> None:
    told = why(_NO_STORE, ended(status, summary=Summary(outcome=outcome, error_code=code)))
    assert (told.sentence, told.cure) == (sentence, "restart")

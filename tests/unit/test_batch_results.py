"""Batches end when the official ones end, for the same reason, and answer the same questions the same way."""

import itertools
import json
import logging
from typing import Any

import aws_durable_execution_sdk_python.concurrency.models as official
import aws_durable_execution_sdk_python.config as official_config
import aws_durable_execution_sdk_python.exceptions as official_exceptions
import aws_durable_execution_sdk_python.lambda_service as official_service
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.durable import config
from holdfast.durable.concurrency import models
from holdfast.durable.concurrency.models import (
    BatchCompletionError,
    BatchItem,
    BatchResult,
    CompletionPolicy,
    CompletionReason,
    CompletionRecord,
)
from holdfast.durable.config import BatchItemStatus, CompletionOutcome
from holdfast.durable.exceptions import ChildContextError, StepError, wire_name
from holdfast.durable.lambda_service import ErrorObject
from holdfast.durable.types import DurableExecutionArn

OURS: Any = (models, config, ErrorObject)
THEIRS: Any = (official, official_config, official_service.ErrorObject)
ERROR = {"ErrorMessage": "m", "ErrorType": wire_name(StepError)}


def custom(side: Any, succeed_at: int, fail_at: int) -> Any:
    """A predicate of that side's own types, which also looks at the items."""

    def decide(status: Any) -> Any:
        assert (status.completed_count, status.total_count) == (status.success_count + status.failure_count, 4)
        if status.failure_count >= fail_at:
            return side[1].complete_batch(side[1].CompletionOutcome.FAILED)
        return side[1].complete_batch() if status.success_count >= succeed_at else side[1].continue_batch()

    return decide


CRITERIA = [
    {"min_successful": least, "tolerated_failure_count": count, "tolerated_failure_percentage": percentage}
    for least, count, percentage in itertools.product([None, 1, 3], [None, 0, 1], [None, 0, 25, 50.0, 100])
]


def verdicts(side: Any, settings: dict[str, Any], total: int) -> list[Any]:
    policy = side[0].CompletionPolicy.from_config(total, side[1].CompletionConfig(**settings))
    reached = [(s, f) for s in range(total + 1) for f in range(total + 1 - s)]
    return [(policy.should_continue(f), policy.is_complete(s, f), policy.reason(s, f).name, policy.has_criteria) for s, f in reached]


@pytest.mark.parametrize("total", [0, 1, 4])
@pytest.mark.parametrize("settings", CRITERIA, ids=str)
def test_a_batch_ends_when_and_why_the_official_one_does(settings: dict[str, Any], total: int) -> None:
    assert verdicts(OURS, settings, total) == verdicts(THEIRS, settings, total)


@pytest.mark.parametrize("succeed_at, fail_at", [*itertools.product([1, 2, 9], [1, 2, 9])])
def test_a_custom_decision_counts_as_the_official_one_does(succeed_at: int, fail_at: int) -> None:
    ours, theirs = ({"should_complete": custom(side, succeed_at, fail_at)} for side in (OURS, THEIRS))
    assert verdicts(OURS, ours, 4) == verdicts(THEIRS, theirs, 4)


def test_a_decision_already_taken_is_not_asked_for_again() -> None:
    def never(status: Any) -> Any:
        raise AssertionError("asked")

    policy = CompletionPolicy(4, should_complete=never)
    failed = config.complete_batch(CompletionOutcome.FAILED)
    assert policy.is_complete(0, 0, decision=failed) is True
    assert policy.reason(0, 0, decision=failed) is CompletionReason.CUSTOM_COMPLETION_FAILED
    assert policy.is_complete(0, 0, decision=config.continue_batch()) is False


def test_without_a_configuration_the_first_failure_ends_the_batch() -> None:
    assert CompletionPolicy.from_config(2, None).reason(1, 1) is CompletionReason.FAILURE_TOLERANCE_EXCEEDED


# --- results -----------------------------------------------------------------------------------------------------------------


def made(side: Any, statuses: tuple[str, ...], reason: str, with_error: bool = True) -> Any:
    items = [
        side[0].BatchItem(
            i,
            side[1].BatchItemStatus(s),
            i if s == "SUCCEEDED" else None,
            side[2].from_dict(ERROR) if s == "FAILED" and with_error else None,
        )
        for i, s in enumerate(statuses)
    ]
    return side[0].BatchResult(items, side[0].CompletionReason(reason))


def answers(result: Any) -> dict[str, str]:
    names = ["succeeded", "failed", "started", "get_results", "get_errors", "to_dict"]
    asked = {name: repr(getattr(result, name)()) for name in names}
    return asked | {
        n: repr(getattr(result, n)) for n in ["status", "has_failure", "success_count", "failure_count", "started_count", "total_count"]
    }


def thrown(result: Any) -> Any:
    try:
        result.throw_if_error()
    except (ChildContextError, BatchCompletionError, official_exceptions.DurableOperationError) as error:
        return type(error).__name__, str(error), error.error_type, type(error.__cause__).__name__
    return None


@pytest.mark.parametrize("reason", [r.value for r in CompletionReason])
@pytest.mark.parametrize("statuses", [*itertools.product(["SUCCEEDED", "FAILED", "STARTED"], repeat=2), ()])
@pytest.mark.parametrize("with_error", [True, False])
def test_a_result_answers_as_the_official_one(statuses: tuple[str, ...], reason: str, with_error: bool) -> None:
    ours, theirs = made(OURS, statuses, reason, with_error), made(THEIRS, statuses, reason, with_error)
    assert answers(ours) == answers(theirs)
    assert thrown(ours) == thrown(theirs)
    assert BatchResult.from_dict(json.loads(json.dumps(ours.to_dict()))) == ours
    assert CompletionRecord.summary_envelope(ours, "MapResult", "s") == official.CompletionRecord.summary_envelope(theirs, "MapResult", "s")


def test_a_failed_branch_is_thrown_as_a_child_context_error_with_its_cause() -> None:
    with pytest.raises(ChildContextError) as raised:
        made(OURS, ("SUCCEEDED", "FAILED"), "ALL_COMPLETED").throw_if_error()
    assert type(raised.value.__cause__) is StepError
    assert raised.value.error_type == wire_name(StepError)


@pytest.mark.parametrize("statuses", list(itertools.product(["SUCCEEDED", "FAILED", "STARTED"], repeat=3)))
@pytest.mark.parametrize("settings", [None, {"min_successful": 1}, {"tolerated_failure_count": 1}])
def test_a_missing_reason_is_worked_out_as_the_official_sdk_does(
    statuses: tuple[str, ...], settings: dict[str, Any] | None, caplog: pytest.LogCaptureFixture
) -> None:
    data = made(OURS, statuses, "ALL_COMPLETED").to_dict() | {"completionReason": None}
    with caplog.at_level(logging.WARNING):
        ours: BatchResult[Any] = BatchResult.from_dict(data, None if settings is None else config.CompletionConfig(**settings))
        theirs: Any = official.BatchResult.from_dict(data, None if settings is None else official_config.CompletionConfig(**settings))
    assert ours.completion_reason.value == theirs.completion_reason.value
    assert any(record.name == models.__name__ and ours.completion_reason.value in record.getMessage() for record in caplog.records)


def test_working_a_reason_out_shows_a_predicate_every_item() -> None:
    seen: list[config.CompletionStatus] = []

    def look(status: config.CompletionStatus) -> config.CompletionDecision:
        seen.append(status)
        return config.continue_batch()

    BatchResult.from_items([BatchItem[int](4, BatchItemStatus.FAILED)], config.CompletionConfig(should_complete=look))
    assert seen == [config.CompletionStatus(0, 1, 1, 1, (config.CompletionItemStatus(4, None, BatchItemStatus.FAILED),))]


# --- large results -----------------------------------------------------------------------------------------------------------

REASONS: st.SearchStrategy[Any] = st.sampled_from([r.value for r in CompletionReason]) | st.none() | st.just("?") | st.just([])
INDEXES: st.SearchStrategy[Any] = st.lists(st.integers(-1, 4) | st.booleans() | st.just("0"), max_size=3) | st.none() | st.just({})
SUMMARIES = st.fixed_dictionaries(
    {},
    optional={
        "completionReason": REASONS,
        "totalCount": st.integers(-1, 4) | st.booleans() | st.none() | st.just(1.0),
        "startedIndexes": INDEXES,
        "completedIndexes": INDEXES,
    },
)


def summary(**fields: Any) -> str:
    return json.dumps({"completionReason": "ALL_COMPLETED", "totalCount": 2, "startedIndexes": [1]} | fields)


@example(summary())
@example(summary(totalCount=True, startedIndexes=[]))
@example(summary(totalCount=-1, startedIndexes=[]))
@example(summary(startedIndexes=[True]))
@example(summary(startedIndexes=[2]))
@example(summary(startedIndexes=[2], completedIndexes=[0]))
@example(summary(startedIndexes=None, completedIndexes=[0]))
@example(summary(startedIndexes=None))
@example(summary(completionReason="?"))
@given(SUMMARIES.map(json.dumps) | st.sampled_from(["", "{", "[]", "1", '"x"', "null"]) | st.none())
def test_a_summary_is_read_as_the_official_sdk_reads_it(payload: str | None) -> None:
    assert repr(CompletionRecord.from_summary_payload(payload)) == repr(official.CompletionRecord.from_summary_payload(payload))


@given(st.lists(st.sampled_from(list(BatchItemStatus)), max_size=6))
def test_a_summary_tells_which_branches_had_not_finished(statuses: list[BatchItemStatus]) -> None:
    result = BatchResult([BatchItem[int](i, s) for i, s in enumerate(statuses)], CompletionReason.MIN_SUCCESSFUL_REACHED)
    record = CompletionRecord.from_summary_payload(models.envelope_summary_generator("MapResult", None)(result))
    unfinished = frozenset(i for i, s in enumerate(statuses) if s is BatchItemStatus.STARTED)
    assert record == CompletionRecord(CompletionReason.MIN_SUCCESSFUL_REACHED, len(statuses), unfinished)


def test_a_summary_carries_the_users_words() -> None:
    result = made(OURS, ("SUCCEEDED",), "ALL_COMPLETED")
    assert json.loads(models.envelope_summary_generator("ParallelResult", lambda r: f"{r.total_count} done")(result))["summary"] == "1 done"
    assert "summary" not in json.loads(models.envelope_summary_generator("ParallelResult", None)(result))


# --- names of executions -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arn, parts",
    [
        ("arn:aws:lambda:eu-west-1:123456789012:function:f:$LATEST/durable-execution/n/i", ("f", "n", "i")),
        ("arn:aws:lambda:local:000000000000:function:f:1/durable-execution/n/i/more", None),
        ("xarn:aws:lambda:local:000000000000:function:f:1/durable-execution/n/i", None),
        ("arn:aws:lambda:local:000000000000:function:f/durable-execution/n/i", None),
        ("arn:aws:s3:local:000000000000:function:f:1/durable-execution/n/i", None),
        ("", None),
    ],
)
def test_an_arn_is_taken_apart(arn: str, parts: tuple[str, str, str] | None) -> None:
    assert DurableExecutionArn.from_arn(arn) == (parts and DurableExecutionArn(*parts))

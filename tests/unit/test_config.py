"""Configurations refuse what the service or the logic would refuse later, and in the official words."""

from collections.abc import Callable
from typing import Any

import aws_durable_execution_sdk_python.config as official
import aws_durable_execution_sdk_python.exceptions as official_exceptions
import pytest

from holdfast.durable import config
from holdfast.durable.config import CompletionConfig, Duration, ParallelBranch, WaitForCallbackConfig, complete_batch, continue_batch
from holdfast.durable.exceptions import ValidationError

# What each configuration is built with, and whether it is allowed; each is tried on both packages.
TRIES: list[tuple[bool, str, dict[str, Any]]] = [
    (True, "Duration", {"seconds": 0}),
    (False, "Duration", {"seconds": -1}),
    (True, "CompletionConfig", {}),
    (True, "CompletionConfig", {"min_successful": 1, "tolerated_failure_count": 0, "tolerated_failure_percentage": 0}),
    (True, "CompletionConfig", {"tolerated_failure_percentage": 100.0}),
    (True, "CompletionConfig", {"should_complete": print}),
    (False, "CompletionConfig", {"min_successful": 0}),
    (False, "CompletionConfig", {"tolerated_failure_count": -1}),
    (False, "CompletionConfig", {"tolerated_failure_percentage": -0.5}),
    (False, "CompletionConfig", {"tolerated_failure_percentage": 100.5}),
    (False, "CompletionConfig", {"tolerated_failure_percentage": float("nan")}),
    (False, "CompletionConfig", {"should_complete": "yes"}),
    (False, "CompletionConfig", {"should_complete": print, "min_successful": 1}),
    (False, "CompletionConfig", {"should_complete": print, "tolerated_failure_count": 0}),
    (False, "CompletionConfig", {"should_complete": print, "tolerated_failure_percentage": 0}),
    (False, "CompletionDecision", {"complete": True}),
    (False, "CompletionDecision", {"complete": False, "outcome": official.CompletionOutcome.FAILED}),
    (True, "MapConfig", {"max_concurrency": 1}),
    (False, "MapConfig", {"max_concurrency": 0}),
    (False, "ParallelConfig", {"max_concurrency": -1}),
    (True, "StepConfig", {"sub_type": "a-Z_9" * 6 + "ab"}),
    (True, "StepConfig", {"sub_type": ""}),
    (False, "StepConfig", {"sub_type": "a" * 33}),
    (False, "StepConfig", {"sub_type": "with space"}),
    (False, "StepConfig", {"sub_type": "line\n"}),
    (False, "ChildConfig", {"sub_type": "é"}),
    (False, "CallbackConfig", {"sub_type": "."}),
    (False, "WaitForCallbackConfig", {"sub_type": "."}),
]


def refusal(build: Callable[..., object], arguments: dict[str, Any], error: type[Exception]) -> str | None:
    try:
        build(**arguments)
    except error as refused:
        return str(refused)
    return None


@pytest.mark.parametrize("allowed, name, arguments", TRIES, ids=str)
def test_a_configuration_is_refused_when_and_as_the_official_one_is(allowed: bool, name: str, arguments: dict[str, Any]) -> None:
    ours = refusal(getattr(config, name), arguments, ValidationError)
    theirs = refusal(getattr(official, name), arguments, official_exceptions.ValidationError)
    assert ours == theirs
    assert (ours is None) is allowed


def test_a_minimum_no_batch_of_this_size_can_reach_is_refused() -> None:
    CompletionConfig(min_successful=3).validate_for_total(3)
    CompletionConfig().validate_for_total(0)
    with pytest.raises(ValidationError, match="min_successful cannot be greater than total items: 3 > 2"):
        CompletionConfig(min_successful=3).validate_for_total(2)


@pytest.mark.parametrize("name", ["first_successful", "all_completed", "all_successful"])
def test_the_ready_made_completions_are_the_official_ones(name: str) -> None:
    assert repr(getattr(CompletionConfig, name)()) == repr(getattr(official.CompletionConfig, name)())


@pytest.mark.parametrize(
    "duration, seconds",
    [
        (Duration.from_seconds(1.9), 1),
        (Duration.from_minutes(1.5), 90),
        (Duration.from_hours(0.5), 1800),
        (Duration.from_days(2), 172_800),
        (Duration(), 0),
    ],
)
def test_a_duration_is_whole_seconds(duration: Duration, seconds: int) -> None:
    assert duration.to_seconds() == duration.seconds == seconds


def test_a_decision_about_a_batch_says_what_it_means() -> None:
    assert repr(complete_batch()) == repr(official.complete_batch())
    assert repr(complete_batch(config.CompletionOutcome.FAILED)) == repr(official.complete_batch(official.CompletionOutcome.FAILED))
    assert repr(continue_batch()) == repr(official.continue_batch())


def test_a_branch_is_called_like_its_function() -> None:
    assert ParallelBranch(lambda a, *, b: (a, b), name="n")(1, b=2) == (1, 2)


def test_a_callback_configuration_gives_its_limits_in_seconds() -> None:
    both = WaitForCallbackConfig(Duration.from_minutes(1), Duration(5))
    assert (both.timeout_seconds, both.heartbeat_timeout_seconds) == (60, 5)
    assert (WaitForCallbackConfig().timeout_seconds, WaitForCallbackConfig().heartbeat_timeout_seconds) == (0, 0)

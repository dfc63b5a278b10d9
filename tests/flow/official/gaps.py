"""What the official runner is known to tell otherwise than the service does, or not at all: one line for each gap.

A gap turns a history of our engine into what the runner tells, and touches nothing else. So a gap that closes, and a new one, both make
the histories differ.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

Told = dict[str, Any]
Strike = Callable[[Told, Told], None]
"""Changes an event, whose details are the second argument."""

LARGE_RESULT = 6 * 1024 * 1024 - 50


class Gap(msgspec.Struct, frozen=True):
    """One thing, why it is so, and a case that shows it."""

    name: str
    reason: str
    case: str
    strike: Callable[[list[Told]], list[Told]]


def _each(types: str, strike: Strike) -> Callable[[list[Told]], list[Told]]:
    """A gap in every event of these types."""

    def struck(history: list[Told]) -> list[Told]:
        for event in history:
            if event["EventType"] in types.split():
                strike(event, event[f"{event['EventType']}Details"])
        return history

    return struck


def _no_invocation(event: Told, _: Told) -> None:
    del event["InvocationCompletedDetails"]


def _no_timeouts(_: Told, details: Told) -> None:
    details.pop("Timeout", None)
    details.pop("HeartbeatTimeout", None)


def _truncated(_: Told, details: Told) -> None:
    details["Error"]["Truncated"] = True


def _no_attempt(_: Told, details: Told) -> None:
    if "NextAttemptDelaySeconds" not in details["RetryDetails"]:
        del details["RetryDetails"]


def _no_state(_: Told, details: Told) -> None:
    if "NextAttemptDelaySeconds" in details.get("RetryDetails", ()):
        del details["Result"]["Payload"]


def _delay_of_none(_: Told, details: Told) -> None:
    details["RetryDetails"].setdefault("NextAttemptDelaySeconds", 0)


def _no_plain_execution(_: Told, details: Told) -> None:
    if details["FunctionName"] in ("twice", "plainly_broken"):
        del details["DurableExecutionArn"]


def _own_arn(_: Told, details: Told) -> None:
    if "DurableExecutionArn" in details:
        details["DurableExecutionArn"] = "an execution"


def _no_version(_: Told, details: Told) -> None:
    del details["ExecutedVersion"]


def _no_tenant(_: Told, details: Told) -> None:
    details.pop("TenantId", None)


def _closed_first(history: list[Told]) -> list[Told]:
    *_, invocation, end = history
    if len(end.get("ExecutionSucceededDetails", {}).get("Result", {}).get("Payload", "")) > LARGE_RESULT:
        history[-2:] = [end | {"EventId": invocation["EventId"]}, invocation | {"EventId": end["EventId"]}]
    return history


GAPS = [
    Gap("invocation", "an invocation has no details", "a_wait_suspends", _each("InvocationCompleted", _no_invocation)),
    Gap("timeouts", "a callback's timeouts are not told", "a_callback_times_out", _each("CallbackStarted", _no_timeouts)),
    Gap(
        "truncated",
        "these errors are told whole, yet are said to be cut",
        "a_child_context_that_fails_can_be_caught",
        _each("CallbackFailed CallbackTimedOut ContextFailed", _truncated),
    ),
    Gap("state", "the state that a poll left is not told", "a_condition_is_polled_until_it_is_met", _each("StepSucceeded", _no_state)),
    Gap("attempt", "the attempt that succeeded is not told", "a_step_is_retried_until_it_succeeds", _each("StepSucceeded", _no_attempt)),
    Gap(
        "delay", "the last failure has a delay of 0 until the next", "exhausted_retries_can_be_caught", _each("StepFailed", _delay_of_none)
    ),
    Gap(
        "plain execution",
        "a plain function runs without an execution of its own",
        "a_plain_function_is_invoked_like_a_durable_one",
        _each("ChainedInvokeStarted", _no_plain_execution),
    ),
    Gap(
        "arn",
        "executions have names of the runner's own, not ARNs of Lambda's",
        "an_invoke_has_serdes_for_both_ways",
        _each("ChainedInvokeStarted", _own_arn),
    ),
    Gap("version", "the invoked version is not told", "an_invoke_has_serdes_for_both_ways", _each("ChainedInvokeStarted", _no_version)),
    Gap("tenant", "the tenant is not told", "an_invoke_has_serdes_for_both_ways", _each("ChainedInvokeStarted", _no_tenant)),
    Gap(
        "order",
        "an end that was written by a checkpoint comes before the invocation's",
        "a_result_too_large_for_an_answer_is_kept",
        _closed_first,
    ),
]


def as_the_runner_tells(history: list[Told], gaps: Iterable[Gap] = GAPS) -> list[Told]:
    """A history of our engine with these gaps in it."""
    told = copy.deepcopy(history)
    for gap in gaps:
        told = gap.strike(told)
    return told

"""The configurations of durable operations. They are immutable. A number or a sub-type that is not allowed raises ValidationError when the
author's code makes the configuration, so before the durable call."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Generic, TypeVar

from holdfast.durable import argument_checks
from holdfast.durable.delays import Duration as Duration
from holdfast.durable.delays import JitterStrategy as JitterStrategy
from holdfast.durable.delays import Numeric as Numeric
from holdfast.durable.delays import RetryStrategy
from holdfast.durable.exceptions import ValidationError
from holdfast.durable.protocols import SerDes, SummaryGenerator

P = TypeVar("P")
R = TypeVar("R")
T = TypeVar("T")

_SUB_TYPE = re.compile(r"[A-Za-z0-9_-]{1,32}")


def _check_sub_type(sub_type: object) -> None:
    """Raise ValidationError for a sub-type that the Lambda API (Holdfast's or AWS's) would refuse in a checkpoint, which may be only after
    user code has run."""
    if sub_type and not (isinstance(sub_type, str) and _SUB_TYPE.fullmatch(sub_type)):
        raise ValidationError(f"sub_type must be 1 to 32 characters from A-Z, a-z, 0-9, hyphen, and underscore, got: {sub_type!r}")


def _check_max_concurrency(limit: int | None) -> None:
    if limit is not None and limit < 1:
        raise ValidationError(f"max_concurrency must be at least 1, got: {limit}")


class NestingType(Enum):
    """Whether each branch of `map` and `parallel` is an operation of its own in the history.

    NESTED: each branch is recorded as a CONTEXT operation with its result. FLAT: only the operations inside the branches are recorded,
    which needs fewer writes.
    """

    NESTED = "NESTED"
    FLAT = "FLAT"


class BatchItemStatus(Enum):
    """The status of one branch of a `map` or `parallel`. STARTED: it has begun and not ended; in a result: it had not ended when the batch
    ended."""

    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    STARTED = "STARTED"


class CompletionOutcome(Enum):
    """The status of a batch that `should_complete` ended: succeeded or failed."""

    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"


@dataclass(frozen=True)
class CompletionDecision:
    """What a `should_complete` function returns. Make it with `continue_batch()` or `complete_batch(outcome)`. `complete`: whether the
    batch ends now. `outcome` is None if the batch continues."""

    complete: bool
    outcome: CompletionOutcome | None = None

    def __post_init__(self) -> None:
        if self.complete and self.outcome is None:
            raise ValidationError("outcome is required when complete is True")
        if not self.complete and self.outcome is not None:
            raise ValidationError("outcome must be None when complete is False")


def continue_batch() -> CompletionDecision:
    """The decision that the batch continues."""
    return CompletionDecision(complete=False)


def complete_batch(outcome: CompletionOutcome = CompletionOutcome.SUCCEEDED) -> CompletionDecision:
    """The decision that the batch ends now, with this outcome."""
    return CompletionDecision(complete=True, outcome=outcome)


@dataclass(frozen=True)
class CompletionItemStatus:
    """One branch, as `should_complete` sees it. `name` is the name that the author gave the branch; None if it has none. `status` is None
    if the branch has not begun."""

    index: int
    name: str | None = None
    status: BatchItemStatus | None = None


@dataclass(frozen=True)
class CompletionStatus:
    """The progress of a batch, for `should_complete`: how many branches succeeded, failed, ended (both together), and how many there are.
    `items[i]` is the branch with index i."""

    success_count: int
    failure_count: int
    completed_count: int
    total_count: int
    items: tuple[CompletionItemStatus, ...] = ()


@dataclass(frozen=True)
class CompletionConfig:
    """When a `map` or `parallel` ends. It always ends when all branches have ended. If no field is set, it also ends at the first failure.

    `min_successful`: it ends after this many successes. `tolerated_failure_count` and `tolerated_failure_percentage` (of all branches): it
    ends when *more* branches than this have failed. `should_complete` replaces these three fields and cannot be combined with them.
    Holdfast calls it before the first branch begins and each time a branch has ended. It must depend only on its argument. If it has said
    that the batch is complete, it must say the same for any further progress: in a replay the branches may end in another order.
    """

    min_successful: int | None = None
    tolerated_failure_count: int | None = None
    tolerated_failure_percentage: int | float | None = None
    should_complete: Callable[[CompletionStatus], CompletionDecision] | None = None

    def __post_init__(self) -> None:
        least, count, percentage = self.min_successful, self.tolerated_failure_count, self.tolerated_failure_percentage
        if least is not None and least < 1:
            raise ValidationError(f"min_successful must be at least 1, got: {least}")
        if count is not None and count < 0:
            raise ValidationError(f"tolerated_failure_count must be non-negative, got: {count}")
        if percentage is not None and not 0 <= percentage <= 100:
            raise ValidationError(f"tolerated_failure_percentage must be between 0 and 100, got: {percentage}")
        if self.should_complete is None:
            return
        if not callable(self.should_complete):
            raise ValidationError("should_complete must be callable")
        if (least, count, percentage) != (None, None, None):
            raise ValidationError(
                "should_complete cannot be combined with min_successful, tolerated_failure_count, or tolerated_failure_percentage"
            )

    def validate_for_total(self, total: int) -> None:
        """Raise ValidationError if `min_successful` is greater than `total`, the number of branches."""
        if self.min_successful is not None and self.min_successful > total:
            raise ValidationError(f"min_successful cannot be greater than total items: {self.min_successful} > {total}")

    @staticmethod
    def first_successful() -> CompletionConfig:
        """A config with which the batch ends after the first success."""
        return CompletionConfig(min_successful=1)

    @staticmethod
    def all_completed() -> CompletionConfig:
        """A config with which every branch runs to its end, also if other branches fail."""
        return CompletionConfig(tolerated_failure_percentage=100)

    @staticmethod
    def all_successful() -> CompletionConfig:
        """A config with which every branch must succeed; the first failure ends the batch."""
        return CompletionConfig(tolerated_failure_count=0, tolerated_failure_percentage=0)


@dataclass(frozen=True)
class ParallelConfig:
    """How `parallel` runs.

    `max_concurrency`: at most this many branches have begun and not ended (None: no limit). By default the first failure ends the batch.
    `serdes` writes and reads the BatchResult, `item_serdes` the result of each branch; without `item_serdes`, `serdes` does both. If the
    BatchResult is too large to store, a short record is stored instead, with the text for people that `summary_generator` makes.
    """

    max_concurrency: int | None = None
    completion_config: CompletionConfig = field(default_factory=CompletionConfig.all_successful)
    serdes: SerDes[Any] | None = None
    item_serdes: SerDes[Any] | None = None
    summary_generator: SummaryGenerator[Any] | None = None
    nesting_type: NestingType = NestingType.NESTED

    def __post_init__(self) -> None:
        _check_max_concurrency(self.max_concurrency)


@dataclass(frozen=True)
class ParallelBranch(Generic[T]):
    """A branch of `parallel`: its function, and its name in the history. If `name` is None, the branch is named
    `parallel-branch-{index}`."""

    func: Callable[..., T]
    name: str | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> T:
        """Call the branch's function with these arguments."""
        return self.func(*args, **kwargs)


class StepSemantics(Enum):
    """What happens to an attempt of a step that was interrupted, for example because its process died.

    AT_LEAST_ONCE_PER_RETRY: the body runs again, as the same attempt. AT_MOST_ONCE_PER_RETRY: the attempt counts as failed with
    StepInterruptedError, and the retry strategy decides whether another attempt follows.
    """

    AT_MOST_ONCE_PER_RETRY = "AT_MOST_ONCE_PER_RETRY"
    AT_LEAST_ONCE_PER_RETRY = "AT_LEAST_ONCE_PER_RETRY"


@dataclass(frozen=True)
class StepConfig:
    """How a step runs.

    `retry_strategy` None means `RetryPresets.default()`; `serdes` None means the default serdes. `sub_type` replaces "Step" in the history.
    If you change the sub-type of a step, the code no longer matches the history of open executions, as after a change of its name.
    `timeout` is the longest real time of one attempt, at least 1 second; None means no limit. A body that takes longer fails with
    TimeoutError, and the retry strategy decides whether another attempt follows. In an `async def` handler an `async def` body is
    cancelled at its next `await`. Any other body runs in a thread, which cannot be stopped: it continues in the background, and its result
    is dropped.
    """

    retry_strategy: RetryStrategy | None = None
    step_semantics: StepSemantics = StepSemantics.AT_LEAST_ONCE_PER_RETRY
    serdes: SerDes[Any] | None = None
    sub_type: str | None = field(default=None, kw_only=True)
    timeout: Duration | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        _check_sub_type(self.sub_type)
        if self.timeout is not None and argument_checks.seconds(self.timeout, "StepConfig", "timeout") < 1:
            raise ValidationError("timeout must be at least 1 second")


@dataclass(frozen=True)
class ChildConfig(Generic[T]):
    """How a child context runs.

    `sub_type` replaces "RunInChildContext" in the history. If the result has more than 262,144 characters as text, it is not stored: the
    text of `summary_generator` (for people; empty if there is none) is stored instead, and a replay runs the body again on its recorded
    operations. With `is_virtual` the context itself is not recorded, only the operations inside it.
    """

    serdes: SerDes[Any] | None = None
    sub_type: str | None = None
    summary_generator: SummaryGenerator[T] | None = None
    is_virtual: bool = False

    def __post_init__(self) -> None:
        _check_sub_type(self.sub_type)


@dataclass(frozen=True)
class MapConfig(Generic[T]):
    """How `map` runs. `item_namer(item, index)` returns the name of a branch; without it, a branch is called `map-item-{index}`. A replay
    may call it again, so it must always return the same name for the same item. `max_concurrency`: at most this many
    branches have begun and not ended (None: no limit). By default the first failure ends the batch. `serdes` is for the BatchResult,
    `item_serdes` for the result of each branch (without it: `serdes`). `summary_generator` makes a text for people, which is stored with
    a short record if the BatchResult is too large."""

    max_concurrency: int | None = None
    completion_config: CompletionConfig = field(default_factory=CompletionConfig)
    serdes: SerDes[Any] | None = None
    item_serdes: SerDes[Any] | None = None
    summary_generator: SummaryGenerator[Any] | None = None
    nesting_type: NestingType = NestingType.NESTED
    item_namer: Callable[[T, int], str] | None = None

    def __post_init__(self) -> None:
        _check_max_concurrency(self.max_concurrency)


@dataclass(frozen=True)
class InvokeConfig(Generic[P, R]):
    """How `context.invoke` invokes another function. Payload and result are plain JSON unless a serdes is given. `tenant_id` is the tenant
    of the invoked execution; None means the tenant of the execution that invokes."""

    serdes_payload: SerDes[P] | None = None
    serdes_result: SerDes[R] | None = None
    tenant_id: str | None = None
    cascade: bool = field(default=True, kw_only=True)
    """Whether the invoked execution is stopped when the execution that invoked it is stopped or times out. On AWS it is never stopped."""


@dataclass(frozen=True)
class CallbackConfig:
    """How long a callback waits for its answer, and how the answer is read. `timeout` limits the whole wait; `heartbeat_timeout` limits the
    time until the next heartbeat of the system that will answer. For both, a Duration of zero means no limit. Without `serdes` the answer
    is the text that was sent. `sub_type` replaces "Callback" in the history."""

    timeout: Duration = field(default_factory=Duration)
    heartbeat_timeout: Duration = field(default_factory=Duration)
    serdes: SerDes[Any] | None = None
    sub_type: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        _check_sub_type(self.sub_type)

    @property
    def timeout_seconds(self) -> int:
        """The timeout in seconds; 0 means no limit."""
        return self.timeout.seconds

    @property
    def heartbeat_timeout_seconds(self) -> int:
        """The longest time until the next heartbeat, in seconds; 0 means no limit."""
        return self.heartbeat_timeout.seconds


@dataclass(frozen=True)
class WaitForCallbackConfig(CallbackConfig):
    """A callback's configuration, and the retry strategy of the step that runs the submitter (None: `RetryPresets.default()`)."""

    retry_strategy: RetryStrategy | None = None

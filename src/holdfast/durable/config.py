"""The configurations of durable operations. Frozen, and checked when built: a bad value fails before anything is recorded."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Generic, TypeVar

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
    """Refuse here what the service would refuse later, when the step's body has already run."""
    if sub_type and not (isinstance(sub_type, str) and _SUB_TYPE.fullmatch(sub_type)):
        raise ValidationError(f"sub_type must be 1 to 32 characters from A-Z, a-z, 0-9, hyphen, and underscore, got: {sub_type!r}")


def _check_max_concurrency(limit: int | None) -> None:
    if limit is not None and limit < 1:
        raise ValidationError(f"max_concurrency must be at least 1, got: {limit}")


class NestingType(Enum):
    """Whether the branches of map and parallel stand in the history themselves.

    NESTED: each branch is a CONTEXT operation with its own result. FLAT: only the operations inside are recorded, which is cheaper.
    """

    NESTED = "NESTED"
    FLAT = "FLAT"


class BatchItemStatus(Enum):
    """The status of one branch of a map or parallel. STARTED: it was still running when the batch ended."""

    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    STARTED = "STARTED"


class CompletionOutcome(Enum):
    """Whether a batch that `should_complete` ends now counts as succeeded or as failed."""

    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"


@dataclass(frozen=True)
class CompletionDecision:
    """The answer of a `should_complete`; write `continue_batch()` or `complete_batch(outcome)`."""

    complete: bool
    outcome: CompletionOutcome | None = None

    def __post_init__(self) -> None:
        if self.complete and self.outcome is None:
            raise ValidationError("outcome is required when complete is True")
        if not self.complete and self.outcome is not None:
            raise ValidationError("outcome must be None when complete is False")


def continue_batch() -> CompletionDecision:
    """The batch goes on."""
    return CompletionDecision(complete=False)


def complete_batch(outcome: CompletionOutcome = CompletionOutcome.SUCCEEDED) -> CompletionDecision:
    """The batch ends now, with this outcome."""
    return CompletionDecision(complete=True, outcome=outcome)


@dataclass(frozen=True)
class CompletionItemStatus:
    """One branch as `should_complete` sees it; `status` is None while it has not been started."""

    index: int
    name: str | None = None
    status: BatchItemStatus | None = None


@dataclass(frozen=True)
class CompletionStatus:
    """How far a batch has come; `items[i]` is always branch i, in any order of finishing."""

    success_count: int
    failure_count: int
    completed_count: int
    total_count: int
    items: tuple[CompletionItemStatus, ...] = ()


@dataclass(frozen=True)
class CompletionConfig:
    """When a map or parallel is complete. Without any setting it stops at the first failure.

    `min_successful`: stop after this many successes. `tolerated_failure_count` and `tolerated_failure_percentage` (of all branches): stop
    when
    failures go *above* them. `should_complete` decides alone and excludes the other three; it is asked before the first branch starts and
    after every change. It must depend only on its argument, and after it has once said that the batch is complete, more progress must not
    change that: after a resume the branches report again, in any order.
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
        """Refuse a minimum that `total` branches can never reach; map and parallel ask before they record anything."""
        if self.min_successful is not None and self.min_successful > total:
            raise ValidationError(f"min_successful cannot be greater than total items: {self.min_successful} > {total}")

    @staticmethod
    def first_successful() -> CompletionConfig:
        """A config with which one success is enough."""
        return CompletionConfig(min_successful=1)

    @staticmethod
    def all_completed() -> CompletionConfig:
        """A config with which every branch runs to its end, even if others fail."""
        return CompletionConfig(tolerated_failure_percentage=100)

    @staticmethod
    def all_successful() -> CompletionConfig:
        """A config with which every branch must succeed; the first failure ends the batch."""
        return CompletionConfig(tolerated_failure_count=0, tolerated_failure_percentage=0)


@dataclass(frozen=True)
class ParallelConfig:
    """How `parallel` runs.

    `max_concurrency` bounds the branches in flight (None: no bound). `item_serdes` writes each branch's result, `serdes` the whole
    BatchResult; `serdes` alone serves both. `summary_generator` adds a text for people when the result is too large to keep.
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
    """A branch of `parallel` with a name for the history; without one it is called `parallel-branch-{index}`."""

    func: Callable[..., T]
    name: str | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> T:
        """Run the branch's function."""
        return self.func(*args, **kwargs)


class StepSemantics(Enum):
    """What happens to an attempt that was interrupted.

    AT_LEAST_ONCE_PER_RETRY: its body runs again. AT_MOST_ONCE_PER_RETRY: it does not; the retry strategy is asked, with
    StepInterruptedError.
    """

    AT_MOST_ONCE_PER_RETRY = "AT_MOST_ONCE_PER_RETRY"
    AT_LEAST_ONCE_PER_RETRY = "AT_LEAST_ONCE_PER_RETRY"


@dataclass(frozen=True)
class StepConfig:
    """How a step runs.

    `retry_strategy` None means `RetryPresets.default()`. `sub_type` labels the step in the history in place of "Step"; changing it while
    executions are under way changes their path, as another name would. `timeout` limits each attempt in real time: a body that takes longer
    fails with a TimeoutError, which the retry strategy judges. An `async def` body is cancelled then; a thread cannot be stopped, so a
    `def` body goes on in the background, and what it returns is dropped.
    """

    retry_strategy: RetryStrategy | None = None
    step_semantics: StepSemantics = StepSemantics.AT_LEAST_ONCE_PER_RETRY
    serdes: SerDes[Any] | None = None
    sub_type: str | None = field(default=None, kw_only=True)
    timeout: Duration | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        _check_sub_type(self.sub_type)
        if self.timeout is not None and self.timeout.to_seconds() < 1:
            raise ValidationError("timeout must be at least 1 second")


@dataclass(frozen=True)
class ChildConfig(Generic[T]):
    """How a child context runs.

    `sub_type` labels it in place of "RunInChildContext". When its result is too large to keep, the text of `summary_generator` is
    kept instead and a replay runs the body again. `is_virtual` groups operations without recording the context itself.
    """

    serdes: SerDes[Any] | None = None
    sub_type: str | None = None
    summary_generator: SummaryGenerator[T] | None = None
    is_virtual: bool = False

    def __post_init__(self) -> None:
        _check_sub_type(self.sub_type)


@dataclass(frozen=True)
class MapConfig(Generic[T]):
    """How `map` runs: as `ParallelConfig`, but any failure ends the batch unless `completion_config` says otherwise.

    `item_namer(item, index)` names each iteration in place of `map-item-{index}`. It is called for every item at the start and at
    each replay, so it must always answer the same.
    """

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
    """How another function is invoked; payload and result are plain JSON unless a serdes is given."""

    serdes_payload: SerDes[P] | None = None
    serdes_result: SerDes[R] | None = None
    tenant_id: str | None = None
    cascade: bool = field(default=True, kw_only=True)
    """Whether the invoked execution is stopped when this one is stopped or times out. On AWS it is never stopped."""


@dataclass(frozen=True)
class CallbackConfig:
    """How long a callback stays open, and how its answer is read.

    A zero duration means no limit. Without `serdes` the answer arrives as the text it was sent as.
    """

    timeout: Duration = field(default_factory=Duration)
    heartbeat_timeout: Duration = field(default_factory=Duration)
    serdes: SerDes[Any] | None = None
    sub_type: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        _check_sub_type(self.sub_type)

    @property
    def timeout_seconds(self) -> int:
        """The timeout in seconds, 0 for none."""
        return self.timeout.seconds

    @property
    def heartbeat_timeout_seconds(self) -> int:
        """The longest silence between heartbeats in seconds, 0 for none."""
        return self.heartbeat_timeout.seconds


@dataclass(frozen=True)
class WaitForCallbackConfig(CallbackConfig):
    """A callback's configuration plus the retry strategy of the step that submits its id."""

    retry_strategy: RetryStrategy | None = None

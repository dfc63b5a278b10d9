"""Retry strategies. `step` and `with_retry` call a retry strategy with an error and the number of attempts so far. The strategy decides
whether another attempt follows, and after which delay. It has no side effects; only the jitter uses random numbers. It is not asked about
some errors that another attempt cannot change: then the step or block fails at once."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Generic, Protocol, TypeVar, overload

from holdfast.durable.config import ChildConfig
from holdfast.durable.delays import CHANCE, Duration, JitterStrategy, RetryStrategy, exponential_delay, linear_delay
from holdfast.durable.delays import Numeric as Numeric
from holdfast.durable.delays import RetryDecision as RetryDecision

T = TypeVar("T")


@dataclass
class RetryStrategyConfig:
    """How often and when `create_retry_strategy` retries: with delays that grow by a factor.

    There are at most `max_attempts` attempts, the first one included. The delay begins at `initial_delay`, is multiplied by `backoff_rate`
    after each attempt, and is at most `max_delay`; then `jitter_strategy` is applied to it, and it is rounded up to whole seconds, at least
    1. An error is retried if its message contains one of `retryable_errors` (a text, or a compiled pattern that is searched), or if it is
    an instance of one of `retryable_error_types`. If both are None, every error is retried.
    """

    max_attempts: int = 3
    initial_delay: Duration = field(default_factory=lambda: Duration.from_seconds(5))
    max_delay: Duration = field(default_factory=lambda: Duration.from_minutes(5))
    backoff_rate: Numeric = 2.0
    jitter_strategy: JitterStrategy = field(default=JitterStrategy.FULL)
    retryable_errors: list[str | re.Pattern[str]] | None = None
    retryable_error_types: list[type[Exception]] | None = None

    @property
    def initial_delay_seconds(self) -> int:
        """The first delay in seconds, before jitter."""
        return self.initial_delay.seconds

    @property
    def max_delay_seconds(self) -> int:
        """The longest delay in seconds, before jitter."""
        return self.max_delay.seconds


@dataclass
class LinearRetryStrategyConfig:
    """How often and when `create_linear_retry_strategy` retries: with delays that grow by an amount.

    There are at most `max_attempts` attempts, the first one included. The first delay is `initial_delay`, each later one is `increment`
    longer than the one before, and none is longer than `max_delay`; then `jitter_strategy` is applied to it, and it is rounded up to whole
    seconds, at least 1. An error is retried if its message contains one of `retryable_errors` (a text, or a compiled pattern that is
    searched), or if it is an instance of one of `retryable_error_types`. If both are None, every error is retried.
    """

    max_attempts: int = 6
    initial_delay: Duration = field(default_factory=lambda: Duration.from_seconds(1))
    increment: Duration = field(default_factory=lambda: Duration.from_seconds(1))
    max_delay: Duration = field(default_factory=lambda: Duration.from_minutes(5))
    jitter_strategy: JitterStrategy = field(default=JitterStrategy.FULL)
    retryable_errors: list[str | re.Pattern[str]] | None = None
    retryable_error_types: list[type[Exception]] | None = None

    @property
    def initial_delay_seconds(self) -> int:
        """The first delay in seconds, before jitter."""
        return self.initial_delay.seconds

    @property
    def increment_seconds(self) -> int:
        """By how many seconds each delay is longer than the one before, before jitter."""
        return self.increment.seconds

    @property
    def max_delay_seconds(self) -> int:
        """The longest delay in seconds, before jitter."""
        return self.max_delay.seconds


def _is_retryable(error: Exception, patterns: Sequence[str | re.Pattern[str]] | None, types: Sequence[type[Exception]] | None) -> bool:
    if patterns is None and types is None:
        return True
    if isinstance(error, tuple(types or ())):
        return True
    text = str(error)
    return any(pattern in text if isinstance(pattern, str) else pattern.search(text) for pattern in patterns or ())


def create_retry_strategy(config: RetryStrategyConfig | None = None, *, random: Random = CHANCE) -> RetryStrategy:
    """A retry strategy whose delays are multiplied by `backoff_rate`. `config` None means `RetryStrategyConfig()`; `random` makes the
    random part of the delays."""
    c = config or RetryStrategyConfig()

    def retry_strategy(error: Exception, attempts_made: int) -> RetryDecision:
        if attempts_made >= c.max_attempts or not _is_retryable(error, c.retryable_errors, c.retryable_error_types):
            return RetryDecision.no_retry()
        delay = exponential_delay(c.initial_delay.seconds, c.backoff_rate, c.max_delay.seconds, attempts_made)
        return RetryDecision.retry(Duration(c.jitter_strategy.finalize_delay(delay, random=random)))

    return retry_strategy


def create_linear_retry_strategy(config: LinearRetryStrategyConfig | None = None, *, random: Random = CHANCE) -> RetryStrategy:
    """A retry strategy whose delays grow by `increment`. `config` None means `LinearRetryStrategyConfig()`; `random` makes the random part
    of the delays."""
    c = config or LinearRetryStrategyConfig()

    def linear_retry_strategy(error: Exception, attempts_made: int) -> RetryDecision:
        if attempts_made >= c.max_attempts or not _is_retryable(error, c.retryable_errors, c.retryable_error_types):
            return RetryDecision.no_retry()
        delay = linear_delay(c.initial_delay.seconds, c.increment.seconds, c.max_delay.seconds, attempts_made)
        return RetryDecision.retry(Duration(c.jitter_strategy.finalize_delay(delay, random=random)))

    return linear_retry_strategy


class RetryPresets:
    """Retry strategies for common cases. "5 s with full jitter" means a random delay from 1 to 5 seconds."""

    @classmethod
    def none(cls) -> RetryStrategy:
        """One attempt, and no retry."""
        return create_retry_strategy(RetryStrategyConfig(max_attempts=1))

    @classmethod
    def default(cls) -> RetryStrategy:
        """The strategy of a step without a `retry_strategy`: at most 6 attempts. The delays between them are 5, 10, 20, 40 and 60 s, with
        full jitter."""
        return create_retry_strategy(RetryStrategyConfig(max_attempts=6, max_delay=Duration.from_minutes(1), backoff_rate=2))

    @classmethod
    def transient(cls) -> RetryStrategy:
        """For failures that pass quickly: at most 3 attempts. The first delay is a random time from 3 to 5 s, the second from 6 to 10 s."""
        return create_retry_strategy(RetryStrategyConfig(max_attempts=3, backoff_rate=2, jitter_strategy=JitterStrategy.HALF))

    @classmethod
    def resource_availability(cls) -> RetryStrategy:
        """For something that is not available yet: at most 5 attempts. The delays between them are 5, 10, 20 and 40 s, with full jitter."""
        return create_retry_strategy(RetryStrategyConfig(max_attempts=5, backoff_rate=2))

    @classmethod
    def critical(cls) -> RetryStrategy:
        """For work that must succeed: at most 10 attempts. The delays between them are 1, 2, 3, 4, 6, 8, 12, 18 and 26 s, without a random
        part."""
        return create_retry_strategy(
            RetryStrategyConfig(
                max_attempts=10,
                initial_delay=Duration.from_seconds(1),
                max_delay=Duration.from_minutes(1),
                backoff_rate=1.5,
                jitter_strategy=JitterStrategy.NONE,
            )
        )

    @classmethod
    def linear(cls) -> RetryStrategy:
        """At most 6 attempts. The delays between them are 1, 2, 3, 4 and 5 seconds, without a random part."""
        return create_linear_retry_strategy(LinearRetryStrategyConfig(jitter_strategy=JitterStrategy.NONE))

    @classmethod
    def fixed(cls, interval: Duration | None = None) -> RetryStrategy:
        """At most 5 attempts, always with the same delay `interval` (at least 1 second) between them, without a random part. `interval`
        None means 5 seconds."""
        delay = Duration.from_seconds(5) if interval is None else interval
        return create_retry_strategy(
            RetryStrategyConfig(max_attempts=5, initial_delay=delay, max_delay=delay, backoff_rate=1, jitter_strategy=JitterStrategy.NONE)
        )


@dataclass(frozen=True)
class WithRetryConfig(Generic[T]):
    """How `with_retry` runs a block of durable calls again.

    `retry_strategy` None means `create_retry_strategy()`: at most three attempts. If `wrap_with_run_in_child_context` is True, all attempts
    run in one child context with `child_context_config`, and the error of the last attempt is raised as ChildContextError (a SerDesError as
    SerDesError, an ExecutionError unchanged). If it is False, the attempts run in the caller's context, and the error of the last attempt
    is raised unchanged.
    """

    retry_strategy: RetryStrategy | None = None
    wrap_with_run_in_child_context: bool = True
    child_context_config: ChildConfig[T] | None = None


class _Blocking(Protocol):
    """The part of a `def` handler's context that `with_retry` uses."""

    def _with_retry(self, func: Callable[[Any, int], T], config: WithRetryConfig[T], name: str | None) -> T: ...


class _Awaiting(Protocol):
    """The part of an `async def` handler's context that `with_retry` uses."""

    def _with_retry(self, func: Callable[[Any, int], Awaitable[T]], config: WithRetryConfig[T], name: str | None) -> Awaitable[T]: ...


B = TypeVar("B", bound=_Blocking)
A = TypeVar("A", bound=_Awaiting)


@overload
def with_retry(context: A, func: Callable[[A, int], Awaitable[T]], config: WithRetryConfig[T], name: str | None = None) -> Awaitable[T]: ...
@overload
def with_retry(context: B, func: Callable[[B, int], T], config: WithRetryConfig[T], name: str | None = None) -> T: ...
def with_retry(context: Any, func: Callable[[Any, int], Any], config: WithRetryConfig[Any], name: str | None = None) -> Any:
    """Run `func(context, attempt)`, a block of durable calls, and return its result. If it raises and the retry strategy allows another
    attempt, run it again from its beginning. If the strategy allows none, raise the error: as ChildContextError if the attempts run in a
    child context, which is the default (a SerDesError as SerDesError), else unchanged. An ExecutionError is raised at once, unchanged.

    `attempt` counts from 1. Before each further attempt there is a durable wait. If `name` is given, that wait is named
    `{name}-backoff-{attempt}`, with the number of the attempt that failed. In an `async def` handler, await the result.
    """
    return context._with_retry(func, config, name)

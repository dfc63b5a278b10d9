"""Retry strategies: given an error and how often it was tried, try again or give up. Pure but for the jitter's `random`."""

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
    """Delays that grow by a factor.

    An error is retried if its message contains one of `retryable_errors` (or matches it, if a compiled pattern), or if it is of one
    of `retryable_error_types`. If neither is given, every error is retried.
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
        """The first delay in seconds."""
        return self.initial_delay.seconds

    @property
    def max_delay_seconds(self) -> int:
        """The longest delay in seconds."""
        return self.max_delay.seconds


@dataclass
class LinearRetryStrategyConfig:
    """Delays that grow by a fixed amount; which errors are retried is said as in `RetryStrategyConfig`."""

    max_attempts: int = 6
    initial_delay: Duration = field(default_factory=lambda: Duration.from_seconds(1))
    increment: Duration = field(default_factory=lambda: Duration.from_seconds(1))
    max_delay: Duration = field(default_factory=lambda: Duration.from_minutes(5))
    jitter_strategy: JitterStrategy = field(default=JitterStrategy.FULL)
    retryable_errors: list[str | re.Pattern[str]] | None = None
    retryable_error_types: list[type[Exception]] | None = None

    @property
    def initial_delay_seconds(self) -> int:
        """The first delay in seconds."""
        return self.initial_delay.seconds

    @property
    def increment_seconds(self) -> int:
        """By how many seconds each delay is longer than the last."""
        return self.increment.seconds

    @property
    def max_delay_seconds(self) -> int:
        """The longest delay in seconds."""
        return self.max_delay.seconds


def _is_retryable(error: Exception, patterns: Sequence[str | re.Pattern[str]] | None, types: Sequence[type[Exception]] | None) -> bool:
    if patterns is None and types is None:
        return True
    if isinstance(error, tuple(types or ())):
        return True
    text = str(error)
    return any(pattern in text if isinstance(pattern, str) else pattern.search(text) for pattern in patterns or ())


def create_retry_strategy(config: RetryStrategyConfig | None = None, *, random: Random = CHANCE) -> RetryStrategy:
    """A strategy whose delays grow by `backoff_rate`; `random` feeds the jitter."""
    c = config or RetryStrategyConfig()

    def retry_strategy(error: Exception, attempts_made: int) -> RetryDecision:
        if attempts_made >= c.max_attempts or not _is_retryable(error, c.retryable_errors, c.retryable_error_types):
            return RetryDecision.no_retry()
        delay = exponential_delay(c.initial_delay.seconds, c.backoff_rate, c.max_delay.seconds, attempts_made)
        return RetryDecision.retry(Duration(c.jitter_strategy.finalize_delay(delay, random=random)))

    return retry_strategy


def create_linear_retry_strategy(config: LinearRetryStrategyConfig | None = None, *, random: Random = CHANCE) -> RetryStrategy:
    """A strategy whose delays grow by `increment`; `random` feeds the jitter."""
    c = config or LinearRetryStrategyConfig()

    def linear_retry_strategy(error: Exception, attempts_made: int) -> RetryDecision:
        if attempts_made >= c.max_attempts or not _is_retryable(error, c.retryable_errors, c.retryable_error_types):
            return RetryDecision.no_retry()
        delay = linear_delay(c.initial_delay.seconds, c.increment.seconds, c.max_delay.seconds, attempts_made)
        return RetryDecision.retry(Duration(c.jitter_strategy.finalize_delay(delay, random=random)))

    return linear_retry_strategy


class RetryPresets:
    """Strategies ready to use."""

    @classmethod
    def none(cls) -> RetryStrategy:
        """Never retries."""
        return create_retry_strategy(RetryStrategyConfig(max_attempts=1))

    @classmethod
    def default(cls) -> RetryStrategy:
        """The strategy of a step that names none: 6 attempts; the delay is 5 s and doubles up to a minute."""
        return create_retry_strategy(RetryStrategyConfig(max_attempts=6, max_delay=Duration.from_minutes(1), backoff_rate=2))

    @classmethod
    def transient(cls) -> RetryStrategy:
        """For failures that pass quickly: 3 attempts; the delay is 5 s and doubles, and half of it is random."""
        return create_retry_strategy(RetryStrategyConfig(max_attempts=3, backoff_rate=2, jitter_strategy=JitterStrategy.HALF))

    @classmethod
    def resource_availability(cls) -> RetryStrategy:
        """For something that is not available yet: 5 attempts; the delay is 5 s and doubles up to five minutes."""
        return create_retry_strategy(RetryStrategyConfig(max_attempts=5, backoff_rate=2))

    @classmethod
    def critical(cls) -> RetryStrategy:
        """For work that must succeed: 10 attempts; the delay is 1 s and grows by half up to a minute, without a random part."""
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
        """6 attempts after 1, 2, 3, 4 and 5 seconds."""
        return create_linear_retry_strategy(LinearRetryStrategyConfig(jitter_strategy=JitterStrategy.NONE))

    @classmethod
    def fixed(cls, interval: Duration | None = None) -> RetryStrategy:
        """5 attempts with the same pause between them, 5 seconds unless given."""
        delay = Duration.from_seconds(5) if interval is None else interval
        return create_retry_strategy(
            RetryStrategyConfig(max_attempts=5, initial_delay=delay, max_delay=delay, backoff_rate=1, jitter_strategy=JitterStrategy.NONE)
        )


@dataclass(frozen=True)
class WithRetryConfig(Generic[T]):
    """How `with_retry` runs a block of durable calls again.

    `retry_strategy` None means `create_retry_strategy()`, three attempts. The block runs in a child context of its own, and its last
    error arrives as ChildContextError; with `wrap_with_run_in_child_context` False it runs in the caller's context and the error
    arrives as it is.
    """

    retry_strategy: RetryStrategy | None = None
    wrap_with_run_in_child_context: bool = True
    child_context_config: ChildConfig[T] | None = None


class _Blocking(Protocol):
    """The context of a `def` handler, as far as it matters here."""

    def _with_retry(self, func: Callable[[Any, int], T], config: WithRetryConfig[T], name: str | None) -> T: ...


class _Awaiting(Protocol):
    """The context of an `async def` handler."""

    def _with_retry(self, func: Callable[[Any, int], Awaitable[T]], config: WithRetryConfig[T], name: str | None) -> Awaitable[T]: ...


B = TypeVar("B", bound=_Blocking)
A = TypeVar("A", bound=_Awaiting)


@overload
def with_retry(context: A, func: Callable[[A, int], Awaitable[T]], config: WithRetryConfig[T], name: str | None = None) -> Awaitable[T]: ...
@overload
def with_retry(context: B, func: Callable[[B, int], T], config: WithRetryConfig[T], name: str | None = None) -> T: ...
def with_retry(context: Any, func: Callable[[Any, int], Any], config: WithRetryConfig[Any], name: str | None = None) -> Any:
    """Run `func(context, attempt)`, a block of durable calls, again from its beginning while it raises and the strategy allows.

    Attempts are counted from 1 and lie durable waits apart, named `{name}-backoff-{attempt}`. To be awaited in an `async def` handler.
    """
    return context._with_retry(func, config, name)

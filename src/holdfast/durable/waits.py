"""Wait strategies. `wait_for_condition` calls a wait strategy with the state that a check returned, and the number of checks so far. The
strategy decides whether to check again, and after which delay. It has no side effects; only the jitter uses random numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, Generic, TypeVar

from holdfast.durable.delays import CHANCE, Duration, JitterStrategy, exponential_delay
from holdfast.durable.delays import Numeric as Numeric
from holdfast.durable.exceptions import WaitForConditionError
from holdfast.durable.protocols import SerDes

T = TypeVar("T")


@dataclass
class WaitStrategyConfig(Generic[T]):
    """How `create_wait_strategy` polls: it checks again as long as `should_continue_polling(state)` is true. The delay before the next
    check begins at `initial_delay`, is multiplied by `backoff_rate` after each check, and is at most `max_delay`; then `jitter_strategy` is
    applied to it. If `should_continue_polling` is still true after `max_attempts` checks, `wait_for_condition` fails."""

    should_continue_polling: Callable[[T], bool]
    max_attempts: int = 60
    initial_delay: Duration = field(default_factory=lambda: Duration.from_seconds(5))
    max_delay: Duration = field(default_factory=lambda: Duration.from_minutes(5))
    backoff_rate: Numeric = 1.5
    jitter_strategy: JitterStrategy = field(default=JitterStrategy.FULL)

    @property
    def initial_delay_seconds(self) -> int:
        """The first delay in seconds, before jitter."""
        return self.initial_delay.seconds

    @property
    def max_delay_seconds(self) -> int:
        """The longest delay in seconds, before jitter."""
        return self.max_delay.seconds


@dataclass(frozen=True)
class WaitForConditionDecision:
    """What a wait strategy returns: check again after `delay`, or stop (`should_continue` is False). If the strategy says stop, the state
    that the latest check returned is the result of `wait_for_condition`."""

    should_continue: bool
    delay: Duration

    @property
    def delay_seconds(self) -> int:
        """The delay in seconds."""
        return self.delay.seconds

    @classmethod
    def continue_waiting(cls, delay: Duration) -> WaitForConditionDecision:
        """The decision to check again after this delay."""
        return cls(True, delay)

    @classmethod
    def stop_polling(cls) -> WaitForConditionDecision:
        """The decision to stop: the condition is met, and the state that the latest check returned is the result."""
        return cls(False, Duration())


def create_wait_strategy(config: WaitStrategyConfig[T], *, random: Random = CHANCE) -> Callable[[T, int], WaitForConditionDecision]:
    """A wait strategy for this config; `random` makes the random part of the delays. The strategy raises WaitForConditionError if the
    condition is not met after `max_attempts` checks."""

    def wait_strategy(result: T, attempts_made: int) -> WaitForConditionDecision:
        # First the condition, then the number of attempts: a condition that the last attempt meets is no error.
        if not config.should_continue_polling(result):
            return WaitForConditionDecision.stop_polling()
        if attempts_made >= config.max_attempts:
            raise WaitForConditionError(f"wait_for_condition exhausted {config.max_attempts} attempts before the condition was met")
        delay = exponential_delay(config.initial_delay.seconds, config.backoff_rate, config.max_delay.seconds, attempts_made)
        return WaitForConditionDecision.continue_waiting(Duration(config.jitter_strategy.finalize_delay(delay, random=random)))

    return wait_strategy


@dataclass(frozen=True)
class WaitForConditionConfig(Generic[T]):
    """How `wait_for_condition` polls.

    `wait_strategy(state, attempts_made)` is called after every check, with the state that the check returned; `attempts_made` is the number
    of checks so far. The first check gets `initial_state`. `serdes` writes and reads every state, also the initial one; None means the
    default serdes.
    """

    wait_strategy: Callable[[T, int], WaitForConditionDecision]
    initial_state: T
    serdes: SerDes[Any] | None = None

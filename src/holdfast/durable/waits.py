"""Wait strategies: given the state that was polled and how often, look again later or stop. Pure but for the jitter's `random`."""

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
    """Poll while `should_continue_polling(state)` says so, with growing delays, `max_attempts` times at most."""

    should_continue_polling: Callable[[T], bool]
    max_attempts: int = 60
    initial_delay: Duration = field(default_factory=lambda: Duration.from_seconds(5))
    max_delay: Duration = field(default_factory=lambda: Duration.from_minutes(5))
    backoff_rate: Numeric = 1.5
    jitter_strategy: JitterStrategy = field(default=JitterStrategy.FULL)

    @property
    def initial_delay_seconds(self) -> int:
        """The first delay in seconds."""
        return self.initial_delay.seconds

    @property
    def max_delay_seconds(self) -> int:
        """The longest delay in seconds."""
        return self.max_delay.seconds


@dataclass(frozen=True)
class WaitForConditionDecision:
    """What a wait strategy answers: look again after `delay`, or stop with the state as it is."""

    should_continue: bool
    delay: Duration

    @property
    def delay_seconds(self) -> int:
        """The delay in seconds."""
        return self.delay.seconds

    @classmethod
    def continue_waiting(cls, delay: Duration) -> WaitForConditionDecision:
        """Look again after this long."""
        return cls(True, delay)

    @classmethod
    def stop_polling(cls) -> WaitForConditionDecision:
        """The condition is met: the state is the result."""
        return cls(False, Duration())


def create_wait_strategy(config: WaitStrategyConfig[T], *, random: Random = CHANCE) -> Callable[[T, int], WaitForConditionDecision]:
    """A strategy whose delays grow by `backoff_rate`; `random` feeds the jitter."""

    def wait_strategy(result: T, attempts_made: int) -> WaitForConditionDecision:
        # The condition is asked first, so that it counts if it is met at the very last attempt.
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

    `wait_strategy(state, attempts_made)` is asked after every check. `initial_state` goes to the first check, written and read by
    `serdes` like every later state.
    """

    wait_strategy: Callable[[T, int], WaitForConditionDecision]
    initial_state: T
    serdes: SerDes[Any] | None = None

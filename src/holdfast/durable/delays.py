"""How long to wait: durations, backoff and jitter. The functions have no side effects; the source of random numbers is an argument.

Users import `Duration` and `JitterStrategy` from config.py and `RetryDecision` from retries.py, as in AWS's SDK. The classes are
defined here, because config.py uses retry decisions and retry decisions use durations.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from random import Random, SystemRandom
from typing import SupportsFloat, TypeAlias

from holdfast.durable import argument_checks
from holdfast.durable.exceptions import ValidationError

Numeric: TypeAlias = int | float

CHANCE: Random = SystemRandom()
"""The default source of random numbers for jitter. The kernel makes the numbers, so that forked processes do not get the same ones."""


@dataclass(frozen=True)
class Duration:
    """A length of time in whole seconds; fractions are cut off."""

    seconds: int = 0

    def __post_init__(self) -> None:
        if type(self.seconds) is not int:
            object.__setattr__(self, "seconds", argument_checks.whole(self.seconds, "Duration", "seconds"))
        if self.seconds < 0:
            raise ValidationError("Duration seconds must be positive")

    def to_seconds(self) -> int:
        """The length in seconds."""
        return self.seconds

    @classmethod
    def from_seconds(cls, value: float) -> Duration:
        """A duration of this many seconds; a fraction of a second is cut off."""
        return cls(_cut(value, 1))

    @classmethod
    def from_minutes(cls, value: float) -> Duration:
        """A duration of this many minutes; a fraction of a second is cut off."""
        return cls(_cut(value, 60))

    @classmethod
    def from_hours(cls, value: float) -> Duration:
        """A duration of this many hours; a fraction of a second is cut off."""
        return cls(_cut(value, 3_600))

    @classmethod
    def from_days(cls, value: float) -> Duration:
        """A duration of this many days; a fraction of a second is cut off."""
        return cls(_cut(value, 86_400))


def _cut(value: float, unit: int) -> int:
    """The whole seconds in `value` times `unit` seconds; a fraction of a second is cut off. Raises ValidationError if `value` is no finite
    number."""
    if isinstance(value, bool) or not isinstance(value, SupportsFloat):
        raise ValidationError(f"Duration: {argument_checks.shown(value)} is not a length of time; it must be a finite number.")
    try:
        return int(value * unit)
    except (TypeError, ValueError, OverflowError):
        raise ValidationError(f"Duration: {argument_checks.shown(value)} is not a length of time; it must be a finite number.") from None


class JitterStrategy(StrEnum):
    """How much of a delay is random, so that many retries do not happen at the same moment.

    NONE: exactly the delay. FULL: a random time between 0 and the delay. HALF: a random time between half of the delay and the delay.
    """

    NONE = "NONE"
    FULL = "FULL"
    HALF = "HALF"

    def apply_jitter(self, delay: float, *, random: Random = CHANCE) -> float:
        """The delay in seconds after jitter: `delay` itself for NONE, else a random time in the range that the class describes. `random`
        makes the random number."""
        match self:
            case JitterStrategy.NONE:
                return delay
            case JitterStrategy.HALF:
                return delay / 2 + random.random() * (delay / 2)
            case JitterStrategy.FULL:
                return random.random() * delay

    def finalize_delay(self, base_delay: float, *, random: Random = CHANCE) -> int:
        """The delay `base_delay` after jitter, in whole seconds: rounded up, and at least 1, because the service accepts nothing shorter.
        `random` makes the random number."""
        return max(1, math.ceil(self.apply_jitter(base_delay, random=random)))


def exponential_delay(initial: float, rate: float, most: float, attempt: int) -> float:
    """The delay after attempt number `attempt` (from 1), in seconds and before jitter. After the first attempt it is `initial`; after each
    further attempt it is multiplied by `rate` once more. It is never longer than `most`."""
    try:
        return min(initial * rate ** (attempt - 1), most)
    except OverflowError:  # with rate 2 a float overflows near attempt 1024; the delay reached `most` long before
        return most if initial else 0


def linear_delay(initial: float, increment: float, most: float, attempt: int) -> float:
    """The delay after attempt number `attempt` (from 1), in seconds and before jitter. After the first attempt it is `initial`; after each
    further attempt it is `increment` longer. It is never longer than `most`."""
    return min(initial + increment * (attempt - 1), most)


@dataclass
class RetryDecision:
    """What a retry strategy returns: whether another attempt follows, and after which delay. `delay` has no meaning if `should_retry` is
    False."""

    should_retry: bool
    delay: Duration

    @property
    def delay_seconds(self) -> int:
        """The delay in seconds."""
        return self.delay.seconds

    @classmethod
    def retry(cls, delay: Duration) -> RetryDecision:
        """The decision to try again after this delay."""
        return cls(True, delay)

    @classmethod
    def no_retry(cls) -> RetryDecision:
        """The decision not to try again: the step, or the function of `with_retry`, fails with the error of the attempt that just
        failed."""
        return cls(False, Duration())


RetryStrategy: TypeAlias = Callable[[Exception, int], RetryDecision]
"""A retry strategy. It is called with the error and with the number of the attempt that just failed, counted from 1."""

"""Whether another attempt follows a failed attempt of a worker, and after how many seconds. This follows from the contract's retries, from
the meaning of the error code, and from the `retry_after_seconds` that the body or a server gave. The run waits (run.py)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from holdfast.contract.codes import Meaning
from holdfast.contract.terms import Retries
from holdfast.workers.frames import BodyError

LONGEST_DELAY: Final = 86_400.0
"""The most seconds that a server's Retry-After, or a body, may delay the next attempt."""


def is_retried(error: BodyError, meaning: Meaning, retries: Retries, number: int) -> bool:
    """Whether another attempt follows the attempt `number`, which ended with this error. `meaning` is the meaning of the error's code."""
    return number < retries.max_attempts and not is_day_cap(error) and meaning.retryable


def is_day_cap(error: BodyError) -> bool:
    """Whether this is the error of a call that a daily cap of the tenant refused. A run with this error ends at once and does not wait for
    the next day."""
    return error.error_code == "rate_limited" and isinstance(error.details, Mapping) and "cap" in error.details


def retry_delay(retries: Retries, number: int, retry_after: float | None, chance: float) -> int:
    """The seconds from the end of the attempt `number` to the next attempt: the longer of `retry_after` (at most a day) and the contract's
    backoff with jitter. Never below 1."""
    wanted = max(min(retry_after or 0.0, LONGEST_DELAY), _backoff(retries, number, chance))
    return max(1, round(wanted))


def _backoff(retries: Retries, number: int, chance: float) -> float:
    """The seconds to wait after the attempt `number`, as the contract's retries say: at most `max_delay_seconds`. `chance` (from 0 to 1)
    adds jitter: the result is between half of the delay and all of it, so that many runs do not retry at the same moment."""
    first, most = retries.initial_delay_seconds, retries.max_delay_seconds
    grown: float = {"exponential": first * 2 ** (number - 1), "linear": first * number, "fixed": first, "none": 0.0}[retries.backoff]
    return min(most, grown) * (0.5 + chance / 2)

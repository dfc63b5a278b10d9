"""Rates: how many units a lane may admit in a time, by the generic cell rate algorithm (GCRA).

A rate of N units in T seconds with a burst of B admits at most B + N·W/T units in any W seconds. Its whole state is one time, `tat` (GCRA's
"theoretical arrival time"): the time at which all admitted units would be used up at the steady rate. Times here are integer nanoseconds,
because the step of one unit may be far below a millisecond.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

import msgspec

from holdfast.model.errors import InvalidParameter

NS_PER_MS: Final = 1_000_000
RUNS: Final = "runs"
"""The kind of a rate that counts each admission as one unit."""
TOKENS: Final = "tokens"
"""The kind of a rate that counts tokens: an admission uses as many units as the place of the execution says (`Place.units`)."""
COOLING: Final = "cooling"
"""The kind of a cool-down, which is not a real rate: nothing is admitted before a certain time. It is stored as a rate whose `tat` is that
time."""
MAX_UNITS: Final = 10**12
MAX_SPAN_NS: Final = 10**18
"""How long, in nanoseconds, the units of a burst may at most take at the steady rate: about 31 years. The bound keeps times in nanoseconds
within 64 bits."""
_LONGEST_SECONDS: Final = 366 * 86_400
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_TEXT: Final = re.compile(r"([1-9][0-9]{0,12}) ?(?:(runs|tokens) ?)?/ ?([1-9][0-9]{0,5})?([smhd])(?: ?burst ?([1-9][0-9]{0,12}))?")


class Rate(msgspec.Struct, frozen=True, gc=False):
    """A limit: on average, `units` units of this kind may be admitted in `seconds` seconds; and at one moment, at most `burst` units."""

    units: int
    seconds: int
    burst: int
    kind: str = RUNS

    @property
    def step_ns(self) -> int:
        """How many nanoseconds one unit takes at the steady rate. It is rounded up, so that rounding does not admit more than the limit."""
        return -(-self.seconds * 1_000_000_000 // self.units)

    def __str__(self) -> str:
        return f"{self.units} {self.kind}/{self.seconds}s burst {self.burst}"


def parsed_rate(text: object) -> Rate:
    """A rate from its text: `100/m`, `20000 tokens/m burst 5000`, `5/10s`. If the text names no burst, the burst is the number of units:
    all of them may be admitted at one moment. Raises InvalidParameter if the text is not a rate."""
    if not isinstance(text, str):
        raise InvalidParameter(f"A rate is a text such as '100/m', not {text!r:.100}.")
    return _parsed(text)


@lru_cache(maxsize=256)
def _parsed(text: str) -> Rate:
    found = _TEXT.fullmatch(text)
    if found is None:
        raise InvalidParameter(f"{text!r:.100} is not a rate. Write a number and a time: '100/m', '5/10s' or '20000 tokens/m burst 5000'.")
    units, kind, count, unit, burst = found.groups()
    return checked_rate(Rate(int(units), int(count or 1) * _SECONDS[unit], int(burst or units), kind or RUNS))


def checked_rate(rate: Rate) -> Rate:
    """The rate itself. Raises InvalidParameter if one of its numbers is not a whole number or is too small or too large, if its kind is
    neither RUNS nor TOKENS, or if its burst would take longer than MAX_SPAN_NS."""
    whole = all(type(number) is int and number >= 1 for number in (rate.units, rate.seconds, rate.burst))
    if not whole or rate.kind not in (RUNS, TOKENS):
        raise InvalidParameter(
            f"{rate!r:.200} is not a rate: units, seconds and burst are whole numbers from 1 on, kind is runs or tokens."
        )
    if rate.units > MAX_UNITS or rate.burst > MAX_UNITS or rate.seconds > _LONGEST_SECONDS:
        raise InvalidParameter(f"{rate} is not a rate: use at most {MAX_UNITS:,} units, also as the burst, and a time of at most 366 days.")
    if rate.burst * rate.step_ns > MAX_SPAN_NS:
        raise InvalidParameter(f"{rate} is not a rate: at this rate, the burst would take longer than 31 years. Use a smaller burst.")
    return rate


class RateState(msgspec.Struct, frozen=True, gc=False):
    """A rate of a lane, and how much of it the admissions so far have used (`tat_ns`)."""

    kind: str
    step_ns: int
    burst: int
    tat_ns: int = 0
    """The time at which all admitted units would be used up at the steady rate, in nanoseconds since 1970-01-01 UTC."""
    shared: str = ""
    """The key of the rate if several lanes share it (places.shared_rate_of); empty for the rate of one lane."""

    def charged(self, units: int, now: int) -> RateState | int:
        """Try to admit `units` units at the time `now` (milliseconds). Returns the rate after the admission; or, if they cannot be admitted
        now, an int: the time in milliseconds from which they can.

        An execution may need more units than the burst, if it was enqueued before the rate was lowered. It is admitted when the whole burst
        is free, and all its units are charged.
        """
        now_ns = now * NS_PER_MS
        from_ns = max(self.tat_ns, now_ns)
        beyond = from_ns - now_ns - (self.burst - min(units, self.burst)) * self.step_ns
        if beyond > 0:
            return now - (-beyond // NS_PER_MS)
        return RateState(self.kind, self.step_ns, self.burst, from_ns + min(units * self.step_ns, MAX_SPAN_NS), self.shared)

"""Rates: how many units a lane may admit in a time, by the generic cell rate algorithm (GCRA).

A rate of N units in T seconds with a burst of B admits, in any span W, at most B + N·W/T units. Its whole state is one time, `tat`: the
time at which everything that was admitted would have been used up at the steady rate. Times here are integer nanoseconds, because the
step of one unit may be far below a millisecond.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

import msgspec

from holdfast.model.errors import InvalidParameter

NS_PER_MS: Final = 1_000_000
RUNS: Final = "runs"
"""Each admission is one unit."""
TOKENS: Final = "tokens"
"""An admission is as many units as its place says."""
COOLING: Final = "cooling"
"""Not a real rate: a time before which nothing is admitted. It is kept as a rate without units whose `tat` is that time."""
MAX_UNITS: Final = 10**12
MAX_SPAN_NS: Final = 10**18
"""The longest time that a burst may take at the steady rate, about 31 years: times in nanoseconds must fit into 64 bits."""
_LONGEST_SECONDS: Final = 366 * 86_400
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_TEXT: Final = re.compile(r"([1-9][0-9]{0,12}) ?(?:(runs|tokens) ?)?/ ?([1-9][0-9]{0,5})?([smhd])(?: ?burst ?([1-9][0-9]{0,12}))?")


class Rate(msgspec.Struct, frozen=True, gc=False):
    """How many units of a kind may be admitted in how many seconds, and how many of them at once."""

    units: int
    seconds: int
    burst: int
    kind: str = RUNS

    @property
    def step_ns(self) -> int:
        """The time that one unit takes at the steady rate, rounded up: rounding must not admit more than the limit."""
        return -(-self.seconds * 1_000_000_000 // self.units)

    def __str__(self) -> str:
        return f"{self.units} {self.kind}/{self.seconds}s burst {self.burst}"


def parsed_rate(text: object) -> Rate:
    """A rate from its text: `100/m`, `20000 tokens/m burst 5000`, `5/10s`. Without a burst, all units of the time may come at once."""
    if not isinstance(text, str):
        raise InvalidParameter(f"{text!r:.100} is not a rate. Write a number and a time, such as '100/m'.")
    return _parsed(text)


@lru_cache(maxsize=256)
def _parsed(text: str) -> Rate:
    found = _TEXT.fullmatch(text)
    if found is None:
        raise InvalidParameter(f"{text!r:.100} is not a rate. Write a number and a time: '100/m', '5/10s' or '20000 tokens/m burst 5000'.")
    units, kind, count, unit, burst = found.groups()
    return checked_rate(Rate(int(units), int(count or 1) * _SECONDS[unit], int(burst or units), kind or RUNS))


def checked_rate(rate: Rate) -> Rate:
    """The rate, if a lane can keep it."""
    whole = all(type(number) is int and number >= 1 for number in (rate.units, rate.seconds, rate.burst))
    if not whole or rate.kind not in (RUNS, TOKENS):
        raise InvalidParameter(f"{rate!r:.200} is not a rate: it has whole numbers from 1 on, and counts runs or tokens.")
    if rate.units > MAX_UNITS or rate.burst > MAX_UNITS or rate.seconds > _LONGEST_SECONDS:
        raise InvalidParameter(f"{rate} is not a rate: at most {MAX_UNITS:,} units, and at most 366 days.")
    if rate.burst * rate.step_ns > MAX_SPAN_NS:
        raise InvalidParameter(f"{rate} is not a rate: its burst would take longer than 31 years.")
    return rate


class RateState(msgspec.Struct, frozen=True, gc=False):
    """A rate as it stands."""

    kind: str
    step_ns: int
    burst: int
    tat_ns: int = 0
    shared: str = ""
    """The key of the rate if several lanes share it (places.shared_rate_of); empty for the rate of one lane."""

    def charged(self, units: int, now: int) -> RateState | int:
        """The rate after an admission of these units at `now` (milliseconds), or the time at which they would be admitted.

        If an execution needs more units than the burst, it was enqueued before the rate was lowered. It is admitted when the whole burst is
        free, and all its units are charged.
        """
        now_ns = now * NS_PER_MS
        from_ns = max(self.tat_ns, now_ns)
        beyond = from_ns - now_ns - (self.burst - min(units, self.burst)) * self.step_ns
        if beyond > 0:
            return now - (-beyond // NS_PER_MS)
        return RateState(self.kind, self.step_ns, self.burst, from_ns + min(units * self.step_ns, MAX_SPAN_NS), self.shared)

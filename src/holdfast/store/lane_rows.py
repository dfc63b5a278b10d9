"""The rows of lanes, with their slots and rates; how a new lane is made; and how an admission uses up the rates of a lane."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from holdfast.model.admission import Enqueue
from holdfast.model.execution import Execution
from holdfast.model.places import Level, level_of, shared_rate_of
from holdfast.model.queues import UNLIMITED, QueueSettings
from holdfast.model.rates import TOKENS, RateState

_MINUTE_MS: Final = 60_000
SharedRates = dict[tuple[str, str], RateState]
"""The rates that several lanes share, as a batch or a walk leaves them. The key of the mapping is the key and the kind of the rate."""


class LaneRow(msgspec.Struct, gc=False, kw_only=True):
    """A lane as it was read, and as a `LaneWalk`, which chooses the executions to admit, changes it."""

    key: str
    held: int = 0
    waiting: int = 0
    at_once: int = UNLIMITED
    closed_until: int = 0
    paused: bool = False
    turn: int = 0
    clock: int = 0
    admitted: int = 0
    drain: float = 0.0
    """About how many admissions there were in the last minute; older ones count less (`drained`)."""
    drained_at: int = 0
    function: str | None = None
    """In a leaf: the function of its executions, whose version is in `version`. None in any other lane."""
    version: str | None = None
    rates: tuple[RateState, ...] = ()
    """The lane's own rates, and the one that it shares with other lanes. The shared one may be older than in `SharedRates`."""
    taken: int = 0
    """How many executions of the lane a walk has admitted."""
    is_new: bool = False
    is_changed: bool = False

    @property
    def is_leaf(self) -> bool:
        """Whether executions wait in this lane itself, and not in lanes below it."""
        return self.function is not None

    @property
    def shared_rate(self) -> str | None:
        """The key of the rates that the lane shares with other lanes; None if it shares none."""
        return next((rate.shared for rate in self.rates if rate.shared), None)

    @property
    def has_room(self) -> bool:
        """Whether the lane has a free slot, and is neither closed nor paused. Its rates are not checked."""
        return self.held < self.at_once and not self.closed_until and not self.paused

    def drained(self, now: int, count: int = 1) -> None:
        """Count admissions at the time `now`: in `admitted`, and in `drain`, where earlier ones count less and less."""
        left = max(0.0, 1 - max(now - self.drained_at, 0) / _MINUTE_MS)
        self.drain, self.drained_at = self.drain * left + count, max(now, self.drained_at)
        self.admitted += count
        self.is_changed = True


def new_lane(key: str, settings: QueueSettings, header: Execution, asked: Enqueue, *, paused: bool, shares: bool = True) -> LaneRow:
    """A lane that is not in the store yet, with the limits of its level. `header` and `asked`: the execution that is the first to need the
    lane, and its enqueue. `paused`: whether the queue is paused. `shares`: whether a leaf shares the rates of its function with other
    leaves."""
    level = level_of(key)
    limits = settings.at(level)
    rates = asked.rates if level == Level.LEAF else limits.parsed_rates()
    shared = shared_rate_of(key) if shares and level == Level.LEAF else ""
    at_once = UNLIMITED if limits.at_once is None else limits.at_once
    return LaneRow(
        key=key,
        at_once=at_once,
        paused=paused and level == Level.QUEUE,
        rates=tuple(RateState(rate.kind, rate.step_ns, rate.burst, shared=shared) for rate in rates),
        is_new=True,
        function=header.function if level == Level.LEAF else None,
        version=header.version if level == Level.LEAF else None,
    )


def rates_charged(lane: LaneRow, units: int, now: int, shared: SharedRates) -> tuple[RateState, ...] | int:
    """The rates of a lane after the admission of one execution with `units` tokens. `shared` has the newest state of the rates that lanes
    share. If the rates do not allow the admission now: instead, the time in milliseconds at which they will."""
    after: list[RateState] = []
    refused = 0
    for known in lane.rates:
        rate = shared.get((known.shared, known.kind), known) if known.shared else known
        charged = rate.charged(units if rate.kind == TOKENS else 1, now)
        if isinstance(charged, int):
            refused = max(refused, charged)
        else:
            after.append(charged)
    return refused or tuple(after)


def charged_rates(lanes: Iterable[LaneRow]) -> dict[tuple[str, str], int]:
    """By the key and the kind of a rate: its `tat_ns`, the time up to which the rate is used up. If several of the lanes share a rate, the
    latest of their values is taken, because each charge moves the value to a later time."""
    found: dict[tuple[str, str], int] = {}
    for lane in lanes:
        for rate in lane.rates:
            at = (rate.shared or lane.key, rate.kind)
            found[at] = max(rate.tat_ns, found.get(at, rate.tat_ns))
    return found

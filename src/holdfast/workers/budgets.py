"""Budgets that runs share: how much all runs below a pipeline's run, or below one node of it, may spend together.

The write before a call (its intent) reserves the most that the call may cost, in every budget of its run. The write of its receipt settles
the call: it takes the reservation back and adds what the call really cost. The store keeps the spent and the reserved amount separately. If
a call does not fit only because other calls under way have reservations, it waits until there is room, or until nothing has changed for an
hour. If so much is spent that the call could not fit even without those reservations, its tool is asked for a smaller reservation; if the
tool has none, the call is refused. While a call waits, the time of its attempt is stopped. The gateway (gateway.py) calls this module. The
limits of the run itself are in calls.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from decimal import Decimal
from typing import Final, TypeVar

from holdfast.model.charges import Charge
from holdfast.model.clock import Clock, monotonic
from holdfast.model.errors import LimitReached
from holdfast.model.ledger import NANO, nanos_of
from holdfast.workers.accepted_request import Budget
from holdfast.workers.attempt_time import AttemptTime
from holdfast.workers.tools.seam import Remaining, Reservation, ToolFailed, Usage

T = TypeVar("T")
_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 2.0
"""The call that is first in a line asks the store again after at most this many seconds, because this process does not learn of settlements
in other processes."""
_LONGEST_STANDSTILL: Final = 3600.0
"""If the spent and the reserved amount of a budget stay the same for this many seconds, a call that waits for the budget fails. (A run that
was stopped by force never settles its calls.)"""
_TOKENS, _COST = "/tokens", "/cost"


class Settlements:
    """The calls of this process that wait for room in a budget. There is one line for each counter; the call that has waited longest is
    first."""

    def __init__(self) -> None:
        self._lines: dict[str, list[asyncio.Event]] = {}

    def told(self, counters: Iterable[str]) -> None:
        """Report that a call was settled on these counters. In the line of each of them, the first call then checks whether there is room.
        When it leaves the line, the next call of the line checks."""
        for counter in counters:
            if line := self._lines.get(counter):
                line[0].set()

    def join(self, counter: str) -> asyncio.Event:
        """Take a place at the end of a counter's line. Returns the place: an event that is set when the call should check for room."""
        place = asyncio.Event()
        self._lines.setdefault(counter, []).append(place)
        return place

    def leave(self, counter: str, place: asyncio.Event) -> None:
        """Give up a place in a counter's line. The first call that remains in the line then checks for room."""
        line = self._lines[counter]
        line.remove(place)
        if line:
            line[0].set()
        else:
            del self._lines[counter]

    def is_first(self, counter: str, place: asyncio.Event) -> bool:
        """Whether this call is the first in the line of the counter."""
        return self._lines[counter][0] is place


class SharedBudgets:
    """The budgets that the calls of one run are charged to."""

    def __init__(self, budgets: tuple[Budget, ...], clock: Clock, settlements: Settlements) -> None:
        self._budgets = budgets
        self._clock = clock
        self._settlements = settlements
        self._spent: dict[str, int] = {}
        """The spent amount that the store reported last, by counter. It only grows."""

    def __bool__(self) -> bool:
        return bool(self._budgets)

    # --- what a call may reserve, reserves and settles

    def left(self, remaining: Remaining) -> Remaining:
        """`remaining`, but at most what this process knows to be left of each budget of the run. The store makes the final check when the
        intent of the call is written."""
        for budget in self._budgets:
            remaining = self._left_of(budget, remaining)
        return remaining

    def _left_of(self, budget: Budget, remaining: Remaining) -> Remaining:
        tokens, cost = budget.max_tokens, budget.max_cost
        return remaining.within(
            None if tokens is None else max(0, tokens - self._spent.get(budget.key + _TOKENS, 0)),
            None if cost is None else max(Decimal(0), cost - Decimal(self._spent.get(budget.key + _COST, 0)) / NANO),
        )

    def reserved(self, reservation: Reservation) -> tuple[Charge, ...]:
        """The charges that reserve the most that a call may cost, in every budget of the run. Budgets whose time is over are left out."""
        return self._charges(0, reservation.tokens, 0, nanos_of(reservation.cost_usd))

    def settled(self, reservation: Reservation, usage: Usage) -> tuple[Charge, ...]:
        """The charges for a call that has ended: they take the call's reservation back, and add what the call used to the spent amounts.
        Budgets whose time is over are left out."""
        return self._charges(usage.tokens, -reservation.tokens, nanos_of(usage.cost_usd), -nanos_of(reservation.cost_usd))

    def _charges(self, tokens: int, reserved_tokens: int, cost: int, reserved_cost: int) -> tuple[Charge, ...]:
        charges, now = [], self._clock.now()
        for budget in self._budgets:
            if budget.until <= now:
                continue  # the pipeline's run is over for certain, and its counters may be gone
            for counter, limit, spent, reserved in (
                (budget.key + _TOKENS, budget.max_tokens, tokens, reserved_tokens),
                (budget.key + _COST, None if budget.max_cost is None else nanos_of(budget.max_cost), cost, reserved_cost),
            ):
                if limit is not None and (spent or reserved):
                    charges.append(Charge(counter, spent, limit if reserved > 0 else None, budget.until, reserved=reserved))
        return tuple(charges)

    def settlement_written(self) -> None:
        """Report that a settlement of this run is on disk, so that calls that wait for the same budgets look whether they fit now."""
        self._settlements.told(budget.key + what for budget in self._budgets for what in (_TOKENS, _COST))

    # --- a call that does not fit

    def explained(self, failed: ToolFailed, own: Remaining) -> ToolFailed:
        """The error `failed`, with which a tool refused a call. If the reason is that too little is left of a shared budget, the error
        names the owner of that budget. `own` is what the run's own limits and the tenant's caps leave."""
        narrower = [budget for budget in self._budgets if self._left_of(budget, own) != own]
        if failed.code == "budget_exceeded" and narrower:
            tightest = next((budget for budget in narrower if self._left_of(budget, own) == self.left(own)), narrower[0])
            failed.message = f"{failed.message} This is what is left of the budget of {owner(tightest.key)}."
        return failed

    async def admitted(
        self, tool: str, time: AttemptTime, write: Callable[[], Awaitable[T]], refused: Callable[[LimitReached], ToolFailed]
    ) -> T:
        """Call `write`, which writes a reservation, until the store accepts it, and return its result. While a shared budget has no room,
        wait. Raises ToolFailed if the call can never fit a shared budget, or if nothing changes in that budget for an hour. If another
        limit refuses the write, raises the error that `refused` makes."""
        wait = BudgetWait(self, tool, time)
        try:
            while True:
                try:
                    return await write()
                except LimitReached as limit:
                    if not self._owns(limit):
                        raise refused(limit) from None
                    await wait.until_free(limit)
        finally:
            wait.leave()

    def _owns(self, limit: LimitReached) -> bool:
        return any(limit.key in (budget.key + _TOKENS, budget.key + _COST) for budget in self._budgets)

    def learn(self, limit: LimitReached) -> bool:
        """Remember the spent amount that `limit`, a refusal of the store, reports. Returns whether it is more than this process knew. If
        not, a second try would reserve the same amount and be refused again."""
        known = self._spent.get(limit.key, 0)
        self._spent[limit.key] = max(known, limit.spent)
        return limit.spent > known


class BudgetWait:
    """One call that waits for room in shared budgets."""

    def __init__(self, budgets: SharedBudgets, tool: str, time: AttemptTime) -> None:
        self._budgets = budgets
        self._line = budgets._settlements
        self._tool = tool
        self._time = time
        self._pause = _FIRST_PAUSE
        self._at: tuple[str, asyncio.Event] | None = None
        self._seen: tuple[str, int, int] | None = None
        self._since = 0.0

    def leave(self) -> None:
        """Give up the place in the line, if the call has one."""
        if self._at is not None:
            self._line.leave(*self._at)
            self._at = None

    async def until_free(self, limit: LimitReached) -> None:
        """Wait until the write of the call may be tried again; `limit` is the store's refusal of the last try. Returns at once if so much
        is spent that the reservation cannot fit, and this process did not know that amount: the next try may reserve less. If this process
        knew it, raises ToolFailed. Also raises ToolFailed if nothing changed in the budget for an hour."""
        learnt = self._budgets.learn(limit)
        if limit.is_curable:
            self._check_standstill(limit)
            with self._time.while_stopped():
                await self._waited(limit)
        elif not learnt:
            raise ToolFailed("budget_exceeded", f"{self._tool} could use more than is left of a budget: {_told(limit)}.")

    def _check_standstill(self, limit: LimitReached) -> None:
        seen, now = (limit.key, limit.spent, limit.reserved), monotonic()
        if seen != self._seen:
            self._seen, self._since = seen, now
        elif now - self._since >= _LONGEST_STANDSTILL:
            why = f"{_told(limit)}; calls under way have reserved {_amount(limit.key, limit.reserved)}."
            raise ToolFailed(
                "tool_timeout", f"{self._tool} waited for room in a budget, and no call of the budget ended for an hour: {why}"
            )

    async def _waited(self, limit: LimitReached) -> None:
        if self._at is None or self._at[0] != limit.key:
            self.leave()
            self._at = (limit.key, self._line.join(limit.key))
        _, place = self._at
        place.clear()
        try:
            async with asyncio.timeout(self._pause if self._line.is_first(*self._at) else None):
                await place.wait()
        except TimeoutError:
            self._pause = min(self._pause * 2, _LONGEST_PAUSE)


def owner(key: str) -> str:
    """The owner of the budget with this key, in words: a pipeline's run, or a node of it."""
    _, run, *node = key.split("/")
    return f"node {node[0]} of pipeline run {run}" if node else f"pipeline run {run}"


def _told(limit: LimitReached) -> str:
    whole, of = _amount(limit.key, limit.limit), owner(limit.key.rpartition("/")[0])
    return f"{of} may spend {whole}, and has spent {_amount(limit.key, limit.spent)}"


def _amount(counter: str, amount: int) -> str:
    return f"${amount / NANO:g}" if counter.endswith(_COST) else f"{amount:,} tokens"

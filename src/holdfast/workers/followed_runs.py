"""The followers of runs in this process. Each gets the recorded events of its run, with the live ones between them, until the run has
ended, is quarantined, or is removed from the store.

A follower has a place in the run's history and a place in the run's ring, and no queue of its own. So a slow follower delays neither the
run nor another follower: if the ring has dropped live events that the follower did not get, the follower gets one event `gap` instead.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from typing import Any, Final

import msgspec

from holdfast.contract.refusals import Overloaded
from holdfast.model.clock import monotonic
from holdfast.model.execution import Execution, ExecutionStatus, State
from holdfast.model.threads import Purpose, in_thread
from holdfast.store.seam import ExecutionStore, HistoryEntry
from holdfast.workers.accepted_request import AcceptedRequest
from holdfast.workers.event_rings import EventRing, EventRings, FollowerPosition, RingLimits
from holdfast.workers.events import PAGE, RunEvent, events_of

_POLL_SECONDS: Final = 0.25
"""The seconds between two reads of the store by one follower. Followers must read it, because the run may be in another process, which does
not report its writes to this one."""
_POLLED: Final = 100
"""If there are more followers than this in the process, each reads the store less often, so that all of them together read it only as often
as this many followers do."""


class FollowerLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How many followers there may be at one time in this process."""

    of_run: int = 50
    """The most followers of one run."""
    of_tenant: int = 250
    """The most followers of all runs of one tenant."""
    all: int = 1000
    """The most followers of all runs."""


class FollowedRuns:
    """The followers of each run in this process, and the live events that are kept for them."""

    def __init__(self, limits: FollowerLimits | None = None, rings: RingLimits | None = None) -> None:
        self._limits = limits or FollowerLimits()
        self._rings = EventRings(rings)
        self._followers: dict[str, set[_Follower]] = {}
        self._tenants: Counter[str] = Counter()
        self._looks: dict[str, asyncio.Future[Execution | None]] = {}

    # --- what runs tell: live_run.Followers says what each method does

    @property
    def are_there(self) -> bool:
        return len(self._rings) > 0

    def has(self, run_id: str) -> bool:
        return self._rings.get(run_id) is not None

    def offer(self, run_id: str, event: str, data: Any) -> None:
        if self._rings.add(run_id, event, data):
            for follower in self._followers.get(run_id, ()):
                follower.tell(wrote=False)

    def nudge(self, run_id: str) -> None:
        for follower in self._followers.get(run_id, ()):
            follower.tell(wrote=True)

    # --- following

    async def follow(
        self, store: ExecutionStore, header: Execution, accepted: AcceptedRequest, position: FollowerPosition | None = None
    ) -> AsyncGenerator[RunEvent | None, None]:
        """The events of a run after a position, then new events as they happen, until the run has ended or is quarantined. If it is
        quarantined, the last event is `quarantined`. Yields None when nothing has happened for a while.

        If the store has removed the run, the last event is `quarantined`, too, although there is no run to release. If there are too many
        followers, the first step of the iteration raises Overloaded.
        """
        self._admit(header.id, accepted.tenant)
        ring = self._rings.open(header.id, header.events)
        follower = _Follower(ring, position or FollowerPosition(), self._pause)
        self._followers.setdefault(header.id, set()).add(follower)
        self._tenants[accepted.tenant] += 1
        try:
            async for event in self._events(store, header.id, accepted, follower):
                yield event
        finally:
            self._tenants[accepted.tenant] -= 1
            self._tenants += Counter()  # removes tenants without followers
            self._followers[header.id].discard(follower)
            if not self._followers[header.id]:
                del self._followers[header.id]
            self._rings.leave(header.id)

    def _pause(self) -> float:
        """How many seconds one follower waits between two reads of the store, unless the run reports a write."""
        return _POLL_SECONDS * max(1.0, self._tenants.total() / _POLLED)

    def _admit(self, run_id: str, tenant: str) -> None:
        limits = self._limits
        counted = {
            "This run": (len(self._followers.get(run_id, ())), limits.of_run),
            "The tenant": (self._tenants[tenant], limits.of_tenant),
            "This process": (self._tenants.total(), limits.all),
        }
        for who, (count, most) in counted.items():
            if count >= most:
                raise Overloaded(f"{who} has {count:,} followers, and at most {most:,} are allowed. Stop one of them, or try again later.")

    async def _events(
        self, store: ExecutionStore, run_id: str, accepted: AcceptedRequest, follower: _Follower
    ) -> AsyncGenerator[RunEvent | None, None]:
        while True:
            follower.looks()
            header = await self._look(store, run_id)
            while header is not None and header.events > follower.recorded:
                lines = await in_thread(Purpose.STORE, store.history, run_id, follower.recorded, PAGE)
                if not lines:
                    break
                for event in follower.merged(await in_thread(Purpose.STORE, events_of, store, run_id, accepted, lines), lines):
                    yield event
                    if event.event == "done":
                        return
            if header is None or header.state is State.QUARANTINED:
                yield RunEvent(None, "quarantined", {"run_id": run_id})
                return
            is_over = header.status is not ExecutionStatus.RUNNING and header.state is State.CLOSED
            while True:
                for live in follower.live(follower.recorded, is_all=True):
                    yield live
                if is_over and header.events <= follower.recorded:
                    return  # the follower has had every event
                if follower.must_look:
                    break
                if not await follower.heard():
                    yield None

    async def _look(self, store: ExecutionStore, run_id: str) -> Execution | None:
        """The run as the store has it; None if the store has removed the run. If several followers of one run ask at the same time, the
        store is read once for all of them."""
        look = self._looks.get(run_id)
        if look is None:
            look = self._looks[run_id] = asyncio.ensure_future(in_thread(Purpose.STORE, store.find, run_id))
            look.add_done_callback(lambda done: (self._looks.pop(run_id, None), done.cancelled() or done.exception()))
        return await asyncio.shield(look)


class _Follower:
    """One follower: how far it has read the history and the ring."""

    def __init__(self, ring: EventRing, position: FollowerPosition, pause: Callable[[], float]) -> None:
        self.ring = ring
        self.recorded = position.recorded
        self._number, self._has_gap = ring.began(position)
        self._pause = pause
        self._news = asyncio.Event()
        self._run_wrote = True
        self._looked_at = 0.0

    def tell(self, *, wrote: bool) -> None:
        """Wake the follower: there is a new live event, or (`wrote`) the run has written to the store."""
        self._run_wrote |= wrote
        self._news.set()

    def looks(self) -> None:
        """Note that the follower is about to read the store."""
        self._run_wrote, self._looked_at = False, monotonic()

    @property
    def must_look(self) -> bool:
        """Whether the follower should read the store now: the run has written to it, a live event waits for recorded events, or the pause
        is over."""
        behind = self.ring.last > self._number  # true also if a live event comes after recorded events that this follower has not read yet
        return self._run_wrote or behind or monotonic() - self._looked_at >= self._pause()

    async def heard(self) -> bool:
        """Wait until the follower is woken, or until it is time to read the store again. Returns whether the follower was woken."""
        try:
            async with asyncio.timeout(max(0.0, self._looked_at + self._pause() - monotonic())):
                await self._news.wait()
        except TimeoutError:
            return False
        self._news.clear()
        return True

    def merged(self, events: Sequence[RunEvent], lines: Sequence[HistoryEntry]) -> Iterator[RunEvent]:
        """The recorded events `events`, with live events at their places between them. `lines` are the lines of the history from which
        `events` were made. Live events that happen from now on get a place after the last of these lines."""
        last = lines[-1].event.number
        self.ring.recorded = max(self.ring.recorded, last)
        for event in events:
            if isinstance(event.id, int):
                # The gap must come before the recorded event: if the client reconnects after that event, it would not learn of the gap any
                # more.
                yield from self.live(event.id - 1, is_all=self._has_gap or event.id > self.ring.begun)
                self.recorded = event.id
            yield event
        self.recorded = last

    def live(self, recorded: int, *, is_all: bool = False) -> Iterator[RunEvent]:
        """The live events that the follower has not got and whose place is before the recorded event with the number `recorded` + 1. If the
        ring has dropped some, a `gap` comes first. Without `is_all`, the `gap` comes only if a live event follows it."""
        while True:
            missed = self.ring.missed(self._number)
            found = self.ring.after(self._number + missed)
            is_here = found is not None and found.recorded <= recorded
            if (self._has_gap or missed) and (is_here or is_all):
                self._number, told, self._has_gap = self._number + missed, None if self._has_gap else missed, False
                yield RunEvent(self.ring.id_at(self.recorded, self._number), "gap", {"missed": told})
            elif found is not None and is_here:
                self._number = found.number
                yield RunEvent(self.ring.id_at(found.recorded, found.number), found.event, found.data)
            else:
                return

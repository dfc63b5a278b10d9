"""The scheduler of due work: timers fire, ready executions are claimed, dead runners' work is taken over, other processes are heard.

One task looks around when something may have become ready, when the next timer is due, and once a second for dead runners. A thread
asks twenty times a second whether another process wrote (one PRAGMA, cheaper than a turn of the loop) and renews the lease, so that a
busy loop does not look like a dead runner; it also notices a loop that stands still (stalling.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from typing import Final, Protocol

from holdfast.engine.health import Health
from holdfast.engine.outbox import Outbox
from holdfast.engine.poller import Poller, StartPoller
from holdfast.engine.registry import Function, Registry
from holdfast.engine.sparing import readable
from holdfast.engine.stalling import LoopWatch
from holdfast.engine.upkeep import Upkeep
from holdfast.model.clock import Clock, monotonic
from holdfast.model.errors import DiskFailed, HoldfastError, Rejected, Retryable
from holdfast.model.execution import Execution, State
from holdfast.model.life import SUSPECT_DEATHS
from holdfast.store.seam import Store

log = logging.getLogger("holdfast.engine")

_LEASE_MS: Final = 10_000
_VIRTUAL_LEASE_MS: Final = 10**15
"""Under a virtual clock a year may pass between two heartbeats, so the lease never runs out."""
_HEARTBEAT_SECONDS: Final = 3.0
_NEWS_SECONDS: Final = 0.05
_DEATHS_SECONDS: Final = 1.0
_TROUBLE_SECONDS: Final = 1.0
_TROUBLED_SECONDS: Final = 60.0
"""How long an execution that could not be fired or claimed is left alone."""
_ASLEEP_MS: Final = _LEASE_MS // 2
"""Time that passed between two looks for dead runners, from which on we have slept ourselves, or the clock was set."""
_AWAKE_SECONDS: Final = _HEARTBEAT_SECONDS + _DEATHS_SECONDS
"""How long we must have been awake to call a silent runner dead: in this time every living one has renewed its lease."""
_ALONE_SECONDS: Final = 10.0
"""How long a suspect waits for everything else to end here, and how long it has this runner for itself."""
_BATCH: Final = 500


class Scheduled(Protocol):
    """The engine, as far as it is tended."""

    store: Store
    clock: Clock
    registry: Registry
    outbox: Outbox
    health: Health
    runner: str
    watching: StartPoller
    backlog: bool

    @property
    def idle(self) -> bool: ...
    def news(self) -> None: ...
    def retry(self) -> None: ...
    async def claim(self, execution: str, dead: frozenset[str], function: Function, *, alone: bool = False) -> None: ...
    async def fire(self, execution: str) -> None: ...


class Scheduler:
    """Looks after one engine."""

    def __init__(self, engine: Scheduled) -> None:
        self._engine = engine
        self._store = engine.store
        self._upkeep = Upkeep(engine.store, engine.clock)
        self._wake = asyncio.Event()
        self._next: int | None = None
        self._deaths_at = 0.0
        self._looked_at = 0
        self._awake_at = 0.0
        self._suspect: str | None = None
        self._suspect_until = 0.0
        self._suspect_asked_at: float | None = None
        self._troubled: dict[str, float] = {}
        """Executions that could not be fired or claimed, and when each is tried again: no other execution waits for them."""
        self._foreign = False
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None
        self._watch: Poller | None = None
        self._loop_watch = None if engine.clock.virtual else LoopWatch(self._loop)
        self._lease_ms = _VIRTUAL_LEASE_MS if engine.clock.virtual else _LEASE_MS

    async def begin(self) -> None:
        """Join the store and look around at once: what a dead process left is taken over here."""
        self._store.join(self._engine.runner, self._engine.clock.now() + self._lease_ms)
        self._store.publish(self._engine.registry.hosted())
        self._engine.outbox.begin(self.expect_at)
        self._watch = self._engine.watching(self._looks(), _NEWS_SECONDS)
        self._engine.backlog = True
        self._task = asyncio.create_task(self._tend(), name="holdfast-scheduler")

    async def end(self) -> None:
        """Stop looking, and let the lease go last."""
        if self._watch is not None:
            self._watch.end()
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        await self._upkeep.end()
        await self._engine.outbox.end()

    def look(self) -> None:
        """Look around now."""
        self._wake.set()

    def expect(self, header: Execution) -> None:
        """An execution was left alone: remember when it wants us again."""
        times = [header.due_at, header.ready_at if header.state is State.READY else None]
        for at in times:
            if at is not None and (self._next is None or at < self._next):
                self._next = at
        if header.state is State.READY or self._engine.clock.virtual:
            self.look()

    def expect_at(self, at: int) -> None:
        """Somebody wants us to look around then."""
        if self._next is None or at < self._next:
            self._next = at
        self.look()

    async def _tend(self) -> None:
        while True:
            try:
                if self._engine.health.trouble is not None:
                    await self._until_well()
                await self._round()
                await self._rest()
            except DiskFailed as trouble:
                self._engine.health.fell(trouble)
                self._foreign = True  # what this round did not get to see is seen in the next
            except Exception as trouble:  # whatever it is, it must not end the scheduler
                log.warning("the scheduler of %s: %s", self._engine.runner, trouble, exc_info=not isinstance(trouble, HoldfastError))
                self._engine.backlog = True
                await asyncio.sleep(_TROUBLE_SECONDS)

    async def _until_well(self) -> None:
        """Claim nothing while the disk fails; then look at everything, as after a sleep: nobody could renew a lease meanwhile."""
        while self._engine.health.trouble is not None:
            self._wake.clear()
            await self._wake.wait()
        self._looked_at = 0
        self._foreign = True

    async def _round(self) -> None:
        self._wake.clear()
        engine = self._engine
        if self._foreign:
            self._foreign = False
            engine.backlog = True
            engine.news()
            engine.outbox.news()
        now = engine.clock.now()
        self._upkeep.look(now)
        engine.outbox.look(now)
        due = self._next is None or self._next <= now
        if due:
            await self._fire_due(now)
        dead = self._dead(now)
        if engine.backlog or dead or due:  # what is due may also be the next try of a failed invocation
            engine.backlog = False
            await self._claim_ready(now, dead)
        # What there is no room for is not waited for: whoever makes room looks again, because of the backlog.
        room = engine.registry.claimable().values()
        times = (self._store.next_due([target for targets in room for target in targets]), engine.outbox.next_at)
        self._next = min((at for at in times if at is not None), default=None)
        if self._troubled and self._next is not None:  # what is due may be one of them, and stays due
            self._next = max(self._next, now + int(_TROUBLE_SECONDS * 1000))

    async def _fire_due(self, now: int) -> None:
        while due := self._well(self._store.due(now, _BATCH + len(self._troubled)), _BATCH):
            await self._each({execution: self._engine.fire(execution) for execution in due})
            if len(due) < _BATCH:
                return

    def _well(self, found: Sequence[str], room: int) -> list[str]:
        """Those of these that were not in trouble lately."""
        if self._troubled:
            now = monotonic()
            self._troubled = {execution: until for execution, until in self._troubled.items() if until > now}
        return [execution for execution in found if execution not in self._troubled][:room]

    async def _each(self, work: Mapping[str, Awaitable[None]]) -> None:
        """Do something for many executions at once. What fails for one is told and left alone for a while; what concerns all is raised."""
        for execution, trouble in zip(work, await asyncio.gather(*work.values(), return_exceptions=True), strict=True):
            if isinstance(trouble, Retryable) or (trouble is not None and not isinstance(trouble, Exception)):
                raise trouble
            if trouble is not None and not isinstance(trouble, Rejected):  # what is gone or closed needs nothing
                self._troubled[execution] = monotonic() + _TROUBLED_SECONDS
                known = isinstance(trouble, HoldfastError)
                log.warning(
                    "could not go on with %s, and leave it for a while: %s", execution, trouble, exc_info=None if known else trouble
                )

    def _dead(self, now: int) -> frozenset[str]:
        if monotonic() - self._deaths_at < _DEATHS_SECONDS:
            return frozenset()
        self._deaths_at = monotonic()
        if now - self._looked_at > _ASLEEP_MS:
            self._awake_at = monotonic()
        self._looked_at = now
        # After a sleep all leases are over, also those of runners that slept beside us and live. Until they had time to say so, only the
        # kernel's word counts: at time 0 no lease is over.
        awake = monotonic() - self._awake_at >= _AWAKE_SECONDS
        return self._store.dead(now if awake else 0) - {self._engine.runner}

    async def _claim_ready(self, now: int, dead: frozenset[str]) -> None:
        engine = self._engine
        self._end_suspicion()
        offered = []
        for slots, targets in engine.registry.claimable().items():
            room = min(slots.free, _BATCH)
            found = self._well(self._store.claimable(targets, dead, now, room + len(self._troubled)), room)
            offered.append((slots, targets[0], found))
            engine.backlog |= len(found) == room
        claims: dict[str, Awaitable[None]] = {}
        for slots, target, found in offered:  # after the last read, so that a failed one leaves no room reserved
            function = engine.registry.get(target.function, target.version)
            assert function is not None
            slots.free -= len(found)
            claims |= {execution: engine.claim(execution, dead, function) for execution in found}
        engine.backlog |= engine.registry.is_full()
        await self._each(claims)
        await self._claim_suspect()

    async def _claim_suspect(self) -> None:
        """What too many runners died under runs alone here, so that nobody else is blamed for the next death."""
        engine = self._engine
        for slots, targets in engine.registry.claimable().items():
            found = self._store.suspect(targets, engine.clock.now())
            function = engine.registry.get(targets[0].function, targets[0].version)
            if found is None or function is None or found in self._troubled:
                continue
            engine.backlog = True  # so that whatever ends here makes us look again
            asked_at = self._suspect_asked_at = self._suspect_asked_at or monotonic()
            if engine.registry.is_unused() or monotonic() - asked_at >= _ALONE_SECONDS:
                slots.free -= 1
                engine.registry.shut()
                self._suspect, self._suspect_until = found, monotonic() + _ALONE_SECONDS
                self._suspect_asked_at = None
                await self._each({found: engine.claim(found, frozenset(), function, alone=True)})
                self._end_suspicion()  # somebody else may have been quicker
            return
        self._suspect_asked_at = None

    def _end_suspicion(self) -> None:
        """Let others in again when the suspect is gone, has made progress, or has had its time."""
        if self._suspect is None:
            return
        header = next(readable(self._store, [self._suspect]), None)
        ours = header is not None and header.runner == self._engine.runner and header.deaths >= SUSPECT_DEATHS
        if not ours or monotonic() >= self._suspect_until:
            self._suspect = None
            self._engine.registry.open()
            self.look()

    async def _rest(self) -> None:
        """Until there is something to do."""
        if self._engine.clock.virtual:
            await self._rest_virtually()
            return
        left = _DEATHS_SECONDS
        if self._next is not None:
            left = min(left, max(self._next - self._engine.clock.now(), 0) / 1000)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(left):
                await self._wake.wait()

    async def _rest_virtually(self) -> None:
        """Until somebody moves the clock past the next timer, or we may."""
        while not self._wake.is_set() and not await self._skipped():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_NEWS_SECONDS):
                    await self._wake.wait()
            now = self._engine.clock.now()
            if self._upkeep.is_due(now) or (self._next is not None and self._next <= now):
                return

    async def _skipped(self) -> bool:
        """Move a virtual clock to the next timer once nothing else is left to do."""
        clock = self._engine.clock
        if not clock.virtual or self._next is None or not self._engine.idle:
            return False
        for _ in range(3):
            await asyncio.sleep(0)  # whoever waits for us may have something to do first
        if self._wake.is_set() or not self._engine.idle:
            return False
        clock.skip_to(self._next)
        return clock.now() >= self._next

    def _looks(self) -> Iterator[None]:
        """What the watch does, one look at a time."""
        beaten = monotonic()
        while True:
            yield
            try:
                if self._loop_watch is not None:
                    self._loop_watch.look()
                if self._store.changed():
                    self._loop.call_soon_threadsafe(self._hear)
                well = self._engine.health.trouble is None
                if monotonic() - beaten >= (_HEARTBEAT_SECONDS if well else _TROUBLE_SECONDS):
                    beaten = monotonic()
                    self._renew()
                    if not well:
                        self._engine.retry()
                self._engine.health.tell()
            except DiskFailed as trouble:
                self._engine.health.fell(trouble)
            except Exception as trouble:  # nor the watch, or the lease would run out
                log.warning("watching for %s: %s", self._engine.runner, trouble, exc_info=not isinstance(trouble, HoldfastError))

    def _hear(self) -> None:
        self._foreign = True
        self.look()

    def _renew(self) -> None:
        engine = self._engine
        until = engine.clock.now() + self._lease_ms
        if not self._store.renew(engine.runner, until):
            self._store.join(engine.runner, until)

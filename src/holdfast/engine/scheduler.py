"""The scheduler: finds work that no caller asks for at that moment, and gives it to the invocations.

A call (a start, an answer) claims what it makes ready in its own write. Everything else is found here: timers that are due, executions
that are ready, executions of dead runners, schedules that are due (timetable.py), and what other processes wrote. One task takes rounds:

                     rung, a timer is due, or a second has passed
                  ┌─────────────────────────────────────────────────────────────┐
                  ▼                                                             │
    begin ──▶  round ──▶ read others' writes ──▶ fire ──▶ claim ──▶ admit ──▶ rest
               ▲  │                                       │
               │  │ the disk fails                        │ a suspect: it runs alone
               │  ▼                                       ▼
              paused                                  shut to others

The agenda (agenda.py) says when to take the next round, and which steps of the round are needed. The scheduler reads the agenda, asks the
store for candidates, and gives them to the invocations. Each write decides again whether it may claim. So two runners that find the same
execution never both get it, and a round that is taken too early or twice does no harm.

A thread, the poller, does what must not wait for a busy loop. Twenty times a second it asks the store whether another process wrote; if
so, it rings. Every three seconds it renews the lease (runner_leases.py). It also notices a loop that is blocked (loop_watch.py).

Queues. The store picks what is admitted next, because it sees the lanes (store.admission_order); a round only tells it for how many
executions there is room here. The agenda's `queued` says that asking is worth it: an execution was enqueued, a slot or room came free, a
lane opened, or another process wrote.

The disk fails. The engine pauses (health.py): no round is taken. The poller tries once a second to write what waits; the first write that
the disk accepts ends the pause, and the next round reads everything again, as after a sleep.

A runner dies. runner_leases.py finds that out; a round asks it at most once a second. The claim that takes a dead runner's execution also
writes the end of the invocation that died.

One execution is in trouble: its timers cannot be fired, or its claim fails. Rounds leave it alone for a minute, and do the others.

Suspects. An execution under which two or more runners in a row have died is a suspect: it may be what kills them. suspects.py says when
it is claimed, and when nothing else is.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from typing import Final

from holdfast.engine import runner_leases
from holdfast.engine.admissions import Admissions
from holdfast.engine.agenda import Agenda
from holdfast.engine.health import Health
from holdfast.engine.invocations import Invocations
from holdfast.engine.live_parents import LiveParents
from holdfast.engine.loop_watch import LoopWatch
from holdfast.engine.outbox import Outbox
from holdfast.engine.poller import Poller, StartPoller
from holdfast.engine.registry import Capacity, Registry
from holdfast.engine.runner_leases import RunnerLeases
from holdfast.engine.suspects import Suspects
from holdfast.engine.timetable import Timetable
from holdfast.engine.upkeep import Chore, Upkeep
from holdfast.engine.writer import Writer
from holdfast.model.clock import Clock, monotonic
from holdfast.model.errors import DiskFailed, HoldfastError, Rejected, Retryable
from holdfast.store.seam import Store

log = logging.getLogger("holdfast.engine")

_NEWS_SECONDS: Final = 0.05
_TROUBLE_SECONDS: Final = 1.0
_TROUBLED_SECONDS: Final = 60.0
"""How long the rounds leave an execution alone that could not be claimed, or whose timers could not be fired."""
_BATCH: Final = 500


class Scheduler:
    """Finds work for the invocations of one runner."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        invocations: Invocations,
        admissions: Admissions,
        writer: Writer,
        outbox: Outbox,
        health: Health,
        agenda: Agenda,
        parents: LiveParents,
        timetable: Timetable,
        *,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        runner: str,
        chores: Sequence[Chore],
    ) -> None:
        self._store, self._registry, self._invocations, self._writer = store, registry, invocations, writer
        self._outbox, self._health, self._agenda, self._parents = outbox, health, agenda, parents
        self._admissions, self._timetable = admissions, timetable
        self._loop, self._clock, self._runner = loop, clock, runner
        self._upkeep = Upkeep(store, clock, chores)
        self._leases = RunnerLeases(store, clock, runner)
        self._suspects = Suspects(store, registry, agenda, clock, runner)
        self._troubled: dict[str, float] = {}
        """Executions that could not be fired or claimed, and when each is tried again. Rounds leave them out until then."""
        self._admitted: set[Capacity] = set()
        """The capacities for which the last admission found executions."""
        self._task: asyncio.Task[None] | None = None
        self._poller: Poller | None = None
        self._loop_watch = None if clock.virtual else LoopWatch(loop)
        self._is_planned = False
        """Whether the last round read the time of the next timer."""
        self._planned_at = 0.0
        self._planned_idle = False
        """Whether nothing ran when the next timer was read. Otherwise that timer may be the deadline of an execution that has ended."""

    @property
    def idle(self) -> bool:
        return self._invocations.idle and self._outbox.idle and self._timetable.idle

    async def begin(self, start_poller: StartPoller) -> None:
        """Join the store, publish the functions, and start the outbox, the poller and the rounds. Does not wait for a round."""
        self._leases.join()
        self._store.publish(self._registry.hosted())
        self._outbox.begin(self._agenda.ring_at)
        self._poller = start_poller(self._polls(), _NEWS_SECONDS)
        self._task = asyncio.create_task(self._run(), name="holdfast-scheduler")

    async def end(self) -> None:
        """Stop the rounds, the poller, the timetable, the upkeep and the outbox. The runner stays registered until it leaves the store."""
        if self._poller is not None:
            self._poller.end()
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        await self._timetable.end()
        await self._upkeep.end()
        await self._outbox.end()

    async def _run(self) -> None:
        while True:
            try:
                if self._health.trouble is not None:
                    await self._until_well()
                await self._round()
                await self._rest()
            except DiskFailed as trouble:
                self._health.fell(trouble)
                self._agenda.others_wrote = True  # what this round could not read is read in the next
            except Exception as trouble:  # no error may end the scheduler
                log.warning("the scheduler of %s: %s", self._runner, trouble, exc_info=not isinstance(trouble, HoldfastError))
                self._agenda.backlog = self._agenda.queued = True
                await asyncio.sleep(_TROUBLE_SECONDS)

    async def _until_well(self) -> None:
        """Wait until the disk works again. The next round reads everything again: while the disk failed, no lease could be renewed."""
        while self._health.trouble is not None:
            self._agenda.rung.clear()
            await self._agenda.rung.wait()
        self._leases.doubt()
        self._agenda.others_wrote = True

    async def _round(self) -> None:
        agenda, outbox = self._agenda, self._outbox
        agenda.rung.clear()
        if agenda.others_wrote:
            agenda.others_wrote = False
            agenda.backlog = agenda.queued = True
            outbox.news()
            self._timetable.news()
            self._read_others()
        now = self._clock.now()
        self._upkeep.begin_due(now)
        outbox.retry_due(now)
        self._timetable.begin_due(now)
        due = agenda.timer_at is None or agenda.timer_at <= now
        agenda.queued |= due and agenda.timer_at is not None  # the due time may also be that of a lane that opens
        if due:
            await self._fire_due(now)
        dead = self._leases.dead(now)
        if agenda.backlog or dead or due:  # the due time may also be that of the next try of a failed invocation
            agenda.backlog = False
            await self._claim_ready(now, dead)
        admitted = agenda.queued and await self._admit(now)
        # What was admitted ends soon, and the next round follows: most of these rounds need not know the next timer.
        self._is_planned = due or not admitted or self._clock.virtual or monotonic() - self._planned_at > _NEWS_SECONDS
        if self._is_planned:
            self._plan(now)

    def _read_others(self) -> None:
        """Read what another process wrote. If that fails, a round tries again after a second; timers and claims do not wait for it."""
        try:
            self._invocations.others_wrote()
        except DiskFailed:
            raise
        except Exception as trouble:
            log.warning("%s could not read what was written: %s", self._runner, trouble, exc_info=not isinstance(trouble, HoldfastError))
            self._loop.call_later(_TROUBLE_SECONDS, self._agenda.hear_others)

    def _plan(self, now: int) -> int | None:
        """Note in the agenda when a timer, an execution, a lane or a failed signal is due next, and return that time; None if none is."""
        agenda = self._agenda
        self._planned_idle, self._planned_at = self.idle, monotonic()
        # An execution for which there is no room is not waited for: the invocation that makes room rings, because of the backlog.
        room = self._registry.claimable().values()
        times = (self._store.next_due([target for targets in room for target in targets]), self._outbox.next_at)
        agenda.timer_at = min((at for at in times if at is not None), default=None)
        if self._troubled and agenda.timer_at is not None:  # the next timer may be that of an execution in trouble, and stays due
            agenda.timer_at = max(agenda.timer_at, now + int(_TROUBLE_SECONDS * 1000))
        elif agenda.queued and agenda.timer_at is not None:  # a lane may have opened for which there is no room here
            agenda.timer_at = max(agenda.timer_at, now + int(_NEWS_SECONDS * 1000))
        return agenda.timer_at

    async def _fire_due(self, now: int) -> None:
        while due := self._well(self._store.due(now, _BATCH + len(self._troubled)), _BATCH):
            await self._each({execution: self._invocations.fire(execution) for execution in due})
            if len(due) < _BATCH:
                return

    def _well(self, found: Sequence[str], room: int) -> list[str]:
        """At most `room` of the executions in `found`, without those that the rounds leave alone after an error."""
        if self._troubled:
            now = monotonic()
            self._troubled = {execution: until for execution, until in self._troubled.items() if until > now}
        return [execution for execution in found if execution not in self._troubled][:room]

    async def _each(self, work: Mapping[str, Awaitable[None]]) -> None:
        """Wait until all this work has ended, and take the errors in its order: raise one that is Retryable or no Exception, and drop those
        after it; ignore a Rejected error, as its execution is over; log any other error, and leave its execution alone for a minute."""
        for execution, trouble in zip(work, await asyncio.gather(*work.values(), return_exceptions=True), strict=True):
            if isinstance(trouble, Retryable) or (trouble is not None and not isinstance(trouble, Exception)):
                raise trouble
            if trouble is not None and not isinstance(trouble, Rejected):  # an execution that is gone or closed needs no work
                self._troubled[execution] = monotonic() + _TROUBLED_SECONDS
                stack = None if isinstance(trouble, HoldfastError) else trouble
                log.warning("could not go on with %s, and leave it for a while: %s", execution, trouble, exc_info=stack)

    async def _claim_ready(self, now: int, dead: frozenset[str]) -> None:
        registry, agenda = self._registry, self._agenda
        self._suspects.look()
        offered = []
        for capacity, targets in registry.claimable().items():
            room = min(capacity.free, _BATCH)
            found = self._well(self._store.claimable(targets, dead, now, room + len(self._troubled)), room)
            offered.append((capacity, targets[0], found))
            agenda.backlog |= len(found) == room
        self._make_room(now, dead)
        claims: dict[str, Awaitable[None]] = {}
        for capacity, target, found in offered:  # after the last read, so that a read that fails leaves no room reserved
            function = registry.get(target.function, target.version)
            assert function is not None
            capacity.free -= len(found)
            claims |= {execution: self._invocations.claim(execution, dead, function) for execution in found}
        agenda.backlog |= registry.is_full()
        await self._each(claims)
        await self._claim_suspect()

    async def _admit(self, now: int) -> bool:
        """Let the store admit queued executions, as many as there is room for here. Returns whether the store admitted any. For functions
        for which the last admission found none, this first asks the store whether a lane is open, so that no room is reserved in vain."""
        agenda, before = self._agenda, self._admitted
        agenda.queued, self._admitted = False, set()
        for capacity, targets in self._registry.claimable().items():
            if capacity not in before and not self._store.has_open_lane(targets, now):
                continue
            room = min(capacity.free, _BATCH)
            if room > 0:  # otherwise a start has taken the room in between
                capacity.free -= room
                taken = await self._admissions.admit(targets, capacity, room)
                if taken:
                    self._admitted.add(capacity)
                if taken == room:
                    agenda.queued = True
                    agenda.ring()
        agenda.queued |= self._registry.is_full()
        return bool(self._admitted)

    def _make_room(self, now: int, dead: frozenset[str]) -> None:
        """Where there is no room, let parents that only wait give up their room to executions that are ready."""
        for capacity, targets in self._registry.full().items():
            if (waiting := self._parents.waits_in(capacity)) > 0:
                self._parents.make_room(capacity, len(self._store.claimable(targets, dead, now, waiting)))

    async def _claim_suspect(self) -> None:
        found = self._suspects.chosen(self._troubled)
        if found is not None:
            execution, function = found
            await self._each({execution: self._invocations.claim(execution, frozenset(), function, alone=True)})
            self._suspects.look()  # another runner may have been quicker

    async def _rest(self) -> None:
        """Rest until the agenda rings, or until the next timer or schedule is due; at most a second under a real clock."""
        if self._clock.virtual:
            await self._rest_virtually()
            return
        left = runner_leases.LOOK_SECONDS if self._is_planned else _NEWS_SECONDS
        if self._agenda.timer_at is not None:
            left = min(left, max(self._agenda.timer_at - self._clock.now(), 0) / 1000)
        if self._timetable.next_at is not None:
            left = min(left, max(self._timetable.next_at - self._clock.now(), 0) / 1000)
        await self._rung_within(left)

    async def _rest_virtually(self) -> None:
        """Rest until the agenda rings, or until the virtual clock reaches the next timer, schedule or upkeep. A test moves the clock, or
        the scheduler moves it when there is nothing else to do (`_skipped`)."""
        while not self._agenda.rung.is_set() and not await self._skipped():
            await self._rung_within(_NEWS_SECONDS)
            now, timer_at = self._clock.now(), self._agenda.timer_at
            if self._upkeep.is_due(now) or self._timetable.is_due(now) or (timer_at is not None and timer_at <= now):
                return

    async def _rung_within(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._agenda.rung.wait()

    async def _skipped(self) -> bool:
        """If nothing is left to do, move the virtual clock to the next timer or earlier schedule. Returns whether the clock reached it."""
        if self._agenda.timer_at is None or not self.idle:
            return False
        for _ in range(3):
            await asyncio.sleep(0)  # a caller that waits for the engine may have something to do first
        if self._agenda.rung.is_set() or not self.idle:
            return False
        timer_at = self._agenda.timer_at if self._planned_idle else self._plan(self._clock.now())
        if timer_at is None:
            return False
        # A schedule alone does not move the clock, because no caller waits for it; but the clock does not jump over one.
        until = min(timer_at, self._timetable.next_at or timer_at)
        self._clock.skip_to(until)
        return self._clock.now() >= until

    def _polls(self) -> Iterator[None]:
        """What the poller does, one poll at a time, on its own thread."""
        beaten = monotonic()
        while True:
            yield
            try:
                if self._loop_watch is not None:
                    self._loop_watch.check()
                if self._store.changed():
                    self._loop.call_soon_threadsafe(self._agenda.hear_others)
                well = self._health.trouble is None
                if monotonic() - beaten >= (runner_leases.RENEWAL_SECONDS if well else _TROUBLE_SECONDS):
                    beaten = monotonic()
                    self._leases.renew()
                    if not well:
                        self._writer.retry()
                self._health.tell()
            except DiskFailed as trouble:
                self._health.fell(trouble)
            except Exception as trouble:  # no error may end the poller, or the lease would run out
                log.warning("polling for %s: %s", self._runner, trouble, exc_info=not isinstance(trouble, HoldfastError))

"""The timetable: starts the occurrences of schedules that are due. Several runners may try; each occurrence is started only once.

A round of the scheduler asks for schedules of functions that are hosted here, and only for those whose executions this runner takes
(`Registry.only`). Each schedule that is due gets a task. The task takes steps (model.schedule_steps) until there is nothing left to do; a
step reads the schedule, decides, and writes. The write that starts an occurrence also moves the schedule on. If another runner was quicker,
the store refuses the write, and the task reads the schedule again.

A schedule whose occurrence waits for the end of an execution is looked at when that execution ends (endings.py). If an occurrence cannot be
started now, for example because the disk fails or the function is hosted only in another version, it is tried again 5 seconds later.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from itertools import islice, takewhile
from typing import Final, Protocol

from holdfast.engine.agenda import Agenda
from holdfast.engine.capacity_reservations import CapacityReservations
from holdfast.engine.endings import Ending, Endings
from holdfast.engine.invocations import Invocations
from holdfast.engine.registry import Registry
from holdfast.model import codec
from holdfast.model.clock import Clock
from holdfast.model.credentials import tenant_of
from holdfast.model.errors import ExecutionAlreadyStarted, FunctionNotFound, HoldfastError, Rejected
from holdfast.model.execution import Execution, ExecutionStatus, goes_on_as
from holdfast.model.ids import IdSource
from holdfast.model.life import new_execution
from holdfast.model.operations import Failure, Kind
from holdfast.model.outside import Stop
from holdfast.model.run_port import OccurrenceAsked, Ordered
from holdfast.model.schedule_errors import ScheduleChanged
from holdfast.model.schedule_steps import ScheduleStep, begun, due_step, passed_over
from holdfast.model.schedule_times import Timing, delay_of, occurrences
from holdfast.model.schedules import Handled, Occurrence, Overlap, ScheduleState, execution_name
from holdfast.model.threads import Purpose, in_thread
from holdfast.model.verbs import Start
from holdfast.store.seam import ExecutionStore, ScheduleStore

log = logging.getLogger("holdfast.engine")

_BATCH: Final = 100
"""At most this many schedules are worked on at the same time."""
_STEPS: Final = 100
"""A task takes at most this many steps of its schedule, so that other schedules get their turn."""
_LATER_SECONDS: Final = 5.0
"""After an error, a schedule is tried again after this many seconds."""
_MOST_COUNTED: Final = 1000
"""In a report to observers, the missed occurrences of one span of time are counted up to this number."""

_ELSEWHERE: Final = frozenset({"overloaded", "version_not_found"})
"""Codes of errors with which the run of an occurrence is refused, but not for good: another runner, or this one a little later, may accept
it."""

OccurrenceAcceptor = Callable[[OccurrenceAsked], Awaitable[Ordered | Failure]]
"""Accepts the run of a worker that a schedule asks for. Returns the order with which the run can be started, or the failure if it is
refused. It starts nothing."""

SawFiring = Callable[[str, str, int, int | None], None]
"""Called with the schedule, the outcome, the number of occurrences, and how many milliseconds late an occurrence was started; the last is
None if nothing was started (model.ports.ScheduleObserver)."""


class TimetableStore(ScheduleStore, ExecutionStore, Protocol):
    """The part of a store that has the schedules and the executions of their occurrences."""


class Timetable:
    """Starts the occurrences of schedules that are due, for one runner."""

    def __init__(
        self,
        store: TimetableStore,
        registry: Registry,
        invocations: Invocations,
        reservations: CapacityReservations,
        endings: Endings,
        agenda: Agenda,
        *,
        clock: Clock,
        ids: IdSource,
    ) -> None:
        self._store, self._registry, self._invocations, self._reservations = store, registry, invocations, reservations
        self._endings, self._agenda, self._clock, self._ids = endings, agenda, clock, ids
        self.acceptor: OccurrenceAcceptor | None = None
        self.saw: SawFiring | None = None
        self._functions: list[str] = []
        self._has_news = True
        self._next_at: int | None = None
        self._looked_at = -1
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._watched: dict[str, asyncio.Future[Ending]] = {}
        """By schedule: the ending of the execution for which it waits."""
        self._later: dict[str, asyncio.TimerHandle] = {}
        self._closing = False

    @property
    def idle(self) -> bool:
        """Whether no schedule is being worked on."""
        return not self._tasks

    @property
    def next_at(self) -> int | None:
        """The time at which the next schedule is due. None if no schedule will be due. Also None if `begin_due` was already called at that
        time or later: this runner works on that schedule now, and reads the next time when it has finished."""
        return None if self._next_at is None or self._next_at <= self._looked_at else self._next_at

    def is_due(self, now: int) -> bool:
        """Whether there is something for `begin_due` to do."""
        return self._has_news or (self.next_at is not None and self.next_at <= now)

    def news(self) -> None:
        """Note that schedules may have changed, or the functions that are hosted here. The next round reads the schedules again."""
        self._has_news = True

    def begin_due(self, now: int) -> None:
        """Begin to work on the schedules that are due. Does not wait for them."""
        if self._closing or not self.is_due(now):
            return
        in_hand, only = len(self._tasks) + len(self._later), self._registry.only
        found: list[str] = []
        if self._has_news:
            self._functions = sorted({target.function for target in self._registry.targets()})
            waiting = self._store.waiting_schedules(self._functions, _BATCH + in_hand + len(self._watched), only)
            found += [name for name in waiting if name not in self._watched]
        found += self._store.due_schedules(self._functions, now, _BATCH + in_hand, only)
        self._next_at = self._store.next_schedule(self._functions, only)
        self._has_news, self._looked_at = False, now  # after the last read: if one fails, the next round reads again
        for name in found:
            self._take(name)

    async def end(self) -> None:
        """Wait until the present step of each schedule has ended, and take no further step."""
        self._closing = True
        for handle in self._later.values():
            handle.cancel()
        for watched in self._watched.values():
            self._endings.give_up(watched)
            watched.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks.values())

    # --- one schedule

    def _take(self, name: str) -> None:
        if name not in self._tasks and name not in self._later and len(self._tasks) < _BATCH:
            task = self._tasks[name] = asyncio.create_task(self._look_after(name), name=f"holdfast-schedule-{name}")
            task.add_done_callback(lambda _: self._put_down(name))

    def _put_down(self, name: str) -> None:
        del self._tasks[name]
        self._looked_at = -1
        self.news()
        self._agenda.ring()

    def _try_later(self, name: str) -> None:
        def again() -> None:
            del self._later[name]
            self.news()
            self._agenda.ring()

        if not self._closing:
            self._later[name] = asyncio.get_running_loop().call_later(_LATER_SECONDS, again)

    async def _look_after(self, name: str) -> None:
        try:
            for _ in range(_STEPS):
                if self._closing or not await self._stepped(name):
                    return
        except FunctionNotFound as missing:  # hosted here in another version only, or there is too much to do
            log.info("schedule %s is left to another runner, or for later: %s", name, missing)
            self._try_later(name)
        except Exception as trouble:  # an error of one schedule must not delay the others
            log.warning("could not work on schedule %s: %s", name, trouble, exc_info=not isinstance(trouble, HoldfastError))
            self._try_later(name)

    async def _stepped(self, name: str) -> bool:
        """Take one step of a schedule. Returns False if no step can be taken now."""
        state = self._store.schedule(name)
        if state is None:
            return False
        still = {} if state.definition.overlap is Overlap.ALLOW else self._still_open(state)
        step = due_step(state, self._clock.now(), state.open if state.definition.overlap is Overlap.ALLOW else still)
        if step is None:
            if state.waits:
                await self._wait_for(state, list(still.values()))
            return False
        if step.start is None:
            await self._moved(state, step.after)
        else:
            with_start = Occurrence(name, step.start.at, step.start.how)
            await self._started(state, step, with_start)
        return True

    async def _moved(self, before: ScheduleState, after: ScheduleState) -> None:
        if await in_thread(
            Purpose.HOUSE, self._store.move_schedule, after
        ):  # otherwise another runner wrote first, and the next step reads what it wrote
            self._tell(before, after)

    def _tell(self, before: ScheduleState, after: ScheduleState) -> None:
        """Report to observers what a step has decided, after its write is on disk."""
        if self.saw is None:
            return
        timing = before.definition.timing
        for line in takewhile(lambda line: not before.recent or line is not before.recent[0], after.recent):
            late = self._clock.now() - line.at - delay_of(timing, before.name, line.at) if line.outcome == "started" else None
            self.saw(before.name, line.outcome, _count(line, timing), late)

    async def _started(self, state: ScheduleState, step: ScheduleStep, occurrence: Occurrence) -> None:
        """Write the start of an occurrence. If it was started before, only that is noted. If the occurrence can never be started, it is
        skipped, and the schedule shows why. Raises FunctionNotFound if this runner cannot start the occurrence now, but another runner or a
        later try may."""
        definition = state.definition
        kind = self._registry.kind_of(definition.function)
        if kind is None:
            raise FunctionNotFound
        ordered: Ordered | None = None
        if kind is not Kind.FUNCTION:
            accepted = await self._accepted(state, step, occurrence)
            if isinstance(accepted, Failure):
                if accepted.type in _ELSEWHERE:
                    raise FunctionNotFound(accepted.message)
                await self._refused(state, step, accepted.message or "The request was refused.")
                return
            ordered = accepted
        name = execution_name(occurrence) if ordered is None else ordered.name
        found = self._store.find_named(definition.function, name)
        if found is not None:
            await self._moved(state, passed_over(step, "found", "It was started before.", found.id))
            return
        try:
            await self._start(state, step, occurrence, kind, name, ordered)
        except (ScheduleChanged, ExecutionAlreadyStarted):
            return  # the next step reads what another runner did
        except FunctionNotFound:
            raise
        except Rejected as refused:
            await self._refused(state, step, str(refused))

    async def _start(
        self, state: ScheduleState, step: ScheduleStep, occurrence: Occurrence, kind: Kind, name: str, ordered: Ordered | None
    ) -> None:
        definition, order, now = state.definition, None if ordered is None else ordered.order, self._clock.now()
        target = self._registry.wanted(definition.function, definition.version if order is None else None, kind)
        payload = state.input if order is None else order.input
        tenant, terms = (definition.tenant, target.terms) if order is None else (order.tenant, order.terms or target.terms)
        same = None if ordered is None else ordered.same
        who = {"tenant": tenant, "same": same}
        header = new_execution(self._ids(now), name, target.name, target.version, payload=payload, now=now, terms=terms, **who)
        after = begun(step, header.id)
        write = Start(
            header,
            payload,
            self._reservations.reserve(target, self._ids(now), header),
            () if order is None else order.charges,
            same,
            kind,
            graph=None if order is None else order.graph,
            occurrence=occurrence,
            moved=after,
        )
        await self._invocations.start(write, target)
        self._tell(state, after)

    async def _accepted(self, state: ScheduleState, step: ScheduleStep, occurrence: Occurrence) -> Ordered | Failure:
        assert self.acceptor is not None, "a worker is hosted where its service is"
        inputs = codec.loads(state.input)
        if not isinstance(inputs, dict):
            return Failure("The inputs of a worker must be a JSON object.")
        definition = state.definition
        asked = OccurrenceAsked(
            worker_id=definition.function,
            version=definition.version,
            inputs=inputs,
            tenant=tenant_of(definition.tenant),
            requested_by=(step.start and step.start.by) or state.changed_by or f"schedule:{state.name}",
            key=f"schedule/{execution_name(occurrence)}",
        )
        return await self.acceptor(asked)

    async def _refused(self, state: ScheduleState, step: ScheduleStep, why: str) -> None:
        assert step.start is not None
        log.warning("schedule %s: an occurrence could not be started: %s", step.after.name, why)
        await self._moved(state, passed_over(step, "refused", why))

    # --- executions that are not over

    def _still_open(self, state: ScheduleState) -> dict[str, str]:
        """Those executions of a schedule that have not ended, by id. The value is the id of the execution that continues it now; its own id
        if none does."""
        found = {}
        for execution in state.open:
            last = self._last_of(execution)
            if last is not None and last.status is ExecutionStatus.RUNNING:
                found[execution] = last.id
        return found

    def _last_of(self, execution: str) -> Execution | None:
        header = self._store.find(execution)
        while header is not None and header.continued_as is not None:
            heir = self._store.find(header.continued_as)
            if not goes_on_as(header, heir):
                break
            header = heir
        return header

    async def _wait_for(self, state: ScheduleState, executions: list[str]) -> None:
        """Called while an occurrence waits for executions to end. With the overlap `replace`, stop all of them. When the first one in the
        list has ended, the schedule is looked at again; if that one is quarantined, every 5 seconds. This call does not wait for that."""
        if state.definition.overlap is Overlap.REPLACE:
            for execution in executions:
                stop = Stop(execution, Failure(f"Replaced: schedule {state.name} was due again.", "Replaced"), inherited=True)
                await self._invocations.stop(stop)
        name = state.name
        if self._closing or name in self._watched:
            return
        watched = self._watched[name] = self._endings.watch(executions[0], live=self._invocations.is_live(executions[0]))

        def ended(ending: asyncio.Future[Ending]) -> None:
            self._watched.pop(name, None)
            if ending.cancelled() or self._closing:
                return
            if ending.exception() is not None:  # the execution is quarantined, and a person must look at it
                self._try_later(name)
                return
            self.news()
            self._agenda.ring()

        watched.add_done_callback(ended)


def _count(line: Handled, timing: Timing) -> int:
    """How many occurrences an entry in a schedule's list of recent occurrences stands for, counted up to 1,000."""
    if line.since is None:
        return 1
    return sum(1 for _ in takewhile(lambda at: at <= line.at, islice(occurrences(timing, line.since - 1), _MOST_COUNTED)))

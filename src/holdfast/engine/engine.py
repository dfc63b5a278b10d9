"""The engine: executions start here, are invoked, and settle.

    start → claim → invoke → checkpoint → suspend → resume → ... → close

Everything here runs on one event loop; only commits and handlers may run elsewhere. Timers, claims of what others left and news from
other processes are scheduler.py's; this file is what happens to one execution.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Final, cast

from holdfast.engine.endings import Ending, Endings
from holdfast.engine.health import Health
from holdfast.engine.invoke_targets import InvokeTargets
from holdfast.engine.observing import EngineSight, Observing
from holdfast.engine.outbox import NO_SUBSCRIBERS, Outbox
from holdfast.engine.poller import StartPoller, ThreadPoller
from holdfast.engine.port import EnginePort
from holdfast.engine.quarantines import quarantined
from holdfast.engine.registry import Function, Registry
from holdfast.engine.scheduler import Scheduler
from holdfast.engine.settling import Settling
from holdfast.engine.sparing import blameless, readable, spared, unwritable
from holdfast.engine.starting import failed_as, is_restart
from holdfast.engine.telling import tell_failure
from holdfast.engine.writer import Writer
from holdfast.model.auditing import Notes
from holdfast.model.charging import Charge
from holdfast.model.clock import Clock
from holdfast.model.errors import EngineClosed, HoldfastError, LeaseLost, Rejected, RowDamaged, WriteFailed
from holdfast.model.execution import Execution, ExecutionStatus, Outcome, OutcomeStatus, State, Terms, goes_on_as, new_execution
from holdfast.model.ids import Arn, IdSource, Position
from holdfast.model.life import Claimant
from holdfast.model.operations import Failure, Kind, Order
from holdfast.model.outside import Answering, Fire, Heartbeat, Release, Stop
from holdfast.model.ports import Host, Invocation, Observer
from holdfast.model.signals import Subscriber
from holdfast.model.verbs import Answer, Claim, Start, Started, Write
from holdfast.store.seam import Store

log = logging.getLogger("holdfast.engine")
_SETTLE_AGAIN_SECONDS: Final = 1.0


class Engine:
    """One runner over one store. Enter it on the loop that shall run it."""

    def __init__(
        self,
        store: Store,
        functions: Sequence[Function],
        host: Host,
        *,
        clock: Clock,
        ids: IdSource,
        chance: random.Random,
        runner: str,
        subscribers: Mapping[str, Subscriber] = NO_SUBSCRIBERS,
        watching: StartPoller = ThreadPoller,
        observers: Sequence[Observer] = (),
    ) -> None:
        self.store, self.clock, self.runner = store, clock, runner
        self.watching, self._observers = watching, observers
        self.registry = Registry(functions)
        self.outbox = Outbox(store, subscribers, clock=clock, chance=chance, runner=runner)
        self.health = Health(runner, lambda: self._loop.call_soon_threadsafe(self.look))
        self._host, self._ids, self._settling = host, ids, Settling(clock, ids, chance)
        self._live: dict[str, tuple[Execution, Function]] = {}
        self.endings = self._endings = Endings(store)
        self._open = self.backlog = False
        """Something may be ready that nobody had room for."""

    async def open(self) -> None:
        """Join the store as a runner and begin to tend it."""
        loop = self._loop = asyncio.get_running_loop()
        sight = EngineSight(self.store, self.registry, self.clock, lambda: len(self._live))
        saw = Observing(self._observers, sight, self.registry, self.runner).saw if self._observers else None
        self._writer = Writer(self.store, self.clock, loop, sight.live, self._followed, self.outbox.wake, self.health, saw)
        self.port = EnginePort(self.store, self._writer, InvokeTargets(self.store, self.registry, self.clock, self._ids), self.health)
        self._scheduler = Scheduler(self)
        self._open = True
        await self._scheduler.begin()

    async def close(self) -> None:
        """Stop claiming, give up what is live, and leave. What was acknowledged is on disk; the rest goes on elsewhere or later."""
        self._open = False
        try:
            await self._scheduler.end()
            await self._writer.drain()
            for header, _ in list(self._live.values()):
                with spared(header.id):
                    self._host.cancel(header.id)
                self._writer.submit(self._settling.interrupt(header), lambda _: None)
            await self._writer.drain()
            self._writer.close()
            self.store.leave(self.runner)
        except HoldfastError as trouble:
            log.warning("%s could not leave in good order; others will take over: %s", self.runner, trouble)
        finally:
            self._endings.close()

    # --- the verbs

    async def start(
        self,
        function: str,
        payload: str,
        *,
        name: str | None = None,
        version: str | None = None,
        tenant: str | None = None,
        trace: str | None = None,
        terms: Terms | None = None,
        charges: tuple[Charge, ...] = (),
        same: str | None = None,
        order: Order | None = None,
        on_failed: str = "find",
    ) -> Execution:
        """Start an execution, or find the one of this name and input (`same`); `on_failed` as in starting.py. Only a new one makes
        `charges`. A worker's needs `order`."""
        target = self.registry.wanted(function, version, Kind.FUNCTION if order is None else order.kind)
        now, terms = self.clock.now(), terms or target.terms
        who = {"tenant": tenant, "trace": trace, "same": same}
        header = new_execution(self._ids(now), name, target.name, target.version, payload=payload, now=now, terms=terms, **who)
        again = is_restart(on_failed, name)
        before = failed_as(self.store, target.name, name) if again else None
        claimant = self._claimant(now) if self._reserve(target) else None

        def landed(answer: Answer | HoldfastError) -> None:
            created = isinstance(answer, Started) and answer.created
            if isinstance(answer, Started) and created and claimant is not None:
                self._begin(answer.header, target, payload)
                return
            target.slots.free += claimant is not None
            self._doubt(answer)
            self.backlog |= created

        started = await self._write(Start(header, payload, claimant, charges, same, target.kind, again, before), landed)
        return cast("Started", started).header

    async def stop(self, execution: str, error: Failure | None = None, *, cascade: bool = True, notes: Notes = ()) -> Execution:
        """End an execution from outside, with what it invoked; one that has continued as another ends there."""
        while True:
            header = cast("Execution", await self._write(Stop(execution, error or Failure(), cascade, notes=notes)))
            self.tell_if_over(header)
            if header.continued_as is None or not goes_on_as(header, self.store.find(header.continued_as)):
                return header
            execution = header.continued_as

    async def answer(self, callback_id: str, result: str | None = None, error: Failure | None = None, notes: Notes = ()) -> None:
        """Answer a callback; what it wakes is claimed in the same write."""
        execution, operation = self.store.seal.callback_target(callback_id)
        await self.wake(lambda by: Answering(execution, operation, result, error, by, notes=notes), execution)

    async def heartbeat(self, callback_id: str) -> None:
        """Say that somebody still works on a callback."""
        await self._write(Heartbeat(*self.store.seal.callback_target(callback_id)))

    async def release(self, execution: str) -> Execution:
        """Let a quarantined execution run again."""
        header = cast("Execution", await self._write(Release(execution)))
        self.look()
        return header

    async def ending(self, execution: str) -> Ending:
        """Wait until an execution is closed."""
        return await self._endings.wait(execution, live=execution in self._live)

    # --- one invocation

    def claimed(self, header: Execution, function: Function) -> None:
        """A claim was written, in room of this function: invoke it, unless the claim ended it."""
        if header.state is State.RUNNING and header.runner == self.runner:
            self._begin(header, function)
        else:
            self._tell_aside(header)
            self.tell_if_over(header)

    def _tell_aside(self, header: Execution) -> None:
        if header.state is State.QUARANTINED:
            log.error("%s", quarantined(self.store, header))

    def _begin(self, header: Execution, function: Function, payload: str | None = None) -> None:
        execution = header.id
        if not self._open or self.registry.get(header.function, header.version) is None:
            function.slots.free += 1  # claimed by a write that was under way when we closed, or when the function left
            self._writer.submit(self._settling.interrupt(header), lambda _: None)
            return
        self._live[execution] = (header, function)
        token = Position(execution, header.epoch, header.sequence, header.revision)
        arn = str(Arn(header.function, header.version, header.name, execution))
        invocation = Invocation(arn, header, token, header.epoch == 1, payload)

        def done(outcome: Outcome, seen: int) -> None:
            self._ended(header, function, outcome, seen)

        try:
            self._host.invoke(invocation, self.port, done)
        except Exception as error:  # a host that cannot begin is a failed invocation, not a failed engine
            if not isinstance(error, HoldfastError):
                log.exception("could not invoke %s", header.name)
            done(Outcome(OutcomeStatus.CRASHED, error=Failure(message=str(error), type=type(error).__name__)), header.revision)

    def _ended(self, header: Execution, function: Function, outcome: Outcome, seen: int) -> None:
        if not self._open:
            return
        outcome = blameless(outcome)
        # Only what waits can be ready again at once; making an id for the others would be in vain.
        by = self._claimant(self.clock.now()) if outcome.status is OutcomeStatus.PENDING else None
        settle = self._settling.settle(header, outcome, seen, by)
        self._writer.submit(settle, lambda answer: self._settled(header, function, outcome, seen, answer))

    def _settled(self, header: Execution, function: Function, outcome: Outcome, seen: int, answer: Answer | HoldfastError) -> None:
        if isinstance(answer, WriteFailed | RowDamaged):
            if (instead := unwritable(answer, outcome)) is not None:
                self._ended(header, function, instead, seen)
                return
            log.error("the end of an invocation of %s cannot be written; a person must look at it: %s", header.name, answer)
        elif isinstance(answer, HoldfastError) and not isinstance(answer, LeaseLost | Rejected):
            # The store could not take it. The invocation is over, so only its end is tried again.
            log.warning("could not settle %s, trying again: %s", header.name, answer)
            self._loop.call_later(_SETTLE_AGAIN_SECONDS, self._ended, header, function, outcome, seen)
            return
        self._finished(header)
        if isinstance(answer, HoldfastError):
            # Somebody else closed or claimed it. Whoever waits for its end here shall hear of it.
            for current in readable(self.store, [header.id]):
                self.tell_if_over(current, ours=False)
                if current.runner == self.runner and isinstance(answer, LeaseLost | Rejected):
                    self._let_go()  # an earlier try was written after all, with the claim in it
        elif isinstance(answer, Execution):
            tell_failure(outcome, answer, self.clock.now())
            if answer.state is State.RUNNING and answer.runner == self.runner:
                function.slots.free -= 1  # what this invocation just gave back, also where there is no room for others
                self._begin(answer, function)
            else:
                self._tell_aside(answer)
                succeeded = outcome.status is OutcomeStatus.SUCCEEDED and answer.status is ExecutionStatus.SUCCEEDED
                self.tell_if_over(answer, outcome.result if succeeded else None)
                if answer.state is not State.CLOSED:
                    self._scheduler.expect(answer)

    def _finished(self, header: Execution) -> None:
        """Make room, unless it was dropped before it ended."""
        live = self._live.get(header.id)
        if live is not None and live[0] is header:
            del self._live[header.id]
            live[1].slots.free += 1
            if self.backlog:
                self.look()

    def _drop(self, execution: str) -> None:
        """An invocation lost its execution: end it, and do not wait for it."""
        self._host.cancel(execution)
        live = self._live.get(execution)
        if live is not None:
            self._finished(live[0])

    # --- shared with the scheduler

    def _claimant(self, now: int) -> Claimant:
        return Claimant(self.runner, self._ids(now))

    def _reserve(self, function: Function) -> bool:
        if function.slots.free <= 0:
            return False
        function.slots.free -= 1
        return True

    def _doubt(self, answer: Answer | HoldfastError) -> None:
        """A write that may have claimed something failed. A store says that nothing of it is on disk; should it be wrong, nobody would
        ever run what was claimed, so look."""
        if isinstance(answer, HoldfastError) and not isinstance(answer, LeaseLost | Rejected):
            self._loop.call_later(_SETTLE_AGAIN_SECONDS, self._let_go)

    def _let_go(self) -> None:
        """Give up what is ours on disk and not in memory. An invocation that is just beginning may be hit, and begins again."""
        if not self._open:
            return
        try:
            held = list(readable(self.store, set(self.store.held(self.runner)) - self._live.keys()))
        except HoldfastError as trouble:
            self._doubt(trouble)
            return
        for header in held:
            if header.state is State.RUNNING and header.runner == self.runner:
                log.warning("%s was claimed by a write that failed; it begins again", header.name)
                self._writer.submit(self._settling.interrupt(header), self._doubt)
                self.backlog = True
                self.look()

    async def wake(self, write: Callable[[Claimant | None], Write], execution: str) -> None:
        """Write something that may make an execution ready, and claim it in the same write if there is room."""
        header = self.store.find(execution)
        function = header and self.registry.get(header.function, header.version)
        claimant = self._claimant(self.clock.now()) if function and self._reserve(function) else None

        def landed(answer: Answer | HoldfastError) -> None:
            mine = isinstance(answer, Execution) and claimant is not None and answer.invocation == claimant.invocation
            if function and not mine:
                function.slots.free += claimant is not None
            self._doubt(answer)
            if isinstance(answer, Execution):
                self.claimed(answer, function) if mine and function else self._moved(answer)

        await self._write(write(claimant), landed)

    def _moved(self, header: Execution) -> None:
        """An execution was changed from outside and not claimed in the same write."""
        self.tell_if_over(header)
        if header.state is State.RUNNING and header.id in self._live:
            self._host.nudge(header.id)
        self.backlog |= header.state is State.READY
        self._scheduler.expect(header)

    async def claim(self, execution: str, dead: frozenset[str], function: Function, *, alone: bool = False) -> None:
        """Take one execution; the room for it is already reserved."""
        claimant = self._claimant(self.clock.now())

        def landed(answer: Answer | HoldfastError) -> None:
            if not isinstance(answer, Execution) or answer.invocation != claimant.invocation:
                function.slots.free += 1
            self._doubt(answer)
            if isinstance(answer, Execution):
                self.claimed(answer, function)

        with contextlib.suppress(LeaseLost):  # somebody else was quicker
            await self._write(Claim(execution, claimant, dead, alone), landed)

    async def fire(self, execution: str) -> None:
        """Let due timers of one execution act."""
        await self.wake(lambda by: Fire(execution, by), execution)

    def tell_if_over(self, header: Execution, payload: str | None = None, *, ours: bool = True) -> None:
        """Tell those who wait for a result, if this is the end or a quarantine; a payload that is not at hand is read."""
        aside = header.state is State.QUARANTINED
        if header.status is ExecutionStatus.RUNNING and not aside:
            return
        if header.state is State.CLOSED or aside:
            self._drop(header.id)
        self._endings.tell(header, payload, ours=ours)

    def _followed(self, headers: Sequence[Execution]) -> None:
        """Writes of ours changed other executions too: children began or were stopped, parents got their answer."""
        for header in headers if self._open else ():
            with spared(header.id):
                self._moved(header)

    def look(self) -> None:
        """Look for work soon."""
        self._scheduler.look()

    def news(self) -> None:
        """Another process wrote: see what it did to what we run and wait for."""
        for header in readable(self.store, self._endings.awaited):
            with spared(header.id):
                self.tell_if_over(header, ours=False)
        if self._live:
            held = self.store.held(self.runner)
            for header in [header for execution, (header, _) in self._live.items() if execution not in held]:
                with spared(header.id):
                    now = self.store.find(header.id)
                    if now is None or now.epoch != header.epoch:
                        self._drop(header.id)

    def retry(self) -> None:
        """From the watch's thread: see whether the disk takes what was kept."""
        self._writer.retry()

    @property
    def idle(self) -> bool:
        """Nothing runs, nothing is being written."""
        return not self._live and self._writer.idle and self._host.idle() and self.outbox.idle

    async def _write(self, write: Write, landed: Callable[[Answer | HoldfastError], None] | None = None) -> Answer:
        """Write and wait. `landed` gets the answer in any case: a caller may be cancelled, what it wrote stays written."""
        if not self._open:
            raise EngineClosed
        future: asyncio.Future[Answer] = self._loop.create_future()

        def deliver(answer: Answer | HoldfastError) -> None:
            try:
                if landed is not None:
                    landed(answer)
            finally:
                if not future.done():
                    if isinstance(answer, HoldfastError):
                        future.set_exception(answer)
                    else:
                        future.set_result(answer)

        self._writer.submit(write, deliver)
        return await future

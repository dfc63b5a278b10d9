"""The engine: the verbs that callers use, and the parts that it is built from.

    engine ──▶ scheduler ──▶ admissions ──▶ invocations ──▶ writer ──▶ store
    (verbs)    (finds due     (takes what     (the life of    (group
               and ready      waits in        each)           commit)
               work)          queues)            └──▶ host (runs handlers), endings (callers that wait for a result)

Each part knows only the parts to its right. They share the agenda (agenda.py): the time at which the scheduler looks for work next.
Everything here runs on one event loop; only commits, handlers, subscribers, the poller, the upkeep and writes of schedules may run in
other threads or processes.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Mapping, Sequence
from typing import cast

import msgspec

from holdfast.engine.admissions import Admissions
from holdfast.engine.agenda import Agenda
from holdfast.engine.capacity_reservations import CapacityReservations
from holdfast.engine.endings import Ending, Endings
from holdfast.engine.enqueues import BULK, Item, NewQueues, Redrive, indexed, redriven
from holdfast.engine.health import Health
from holdfast.engine.invocations import Invocations
from holdfast.engine.invoke_targets import InvokeTargets
from holdfast.engine.live_parents import LiveInvocation, LiveParents
from holdfast.engine.observers import EngineSight, Observers
from holdfast.engine.outbox import NO_SUBSCRIBERS, Outbox
from holdfast.engine.poller import StartPoller, ThreadPoller
from holdfast.engine.port import EnginePort
from holdfast.engine.registry import Function, Registry
from holdfast.engine.restarts import failed_as, is_restart
from holdfast.engine.scheduler import Scheduler
from holdfast.engine.timetable import OccurrenceAcceptor, Timetable
from holdfast.engine.unsure_claims import UnsureClaims
from holdfast.engine.upkeep import Chore
from holdfast.engine.writer import Writer
from holdfast.model.admission import Enqueue
from holdfast.model.audit import Notes
from holdfast.model.charges import Charge
from holdfast.model.clock import Clock
from holdfast.model.errors import ExecutionNotFound, HoldfastError
from holdfast.model.execution import Execution, ExecutionStatus, Terms, goes_on_as
from holdfast.model.ids import IdSource, checked_key
from holdfast.model.life import Claimant, new_execution
from holdfast.model.operations import Failure, Kind, Order
from holdfast.model.outside import Answering, Heartbeat, Release, Stop, Stopped
from holdfast.model.places import Only
from holdfast.model.ports import Host, Observer
from holdfast.model.queues import QueueRow
from holdfast.model.run_port import Acceptor
from holdfast.model.signals import Subscriber
from holdfast.model.verbs import Answer, Start, Started, Write
from holdfast.store.seam import Store

log = logging.getLogger("holdfast.engine")


class Engine:
    """One runner over one store. Call `open` on the asyncio event loop that shall run the engine."""

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
        poller: StartPoller = ThreadPoller,
        observers: Sequence[Observer] = (),
        queues: Sequence[QueueRow] = (),
        only: Only | None = None,
    ) -> None:
        self.store, self.clock, self.runner = store, clock, runner
        self.registry = Registry(functions)
        self.registry.only = only
        self.endings = Endings(store)
        self.outbox = Outbox(store, subscribers, clock=clock, chance=chance, runner=runner)
        self._host, self._ids, self._chance, self._poller, self._observers = host, ids, chance, poller, observers
        self._queues = queues
        self.new_queues = NewQueues(store, (queue.name for queue in queues))
        self._agenda = Agenda(clock)
        self.acceptor: Acceptor | None = None
        """Accepts the runs of workers that handlers ask for; None if this engine serves no workers."""
        self.occurrence_acceptor: OccurrenceAcceptor | None = None
        """Accepts the runs of workers that schedules ask for; None if this engine serves no workers. It must be set before `open`."""
        self.chores: list[Chore] = []
        """Functions that the runner calls about once a minute, before it removes expired rows (upkeep.py)."""
        self._open = False

    # --- opening and closing

    async def open(self) -> None:
        """Build the parts, join the store as a runner, and begin to look for work."""
        store, clock, registry, agenda, runner = self.store, self.clock, self.registry, self._agenda, self.runner
        loop = asyncio.get_running_loop()
        live: dict[str, LiveInvocation] = {}
        self.health = Health(runner, lambda: loop.call_soon_threadsafe(agenda.ring))
        parents = LiveParents(live, self._host, agenda, loop)
        self._writer = Writer(store, clock, loop, parents, self.health)
        claims = UnsureClaims(store, self._writer, live, agenda, loop, runner)
        self._reservations = CapacityReservations(registry, parents, self._writer, claims, clock=clock, ids=self._ids, runner=runner)
        targets = InvokeTargets(store, registry, clock, self._ids, self.new_queues)
        self.port = EnginePort(store, self._writer, targets, self.health, self._reservations, parents)
        self.invocations = Invocations(
            store,
            self._writer,
            self._host,
            self.port,
            registry,
            self.endings,
            agenda,
            live,
            self._reservations,
            parents,
            claims,
            loop=loop,
            clock=clock,
            ids=self._ids,
            chance=self._chance,
            runner=runner,
        )
        self._admissions = Admissions(
            store, self._writer, registry, agenda, self.invocations, claims, clock=clock, ids=self._ids, runner=runner
        )
        self.port.acceptor = lambda: self.acceptor
        sight = EngineSight(store, registry, clock, live)
        observers = Observers(self._observers, sight, registry, runner) if self._observers else None
        self._writer.tell(self.invocations.followed, self.outbox.wake, None if observers is None else observers.saw)
        self._timetable = Timetable(store, registry, self.invocations, self._reservations, self.endings, agenda, clock=clock, ids=self._ids)
        self._timetable.acceptor = self.occurrence_acceptor
        self._timetable.saw = None if observers is None else observers.occurred
        self._scheduler = Scheduler(
            store,
            registry,
            self.invocations,
            self._admissions,
            self._writer,
            self.outbox,
            self.health,
            agenda,
            parents,
            self._timetable,
            loop=loop,
            clock=clock,
            runner=runner,
            chores=self.chores,
        )
        if self._queues:
            store.declare(self._queues)
        self._open = True
        await self._scheduler.begin(self._poller)

    async def close(self) -> None:
        """Stop claiming, give the running executions back, and leave the store. Any runner can continue the executions that have not ended.
        Callers that wait for an ending get EngineClosed. If the store fails meanwhile, that is only logged, and other runners take over
        later."""
        self._open = self._writer.open = False
        try:
            await self._scheduler.end()
            await self._writer.drain()
            self.invocations.interrupt_all()
            await self._writer.drain()
            self._writer.close()
            self.store.leave(self.runner)
        except HoldfastError as trouble:
            log.warning("%s could not leave in good order; other runners will take over: %s", self.runner, trouble)
        finally:
            self.endings.close()

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
        """Start an execution and return it. If an execution of this function has the name already, and its input, version and tenant are
        equal to those given here, that execution is returned; if they are not equal, or if it is an imported copy that has not ended,
        ExecutionAlreadyStarted is raised. `same`: a text that is compared instead of the input; None: the input is compared.

        `on_failed` says what happens if the execution that has the name, or the last one that continued it, failed, timed out, was stopped
        or is parked: "find" treats it like any other execution, "restart" starts a new execution under the name.

        If `name` is None, the execution is named by its id, so the start always makes a new one. If `version` is None, the version
        `$LATEST` is taken, or the highest number if there is no `$LATEST`. If `terms` is None, the execution gets those of the function.
        `charges` are added to their counters only if a new execution is made. An execution of a worker or a pipeline needs an `order`.
        Raises FunctionNotFound if the function is not hosted here, and InvalidParameter or PayloadTooLarge if a value is not allowed.
        """
        target = self.registry.wanted(function, version, Kind.FUNCTION if order is None else order.kind)
        now, terms = self.clock.now(), terms or target.terms
        who = {"tenant": tenant, "trace": trace, "same": same}
        header = new_execution(self._ids(now), name, target.name, target.version, payload=payload, now=now, terms=terms, **who)
        again = on_failed != "find" and is_restart(on_failed, name)
        before = failed_as(self.store, target.name, name) if again else None
        claimant = self._reservations.reserve(target, self._ids(now), header)
        graph = None if order is None else order.graph
        return await self.invocations.start(Start(header, payload, claimant, charges, same, target.kind, again, before, graph), target)

    async def enqueue(
        self,
        function: str,
        payload: str,
        asked: Enqueue,
        *,
        name: str | None = None,
        tenant: str | None = None,
        trace: str | None = None,
        version: str | None = None,
        terms: Terms | None = None,
        order: Order | None = None,
        charges: tuple[Charge, ...] = (),
        identity: str | None = None,
        again: bool = False,
    ) -> Execution:
        """Enqueue an execution in the way that `asked` says, and return it. The execution begins in the same write if all of these are
        true: it has no delay, the queue is not paused, nothing waits in its lanes, its lanes have free slots and are not closed, the rates
        of its lanes allow it, and this runner has room and claims executions of this queue and tenant. Otherwise it waits in its lane.

        `identity`: if an execution has the name already, this text is compared instead of the input, to find out whether both are the same;
        None: the input is compared. `again`: whether a new execution is started under the name if the execution that has the name failed,
        timed out, was stopped or is parked. `name` None: the execution is named by its id. `version` None: `$LATEST`, or the highest number
        if there is no `$LATEST`. `terms` None: those of the function. `charges` are added to their counters only if a new execution is
        made. A run of a worker or a pipeline needs an `order`.
        Raises ExecutionAlreadyStarted, QueueFull, FunctionNotFound or InvalidParameter."""
        target = self.registry.wanted(function, version, Kind.FUNCTION if order is None else order.kind)
        self.new_queues.check(asked.queue)
        now, terms = self.clock.now(), terms or target.terms
        who = {"tenant": tenant, "trace": trace, "same": identity}
        header = new_execution(self._ids(now), checked_key(name), target.name, target.version, payload=payload, now=now, terms=terms, **who)
        claimant = None if asked.delay_ms else self._reservations.reserve(target, self._ids(now), header, asked.queue)
        graph = None if order is None else order.graph
        write = Start(header, payload, claimant, charges, identity, target.kind, again, graph=graph, enqueue=asked)
        return await self.invocations.start(write, target)

    async def enqueue_many(
        self, function: str, items: Sequence[Item], asked: Enqueue, *, tenant: str | None = None, version: str | None = None
    ) -> Sequence[Started | HoldfastError]:
        """Enqueue many executions of one function, at most 1,000 with each commit. All items must have the same `kind`. If an item can
        never be enqueued, its error is raised, with the index of the item, and nothing is written. Returns for each item what its start
        returned, or its error, in the order of `items`. If a commit gives an error for one of its items, its other items are still written,
        but no further commit is made, so the result may have fewer entries than `items`. If a commit fails as a whole, its error is raised;
        the items of earlier commits stay enqueued."""
        target = self.registry.wanted(function, version, items[0].kind if items else Kind.FUNCTION)
        self.new_queues.check(asked.queue)
        answers: list[Started | HoldfastError] = []
        starts: list[Start] = []
        now = self.clock.now()
        with indexed(starts):
            for item in items:
                starts.append(item.start(self._ids(now), target.name, target.version, target.terms, tenant, now, asked))  # noqa: PERF401
        for at in range(0, len(starts), BULK):
            done = await self._admissions.start_all(starts[at : at + BULK])
            answers += done
            if any(isinstance(one, HoldfastError) for one in done):
                break
        return answers

    async def redrive(self, execution: str, start_again: Redrive = redriven) -> Execution:
        """Enqueue a parked execution again, under its name, and return the new execution. `start_again` makes the start that is written.
        The default is for functions only: for a run of a worker or a pipeline, give another function. Raises ExecutionNotFound if there is
        no such execution. Raises InvalidParameter if it is not parked."""
        header = self.store.find(execution)
        if header is None:
            raise ExecutionNotFound(f"There is no execution {execution}.")
        now = self.clock.now()
        write = start_again(self.store, header, self._ids(now), now)
        (answer,) = await self._admissions.start_all([write])
        if isinstance(answer, HoldfastError):
            raise answer
        return answer.header

    async def restart(self, write: Callable[[str, int], Start]) -> Execution:
        """Restart an execution, and return the new one. `write` is called with the id of the new execution and the time, and returns the
        start that is written, for example the result of `restarts.restarted`. This runner claims the new execution in the same write if it
        has room, and, for an execution of a queue, if the queue admits it at once. Raises FunctionNotFound if the function is not hosted
        here."""
        now = self.clock.now()
        made = write(self._ids(now), now)
        target = self.registry.wanted(made.header.function, made.header.version, made.kind)
        queue = None if made.enqueue is None else made.enqueue.queue
        claimant = self._reservations.reserve(target, self._ids(now), made.header, queue)
        return await self.invocations.start(msgspec.structs.replace(made, by=claimant), target)

    async def stop(self, execution: str, error: Failure | None = None, *, cascade: bool = True, notes: Notes = ()) -> Stopped:
        """Stop an execution with this error (None: an empty error). `cascade`: whether the executions that it invoked, and those below
        them, are stopped too (those that were started without `cascade` go on; a run that listens for a cancel is usually told to cancel
        itself, and ends later). If the execution has continued as another one, that other one is stopped. Returns the header of the last
        execution of this chain, and whether this call stopped it. `notes` are written to the audit log together with the stop."""
        while True:
            before = self.store.find(execution)
            header = cast("Execution", await self._writer.write(Stop(execution, error or Failure(), cascade, notes=notes)))
            was_running = before is not None and before.status is ExecutionStatus.RUNNING
            stopped = was_running and header.status is ExecutionStatus.STOPPED
            self.invocations.finish(header, ours=stopped)
            if header.continued_as is None or not goes_on_as(header, self.store.find(header.continued_as)):
                return Stopped(header, stopped)
            execution = header.continued_as

    async def answer(self, callback_id: str, result: str | None = None, error: Failure | None = None, notes: Notes = ()) -> Execution:
        """Answer a callback: with the error if `error` is given, else with the result. If the answer makes the callback's execution ready,
        this runner claims the execution in the same write, provided that it hosts the function and has room. `notes` are written to the
        audit log together with the answer. Returns the execution after the answer. Raises CallbackNotFound or CallbackClosed
        if the callback cannot be answered."""
        execution, operation = self.store.seal.callback_target(callback_id)
        return cast("Execution", await self.wake(lambda by: Answering(execution, operation, result, error, by, notes=notes), execution))

    async def heartbeat(self, callback_id: str) -> Execution:
        """Send a heartbeat for a callback: its heartbeat timeout begins again. Returns the callback's execution."""
        return cast("Execution", await self._writer.write(Heartbeat(*self.store.seal.callback_target(callback_id))))

    async def release(self, execution: str) -> Execution:
        """Let an execution run again that is quarantined, or that waits for another try after its runners died. Returns its header. Raises
        InvalidParameter for any other execution."""
        header = cast("Execution", await self._writer.write(Release(execution)))
        self.look_for_work()
        return header

    async def wake(self, write: Callable[[Claimant | None], Write], execution: str) -> Answer:
        """Make a write that may make an execution ready. If the execution becomes ready, and this runner hosts its function and has room,
        the same write claims it. `write` is called with the claimant and returns the write; the claimant is None if this runner cannot
        claim the execution. Returns the answer to the write."""
        return await self.invocations.wake(write, execution)

    async def ending(self, execution: str) -> Ending:
        """Wait until an execution has ended. If it continued as another one, wait until that one has ended. Raises ExecutionNotFound if
        there is no such execution. Raises ExecutionQuarantined if it is quarantined. Raises EngineClosed if the engine closes first."""
        return await self.endings.wait(execution, live=self.invocations.is_live(execution))

    def look_for_work(self) -> None:
        """Let the scheduler look for work at once. Call this after a clock was moved, a schedule was changed, or a function was added
        here."""
        self._agenda.backlog = self._agenda.queued = True
        self._timetable.news()
        self._agenda.ring()

    @property
    def idle(self) -> bool:
        """Whether no invocation runs, the writer has nothing to write, no signal is being delivered, and no schedule is being worked on."""
        return self._scheduler.idle

"""The state of an execution whose `async def` handler runs on an event loop: its strands, its token and its writes.

A handler consists of strands: the handler itself, and every branch that it spawns. A strand either runs or rests (until an operation
changes, or until a branch ends). When all strands rest, the invocation is quiet: it can end as PENDING. The coroutines stay in memory until
the next invocation resumes them, or until the host evicts them: then they get a SuspendExecution. async_driver.py runs plans on this state.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import Final, TypeAlias, TypeVar, cast

from holdfast.durable.exceptions import BackgroundThreadError, SuspendExecution
from holdfast.durable.hooks.resting_hooks import RestingHooks
from holdfast.durable.plan import Suspend
from holdfast.durable.state import ExecutionState
from holdfast.durable.stragglers import Stragglers
from holdfast.durable.user_code import StepThreads
from holdfast.model.charges import Charge
from holdfast.model.clock import Clock
from holdfast.model.errors import HoldfastError, LimitReached, StoreBroken
from holdfast.model.ledger import LedgerEntry
from holdfast.model.operations import Operation, Update
from holdfast.model.ports import ChargingPort, Invocation, Port
from holdfast.model.verbs import Checkpointed

T = TypeVar("T")
Alone: TypeAlias = tuple[asyncio.Future[None], list[Update], tuple[Charge, ...], tuple[LedgerEntry, ...]]
"""A write that shares no checkpoint with other writes: the future that is done when the write is on disk, the updates, the charges and the
ledger entries."""

_MOST_UPDATES: Final = 500
_EVICTED = "This execution is suspended and continues later. This is not an error: do not catch it."


class AsyncState(ExecutionState):
    """The state of an execution whose handler is an `async def`. Its methods are called only on the event loop of the handler."""

    __slots__ = (
        "_alone",
        "_in_write",
        "_loop",
        "_on_change",
        "_owed",
        "_quiet",
        "_resting",
        "_running",
        "_unsent",
        "_waiting",
        "cancelled",
        "threads",
    )

    hooks: RestingHooks | None

    def __init__(
        self,
        invocation: Invocation,
        port: Port,
        clock: Clock,
        stragglers: Stragglers,
        *,
        threads: StepThreads,
        quiet: Callable[[], None],
    ) -> None:
        super().__init__(invocation, port, clock, stragglers)
        self._loop = asyncio.get_running_loop()
        self.threads = threads
        self._quiet = quiet
        self._running = 1
        self._resting: dict[asyncio.Future[None], None] = {}  # ordered, so that the same events always give the same course
        self._on_change: dict[str, tuple[asyncio.Future[None], ...]] = {}
        self._in_write: list[asyncio.Future[None]] | None = None
        """The futures that wait for the write under way; None when no write is under way."""
        self._waiting: list[asyncio.Future[None]] = []
        """The futures that wait for the next write."""
        self._alone: Sequence[Alone] = ()
        """Writes that share no checkpoint with other updates, and that have not begun."""
        self._unsent = False
        """Whether the present write waits for the end of the loop's tick, so that strands which run until then can join it."""
        self._owed = 0
        """How many updates of the write under way are not sent yet. A large write is sent in parts: other executions write in between."""
        self.cancelled = False
        """Whether the host cancelled the handler's task. If so, a CancelledError does not come from user code."""

    # --- strands

    @property
    def is_quiet(self) -> bool:
        """Whether every strand rests."""
        return self._running == 0

    def rest(self, suspend: Suspend) -> Awaitable[None]:
        """Rest until one of the operations that `suspend` names changes. Raises SuspendExecution if `evict` is called before."""
        future = self._loop.create_future()
        for operation in (suspend.operation_id, *(other.id for other in suspend.others)):
            self._on_change[operation] = (*self._on_change.get(operation, ()), future)
        return self.rest_for(future)

    async def rest_for(self, future: asyncio.Future[None]) -> None:
        """Rest until `wake` is called with this future. Raises SuspendExecution if `evict` is called before."""
        self.check_usable()
        self._resting[future] = None
        self.ended()
        try:
            await future
        except asyncio.CancelledError:
            if future in self._resting:
                del self._resting[future]
                self._running += 1
            raise

    def wake(self, future: asyncio.Future[None]) -> None:
        """Let the strand that rests for this future run again. The strand counts as running from now on, even before the event loop resumes
        it."""
        if future in self._resting:
            del self._resting[future]
            self._running += 1
        if not future.done():
            future.set_result(None)

    def waits_for(self, operation: str) -> bool:
        """Whether a strand rests until this operation changes."""
        return any(future in self._resting for future in self._on_change.get(operation, ()))

    def awaited(self) -> list[Operation]:
        """The recorded operations that strands rest for."""
        return [self.operations[at] for at in self._on_change if at in self.operations and self.waits_for(at)]

    def when_changed(self, operation: str) -> asyncio.Future[None]:
        """A future that is done when this operation changes next. A strand that awaits it does not count as resting."""
        future = self._loop.create_future()
        self._on_change[operation] = (*self._on_change.get(operation, ()), future)
        return future

    def began(self) -> None:
        """Note that a strand was added."""
        self._running += 1

    def ended(self) -> None:
        """Note that a strand rests from now on, or has ended. If no strand runs any more, call `quiet`, the function that was given to this
        state."""
        self._running -= 1
        if self._running == 0:
            self._quiet()

    def learn(self, operations: Iterable[Operation]) -> None:
        """Store changed operations, and wake the strands that rest until one of these operations changes."""
        for operation in operations:
            self.operations[operation.id] = operation
            if self._on_change:
                for future in self._on_change.pop(operation.id, ()):
                    self.wake(future)

    def hear(self, revision: int, operations: Collection[Operation]) -> None:
        """Take over the changes of a write that did not come from this invocation. After that write the execution has the revision
        `revision`. `operations` are the operations that the write changed; if empty, it is not known which ones.

        If `operations` is not empty, and `revision` follows directly on the revision that this state has, the operations are stored.
        Otherwise this asks the service for all changes, and does not wait for the answer. Nothing is done in three cases: this state has
        `revision` or a later one already; durable calls are no longer possible; or a write of this state was sent and not answered yet (its
        answer also brings these changes).
        """
        is_sent = self._in_write is not None and not self._unsent
        if is_sent or self.broken is not None or self.suspended or revision <= self.revision:
            return
        if revision > self.revision + 1 or not operations:
            self.refresh()
            return
        self.revision = revision
        self.token = self.token._replace(revision=revision)
        self._take_over(operations)

    def _take_over(self, operations: Iterable[Operation]) -> None:
        """Store changed operations as `learn` does. If there are plugins, the hooks note the changes, to report them."""
        if self.hooks is None:
            self.learn(operations)
        else:
            self.hooks.learning(operations, self.learn)

    def resume(self, invocation: Invocation) -> None:
        """Continue under a new invocation: read the operations that changed meanwhile, and wake the strands that rest until one of these
        operations changes."""
        changed = self.port.state(invocation.token, self.revision)
        self.header = invocation.header
        self.token = invocation.token
        self.revision = invocation.header.revision
        self.learn(changed)

    def evict(self) -> None:
        """Remove the coroutines from memory: raise a suspension in every resting strand, and refuse every later durable call."""
        self.suspended = True
        resting, self._resting = self._resting, {}
        for future in resting:
            self._running += 1
            if not future.done():
                future.set_exception(SuspendExecution(_EVICTED))

    # --- writing

    @property
    def ends_ride(self) -> bool:
        """False if there are plugins: they get the report of the end only when it is on disk, and the code waits for that report."""
        return self.hooks is None

    @property
    def has_service_clock(self) -> bool:
        """True: this state is inside the runner, whose clock dates the operations. (The state of a remote handler overrides this.)"""
        return True

    @property
    def is_writing(self) -> bool:
        """Whether a write is under way."""
        return self._in_write is not None

    def flush(self) -> asyncio.Future[None]:
        """Begin to write the recorded updates. Returns a future that is done when all updates recorded so far are on disk; the future
        raises BackgroundThreadError if the write fails. If an earlier write failed, this method itself raises the error of that write."""
        if self.broken is not None:
            raise self.broken
        mine: asyncio.Future[None] = self._loop.create_future()
        if self._in_write is None:
            self._begin_write([mine])
        elif self._unsent:
            self._in_write.append(mine)
        else:
            self._waiting.append(mine)
        return mine

    async def record_alone(self, updates: list[Update], charges: tuple[Charge, ...], ledger: tuple[LedgerEntry, ...] = ()) -> None:
        """Write these updates, charges and entries of the ledger in a checkpoint of their own, and wait until they are on disk. Raises
        LimitReached if a charge goes beyond its limit: then nothing of this write is stored, and later writes are possible."""
        self.check_usable()
        mine: asyncio.Future[None] = self._loop.create_future()
        self._alone = [*self._alone, (mine, updates, charges, ledger)]
        if self._in_write is None:
            self._go_on()
        await mine

    def _write_alone(self) -> None:
        (mine, updates, charges, ledger), *self._alone = self._alone

        def on_answer(answer: Checkpointed | HoldfastError) -> None:
            if not isinstance(answer, LimitReached):
                self._written(answer)
                return
            self._in_write = None
            if not mine.done():
                mine.set_exception(answer)
            self._go_on()

        self._in_write, self._owed = [mine], 0
        try:
            cast("ChargingPort", self.port).checkpoint_soon(self.token, updates, on_answer, charges=charges, ledger=ledger)
        except Exception as error:
            self._write_failed(error)

    def _go_on(self) -> None:
        """Called when no write is under way. If a strand waits for a write, begin that write; before a write of `record_alone`, the updates
        that were recorded earlier are written. If no strand waits for a write and all strands rest, call the function `quiet` that was
        given to this state."""
        if self._alone and not self.unwritten:
            self._write_alone()
        elif self._waiting or self._alone:
            waiting, self._waiting = self._waiting, []
            self._begin_write(waiting)
        elif self._running == 0:
            self._quiet()
        elif self.unwritten:  # deferred while the write was under way; the stragglers may have passed over them meanwhile
            self.unwritten_since = self._loop.time()
            self.stragglers.add(self)

    def record_later(self, update: Update) -> None:
        first = not self.unwritten
        self.record(update)
        if first:
            self.unwritten_since = self._loop.time()
            self.stragglers.add(self)

    def write_deferred(self) -> None:
        """This only begins the write, and does nothing if another write is under way."""
        if self.unwritten and self._in_write is None and self.broken is None:
            self._begin_write([])

    def refresh(self) -> None:
        """Begin to ask the service for changes, with a checkpoint that may have no updates. Does nothing while a write is under way,
        because the answer to that write brings the changes. Also does nothing if durable calls are no longer possible."""
        if self._in_write is None and self.broken is None and not self.suspended:
            self._begin_write([])

    def _begin_write(self, waiters: list[asyncio.Future[None]]) -> None:
        """Begin a write, for which the futures `waiters` wait. The write belongs to the state and not to a strand: if a strand that waits
        for it is cancelled, the write continues.

        If other strands run now, the write is sent at the end of the loop's tick, so that updates of these strands go into the same
        checkpoint.
        """
        self._in_write = waiters
        if self._running > 1:
            self._unsent = True
            self._loop.call_soon(self._send_all)
        else:
            self._send_all()

    def _send_all(self) -> None:
        self._unsent = False
        self._owed = len(self.unwritten)
        self._send()

    def _send(self) -> None:
        updates, self.unwritten = self.unwritten[:_MOST_UPDATES], self.unwritten[_MOST_UPDATES:]
        self._owed -= len(updates)
        try:
            self.port.checkpoint_soon(self.token, updates, self._written)
        except Exception as error:
            self._write_failed(error)

    def _write_failed(self, error: Exception) -> None:
        """End a write that failed with an unexpected error: its updates are not on disk. All strands that wait for a write get a
        BackgroundThreadError, whose `source_exception` is a StoreBroken with the text of `error`."""
        broken = StoreBroken(f"A write failed unexpectedly: {error!r}")
        broken.__cause__ = error
        self._written(broken)

    def _written(self, answer: Checkpointed | HoldfastError) -> None:
        waiters = self._in_write or []
        try:
            if isinstance(answer, HoldfastError):
                raise self.failed(answer)
            self.applied(answer)
            self._take_over(answer.operations)
            if self._owed > 0:
                self._send()
                return
        except BackgroundThreadError as over:
            self.broken = over
            waiters += [*self._waiting, *(waiter for waiter, *_ in self._alone)]
            self._waiting, self._alone = [], ()
        self._in_write = None
        for waiter in waiters:
            if not waiter.done():
                if self.broken is None:
                    waiter.set_result(None)
                else:
                    waiter.set_exception(self.broken)
        self._go_on()

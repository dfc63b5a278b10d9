"""The awaiting driver: serves the plans of `async def` handlers on one event loop.

A handler is made of strands: the handler itself, and every branch it spawns. A strand either runs or rests (for a changed operation,
for a branch). When all rest, the invocation is quiet: it can end as PENDING, while the coroutines stay where they are until the next
invocation goes on with them, or until they are evicted by a SuspendExecution.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple, TypeVar, cast

from holdfast.durable.calling import Threads, ran, ran_in_time
from holdfast.durable.exceptions import BackgroundThreadError, SuspendExecution
from holdfast.durable.hooks.resting import RestingHooks
from holdfast.durable.identifier import Identity
from holdfast.durable.plan import Done, Look, NextDone, Plan, Record, Run, Spawn, Suspend
from holdfast.durable.scope import Scope
from holdfast.durable.state import ExecutionState
from holdfast.durable.stragglers import Stragglers
from holdfast.model.charging import Charge
from holdfast.model.clock import Clock
from holdfast.model.errors import HoldfastError, LimitReached, StoreBroken
from holdfast.model.operations import Operation, Update
from holdfast.model.ports import ChargingPort, Invocation, Port
from holdfast.model.verbs import Checkpointed

T = TypeVar("T")


_CUT_SHORT = (
    "A durable call was cancelled by user code (asyncio.timeout, wait_for, or a cancelled task around it). A replay could not repeat "
    "that at the same point. Use what the durable call offers instead: a callback's timeout, or a step with the timeout inside its body."
)
_MOST_UPDATES: Final = 500
_orphans: set[asyncio.Task[Any]] = set()
"""Branches that were cancelled because their batch was over; user code has no part in that. One set for all: each would have its own."""
_EVICTED = "This execution is suspended and will come back. Not an error; let it pass."


class AsyncState(ExecutionState):
    """An execution's state on its event loop."""

    __slots__ = (
        "_alone",
        "_in_write",
        "_loop",
        "_on_change",
        "_owed",
        "_quiet",
        "_resting",
        "_running",
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
        threads: Threads,
        quiet: Callable[[], None],
    ) -> None:
        super().__init__(invocation, port, clock, stragglers)
        self._loop = asyncio.get_running_loop()
        self.threads = threads
        self._quiet = quiet
        self._running = 1
        self._resting: dict[asyncio.Future[None], None] = {}  # in order, so that the same story always goes the same way
        self._on_change: dict[str, tuple[asyncio.Future[None], ...]] = {}
        self._in_write: list[asyncio.Future[None]] | None = None
        """Who waits for the write that is under way; None when none is."""
        self._waiting: list[asyncio.Future[None]] = []
        """Who waits for the one after it."""
        self._alone: Sequence[tuple[asyncio.Future[None], list[Update], tuple[Charge, ...]]] = ()
        """Writes that must go by themselves."""
        self._owed = 0
        """Updates of the write under way that are not sent yet: a large one goes in several, so that others get their turn between them."""
        self.cancelled = False
        """The engine ended this invocation; a cancellation is not user code's."""

    # --- strands

    @property
    def is_quiet(self) -> bool:
        """Every strand rests."""
        return self._running == 0

    def rest(self, suspend: Suspend) -> Awaitable[None]:
        """Rest until an operation changes."""
        future = self._loop.create_future()
        for operation in (suspend.operation_id, *(other.id for other in suspend.others)):
            self._on_change[operation] = (*self._on_change.get(operation, ()), future)
        return self.rest_for(future)

    async def rest_for(self, future: asyncio.Future[None]) -> None:
        """Rest until `wake` is called with this future."""
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
        """Let a strand run again. It counts as running from now on, not only when the loop gets to it."""
        if future in self._resting:
            del self._resting[future]
            self._running += 1
        if not future.done():
            future.set_result(None)

    def when_changed(self, operation: str) -> asyncio.Future[None]:
        """Resolves when an operation changes, for somebody who goes on meanwhile."""
        future = self._loop.create_future()
        self._on_change[operation] = (*self._on_change.get(operation, ()), future)
        return future

    def began(self) -> None:
        """A strand was added."""
        self._running += 1

    def ended(self) -> None:
        """A strand rests or is over."""
        self._running -= 1
        if self._running == 0:
            self._quiet()

    def learn(self, operations: Iterable[Operation]) -> None:
        """Take in changed operations and wake the strands that rest on them."""
        for operation in operations:
            self.operations[operation.id] = operation
            if self._on_change:
                for future in self._on_change.pop(operation.id, ()):
                    self.wake(future)

    def resume(self, invocation: Invocation) -> None:
        """Go on under a new invocation: learn what changed, and wake who waited for it."""
        changed = self.port.state(invocation.token, self.revision)
        self.header = invocation.header
        self.token = invocation.token
        self.revision = invocation.header.revision
        self.learn(changed)

    def evict(self) -> None:
        """Leave memory: the suspension is thrown into every resting strand, and every later durable call is refused."""
        self.suspended = True
        resting, self._resting = self._resting, {}
        for future in resting:
            self._running += 1
            if not future.done():
                future.set_exception(SuspendExecution(_EVICTED))

    # --- writing

    @property
    def flying(self) -> bool:
        """Whether a write is under way."""
        return self._in_write is not None

    def flush(self) -> asyncio.Future[None]:
        """Resolves when everything recorded so far is on disk: with the write that takes it along, not with an earlier one."""
        if self.broken is not None:
            raise self.broken
        mine: asyncio.Future[None] = self._loop.create_future()
        if self._in_write is None:
            self._begin_write([mine])
        else:
            self._waiting.append(mine)
        return mine

    async def record_alone(self, updates: list[Update], charges: tuple[Charge, ...]) -> None:
        """Write these updates and charges by themselves. LimitReached refuses them, and nothing else: the token is still good."""
        self.check_usable()
        mine: asyncio.Future[None] = self._loop.create_future()
        self._alone = [*self._alone, (mine, updates, charges)]
        if self._in_write is None:
            self._go_on()
        await mine

    def _write_alone(self) -> None:
        (mine, updates, charges), *self._alone = self._alone

        def landed(answer: Checkpointed | HoldfastError) -> None:
            if not isinstance(answer, LimitReached):
                self._written(answer)
                return
            self._in_write = None
            if not mine.done():
                mine.set_exception(answer)
            self._go_on()

        self._in_write, self._owed = [mine], 0
        try:
            cast("ChargingPort", self.port).checkpoint_soon(self.token, updates, landed, charges=charges)
        except Exception as error:
            self._fell(error)

    def _go_on(self) -> None:
        """Begin the next write, if anybody waits for one; what was recorded earlier goes first."""
        if self._alone and not self.unwritten:
            self._write_alone()
        elif self._waiting or self._alone:
            waiting, self._waiting = self._waiting, []
            self._begin_write(waiting)
        elif self._running == 0:
            self._quiet()

    def write_riders(self) -> None:
        """Write what rides, if it still does; a failure is told to the strand that writes next."""
        if self.unwritten and self._in_write is None and self.broken is None:
            self._begin_write([])

    def refresh(self) -> None:
        """Learn what changed by an empty checkpoint, unless a write is under way that will tell it anyway."""
        if self._in_write is None and self.broken is None and not self.suspended:
            self._begin_write([])

    def _begin_write(self, aboard: list[asyncio.Future[None]]) -> None:
        """Begin a write. It belongs to the state, not to a strand: whoever waits for it may be cancelled, it goes on."""
        self._in_write = aboard
        self._owed = len(self.unwritten)
        self._send()

    def _send(self) -> None:
        updates, self.unwritten = self.unwritten[:_MOST_UPDATES], self.unwritten[_MOST_UPDATES:]
        self._owed -= len(updates)
        try:
            self.port.checkpoint_soon(self.token, updates, self._written)
        except Exception as error:
            self._fell(error)

    def _fell(self, error: Exception) -> None:
        """Whatever it was: those aboard must hear that it is not on disk."""
        broken = StoreBroken(f"A write failed unexpectedly: {error!r}")
        broken.__cause__ = error
        self._written(broken)

    def _written(self, answer: Checkpointed | HoldfastError) -> None:
        aboard = self._in_write or []
        try:
            if isinstance(answer, HoldfastError):
                raise self.failed(answer)
            self.landed(answer)
            if self._owed > 0:
                self._send()
                return
        except BackgroundThreadError as over:
            self.broken = over
            aboard += [*self._waiting, *(waiter for waiter, _, _ in self._alone)]
            self._waiting, self._alone = [], ()
        self._in_write = None
        for waiter in aboard:
            if not waiter.done():
                if self.broken is None:
                    waiter.set_result(None)
                else:
                    waiter.set_exception(self.broken)
        self._go_on()


class _Exit(NamedTuple):
    """A branch asked the process to end."""

    error: BaseException


async def _held(plan: Plan[T], state: AsyncState) -> T | _Exit:
    """A branch. What a task lets out of these two ends the loop, and with it every other execution; its own handler shall have it."""
    try:
        return await drive(plan, state)
    except (SystemExit, KeyboardInterrupt) as error:
        return _Exit(error)


class _Strands:
    """The branches of one plan."""

    def __init__(self, state: AsyncState) -> None:
        self._state = state
        self._done: deque[Done] = deque()
        self._fatal: BaseException | None = None
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._waiting: asyncio.Future[None] | None = None

    def spawn(self, spawn: Spawn) -> None:
        self._state.began()
        context = None if self._state.hooks is None else contextvars.copy_context()
        task = asyncio.get_running_loop().create_task(_held(spawn.plan, self._state), context=context)
        if self._state.hooks is not None and context is not None:
            self._state.hooks.spawned(task, context)
        self._tasks[task] = None
        task.add_done_callback(lambda ended: self._over(spawn.key, ended))

    def _over(self, key: int, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)
        if task.cancelled():
            if task not in _orphans:
                self._fatal = asyncio.CancelledError()
        elif (error := task.exception()) is None:
            ended = task.result()
            if isinstance(ended, _Exit):
                self._fatal = ended.error
            else:
                self._done.append(Done(key, ended))
        elif isinstance(error, Exception):
            self._done.append(Done(key, None, error))
        elif not isinstance(error, SuspendExecution):  # evicted: the parent is told the same
            self._fatal = error
        _orphans.discard(task)
        if self._waiting is not None:
            self._state.wake(self._waiting)
        self._state.ended()

    async def next_done(self) -> Done:
        """The next branch that ended; what no branch may swallow is raised here too."""
        while not self._done:
            if self._fatal is not None:
                raise self._fatal
            self._waiting = asyncio.get_running_loop().create_future()
            await self._state.rest_for(self._waiting)
        return self._done.popleft()

    def cancel(self) -> None:
        """The batch is over without these; what they would still do is nobody's."""
        for task in self._tasks:
            _orphans.add(task)
            task.cancel()


async def drive(plan: Plan[T], state: AsyncState, scope: Scope | None = None, at: Identity | None = None) -> T:
    """Run a plan to its end; with the scope whose durable call it is and the place it took there."""
    answer: Any = None
    raised: Exception | None = None
    strands: _Strands | None = None
    if scope is not None:
        scope.awaited(plan)
    resumed = scope is not None and at is not None and scope.began(at)
    try:
        while True:
            try:
                effect = plan.send(answer) if raised is None else plan.throw(raised)
            except StopIteration as stop:
                result: T = stop.value
                return result
            answer = raised = None
            if isinstance(effect, Look):
                answer = state.look(effect.identity)
            elif isinstance(effect, Record):
                if state.hooks is not None:
                    state.hooks.recording(effect.update)
                if effect.wait:
                    state.record(effect.update)
                    await state.flush()
                    if state.hooks is not None:
                        state.hooks.recorded(effect.update)
                else:
                    state.record_later(effect.update)
            elif isinstance(effect, Run):
                try:
                    answer = await (ran(effect, state.threads) if effect.timeout is None else ran_in_time(effect, state.threads))
                except Exception as error:
                    raised = error
            elif isinstance(effect, Suspend):
                await state.rest(effect)
            else:
                strands = strands or _Strands(state)
                if isinstance(effect, NextDone):
                    answer = await strands.next_done()
                else:
                    strands.spawn(effect)
    except BaseException as error:
        plan.close()  # what it leaves in the middle is told of now, not when the garbage is collected
        state.raised(error)
        cancelled = isinstance(error, asyncio.CancelledError)
        if cancelled and not state.cancelled and not state.suspended and asyncio.current_task() not in _orphans:
            state.misuse = _CUT_SHORT
        if scope is not None and isinstance(error, SuspendExecution):
            scope.suspended = True
        raise
    finally:
        if strands is not None:
            strands.cancel()
        if scope is not None and at is not None:
            scope.ended(at, resumed=resumed)

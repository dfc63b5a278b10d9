"""The awaiting driver: serves the plans of `async def` handlers on one event loop.

A handler is made of strands: the handler itself, and every branch it spawns. A strand either runs or rests (for a changed operation,
for a branch). When all rest, the invocation is quiet: it can end as PENDING, while the coroutines stay where they are until the next
invocation goes on with them, or until they are evicted by a SuspendExecution.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from typing import Any, TypeVar

from holdfast.durable.exceptions import SuspendExecution
from holdfast.durable.plan import Done, Look, NextDone, Plan, Record, Run, Spawn, Suspend
from holdfast.durable.state import ExecutionState
from holdfast.durable.stragglers import Stragglers
from holdfast.model.clock import Clock
from holdfast.model.errors import HoldfastError
from holdfast.model.operations import Operation, Update
from holdfast.model.ports import Invocation, Port

T = TypeVar("T")

_CUT_SHORT = (
    "A durable call was cancelled by user code (asyncio.timeout, wait_for, or a cancelled task around it). A replay could not repeat "
    "that at the same point. Use what the durable call offers instead: a callback's timeout, or a step with the timeout inside its body."
)
_EVICTED = "This execution is suspended and will come back. Not an error; let it pass."


class AsyncState(ExecutionState):
    """An execution's state on its event loop."""

    def __init__(
        self,
        invocation: Invocation,
        port: Port,
        clock: Clock,
        stragglers: Stragglers,
        *,
        threads: Executor,
        quiet: Callable[[], None],
    ) -> None:
        super().__init__(invocation, port, clock, stragglers)
        self._loop = asyncio.get_running_loop()
        self.threads = threads
        self._quiet = quiet
        self._running = 1
        self._resting: set[asyncio.Future[None]] = set()
        self._on_change: dict[str, list[asyncio.Future[None]]] = {}
        self._flying = False
        self._next_flight: asyncio.Future[None] | None = None
        self.orphans: set[asyncio.Task[None]] = set()
        """Branches that were cancelled because their batch was over; user code has no part in that."""
        self.cancelled = False
        """The engine ended this invocation; a cancellation is not user code's."""

    # --- strands

    @property
    def is_quiet(self) -> bool:
        """Every strand rests."""
        return self._running == 0

    async def rest(self, operation_id: str) -> None:
        """Rest until an operation changes."""
        future = self._loop.create_future()
        self._on_change.setdefault(operation_id, []).append(future)
        await self.rest_for(future)

    async def rest_for(self, future: asyncio.Future[None]) -> None:
        """Rest until `wake` is called with this future."""
        self.check_usable()
        self._resting.add(future)
        self.ended()
        await future

    def wake(self, future: asyncio.Future[None]) -> None:
        """Let a strand run again. It counts as running from now on, not only when the loop gets to it."""
        if future in self._resting:
            self._resting.discard(future)
            self._running += 1
            if not future.done():
                future.set_result(None)

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
        resting, self._resting = self._resting, set()
        for future in resting:
            self._running += 1
            if not future.done():
                future.set_exception(SuspendExecution(_EVICTED))

    # --- writing

    async def write(self, update: Update) -> None:
        """Record an update and wait until it is on disk."""
        self.record(update)
        if self._flying:
            await self.flush()
        else:
            await self._fly()

    async def flush(self) -> None:
        """Wait until everything recorded so far is on disk."""
        while self._flying:
            if self._next_flight is None:
                self._next_flight = self._loop.create_future()
            await self._next_flight
            if not self.unwritten:
                return
        await self._fly()

    async def refresh(self) -> None:
        """Learn what changed by an empty checkpoint, unless a write is under way that will tell it anyway."""
        if not self._flying:
            await self._fly()

    async def _fly(self) -> None:
        updates, self.unwritten = self.unwritten, []
        self._flying = True
        try:
            self.landed(await self.port.checkpoint_soon(self.token, updates))
        except HoldfastError as error:
            raise self.failed(error) from error
        finally:
            self._flying = False
            waiting, self._next_flight = self._next_flight, None
            if waiting is not None and not waiting.done():
                waiting.set_result(None)


class _Strands:
    """The branches of one plan."""

    def __init__(self, state: AsyncState) -> None:
        self._state = state
        self._done: deque[Done] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._waiting: asyncio.Future[None] | None = None

    def spawn(self, spawn: Spawn) -> None:
        self._state.began()
        task = asyncio.get_running_loop().create_task(self._branch(spawn))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _branch(self, spawn: Spawn) -> None:
        try:
            self._done.append(Done(spawn.key, await drive(spawn.plan, self._state)))
        except Exception as error:
            self._done.append(Done(spawn.key, None, error))
        except SuspendExecution:
            pass  # evicted: the parent is told the same
        if self._waiting is not None:
            self._state.wake(self._waiting)
        self._state.ended()

    async def next_done(self) -> Done:
        while not self._done:
            self._waiting = asyncio.get_running_loop().create_future()
            await self._state.rest_for(self._waiting)
        return self._done.popleft()

    def cancel(self) -> None:
        """The batch is over without these; what they would still do is nobody's."""
        for task in self._tasks:
            self._state.orphans.add(task)
            task.add_done_callback(self._state.orphans.discard)
            task.cancel()


async def drive(plan: Plan[T], state: AsyncState) -> T:
    """Run a plan to its end."""
    answer: Any = None
    raised: Exception | None = None
    strands: _Strands | None = None
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
                if effect.wait:
                    await state.write(effect.update)
                else:
                    state.record_later(effect.update)
            elif isinstance(effect, Run):
                try:
                    answer = await _run(effect, state)
                except Exception as error:
                    raised = error
            elif isinstance(effect, Suspend):
                await state.rest(effect.operation_id)
            else:
                strands = strands or _Strands(state)
                if isinstance(effect, NextDone):
                    answer = await strands.next_done()
                else:
                    strands.spawn(effect)
    except asyncio.CancelledError:
        if not state.cancelled and not state.suspended and asyncio.current_task() not in state.orphans:
            state.misuse = _CUT_SHORT
        raise
    finally:
        if strands is not None:
            strands.cancel()


async def _run(run: Run, state: AsyncState) -> Any:
    """User code: an `async def` here, a step's plain `def` in a thread, because it may block and others want the loop."""
    func = run.func
    if run.inline or is_async(func):
        value = func(*run.arguments)
    else:
        call = contextvars.copy_context().run
        value = await asyncio.get_running_loop().run_in_executor(state.threads, call, func, *run.arguments)
    return await value if inspect.isawaitable(value) else value


def is_async(func: Callable[..., Any]) -> bool:
    """Whether calling it gives a coroutine; sees through our own wrappers."""
    func = getattr(func, "_original", func)
    code = getattr(func, "__code__", None)
    return bool(code.co_flags & inspect.CO_COROUTINE) if code is not None else inspect.iscoroutinefunction(func)

"""The async driver: runs the plans of `async def` handlers, and the branches that the plans spawn, on one event loop. It works on the state
in async_state.py."""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from typing import Any, NamedTuple, TypeVar

from holdfast.durable.async_state import AsyncState
from holdfast.durable.exceptions import SuspendExecution
from holdfast.durable.identifier import Identity
from holdfast.durable.plan import Accept, Done, Lookup, NextDone, Plan, Record, Run, Spawn, Suspend
from holdfast.durable.run_acceptance import accepted
from holdfast.durable.scope import Scope
from holdfast.durable.user_code import ran, ran_in_time

T = TypeVar("T")

_CUT_SHORT = (
    "A durable call was cancelled by user code (asyncio.timeout, wait_for, or a cancelled task around it). A replay could not cancel it at "
    "the same point. Use the timeout that the durable call offers instead: `timeout` in StepConfig or CallbackConfig."
)
_orphans: set[asyncio.Task[Any]] = set()
"""The tasks of branches, of all executions in this process, that the driver itself cancelled, because their batch ended before them."""


class _Exit(NamedTuple):
    """What a branch returns if its code raised SystemExit or KeyboardInterrupt."""

    error: BaseException


async def _held(plan: Plan[T], state: AsyncState) -> T | _Exit:
    """Run the plan of a branch, and return its result. A SystemExit or KeyboardInterrupt in a task would stop the event loop of all
    executions, so it is returned as an _Exit. `next_done` raises it again in the plan that waits for the branch."""
    try:
        return await drive(plan, state)
    except (SystemExit, KeyboardInterrupt) as error:
        return _Exit(error)


class _Strands:
    """Runs the branches of one plan, each as an asyncio task."""

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
        elif not isinstance(error, SuspendExecution):  # evicted: the parent gets the same suspension
            self._fatal = error
        _orphans.discard(task)
        if self._waiting is not None:
            self._state.wake(self._waiting)
        self._state.ended()

    async def next_done(self) -> Done:
        """Rest until a branch has ended, and return its Done. Raises CancelledError if user code cancelled a branch, and SuspendExecution
        if the coroutine is evicted. If a branch raised an error that is neither an `Exception` nor a suspension, raises that error here, in
        the parent of the branch."""
        while not self._done:
            if self._fatal is not None:
                raise self._fatal
            self._waiting = asyncio.get_running_loop().create_future()
            await self._state.rest_for(self._waiting)
        return self._done.popleft()

    def cancel(self) -> None:
        """Cancel the branches that have not ended."""
        for task in self._tasks:
            _orphans.add(task)
            task.cancel()


async def drive(plan: Plan[T], state: AsyncState, scope: Scope | None = None, at: Identity | None = None) -> T:
    """Run a plan to its end, and return its result or raise its error. Where the plan must wait, the coroutine rests. `scope` is the scope
    of the context on which the author's code made the durable call; None for a branch. `at` is the identity of the call; None for a branch,
    and for a `with_retry` without a child context."""
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
            if isinstance(effect, Lookup):
                answer = state.lookup(effect.identity)
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
            elif isinstance(effect, Accept):
                answer = await accepted(state, effect)
            else:
                strands = strands or _Strands(state)
                if isinstance(effect, NextDone):
                    answer = await strands.next_done()
                else:
                    strands.spawn(effect)
    except BaseException as error:
        plan.close()  # its `finally` blocks run now, not at garbage collection
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

"""The blocking driver: runs the plans of a `def` handler on the thread of the handler.

A suspension is an exception: it passes through user code and frees the thread. Branches run on free threads of a bounded pool, if there are
some. The thread that waits for the branches runs the remaining ones itself, so that a pool of one thread can run nested branches.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any, Protocol, TypeVar

from holdfast.durable.exceptions import BackgroundThreadError, SuspendExecution
from holdfast.durable.plan import Accept, Done, Lookup, NextDone, Plan, Record, Run, Spawn, Suspend, too_late
from holdfast.durable.run_acceptance import accepted_blocking
from holdfast.durable.state import ExecutionState
from holdfast.durable.stragglers import Stragglers
from holdfast.model.clock import Clock, monotonic
from holdfast.model.errors import HoldfastError
from holdfast.model.operations import Operation, Update
from holdfast.model.ports import Invocation, Port

T = TypeVar("T")
Lend = Callable[[Callable[[], None]], bool]
"""A function that runs a call on a free thread and returns True, without waiting for the end of the call. If no thread is free, it does not
run the call, and returns False."""


class Strands(Protocol):
    """Runs the branches of one plan: `spawn` begins a branch, `next_done` waits until a branch has ended."""

    def spawn(self, spawn: Spawn) -> None: ...
    def next_done(self) -> Done: ...


class _Gate:
    """A gate at which threads wait until it is opened; after that it stays open. It is used in place of threading.Event, which takes ten
    times as long to make: every write makes two gates."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def open(self) -> None:
        """Let all waiting threads pass, and all later threads. May be called only once."""
        self._lock.release()

    def wait(self) -> None:
        """Wait until the gate is open. Each thread that passes lets the next thread pass."""
        with self._lock:
            pass


class _Write:
    """One write for all threads that wait for it. The first of these threads makes the write, as soon as the write before it is done."""

    __slots__ = ("done", "even_if_empty", "turn")

    def __init__(self) -> None:
        self.turn = _Gate()
        self.done = _Gate()
        self.even_if_empty = False
        """Whether the write must be made even without updates, because a thread wants to read what changed."""


class BlockingState(ExecutionState):
    """The state of an execution whose handler is a `def`. The threads of one invocation share it."""

    def __init__(
        self,
        invocation: Invocation,
        port: Port,
        clock: Clock,
        stragglers: Stragglers,
        *,
        lend: Lend,
        crowded: Callable[[], bool] = lambda: False,
    ) -> None:
        super().__init__(invocation, port, clock, stragglers)
        self.lend = lend
        self.crowded = crowded
        """A function that says whether another execution waits for a thread. If so, a lent thread is given back after its present
        branch."""
        self._taking = threading.Lock()
        self._current: _Write | None = None
        """The write that is under way."""
        self._next: _Write | None = None
        """The write that follows the present one. Threads that flush while the present write is under way wait for this one."""
        self._blocked: dict[str, int] = {}

    def record(self, update: Update) -> None:
        with self._taking:
            super().record(update)

    def block(self, operation_id: str, looked: Operation | None) -> None:
        """Note that a strand frees its thread because it waits for the operation `operation_id`. `looked` is that operation in the state in
        which the strand saw it; None if it was not recorded."""
        self._blocked[operation_id] = looked.revision if looked is not None else 0

    @property
    def acted_on(self) -> int:
        """The revision up to which every strand has seen all changes of the operations that it waits for.

        While a strand waits for an operation, the answer to a write of another strand may bring a change of that operation. The waiting
        strand has not seen this change, because it has not run again since.
        """
        news = [self.operations[at].revision for at, then in list(self._blocked.items()) if self.operations[at].revision > then]
        return min(news) - 1 if news else self.revision

    def suspension(self, effect: Suspend) -> SuspendExecution:
        """The exception that frees the thread of a strand which must wait, as `effect` says."""
        return SuspendExecution(f"Waiting for operation {effect.operation_id}.")

    def strands(self) -> Strands:
        """An object that runs the branches of one plan."""
        return _Strands(self)

    def write(self, update: Update) -> None:
        """Record an update and wait until it is on disk."""
        self.record(update)
        self.flush()

    def flush(self, *, even_if_empty: bool = False) -> None:
        """Wait until all updates recorded so far are on disk. Raises BackgroundThreadError if a write failed. With `even_if_empty`, a write
        is made even if there are no updates, because its answer says what changed."""
        with self._taking:
            if self.broken is not None:
                raise self.broken
            first = self._current is None
            if first and not self.unwritten and not even_if_empty:
                return
            writes = first or self._next is None
            if first:
                write = self._current = _Write()
            else:
                write = self._next = self._next or _Write()
            write.even_if_empty |= even_if_empty
        if not writes:
            write.done.wait()
        else:
            if not first:
                write.turn.wait()
            self._make(write)
        if self.broken is not None:
            raise self.broken

    def _make(self, write: _Write) -> None:
        try:
            with self._taking:
                updates, self.unwritten = self.unwritten, []
            # Nothing is left when the write before took all updates; that write is done.
            if (updates or write.even_if_empty) and self.broken is None:
                self._checkpoint(updates)
        except BaseException as error:
            if self.broken is None:  # the updates are not on disk, and every thread that waits must get an error
                self.broken = BackgroundThreadError("A write failed.", error if isinstance(error, Exception) else RuntimeError(repr(error)))
            if isinstance(error, Exception):
                raise self.broken from error
            raise
        finally:
            with self._taking:
                self._current, self._next = self._next, None
                if self._current is not None:
                    self._current.turn.open()
            write.done.open()

    def record_later(self, update: Update) -> None:
        with self._taking:
            first = not self.unwritten
            super().record(update)
        if first:
            self.unwritten_since = monotonic()
            self.stragglers.add(self)

    def write_deferred(self) -> None:
        """Waits until the updates are on disk."""
        with contextlib.suppress(BackgroundThreadError):
            self.flush()

    def _checkpoint(self, updates: list[Update]) -> None:
        try:
            answer = self.port.checkpoint(self.token, updates)
            self.applied(answer)
            if self.hooks is None:
                self.learn(answer.operations)
            else:
                self.hooks.learning(answer.operations, self.learn)
        except HoldfastError as error:
            self.broken = self.failed(error)
            raise self.broken from error
        except BackgroundThreadError as over:
            self.broken = over
            raise


class _Strands:
    """Runs the branches of one plan, on free threads and on the thread that waits for them."""

    def __init__(self, state: BlockingState) -> None:
        self._state = state
        self._todo: deque[Spawn] = deque()
        self._done: deque[Done] = deque()
        self._changed = threading.Condition()
        self._elsewhere = 0
        self._fatal: BaseException | None = None

    def spawn(self, spawn: Spawn) -> None:
        self._todo.append(spawn)
        self._lend()

    def _lend(self) -> None:
        """Let another thread run branches, if a thread is free."""
        with self._changed:
            self._elsewhere += 1
        context = contextvars.copy_context()
        if not self._state.lend(lambda: context.run(self._work_elsewhere)):
            with self._changed:
                self._elsewhere -= 1

    def _work_elsewhere(self) -> None:
        try:
            while self._run_one() and not self._state.crowded():
                pass
        finally:
            with self._changed:
                self._elsewhere -= 1
                self._changed.notify_all()

    def _run_one(self) -> bool:
        """Run the next branch that has not begun, until it ends or must wait, and return True. Return False if every branch has begun. If
        there are plugins, the branch runs in a copy of the context variables, so that other branches do not see what plugins set there."""
        return self._work() if self._state.hooks is None else contextvars.copy_context().run(self._work)

    def _work(self) -> bool:
        try:
            spawn = self._todo.popleft()
        except IndexError:
            return False
        try:
            done = Done(spawn.key, drive(spawn.plan, self._state))
        except Exception as error:
            done = Done(spawn.key, None, error)
        except SuspendExecution:
            return True  # blocked: the next invocation replays it
        except BaseException as fatal:
            self._fatal = fatal
            return True
        with self._changed:
            self._done.append(done)
            self._changed.notify_all()
        return True

    def next_done(self) -> Done:
        """Wait until a branch has ended, and return its Done. Raises SuspendExecution if all remaining branches wait for something outside.
        If a branch raised an error that is neither an `Exception` nor a suspension, raises that error."""
        while True:
            if self._fatal is not None:
                raise self._fatal
            if self._done:
                return self._done.popleft()
            if self._run_one():
                if self._todo:  # a thread may have become free meanwhile
                    self._lend()
                continue
            with self._changed:
                if self._done or self._fatal is not None:
                    continue
                if self._elsewhere == 0:
                    raise SuspendExecution("All branches wait for something outside.")
                self._changed.wait()


def drive(plan: Plan[T], state: BlockingState) -> T:
    """Run a plan to its end on this thread, and return its result or raise its error. Raises SuspendExecution if the plan must wait."""
    answer: Any = None
    raised: Exception | None = None
    strands: Strands | None = None
    looked: Operation | None = None
    try:
        while True:
            try:
                effect = plan.send(answer) if raised is None else plan.throw(raised)
            except StopIteration as stop:
                result: T = stop.value
                return result
            answer = raised = None
            if isinstance(effect, Lookup):
                answer = looked = state.lookup(effect.identity)
            elif isinstance(effect, Record):
                if state.hooks is not None:
                    state.hooks.recording(effect.update)
                if effect.wait:
                    state.write(effect.update)
                    if state.hooks is not None:
                        state.hooks.recorded(effect.update)
                else:
                    state.record_later(effect.update)
            elif isinstance(effect, Run):
                try:
                    answer = _run(effect)
                except Exception as error:
                    raised = error
            elif isinstance(effect, Accept):
                answer = accepted_blocking(state, effect)
            elif isinstance(effect, Suspend):
                state.block(effect.operation_id, looked)
                for other in effect.others:
                    state.block(other.id, other)
                raise state.suspension(effect)
            else:
                if strands is None:
                    strands = state.strands()
                if isinstance(effect, NextDone):
                    answer = strands.next_done()
                else:
                    strands.spawn(effect)
    except BaseException as error:
        plan.close()  # its `finally` blocks run now, not at garbage collection
        state.raised(error)
        raise


def _run(run: Run) -> Any:
    """Call user code and return its result. If the code returns a coroutine, the coroutine runs on an event loop of its own."""
    if run.timeout is not None:
        return _run_in_time(run, run.timeout)
    value = run.func(*run.arguments)
    if inspect.iscoroutine(value):
        return asyncio.run(value)
    return value


def _run_in_time(run: Run, seconds: float) -> Any:
    """Call user code on a new thread, and return its result. Raises TimeoutError if the code has not ended after `seconds`; the thread
    cannot be stopped, and continues."""
    context = contextvars.copy_context()
    ended: Future[Any] = Future()

    def work() -> None:
        try:
            ended.set_result(context.run(_run, Run(run.func, run.arguments)))
        except BaseException as error:
            ended.set_exception(error)

    threading.Thread(target=work, name="holdfast-step", daemon=True).start()
    wait([ended], seconds)
    if not ended.done():
        raise too_late(run, cancelled=False)
    return ended.result()

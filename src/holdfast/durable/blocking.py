"""The blocking driver: serves the plans of `def` handlers, each on a thread of a bounded pool.

A suspension is raised through user code and frees the thread. Branches run on other threads of the pool if any is free; the thread
that waits for them runs the rest itself, so that even a pool of one thread gets through nested branches.
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
from holdfast.durable.plan import Done, Look, NextDone, Plan, Record, Run, Spawn, Suspend, too_late
from holdfast.durable.state import ExecutionState
from holdfast.durable.stragglers import Stragglers
from holdfast.model.clock import Clock
from holdfast.model.errors import HoldfastError
from holdfast.model.operations import Operation, Update
from holdfast.model.ports import Invocation, Port

T = TypeVar("T")
Lend = Callable[[Callable[[], None]], bool]
"""Runs a call on a free thread; False when there is none."""


class Strands(Protocol):
    """The branches of one plan."""

    def spawn(self, spawn: Spawn) -> None: ...
    def next_done(self) -> Done: ...


class _Gate:
    """Shut until it is opened, once. A lone step makes two for each of its writes, and an Event would cost it ten times as much."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def open(self) -> None:
        """Let everybody through, from now on."""
        self._lock.release()

    def wait(self) -> None:
        """Wait until it is open; whoever gets through lets the next one in."""
        with self._lock:
            pass


class _Flight:
    """One write for everybody who waits for it. The first of them leads: it writes when the flight before has landed."""

    __slots__ = ("anyway", "landed", "turn")

    def __init__(self) -> None:
        self.turn = _Gate()
        self.landed = _Gate()
        self.anyway = False
        """Somebody wants news, even if there is nothing to write."""


class BlockingState(ExecutionState):
    """An execution's state, shared by the threads of one invocation."""

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
        """Whether somebody waits for a thread, so that a lent one should be given back."""
        self._taking = threading.Lock()
        self._flight: _Flight | None = None
        """The write that is under way."""
        self._next: _Flight | None = None
        """The one after it, which takes along all who come meanwhile."""
        self._blocked: dict[str, int] = {}

    def record(self, update: Update) -> None:
        """Take an update for the next write."""
        with self._taking:
            super().record(update)

    def block(self, operation_id: str, looked: Operation | None) -> None:
        """A strand gives up its thread because of an operation as it looked to it."""
        self._blocked[operation_id] = looked.revision if looked is not None else 0

    @property
    def acted_on(self) -> int:
        """The revision up to which every strand has acted on what there was.

        A blocked strand is not woken, so what another strand's write told of its operation meanwhile is news to the handler.
        """
        news = [self.operations[at].revision for at, then in list(self._blocked.items()) if self.operations[at].revision > then]
        return min(news) - 1 if news else self.revision

    def suspension(self, effect: Suspend) -> SuspendExecution:
        """What takes a blocked strand off its thread."""
        return SuspendExecution(f"Waiting for operation {effect.operation_id}.")

    def strands(self) -> Strands:
        """A place for the branches of one plan."""
        return _Strands(self)

    def write(self, update: Update) -> None:
        """Record an update and wait until it is on disk."""
        self.record(update)
        self.flush()

    def flush(self, *, anyway: bool = False) -> None:
        """Wait until everything recorded so far is on disk."""
        with self._taking:
            if self.broken is not None:
                raise self.broken
            first = self._flight is None
            if first and not self.unwritten and not anyway:
                return
            leads = first or self._next is None
            if first:
                flight = self._flight = _Flight()
            else:
                flight = self._next = self._next or _Flight()
            flight.anyway |= anyway
        if not leads:
            flight.landed.wait()
        else:
            if not first:
                flight.turn.wait()
            self._lead(flight)
        if self.broken is not None:
            raise self.broken

    def _lead(self, flight: _Flight) -> None:
        try:
            with self._taking:
                updates, self.unwritten = self.unwritten, []
            # Nothing is left when the flight before took all of it; it has landed.
            if (updates or flight.anyway) and self.broken is None:
                self._fly(updates)
        except BaseException as error:
            if self.broken is None:  # whatever it was: what rode with it is not on disk, and nobody aboard may think so
                self.broken = BackgroundThreadError("A write failed.", error if isinstance(error, Exception) else RuntimeError(repr(error)))
            if isinstance(error, Exception):
                raise self.broken from error
            raise
        finally:
            with self._taking:
                self._flight, self._next = self._next, None
                if self._flight is not None:
                    self._flight.turn.open()
            flight.landed.open()

    def write_riders(self) -> None:
        """Write what rides, if it still does; a failure is told to the strand that writes next."""
        with contextlib.suppress(BackgroundThreadError):
            self.flush()

    def _fly(self, updates: list[Update]) -> None:
        try:
            self.landed(self.port.checkpoint(self.token, updates))
        except HoldfastError as error:
            self.broken = self.failed(error)
            raise self.broken from error
        except BackgroundThreadError as over:
            self.broken = over
            raise


class _Strands:
    """The branches of one plan."""

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
        """Have another thread work here, if one is free."""
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
        """Run a branch; what plugins set for one is not for the others, nor for us."""
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
            return True  # blocked: it is replayed by the next invocation
        except BaseException as fatal:
            self._fatal = fatal
            return True
        with self._changed:
            self._done.append(done)
            self._changed.notify_all()
        return True

    def next_done(self) -> Done:
        """The next branch that ended; a suspension when all that are left are blocked."""
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
    """Run a plan to its end, or raise a suspension."""
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
            if isinstance(effect, Look):
                answer = looked = state.look(effect.identity)
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
        plan.close()  # what it leaves in the middle is told of now, not when the garbage is collected
        state.raised(error)
        raise


def _run(run: Run) -> Any:
    """User code; a coroutine from a `def` handler gets a loop of its own."""
    if run.timeout is not None:
        return _run_in_time(run, run.timeout)
    value = run.func(*run.arguments)
    if inspect.iscoroutine(value):
        return asyncio.run(value)
    return value


def _run_in_time(run: Run, seconds: float) -> Any:
    """On a thread of its own, so that this one can leave it behind."""
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

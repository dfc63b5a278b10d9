"""An event loop for simulations: several processes take turns on it, time is virtual, and a seed decides whose turn it is.

Inside a process callbacks run in the order of asyncio, because no real loop would run them in another; between processes anything goes.
A process is a context variable: whatever it starts inherits it, so a process that died has no turn any more, in the middle of anything.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import ContextVar, copy_context
from random import Random
from typing import Any, Final, TypeVar
from zlib import crc32

T = TypeVar("T")

_TURN_SECONDS: Final = 0.0002
"""A turn takes up to twice as long in virtual time; now and then much longer."""


class Died(BaseException):
    """The process that asked is dead. Raised through its code, which has no effect any more."""


class Process:
    """One process of a simulation."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.alive = True
        self.paused_until = 0.0
        """Until then it gets no turn: stopped by a signal, or its machine is busy."""
        self.turns_left: int | None = None
        """How many turns it has before it dies, if that is decided."""
        self.on_death: Callable[[], None] = lambda: None

    def die(self) -> None:
        """Now, wherever it is."""
        if self.alive:
            self.alive = False
            self.on_death()


_OUTSIDE: Final = Process("outside")
_process: ContextVar[Process] = ContextVar("holdfast_simulated_process", default=_OUTSIDE)


def current_process() -> Process:
    """Whose turn it is."""
    return _process.get()


class SimulatedLoop(asyncio.BaseEventLoop):
    """A loop without sockets, threads and real time."""

    def __init__(self, chance: Random) -> None:
        super().__init__()
        self._chance = chance
        self._now = 0.0
        self._queues: dict[Process, deque[asyncio.Handle]] = {}
        self.turns = 0
        self.picks = 0
        """A fingerprint of who had which turn."""
        self._tasks: list[asyncio.Task[Any]] = []
        self.set_task_factory(self._made)

    # --- what asyncio asks of a loop

    def time(self) -> float:
        """Virtual seconds."""
        return self._now

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:  # type: ignore[override]
        """There are no threads: the call is made at once."""
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future

    def _write_to_self(self) -> None:
        """Do nothing: the simulation has no selector."""

    def _process_events(self, event_list: object) -> None:
        """There are none."""

    def _made(self, loop: asyncio.AbstractEventLoop, coro: Any, **more: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=loop, **more)
        self._tasks.append(task)  # what a dead process left must not be collected: that would run its `finally`s
        return task

    def _run_once(self) -> None:
        """One turn of one process."""
        ready: deque[asyncio.Handle] = self._ready  # type: ignore[attr-defined]
        while True:
            self._take_due()
            while ready:
                handle = ready.popleft()
                process = _owner(handle)
                if process.alive and not handle._cancelled:
                    self._queues.setdefault(process, deque()).append(handle)
            runnable = [process for process, queue in self._queues.items() if queue and process.paused_until <= self._now]
            if runnable:
                break
            self._pass_time()
        self._turn(runnable[self._chance.randrange(len(runnable))] if len(runnable) > 1 else runnable[0])

    def _turn(self, process: Process) -> None:
        if process.turns_left is not None:
            process.turns_left -= 1
            if process.turns_left < 0:
                process.die()
        if not process.alive:
            self._queues.pop(process, None)
            return
        handle = self._queues[process].popleft()
        self.turns += 1
        self.picks = crc32(process.name.encode(), self.picks)
        spent = self._chance.random()
        self._now += _TURN_SECONDS * 2 * spent if spent < 0.99 else _TURN_SECONDS * 100
        if not handle._cancelled:
            handle._run()

    def _take_due(self) -> None:
        scheduled: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]
        while scheduled and (scheduled[0]._when <= self._now or _is_off(scheduled[0])):  # type: ignore[attr-defined]
            handle = heapq.heappop(scheduled)
            handle._scheduled = False  # type: ignore[attr-defined]
            if not _is_off(handle):
                self._ready.append(handle)  # type: ignore[attr-defined]

    def _pass_time(self) -> None:
        """No process has work now: move the time to the next moment when one has."""
        scheduled: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]
        times = [process.paused_until for process, queue in self._queues.items() if queue and process.alive]
        if scheduled:
            times.append(scheduled[0]._when)  # type: ignore[attr-defined]
        if not times:
            raise RuntimeError("all processes wait, and nothing will ever happen")
        self._now = max(self._now, min(times))

    # --- for the simulation

    def spawn(self, process: Process, coro: Coroutine[Any, Any, None]) -> None:
        """Begin a coroutine inside a process. No caller can wait for it, because processes die."""
        context = copy_context()
        context.run(_process.set, process)
        self.create_task(coro, context=context).set_name(f"{process.name} call")

    def bury(self) -> None:
        """Close what is left in the middle, when nothing of it can have an effect any more."""
        for task in self._tasks:
            if not task.done():
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                with suppress(BaseException):  # errors of a dead process are ignored
                    task.get_coro().close()
        self._tasks.clear()


def _owner(handle: asyncio.Handle) -> Process:
    found: Process = handle._context.get(_process, _OUTSIDE)  # type: ignore[attr-defined]
    return found


def _is_off(handle: asyncio.TimerHandle) -> bool:
    return bool(handle._cancelled) or not _owner(handle).alive

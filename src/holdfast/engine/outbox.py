"""Delivering signals: each subscriber given to this engine hears of every change of a status, in order, at least once.

One task for each subscriber. The task takes the delivery, which one runner of the store has at a time; reads the signals after the
subscriber's cursor; calls the subscriber's function for one signal after the other; and moves the cursor past the signals that the function
took. If the function does not take a signal, it is called again until it does: no signal is skipped. The cursor is moved at most ten times
a second, so
a crash repeats what was delivered since, and nothing else.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import random
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType
from typing import Final, TypeVar

from holdfast.model.clock import Clock, monotonic
from holdfast.model.errors import DiskFailed, HoldfastError
from holdfast.model.life import backoff_ms
from holdfast.model.signals import StatusSignal, Subscriber
from holdfast.store.seam import OutboxStore

log = logging.getLogger("holdfast.engine")
T = TypeVar("T")

NO_SUBSCRIBERS: Final[Mapping[str, Subscriber]] = MappingProxyType({})
_PAGE: Final = 100
_KEEP_SECONDS: Final = 0.1
"""The cursor is moved at most once in this many seconds. For this time a runner also assumes that the delivery is still its own, without
asking the store."""
_TAKE_SECONDS: Final = 1.0
"""How often to look whether the runner that delivers is gone."""
_TROUBLE_SECONDS: Final = 1.0
_PATIENCE_SECONDS: Final = 1.0
"""How long closing waits for functions that have a signal in hand. A function that takes longer gets the signal again."""


class Outbox:
    """The subscribers of one engine."""

    def __init__(
        self, store: OutboxStore, subscribers: Mapping[str, Subscriber], *, clock: Clock, chance: random.Random, runner: str
    ) -> None:
        self._store = store
        self._threads = ThreadPoolExecutor(max(len(subscribers), 1), thread_name_prefix="holdfast-outbox")
        self._deliveries = [
            _Delivery(name, receive, store, self._threads, clock=clock, chance=chance, runner=runner)
            for name, receive in subscribers.items()
        ]
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def idle(self) -> bool:
        """Whether nothing is being delivered, and no signal is known that waits for delivery."""
        return all(delivery.idle for delivery in self._deliveries)

    @property
    def next_at(self) -> int | None:
        """When the next try of a signal is due; None if no signal waits for a next try."""
        return min((d.retry_at for d in self._deliveries if d.retry_at is not None), default=None)

    def begin(self, expect: Callable[[int], None]) -> None:
        """Register the subscribers and begin to deliver; `expect` hears of each time at which `look` must be called."""
        for delivery in self._deliveries:
            self._store.subscribe(delivery.name)
        self._tasks = [asyncio.create_task(d.run(expect), name=f"holdfast-outbox-{d.name}") for d in self._deliveries]

    def wake(self) -> None:
        """Report that there are new signals."""
        for delivery in self._deliveries:
            delivery.wake()

    def news(self) -> None:
        """Report that another process wrote: it may have written signals, or given up the delivery."""
        for delivery in self._deliveries:
            delivery.news()

    def look(self, now: int) -> None:
        """Start the tries that are due."""
        for delivery in self._deliveries:
            if delivery.retry_at is not None and delivery.retry_at <= now:
                delivery.retry()

    async def end(self) -> None:
        """Stop delivering. Other runners can deliver as soon as this runner has left the store."""
        for delivery in self._deliveries:
            delivery.close()
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=_PATIENCE_SECONDS)
            for task in late:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
        self._threads.shutdown(wait=False, cancel_futures=True)


class _Lost(Exception):
    """Another runner delivers now."""


class _Delivery:
    """The delivery of signals to one subscriber."""

    def __init__(
        self,
        name: str,
        receive: Subscriber,
        store: OutboxStore,
        threads: ThreadPoolExecutor,
        *,
        clock: Clock,
        chance: random.Random,
        runner: str,
    ) -> None:
        self.name = name
        self._receive = receive
        self._is_async = inspect.iscoroutinefunction(receive) or inspect.iscoroutinefunction(type(receive).__call__)
        self._store = store
        self._threads = threads
        self._clock = clock
        self._chance = chance
        self._runner = runner
        self._wake = asyncio.Event()
        self._again = asyncio.Event()
        self._rests_until: asyncio.Event | None = None
        self._holding = False
        self._closing = False
        self._done = self._kept = 0
        self._kept_at = 0.0
        self.retry_at: int | None = None

    # --- called by the engine

    @property
    def idle(self) -> bool:
        """Whether the task rests and has nothing to do."""
        return self._rests_until is not None and not self._rests_until.is_set()

    def wake(self) -> None:
        """Report new signals. Only the runner that delivers acts on this."""
        if self._holding:
            self._wake.set()

    def news(self) -> None:
        """Report that there may be new signals, or that the delivery may be free."""
        self._wake.set()

    def retry(self) -> None:
        """The time of the next try has come."""
        self._again.set()

    def close(self) -> None:
        """Finish the signal in hand and stop."""
        self._closing = True
        self._wake.set()
        self._again.set()

    # --- the task

    async def run(self, expect: Callable[[int], None]) -> None:
        """Deliver signals whenever this runner has the delivery."""
        try:
            while not self._closing:
                try:
                    await self._deliver(expect)
                except _Lost:
                    log.info("%s: another runner delivers to %s now", self._runner, self.name)
                except DiskFailed:  # health.py logs it
                    await self._rest(self._wake, _TROUBLE_SECONDS)
                except Exception as trouble:  # the signals are still there
                    log.warning("delivering to %s: %s", self.name, trouble, exc_info=not isinstance(trouble, HoldfastError))
                    await self._rest(self._wake, _TROUBLE_SECONDS)
                finally:
                    self._holding = False
        finally:
            self._finish()

    async def _deliver(self, expect: Callable[[int], None]) -> None:
        """Take the delivery, and deliver until it is lost. Returns if another runner has it."""
        self._wake.clear()
        cursor = await self._in_thread(lambda: self._store.take_delivery(self.name, self._runner))
        if cursor is None:
            await self._rest(self._wake, _TAKE_SECONDS)
            return
        self._holding = True
        self._kept, self._done = (
            cursor,
            max(cursor, self._done),
        )  # write the cursor first, so that after a store failure no taken signal is repeated
        while not self._closing:
            self._wake.clear()
            page = self._store.signals(self.name, self._runner, self._done, _PAGE)
            if page is None:
                raise _Lost
            for signal in page:
                if not await self._hand_over(signal, expect):
                    return
                if monotonic() - self._kept_at >= _KEEP_SECONDS:
                    await self._keep()
            if not page:
                await self._catch_up()

    async def _catch_up(self) -> None:
        """Rest until there are more signals; meanwhile move the cursor when that is due."""
        if self._done == self._kept:
            await self._rest(self._wake)
            return
        await self._rest(self._wake, self._kept_at + _KEEP_SECONDS - monotonic())
        if not self._wake.is_set():
            await self._keep()

    async def _hand_over(self, signal: StatusSignal, expect: Callable[[int], None]) -> bool:
        """Call the subscriber's function until it takes the signal; False when we close before that."""
        failures = 0
        while not self._closing:
            error = await self._call(signal)
            if error is None:
                self._done = signal.number
                return True
            failures += 1
            known = isinstance(error, HoldfastError)  # an error of Holdfast's explains itself; any other error is logged with its traceback
            told = error if known else repr(error)
            log.warning(
                "%s did not take signal %s; it is tried again: %s", self.name, signal.number, told, exc_info=None if known else error
            )
            await self._keep()  # so the signals before this one are not repeated, however long this one takes
            self._again.clear()
            self.retry_at = self._clock.now() + backoff_ms(failures, self._chance.random())
            expect(self.retry_at)
            await self._rest(self._again)
            self.retry_at = None
            await self._keep()  # this write also asks whether the delivery is still this runner's
        return False

    async def _call(self, signal: StatusSignal) -> BaseException | None:
        """Call the subscriber's function. Returns its error; None if the function took the signal."""
        try:
            answer = self._receive(signal) if self._is_async else await self._in_thread(lambda: self._receive(signal))
            if inspect.isawaitable(answer):
                await answer
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            return error  # what the function waited for was cancelled, not this task
        except (Exception, SystemExit) as error:  # a function that wants to end the program ends its own call
            return error
        return None

    async def _keep(self) -> None:
        """Move the cursor behind what was taken."""
        done = self._done
        if not await self._in_thread(lambda: self._store.delivered(self.name, self._runner, done)):
            raise _Lost
        self._kept, self._kept_at = done, monotonic()

    def _finish(self) -> None:
        """Write the final position of the cursor. This runs on the loop, because a function that does not return may hold the thread."""
        if self._done == self._kept:
            return
        try:
            self._store.delivered(self.name, self._runner, self._done)
        except HoldfastError as trouble:
            log.warning("the next runner that delivers repeats the last signals of %s: %s", self.name, trouble)

    async def _rest(self, until: asyncio.Event, seconds: float | None = None) -> None:
        self._rests_until = until
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await until.wait()
        finally:
            self._rests_until = None

    async def _in_thread(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)

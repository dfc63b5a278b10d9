"""Delivers signals: each subscriber of this engine gets every change of a status and every quarantine, in order, at least once.

There is one task for each subscriber. The task takes the delivery, which one runner of the store has at a time; reads the signals after the
subscriber's cursor; calls the subscriber's function with one signal after the other; and moves the cursor past the signals with which the
function returned. If the function raises, it is called again with the same signal until it returns: no signal is skipped. The cursor is
usually moved at most ten times a second, so after a crash the signals since its last move are delivered again.
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
"""While signals are delivered without errors, the cursor is moved at most once in this many seconds. For this long a runner also assumes,
without asking the store, that it is still the one that delivers."""
_TAKE_SECONDS: Final = 1.0
"""While another runner delivers, this runner tries to take over the delivery at least once in this many seconds."""
_TROUBLE_SECONDS: Final = 1.0
_PATIENCE_SECONDS: Final = 1.0
"""When the engine closes, it waits at most this many seconds for functions that are working on a signal. A function that takes longer gets
the same signal again later."""


class Outbox:
    """Delivers signals to the subscribers of one engine."""

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
        """Whether no signal is being delivered, and this engine knows of none that it could deliver now. A signal that waits for its next
        try does not count."""
        return all(delivery.idle for delivery in self._deliveries)

    @property
    def next_at(self) -> int | None:
        """The time of the next try, among all signals that failed and are tried again. None if no signal waits for another try."""
        return min((d.retry_at for d in self._deliveries if d.retry_at is not None), default=None)

    def begin(self, expect: Callable[[int], None]) -> None:
        """Register the subscribers and begin to deliver. Whenever a signal must be tried again later, `expect` is called with that time;
        the caller must call `retry_due` at that time."""
        for delivery in self._deliveries:
            self._store.subscribe(delivery.name)
        self._tasks = [asyncio.create_task(d.run(expect), name=f"holdfast-outbox-{d.name}") for d in self._deliveries]

    def wake(self) -> None:
        """Note that this engine has written new signals. The tasks that wait for signals read them."""
        for delivery in self._deliveries:
            delivery.wake()

    def news(self) -> None:
        """Note that another process wrote. It may have written signals, or a runner may have given up the delivery to a subscriber."""
        for delivery in self._deliveries:
            delivery.news()

    def retry_due(self, now: int) -> None:
        """Let the tasks try those signals again that failed before and whose next try is due."""
        for delivery in self._deliveries:
            if delivery.retry_at is not None and delivery.retry_at <= now:
                delivery.retry()

    async def end(self) -> None:
        """Stop delivering. Other runners can deliver after this runner has left the store."""
        for delivery in self._deliveries:
            delivery.close()
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=_PATIENCE_SECONDS)
            for task in late:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
        self._threads.shutdown(wait=False, cancel_futures=True)


class _Lost(Exception):
    """Raised in the task of a subscriber when this runner does not deliver to it any more: another runner does, or the subscriber was
    removed."""


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
        """Whether the task of this subscriber only waits: for signals, for its turn to deliver, or for the next try of a signal."""
        return self._rests_until is not None and not self._rests_until.is_set()

    def wake(self) -> None:
        """Note that there are new signals. Has no effect while another runner delivers to this subscriber."""
        if self._holding:
            self._wake.set()

    def news(self) -> None:
        """Note that another process wrote: there may be new signals, or the runner that delivered to this subscriber may have given that
        up."""
        self._wake.set()

    def retry(self) -> None:
        """Let the task call the subscriber's function now, without waiting longer, with the signal for which that function raised an error.
        Has no effect if no signal waits for another try."""
        self._again.set()

    def close(self) -> None:
        """Let the task end after the signal that it is delivering now."""
        self._closing = True
        self._wake.set()
        self._again.set()

    # --- the task

    async def run(self, expect: Callable[[int], None]) -> None:
        """Until `close` is called: deliver signals while this runner is the one that delivers, and otherwise try to become that runner."""
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
        """Try to become the runner that delivers to this subscriber, and then deliver until the engine closes. If it cannot, because
        another runner delivers or the subscriber was removed, wait for at most a second and return. Raises _Lost if this runner loses the
        delivery later."""
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
        """Wait until there may be more signals. If the cursor must still be moved, wait at most until that is due; if no news came
        meanwhile, move it."""
        if self._done == self._kept:
            await self._rest(self._wake)
            return
        await self._rest(self._wake, self._kept_at + _KEEP_SECONDS - monotonic())
        if not self._wake.is_set():
            await self._keep()

    async def _hand_over(self, signal: StatusSignal, expect: Callable[[int], None]) -> bool:
        """Call the subscriber's function with a signal, again after each error, until it returns. Returns False if the engine closes before
        that. Raises _Lost if this runner loses the delivery between two calls."""
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
        """Call the subscriber's function. Returns the error that it raised; None if it returned."""
        try:
            answer = self._receive(signal) if self._is_async else await self._in_thread(lambda: self._receive(signal))
            if inspect.isawaitable(answer):
                await answer
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            return error  # what the function waited for was cancelled, not this task
        except (Exception, SystemExit) as error:  # if the function raises SystemExit, only its own call ends
            return error
        return None

    async def _keep(self) -> None:
        """Move the cursor to the last signal with which the function returned. Raises _Lost if this runner does not have the delivery any
        more."""
        done = self._done
        if not await self._in_thread(lambda: self._store.delivered(self.name, self._runner, done)):
            raise _Lost
        self._kept, self._kept_at = done, monotonic()

    def _finish(self) -> None:
        """Write the last position of the cursor when the task ends. This runs on the loop and not in the thread, because a function that
        does not return may occupy the thread."""
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

"""Group commit: many wait, one writes, and everything that waits goes into one transaction.

There is one turn. Whoever takes it commits all that is queued, answers everybody, and passes the turn on:
- a thread that needs an answer takes the turn itself if it is free (no thread hop for a lone writer), else it waits;
- coroutines queue during a tick of their loop and the loop commits at the end of it, because by then all of them wait anyway; a few
  wait for the next tick, as long as each brings more; a lone one commits on the spot, as long as the loop gets its turn every few
  milliseconds;
- while the disk is slow and others could still run, a writer thread takes the turn instead, so that the loop goes on.

What the disk does not take goes back to the head of the queue and is tried again (health.py); only those who asked for something new
are refused.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from holdfast.engine.health import Health
from holdfast.model.clock import Clock, idle_seconds, monotonic
from holdfast.model.errors import DiskFailed, EngineClosed, HoldfastError, StoreBroken
from holdfast.model.execution import Execution
from holdfast.model.outside import Fire
from holdfast.model.verbs import Answer, Checkpoint, Claim, Settle, Write
from holdfast.store.isolating import committed_apart
from holdfast.store.seam import Committed, Store

log = logging.getLogger("holdfast.engine")

Deliver = Callable[[Answer | HoldfastError], None]
Moved = Callable[[Sequence[Execution]], None]
"""Hears, on the engine's loop, of executions that a write changed beside its own."""
Saw = Callable[[Sequence[Write], Committed, int], None]
"""Hears, on the engine's loop, of everything that was written, and when."""

_MAX_ENTRIES: Final = 512
_MAX_BYTES: Final = 8 * 1024 * 1024
_SLOW_SECONDS: Final = 0.01
_LOOP_SECONDS: Final = 0.003
"""How long a lone coroutine may keep the loop to itself."""
_SMALL_GROUP: Final = 16
"""Fewer than these wait for the loop's next look, as long as each look brings more: what comes over connections comes one by one, and a
commit costs one as much as all of them."""
_KEPT: Final = (Checkpoint, Settle, Claim, Fire)
"""What the engine's own work has to write: it waits for the disk. Everything else was asked for by somebody who can ask again."""


class _Entry(NamedTuple):
    """A write, where its answer goes, and the thread that waits for it, if one does."""

    write: Write
    deliver: Deliver
    thread: _Waiter | None


class _Waiter:
    """A thread that waits for its answer, or for the turn."""

    __slots__ = ("_lock", "answer")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()
        self.answer: Answer | HoldfastError | None = None

    def deliver(self, answer: Answer | HoldfastError) -> None:
        self.answer = answer
        self.wake()

    def wake(self) -> None:
        with contextlib.suppress(RuntimeError):  # woken twice
            self._lock.release()

    def wait(self) -> None:
        self._lock.acquire()


class Writer:
    """The one way to write."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        live: Callable[[], int],
        moved: Moved,
        signalled: Callable[[], None],
        health: Health,
        saw: Saw | None = None,
    ) -> None:
        self._saw = saw
        self._store = store
        self._clock = clock
        self._loop = loop
        self._live = live
        self._moved = moved
        self._signalled = signalled
        self._health = health
        self._queue: deque[_Entry] = deque()
        self._turn = threading.Lock()
        self._flush_planned = False
        self._flushed_at = 0.0
        self._gathered = 0
        self._disk_seconds = 0.0
        self._closed = False
        self._work = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def idle(self) -> bool:
        """Nothing waits and nothing is being written."""
        return not self._queue and not self._turn.locked()

    def submit(self, write: Write, deliver: Deliver) -> None:
        """Queue a write from the engine's loop; `deliver` gets the answer there."""
        if self._closed:
            raise EngineClosed
        trouble = self._health.trouble  # once: the watch may end it meanwhile
        if trouble is not None and not isinstance(write, _KEPT):
            deliver(trouble)
            return
        self._queue.append(_Entry(write, deliver, None))
        self._plan_flush()

    def write_now(self, write: Write) -> Answer | HoldfastError | None:
        """Commit on the spot for a coroutine that nobody else would run beside; None when it has to queue."""
        if self._queue or self._closed or self._live() > 1 or monotonic() - self._flushed_at > _LOOP_SECONDS:
            return None
        if self._disk_seconds > _SLOW_SECONDS or self._health.trouble is not None or not self._turn.acquire(blocking=False):
            return None
        try:
            (answer,) = self._commit([_Entry(write, _nowhere, None)])
        finally:
            self._turn.release()
        self._pass_on(on_loop=True)
        return None if isinstance(answer, DiskFailed) else answer

    def call(self, write: Write) -> Answer:
        """Write from any other thread, and wait."""
        if self._closed:
            raise EngineClosed
        waiter = _Waiter()
        self._queue.append(_Entry(write, waiter.deliver, waiter))
        while waiter.answer is None:
            if self._health.trouble is None and self._turn.acquire(blocking=False):
                self._commit_and_pass_on(on_loop=False)
            else:
                waiter.wait()
        if isinstance(waiter.answer, HoldfastError):
            raise waiter.answer
        return waiter.answer

    def retry(self) -> None:
        """Once more what was kept, from the thread that calls: if the disk takes it, everything goes on."""
        with self._turn:
            batch = self._take()
            if batch:
                self._write_or_keep(batch, on_loop=False)
            else:
                self._health.rose()
        self._pass_on(on_loop=False)

    async def drain(self) -> None:
        """Wait until everything queued is written and everybody has heard of it. What the disk does not take is given up."""
        if self._health.trouble is not None:
            self.retry()
        while not self.idle:
            if self._health.trouble is None:
                self._flush()
            elif batch := self._take():
                self._answer(batch, [EngineClosed("The engine was closed while its store failed.")] * len(batch), on_loop=True)
            await asyncio.sleep(0)
        await asyncio.sleep(0)  # answers from another thread are on their way

    def close(self) -> None:
        """Take no more."""
        self._closed = True
        if self._thread is not None:
            self._work.set()
            self._thread.join()

    def _plan_flush(self) -> None:
        if not self._flush_planned:
            self._flush_planned = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_planned = False
        self._flushed_at = monotonic()
        if not self._queue or self._health.trouble is not None:
            return
        if self._gathered < len(self._queue) < min(self._live(), _SMALL_GROUP):
            self._gathered = len(self._queue)
            self._plan_flush()
            return
        self._gathered = 0
        if self._disk_seconds > _SLOW_SECONDS and len(self._queue) < self._live():
            self._hand_over()
        elif self._turn.acquire(blocking=False):
            self._commit_and_pass_on(on_loop=True)
        # Else somebody has the turn, and will look at the queue after it.

    def _commit_and_pass_on(self, *, on_loop: bool) -> None:
        try:
            batch = self._take()
            if batch:
                self._write_or_keep(batch, on_loop=on_loop)
        finally:
            self._turn.release()
            self._pass_on(on_loop=on_loop)

    def _write_or_keep(self, batch: list[_Entry], *, on_loop: bool) -> None:
        answers = self._commit(batch)
        if isinstance(answers[-1], DiskFailed):  # of those that are answered so nothing is written, and they are the end of the batch
            kept: list[_Entry] = []
            told: list[tuple[_Entry, Answer | HoldfastError]] = []
            for entry, answer in zip(batch, answers, strict=True):
                if isinstance(answer, DiskFailed) and isinstance(entry.write, _KEPT):
                    kept.append(entry)
                else:
                    told.append((entry, answer))
            self._queue.extendleft(reversed(kept))
            batch, answers = [entry for entry, _ in told], [answer for _, answer in told]
        self._answer(batch, answers, on_loop=on_loop)

    def _take(self) -> list[_Entry]:
        batch: list[_Entry] = []
        size = 0
        queue = self._queue
        while queue and len(batch) < _MAX_ENTRIES and size < _MAX_BYTES:
            entry = queue.popleft()
            batch.append(entry)
            if isinstance(entry.write, Checkpoint):
                size += _payload_bytes(entry.write)
        return batch

    def _commit(self, batch: list[_Entry]) -> Sequence[Answer | HoldfastError]:
        began, now = idle_seconds(), self._clock.now()
        try:
            done = committed_apart([entry.write for entry in batch], lambda part: self._store.commit(part, now), _shared)
            answers = done.answers
            if len(answers) != len(batch):
                raise StoreBroken(f"The store answered {len(answers)} of {len(batch)} writes.")
            self._tell(done)
            if self._saw is not None:
                self._loop.call_soon_threadsafe(self._saw, [entry.write for entry in batch], done, now)
        except HoldfastError as error:
            answers = [error] * len(batch)
        except Exception as error:  # a store that answers in a shape of its own must not leave a caller waiting for ever
            log.exception("the store's answer could not be read")
            answers = [StoreBroken(f"The store's answer could not be read: {type(error).__name__}.")] * len(batch)
        except BaseException as ended:  # the program is interrupted, or native code panics: those who wait hear of it
            self._answer(batch, [StoreBroken(f"A write was broken off: {type(ended).__name__}.")] * len(batch), on_loop=False)
            raise
        trouble = answers[-1]
        if isinstance(trouble, DiskFailed):
            self._health.fell(trouble)
        # Only waiting for the disk is worth another thread: two that compute would take turns anyway. The estimate rises slowly and
        # falls at once, so that a busy neighbour on the machine does not look like a slow disk.
        self._disk_seconds = min(idle_seconds() - began, self._disk_seconds * 1.25 + 0.0001)
        return answers

    def _tell(self, done: Committed) -> None:
        """What is written is written, and is answered so, whether or not the rest of the engine still wants to hear of it."""
        try:
            if done.followed:
                self._loop.call_soon_threadsafe(self._moved, done.followed)
            if done.signalled:
                self._loop.call_soon_threadsafe(self._signalled)
            if self._health.trouble is not None and not isinstance(done.answers[-1], DiskFailed):
                self._health.rose()
        except RuntimeError as closed:  # the loop is gone
            log.warning("the engine cannot be told what a write changed: %s", closed)

    def _answer(self, batch: list[_Entry], answers: Sequence[Answer | HoldfastError], *, on_loop: bool) -> None:
        later: list[tuple[Deliver, Answer | HoldfastError]] = []
        for entry, answer in zip(batch, answers, strict=True):
            if on_loop or entry.thread is not None:
                _deliver(entry.deliver, answer)
            else:
                later.append((entry.deliver, answer))
        if later:
            self._loop.call_soon_threadsafe(_deliver_all, later)

    def _pass_on(self, *, on_loop: bool) -> None:
        try:
            head = self._queue[0]
        except IndexError:
            return
        if head.thread is not None:
            head.thread.wake()
        elif on_loop:
            self._plan_flush()
        else:
            self._loop.call_soon_threadsafe(self._flush)

    def _hand_over(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._write_in_thread, name="holdfast-writer", daemon=True)
            self._thread.start()
        self._work.set()

    def _write_in_thread(self) -> None:
        while True:
            self._work.wait()
            self._work.clear()
            if self._closed:
                return
            self._turn.acquire()
            self._commit_and_pass_on(on_loop=False)


def _deliver_all(answers: list[tuple[Deliver, Answer | HoldfastError]]) -> None:
    for deliver, answer in answers:
        _deliver(deliver, answer)


def _payload_bytes(checkpoint: Checkpoint) -> int:
    """About how large it is; nothing for one that cannot be looked at, which the store refuses."""
    try:
        return sum([len(update.payload) for update in checkpoint.updates if update.payload is not None])
    except Exception:
        return 0


def _shared(error: Exception) -> HoldfastError | None:
    """An error of ours that a store raises concerns all, says the seam. Any other is a bug somewhere, which one entry may have met."""
    return error if isinstance(error, HoldfastError) else None


def _nowhere(answer: Answer | HoldfastError) -> None:
    """The one who wrote has the answer already."""


def _deliver(deliver: Deliver, answer: Answer | HoldfastError) -> None:
    try:
        deliver(answer)
    except Exception:  # what one does with its answer must not keep the others from theirs
        log.exception("an answer could not be taken")

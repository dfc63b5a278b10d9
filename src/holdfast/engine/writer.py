"""Group commit: many callers wait, one of them writes, and all waiting writes go into one transaction.

Only the thread that has the turn may write, and there is one turn. That thread commits what is queued (at most 512 writes), answers each
caller, and passes the turn on:
- A thread that needs an answer takes the turn itself if the turn is free, so a lone writer needs no other thread. Else it waits.
- Coroutines queue their writes during a tick of the loop. The loop takes the turn at the end of the tick, when all of them wait. If only a
  few writes are queued, the loop waits for the next tick, as long as each tick brings more. A lone coroutine commits at once, as long as
  the loop can do other work every few milliseconds.
- While the disk is slow and other coroutines could still run, a writer thread takes the turn, so that the loop is not blocked.

If the disk refuses a write of the engine's own work, the write goes back to the head of the queue and is tried again (health.py). Callers
who ask for something new get the error.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence, Sized
from functools import partial
from typing import Final, Protocol, cast

from holdfast.engine.entries import (
    Admission,
    Bulk,
    Deliver,
    DeliverLot,
    Entry,
    EntryAnswer,
    Lot,
    LotAnswer,
    Waiter,
    payload_bytes,
)
from holdfast.engine.health import Health
from holdfast.model.clock import Clock, idle_seconds, monotonic
from holdfast.model.errors import DiskFailed, EngineClosed, HoldfastError, StoreBroken
from holdfast.model.execution import Change
from holdfast.model.outside import Fire
from holdfast.model.verbs import Answer, Checkpoint, Claim, Settle, Write
from holdfast.store.isolation import committed_apart
from holdfast.store.seam import CommitStore, Committed, QueueStore

log = logging.getLogger("holdfast.engine")

Followed = Callable[[Sequence[Change]], None]
"""Called on the engine's loop with the changes that a commit made to other executions than those of its writes. It is called after the
answers of that commit, and before anything that the answers put on the loop."""
SawCommit = Callable[[Sequence[Write], Committed, int], None]
"""Called on the engine's loop after a commit, with the writes of the commit, the result of the commit, and its time (`now`)."""

_MAX_ENTRIES: Final = 512
_MAX_BYTES: Final = 8 * 1024 * 1024
_SLOW_SECONDS: Final = 0.01
_LOOP_SECONDS: Final = 0.003
"""A lone coroutine may commit without waiting (`write_now`) only if the loop has run `_flush` within the last so many seconds."""
_SMALL_GROUP: Final = 16
"""If fewer writes than this are queued, and more invocations may write, the queued writes wait for the loop's next tick, as long as each
tick brings more. Requests over connections arrive one by one, and a commit of one write costs as much as a commit of many."""
_KEPT: Final = (Checkpoint, Settle, Claim, Fire)
"""These are writes of the engine's own work. If the disk fails, they wait until it works again. Any other write gets the error, and its
caller can try again."""
_LOTS: Final = (Admission, Bulk)


class WriterStore(CommitStore, QueueStore, Protocol):
    """The part of a store that writes executions."""


class Writer:
    """Writes to the store for one engine. All changes that this engine makes to executions go through it."""

    def __init__(
        self,
        store: WriterStore,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        live: Sized,
        health: Health,
    ) -> None:
        self._store = store
        self._clock = clock
        self._loop = loop
        self._live = live
        """Its length is the number of invocations that run here and may write at any moment."""
        self._health = health
        self._context = contextvars.copy_context()
        """Answers are given in this context. An answer may begin an invocation, which must not see the context variables of another
        handler."""
        self._followed: Followed | None = None
        self._signalled: Callable[[], None] | None = None
        self._saw: SawCommit | None = None
        self.open = True
        """Whether the writer takes new requests of callers. When the engine closes, this becomes False. Checkpoints of live invocations,
        and the writes that give their executions back, are then still taken."""
        self._queue: deque[Entry] = deque()
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
        """Whether nothing waits and nothing is being written."""
        return not self._queue and not self._turn.locked()

    def tell(self, followed: Followed, signalled: Callable[[], None], saw: SawCommit | None = None) -> None:
        """Set the functions that are called after a commit: `followed` with its changes to other executions, `signalled` if it added
        signals for subscribers, and `saw` with everything that it wrote."""
        self._followed, self._signalled, self._saw = followed, signalled, saw

    async def write(self, write: Write, on_answer: Deliver | None = None) -> Answer:
        """Write from the engine's loop. Returns the answer when the write is on disk. Raises the error if it is refused or fails.
        `on_answer` is called with the answer or the error, even if the caller is cancelled meanwhile. If the engine is closed or closes,
        this raises EngineClosed at once, and `on_answer` is not called."""
        if not self.open:
            raise EngineClosed
        future: asyncio.Future[Answer] = self._loop.create_future()
        self._enqueue(Entry(write, on_answer, None, future))
        return await future

    async def write_lot(self, lot: Lot, on_answer: DeliverLot) -> None:
        """Write a lot: an admission, or many starts. Only `on_answer` gets the answer. Raises the error if the lot fails as a whole."""
        if not self.open:
            raise EngineClosed
        future: asyncio.Future[LotAnswer] = self._loop.create_future()
        self._enqueue(Entry(lot, on_answer, None, future))
        await future

    def submit(self, write: Write, on_answer: Deliver) -> None:
        """Queue a write from the loop, and do not wait for it. `on_answer` is called on the loop with the answer or the error. While the
        disk fails, only a Checkpoint, Settle, Claim or Fire waits; others get the error. Raises EngineClosed if the writer is closed."""
        self._enqueue(Entry(write, on_answer))

    def _enqueue(self, entry: Entry) -> None:
        if self._closed:
            raise EngineClosed
        trouble = self._health.trouble  # read once: the poller's thread may end the pause meanwhile
        if trouble is not None and not isinstance(entry.write, _KEPT):
            _deliver(entry, trouble)
            return
        self._queue.append(entry)
        if not self._flush_planned:
            self._plan_flush()

    def write_now(self, write: Write) -> Answer | HoldfastError | None:
        """Commit a write at once, if no other coroutine could use the time. Returns the answer, or the error if the write was refused or
        failed. Returns None if this did not try, or if the disk failed; the caller must then submit the write."""
        if self._queue or self._closed or len(self._live) > 1 or monotonic() - self._flushed_at > _LOOP_SECONDS:
            return None
        if self._disk_seconds > _SLOW_SECONDS or self._health.trouble is not None or not self._turn.acquire(blocking=False):
            return None
        try:
            (answer,), followed = self._commit([Entry(write, None)], on_loop=True)
            self._follow(followed)
        finally:
            self._turn.release()
        self._pass_on(on_loop=True)
        return None if isinstance(answer, DiskFailed | LotAnswer) else answer

    def call(self, write: Write) -> Answer:
        """Write from another thread than the loop's. Blocks until the write is on disk, also through a pause, and returns the answer.
        Raises the error if the write is refused or fails. Raises EngineClosed if the writer is closed, or closes in a pause."""
        if self._closed:
            raise EngineClosed
        waiter = Waiter()
        self._queue.append(Entry(write, None, waiter))
        while waiter.answer is None:
            if self._health.trouble is None and self._turn.acquire(blocking=False):
                self._commit_and_pass_on(on_loop=False)
            else:
                waiter.wait()
        if isinstance(waiter.answer, HoldfastError):
            raise waiter.answer
        return cast("Answer", waiter.answer)

    def retry(self) -> None:
        """Try again, on the calling thread, to commit what waits because the disk failed. The pause ends if the disk accepts the commit, or
        if nothing waits."""
        with self._turn:
            batch = self._take()
            if batch:
                self._write_or_keep(batch, on_loop=False)
            else:
                self._health.rose()
        self._pass_on(on_loop=False)

    async def drain(self) -> None:
        """Wait until everything queued is written and every caller has its answer. If the disk fails, waiting writes are given up: their
        callers get EngineClosed."""
        if self._health.trouble is not None:
            self.retry()
        while not self.idle:
            if self._health.trouble is None:
                self._flush()
            elif batch := self._take():
                self._answer(batch, [EngineClosed("The engine was closed while its store failed.")] * len(batch), (), on_loop=True)
            await asyncio.sleep(0)
        await asyncio.sleep(0)  # answers from another thread are on their way

    def close(self) -> None:
        """Refuse further writes with EngineClosed, and end the writer thread."""
        self._closed = True
        if self._thread is not None:
            self._work.set()
            self._thread.join()

    def _plan_flush(self) -> None:
        if not self._flush_planned:
            self._flush_planned = True
            self._loop.call_soon(self._flush, context=self._context)

    def _flush(self) -> None:
        self._flush_planned = False
        self._flushed_at = monotonic()
        if not self._queue or self._health.trouble is not None:
            return
        if self._gathered < len(self._queue) < min(len(self._live), _SMALL_GROUP):
            self._gathered = len(self._queue)
            self._plan_flush()
            return
        self._gathered = 0
        if self._disk_seconds > _SLOW_SECONDS and len(self._queue) < len(self._live):
            self._hand_over()
        elif self._turn.acquire(blocking=False):
            self._commit_and_pass_on(on_loop=True)
        # Else a thread has the turn, and looks at the queue after it.

    def _commit_and_pass_on(self, *, on_loop: bool) -> None:
        try:
            batch = self._take()
            if batch:
                self._write_or_keep(batch, on_loop=on_loop)
        finally:
            self._turn.release()
            self._pass_on(on_loop=on_loop)

    def _write_or_keep(self, batch: list[Entry], *, on_loop: bool) -> None:
        answers, followed = self._commit(batch, on_loop=on_loop)
        if isinstance(answers[-1], DiskFailed):  # the entries with this answer are the end of the batch, and none of them is written
            kept: list[Entry] = []
            told: list[tuple[Entry, EntryAnswer]] = []
            for entry, answer in zip(batch, answers, strict=True):
                if isinstance(answer, DiskFailed) and isinstance(entry.write, _KEPT):
                    kept.append(entry)
                else:
                    told.append((entry, answer))
            self._queue.extendleft(reversed(kept))
            batch, answers = [entry for entry, _ in told], [answer for _, answer in told]
        if on_loop:
            self._follow(followed)
            followed = ()
        self._answer(batch, answers, followed, on_loop=on_loop)

    def _take(self) -> list[Entry]:
        batch: list[Entry] = []
        size = 0
        queue = self._queue
        while queue and len(batch) < _MAX_ENTRIES and size < _MAX_BYTES:
            if isinstance(queue[0].write, _LOTS):
                return batch or [queue.popleft()]
            entry = queue.popleft()
            batch.append(entry)
            size += payload_bytes(entry.write)
        return batch

    def _commit(self, batch: list[Entry], *, on_loop: bool) -> tuple[Sequence[EntryAnswer], Sequence[Change]]:
        """Commit these entries. Returns an answer or an error for each entry, and the changes that the commit made to other executions."""
        began, now = idle_seconds(), self._clock.now()
        followed: Sequence[Change] = ()
        answers: Sequence[EntryAnswer]
        try:
            first = batch[0].write
            writes: Sequence[Write]
            if isinstance(first, Admission):
                done = self._store.admit(first.targets, first.by, now)
                writes = first.writes(done)
            else:
                writes = first.starts if isinstance(first, Bulk) else cast("list[Write]", [entry.write for entry in batch])
                done = self._committed(writes, now)
            answers = [LotAnswer(done.answers, done.opens_at)] if isinstance(first, _LOTS) else done.answers
            if len(answers) != len(batch) or len(done.answers) != len(writes):
                raise StoreBroken(f"The store answered {len(done.answers)} of {len(writes)} writes. This is a bug in the store's code.")
            soon = self._loop.call_soon if on_loop else self._loop.call_soon_threadsafe  # the second one wakes the loop by a system call
            self._tell_of(done, soon)
            followed = done.changes
            if self._saw is not None and (writes or followed):
                soon(self._saw, writes, done, now)
        except HoldfastError as error:
            answers = [error] * len(batch)
        except Exception as error:  # a store whose answer has a wrong shape must not leave a caller waiting for ever
            log.exception("the store's answer could not be read")
            answers = [StoreBroken(f"The store's answer could not be read: {type(error).__name__}.")] * len(batch)
        except BaseException as ended:  # the program is interrupted, or native code panics: callers that wait must hear of it
            self._answer(batch, [StoreBroken(f"A write was broken off: {type(ended).__name__}.")] * len(batch), (), on_loop=False)
            raise
        if isinstance(trouble := answers[-1], DiskFailed):
            self._health.fell(trouble)
        # Only waiting for the disk is worth another thread: two that compute would take turns anyway. The estimate rises slowly and
        # falls at once, so that a busy neighbour on the machine does not look like a slow disk.
        self._disk_seconds = min(idle_seconds() - began, self._disk_seconds * 1.25 + 0.0001)
        return answers, followed

    def _committed(self, writes: Sequence[Write], now: int) -> Committed:
        """Commit these writes. An error of Holdfast that the store raises concerns all of them (store.seam), and is raised. Any other error
        is a bug of the store that one write may have caused: only that write gets an error as its answer."""
        try:
            return self._store.commit(writes, now)
        except HoldfastError:
            raise
        except Exception as error:
            return committed_apart(writes, error, partial(self._store.commit, now=now))

    def _tell_of(self, done: Committed, soon: Callable[[Callable[[], None]], object]) -> None:
        """Tell the outbox if a commit added signals, and end the pause if the disk works again. `soon` puts a function on the engine's
        loop. If the loop is gone, this only logs a warning: the callers still learn that their writes are on disk."""
        try:
            if done.signalled and self._signalled is not None:
                soon(self._signalled)
            if self._health.trouble is not None and done.answers and not isinstance(done.answers[-1], DiskFailed):
                self._health.rose()
        except RuntimeError as closed:  # the loop is gone
            log.warning("the engine cannot be told what a write changed: %s", closed)

    def _follow(self, followed: Sequence[Change]) -> None:
        """Let the loop report the commit's changes to other executions. This is called on the loop before the commit's answers are given;
        the report runs right after the answers."""
        if followed and self._followed is not None:
            self._loop.call_soon(self._followed, followed, context=self._context)

    def _answer(self, batch: list[Entry], answers: Sequence[EntryAnswer], followed: Sequence[Change], *, on_loop: bool) -> None:
        """Give each entry its answer. On another thread, the loop gets the answers and then the changes to other executions in one call;
        only threads that wait get their answers at once."""
        later: list[tuple[Entry, EntryAnswer]] = []
        for entry, answer in zip(batch, answers, strict=True):
            if on_loop or entry.thread is not None:
                _deliver(entry, answer)
            else:
                later.append((entry, answer))
        if later or (followed and self._followed is not None):
            try:
                self._loop.call_soon_threadsafe(self._answer_on_loop, later, followed, context=self._context)
            except RuntimeError as closed:  # the loop is gone; what is written is written
                log.warning("the engine cannot be told what a write changed: %s", closed)

    def _answer_on_loop(self, answers: list[tuple[Entry, EntryAnswer]], followed: Sequence[Change]) -> None:
        for entry, answer in answers:
            _deliver(entry, answer)
        if followed and self._followed is not None:
            self._followed(followed)

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
            self._loop.call_soon_threadsafe(self._flush, context=self._context)

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


def _deliver(entry: Entry, answer: EntryAnswer) -> None:
    """Give an entry its answer: first to its function `deliver`, then to the thread or the future that waits."""
    if entry.deliver is not None:
        try:
            entry.deliver(answer)
        except Exception:  # an error of one receiver must not keep the others from their answers
            log.exception("the receiver of an answer raised an error")
    if entry.thread is not None:
        entry.thread.deliver(answer)
    elif entry.future is not None and not entry.future.done():
        if isinstance(answer, HoldfastError):
            entry.future.set_exception(answer)
        else:
            entry.future.set_result(answer)

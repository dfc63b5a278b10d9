"""The broadcaster: one subscriber for any number of listeners, each with a bounded queue, none of which can hold up another.

A listener that falls behind is ended, and comes back with the number of the last signal it had: what happened since is still in memory, or
in the outbox, or it is told that there is a gap.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final

from holdfast.model.errors import StoreBusy
from holdfast.model.signals import StatusSignal
from holdfast.model.threads import Purpose, in_thread

_RECENT: Final = 1000
_QUEUE: Final = 256
_LISTENERS: Final = 1000
_PAGE: Final = 1000

Kept = Callable[[int, int], Sequence[StatusSignal]]
"""The signals after a number that a store still has, at most so many: `Store.kept_signals`."""


class Gap:
    """Some signals may have been missed: they are kept no more."""


GAP: Final = Gap()


class Broadcaster:
    """A subscriber that tells listeners of this process."""

    def __init__(self, *, recent: int = _RECENT, queue: int = _QUEUE, listeners: int = _LISTENERS) -> None:
        self._queue = queue
        self._most = listeners
        self._recent: deque[StatusSignal] = deque(maxlen=recent)
        self._listeners: set[Listener] = set()
        self._lock = threading.Lock()
        self._closed = False

    async def __call__(self, signal: StatusSignal) -> None:
        """Take a signal: nobody is waited for."""
        with self._lock:
            if self._recent and signal.number <= self._recent[-1].number:
                return  # repeated after a crash of whoever delivers
            self._recent.append(signal)
            listeners = list(self._listeners)
        for listener in listeners:
            listener.offer(signal)

    def listen(self, after: int | None = None, kept: Kept | None = None) -> Listener:
        """A listener for this event loop, to be used with `async with`: from now on, or from after the signal of this number.

        `kept` knows signals that memory has forgotten.
        """
        listener = Listener(self, after, self._queue, kept)
        with self._lock:
            if self._closed or len(self._listeners) >= self._most:
                raise StoreBusy("There are too many listeners." if not self._closed else "The server is closing.")
            self._listeners.add(listener)
            listener.begin([signal for signal in self._recent if after is not None and signal.number > after])
        return listener

    def leave(self, listener: Listener) -> None:
        """Forget a listener."""
        with self._lock:
            self._listeners.discard(listener)

    def close(self) -> None:
        """End all listeners, and take no more."""
        with self._lock:
            self._closed = True
            listeners = list(self._listeners)
        for listener in listeners:
            listener.end()


class Listener:
    """One who listens. Signals come in order and once; `GAP` comes before one that may not be the next."""

    def __init__(self, broadcaster: Broadcaster, after: int | None, limit: int, kept: Kept | None) -> None:
        self._broadcaster = broadcaster
        self._loop = asyncio.get_running_loop()
        self._last = after
        self._limit = limit
        self._kept = kept
        self._backlog: list[StatusSignal] = []
        self._waiting: deque[StatusSignal] = deque()
        self._news = asyncio.Event()
        self._ended = False

    def begin(self, backlog: list[StatusSignal]) -> None:
        """What happened since the last one it had, as far as memory has it."""
        self._backlog = backlog

    def offer(self, signal: StatusSignal) -> None:
        """Put a signal into its queue; from any thread. A full queue ends it: it comes back when it has read what it has."""
        if len(self._waiting) >= self._limit:
            self.end()
            return
        if not self._ended:
            self._waiting.append(signal)
            self._wake()

    def end(self) -> None:
        """No more signals; from any thread."""
        self._ended = True
        self._wake()

    def _wake(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._news.set)
        except RuntimeError:  # its loop is gone
            self._broadcaster.leave(self)

    async def __aenter__(self) -> Listener:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._broadcaster.leave(self)

    async def signals(self, pause_seconds: float) -> AsyncIterator[StatusSignal | Gap | None]:
        """All signals until it is ended; None whenever nothing came for so long."""
        async for signal in self._missed():
            for told in self._told(signal):
                yield told
        while True:
            while self._waiting:
                for told in self._told(self._waiting.popleft()):
                    yield told
            if self._ended:
                return
            self._news.clear()
            if self._waiting or self._ended:
                continue
            try:
                async with asyncio.timeout(pause_seconds):
                    await self._news.wait()
            except TimeoutError:
                yield None

    async def _missed(self) -> AsyncIterator[StatusSignal]:
        """What it has not had: first what only the store still has, a page at a time, then what memory has."""
        after, first = self._last, self._backlog[0].number if self._backlog else None
        is_whole = after is None or first == after + 1
        while not is_whole and after is not None and self._kept is not None:
            page = await in_thread(Purpose.STORE, self._kept, after, _PAGE)
            for signal in page:
                if first is None or signal.number < first:
                    yield signal
            is_whole = len(page) < _PAGE or (first is not None and page[-1].number >= first)
            after = page[-1].number if page else after
        for signal in self._backlog:
            yield signal

    def _told(self, signal: StatusSignal) -> list[StatusSignal | Gap]:
        last = self._last
        if last is not None and signal.number <= last:
            return []
        self._last = signal.number
        return [GAP, signal] if last is not None and signal.number != last + 1 else [signal]

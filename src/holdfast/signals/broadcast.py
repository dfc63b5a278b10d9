"""The broadcaster: one subscriber that passes signals to many listeners. Each listener has a bounded queue, so that a slow listener does
not delay the others.

A listener whose queue is full is ended. Its client can connect again with the number of the last signal that it had. The new listener gets
the signals after that one, from memory or from the store; if some are not kept any more, it gets `GAP`.
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
"""Reads the signals that the store still keeps: those after a number, at most a given count. `OutboxStore.kept_signals` is one."""


class Gap:
    """The type of GAP, which says that the listener may have missed signals that are not kept any more."""


GAP: Final = Gap()


class Broadcaster:
    """A subscriber that passes signals to the listeners of this process."""

    def __init__(self, *, recent: int = _RECENT, queue: int = _QUEUE, listeners: int = _LISTENERS) -> None:
        self._queue = queue
        self._most = listeners
        self._recent: deque[StatusSignal] = deque(maxlen=recent)
        self._listeners: set[Listener] = set()
        self._lock = threading.Lock()
        self._closed = False

    async def __call__(self, signal: StatusSignal) -> None:
        """Pass a signal to all listeners, without waiting for any of them. A signal that was passed before is ignored."""
        with self._lock:
            if self._recent and signal.number <= self._recent[-1].number:
                return  # the runner that delivers has crashed, and repeats signals
            self._recent.append(signal)
            listeners = list(self._listeners)
        for listener in listeners:
            listener.offer(signal)

    def listen(self, after: int | None = None, kept: Kept | None = None) -> Listener:
        """A new listener for this event loop. Use it with `async with`. If `after` is None, it gets the signals from now on; else the
        signals after the one with this number. `kept` reads signals that are not in memory any more; without it these are missing. Raises
        StoreBusy if there are too many listeners, or after `close`.
        """
        listener = Listener(self, after, self._queue, kept)
        with self._lock:
            if self._closed or len(self._listeners) >= self._most:
                raise StoreBusy("There are too many listeners. Try again later." if not self._closed else "The server is closing.")
            self._listeners.add(listener)
            listener.begin([signal for signal in self._recent if after is not None and signal.number > after])
        return listener

    def leave(self, listener: Listener) -> None:
        """Remove a listener: it gets no more signals."""
        with self._lock:
            self._listeners.discard(listener)

    def close(self) -> None:
        """End all listeners, and refuse new ones."""
        with self._lock:
            self._closed = True
            listeners = list(self._listeners)
        for listener in listeners:
            listener.end()


class Listener:
    """Receives signals. It gets the signals in order, and none of them twice. It gets `GAP` before a signal if signals before that one may
    be missing."""

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
        """Give the listener the signals in memory that came after the last one that its client had."""
        self._backlog = backlog

    def offer(self, signal: StatusSignal) -> None:
        """Put a signal into the queue of this listener. If the queue is full, the listener is ended: it still gives the signals in the
        queue, and then its client must connect again. Any thread may call this."""
        if len(self._waiting) >= self._limit:
            self.end()
            return
        if not self._ended:
            self._waiting.append(signal)
            self._wake()

    def end(self) -> None:
        """End this listener: after the signals in its queue it gets no more. Any thread may call this."""
        self._ended = True
        self._wake()

    def _wake(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._news.set)
        except RuntimeError:  # the listener's loop is closed
            self._broadcaster.leave(self)

    async def __aenter__(self) -> Listener:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._broadcaster.leave(self)

    async def signals(self, pause_seconds: float) -> AsyncIterator[StatusSignal | Gap | None]:
        """The signals, until the listener is ended. Yields GAP before a signal if signals before it may be missing, and None each time no
        signal came for `pause_seconds`."""
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
        """The signals after the last one that the listener had: first those that only the store has, page by page (if the listener has
        `kept`), then those in memory."""
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

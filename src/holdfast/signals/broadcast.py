"""The broadcaster: one subscriber that passes signals to many listeners. Each listener has a bounded queue, so that a slow listener does
not delay the others.

A listener whose queue is full is ended. Its client can connect again, and give the number of the last signal that it had. The new listener
gets the signals after that number, from memory or from the store. If some of them are not kept any more, it gets `GAP` before the next
signal.
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

KeptSignals = Callable[[int, int], Sequence[StatusSignal]]
"""Reads signals from the store. `kept(number, most)` returns the signals after `number` that the store still has, at most `most` of them.
`OutboxStore.kept_signals` is such a function."""


class SignalGap:
    """The class of GAP. GAP tells a listener that it may have missed signals, because they are not kept any more."""


GAP: Final = SignalGap()


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
        """Pass a signal to all listeners, without waiting for any of them. A signal is ignored if it, or a later one, was passed before."""
        with self._lock:
            if self._recent and signal.number <= self._recent[-1].number:
                return  # the runner that delivers has crashed, and repeats signals
            self._recent.append(signal)
            listeners = list(self._listeners)
        for listener in listeners:
            listener.offer(signal)

    def listen(self, after: int | None = None, kept: KeptSignals | None = None) -> Listener:
        """A new listener for the running event loop. Use it with `async with`. If `after` is None, it gets only the signals that come from
        now on; else also the earlier signals with a number above `after`. Of these, `kept` reads from the store those that are not in
        memory any more; if `kept` is None, the listener does not get them. Raises StoreBusy if there are too many listeners, or after
        `close`."""
        listener = Listener(self, after, self._queue, kept)
        with self._lock:
            if self._closed or len(self._listeners) >= self._most:
                raise StoreBusy("There are too many listeners. Try again later." if not self._closed else "The server is closing.")
            self._listeners.add(listener)
            listener.begin([signal for signal in self._recent if after is not None and signal.number > after])
        return listener

    def leave(self, listener: Listener) -> None:
        """Remove a listener: it gets no new signals."""
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
    """Receives signals, in order and none of them twice. It gives `GAP` before a signal if signals before that one may be missing."""

    def __init__(self, broadcaster: Broadcaster, after: int | None, limit: int, kept: KeptSignals | None) -> None:
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
        """Called once by the broadcaster, with those signals in its memory that are newer than the last signal that the listener's client
        had. The listener gives them before all signals that come later."""
        self._backlog = backlog

    def offer(self, signal: StatusSignal) -> None:
        """Put a signal into the queue of this listener. If the queue is full, the signal is not put there, and the listener is ended: it
        still gives the signals in its queue, and then its client must connect again. Any thread may call this."""
        if len(self._waiting) >= self._limit:
            self.end()
            return
        if not self._ended:
            self._waiting.append(signal)
            self._wake()

    def end(self) -> None:
        """End this listener: it still gives the signals in its queue, and after them no more. Any thread may call this."""
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

    async def signals(self, pause_seconds: float) -> AsyncIterator[StatusSignal | SignalGap | None]:
        """The signals, until the listener is ended and its queue is empty. Yields GAP before a signal if signals before that one may be
        missing. Yields None each time no signal came for `pause_seconds`."""
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
        """The signals after the last one that the listener had: first those that are only in the store (if the listener has `kept`), then
        those in memory. The store is read page by page."""
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

    def _told(self, signal: StatusSignal) -> list[StatusSignal | SignalGap]:
        last = self._last
        if last is not None and signal.number <= last:
            return []
        self._last = signal.number
        return [GAP, signal] if last is not None and signal.number != last + 1 else [signal]

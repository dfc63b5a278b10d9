"""Stragglers: deferred updates that no other write has included within 5 ms.

The START of an at-least-once step is not worth a commit of its own, so it waits for the next write. But if the body of the step takes long,
the history must show that the step has begun. So a timer of the event loop, or a thread, writes the updates that have waited for 5 ms.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Final, Protocol

from holdfast.model.clock import monotonic
from holdfast.model.operations import Update

log = logging.getLogger("holdfast.durable")

_DEFERRED_SECONDS: Final = 0.005


class Deferring(Protocol):
    """A state with deferred updates."""

    unwritten: list[Update]
    unwritten_since: float
    """When the first of the deferred updates was recorded: the event loop's time in a coroutine, `clock.monotonic` in a thread."""

    def write_deferred(self) -> None: ...


class Stragglers(Protocol):
    """Writes deferred updates that have waited too long."""

    def add(self, state: Deferring) -> None: ...


def _due(states: dict[Deferring, None], now: float) -> list[Deferring]:
    """The states in `states` whose deferred updates have waited for about 5 ms. They are removed from `states`; so are states that have
    nothing left to write."""
    due = []
    for state in list(states):
        if not state.unwritten:
            states.pop(state, None)
        elif now - state.unwritten_since >= _DEFERRED_SECONDS * 0.9:
            states.pop(state, None)
            due.append(state)
    return due


def _write(state: Deferring) -> None:
    """Write the deferred updates of one state. An error is logged and not raised, so that the caller can go on with the other states."""
    try:
        state.write_deferred()
    except Exception:
        log.exception("the deferred updates of one execution could not be written; its next write gets the error")


class LoopStragglers:
    """For coroutines: one timer of the event loop serves all states. There is no timer while there is nothing to write."""

    def __init__(self) -> None:
        self._states: dict[Deferring, None] = {}
        self._planned = False

    def add(self, state: Deferring) -> None:
        """Note a state that has a deferred update. If no write includes the update within 5 ms, it is written by itself."""
        self._states[state] = None
        if not self._planned:
            self._planned = True
            asyncio.get_running_loop().call_later(_DEFERRED_SECONDS, self._write)

    def _write(self) -> None:
        loop = asyncio.get_running_loop()
        for state in _due(self._states, loop.time()):
            _write(state)
        self._planned = bool(self._states)
        if self._planned:
            loop.call_later(_DEFERRED_SECONDS, self._write)


class Unhurried:
    """For tests: a deferred update always waits for the next write. So the number of writes does not depend on how busy the machine is."""

    def add(self, state: Deferring) -> None:
        """Does nothing: the deferred updates of `state` wait for its next write."""

    def close(self) -> None:
        """Does nothing: there is no thread to stop."""


class ThreadStragglers:
    """For handlers on threads: one thread writes the deferred updates of all states. It sleeps while there is nothing to write."""

    def __init__(self) -> None:
        self._states: dict[Deferring, None] = {}
        self._adding = threading.Lock()
        self._wake = threading.Event()
        self._closed = False
        self._thread: threading.Thread | None = None

    def add(self, state: Deferring) -> None:
        """Note a state that has a deferred update. If no write includes the update within 5 ms, it is written by itself."""
        with self._adding:
            self._states[state] = None
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="holdfast-stragglers", daemon=True)
                self._thread.start()
        self._wake.set()

    def close(self, *, wait: bool = False) -> None:
        """Stop the thread; updates that it has not written yet may stay unwritten. With `wait`, return only when the thread has ended, so
        that no write of this thread is still under way."""
        self._closed = True
        self._wake.set()
        if wait and self._thread is not None:
            self._thread.join()

    def _watch(self) -> None:
        pause = threading.Event()
        while not self._closed:
            self._wake.wait()
            pause.wait(_DEFERRED_SECONDS)
            self._wake.clear()
            with self._adding:
                due = _due(self._states, monotonic())
                if self._states:
                    self._wake.set()
            for state in due:
                _write(state)

"""Stragglers: updates that ride with the next write, and the limit to how long they may.

The START of an at-least-once step is not worth a commit of its own, but a long body must not hide that it began.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Final, Protocol

from holdfast.model.clock import monotonic
from holdfast.model.operations import Update

log = logging.getLogger("holdfast.durable")

_RIDE_SECONDS: Final = 0.005


class Riding(Protocol):
    """Something with updates that ride."""

    unwritten: list[Update]
    unwritten_since: float

    def write_riders(self) -> None: ...


class Stragglers(Protocol):
    """Is told of every update that rides."""

    def add(self, state: Riding) -> None: ...


def _due(states: dict[Riding, None]) -> list[Riding]:
    """Those that have ridden long enough; those that were written meanwhile are forgotten."""
    now = monotonic()
    due = []
    for state in list(states):
        if not state.unwritten:
            states.pop(state, None)
        elif now - state.unwritten_since >= _RIDE_SECONDS * 0.9:
            states.pop(state, None)
            due.append(state)
    return due


def _write(state: Riding) -> None:
    """Write what rides. Whatever goes wrong with it, the next one rides with the same timer or thread."""
    try:
        state.write_riders()
    except Exception:
        log.exception("what one execution had to tell could not be written; its next write tells it")


class LoopStragglers:
    """For coroutines: one timer of the loop for all, and none while nothing rides."""

    def __init__(self) -> None:
        self._states: dict[Riding, None] = {}
        self._planned = False

    def add(self, state: Riding) -> None:
        """An update rides."""
        self._states[state] = None
        if not self._planned:
            self._planned = True
            asyncio.get_running_loop().call_later(_RIDE_SECONDS, self._write)

    def _write(self) -> None:
        for state in _due(self._states):
            _write(state)
        self._planned = bool(self._states)
        if self._planned:
            asyncio.get_running_loop().call_later(_RIDE_SECONDS, self._write)


class Unhurried:
    """For tests: what rides waits for the next write, however long that takes: a busy machine makes no more writes than an idle one."""

    def add(self, state: Riding) -> None:
        """An update rides."""

    def close(self) -> None:
        """There is nothing to stop."""


class ThreadStragglers:
    """For handlers on threads: one thread that sleeps while nothing rides."""

    def __init__(self) -> None:
        self._states: dict[Riding, None] = {}
        self._adding = threading.Lock()
        self._riding = threading.Event()
        self._closed = False
        self._thread: threading.Thread | None = None

    def add(self, state: Riding) -> None:
        """An update rides."""
        with self._adding:
            self._states[state] = None
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="holdfast-stragglers", daemon=True)
                self._thread.start()
        self._riding.set()

    def close(self, *, wait: bool = False) -> None:
        """Stop watching; with `wait` the thread is gone afterwards, and what it was writing is written."""
        self._closed = True
        self._riding.set()
        if wait and self._thread is not None:
            self._thread.join()

    def _watch(self) -> None:
        pause = threading.Event()
        while not self._closed:
            self._riding.wait()
            pause.wait(_RIDE_SECONDS)
            self._riding.clear()
            with self._adding:
                due = _due(self._states)
                if self._states:
                    self._riding.set()
            for state in due:
                _write(state)

"""The poller: polls the store on a thread of its own, so that a busy event loop does not let the runner's lease run out.

The scheduler says what one poll does (`Scheduler._polls`); the poller only decides how often and on which thread. Simulations have a poller
on the loop.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Protocol


class Poller(Protocol):
    """Makes one poll after another."""

    def end(self) -> None:
        """Make no more polls, and wait until the present poll has ended."""
        ...


StartPoller = Callable[[Iterator[None], float], Poller]
"""Begins to poll. To make one poll, it takes the next element of the iterator. The number is the pause between two polls, in seconds."""


class ThreadPoller:
    """Polls on a thread of its own."""

    def __init__(self, polls: Iterator[None], seconds: float) -> None:
        self._polls = polls
        self._seconds = seconds
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._poll, name="holdfast-poller", daemon=True)
        self._thread.start()

    def end(self) -> None:
        self._ended.set()
        self._thread.join()

    def _poll(self) -> None:
        for _ in self._polls:
            if self._ended.wait(self._seconds):
                return

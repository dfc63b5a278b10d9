"""The poller: asks the store again and again on a thread of its own, so that a busy event loop does not let the lease run out."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Protocol


class Poller(Protocol):
    """Looks at the store again and again."""

    def end(self) -> None:
        """Look no more; what is being looked at is finished first."""
        ...


StartPoller = Callable[[Iterator[None], float], Poller]
"""Begins a watch: takes the next look every so many seconds."""


class ThreadPoller:
    """A watch on a thread of its own."""

    def __init__(self, looks: Iterator[None], seconds: float) -> None:
        self._looks = looks
        self._seconds = seconds
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="holdfast-watch", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Wait for the look in hand."""
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        for _ in self._looks:
            if self._ended.wait(self._seconds):
                return

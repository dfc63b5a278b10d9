"""Upkeep: once a minute each runner calls its chores, and then removes rows whose time is over, in small transactions. If one of them
fails, the error is logged, the others are done all the same, and the next minute tries again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from holdfast.model.clock import Clock, monotonic
from holdfast.model.errors import HoldfastError
from holdfast.model.threads import Purpose, in_thread
from holdfast.store.seam import RetentionStore

log = logging.getLogger("holdfast.engine")

_EVERY_MS: Final = 60_000
_ROWS: Final = 500
"""One transaction removes about this many rows at most. Such a transaction takes a few milliseconds, and no other process can write to a
SQLite store during that time."""


Chore = Callable[[], Awaitable[object]]
"""Other work that a runner does once a minute."""


class Upkeep:
    """Keeps the store small, for one runner."""

    def __init__(self, store: RetentionStore, clock: Clock, chores: Sequence[Chore]) -> None:
        self._store = store
        self._chores = chores
        self._clock = clock
        self._next_at = 0
        self._task: asyncio.Task[None] | None = None
        self._closing = False

    def is_due(self, now: int) -> bool:
        """Whether a minute has passed since the last upkeep began, and that upkeep has ended; True if there was none yet."""
        return self._next_at <= now and (self._task is None or self._task.done())

    def begin_due(self, now: int) -> None:
        """Begin the upkeep if it is due, and do not wait for its end."""
        if self.is_due(now):
            self._next_at = now + _EVERY_MS
            self._task = asyncio.create_task(self._remove(), name="holdfast-upkeep")

    async def end(self) -> None:
        """Stop. If an upkeep is under way, wait until its present chore or transaction has ended."""
        self._closing = True
        if self._task is not None:
            await self._task

    async def _remove(self) -> None:
        for chore in (*self._chores, self._expire):
            if self._closing:
                return
            try:
                await chore()
            except Exception as trouble:
                told = "could not keep the store in order, trying again in a minute: %s"
                log.warning(told, trouble, exc_info=not isinstance(trouble, HoldfastError))

    async def _expire(self) -> None:
        while not self._closing:
            began = monotonic()
            if not await in_thread(Purpose.HOUSE, self._store.expire, self._clock.now(), _ROWS):
                return
            await asyncio.sleep(monotonic() - began)  # removing takes at most half of the time

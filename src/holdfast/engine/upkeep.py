"""Upkeep: once a minute what is over is forgotten, a little at a time. Every process does it; whoever comes first removes the most."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from holdfast.model.clock import Clock, monotonic
from holdfast.model.errors import HoldfastError
from holdfast.model.threads import Purpose, in_thread
from holdfast.store.seam import Store

log = logging.getLogger("holdfast.engine")

_EVERY_MS: Final = 60_000
_ROWS: Final = 500
"""Rows that one transaction removes: a few milliseconds, in which nobody else can write."""


class Upkeep:
    """Looks after the store's size."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._next_at = 0
        self._task: asyncio.Task[None] | None = None
        self._closing = False

    def is_due(self, now: int) -> bool:
        """Whether a minute has passed. A virtual clock is not moved for this: nobody waits for it."""
        return self._next_at <= now and (self._task is None or self._task.done())

    def look(self, now: int) -> None:
        """Begin to remove what is over, if it is time."""
        if self.is_due(now):
            self._next_at = now + _EVERY_MS
            self._task = asyncio.create_task(self._remove(), name="holdfast-upkeep")

    async def end(self) -> None:
        """Finish the transaction in hand and stop."""
        self._closing = True
        if self._task is not None:
            await self._task

    async def _remove(self) -> None:
        try:
            while not self._closing:
                began = monotonic()
                if not await in_thread(Purpose.HOUSE, self._store.expire, self._clock.now(), _ROWS):
                    return
                await asyncio.sleep(monotonic() - began)  # at most half of the time is ours
        except Exception as trouble:  # whatever it is, the next minute comes
            told = "could not remove what is over, trying again in a minute: %s"
            log.warning(told, trouble, exc_info=not isinstance(trouble, HoldfastError))

"""An event loop in its own thread, on which blocking callers run coroutines."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import TypeVar

from holdfast.model.errors import EngineClosed

T = TypeVar("T")


class LoopThread:
    """Runs coroutines in its own thread. The calling thread waits for the result."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="holdfast-loop", daemon=True)
        self._thread.start()

    def call(self, make: Callable[[], Awaitable[T]]) -> T:
        """Run the awaitable that `make` returns on the loop, and wait for its result. Raises EngineClosed if the loop is closed."""

        async def run() -> T:
            return await make()

        if self._loop.is_closed():
            raise EngineClosed("The engine is closed. Call its methods inside the `with` block, or open it again.")
        return asyncio.run_coroutine_threadsafe(run(), self._loop).result()

    def close(self) -> None:
        """Cancel all tasks of the loop, wait until they have ended, and stop the loop and its thread."""

        async def drain() -> None:
            others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(drain(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

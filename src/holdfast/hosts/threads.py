"""A pool with a bounded number of threads, which can say whether a thread is free."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
_here = threading.local()


def on_engine_thread() -> bool:
    """Whether the caller runs on a thread of a `Threads` pool. If a call on such a thread waited for another execution, it could wait for
    ever."""
    return getattr(_here, "marked", False)


def _mark() -> None:
    _here.marked = True


class Threads:
    """Threads for handlers, branches and step bodies."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._taken = 0
        self._lock = threading.Lock()
        self._executor = ThreadPoolExecutor(size, thread_name_prefix="holdfast", initializer=_mark)

    @property
    def busy(self) -> bool:
        """Whether a call runs on a thread or waits for one."""
        return self._taken > 0

    def crowded(self) -> bool:
        """Whether a call waits for a thread."""
        return self._taken > self._size

    def submit(self, call: Callable[[], T]) -> Future[T]:
        """Run a call as soon as a thread is free. Returns its future at once. Raises RuntimeError after `close`."""
        with self._lock:
            self._taken += 1
        return self._submit(call)

    def lend(self, call: Callable[[], None]) -> bool:
        """Run a call on a free thread, and return True without waiting for it. If no thread is free, return False, and do not run it."""
        with self._lock:
            if self._taken >= self._size:
                return False
            self._taken += 1
        self._submit(call)
        return True

    def _submit(self, call: Callable[[], T]) -> Future[T]:
        try:
            future = self._executor.submit(call)
        except BaseException:
            self._ended(None)
            raise
        future.add_done_callback(self._ended)
        return future

    def _ended(self, _: object) -> None:
        with self._lock:
            self._taken -= 1

    def close(self) -> None:
        """Accept no more calls, and cancel those that wait for a thread. Calls that run cannot be ended; when the engine has closed, it
        refuses their checkpoints."""
        self._executor.shutdown(wait=False, cancel_futures=True)

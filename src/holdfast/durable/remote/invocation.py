"""What `def` and `async def` handlers both need for one invocation in another process than the service."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from holdfast.durable.plugin import DurableInstrumentationPluginFactory
from holdfast.model.execution import Outcome, Terms

T = TypeVar("T")

SOON_MS: Final = 50
SELDOM_MS: Final = 1000
"""If the service says that a wait has not ended, because its clock is behind the clock of this process, this process asks again after
SOON_MS milliseconds, then after twice the time before, at most after SELDOM_MS."""
_THREADS: Final = 256
"""At most this many threads, which are made only when they are needed. If a batch has more branches, the others run on the thread of the
batch, one by one."""


class Function(Protocol):
    """A durable function, as its decorator makes it."""

    handler: Callable[..., Any]
    is_async: bool
    terms: Terms
    read: Callable[[str | None], Any]
    write: Callable[[Any], str | Outcome]
    boto3_client: Any
    plugins: Sequence[DurableInstrumentationPluginFactory]


class Ended(NamedTuple):
    """How a handler ended: its outcome, and the exception that caused it; None if there was none."""

    outcome: Outcome
    error: BaseException | None = None


class Threads:
    """The threads of one invocation. All of them end with the invocation: Lambda freezes the process after it, and a thread would continue
    in a later invocation."""

    def __init__(self) -> None:
        self._free = threading.Semaphore(_THREADS)
        self._executor = ThreadPoolExecutor(_THREADS, thread_name_prefix="holdfast")

    def submit(self, call: Callable[[], T], /) -> Future[T]:
        """Run a call as soon as a thread is free. Returns a future of its result at once."""
        return self._executor.submit(call)

    def lend(self, call: Callable[[], None]) -> bool:
        """Run a call on a free thread and return True, without waiting for its end. Returns False if no thread is free; then the call is
        not run."""
        if not self._free.acquire(blocking=False):
            return False
        self._executor.submit(call).add_done_callback(lambda _: self._free.release())
        return True

    def close(self) -> None:
        """Wait until all calls have ended, and end the threads."""
        self._executor.shutdown()

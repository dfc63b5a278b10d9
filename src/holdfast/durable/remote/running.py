"""What both colours need to run one invocation away from its service."""

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
"""When the service says that a time has not come yet (its clock is behind ours), it is asked again soon, then more and more seldom."""
_THREADS: Final = 256
"""They are made only as they are asked for. A batch with more branches runs the rest on its own thread, one by one."""


class Function(Protocol):
    """A durable function, as its decorator makes it."""

    handler: Callable[..., Any]
    is_async: bool
    terms: Terms
    read: Callable[[str | None], Any]
    write: Callable[[Any], str]
    boto3_client: Any
    plugins: Sequence[DurableInstrumentationPluginFactory]


class Ended(NamedTuple):
    """How a handler ended: what that comes to, and the exception behind it."""

    outcome: Outcome
    error: BaseException | None = None


class Threads:
    """The threads of one invocation. None outlives it: a Lambda environment is frozen then, and would wake up in the middle of it."""

    def __init__(self) -> None:
        self._free = threading.Semaphore(_THREADS)
        self._executor = ThreadPoolExecutor(_THREADS, thread_name_prefix="holdfast")

    def submit(self, call: Callable[[], T], /) -> Future[T]:
        """Run a call as soon as a thread is free."""
        return self._executor.submit(call)

    def lend(self, call: Callable[[], None]) -> bool:
        """Run a call now on a free thread; False when there is none."""
        if not self._free.acquire(blocking=False):
            return False
        self._executor.submit(call).add_done_callback(lambda _: self._free.release())
        return True

    def close(self) -> None:
        """Wait until all are done."""
        self._executor.shutdown()

"""What `def` and `async def` handlers both need for one invocation in another process than the service."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from holdfast.durable.plugin import DurableInstrumentationPluginFactory
from holdfast.durable.scope import Scope
from holdfast.durable.state import ExecutionState
from holdfast.model.execution import Outcome, Terms

T = TypeVar("T")

SOON_MS: Final = 50
SELDOM_MS: Final = 1000
"""The longest pause between two questions about a wait that is due. If the service's clock is behind the clock of this process, the service
says that the wait has not ended. This process then asks again after SOON_MS milliseconds, and doubles the pause after each question, up to
SELDOM_MS."""
_THREADS: Final = 256
"""The most threads of one invocation. Threads are made only when they are needed. If a batch of a `def` handler has more branches than
there are free threads, the thread that waits for the batch runs the other branches, one after the other."""


class RemoteFunction(Protocol):
    """The members of a DurableFunction (execution.py) that an invocation in another process than the service needs."""

    handler: Callable[..., Any]
    is_async: bool
    terms: Terms
    read: Callable[[str | None], Any]
    succeeded: Callable[[ExecutionState, Scope, Any], Outcome]
    boto3_client: Any
    plugins: Sequence[DurableInstrumentationPluginFactory]


class Ended(NamedTuple):
    """How a handler ended: its outcome, and the exception that the handler, or a write after it, raised (None if nothing was raised)."""

    outcome: Outcome
    error: BaseException | None = None


class InvocationThreads:
    """The threads of one invocation. All of them end before the invocation ends: after an invocation Lambda freezes the process, and a
    thread that is left would continue in a later invocation."""

    def __init__(self) -> None:
        self._free = threading.Semaphore(_THREADS)
        self._executor = ThreadPoolExecutor(_THREADS, thread_name_prefix="holdfast")

    def submit(self, call: Callable[[], T], /) -> Future[T]:
        """Run a call as soon as a thread is free. Returns at once, with a future of the call's result."""
        return self._executor.submit(call)

    def lend(self, call: Callable[[], None]) -> bool:
        """If a thread is free, run the call on it and return True at once, without waiting for the end of the call. If none is free, do not
        run the call, and return False."""
        if not self._free.acquire(blocking=False):
            return False
        self._executor.submit(call).add_done_callback(lambda _: self._free.release())
        return True

    def close(self) -> None:
        """Wait until all calls have ended, and end the threads."""
        self._executor.shutdown()

"""Calls of user code from an event loop: an `async def` on the loop, a plain `def` in a thread, both with an optional time limit."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

from holdfast.durable.plan import Run, too_late

T = TypeVar("T")


class StepThreads(Protocol):
    """Threads for plain `def` functions, which may block. `submit` runs a call as soon as a thread is free."""

    def submit(self, call: Callable[[], T], /) -> Future[T]: ...


async def ran_in_time(run: Run, threads: StepThreads) -> Any:
    """Call user code with the time limit `run.timeout` (seconds), and return its result. The time begins when the code begins, so waiting
    for a free thread does not count. When the time is over, a coroutine is cancelled at its next `await`, and a `def` continues in its
    thread; this raises TimeoutError, unless the coroutine still returns a value."""
    loop, seconds = asyncio.get_running_loop(), run.timeout or 0.0
    in_thread = not is_async(run.func)
    limit = asyncio.timeout(None if in_thread else seconds)

    def begin() -> None:
        with contextlib.suppress(RuntimeError):  # the body has already ended
            limit.reschedule(loop.time() + seconds)

    def body(*arguments: Any) -> Any:
        nonlocal in_thread
        loop.call_soon_threadsafe(begin)
        value = run.func(*arguments)
        in_thread = False  # if the value is a coroutine, it runs on the loop
        return value

    try:
        async with limit:
            return await ran(Run(body, run.arguments) if in_thread else run, threads)
    except TimeoutError:
        if not limit.expired():  # the body itself raised the TimeoutError
            raise
        raise too_late(run, cancelled=not in_thread) from None


async def ran(run: Run, threads: StepThreads) -> Any:
    """Call user code and return its result. An `async def`, and code that makes durable calls itself (`inline`), runs on the event loop.
    Any other `def` runs in a thread, because it may block."""
    func = run.func
    if run.inline or is_async(func):
        value = func(*run.arguments)
    else:
        context = contextvars.copy_context()
        value = await asyncio.wrap_future(threads.submit(lambda: context.run(func, *run.arguments)))
    return await value if inspect.isawaitable(value) else value


def is_async(func: Callable[..., Any]) -> bool:
    """Whether this function is an `async def`. If Holdfast wrapped the author's function, the answer is that of the author's function."""
    func = getattr(func, "_original", func)
    code = getattr(func, "__code__", None)
    return bool(code.co_flags & inspect.CO_COROUTINE) if code is not None else inspect.iscoroutinefunction(func)

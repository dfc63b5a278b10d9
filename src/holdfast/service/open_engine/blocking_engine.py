"""The methods of an open engine and of an execution, without `await`."""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.hosts.threads import on_engine_thread
from holdfast.model.errors import BlockingCallRefused
from holdfast.model.execution import Execution
from holdfast.service.open_engine.loop_thread import LoopThread
from holdfast.service.open_engine.open_engine import OpenEngine
from holdfast.service.open_engine.open_execution import OpenExecution
from holdfast.store.seam import Filter

if TYPE_CHECKING:  # a program without workers does not load their modules
    from holdfast.workers.events import RunEvent

_T = TypeVar("_T")


def _check_thread(verb: str) -> None:
    if on_engine_thread():
        raise BlockingCallRefused(
            f"`{verb}` was called on a thread of the engine, where it would wait for itself. "
            "In a handler, use durable calls; call methods of the engine from other threads of your program."
        )


def _blocking(verb: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
    """The blocking form of an async method. Executions in its result become BlockingExecutions. It raises BlockingCallRefused if it is
    called on a thread of the engine."""

    @functools.wraps(verb)
    def call(self: BlockingEngine | BlockingExecution, *args: Any, **kwargs: Any) -> Any:
        _check_thread(verb.__name__)
        answer = self._loop_thread.call(lambda: verb(self._inner, *args, **kwargs))
        if isinstance(answer, list):
            return [BlockingExecution(one, self._loop_thread) if isinstance(one, OpenExecution) else one for one in answer]
        return BlockingExecution(answer, self._loop_thread) if isinstance(answer, OpenExecution) else answer

    return call


class BlockingEngine:
    """The methods of `OpenEngine` without `await`: each call blocks until its result is there."""

    def __init__(self, inner: OpenEngine, loop_thread: LoopThread) -> None:
        self._inner = inner
        self._loop_thread = loop_thread

    def follow(self, run_id: str, *, after: int | str = 0) -> Iterator[RunEvent]:
        """The events of a run after the event with the id `after`, then new ones, until the run has ended, or is quarantined or removed
        from the store. Blocks between the events. Write `for event in engine.follow(run_id)`."""
        return self._each("follow", self._inner.follow(run_id, after=after))

    def list(self, wanted: Filter | None = None) -> Iterator[Execution]:
        """The executions that match the filter, at most `wanted.limit`; without a filter, the newest ones, up to the default limit. Write
        `for execution in engine.list()`."""
        return self._each("list", self._inner.list(wanted))

    def _each(self, verb: str, found: AsyncGenerator[_T, None]) -> Iterator[_T]:
        _check_thread(verb)
        try:
            while (one := self._loop_thread.call(lambda: anext(found, None))) is not None:
                yield one
        finally:
            self._loop_thread.call(found.aclose)

    start = _blocking(OpenEngine.start)
    enqueue = _blocking(OpenEngine.enqueue)
    enqueue_many = _blocking(OpenEngine.enqueue_many)
    redrive = _blocking(OpenEngine.redrive)
    run = _blocking(OpenEngine.run)
    view = _blocking(OpenEngine.view)
    retry = _blocking(OpenEngine.retry)
    restart = _blocking(OpenEngine.restart)
    plan_restart = _blocking(OpenEngine.plan_restart)
    compare = _blocking(OpenEngine.compare)
    restart_execution = _blocking(OpenEngine.restart_execution)
    cost = _blocking(OpenEngine.cost)
    estimate = _blocking(OpenEngine.estimate)
    estimate_rest = _blocking(OpenEngine.estimate_rest)
    get = _blocking(OpenEngine.get)
    release_all = _blocking(OpenEngine.release_all)
    succeed_callback = _blocking(OpenEngine.succeed_callback)
    fail_callback = _blocking(OpenEngine.fail_callback)
    heartbeat_callback = _blocking(OpenEngine.heartbeat_callback)
    unsubscribe = _blocking(OpenEngine.unsubscribe)


class BlockingExecution:
    """The methods of `OpenExecution` without `await`: each call blocks until its result is there."""

    id: str
    name: str
    """The name that its caller gave; the id if the caller gave none."""
    arn: str

    def __init__(self, inner: OpenExecution, loop_thread: LoopThread) -> None:
        self._inner = inner
        self._loop_thread = loop_thread
        self.id, self.name, self.arn = inner.id, inner.name, inner.arn

    result = _blocking(OpenExecution.result)
    status = _blocking(OpenExecution.status)
    describe = _blocking(OpenExecution.describe)
    history = _blocking(OpenExecution.history)
    export = _blocking(OpenExecution.export)
    stop = _blocking(OpenExecution.stop)
    release = _blocking(OpenExecution.release)

"""The contexts that handlers get, with one method for each durable call.

`DurableContext` is for `def` handlers and has the official SDK's signatures. `AsyncDurableContext` is for `async def` handlers: the
same names, to be awaited. Every call takes its place in the order at once, before it is awaited.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, Generic, TypeVar, cast, overload

from holdfast.durable import async_driver, async_state, blocking_driver
from holdfast.durable.base_context import BaseContext
from holdfast.durable.base_context import ExecutionContext as ExecutionContext
from holdfast.durable.base_context import Invocable as Invocable
from holdfast.durable.concurrency.models import BatchResult
from holdfast.durable.config import (
    CallbackConfig,
    ChildConfig,
    InvokeConfig,
    MapConfig,
    ParallelConfig,
    StepConfig,
    WaitForCallbackConfig,
)
from holdfast.durable.decorators import durable_parallel_branch as durable_parallel_branch
from holdfast.durable.decorators import durable_step as durable_step
from holdfast.durable.decorators import durable_wait_for_callback as durable_wait_for_callback
from holdfast.durable.decorators import durable_with_child_context as durable_with_child_context
from holdfast.durable.delays import Duration
from holdfast.durable.identifier import Identity
from holdfast.durable.operation.wait import cancelled, rested
from holdfast.durable.operation.with_retry import retried
from holdfast.durable.plan import Plan
from holdfast.durable.retries import WithRetryConfig
from holdfast.durable.run_response import RunResponse
from holdfast.durable.types import StepContext, WaitForCallbackContext, WaitForConditionCheckContext
from holdfast.durable.waits import WaitForConditionConfig

T = TypeVar("T")
U = TypeVar("U")
P = TypeVar("P")
R = TypeVar("R")


class Callback(Generic[T]):
    """A callback in a `def` handler: its id to hand out, and its answer."""

    def __init__(self, callback_id: str, result: Callable[[], T | None], at: Identity) -> None:
        self.callback_id = callback_id
        self._result = result
        self.at = at

    def result(self) -> T | None:
        """The answer; suspends until it is there."""
        return self._result()


class AsyncCallback(Generic[T]):
    """A callback in an `async def` handler."""

    def __init__(self, callback_id: str, result: Callable[[], Awaitable[T | None]], at: Identity) -> None:
        self.callback_id = callback_id
        self._result = result
        self.at = at

    def result(self) -> Awaitable[T | None]:
        """The answer; suspends until it is there."""
        return self._result()


class Timer:
    """A wait that runs beside the code of a `def` handler."""

    def __init__(self, at: Identity, drive: Callable[[tuple[Identity, Plan[None]]], None]) -> None:
        self.at = at
        self._drive = drive

    def result(self) -> None:
        """Suspend until the timer is over. A cancelled timer is over at once."""
        self._drive((self.at, rested(self.at)))

    def cancel(self) -> None:
        """Cancel the timer, so that it does not wake the execution."""
        self._drive((self.at, cancelled(self.at)))


class AsyncTimer:
    """A wait that runs beside the code of an `async def` handler."""

    def __init__(self, at: Identity, drive: Callable[[tuple[Identity, Plan[None]]], Awaitable[None]]) -> None:
        self.at = at
        self._drive = drive

    def result(self) -> Awaitable[None]:
        """Suspend until the timer is over. A cancelled timer is over at once."""
        return self._drive((self.at, rested(self.at)))

    def cancel(self) -> Awaitable[None]:
        """Cancel the timer, so that it does not wake the execution."""
        return self._drive((self.at, cancelled(self.at)))


class DurableContext(BaseContext):
    """The context of a `def` handler: every call returns when its result is on disk."""

    def _drive(self, call: tuple[Identity, Plan[T]]) -> T:
        at, plan = call
        state = self._scope.state
        assert isinstance(state, blocking_driver.BlockingState)
        with self._scope.call(at):
            return blocking_driver.drive(plan, state)

    def _with_retry(self, func: Callable[[DurableContext, int], T], config: WithRetryConfig[T], name: str | None) -> T:
        if config.wrap_with_run_in_child_context:
            return self._drive(self._retried(func, config, name))
        state = self._scope.state
        assert isinstance(state, blocking_driver.BlockingState)
        return blocking_driver.drive(retried(self, func, config, name), state)

    def step(self, func: Callable[[StepContext], T], name: str | None = None, config: StepConfig | None = None) -> T:
        """Run `func` and remember its result; a replay returns it without running anything."""
        return self._drive(self._step(func, name, config))

    def wait(self, duration: Duration, name: str | None = None) -> None:
        """Suspend for a while, without using a thread."""
        self._drive(self._wait(duration, name))

    def create_callback(self, name: str | None = None, config: CallbackConfig | None = None) -> Callback[Any]:
        """Create a callback. Give its id to the system that will answer, then ask for its `result()`."""
        config = config or CallbackConfig()
        at, plan = self._callback(name, config)
        callback_id = self._drive((at, plan))
        return Callback(callback_id, lambda: self._drive((at, self._result(at, config.serdes))), at)

    def wait_for_callback(
        self,
        submitter: Callable[[str, WaitForCallbackContext], Any],
        name: str | None = None,
        config: WaitForCallbackConfig | None = None,
    ) -> Any:
        """Hand a callback's id to `submitter`, and wait for the answer."""
        return self._drive(self._wait_for_callback(submitter, name, config))

    def wait_for_condition(
        self, check: Callable[[T, WaitForConditionCheckContext], T], config: WaitForConditionConfig[T], name: str | None = None
    ) -> T:
        """Call `check` with the state it returned last, again and again, until the wait strategy stops; the last state is the result."""
        return self._drive(self._condition(check, config, name))

    def run_in_child_context(self, func: Callable[[DurableContext], T], name: str | None = None, config: ChildConfig[T] | None = None) -> T:
        """Run `func` with a context of its own. Its result is recorded, so a replay does not run what is inside."""
        return self._drive(self._child(func, name, config))

    def invoke(self, function_name: str | Invocable, payload: P, name: str | None = None, config: InvokeConfig[P, R] | None = None) -> R:
        """Run another function as an execution of its own, and wait for its result: by its name or ARN, or the function itself."""
        return self._drive(self._invoke(function_name, payload, name, config))

    def run(
        self,
        worker: str,
        inputs: Mapping[str, Any],
        *,
        name: str | None = None,
        version: str | None = None,
        constraints: Mapping[str, Any] | None = None,
        check: bool = True,
    ) -> RunResponse:
        """Run a worker, by its id or `id@version`, and wait for its response, also through approvals, retries and rate limits. No thread is
        used while it waits.

        Raises `WorkerFailed` if the status of the response is not `ok`; with `check=False` it returns such a response, too. `constraints`
        tighten the worker's limits.
        """
        return self._drive(self._run(worker, inputs, name, version, constraints, check))

    def enqueue(
        self,
        target: str | Invocable,
        input: Any = None,
        *,
        queue: str,
        key: str | None = None,
        name: str | None = None,
        version: str | None = None,
        delay: float | Duration = 0.0,
        ttl: float | Duration | None = None,
        head_start: float | Duration = 0.0,
        units: int | None = None,
    ) -> str:
        """Enqueue a function, a worker or a pipeline, and get the id of its execution or run. It has no parent, and this does not wait.

        A full queue raises `EnqueueRefused`, whose `retry_after_seconds` says when to try again. Times are seconds, or a Duration.
        """
        more = {"version": version, "delay": delay, "ttl": ttl, "head_start": head_start, "units": units}
        return self._drive(self._enqueue(target, input, name, queue=queue, key=key, **more))

    def create_timer(self, duration: Duration, name: str | None = None) -> Timer:
        """Begin a wait without waiting; ask for its `result()` later, or give it to `first_of`."""
        at, plan = self._timer(duration, name)
        self._drive((at, plan))
        return Timer(at, self._drive)

    def first_of(self, awaited: Sequence[Callback[Any] | Timer], name: str | None = None) -> int:
        """Suspend until one of these callbacks and timers is over; returns its index in the list."""
        return self._drive(self._first(awaited, name))

    def parallel(
        self,
        functions: Sequence[Callable[[DurableContext], T]],
        name: str | None = None,
        config: ParallelConfig | None = None,
    ) -> BatchResult[T]:
        """Run functions side by side, each with a context of its own; a `ParallelBranch` is one with a name."""
        return self._drive(self._parallel(functions, name, config))

    def map(
        self,
        inputs: Sequence[U],
        func: Callable[[DurableContext, U, int, Sequence[U]], T],
        name: str | None = None,
        config: MapConfig[U] | None = None,
    ) -> BatchResult[T]:
        """Run `func(context, item, index, inputs)` for every item side by side, each with a context of its own."""
        return self._drive(self._map(inputs, func, name, config))


class AsyncDurableContext(BaseContext):
    """The context of an `async def` handler: every call is awaited, and its result is on disk when the `await` returns."""

    def _drive(self, call: tuple[Identity | None, Plan[T]]) -> Awaitable[T]:
        (at, plan), state = call, self._scope.state
        assert isinstance(state, async_state.AsyncState)
        driven = async_driver.drive(plan, state, self._scope, at)
        self._scope.asked(plan, driven, at)
        return driven

    def _with_retry(
        self, func: Callable[[AsyncDurableContext, int], Awaitable[T]], config: WithRetryConfig[T], name: str | None
    ) -> Awaitable[T]:
        if config.wrap_with_run_in_child_context:
            return self._drive(self._retried(func, config, name))
        return self._drive((None, retried(self, func, config, name)))

    @overload
    def step(
        self, func: Callable[[StepContext], Coroutine[Any, Any, T]], name: str | None = None, config: StepConfig | None = None
    ) -> Awaitable[T]: ...
    @overload
    def step(self, func: Callable[[StepContext], T], name: str | None = None, config: StepConfig | None = None) -> Awaitable[T]: ...
    def step(self, func: Callable[[StepContext], Any], name: str | None = None, config: StepConfig | None = None) -> Awaitable[Any]:
        """Run `func` (`async def` on the loop, `def` in a thread) and remember its result."""
        return self._drive(self._step(func, name, config))

    def wait(self, duration: Duration, name: str | None = None) -> Awaitable[None]:
        """Suspend for a while."""
        return self._drive(self._wait(duration, name))

    def create_callback(self, name: str | None = None, config: CallbackConfig | None = None) -> Awaitable[AsyncCallback[Any]]:
        """Create a callback. Give its id to the system that will answer, then await its `result()`."""
        config = config or CallbackConfig()
        at, plan = self._callback(name, config)
        return self._drive((at, self._created(at, plan, config)))

    def _created(self, at: Identity, plan: Plan[str], config: CallbackConfig) -> Plan[AsyncCallback[Any]]:
        callback_id = yield from plan
        return AsyncCallback(callback_id, lambda: self._drive((at, self._result(at, config.serdes))), at)

    def wait_for_callback(
        self,
        submitter: Callable[[str, WaitForCallbackContext], Any],
        name: str | None = None,
        config: WaitForCallbackConfig | None = None,
    ) -> Awaitable[Any]:
        """Hand a callback's id to `submitter`, and wait for the answer."""
        return self._drive(self._wait_for_callback(submitter, name, config))

    @overload
    def wait_for_condition(
        self,
        check: Callable[[T, WaitForConditionCheckContext], Coroutine[Any, Any, T]],
        config: WaitForConditionConfig[T],
        name: str | None = None,
    ) -> Awaitable[T]: ...
    @overload
    def wait_for_condition(
        self, check: Callable[[T, WaitForConditionCheckContext], T], config: WaitForConditionConfig[T], name: str | None = None
    ) -> Awaitable[T]: ...
    def wait_for_condition(
        self, check: Callable[[Any, WaitForConditionCheckContext], Any], config: WaitForConditionConfig[Any], name: str | None = None
    ) -> Awaitable[Any]:
        """Call `check` with the state it returned last, again and again, until the wait strategy stops; the last state is the result."""
        return self._drive(self._condition(check, config, name))

    def run_in_child_context(
        self, func: Callable[[AsyncDurableContext], Awaitable[T]], name: str | None = None, config: ChildConfig[T] | None = None
    ) -> Awaitable[T]:
        """Run `func` with a context of its own. Its result is recorded, so a replay does not run what is inside."""
        return self._drive(self._child(cast("Callable[[Any], T]", func), name, config))

    def invoke(
        self, function_name: str | Invocable, payload: P, name: str | None = None, config: InvokeConfig[P, R] | None = None
    ) -> Awaitable[R]:
        """Run another function as an execution of its own, and wait for its result: by its name or ARN, or the function itself."""
        return self._drive(self._invoke(function_name, payload, name, config))

    def run(
        self,
        worker: str,
        inputs: Mapping[str, Any],
        *,
        name: str | None = None,
        version: str | None = None,
        constraints: Mapping[str, Any] | None = None,
        check: bool = True,
    ) -> Awaitable[RunResponse]:
        """Run a worker, by its id or `id@version`, and wait for its response, also through approvals, retries and rate limits.

        Raises `WorkerFailed` if the status of the response is not `ok`; with `check=False` it returns such a response, too. `constraints`
        tighten the worker's limits.
        """
        return self._drive(self._run(worker, inputs, name, version, constraints, check))

    def enqueue(
        self,
        target: str | Invocable,
        input: Any = None,
        *,
        queue: str,
        key: str | None = None,
        name: str | None = None,
        version: str | None = None,
        delay: float | Duration = 0.0,
        ttl: float | Duration | None = None,
        head_start: float | Duration = 0.0,
        units: int | None = None,
    ) -> Awaitable[str]:
        """Enqueue a function, a worker or a pipeline, and get the id of its execution or run. It has no parent, and this does not wait.

        A full queue raises `EnqueueRefused`, whose `retry_after_seconds` says when to try again. Times are seconds, or a Duration.
        """
        more = {"version": version, "delay": delay, "ttl": ttl, "head_start": head_start, "units": units}
        return self._drive(self._enqueue(target, input, name, queue=queue, key=key, **more))

    def create_timer(self, duration: Duration, name: str | None = None) -> Awaitable[AsyncTimer]:
        """Begin a wait without waiting; await its `result()` later, or give it to `first_of`."""
        at, plan = self._timer(duration, name)
        return self._drive((at, self._timed(at, plan)))

    def _timed(self, at: Identity, plan: Plan[None]) -> Plan[AsyncTimer]:
        yield from plan
        return AsyncTimer(at, self._drive)

    def first_of(self, awaited: Sequence[AsyncCallback[Any] | AsyncTimer], name: str | None = None) -> Awaitable[int]:
        """Suspend until one of these callbacks and timers is over; returns its index in the list."""
        return self._drive(self._first(awaited, name))

    def parallel(
        self,
        functions: Sequence[Callable[[AsyncDurableContext], Awaitable[T]]],
        name: str | None = None,
        config: ParallelConfig | None = None,
    ) -> Awaitable[BatchResult[T]]:
        """Run functions side by side, each with a context of its own; a `ParallelBranch` is one with a name."""
        return self._drive(self._parallel(functions, name, config))

    def map(
        self,
        inputs: Sequence[U],
        func: Callable[[AsyncDurableContext, U, int, Sequence[U]], Awaitable[T]],
        name: str | None = None,
        config: MapConfig[U] | None = None,
    ) -> Awaitable[BatchResult[T]]:
        """Run `func(context, item, index, inputs)` for every item side by side, each with a context of its own."""
        return self._drive(self._map(inputs, func, name, config))

"""The contexts that handlers get, with one method for each durable call.

`DurableContext` is for `def` handlers. If AWS's SDK has the same method, the signature is the same. `AsyncDurableContext` is for `async
def` handlers: the methods have the same names, and the code awaits what they return. A durable call gets its place in the order of calls
when the code calls the method, not when it awaits the result. operation/ has the plans of the calls.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar, cast, overload

from holdfast.durable import async_driver, async_state, blocking_driver
from holdfast.durable.base_context import BaseContext
from holdfast.durable.base_context import ExecutionContext as ExecutionContext
from holdfast.durable.callback_handles import AsyncCallback as AsyncCallback
from holdfast.durable.callback_handles import AsyncTimer as AsyncTimer
from holdfast.durable.callback_handles import Callback as Callback
from holdfast.durable.callback_handles import Timer as Timer
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
from holdfast.durable.operation.callback import callback_call, callback_result
from holdfast.durable.operation.child import child_call
from holdfast.durable.operation.enqueue import enqueue_call
from holdfast.durable.operation.first_of import first_of_call
from holdfast.durable.operation.invoke import Invocable as Invocable
from holdfast.durable.operation.invoke import invoke_call
from holdfast.durable.operation.map import map_call
from holdfast.durable.operation.parallel import parallel_call
from holdfast.durable.operation.run import run_call
from holdfast.durable.operation.step import step_call
from holdfast.durable.operation.wait import timer_call, wait_call
from holdfast.durable.operation.wait_for_callback import wait_for_callback_call
from holdfast.durable.operation.wait_for_condition import condition_call
from holdfast.durable.operation.with_retry import retried, retry_call
from holdfast.durable.plan import Plan
from holdfast.durable.retries import WithRetryConfig
from holdfast.durable.run_response import RunResponse
from holdfast.durable.types import StepContext, WaitForCallbackContext, WaitForConditionCheckContext
from holdfast.durable.waits import WaitForConditionConfig

T = TypeVar("T")
U = TypeVar("U")
P = TypeVar("P")
R = TypeVar("R")


class DurableContext(BaseContext):
    """The context of a `def` handler. A durable call returns its result or raises its error.

    If a call must wait, it raises SuspendExecution to leave the handler or the branch. Later the handler runs again from its start, and the
    calls that are recorded return their recorded results (replay). `name` is the name of the operation in the history. `config` None means
    the default configuration.
    """

    def _drive(self, call: tuple[Identity, Plan[T]]) -> T:
        at, plan = call
        state = self._scope.state
        assert isinstance(state, blocking_driver.BlockingState)
        with self._scope.call(at):
            return blocking_driver.drive(plan, state)

    def _with_retry(self, func: Callable[[DurableContext, int], T], config: WithRetryConfig[T], name: str | None) -> T:
        if config.wrap_with_run_in_child_context:
            return self._drive(retry_call(self._scope, func, config, name))
        state = self._scope.state
        assert isinstance(state, blocking_driver.BlockingState)
        return blocking_driver.drive(retried(self, func, config, name), state)

    def step(self, func: Callable[[StepContext], T], name: str | None = None, config: StepConfig | None = None) -> T:
        """Run `func(step_context)`, record its result and return it. If the result is recorded, a replay returns it and does not run
        `func`. If `func` raises, the retry strategy decides whether it runs again; if not, this raises StepError. An ExecutionError is
        raised unchanged. A result that cannot be written raises SerDesError."""
        return self._drive(step_call(self._scope, func, name, config))

    def wait(self, duration: Duration, name: str | None = None) -> None:
        """Wait until `duration` (at least 1 second) has passed. The call uses no thread meanwhile."""
        self._drive(wait_call(self._scope, duration, name))

    def create_callback(self, name: str | None = None, config: CallbackConfig | None = None) -> Callback[Any]:
        """Create a callback and return it; this does not wait for the answer. Give the `callback_id` of the callback to the system that
        will answer, then call `result()` of the callback."""
        config = config or CallbackConfig()
        at, plan = callback_call(self._scope, name, config)
        callback_id, arn = self._drive((at, plan)), self._scope.state.durable_execution_arn
        return Callback(callback_id, lambda: self._drive((at, callback_result(at, config.serdes, arn))), at)

    def wait_for_callback(
        self,
        submitter: Callable[[str, WaitForCallbackContext], Any],
        name: str | None = None,
        config: WaitForCallbackConfig | None = None,
    ) -> Any:
        """Create a callback, run `submitter(callback_id, context)` as a step, wait for the answer and return it. `submitter` gives the id
        to the system that will answer. If it raises and is not tried again, this raises CallbackSubmitterError; an ExecutionError is raised
        unchanged. If the callback fails or times out, this raises the errors that `Callback.result()` raises. A value that cannot be
        written or read raises SerDesError. If the retry strategy itself raises, this raises ChildContextError."""
        return self._drive(wait_for_callback_call(self._scope, submitter, name, config))

    def wait_for_condition(
        self, check: Callable[[T, WaitForConditionCheckContext], T], config: WaitForConditionConfig[T], name: str | None = None
    ) -> T:
        """Call `check` again and again, with waits between the calls, until the wait strategy says stop; return the state that the last
        call returned.

        The first call gets `config.initial_state`, each later call the state that the call before it returned. If `check` or the strategy
        raises, this raises WaitForConditionError.
        """
        return self._drive(condition_call(self._scope, check, config, name))

    def run_in_child_context(self, func: Callable[[DurableContext], T], name: str | None = None, config: ChildConfig[T] | None = None) -> T:
        """Run `func` with a context of its own, record its result and return it. If `func` raises, this raises ChildContextError; only a
        SerDesError is raised as SerDesError, and an ExecutionError unchanged. A replay runs `func` again only if it had not ended, its
        result was too large to store, or the context is virtual."""
        return self._drive(child_call(self._scope, func, name, config))

    def invoke(self, function_name: str | Invocable, payload: P, name: str | None = None, config: InvokeConfig[P, R] | None = None) -> R:
        """Start another function as an execution of its own, wait for its end and return its result. `function_name` is a name, an ARN or
        the function itself; `payload` is the input. Raises InvokeError if the execution cannot be started, fails, times out or is
        stopped."""
        return self._drive(invoke_call(self._scope, function_name, payload, name, config))

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
        """Run the worker with this id (or `id@version`), wait for the response and return it. The wait includes approvals, retries and
        pauses because of rate limits. The call uses no thread meanwhile.

        If the status of the response is not `ok`, this raises `WorkerFailed`; with `check=False` it returns the response instead.
        `constraints` are tighter limits for this run. Raises RunUnavailable in a process that has no engine, or whose engine serves no
        workers.
        """
        return self._drive(run_call(self._scope, worker, inputs, name, version, constraints, check))

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
        """Put a function, a worker or a pipeline into a queue, and return the id of the new execution or run. This does not wait until the
        new execution runs, and a stop of this execution does not stop the new one. `key` names a lane of the queue. `delay` (after how long
        the new execution enters the lane), `ttl` (how long it may wait there; None: as long as the queue's settings say) and `head_start`
        (its priority: it counts as enqueued this much earlier; an ordered queue ignores it) are seconds or a Duration. `units`: its
        estimated number of tokens. Raises `EnqueueRefused` if it is refused; `retry_after_seconds` of the error is None unless the queue
        accepts nothing now. Raises RunUnavailable in a process that has no engine."""
        more = {"version": version, "delay": delay, "ttl": ttl, "head_start": head_start, "units": units}
        return self._drive(enqueue_call(self._scope, target, input, name, queue=queue, key=key, **more))

    def create_timer(self, duration: Duration, name: str | None = None) -> Timer:
        """Begin a wait of `duration` (at least 1 second), and return its Timer; the code continues while the time passes. Call `result()`
        of the timer later, or pass the timer to `first_of`."""
        at, plan = timer_call(self._scope, duration, name)
        self._drive((at, plan))
        return Timer(at, self._drive)

    def first_of(self, awaited: Sequence[Callback[Any] | Timer], name: str | None = None) -> int:
        """Wait until at least one of these callbacks and timers has ended, and return the index in `awaited` of the one that ended first. A
        failed callback and a cancelled timer have ended, too."""
        return self._drive(first_of_call(self._scope, awaited, name))

    def parallel(
        self,
        functions: Sequence[Callable[[DurableContext], T]],
        name: str | None = None,
        config: ParallelConfig | None = None,
    ) -> BatchResult[T]:
        """Run functions concurrently, each with a context of its own, and return when `config.completion_config` says that the batch is
        complete. The BatchResult also has the failures. To give a branch a name, pass a `ParallelBranch`."""
        return self._drive(parallel_call(self._scope, functions, name, config))

    def map(
        self,
        inputs: Sequence[U],
        func: Callable[[DurableContext, U, int, Sequence[U]], T],
        name: str | None = None,
        config: MapConfig[U] | None = None,
    ) -> BatchResult[T]:
        """Run `func(context, item, index, inputs)` for the items of `inputs` concurrently, each with a context of its own, and return when
        `config.completion_config` says that the batch is complete. The BatchResult also has the failures."""
        return self._drive(map_call(self._scope, inputs, func, name, config))


class AsyncDurableContext(BaseContext):
    """The context of an `async def` handler. Each durable call returns an awaitable. A call gets its place in the order of calls when the
    code calls the method; it begins when the code awaits it or a task runs it.

    The calls do the same as those of `DurableContext` and raise the same errors. `name` is the name of the operation in the history.
    `config` None means the default configuration.
    """

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
            return self._drive(retry_call(self._scope, func, config, name))
        return self._drive((None, retried(self, func, config, name)))

    @overload
    def step(
        self, func: Callable[[StepContext], Coroutine[Any, Any, T]], name: str | None = None, config: StepConfig | None = None
    ) -> Awaitable[T]: ...
    @overload
    def step(self, func: Callable[[StepContext], T], name: str | None = None, config: StepConfig | None = None) -> Awaitable[T]: ...
    def step(self, func: Callable[[StepContext], Any], name: str | None = None, config: StepConfig | None = None) -> Awaitable[Any]:
        """Run `func(step_context)`, record its result and return it. An `async def` runs on the event loop, a `def` in a thread."""
        return self._drive(step_call(self._scope, func, name, config))

    def wait(self, duration: Duration, name: str | None = None) -> Awaitable[None]:
        """Wait until `duration` (at least 1 second) has passed."""
        return self._drive(wait_call(self._scope, duration, name))

    def create_callback(self, name: str | None = None, config: CallbackConfig | None = None) -> Awaitable[AsyncCallback[Any]]:
        """Create a callback and return it; this does not wait for the answer. Give the `callback_id` of the callback to the system that
        will answer, then await `result()` of the callback."""
        config = config or CallbackConfig()
        at, plan = callback_call(self._scope, name, config)
        return self._drive((at, self._created(at, plan, config)))

    def _created(self, at: Identity, plan: Plan[str], config: CallbackConfig) -> Plan[AsyncCallback[Any]]:
        callback_id, arn = (yield from plan), self._scope.state.durable_execution_arn
        return AsyncCallback(callback_id, lambda: self._drive((at, callback_result(at, config.serdes, arn))), at)

    def wait_for_callback(
        self,
        submitter: Callable[[str, WaitForCallbackContext], Any],
        name: str | None = None,
        config: WaitForCallbackConfig | None = None,
    ) -> Awaitable[Any]:
        """Create a callback, run `submitter(callback_id, context)` as a step, wait for the answer and return it."""
        return self._drive(wait_for_callback_call(self._scope, submitter, name, config))

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
        """Call `check` again and again, with waits between the calls, until the wait strategy says stop; return the state that the last
        call returned. The first call gets `config.initial_state`, each later call the state that the call before it returned."""
        return self._drive(condition_call(self._scope, check, config, name))

    def run_in_child_context(
        self, func: Callable[[AsyncDurableContext], Awaitable[T]], name: str | None = None, config: ChildConfig[T] | None = None
    ) -> Awaitable[T]:
        """Run `func` with a context of its own, record its result and return it. A replay runs `func` again only if it had not ended, its
        result was too large to store, or the context is virtual."""
        return self._drive(child_call(self._scope, cast("Callable[[Any], T]", func), name, config))

    def invoke(
        self, function_name: str | Invocable, payload: P, name: str | None = None, config: InvokeConfig[P, R] | None = None
    ) -> Awaitable[R]:
        """Start another function (a name, an ARN or the function itself) as an execution of its own, with the input `payload`; wait for its
        end and return its result."""
        return self._drive(invoke_call(self._scope, function_name, payload, name, config))

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
        """Run the worker with this id (or `id@version`), wait for the response and return it. If the status of the response is not `ok`,
        raise `WorkerFailed`; with `check=False` return the response instead. `constraints` are tighter limits for this run."""
        return self._drive(run_call(self._scope, worker, inputs, name, version, constraints, check))

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
        """Put a function, a worker or a pipeline into a queue, and return the id of the new execution or run. This does not wait until the
        new execution runs, and a stop of this execution does not stop the new one. `key` names a lane of the queue. `delay` (after how long
        the new execution enters the lane), `ttl` (how long it may wait there; None: as long as the queue's settings say) and `head_start`
        (its priority: it counts as enqueued this much earlier; an ordered queue ignores it) are seconds or a Duration. `units`: its
        estimated number of tokens. Raises `EnqueueRefused` if it is refused; `retry_after_seconds` of the error is None unless the queue
        accepts nothing now."""
        more = {"version": version, "delay": delay, "ttl": ttl, "head_start": head_start, "units": units}
        return self._drive(enqueue_call(self._scope, target, input, name, queue=queue, key=key, **more))

    def create_timer(self, duration: Duration, name: str | None = None) -> Awaitable[AsyncTimer]:
        """Begin a wait of `duration` (at least 1 second), and return its AsyncTimer; the code continues while the time passes. Await
        `result()` of the timer later, or pass the timer to `first_of`."""
        at, plan = timer_call(self._scope, duration, name)
        return self._drive((at, self._timed(at, plan)))

    def _timed(self, at: Identity, plan: Plan[None]) -> Plan[AsyncTimer]:
        yield from plan
        return AsyncTimer(at, self._drive)

    def first_of(self, awaited: Sequence[AsyncCallback[Any] | AsyncTimer], name: str | None = None) -> Awaitable[int]:
        """Wait until at least one of these callbacks and timers has ended, and return the index in `awaited` of the one that ended first. A
        failed callback and a cancelled timer have ended, too."""
        return self._drive(first_of_call(self._scope, awaited, name))

    def parallel(
        self,
        functions: Sequence[Callable[[AsyncDurableContext], Awaitable[T]]],
        name: str | None = None,
        config: ParallelConfig | None = None,
    ) -> Awaitable[BatchResult[T]]:
        """Run functions concurrently, each with a context of its own, and return when `config.completion_config` says that the batch is
        complete. The BatchResult also has the failures. To give a branch a name, pass a `ParallelBranch`."""
        return self._drive(parallel_call(self._scope, functions, name, config))

    def map(
        self,
        inputs: Sequence[U],
        func: Callable[[AsyncDurableContext, U, int, Sequence[U]], Awaitable[T]],
        name: str | None = None,
        config: MapConfig[U] | None = None,
    ) -> Awaitable[BatchResult[T]]:
        """Run `func(context, item, index, inputs)` for the items of `inputs` concurrently, each with a context of its own, and return when
        `config.completion_config` says that the batch is complete. The BatchResult also has the failures."""
        return self._drive(map_call(self._scope, inputs, func, name, config))

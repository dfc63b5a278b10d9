"""The contexts that handlers are given: thin doors to the plans, one for each colour.

`DurableContext` is for `def` handlers and has the official SDK's signatures; `AsyncDurableContext` is for `async def` handlers: the
same names, to be awaited. Every call takes its place in the order at once, before anything is awaited.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar, cast, overload

from holdfast.durable import awaiting, blocking
from holdfast.durable.concurrency.models import BatchResult
from holdfast.durable.config import (
    CallbackConfig,
    ChildConfig,
    MapConfig,
    ParallelConfig,
    StepConfig,
    WaitForCallbackConfig,
)
from holdfast.durable.decorators import durable_parallel_branch as durable_parallel_branch
from holdfast.durable.decorators import durable_step as durable_step
from holdfast.durable.decorators import durable_wait_for_callback as durable_wait_for_callback
from holdfast.durable.decorators import durable_with_child_context as durable_with_child_context
from holdfast.durable.decorators import named
from holdfast.durable.delays import Duration
from holdfast.durable.exceptions import SuspendExecution, ValidationError
from holdfast.durable.identifier import Identity
from holdfast.durable.logger import Logger, LogInfo
from holdfast.durable.operation.callback import callback_result, create_callback
from holdfast.durable.operation.child import child
from holdfast.durable.operation.map import map_items
from holdfast.durable.operation.parallel import parallel
from holdfast.durable.operation.step import step
from holdfast.durable.operation.wait import wait
from holdfast.durable.operation.wait_for_callback import wait_for_callback
from holdfast.durable.operation.wait_for_condition import Check, wait_for_condition
from holdfast.durable.operation.with_retry import retried, retried_inside
from holdfast.durable.plan import Plan
from holdfast.durable.protocols import LoggerInterface, SerDes
from holdfast.durable.retries import WithRetryConfig
from holdfast.durable.scope import Scope
from holdfast.durable.types import LambdaContext, StepContext, WaitForCallbackContext, WaitForConditionCheckContext
from holdfast.durable.waits import WaitForConditionConfig
from holdfast.model.operations import SubType, Type

T = TypeVar("T")
U = TypeVar("U")

_PLAIN_STEP = StepConfig()


@dataclass(frozen=True)
class ExecutionContext:
    """What a handler may know of its execution."""

    durable_execution_arn: str


class Callback(Generic[T]):
    """A callback in a `def` handler: its id to hand out, and its answer."""

    def __init__(self, callback_id: str, result: Callable[[], T | None]) -> None:
        self.callback_id = callback_id
        self._result = result

    def result(self) -> T | None:
        """The answer; suspends until it is there."""
        return self._result()


class AsyncCallback(Generic[T]):
    """A callback in an `async def` handler."""

    def __init__(self, callback_id: str, result: Callable[[], Awaitable[T | None]]) -> None:
        self.callback_id = callback_id
        self._result = result

    def result(self) -> Awaitable[T | None]:
        """The answer; suspends until it is there."""
        return self._result()


class _Context:
    """What both colours have: names, time and chance that replay the same, and the plans of the operations."""

    def __init__(self, scope: Scope, lambda_context: LambdaContext | None = None) -> None:
        self._scope = scope
        self.lambda_context = lambda_context
        self.execution_context = ExecutionContext(scope.state.durable_execution_arn)

    @property
    def logger(self) -> Logger:
        """Logs with the execution's fields; silent while this context replays."""
        return self._scope.logger

    def set_logger(self, new_logger: LoggerInterface) -> None:
        """Log through another logger."""
        scope = self._scope
        scope.logger = Logger.from_log_info(new_logger, LogInfo(scope.state, scope.parent_id), scope.is_replaying)

    def is_replaying(self) -> bool:
        """Whether this context still repeats what an earlier invocation did."""
        return self._scope.replaying

    def now(self) -> datetime:
        """The service's time at the latest operation this context has come back from: the same on every replay."""
        return self._scope.now()

    def uuid(self) -> uuid.UUID:
        """An id that is the same on every replay."""
        return self._scope.uuid()

    def random(self) -> float:
        """A number from 0 up to 1 that is the same on every replay."""
        return self._scope.random()

    def remaining(self) -> timedelta:
        """How long until the execution times out."""
        return self._scope.remaining()

    # --- the plans: an identity is taken at the call

    def _step(self, func: Callable[[StepContext], T], name: str | None, config: StepConfig | None) -> tuple[Identity, Plan[T]]:
        config = config or _PLAIN_STEP
        at = self._scope.next_identity(Type.STEP, config.sub_type or SubType.STEP.value, named(name, func))
        return at, step(at, self._scope, func, config)

    def _wait(self, duration: Duration, name: str | None) -> tuple[Identity, Plan[None]]:
        seconds = duration.to_seconds()
        if seconds < 1:
            raise ValidationError("duration must be at least 1 second")
        at = self._scope.next_identity(Type.WAIT, SubType.WAIT.value, name)
        return at, wait(at, seconds)

    def _callback(self, name: str | None, config: CallbackConfig) -> tuple[Identity, Plan[str]]:
        at = self._scope.next_identity(Type.CALLBACK, config.sub_type or SubType.CALLBACK.value, name)
        return at, create_callback(at, config)

    def _result(self, at: Identity, serdes: SerDes[Any] | None) -> Plan[Any]:
        return callback_result(at, serdes, self._scope.state.durable_execution_arn)

    def _wait_for_callback(
        self, submitter: Callable[[str, WaitForCallbackContext], Any], name: str | None, config: WaitForCallbackConfig | None
    ) -> tuple[Identity, Plan[Any]]:
        at = self._scope.next_identity(Type.CONTEXT, SubType.WAIT_FOR_CALLBACK.value, named(name, submitter))
        return at, wait_for_callback(at, self._scope, submitter, config or WaitForCallbackConfig())

    def _condition(self, check: Check[T], config: WaitForConditionConfig[T], name: str | None) -> tuple[Identity, Plan[T]]:
        for given, what in ((check, "check"), (config, "config")):
            if given is None:
                raise ValidationError(f"`{what}` is required for wait_for_condition")
        at = self._scope.next_identity(Type.STEP, SubType.WAIT_FOR_CONDITION.value, name)
        return at, wait_for_condition(at, self._scope, check, config)

    def _child(self, func: Callable[[Any], T], name: str | None, config: ChildConfig[T] | None) -> tuple[Identity, Plan[T]]:
        config = config or ChildConfig()
        at = self._scope.next_identity(Type.CONTEXT, config.sub_type or SubType.RUN_IN_CHILD_CONTEXT.value, named(name, func))
        return at, child(at, self._scope, func, config)

    def _retried(self, func: Callable[..., Any], config: WithRetryConfig[T], name: str | None) -> tuple[Identity, Plan[T]]:
        child = config.child_context_config or ChildConfig()
        at = self._scope.next_identity(Type.CONTEXT, child.sub_type or SubType.RUN_IN_CHILD_CONTEXT.value, name or None)
        return at, retried_inside(at, self._scope, func, config, child)

    def _parallel(
        self, functions: Sequence[Any], name: str | None, config: ParallelConfig | None
    ) -> tuple[Identity, Plan[BatchResult[Any]]]:
        if config is not None:
            config.completion_config.validate_for_total(len(functions))
        at = self._scope.next_identity(Type.CONTEXT, SubType.PARALLEL.value, name)
        return at, parallel(at, self._scope, functions, config or ParallelConfig())

    def _map(
        self, inputs: Sequence[Any], func: Callable[..., Any], name: str | None, config: MapConfig[Any] | None
    ) -> tuple[Identity, Plan[BatchResult[Any]]]:
        if config is not None:
            config.completion_config.validate_for_total(len(inputs))
        at = self._scope.next_identity(Type.CONTEXT, SubType.MAP.value, named(name, func))
        return at, map_items(at, self._scope, inputs, func, config or MapConfig())


class DurableContext(_Context):
    """The context of a `def` handler: every call returns when its result is on disk."""

    def _drive(self, call: tuple[Identity, Plan[T]]) -> T:
        at, plan = call
        state = self._scope.state
        assert isinstance(state, blocking.BlockingState)
        with self._scope.call(at):
            return blocking.drive(plan, state)

    def _with_retry(self, func: Callable[[DurableContext, int], T], config: WithRetryConfig[T], name: str | None) -> T:
        if config.wrap_with_run_in_child_context:
            return self._drive(self._retried(func, config, name))
        state = self._scope.state
        assert isinstance(state, blocking.BlockingState)
        return blocking.drive(retried(self, func, config, name), state)

    def step(self, func: Callable[[StepContext], T], name: str | None = None, config: StepConfig | None = None) -> T:
        """Run `func` and remember its result; a replay returns it without running anything."""
        return self._drive(self._step(func, name, config))

    def wait(self, duration: Duration, name: str | None = None) -> None:
        """Suspend for a while, without using a thread."""
        self._drive(self._wait(duration, name))

    def create_callback(self, name: str | None = None, config: CallbackConfig | None = None) -> Callback[Any]:
        """A callback: hand out its id, then ask for its `result()`."""
        config = config or CallbackConfig()
        at, plan = self._callback(name, config)
        callback_id = self._drive((at, plan))
        return Callback(callback_id, lambda: self._drive((at, self._result(at, config.serdes))))

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
        """Call `check` with the state it returned last, again and again, until the strategy is content; the state is the result."""
        return self._drive(self._condition(check, config, name))

    def run_in_child_context(self, func: Callable[[DurableContext], T], name: str | None = None, config: ChildConfig[T] | None = None) -> T:
        """Run `func` with a context of its own; its result stands for all that happened in it."""
        return self._drive(self._child(func, name, config))

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


class AsyncDurableContext(_Context):
    """The context of an `async def` handler: every call is awaited, and has its result on disk then."""

    def _drive(self, call: tuple[Identity, Plan[T]]) -> Awaitable[T]:
        return self._driven(*call)

    async def _driven(self, at: Identity, plan: Plan[T]) -> T:
        scope = self._scope
        state = scope.state
        assert isinstance(state, awaiting.AsyncState)
        resumed = scope.began(at)
        try:
            return await awaiting.drive(plan, state)
        except SuspendExecution:
            scope.suspended = True
            raise
        finally:
            scope.ended(at, resumed=resumed)

    def _with_retry(
        self, func: Callable[[AsyncDurableContext, int], Awaitable[T]], config: WithRetryConfig[T], name: str | None
    ) -> Awaitable[T]:
        if config.wrap_with_run_in_child_context:
            return self._drive(self._retried(func, config, name))
        state = self._scope.state
        assert isinstance(state, awaiting.AsyncState)
        return awaiting.drive(retried(self, func, config, name), state)

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
        """A callback: hand out its id, then await its `result()`."""
        config = config or CallbackConfig()
        return self._created(*self._callback(name, config), config)

    async def _created(self, at: Identity, plan: Plan[str], config: CallbackConfig) -> AsyncCallback[Any]:
        callback_id = await self._driven(at, plan)
        return AsyncCallback(callback_id, lambda: self._drive((at, self._result(at, config.serdes))))

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
        """Call `check` with the state it returned last, again and again, until the strategy is content; the state is the result."""
        return self._drive(self._condition(check, config, name))

    def run_in_child_context(
        self, func: Callable[[AsyncDurableContext], Awaitable[T]], name: str | None = None, config: ChildConfig[T] | None = None
    ) -> Awaitable[T]:
        """Run `func` with a context of its own; its result stands for all that happened in it."""
        return self._drive(self._child(cast("Callable[[Any], T]", func), name, config))

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

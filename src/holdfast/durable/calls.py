"""What contexts of both colours have: names, time and chance that replay the same, and the plan of every call."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NoReturn, Protocol, TypeVar

from holdfast.durable import checking, hints
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
from holdfast.durable.decorators import named
from holdfast.durable.delays import Duration
from holdfast.durable.exceptions import ValidationError
from holdfast.durable.identifier import Identity
from holdfast.durable.interrupts import ContinueAsNew
from holdfast.durable.logger import Logger
from holdfast.durable.operation.callback import callback_result, create_callback
from holdfast.durable.operation.child import child
from holdfast.durable.operation.first_of import SUB_TYPE as FIRST_OF
from holdfast.durable.operation.first_of import first_of
from holdfast.durable.operation.invoke import invoke
from holdfast.durable.operation.map import map_items
from holdfast.durable.operation.parallel import branch_names, parallel
from holdfast.durable.operation.step import step
from holdfast.durable.operation.wait import started, wait
from holdfast.durable.operation.wait_for_callback import wait_for_callback
from holdfast.durable.operation.wait_for_condition import Check, wait_for_condition
from holdfast.durable.operation.with_retry import retried_inside
from holdfast.durable.plan import Plan
from holdfast.durable.protocols import LoggerInterface, SerDes
from holdfast.durable.retries import WithRetryConfig
from holdfast.durable.scope import Scope
from holdfast.durable.types import LambdaContext, StepContext, WaitForCallbackContext
from holdfast.durable.waits import WaitForConditionConfig
from holdfast.model import codec
from holdfast.model.operations import SubType, Type
from holdfast.model.typed import without_models

T = TypeVar("T")

_PLAIN_STEP = StepConfig()


class Invocable(Protocol):
    """A durable or plain function of this program, as `context.invoke` takes it instead of a name."""

    name: str
    version: str
    handler: Callable[..., Any]


class Awaited(Protocol):
    """Something that ends by itself: a callback or a timer."""

    @property
    def at(self) -> Identity: ...


@dataclass(frozen=True)
class ExecutionContext:
    """What a handler may know of its execution."""

    durable_execution_arn: str


class Calls:
    """What both colours have: names, time and chance that replay the same, and the plans of the operations."""

    def __init__(self, scope: Scope, lambda_context: LambdaContext | None = None) -> None:
        self._scope = scope
        self.lambda_context = lambda_context

    @property
    def execution_context(self) -> ExecutionContext:
        """What this handler may know of its execution."""
        return ExecutionContext(self._scope.state.durable_execution_arn)

    @property
    def logger(self) -> Logger:
        """Logs with the execution's fields; silent while this context replays."""
        return self._scope.logger

    def set_logger(self, new_logger: LoggerInterface) -> None:
        """Log through another logger."""
        self._scope.log_to(new_logger)

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

    def patched(self, name: str) -> bool:
        """Whether to run the changed code, for a change that executions under way must survive; not awaited in either colour.

        True in an execution that gets here for the first time, and from then on at every replay of it: a marker of this name is
        recorded. False in an execution whose history goes on without the marker: it has been here with the code from before. All calls
        of one name in one context have one answer.
        """
        if not checking.text(name, "patched", "name"):
            raise ValidationError("patched: the name of the change is empty.")
        checked = checking.name(name, "patched")
        return self._scope.patched(checked or name)

    def continue_as_new(self, input: Any = None) -> NoReturn:
        """End this execution here and go on as a new one with this input and an empty history: for loops that never end.

        Whoever waits for the result waits for the last one's. Only on a Holdfast engine, and only from the handler's own context.
        """
        if self._scope.prefix is not None:
            raise ValidationError("continue_as_new: only the handler itself can continue as new, not a branch or a child context")
        continuation = ContinueAsNew(codec.dumps(without_models(input)))
        self._scope.continuing = True
        raise continuation

    # --- the plans: an identity is taken at the call

    def _step(self, func: Callable[[StepContext], T], name: str | None, config: StepConfig | None) -> tuple[Identity, Plan[T]]:
        checking.function(func, "step")
        config, name = config or _PLAIN_STEP, checking.name(name, "step")
        at = self._scope.next_identity(Type.STEP, config.sub_type or SubType.STEP.value, named(name, func))
        return at, step(at, self._scope, func, config)

    def _wait(self, duration: Duration, name: str | None) -> tuple[Identity, Plan[None]]:
        seconds, name = _at_least_a_second(duration, "wait"), checking.name(name, "wait")
        at = self._scope.next_identity(Type.WAIT, SubType.WAIT.value, name)
        return at, wait(at, seconds)

    def _callback(self, name: str | None, config: CallbackConfig) -> tuple[Identity, Plan[str]]:
        name = checking.name(name, "create_callback")
        _check_times(config, "create_callback")
        at = self._scope.next_identity(Type.CALLBACK, config.sub_type or SubType.CALLBACK.value, name)
        return at, create_callback(at, config)

    def _result(self, at: Identity, serdes: SerDes[Any] | None) -> Plan[Any]:
        return callback_result(at, serdes, self._scope.state.durable_execution_arn)

    def _wait_for_callback(
        self, submitter: Callable[[str, WaitForCallbackContext], Any], name: str | None, config: WaitForCallbackConfig | None
    ) -> tuple[Identity, Plan[Any]]:
        checking.function(submitter, "wait_for_callback", "its submitter")
        config, name = config or WaitForCallbackConfig(), checking.name(name, "wait_for_callback")
        _check_times(config, "wait_for_callback")
        at = self._scope.next_identity(Type.CONTEXT, SubType.WAIT_FOR_CALLBACK.value, named(name, submitter))
        return at, wait_for_callback(at, self._scope, submitter, config)

    def _condition(self, check: Check[T], config: WaitForConditionConfig[T], name: str | None) -> tuple[Identity, Plan[T]]:
        for given, what in ((check, "check"), (config, "config")):
            if given is None:
                raise ValidationError(f"`{what}` is required for wait_for_condition")
        checking.function(check, "wait_for_condition", "its check")
        name = checking.name(name, "wait_for_condition")
        at = self._scope.next_identity(Type.STEP, SubType.WAIT_FOR_CONDITION.value, name)
        return at, wait_for_condition(at, self._scope, check, config)

    def _child(self, func: Callable[[Any], T], name: str | None, config: ChildConfig[T] | None) -> tuple[Identity, Plan[T]]:
        checking.function(func, "run_in_child_context")
        config, name = config or ChildConfig(), checking.name(name, "run_in_child_context")
        at = self._scope.next_identity(Type.CONTEXT, config.sub_type or SubType.RUN_IN_CHILD_CONTEXT.value, named(name, func))
        return at, child(at, self._scope, func, config)

    def _retried(self, func: Callable[..., Any], config: WithRetryConfig[T], name: str | None) -> tuple[Identity, Plan[T]]:
        checking.function(func, "with_retry")
        child, name = config.child_context_config or ChildConfig(), checking.name(name, "with_retry")
        at = self._scope.next_identity(Type.CONTEXT, child.sub_type or SubType.RUN_IN_CHILD_CONTEXT.value, name or None)
        return at, retried_inside(at, self._scope, func, config, child)

    def _invoke(
        self, function_name: str | Invocable, payload: Any, name: str | None, config: InvokeConfig[Any, T] | None
    ) -> tuple[Identity, Plan[T]]:
        config, name = config or InvokeConfig(), checking.name(name, "invoke")
        typing = hints.typing_of(getattr(function_name, "handler", None))  # of a function object
        function_name = checking.address(_address(function_name), "invoke", "function_name")
        checking.optional_text(config.tenant_id, "invoke", "tenant_id")
        at = self._scope.next_identity(Type.CHAINED_INVOKE, SubType.CHAINED_INVOKE.value, name)
        return at, invoke(at, self._scope, function_name, payload, config, typing)

    def _timer(self, duration: Duration, name: str | None) -> tuple[Identity, Plan[None]]:
        seconds, name = _at_least_a_second(duration, "create_timer"), checking.name(name, "create_timer")
        at = self._scope.next_identity(Type.WAIT, SubType.WAIT.value, name)
        return at, started(at, seconds)

    def _first(self, awaited: Sequence[Awaited], name: str | None) -> tuple[Identity, Plan[int]]:
        if not awaited:
            raise ValidationError("first_of needs at least one callback or timer")
        places = [getattr(one, "at", None) for one in awaited]
        for one, place in zip(awaited, places, strict=True):
            if not isinstance(place, Identity):
                raise ValidationError(f"first_of: {checking.shown(one)} is no callback and no timer of this context.")
        at = self._scope.next_identity(Type.CONTEXT, FIRST_OF, checking.name(name, "first_of"))
        return at, first_of(at, self._scope, [one.at for one in awaited])

    def _parallel(
        self, functions: Sequence[Any], name: str | None, config: ParallelConfig | None
    ) -> tuple[Identity, Plan[BatchResult[Any]]]:
        if config is not None:
            config.completion_config.validate_for_total(len(functions))
        for number, function in enumerate(functions):
            checking.function(function, "parallel", f"branch {number}")
        branch_names(functions)
        at = self._scope.next_identity(Type.CONTEXT, SubType.PARALLEL.value, checking.name(name, "parallel"))
        return at, parallel(at, self._scope, functions, config or ParallelConfig())

    def _map(
        self, inputs: Sequence[Any], func: Callable[..., Any], name: str | None, config: MapConfig[Any] | None
    ) -> tuple[Identity, Plan[BatchResult[Any]]]:
        if config is not None:
            config.completion_config.validate_for_total(len(inputs))
        checking.function(func, "map")
        at = self._scope.next_identity(Type.CONTEXT, SubType.MAP.value, named(checking.name(name, "map"), func))
        return at, map_items(at, self._scope, inputs, func, config or MapConfig())


def _address(function: object) -> object:
    """A function of this program by its name and version; anything else as it was given."""
    if isinstance(function, str) or not callable(getattr(function, "handler", None)):
        return function
    return f"{getattr(function, 'name', '')}:{getattr(function, 'version', '')}"


def _check_times(config: CallbackConfig, call: str) -> None:
    checking.seconds(config.timeout, call, "timeout")
    checking.seconds(config.heartbeat_timeout, call, "heartbeat_timeout")


def _at_least_a_second(duration: Duration, call: str) -> int:
    seconds = checking.seconds(duration, call)
    if seconds < 1:
        refusal = ValidationError("duration must be at least 1 second")
        refusal.tells_line = True  # AWS's own sentence, to the letter: histories must not differ
        raise refusal
    return seconds

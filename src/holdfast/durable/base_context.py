"""The base of both contexts (`def` and `async def`): time, ids and random numbers that are the same in every replay, and the plan (plan.py)
of every durable call."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NoReturn, Protocol, TypeVar

from holdfast.durable import argument_checks, hints
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
from holdfast.durable.enqueue_refusal import enqueue_asked
from holdfast.durable.exceptions import ValidationError
from holdfast.durable.identifier import Identity
from holdfast.durable.interrupts import ContinueAsNew
from holdfast.durable.logger import Logger
from holdfast.durable.operation.callback import callback_result, create_callback
from holdfast.durable.operation.child import child
from holdfast.durable.operation.enqueue import enqueue
from holdfast.durable.operation.first_of import SUB_TYPE as FIRST_OF
from holdfast.durable.operation.first_of import first_of
from holdfast.durable.operation.invoke import invoke
from holdfast.durable.operation.map import map_items
from holdfast.durable.operation.parallel import branch_names, parallel
from holdfast.durable.operation.run import run
from holdfast.durable.operation.step import step
from holdfast.durable.operation.wait import started, wait
from holdfast.durable.operation.wait_for_callback import wait_for_callback
from holdfast.durable.operation.wait_for_condition import Check, wait_for_condition
from holdfast.durable.operation.with_retry import retried_inside
from holdfast.durable.plan import Plan
from holdfast.durable.protocols import LoggerInterface, SerDes
from holdfast.durable.retries import WithRetryConfig
from holdfast.durable.run_arguments import run_asked
from holdfast.durable.run_response import RunResponse
from holdfast.durable.scope import Scope
from holdfast.durable.types import LambdaContext, StepContext, WaitForCallbackContext
from holdfast.durable.waits import WaitForConditionConfig
from holdfast.model import codec
from holdfast.model.operations import ENQUEUE, RUN, SubType, Type
from holdfast.model.typed import without_models

T = TypeVar("T")

_PLAIN_STEP = StepConfig()


class Invocable(Protocol):
    """A durable or plain function of this program. `context.invoke` and `context.enqueue` accept it in place of a name."""

    name: str
    version: str
    handler: Callable[..., Any]


class Awaited(Protocol):
    """A callback or a timer: an element of the list that `first_of` accepts."""

    @property
    def at(self) -> Identity: ...


@dataclass(frozen=True)
class ExecutionContext:
    """What a handler can read about its execution: the ARN."""

    durable_execution_arn: str


class BaseContext:
    """The base of both contexts: time, ids and random numbers that are the same in every replay, and the plans of the durable calls."""

    def __init__(self, scope: Scope, lambda_context: LambdaContext | None = None) -> None:
        self._scope = scope
        self.lambda_context = lambda_context

    @property
    def execution_context(self) -> ExecutionContext:
        """What this handler can read about its execution: the ARN."""
        return ExecutionContext(self._scope.state.durable_execution_arn)

    @property
    def logger(self) -> Logger:
        """A logger that adds the execution's fields to each line. It writes nothing while this context replays."""
        return self._scope.logger

    def set_logger(self, new_logger: LoggerInterface) -> None:
        """Use this logger for the lines of this context, and of the contexts that it makes later."""
        self._scope.log_to(new_logger)

    def is_replaying(self) -> bool:
        """Whether this context still repeats the calls of an earlier invocation."""
        return self._scope.replaying

    def now(self) -> datetime:
        """The service's time at this context's latest durable call: when its operation ended; after `create_callback` and `create_timer`,
        when it began. Before the first call of a child context: the time of the context around it. Before the first call of the handler:
        when the execution began. The same in every replay."""
        return self._scope.now()

    def uuid(self) -> uuid.UUID:
        """A new UUID at each call. A replay gets the same UUIDs in the same order."""
        return self._scope.uuid()

    def random(self) -> float:
        """A random number at each call, from 0 up to but not including 1. A replay gets the same numbers in the same order."""
        return self._scope.random()

    def remaining(self) -> timedelta:
        """How long until the execution times out; zero if that time has passed. Differs between replays."""
        return self._scope.remaining()

    def patched(self, name: str) -> bool:
        """Whether this execution runs the changed code: write `if context.patched("name"):` around a change, so that executions which began
        with the old code can continue. Do not await it.

        True if the execution reaches this call for the first time: it records a marker with this name. Also True in every replay that finds
        the marker. False if the history continues after this point without the marker: an earlier invocation passed this point with the old
        code. All calls with one name in one context give the same answer. Raises ValidationError if the name is empty or not allowed.
        """
        if not argument_checks.text(name, "patched", "name"):
            raise ValidationError('patched: the name of the change is empty. Give it a name: `context.patched("new-tax")`.')
        checked = argument_checks.name(name, "patched")
        return self._scope.patched(checked or name)

    def continue_as_new(self, input: Any = None) -> NoReturn:
        """End this execution, and start a new one with this input and an empty history. For loops that never end.

        This raises ContinueAsNew to leave the handler: do not catch it. A caller that waits for the result gets the result of the last
        execution. Raises ValidationError in a branch or a child context. On AWS Lambda the execution fails: only a Holdfast engine can
        start the new one.
        """
        if self._scope.prefix is not None:
            raise ValidationError("continue_as_new: only the handler itself can continue as new, not a branch or a child context.")
        continuation = ContinueAsNew(codec.dumps(without_models(input)))
        self._scope.continuing = True
        raise continuation

    # --- the plans: each method takes the identity of its call at once; a driver runs the plan later

    def _step(self, func: Callable[[StepContext], T], name: str | None, config: StepConfig | None) -> tuple[Identity, Plan[T]]:
        argument_checks.function(func, "step")
        config, name = config or _PLAIN_STEP, argument_checks.name(name, "step")
        at = self._scope.next_identity(Type.STEP, config.sub_type or SubType.STEP.value, named(name, func))
        return at, step(at, self._scope, func, config)

    def _wait(self, duration: Duration, name: str | None) -> tuple[Identity, Plan[None]]:
        seconds, name = _at_least_a_second(duration, "wait"), argument_checks.name(name, "wait")
        at = self._scope.next_identity(Type.WAIT, SubType.WAIT.value, name)
        return at, wait(at, seconds)

    def _callback(self, name: str | None, config: CallbackConfig) -> tuple[Identity, Plan[str]]:
        name = argument_checks.name(name, "create_callback")
        _check_times(config, "create_callback")
        at = self._scope.only_begins(self._scope.next_identity(Type.CALLBACK, config.sub_type or SubType.CALLBACK.value, name))
        return at, create_callback(at, config)

    def _result(self, at: Identity, serdes: SerDes[Any] | None) -> Plan[Any]:
        return callback_result(at, serdes, self._scope.state.durable_execution_arn)

    def _wait_for_callback(
        self, submitter: Callable[[str, WaitForCallbackContext], Any], name: str | None, config: WaitForCallbackConfig | None
    ) -> tuple[Identity, Plan[Any]]:
        argument_checks.function(submitter, "wait_for_callback", "its submitter")
        config, name = config or WaitForCallbackConfig(), argument_checks.name(name, "wait_for_callback")
        _check_times(config, "wait_for_callback")
        at = self._scope.next_identity(Type.CONTEXT, SubType.WAIT_FOR_CALLBACK.value, named(name, submitter))
        return at, wait_for_callback(at, self._scope, submitter, config)

    def _condition(self, check: Check[T], config: WaitForConditionConfig[T], name: str | None) -> tuple[Identity, Plan[T]]:
        for given, what in ((check, "check"), (config, "config")):
            if given is None:
                raise ValidationError(f"`{what}` is required for wait_for_condition")
        argument_checks.function(check, "wait_for_condition", "its check")
        name = argument_checks.name(name, "wait_for_condition")
        at = self._scope.next_identity(Type.STEP, SubType.WAIT_FOR_CONDITION.value, name)
        return at, wait_for_condition(at, self._scope, check, config)

    def _child(self, func: Callable[[Any], T], name: str | None, config: ChildConfig[T] | None) -> tuple[Identity, Plan[T]]:
        argument_checks.function(func, "run_in_child_context")
        config, name = config or ChildConfig(), argument_checks.name(name, "run_in_child_context")
        at = self._scope.next_identity(Type.CONTEXT, config.sub_type or SubType.RUN_IN_CHILD_CONTEXT.value, named(name, func))
        return at, child(at, self._scope, func, config)

    def _retried(self, func: Callable[..., Any], config: WithRetryConfig[T], name: str | None) -> tuple[Identity, Plan[T]]:
        argument_checks.function(func, "with_retry")
        child, name = config.child_context_config or ChildConfig(), argument_checks.name(name, "with_retry")
        at = self._scope.next_identity(Type.CONTEXT, child.sub_type or SubType.RUN_IN_CHILD_CONTEXT.value, name or None)
        return at, retried_inside(at, self._scope, func, config, child)

    def _invoke(
        self, function_name: str | Invocable, payload: Any, name: str | None, config: InvokeConfig[Any, T] | None
    ) -> tuple[Identity, Plan[T]]:
        config, name = config or InvokeConfig(), argument_checks.name(name, "invoke")
        typing = hints.typing_of(getattr(function_name, "handler", None))  # only a function object has types
        function_name = argument_checks.address(_address(function_name), "invoke", "function_name")
        argument_checks.optional_text(config.tenant_id, "invoke", "tenant_id")
        at = self._scope.next_identity(Type.CHAINED_INVOKE, SubType.CHAINED_INVOKE.value, name)
        return at, invoke(at, self._scope, function_name, payload, config, typing)

    def _run(
        self,
        worker: str,
        inputs: Mapping[str, Any],
        name: str | None,
        version: str | None,
        constraints: Mapping[str, Any] | None,
        check: bool,
    ) -> tuple[Identity, Plan[RunResponse]]:
        asked = run_asked(worker, inputs, version, constraints)
        at = self._scope.next_identity(Type.CHAINED_INVOKE, RUN, argument_checks.name(name, "run") or asked.worker_id)
        return at, run(at, self._scope, asked, check=check)

    def _enqueue(self, target: object, input: object, name: str | None, **asked: object) -> tuple[Identity, Plan[str]]:
        wanted = enqueue_asked(target, input, **asked)
        at = self._scope.next_identity(Type.STEP, ENQUEUE, argument_checks.name(name, "enqueue") or wanted.target)
        return at, enqueue(at, self._scope, wanted)

    def _timer(self, duration: Duration, name: str | None) -> tuple[Identity, Plan[None]]:
        seconds, name = _at_least_a_second(duration, "create_timer"), argument_checks.name(name, "create_timer")
        at = self._scope.only_begins(self._scope.next_identity(Type.WAIT, SubType.WAIT.value, name))
        return at, started(at, seconds)

    def _first(self, awaited: Sequence[Awaited], name: str | None) -> tuple[Identity, Plan[int]]:
        if not awaited:
            raise ValidationError("first_of needs at least one callback or timer")
        places = [getattr(one, "at", None) for one in awaited]
        for one, place in zip(awaited, places, strict=True):
            if not isinstance(place, Identity):
                raise ValidationError(
                    f"first_of: {argument_checks.shown(one)} is neither a callback nor a timer. Pass what create_callback and create_timer "
                    f"return; in an `async def` handler await these calls first."
                )
        at = self._scope.next_identity(Type.CONTEXT, FIRST_OF, argument_checks.name(name, "first_of"))
        return at, first_of(at, self._scope, [one.at for one in awaited])

    def _parallel(
        self, functions: Sequence[Any], name: str | None, config: ParallelConfig | None
    ) -> tuple[Identity, Plan[BatchResult[Any]]]:
        if config is not None:
            config.completion_config.validate_for_total(len(functions))
        for number, function in enumerate(functions):
            argument_checks.function(function, "parallel", f"branch {number}")
        branch_names(functions)
        at = self._scope.next_identity(Type.CONTEXT, SubType.PARALLEL.value, argument_checks.name(name, "parallel"))
        return at, parallel(at, self._scope, functions, config or ParallelConfig())

    def _map(
        self, inputs: Sequence[Any], func: Callable[..., Any], name: str | None, config: MapConfig[Any] | None
    ) -> tuple[Identity, Plan[BatchResult[Any]]]:
        if config is not None:
            config.completion_config.validate_for_total(len(inputs))
        argument_checks.function(func, "map")
        at = self._scope.next_identity(Type.CONTEXT, SubType.MAP.value, named(argument_checks.name(name, "map"), func))
        return at, map_items(at, self._scope, inputs, func, config or MapConfig())


def _address(function: object) -> object:
    """`name:version` if the target is a function object of this program; any other target is returned unchanged."""
    if isinstance(function, str) or not callable(getattr(function, "handler", None)):
        return function
    return f"{getattr(function, 'name', '')}:{getattr(function, 'version', '')}"


def _check_times(config: CallbackConfig, call: str) -> None:
    argument_checks.seconds(config.timeout, call, "timeout")
    argument_checks.seconds(config.heartbeat_timeout, call, "heartbeat_timeout")


def _at_least_a_second(duration: Duration, call: str) -> int:
    seconds = argument_checks.seconds(duration, call)
    if seconds < 1:
        refusal = ValidationError("duration must be at least 1 second")
        refusal.tells_line = True  # exactly AWS's message, so that histories do not differ
        raise refusal
    return seconds

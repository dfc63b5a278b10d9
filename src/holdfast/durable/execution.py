"""The entry: a handler becomes a durable function, and what it returns or raises becomes the outcome of its invocation."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import Any, overload

from holdfast.durable.awaiting import is_async
from holdfast.durable.exceptions import BackgroundThreadError, ExecutionError, InvocationError, SuspendExecution, ValidationError
from holdfast.durable.lambda_service import ErrorObject
from holdfast.durable.scope import Scope
from holdfast.durable.state import ExecutionState
from holdfast.model.execution import MAX_TIMEOUT_SECONDS, Outcome, OutcomeStatus
from holdfast.model.ids import LATEST, checked_function, checked_version
from holdfast.model.ports import Invocation, Port

PENDING = Outcome(OutcomeStatus.PENDING)
_NOT_ON_AWS = (
    "This durable function was called directly. Start it through an engine: "
    "`holdfast.open(path, functions=[...])`, then `engine.start(name, input)`."
)


class DurableFunction:
    """A handler with what an engine must know to run it."""

    def __init__(
        self, handler: Callable[..., Any], *, name: str | None, version: int | str, execution_timeout: int, retention_days: int
    ) -> None:
        functools.update_wrapper(self, handler)
        self.handler = handler
        self.name = checked_function(name or handler.__name__)
        self.version = checked_version(version)
        self.execution_timeout = execution_timeout
        self.retention_days = retention_days
        self.is_async = is_async(handler)

    def __call__(self, event: Any, context: Any) -> Any:
        """What a Lambda runtime would call."""
        raise ExecutionError(_NOT_ON_AWS)


@overload
def durable_execution(func: Callable[..., Any]) -> DurableFunction: ...
@overload
def durable_execution(
    func: None = None,
    *,
    boto3_client: Any = None,
    plugins: list[Any] | None = None,
    name: str | None = None,
    version: int | str = LATEST,
    execution_timeout: int = MAX_TIMEOUT_SECONDS,
    retention_days: int = 14,
) -> Callable[[Callable[..., Any]], DurableFunction]: ...
def durable_execution(
    func: Callable[..., Any] | None = None,
    *,
    boto3_client: Any = None,
    plugins: list[Any] | None = None,
    name: str | None = None,
    version: int | str = LATEST,
    execution_timeout: int = MAX_TIMEOUT_SECONDS,
    retention_days: int = 14,
) -> DurableFunction | Callable[[Callable[..., Any]], DurableFunction]:
    """Make `handler(event, context)` durable; `def` and `async def` both work.

    `name` is the handler's own unless given; `version` pins executions that are under way to this code; `execution_timeout` is in
    seconds, and the whole execution's. `boto3_client` is the official SDK's: it has a meaning on AWS only.
    """

    if plugins:
        raise ValidationError("plugins: this version of Holdfast does not run plugins yet. Leave the argument out.")

    def decorate(handler: Callable[..., Any]) -> DurableFunction:
        return DurableFunction(handler, name=name, version=version, execution_timeout=execution_timeout, retention_days=retention_days)

    return decorate if func is None else decorate(func)


def given(invocation: Invocation, port: Port) -> str | None:
    """What the execution was started with."""
    return invocation.input if invocation.input is not None else port.input(invocation.token)


def event_of(payload: str | None) -> Any:
    """The event a handler gets: the input's JSON; nothing at all is an empty object."""
    return json.loads(payload) if payload and payload.strip() else {}


def succeeded(state: ExecutionState, scope: Scope, result: Any) -> Outcome:
    """A handler returned."""
    if state.misuse is not None:
        return failed(state, ExecutionError(state.misuse))
    try:
        scope.check_not_swallowed()
        return Outcome(OutcomeStatus.SUCCEEDED, json.dumps(result, allow_nan=False))
    except (TypeError, ValueError, RecursionError, ExecutionError) as error:
        return failed(state, error)


def failed(state: ExecutionState, error: BaseException) -> Outcome:
    """A handler raised: a suspension waits, an error of the invocation is tried again, everything else is the execution's failure."""
    if isinstance(error, BaseExceptionGroup):
        suspended, _ = error.split(SuspendExecution)
        error = _innermost(suspended) if suspended is not None else error
    if isinstance(error, SuspendExecution):
        return PENDING
    if isinstance(error, BackgroundThreadError):
        error = error.source_exception
        if not isinstance(error, InvocationError):
            return crashed(error)
    if state.misuse is not None and not isinstance(error, ExecutionError):
        error = ExecutionError(state.misuse)
    described = ErrorObject.from_exception(error).to_failure()
    retried = isinstance(error, InvocationError) and error.is_retryable()
    if retried or not isinstance(error, Exception):
        return Outcome(OutcomeStatus.CRASHED, error=described)
    return Outcome(OutcomeStatus.FAILED, error=described)


def crashed(error: BaseException) -> Outcome:
    """Our own code failed around a handler: the invocation is tried again."""
    return Outcome(OutcomeStatus.CRASHED, error=ErrorObject.from_exception(error).to_failure())


def outcome_of(ended: Callable[[], Outcome]) -> Outcome:
    """The outcome a run ended with, whatever happened to it."""
    try:
        return ended()
    except BaseException as error:
        return crashed(error)


def _innermost(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error

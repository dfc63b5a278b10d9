"""step: run user code and record its result. If the code raises, the retry strategy decides whether and when it runs again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, TypeVar, cast

from holdfast.durable import argument_checks, hints
from holdfast.durable.author_lines import is_refusal
from holdfast.durable.config import StepConfig, StepSemantics
from holdfast.durable.decorators import named
from holdfast.durable.exceptions import (
    DurableOperationError,
    ExecutionError,
    RetryableSerDesError,
    SerDesError,
    StepError,
    StepInterruptedError,
)
from holdfast.durable.failure_logs import tell_attempt
from holdfast.durable.identifier import Identity
from holdfast.durable.json_copy import UNSURE, copied
from holdfast.durable.lambda_service import ErrorObject
from holdfast.durable.plan import Lookup, Plan, Record, Run, Suspend
from holdfast.durable.retries import RetryPresets
from holdfast.durable.scope import Scope
from holdfast.durable.serdes import SerDes, deserialize, serialize
from holdfast.durable.types import StepContext
from holdfast.model.error_text import frames_of
from holdfast.model.operations import Action, Operation, Status, SubType, Type

T = TypeVar("T")
_default_strategy = RetryPresets.default()
_PLAIN = StepConfig()


def step_call(scope: Scope, func: Callable[[StepContext], T], name: str | None, config: StepConfig | None) -> tuple[Identity, Plan[T]]:
    """Check the arguments of `context.step`. Returns the identity of the call, and its plan."""
    argument_checks.function(func, "step")
    config, name = config or _PLAIN, argument_checks.name(name, "step")
    at = scope.next_identity(Type.STEP, config.sub_type or SubType.STEP.value, named(name, func))
    return at, step(at, scope, func, config)


def step(at: Identity, scope: Scope, func: Callable[[StepContext], T], config: StepConfig) -> Plan[T]:
    """Run `func` until it succeeds, and return its result. If `func` raises, the retry strategy is asked whether another attempt follows;
    if none follows, the step fails, and this raises StepError. In two cases the step fails without this question: after a SerDesError, for
    example because the result cannot be written (this raises SerDesError, too), and if `func` does not take the arguments of a step. An
    ExecutionError or a RetryableSerDesError is raised unchanged, and the step is not recorded as failed."""
    once = config.step_semantics is StepSemantics.AT_MOST_ONCE_PER_RETRY
    seen: Operation | None = yield Lookup(at)
    while True:
        status = seen.status if seen is not None else None
        if status is Status.SUCCEEDED or status is Status.FAILED:
            assert seen is not None
            return cast("T", _recalled(scope, seen, config.serdes, func))
        if status is Status.PENDING:
            yield Suspend(at.operation_id)
            seen = yield Lookup(at)
            continue
        attempt = (seen.attempt if seen is not None else 0) + 1
        if status is Status.STARTED and once:
            # The invocation died in the body. It is unknown whether the body had its effect, so this attempt does not run it again.
            error: Exception = StepInterruptedError(
                f"Step operation_id={at.operation_id} name={at.name} was previously interrupted", step_id=at.operation_id
            )
        else:
            if status is not Status.STARTED:
                yield Record(at.update(Action.START), wait=once)
            try:
                timeout = None if config.timeout is None else config.timeout.to_seconds()
                body = func if scope.state.hooks is None else scope.state.hooks.watched(func, at, attempt)
                value = yield Run(body, (StepContext(scope.logger_in(at, attempt), attempt),), timeout=timeout)
                text, result = remembered(value, config.serdes, at, scope, func)
            except (RetryableSerDesError, ExecutionError):
                raise
            except Exception as raised:
                error = raised
            else:
                yield Record(at.update(Action.SUCCEED, payload=text))
                return cast("T", result)
        yield from _retry_or_fail(at, scope, config, error, attempt)
        seen = yield Lookup(at)


def remembered(value: T, serdes: SerDes[T] | None, at: Identity, scope: Scope, func: Any) -> tuple[str | None, T]:
    """Write `value` as text. Returns the text, which is recorded, and the value that user code gets. That value is made from the text, so
    that it is the same as in a replay.

    `func` is the function that made the value. If `serdes` is None, the return annotation of `func` says which class the value becomes. If
    `value` is None, the serdes may return None in place of a text: then this returns None twice. Raises SerDesError if the value cannot be
    written or does not fit the annotation.
    """
    arn = scope.state.durable_execution_arn
    text: str | None = serialize(serdes, value, at.operation_id, arn)
    if text is None:
        return None, None  # type: ignore[return-value]
    if serdes is not None:
        return text, deserialize(serdes, text, at.operation_id, arn)
    result = copied(value)
    unsure = result is UNSURE
    if unsure:
        result = deserialize(None, text, at.operation_id, arn)
    typing = hints.typing_of(func)
    if typing is not None:
        result = hints.given_back(result, typing, f"What {_called(at)} returned")
    if unsure:
        hints.tell_of_lost_types(value, result, func, f"What {_called(at)} returned")
    return text, cast("T", result)


def recalled(seen: Operation, serdes: SerDes[Any] | None, scope: Scope, func: Any) -> Any:
    """The recorded result of the operation `seen`; None if no result is recorded. If `serdes` is None, the return annotation of `func` says
    which class the result becomes. Raises NonDeterministicExecutionError if the result does not fit that class."""
    if seen.result is None:
        return None
    value: Any = deserialize(serdes, seen.result, seen.id, scope.state.durable_execution_arn)
    typing = None if serdes is not None else hints.typing_of(func)
    if typing is None:
        return value
    return hints.recalled_as(value, typing, f"A result of {seen.sub_type or seen.type.value} {seen.name or seen.id!r}", seen.id)


def _called(at: Identity) -> str:
    return f"{at.sub_type} {at.name or at.operation_id!r}"


def _recalled(scope: Scope, seen: Operation, serdes: SerDes[Any] | None, func: Any) -> Any:
    if seen.status is Status.FAILED:
        raise_recorded(seen, StepError)
    return recalled(seen, serdes, scope, func)


def raise_recorded(seen: Operation, kind: type[DurableOperationError]) -> NoReturn:
    """Raise the recorded error of a failed operation. It is raised as an error of the class `kind`; only a recorded SerDesError is raised
    as SerDesError."""
    recorded = ErrorObject.from_failure(seen.error) if seen.error else ErrorObject(None, None, None, None)
    recorded.raise_as_operation_error(kind)


def _retry_or_fail(at: Identity, scope: Scope, config: StepConfig, error: Exception, attempt: int) -> Plan[None]:
    described = ErrorObject.from_exception(error)
    failure, frames = described.to_failure(), frames_of(error)
    # A value that cannot be written, or a body that takes other arguments, fails again in every attempt: the strategy is not asked.
    never = isinstance(error, SerDesError) or (isinstance(error, TypeError) and is_refusal(error))
    decision = None if never else (config.retry_strategy or _default_strategy)(error, attempt)
    if decision is None or not decision.should_retry:
        yield Record(at.update(Action.FAIL, error=failure, frames=frames))
        tell_attempt(scope.state, at, error, failure, attempt, None)
        described.raise_as_operation_error(StepError)
    delay = max(1, argument_checks.whole(decision.delay_seconds, "step", "the delay that its retry strategy asks for"))
    yield Record(at.update(Action.RETRY, error=failure, frames=frames, delay_seconds=delay))
    tell_attempt(scope.state, at, error, failure, attempt, delay)

"""wait_for_callback: in a context of its own, create a callback, run a step that gives the callback's id to the submitter, and wait for the
answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.durable import argument_checks
from holdfast.durable.config import ChildConfig, StepConfig, WaitForCallbackConfig
from holdfast.durable.decorators import named
from holdfast.durable.exceptions import CallbackError, CallbackSubmitterError, ChildContextError, StepError
from holdfast.durable.hints import AnswerOf
from holdfast.durable.identifier import Identity
from holdfast.durable.operation.callback import callback_result, check_times, create_callback
from holdfast.durable.operation.child import contained
from holdfast.durable.operation.step import step
from holdfast.durable.plan import Plan
from holdfast.durable.scope import Scope
from holdfast.durable.types import StepContext, WaitForCallbackContext
from holdfast.model.operations import SubType, Type

Submitter = Callable[[str, WaitForCallbackContext], Any]


def wait_for_callback_call(
    scope: Scope, submitter: Callable[[str, WaitForCallbackContext], Any], name: str | None, config: WaitForCallbackConfig | None
) -> tuple[Identity, Plan[Any]]:
    """Check the arguments of `context.wait_for_callback`. Returns the identity of the call, and its plan."""
    argument_checks.function(submitter, "wait_for_callback", "its submitter")
    config, name = config or WaitForCallbackConfig(), argument_checks.name(name, "wait_for_callback")
    check_times(config, "wait_for_callback")
    at = scope.next_identity(Type.CONTEXT, SubType.WAIT_FOR_CALLBACK.value, named(name, submitter))
    return at, wait_for_callback(at, scope, submitter, config)


def wait_for_callback(at: Identity, scope: Scope, submitter: Submitter, config: WaitForCallbackConfig) -> Plan[Any]:
    """Create a callback, run the submitter with the id of the callback, wait for the answer and return it. Raises CallbackSubmitterError if
    the submitter failed. If the callback failed or timed out, raises the error of the callback. A value that cannot be written or read
    raises SerDesError. If the retry strategy raises, this raises ChildContextError, as the official SDK does."""

    def body(inner: Scope) -> Plan[Any]:
        return _submitted(inner, at.name, submitter, config)

    try:
        return (yield from contained(at, scope, body, ChildConfig(), AnswerOf(config.serdes)))
    except ChildContextError as error:
        inner = error.__cause__
        if isinstance(inner, CallbackError):
            raise inner from None
        if isinstance(inner, StepError):
            raise CallbackSubmitterError(
                inner.message or "Callback submitter failed", data=inner.data, stack_trace=inner.stack_trace
            ) from inner
        raise


def _submitted(scope: Scope, name: str | None, submitter: Submitter, config: WaitForCallbackConfig) -> Plan[Any]:
    prefix = f"{name} " if name else ""
    made = scope.next_identity(Type.CALLBACK, config.sub_type or SubType.CALLBACK.value, f"{prefix}create callback id")
    with scope.call(made):
        callback_id = yield from create_callback(made, config)

    def submit(context: StepContext) -> Any:
        return submitter(callback_id, WaitForCallbackContext(logger=context.logger))

    submit._original = submitter  # type: ignore[attr-defined]
    sent = scope.next_identity(Type.STEP, SubType.STEP.value, f"{prefix}submitter")
    with scope.call(sent):
        yield from step(sent, scope, submit, StepConfig(retry_strategy=config.retry_strategy, serdes=config.serdes))
    return (yield from callback_result(made, config.serdes, scope.state.durable_execution_arn))

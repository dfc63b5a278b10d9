"""wait_for_condition: call a check, record the state that it returns, and call it again later, until the wait strategy says stop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from holdfast.durable import argument_checks
from holdfast.durable.exceptions import InvocationError, NonDeterministicExecutionError, ValidationError, WaitForConditionError
from holdfast.durable.hints import StateOf, given_back, typing_of
from holdfast.durable.identifier import Identity
from holdfast.durable.lambda_service import ErrorObject
from holdfast.durable.operation.step import raise_recorded, recalled, remembered
from holdfast.durable.plan import Lookup, Plan, Record, Run, Suspend
from holdfast.durable.scope import Scope
from holdfast.durable.serdes import deserialize
from holdfast.durable.types import WaitForConditionCheckContext
from holdfast.durable.waits import WaitForConditionConfig, WaitForConditionDecision
from holdfast.model.error_text import frames_of
from holdfast.model.operations import Action, Operation, Status, SubType, Type

T = TypeVar("T")
ConditionCheck = Callable[[T, WaitForConditionCheckContext], T]


def condition_call(scope: Scope, check: ConditionCheck[T], config: WaitForConditionConfig[T], name: str | None) -> tuple[Identity, Plan[T]]:
    """Check the arguments of `context.wait_for_condition`. Returns the identity of the call, and its plan."""
    for given, what in ((check, "check"), (config, "config")):
        if given is None:
            raise ValidationError(f"`{what}` is required for wait_for_condition")
    argument_checks.function(check, "wait_for_condition", "its check")
    name = argument_checks.name(name, "wait_for_condition")
    at = scope.next_identity(Type.STEP, SubType.WAIT_FOR_CONDITION.value, name)
    return at, wait_for_condition(at, scope, check, config)


def wait_for_condition(at: Identity, scope: Scope, check: ConditionCheck[T], config: WaitForConditionConfig[T]) -> Plan[T]:
    """Call the check until the wait strategy says stop, and return the state that the last check returned. If the check or the strategy
    raises, this raises WaitForConditionError (after a SerDesError it raises SerDesError), and the check is not called again. A
    retryable InvocationError, and a NonDeterministicExecutionError (a recorded state does not fit the code), are raised unchanged and not
    recorded."""
    state = StateOf(check, config.initial_state)
    while True:
        seen: Operation | None = yield Lookup(at)
        status = seen.status if seen is not None else None
        if seen is not None and status is Status.SUCCEEDED:
            return cast("T", recalled(seen, config.serdes, scope, state))
        if seen is not None and status is Status.FAILED:
            raise_recorded(seen, WaitForConditionError)
        if status is Status.PENDING:
            yield Suspend(at.operation_id)
            continue
        if status is not Status.STARTED:
            yield Record(at.update(Action.START), wait=False)
        try:
            text, decision = yield from _looked(at, scope, check, config, seen, state)
            # The strategy may have changed its argument; the recorded state is unchanged.
            final = None if text is None else _read(text, config, at, scope, state)
        except Exception as error:
            if isinstance(error, NonDeterministicExecutionError) or (isinstance(error, InvocationError) and error.is_retryable()):
                raise
            described = ErrorObject.from_exception(error)
            yield Record(at.update(Action.FAIL, error=described.to_failure(), frames=frames_of(error)))
            described.raise_as_operation_error(WaitForConditionError)
        if not decision.should_continue:
            yield Record(at.update(Action.SUCCEED, payload=text))
            return cast("T", final)
        delay = max(1, argument_checks.whole(decision.delay_seconds, "wait_for_condition", "the delay that its wait strategy asks for"))
        yield Record(at.update(Action.RETRY, payload=text, delay_seconds=delay))


def _looked(
    at: Identity, scope: Scope, check: ConditionCheck[T], config: WaitForConditionConfig[T], seen: Operation | None, kind: StateOf
) -> Plan[tuple[str | None, WaitForConditionDecision]]:
    """Call the check once. Returns the new state as text, and the decision of the strategy. `seen` is the recorded operation, which has the
    state that the check before this one returned; None if it is not recorded yet. The check and the strategy get states that were written
    and read back, as in a replay."""
    attempt = (seen.attempt if seen is not None else 0) + 1
    if seen is not None and seen.result is not None:
        state = recalled(seen, config.serdes, scope, kind)
    else:
        _, state = remembered(config.initial_state, config.serdes, at, scope, kind)
    logger = scope.logger_in(at, attempt)
    body = check if scope.state.hooks is None else scope.state.hooks.watched(check, at, attempt)
    value = yield Run(body, (state, WaitForConditionCheckContext(logger, attempt)))
    text, shown = remembered(value, config.serdes, at, scope, kind)
    return text, config.wait_strategy(shown, attempt)


def _read(text: str, config: WaitForConditionConfig[Any], at: Identity, scope: Scope, state: StateOf) -> Any:
    value: Any = deserialize(config.serdes, text, at.operation_id, scope.state.durable_execution_arn)
    typing = None if config.serdes is not None else typing_of(state)
    return value if typing is None else given_back(value, typing, f"The state of {at.name or at.operation_id!r}")

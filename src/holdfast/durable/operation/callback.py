"""create_callback, and the `result()` of a callback: an outside system answers, and the execution waits where the code calls `result()`."""

from __future__ import annotations

from typing import Any, NoReturn

from holdfast.durable import argument_checks
from holdfast.durable.config import CallbackConfig
from holdfast.durable.exceptions import CallbackError, CallbackExternalError, CallbackTimeoutError
from holdfast.durable.identifier import Identity
from holdfast.durable.plan import Lookup, Plan, Record, Suspend
from holdfast.durable.scope import Scope
from holdfast.durable.serdes import PassThroughSerDes, SerDes, deserialize
from holdfast.model.operations import Action, Operation, Status, SubType, Type

_AS_IT_CAME: SerDes[Any] = PassThroughSerDes()


def check_times(config: CallbackConfig, call: str) -> None:
    """Raise ValidationError if a timeout of `config` is not allowed; `call` names the durable call in the error."""
    argument_checks.seconds(config.timeout, call, "timeout")
    argument_checks.seconds(config.heartbeat_timeout, call, "heartbeat_timeout")


def callback_call(scope: Scope, name: str | None, config: CallbackConfig) -> tuple[Identity, Plan[str]]:
    """Check the arguments of `context.create_callback`. Returns the identity of the call, and its plan."""
    name = argument_checks.name(name, "create_callback")
    check_times(config, "create_callback")
    at = scope.only_begins(scope.next_identity(Type.CALLBACK, config.sub_type or SubType.CALLBACK.value, name))
    return at, create_callback(at, config)


def create_callback(at: Identity, config: CallbackConfig) -> Plan[str]:
    """Create the callback, if the history does not have it, and return its id. If the callback has failed already, nothing is raised here;
    `result()` raises the error. So a replay also runs the code between `create_callback` and `result()`, as the first run did. Raises
    CallbackError if the service gave no id."""
    seen = yield Lookup(at)
    if seen is None:
        update = at.update(
            Action.START,
            timeout_seconds=argument_checks.seconds(config.timeout, "create_callback", "timeout"),
            heartbeat_seconds=argument_checks.seconds(config.heartbeat_timeout, "create_callback", "heartbeat_timeout"),
        )
        yield Record(update)
        seen = yield Lookup(at)
    if seen is None or seen.callback_id is None:
        raise CallbackError(f"The service gave no callback id for {at.name or at.operation_id}.")
    callback_id: str = seen.callback_id
    return callback_id


def callback_result(at: Identity, serdes: SerDes[Any] | None, arn: str) -> Plan[Any]:
    """Suspend until the callback has ended, and return its answer; None if it has no value. Without `serdes` the answer is the text that
    was sent. `arn` is the execution's ARN, which the serdes gets. Raises CallbackTimeoutError if the callback timed out,
    CallbackExternalError if it failed."""
    seen = yield Lookup(at)
    while seen.status is Status.STARTED:
        yield Suspend(at.operation_id)
        seen = yield Lookup(at)
    if seen.status is not Status.SUCCEEDED:
        _raise(seen)
    if seen.result is None:
        return None
    return deserialize(serdes if serdes is not None else _AS_IT_CAME, seen.result, at.operation_id, arn)


def _raise(seen: Operation) -> NoReturn:
    late = seen.status is Status.TIMED_OUT
    error = seen.error
    message = (error and error.message) or ("Callback timed out" if late else "Callback failed")
    trace = list(error.stack_trace) if error and error.stack_trace else None
    raise (CallbackTimeoutError if late else CallbackExternalError)(message=message, data=error.data if error else None, stack_trace=trace)

"""invoke: start another function as an execution of its own, and wait for its result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol, TypeVar, cast

from holdfast.durable import argument_checks, hints
from holdfast.durable.config import InvokeConfig
from holdfast.durable.exceptions import InvokeError
from holdfast.durable.hints import Typing, recalled_as
from holdfast.durable.identifier import Identity
from holdfast.durable.operation.step import raise_recorded
from holdfast.durable.plan import Lookup, Plan, Record, Suspend
from holdfast.durable.scope import Scope
from holdfast.durable.serdes import JsonSerDes, SerDes, deserialize, serialize
from holdfast.model.operations import Action, Status, SubType, Type

R = TypeVar("R")

_PLAIN: Final[SerDes[Any]] = JsonSerDes()


T = TypeVar("T")


class Invocable(Protocol):
    """A durable or plain function of this program. `context.invoke` and `context.enqueue` accept it in place of a name."""

    name: str
    version: str
    handler: Callable[..., Any]


def invoke_call(
    scope: Scope, function_name: str | Invocable, payload: Any, name: str | None, config: InvokeConfig[Any, T] | None
) -> tuple[Identity, Plan[T]]:
    """Check the arguments of `context.invoke`. Returns the identity of the call, and its plan."""
    config, name = config or InvokeConfig(), argument_checks.name(name, "invoke")
    typing = hints.typing_of(getattr(function_name, "handler", None))  # only a function object has types
    function_name = argument_checks.address(_address(function_name), "invoke", "function_name")
    argument_checks.optional_text(config.tenant_id, "invoke", "tenant_id")
    at = scope.next_identity(Type.CHAINED_INVOKE, SubType.CHAINED_INVOKE.value, name)
    return at, invoke(at, scope, function_name, payload, config, typing)


def _address(function: object) -> object:
    """`name:version` if the target is a function object of this program; any other target is returned unchanged."""
    if isinstance(function, str) or not callable(getattr(function, "handler", None)):
        return function
    return f"{getattr(function, 'name', '')}:{getattr(function, 'version', '')}"


def invoke(
    at: Identity, scope: Scope, function_name: str, payload: Any, config: InvokeConfig[Any, R], typing: Typing | None = None
) -> Plan[R]:
    """Start another function, unless the history has this invoke already, wait for its end and return its result; None if it has no result.
    `typing` turns the JSON values of the result into a class; if it is None, or the config has a `serdes_result`, that is not done. Raises
    InvokeError if the function could not be started, failed, timed out or was stopped."""
    arn = scope.state.durable_execution_arn
    seen = yield Lookup(at)
    if seen is None:
        text = serialize(config.serdes_payload or _PLAIN, payload, at.operation_id, arn)
        hooks = scope.state.hooks
        trace_id = (
            None if hooks is None else argument_checks.optional_text(hooks.trace_id(at, function_name), "invoke", "a plugin's trace id")
        )
        asked = {
            "function_name": function_name,
            "tenant_id": argument_checks.optional_text(config.tenant_id, "invoke", "tenant_id"),
            "trace_id": trace_id,
            "cascade": config.cascade,
        }
        yield Record(at.update(Action.START, payload=text, **asked))
        seen = yield Lookup(at)
    while seen.status is Status.STARTED:
        yield Suspend(at.operation_id)
        seen = yield Lookup(at)
    if seen.status is not Status.SUCCEEDED:
        raise_recorded(seen, InvokeError)
    if seen.result is None:
        return cast("R", None)
    result: R = deserialize(config.serdes_result or _PLAIN, seen.result, at.operation_id, arn)
    if typing is None or config.serdes_result is not None:
        return result
    return cast("R", recalled_as(result, typing, f"A result of function {function_name!r}", at.operation_id))

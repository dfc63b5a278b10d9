"""`@durable_execution`: makes a handler a durable function."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Literal, get_args, overload

from holdfast.durable import hints
from holdfast.durable.exceptions import ExecutionError, SerDesError
from holdfast.durable.invocation_outcome import failed, mismatched
from holdfast.durable.plain_json import json_text
from holdfast.durable.plugin import DurableInstrumentationPluginFactory
from holdfast.durable.plugin_discovery import load_configured_plugins
from holdfast.durable.scope import Scope
from holdfast.durable.state import ExecutionState
from holdfast.durable.user_code import is_async
from holdfast.model.codec import value_of
from holdfast.model.errors import InvalidParameter
from holdfast.model.execution import Outcome, OutcomeStatus, Terms
from holdfast.model.ids import LATEST, checked_function, checked_version
from holdfast.model.operations import Kind
from holdfast.model.serialization_advice import OF_A_RESULT
from holdfast.model.typed import Unfitting, models_in, typed

_TERMS = Terms()
_OnMismatch = Literal["quarantine", "fail"]
"""What happens to an execution if the code does not match its history. "quarantine": the execution does not run until the code is corrected
and a person releases it. "fail": the execution fails, as on AWS."""


class DurableFunction:
    """A handler with what an engine must know to run it.

    Only Holdfast's own code sets `read`, `write` and `kind`. `read` turns the stored text into the event that the handler gets. `write`
    turns the result into text (or into an outcome that also has data for the execution's queue). `kind` says whether this is a function, a
    worker or a pipeline.
    """

    def __init__(
        self,
        handler: Callable[..., Any],
        *,
        name: str | None,
        version: int | str,
        terms: Terms,
        boto3_client: Any = None,
        plugins: Sequence[DurableInstrumentationPluginFactory] = (),
        read: Callable[[str | None], Any] | None = None,
        write: Callable[[Any], str | Outcome] | None = None,
        kind: Kind = Kind.FUNCTION,
        on_mismatch: _OnMismatch = "quarantine",
    ) -> None:
        functools.update_wrapper(self, handler)
        self.handler = handler
        self.name = checked_function(name or handler.__name__)
        self.version = checked_version(version)
        self.terms = terms
        self.boto3_client = boto3_client
        self.plugins = plugins
        self.read = read or self._event
        self.write = write or self._text
        self.succeeded: Callable[[ExecutionState, Scope, Any], Outcome] = functools.partial(succeeded, self)
        """Returns the outcome of the handler, if the handler returned this value."""
        self.kind = kind
        if on_mismatch not in get_args(_OnMismatch):
            raise InvalidParameter(f"on_mismatch is {on_mismatch!r}; use 'quarantine' or 'fail'.")
        self.on_mismatch = on_mismatch
        self.is_async = is_async(handler)

    def _event(self, payload: str | None) -> Any:
        """The event that the handler gets: the input as plain JSON values, or an empty dict if there is no input. If the annotation of the
        handler's first parameter names a dataclass or a pydantic model, the event is in that class. Raises ValueError if the input is not
        JSON, and SerDesError if it does not fit the annotation."""
        event, hint = value_of(payload) if payload and payload.strip() else {}, hints.taken(self.handler)
        if hint is None:
            return event
        typing = functools.partial(typed, hint=hint)
        return hints.given_back(event, typing, f"The input of function {self.name!r}", "Send an input that fits")

    def _text(self, result: Any) -> str:
        """The handler's result as the JSON text that is stored. Logs a warning if the result contains a model (a dataclass or a pydantic
        model) whose class the return annotation does not name. Raises SerDesError if the result contains models and does not fit the
        annotation, and TypeError or ValueError if the result cannot be written as JSON."""
        text = json_text(result, OF_A_RESULT, allow_nan=False)
        if models_in(result):
            what, typing = f"What function {self.name!r} returned", hints.typing_of(self.handler)
            back = value_of(text)
            hints.tell_of_lost_types(result, back if typing is None else hints.given_back(back, typing, what), self.handler, what)
        return text

    def typed(self, result: Any) -> Any:
        """A stored result (JSON values) in the class that the handler's return annotation names. If the annotation names no dataclass or
        pydantic model, the result is returned unchanged. If the result does not fit the annotation, it is returned unchanged, too, and a
        warning is logged."""
        typing = hints.typing_of(self.handler)
        if typing is None:
            return result
        try:
            return typing(result)
        except Unfitting as error:
            hints.log.warning("A result of function %r does not fit its annotation, so it is given as its JSON: %s.", self.name, error)
            return result

    def __call__(self, event: Any, context: Any) -> Any:
        """Run one invocation, and return its output for the Lambda service. A Lambda runtime or AWS's test runner calls this, with the
        event of a durable invocation and the runtime's context. To start an execution, use an engine or a client."""
        from holdfast.durable.remote.lambda_entry import answer  # engines do not need it, so it is loaded only here

        return answer(self, event, context)


def succeeded(function: DurableFunction, state: ExecutionState, scope: Scope, result: Any) -> Outcome:
    """The outcome of a handler that returned `result`. The execution fails if the result cannot be written, or if the code misused the
    context, for example by catching a suspension. It is quarantined if a call did not match the history and the host quarantines such
    executions. Otherwise it succeeds."""
    if state.quarantines and state.mismatch is not None:
        return mismatched(state.mismatch)
    if state.misuse is not None:
        return failed(state, ExecutionError(state.misuse))
    try:
        scope.check_not_swallowed()
        written = function.write(result)
        scope.tell_unread()
        return written if isinstance(written, Outcome) else Outcome(OutcomeStatus.SUCCEEDED, written)
    except (TypeError, ValueError, RecursionError, ExecutionError, SerDesError) as error:
        return failed(state, error)


@overload
def durable_execution(func: Callable[..., Any]) -> DurableFunction: ...
@overload
def durable_execution(
    func: None = None,
    *,
    boto3_client: Any = None,
    plugins: list[DurableInstrumentationPluginFactory] | None = None,
    name: str | None = None,
    version: int | str = LATEST,
    execution_timeout: int = _TERMS.timeout_seconds,
    retention_days: int = _TERMS.retention_days,
    max_operations: int = _TERMS.max_operations,
    max_bytes: int = _TERMS.max_bytes,
    on_mismatch: _OnMismatch = "quarantine",
) -> Callable[[Callable[..., Any]], DurableFunction]: ...
def durable_execution(
    func: Callable[..., Any] | None = None,
    *,
    boto3_client: Any = None,
    plugins: list[DurableInstrumentationPluginFactory] | None = None,
    name: str | None = None,
    version: int | str = LATEST,
    execution_timeout: int = _TERMS.timeout_seconds,
    retention_days: int = _TERMS.retention_days,
    max_operations: int = _TERMS.max_operations,
    max_bytes: int = _TERMS.max_bytes,
    on_mismatch: _OnMismatch = "quarantine",
) -> DurableFunction | Callable[[Callable[..., Any]], DurableFunction]:
    """Make `handler(event, context)` durable; `def` and `async def` both work.

    `name` None means the name of the handler. `version`: an execution runs to its end with the version that it was started with.
    `execution_timeout` is the time limit of the whole execution in seconds. A closed execution is kept for `retention_days`. An execution
    with more than `max_operations`, or with more than `max_bytes` of payloads, fails: this stops endless loops; you may raise both limits.
    `plugins` are factories of plugins, which observe the function (plugin.py); plugins that the environment names are called after them.
    `on_mismatch` says what happens to an execution if the code does not match its history: "quarantine" keeps the execution until the code
    is corrected and a person releases it, "fail" fails the execution. In a Lambda runtime such an execution always fails. `boto3_client` is
    the client of the Lambda service; it is used only if a Lambda runtime calls the function.
    """
    terms = Terms(execution_timeout, retention_days, max_operations, max_bytes).checked()

    def decorate(handler: Callable[..., Any]) -> DurableFunction:
        factories = load_configured_plugins(plugins)
        more: dict[str, Any] = {"boto3_client": boto3_client, "plugins": factories, "on_mismatch": on_mismatch}
        return DurableFunction(handler, name=name, version=version, terms=terms, **more)

    return decorate if func is None else decorate(func)

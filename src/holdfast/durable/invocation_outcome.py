"""The input of a handler, and the outcome of a handler that raised an error. (`execution.succeeded` gives the outcome of a handler that
returned.)"""

from __future__ import annotations

import msgspec

from holdfast.durable.author_lines import raised_at, refused_at
from holdfast.durable.exceptions import (
    BackgroundThreadError,
    ExecutionError,
    InvocationError,
    NonDeterministicExecutionError,
    SuspendExecution,
)
from holdfast.durable.failure_logs import tell_raised
from holdfast.durable.interrupts import ContinueAsNew
from holdfast.durable.lambda_service import ErrorObject
from holdfast.durable.state import ExecutionState
from holdfast.model.execution import Outcome, OutcomeStatus
from holdfast.model.ports import Invocation, Port

PENDING = Outcome(OutcomeStatus.PENDING)


def given(invocation: Invocation, port: Port) -> str | None:
    """The input that the execution was started with, as text; None if it has none. If `invocation` does not contain the input, this reads
    it through the port."""
    return invocation.input if invocation.input is not None else port.input(invocation.token)


def failed(state: ExecutionState, error: BaseException) -> Outcome:
    """The outcome of a handler that raised `error`.

    If the code did not match the history and the host quarantines such executions, the execution is quarantined, whatever `error` is.
    Otherwise: after a suspension the execution waits. After `continue_as_new` a new execution follows. After a retryable InvocationError, a
    write that failed but was not refused, or an exit such as SystemExit (of the handler or of a plugin), the handler is invoked again. Any
    other error fails the execution. If `state.misuse` is set (user code cancelled a durable call), `continue_as_new`, a retryable
    InvocationError and an exit of the handler also fail it.
    """
    if state.quarantines and state.mismatch is not None:
        return mismatched(state.mismatch)
    if isinstance(error, BaseExceptionGroup):
        leaving, _ = error.split((SuspendExecution, ContinueAsNew))
        error = _innermost(leaving) if leaving is not None else error
    if isinstance(error, SuspendExecution):
        return PENDING
    if isinstance(error, ContinueAsNew) and state.misuse is None:
        return Outcome(OutcomeStatus.CONTINUED, error.input)
    through = error
    if isinstance(error, BackgroundThreadError):
        error = error.source_exception
        if not isinstance(error, InvocationError):
            return crashed(error, through)
    if state.misuse is not None and not isinstance(error, ExecutionError):
        error = ExecutionError(state.misuse)
    retried = isinstance(error, InvocationError) and error.is_retryable()
    if retried or not isinstance(error, Exception):
        return crashed(error, through)
    described = ErrorObject.from_exception(error).to_failure()
    if through is not error:  # the error was raised elsewhere, so only the exception that carried it has the line
        described = msgspec.structs.replace(described, message=f"{described.message}{refused_at(error, through)}")
    tell_raised(state, error, described)
    return Outcome(OutcomeStatus.FAILED, error=described, place=_place(through))


def crashed(error: BaseException, through: BaseException | None = None) -> Outcome:
    """The outcome of an invocation that failed with `error`: the handler is invoked again, until too many invocations in a row have failed;
    then the execution fails (model/verbs.py). The outcome names the line of the author's code, if it is known. `through` is the exception
    that passed through the author's code; None means that `error` itself did.
    """
    return Outcome(OutcomeStatus.CRASHED, error=ErrorObject.from_exception(error).to_failure(), place=_place(through or error))


def _place(error: BaseException) -> str | None:
    line = raised_at(error)
    return None if line is None else str(line)


def mismatched(error: NonDeterministicExecutionError) -> Outcome:
    """The outcome of a handler whose code does not match the history, as `error` says: the execution is quarantined."""
    return Outcome(OutcomeStatus.MISMATCHED, error=ErrorObject.from_exception(error).to_failure())


def _innermost(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error

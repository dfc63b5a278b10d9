"""Telling where the author's code raised: the history keeps an error's type and message, and no line."""

from __future__ import annotations

import logging

from holdfast.durable.exceptions import DurableExecutionsError
from holdfast.durable.identifier import Identity
from holdfast.durable.lines import raised_at
from holdfast.durable.state import ExecutionState
from holdfast.model.operations import Failure
from holdfast.model.saying import said

log = logging.getLogger("holdfast.durable")


def tell_attempt(state: ExecutionState, at: Identity, error: Exception, failure: Failure, attempt: int, delay: int | None) -> None:
    """An attempt of a step failed, by what its body raised; `delay` is how many seconds the next one is away, if there is one."""
    if not log.isEnabledFor(logging.INFO) or (delay is None and isinstance(error, DurableExecutionsError)):
        return  # the last error of a step is told with its execution's, and ours say all there is to say
    follows = "it is not tried again" if delay is None else f"the next attempt is in {delay} s"
    text = f"attempt {attempt} failed: {said(failure)}{_place(error)}; {follows}"
    log.info("%s", text, extra={"executionArn": state.durable_execution_arn, "operationName": at.name or at.operation_id})


def tell_raised(state: ExecutionState, error: BaseException, failure: Failure, at: Identity | None = None) -> None:
    """The code of a handler, or of the context `at`, raised. An error of our own is left out: it tells its line, or was told before."""
    if not log.isEnabledFor(logging.INFO) or isinstance(error, DurableExecutionsError):
        return
    extra = {"executionArn": state.durable_execution_arn}
    if at is not None:
        extra["operationName"] = at.name or at.operation_id
    log.info("%s", f"the code raised {said(failure)}{_place(error)}", extra=extra)


def _place(error: BaseException) -> str:
    line = raised_at(error)
    return "" if line is None else f", at {line}"

"""Log lines that say at which line the author's code raised an error."""

from __future__ import annotations

import logging

from holdfast.durable.author_lines import raised_at
from holdfast.durable.exceptions import DurableExecutionsError
from holdfast.durable.identifier import Identity
from holdfast.durable.state import ExecutionState
from holdfast.model.error_text import one_line
from holdfast.model.operations import Failure

log = logging.getLogger("holdfast.durable")


def tell_attempt(state: ExecutionState, at: Identity, error: Exception, failure: Failure, attempt: int, delay: int | None) -> None:
    """Log, at INFO, that an attempt of a step failed. `failure` is `error` in the form in which it is stored. `delay` is the number of
    seconds until the next attempt; None if this was the last attempt. If the last attempt raised an error of the durable API, nothing is
    logged."""
    if not log.isEnabledFor(logging.INFO) or (delay is None and isinstance(error, DurableExecutionsError)):
        return  # the last error of a step is logged with its execution; errors of Holdfast name their line themselves
    follows = "it is not tried again" if delay is None else f"the next attempt is in {delay} s"
    text = f"attempt {attempt} failed: {one_line(failure)}{_place(error)}; {follows}"
    log.info("%s", text, extra={"executionArn": state.durable_execution_arn, "operationName": at.name or at.operation_id})


def tell_raised(state: ExecutionState, error: BaseException, failure: Failure, at: Identity | None = None) -> None:
    """Log, at INFO, that the code of the context `at` raised an error; if `at` is None, that the handler did. `failure` is `error` in the
    form in which it is stored. Nothing is logged for an error of the durable API."""
    if not log.isEnabledFor(logging.INFO) or isinstance(error, DurableExecutionsError):
        return
    extra = {"executionArn": state.durable_execution_arn}
    if at is not None:
        extra["operationName"] = at.name or at.operation_id
    log.info("%s", f"the code raised {one_line(failure)}{_place(error)}", extra=extra)


def _place(error: BaseException) -> str:
    line = raised_at(error)
    return "" if line is None else f", at {line}"

"""Outcomes of invocations: which outcome is written, what is written if the store refuses it, and what the log says about a crash."""

from __future__ import annotations

import logging
from typing import Final

from holdfast.model.error_text import one_line, ordinal, place_of
from holdfast.model.errors import DiskFailed, DiskFull, HoldfastError
from holdfast.model.execution import Execution, ExecutionStatus, Outcome, OutcomeStatus, State
from holdfast.model.life import MAX_FAILURES
from holdfast.model.operations import Failure
from holdfast.model.verbs import Settle

log = logging.getLogger("holdfast.engine")
_DISK: Final = (DiskFailed.__name__, DiskFull.__name__)

INTERRUPTED: Final = Outcome(OutcomeStatus.INTERRUPTED)
"""The outcome of an invocation that was broken off through no fault of its code. It is not counted as a failure of the execution, and any
runner may continue the execution at once."""


def blameless(outcome: Outcome) -> Outcome:
    """The outcome that is written for an invocation: INTERRUPTED if it crashed with DiskFailed or DiskFull, else `outcome` unchanged."""
    if outcome.status is not OutcomeStatus.CRASHED or outcome.error is None or not (outcome.error.type or "").endswith(_DISK):
        return outcome
    return INTERRUPTED


def giving_back(header: Execution) -> Settle:
    """The write that ends the invocation of a claimed execution as INTERRUPTED."""
    return Settle(execution=header.id, epoch=header.epoch, invocation=header.invocation or "", seen=header.revision, outcome=INTERRUPTED)


def uninvoked(error: Exception) -> Outcome:
    """The outcome of an invocation that its host could not begin."""
    return Outcome(OutcomeStatus.CRASHED, error=Failure(message=str(error), type=type(error).__name__))


def unwritable(trouble: HoldfastError, outcome: Outcome) -> Outcome | None:
    """The outcome to write instead of `outcome`, which the store can never write: a crash with the error of the store. None if `outcome`
    itself is such a crash."""
    kind = type(trouble).__name__
    if outcome.status is OutcomeStatus.CRASHED and outcome.error is not None and outcome.error.type == kind:
        return None
    return Outcome(OutcomeStatus.CRASHED, error=Failure(str(trouble), kind))


def warn_of_crash(outcome: Outcome, after: Execution, now: int) -> None:
    """Log one warning for an invocation that crashed: the error, the author's line (if it is known), and what happens next. If the
    execution is tried again, the warning also says how many invocations of it crashed in a row.

    `after` is the execution as the end of the invocation left it.
    """
    error = outcome.error or Failure()
    place = outcome.place or place_of(error)
    where = "" if place is None else f", at {place}"
    log.warning("%s/%s: an invocation failed: %s%s; %s", after.function, after.name, one_line(error), where, _what_follows(after, now))


def _what_follows(after: Execution, now: int) -> str:
    if after.state is State.QUARANTINED:
        return f"after {MAX_FAILURES} failures in a row the execution is quarantined"
    if after.status is ExecutionStatus.FAILED and after.failures == MAX_FAILURES - 1:
        return f"it was the {ordinal(MAX_FAILURES)} failure in a row, so the execution has failed"
    if after.status is not ExecutionStatus.RUNNING:
        return f"the execution is over ({after.status.value})"
    return f"the {ordinal(after.failures)} failure in a row; the next try is in {max(0, after.ready_at - now) / 1000:.1f} s"

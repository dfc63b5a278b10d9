"""Telling of failed invocations: one warning each, with what failed, where, how often in a row, and when the next try is."""

from __future__ import annotations

import logging

from holdfast.model.execution import Execution, ExecutionStatus, Outcome, OutcomeStatus, State
from holdfast.model.life import MAX_FAILURES
from holdfast.model.operations import Failure
from holdfast.model.saying import ordinal, place_of, said

log = logging.getLogger("holdfast.engine")


def tell_failure(outcome: Outcome, after: Execution, now: int) -> None:
    """Tell of an invocation that failed; `after` is its execution as that left it. Other outcomes are not told here."""
    if outcome.status is not OutcomeStatus.CRASHED:
        return
    error = outcome.error or Failure()
    place = outcome.place or place_of(error)
    where = "" if place is None else f", at {place}"
    log.warning("%s/%s: an invocation failed: %s%s; %s", after.function, after.name, said(error), where, _what_follows(after, now))


def _what_follows(after: Execution, now: int) -> str:
    if after.state is State.QUARANTINED:
        return f"after {MAX_FAILURES} failures in a row the execution is quarantined"
    if after.status is ExecutionStatus.FAILED and after.failures == MAX_FAILURES - 1:
        return f"it was the {ordinal(MAX_FAILURES)} failure in a row, so the execution has failed"
    if after.status is not ExecutionStatus.RUNNING:
        return f"the execution is over ({after.status.value})"
    return f"the {ordinal(after.failures)} failure in a row; the next try is in {max(0, after.ready_at - now) / 1000:.1f} s"

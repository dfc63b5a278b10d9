"""Work for many, of which one may fail: what goes wrong with one is logged, and the others are served."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from holdfast.model.errors import DiskFailed, DiskFull, HoldfastError
from holdfast.model.execution import Execution, Outcome, OutcomeStatus
from holdfast.model.operations import Failure
from holdfast.store.seam import Store

log = logging.getLogger("holdfast.engine")
_DISK: Final = (DiskFailed.__name__, DiskFull.__name__)


@contextmanager
def spared(execution: str) -> Iterator[None]:
    """Around what is done for one execution of several. A disk that fails concerns all, and is raised."""
    try:
        yield
    except DiskFailed:
        raise
    except Exception as trouble:
        log.warning("could not look after %s: %s", execution, trouble, exc_info=not isinstance(trouble, HoldfastError))


def readable(store: Store, executions: Iterable[str]) -> Iterator[Execution]:
    """Those of these executions that are there and can be read."""
    for execution in executions:
        header = None
        with spared(execution):
            header = store.find(execution)
        if header is not None:
            yield header


def blameless(outcome: Outcome) -> Outcome:
    """The outcome as it counts: an invocation that only a failing disk ended was interrupted, which counts nowhere."""
    by_disk = outcome.status is OutcomeStatus.CRASHED and outcome.error is not None and (outcome.error.type or "").endswith(_DISK)
    return Outcome(OutcomeStatus.INTERRUPTED) if by_disk else outcome


def unwritable(trouble: HoldfastError, outcome: Outcome) -> Outcome | None:
    """What to write when the outcome of an invocation can never be written: a crash that says so. None if `outcome` is that crash."""
    kind = type(trouble).__name__
    if outcome.status is OutcomeStatus.CRASHED and outcome.error is not None and outcome.error.type == kind:
        return None
    return Outcome(OutcomeStatus.CRASHED, error=Failure(str(trouble), kind))

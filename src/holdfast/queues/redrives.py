"""Redrives: start parked executions again, under the same name and in the same queue. The parked one stays, superseded by the new one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from holdfast.engine.enqueues import redriven
from holdfast.engine.restarts import RestartStore
from holdfast.model.clock import Clock
from holdfast.model.errors import HoldfastError
from holdfast.model.execution import Execution
from holdfast.model.history import KIND
from holdfast.model.ids import IdSource
from holdfast.model.starts import Start, Started
from holdfast.store.isolation import concerns_all
from holdfast.store.seam import CommitStore, ExecutionStore

_BATCH: Final = 500


class Redriven(msgspec.Struct, frozen=True):
    """The result of the redrive of one parked execution."""

    parked: str
    """The id of the parked execution."""
    started: str | None
    """The id of the new execution; None if the redrive was refused."""
    error: HoldfastError | None = None
    """Why the redrive was refused; None if it was not."""


def redrive(store: RestartStore, parked: Iterable[Execution], clock: Clock, ids: IdSource) -> Sequence[Redriven]:
    """Start these parked executions again. Each has its own result: if one is refused, the others are still started. The results may be in
    another order than `parked`."""
    done: list[Redriven] = []
    batch: list[tuple[Execution, Start]] = []
    for header in parked:
        try:
            now = clock.now()
            batch.append((header, start_again(store, header, ids(now), now)))
        except HoldfastError as refused:
            if concerns_all(refused):
                raise
            done.append(Redriven(header.id, None, refused))
        if len(batch) == _BATCH:
            done += _written(store, batch, clock.now())
            batch = []
    return [*done, *(_written(store, batch, clock.now()) if batch else ())]


def _written(store: CommitStore, batch: Sequence[tuple[Execution, Start]], now: int) -> list[Redriven]:
    answers = store.commit([start for _, start in batch], now).answers
    done = []
    for (header, _), answer in zip(batch, answers, strict=True):
        if isinstance(answer, HoldfastError):
            done.append(Redriven(header.id, None, answer))
        else:
            assert isinstance(answer, Started)
            done.append(Redriven(header.id, answer.header.id))
    return done


def start_again(store: ExecutionStore, header: Execution, identity: str, now: int) -> Start:
    """The write that enqueues a parked execution again: a new execution with the id `identity` and the same input. A run of a worker or a
    pipeline also inherits the receipts of the parked run, which record its writes. Raises InvalidParameter or RestartRefused if the
    execution cannot be redriven."""
    if (store.history(header.id, 0, 1)[0].event.detail or {}).get(KIND) is None:
        return redriven(store, header, identity, now)
    from holdfast.workers.queued_runs import redriven_run  # a program without workers does not load their modules

    return redriven_run(store, header, identity, now)

"""The runs of a store: what a person with access to the store can see and cancel. It needs no engine, and it runs nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

import msgspec

from holdfast.model.audit import Actor
from holdfast.model.clock import Clock
from holdfast.model.execution import Execution
from holdfast.store.one_write import write_one
from holdfast.store.seam import CommitStore
from holdfast.workers.decisions import cancel_write
from holdfast.workers.replay import Finished, finished_in
from holdfast.workers.run_lookup import Caller, RunStore, RunView, run_view, run_views


class CancelledRun(msgspec.Struct, frozen=True):
    """What a cancel has done: the run, and whether it will end by the cancel."""

    run: RunView
    cancelled: bool
    """True if the run was still open; False if it had ended before."""


class RunsStore(CommitStore, RunStore, Protocol):
    """The part of a store that has runs, and in which they can be cancelled."""


class StoreRuns:
    """Shows and cancels the runs of workers and pipelines in a store. Name a run as `Client` names an execution. `get`, `finished` and
    `cancel` raise ExecutionNotFound if there is no such run."""

    def __init__(self, store: RunsStore, clock: Clock, find: Callable[[str], Execution], actor: Actor | None = None) -> None:
        self._store, self._clock, self._find, self._actor = store, clock, find, actor

    def list(self, worker: str | None = None, *, limit: int = 50, parent: str | None = None, queue: str | None = None) -> Iterator[RunView]:
        """At most `limit` runs, the newest first. `worker`: only runs of this worker or pipeline. `queue`: only runs of this queue.
        `parent`, a run of a pipeline: only runs that its own nodes asked for. Without `parent` and `worker`, runs that a pipeline asked
        for are left out."""
        above = None if parent is None else self._find(parent).id
        return run_views(self._store, Caller(), worker=worker, limit=limit, parent=above, queue=queue)

    def get(self, run: str) -> RunView:
        """A run with its state, its response so far and its calls."""
        return run_view(self._store, self._find(run).id, Caller())

    def finished(self, run: str) -> Finished:
        """Everything that the store keeps of a run that has ended, for `service.runtimes.worker_replays.replay_run`. Raises
        InvalidParameter if the run has not ended."""
        return finished_in(self._store, self._find(run).id, Caller())

    def cancel(self, run: str) -> CancelledRun:
        """Cancel a run. A runner ends it after this call; a quarantined run, or one that has written no operation yet, ends with this call.
        Returns the run, and whether it was still open."""
        found = self._find(run).id
        write = cancel_write(self._store, found, Caller(actor=self._actor), self._clock.now())
        if write is not None:
            write_one(self._store, write, self._clock.now())
        return CancelledRun(self.get(found), write is not None)

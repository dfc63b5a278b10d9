"""Pages of the approvals that wait for a decision: in the order of their runs' ids, and in a run in the order of its questions.

A page begins after a given approval, even if that approval has been decided since. So a person who decides approvals between two pages
misses none.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Final

import msgspec

from holdfast.model.errors import CodecFailed, RowDamaged
from holdfast.model.execution import ExecutionStatus
from holdfast.model.operations import Status
from holdfast.store.seam import ExecutionStore
from holdfast.workers.approvals import Approval, approvals_of, run_of
from holdfast.workers.run_lookup import Caller, accepted_in, find_run, running_below
from holdfast.workers.run_usage import Spending

log = logging.getLogger("holdfast.workers")

MOST_SHOWN: Final = 500
"""The most approvals of one page."""
_RUNS: Final = 100


class ApprovalPage(msgspec.Struct, frozen=True, kw_only=True):
    """One page of the approvals that wait for a decision. Each approval says what its run has spent, and what each execution above that run
    has spent."""

    approvals: list[Approval]
    next: str | None = None
    """The id of the approval after which the next page begins; None: this is the last page."""


def approval_page(
    store: ExecutionStore, caller: Caller, *, run: str | None = None, after: str | None = None, limit: int = 100
) -> ApprovalPage:
    """One page of the open approvals that the caller may see: the first `limit` after the approval `after`, or from the beginning if
    `after` is None. With `run`, only approvals of this run and of all runs below it. Runs that cannot be read are logged and left out.
    Raises ApprovalNotFound if `after` does not have the form of an approval's id, and ExecutionNotFound if the caller can see no run
    `run`."""
    first = None if after is None else run_of(after)
    found: list[Approval] = []
    for run_id in _waiting_runs(store, caller, first) if run is None else _runs_below(store, caller, run, first):
        found += _open_in(store, caller, run_id, after if run_id == first else None)
        if len(found) > limit:
            break
    shown = list(map(Spending(store).with_spent, found[:limit]))
    return ApprovalPage(approvals=shown, next=shown[-1].approval_id if len(found) > limit else None)


def undecided(store: ExecutionStore, caller: Caller) -> Iterator[Approval]:
    """The approvals that wait for a decision and that the caller may see, oldest run first. Runs that cannot be read are logged and left
    out."""
    spending = Spending(store)
    return (spending.with_spent(one) for run_id in _waiting_runs(store, caller, None) for one in _open_in(store, caller, run_id, None))


def _waiting_runs(store: ExecutionStore, caller: Caller, first: str | None) -> Iterator[str]:
    """The ids of the runs that wait for a person, in the order of the ids. A caller who may see only one tenant gets only runs of that
    tenant. With `first`, this id comes first (even if that run waits no more), then those after it; None: all."""
    if first is not None:
        yield first
    beyond = first or ""
    while page := store.undecided(beyond, _RUNS, None if caller.everywhere or not caller.logged_in else caller.tenant):
        yield from page
        beyond = page[-1]


def _runs_below(store: ExecutionStore, caller: Caller, run: str, first: str | None) -> list[str]:
    """The ids of the run `run` and of all runs under way below it, in the order of the ids, from the run `first` on; None: all. Below
    `run`, only headers are read."""
    header, _ = find_run(store, run, caller)
    found, below = [header.id], [header.id]
    while below:
        children = [child.id for child in running_below(store, below.pop())]
        found += children
        below += children
    return sorted(one for one in found if one >= (first or ""))


def _open_in(store: ExecutionStore, caller: Caller, run_id: str, after: str | None) -> list[Approval]:
    """The open approvals of one run, without those of the runs below it: all, or only those after the approval `after`. Empty if there is
    no such run, if it has ended, or if the caller may not see it. A run that cannot be read is logged, and the result is empty."""
    try:
        header = store.find(run_id)
        if (
            header is None
            or header.status is not ExecutionStatus.RUNNING
            or not caller.may_see(header)
            or accepted_in(store, header) is None
        ):
            return []
        asked = approvals_of(header, store.operations(header.id))
    except (RowDamaged, CodecFailed) as unreadable:
        log.error("the approvals of run %s are left out of lists: %s", run_id, unreadable)
        return []
    ids = [approval.approval_id for approval, _, _ in asked]
    begin = ids.index(after) + 1 if after in ids else 0
    return [approval for approval, op, _ in asked[begin:] if op.status is Status.STARTED]

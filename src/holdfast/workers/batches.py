"""Batches of approvals: one decision of a person on many approvals. Each approval has its own write, hash and result. If one fails, the
others are still decided."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from holdfast.model.errors import HoldfastError, InvalidParameter
from holdfast.store.seam import ExecutionStore
from holdfast.workers.approvals import Approval
from holdfast.workers.run_lookup import Caller, waiting_below

BatchVerdict = Literal["approve", "reject", "answer"]
MOST: Final = 500
"""The most approvals that one batch names, and that one request over HTTP decides."""


class DecisionResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result for one of the approvals that a person decided together."""

    approval_id: str
    state: str | None = None
    """The state of the approval after the decision: `open` if more votes are needed. None: the decision was refused."""
    error_code: str | None = None
    message: str | None = None


class ChosenApprovals(msgspec.Struct, frozen=True):
    """The approvals that one decision is for."""

    ids: list[str]
    more: bool
    """Whether more approvals of the run wait, for which the decision is not."""


def chosen(
    store: ExecutionStore,
    caller: Caller,
    approvals: Sequence[str] = (),
    run: str | None = None,
    node: str | None = None,
    *,
    most: int | None = None,
) -> ChosenApprovals:
    """The ids of the approvals that one decision is for: those named in `approvals`; or the open approvals of `run` and of all runs below
    it, and with `node` only those of nodes with this name and of the runs below them. `most`: with `run`, only this many of them, the first
    ones; None: all. Raises InvalidParameter if both `approvals` and `run` are given or neither is, if `node` is given without `run`, or if
    `approvals` names more than 500 (MOST). Raises ExecutionNotFound if the caller can see no run `run`."""
    if bool(approvals) is (run is not None):
        raise InvalidParameter("Name approvals, or a run (then all its open approvals are decided): one of the two, not both.")
    if node is not None and run is None:
        raise InvalidParameter("A node was named without its run. Name the run of the node, too.")
    if run is not None:
        found = waiting_below(store, run, caller, node)
        ids = [one.approval_id for one in itertools.islice(found, most)]
        return ChosenApprovals(ids, more=next(found, None) is not None)
    ids = list(dict.fromkeys(approvals))
    if len(ids) > MOST:
        raise InvalidParameter(f"A batch decides at most {MOST} approvals, not {len(ids)}.")
    return ChosenApprovals(ids, more=False)


def done(approval: Approval) -> DecisionResult:
    """The result for an approval whose decision was written. `approval` is the approval after that."""
    return DecisionResult(approval_id=approval.approval_id, state=approval.state)


def refused(approval_id: str, error: HoldfastError) -> DecisionResult:
    """The result for an approval whose decision was refused with `error`."""
    return DecisionResult(approval_id=approval_id, error_code=error.code, message=str(error))

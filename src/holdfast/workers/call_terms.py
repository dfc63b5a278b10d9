"""What the gateway must know about a run."""

from __future__ import annotations

import msgspec

from holdfast.contract.terms import Limits
from holdfast.workers.accepted_request import Budget
from holdfast.workers.ledger import Payer
from holdfast.workers.run_reporters import SILENT, RunReporter


class CallTerms(msgspec.Struct, frozen=True, kw_only=True):
    """What the gateway must know about the run."""

    run_id: str
    family: str
    """The id that all runs of one idempotency key share. Keys for downstream services are made from it, so a new run has the same keys."""
    tenant: str
    worker_id: str = ""
    requested_by: str
    limits: Limits
    egress: tuple[str, ...] | None
    approvals: frozenset[str]
    reporter: RunReporter = SILENT
    budgets: tuple[Budget, ...] = ()
    restarts: bool = False
    """The run restarts an earlier one: a write with other arguments than before is a question to a person."""
    payer: Payer | None = None
    """Whose money the run spends; None: the run itself, as no pipeline asked for it."""

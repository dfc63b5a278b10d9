"""Facts about a run that its gateway needs."""

from __future__ import annotations

import msgspec

from holdfast.contract.terms import Limits
from holdfast.workers.accepted_request import Budget
from holdfast.workers.ledger import Payer
from holdfast.workers.run_reporters import SILENT, RunReporter


class CallTerms(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about a run that its gateway needs."""

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
    """Whether the run restarts an earlier one. Then a person is asked about a write whose arguments have changed."""
    payer: Payer | None = None
    """Who pays for the run; None if no pipeline asked for it, so that the run pays itself."""

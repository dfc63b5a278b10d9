"""Facts about a run that its gateway needs, and what a tool gets to know about each call."""

from __future__ import annotations

from hashlib import sha256

import msgspec

from holdfast.contract.terms import RunLimits
from holdfast.workers.accepted_request import Budget
from holdfast.workers.attempt_state import AttemptState
from holdfast.workers.calls import Intent
from holdfast.workers.ledger import Payer
from holdfast.workers.run_reporters import SILENT, RunReporter
from holdfast.workers.tools.seam import Call, Hears


class CallTerms(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about a run that its gateway needs."""

    run_id: str
    family: str
    """The id of the run's family. Idempotency keys for other services are made from it, so each run of the family sends the same key for
    the same call. Only a write whose arguments changed gets another key."""
    tenant: str
    worker_id: str = ""
    requested_by: str
    limits: RunLimits
    egress: tuple[str, ...] | None
    """The hosts that the contract lets the worker reach; None: the contract sets no such limit."""
    approvals: frozenset[str]
    """The names of the tools whose calls need an approval."""
    reporter: RunReporter = SILENT
    budgets: tuple[Budget, ...] = ()
    restarts: bool = False
    """Whether the run is a restart of an earlier run. If so, a person is asked before the run makes a write that an earlier run made with
    other arguments; if not, such a call fails with `receipt_conflict`."""
    payer: Payer | None = None
    """To whom the ledger assigns the costs of the run's calls; None: to the run, and to no pipeline."""

    def call_of(self, intent: Intent, attempt: AttemptState, now: int, hears: Hears | None = None) -> Call:
        """What a tool gets to know about the call with this intent. `now` is the time, in milliseconds since 1970."""
        changed = f"\0{intent.asked_sha256}" if intent.changed else ""  # without this, a server would take it for the earlier call
        key = sha256(f"{self.family}\0{intent.identity}{changed}".encode()).hexdigest()[:32]
        return Call(
            run_id=self.run_id,
            tool=intent.tool,
            idempotency_key=key,
            deadline=attempt.time.deadline,
            now=now,
            attempt=attempt.number,
            tenant=self.tenant,
            egress=self.egress,
            traceparent=self.reporter.traceparent(intent),
            hears=hears,
        )

"""Call records: what a run writes about each call of a tool. The intent is written before the call, the receipt after it. The same write
changes the counters, the shared budgets and the ledger: the intent reserves, and the receipt settles."""

from __future__ import annotations

import asyncio

import msgspec

from holdfast.durable.journal import Journal, started, succeeded
from holdfast.model.clock import Clock
from holdfast.model.errors import LimitReached
from holdfast.workers.attempt_time import AttemptTime
from holdfast.workers.budgets import Settlements, SharedBudgets
from holdfast.workers.call_terms import CallTerms
from holdfast.workers.calls import Calls, Intent, Receipt, Try, intent_at, receipt_at
from holdfast.workers.counters import Counters
from holdfast.workers.inherited_calls import SETTLED, kept_call
from holdfast.workers.ledger import Ledger, Payer, has_entries
from holdfast.workers.policy import Policy
from holdfast.workers.tools.seam import Reservation, Tool, ToolFailed, cool_down_keys


class CallRecords:
    """Writes the intents and the receipts of one run."""

    def __init__(
        self, terms: CallTerms, journal: Journal, calls: Calls, policy: Policy, clock: Clock, settlements: Settlements | None = None
    ) -> None:
        self._journal = journal
        self._calls = calls
        self._clock = clock
        self._reporter = terms.reporter
        self._counters = Counters(policy, terms.tenant, clock)
        self._budgets = SharedBudgets(terms.budgets, clock, settlements or Settlements())
        payer = terms.payer or Payer(run_id=terms.run_id, tenant=terms.tenant, worker_id=terms.worker_id)
        self._ledger = Ledger(payer, policy.ledger_days, clock)

    async def intend(self, tool: Tool, intent: Intent, time: AttemptTime) -> Try:
        """Wait until the budgets that are shared with other runs have room, and write the intent. Returns the call, without a receipt.
        While the call waits, `time` is stopped. Raises ToolFailed if the call is above a limit, or if the tool refuses its arguments."""
        return await self._budgets.admitted(tool.name, time, lambda: self._intended(tool, intent), self._counters.refused)

    async def _intended(self, tool: Tool, intent: Intent) -> Try:
        """Write the call's intent and charges in one write. Raises ToolFailed or LimitReached if the call is above a limit or not valid."""
        self._calls.check_calls(tool.name)
        own = self._counters.left(self._calls.remaining)
        try:
            reservation = tool.reserve(intent.arguments, self._budgets.left(own))
            keys = cool_down_keys(tool, intent.arguments)
        except ToolFailed as failed:
            raise self._budgets.explained(failed, own) from None
        except Exception as error:  # a body may pass any arguments
            raise ToolFailed(
                "tool_failed", f"{tool.name} refuses these arguments: {type(error).__name__}. See the tool's schema."
            ) from error
        self._calls.check_reservation(reservation)
        intent = msgspec.structs.replace(intent, reservation=reservation)
        attempted = Try(intent=intent, live=True, began=self._clock.now())
        at = (tool.name, intent.identity, intent.number)
        self._calls.begin(attempted)  # before the write: two calls side by side must not reserve the same tokens
        try:
            await self._journal.write(
                succeeded(intent_at(*at), _text(intent)),
                started(receipt_at(*at)),
                charges=(
                    *self._counters.reserved(reservation, attempted.began),
                    *self._counters.open(keys),
                    *self._budgets.reserved(reservation),
                ),
                ledger=self._ledger.reserved(intent),
            )
        except LimitReached:
            self._calls.take_back(attempted)
            raise
        except asyncio.CancelledError:
            attempted.live = False  # the write may still succeed
            raise
        return attempted

    async def keep(self, attempted: Try, hashed: str) -> None:
        """Write that the answer of an inherited call is used for other arguments too: `hashed` is the hash of those arguments."""
        attempted.kept = (*attempted.kept, hashed)
        await self._journal.write(kept_call(attempted, hashed))

    async def settle(self, attempted: Try, receipt: Receipt, failed: ToolFailed | None = None) -> None:
        """Write the receipt of a call, and give back what the call had reserved and did not use. If the call failed, `failed` is
        its error: the same write closes the key that the error names, if it names one."""
        intent = attempted.intent
        closing = () if failed is None else self._counters.closing(failed)
        self._calls.settle(attempted, receipt)  # before the write: the write goes on even if its caller is cancelled
        if attempted.inherited:
            attempted.at = self._clock.now()
            await self._journal.write(kept_call(attempted, SETTLED))
        else:
            back = self._counters.settled(intent.reservation, receipt.usage, attempted.began)
            shared = self._budgets.settled(intent.reservation, receipt.usage)
            ended = self._ledger.ended(intent, receipt)
            at = receipt_at(intent.tool, intent.identity, intent.number)
            await self._journal.write(succeeded(at, _text(receipt)), charges=(*back, *shared, *closing), ledger=ended)
            self._budgets.settlement_written()
            found = self._journal.find(at)
            attempted.at = (found and found.ended_at) or self._clock.now()
        self._reporter.tool_ended(attempted)

    def counts(self, reservation: Reservation) -> bool:
        """Whether a shared budget or the ledger counts a call with this reservation."""
        return bool(self._budgets) or has_entries(reservation)


def _text(value: msgspec.Struct) -> str:
    return msgspec.json.encode(value).decode()

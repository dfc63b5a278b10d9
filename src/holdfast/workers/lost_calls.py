"""Lost calls: calls that have an intent and no receipt, because the runner, the body or the tool failed before the answer came.

- A write: the tool is asked whether the call took place (`reconcile`). If the tool does not know, a person is asked. If the call took
place, its receipt gets the result that the tool or the person told. If it did not, the gateway may make it again. If the person decides to
stop, the call stays without a receipt, and fails with `unknown_outcome`.
- A read counts as if it had used all that it reserved. The gateway may make it again.
- A call without any effect outside the sandbox (`pure`) counts as if it had used nothing. The gateway may make it again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import msgspec

from holdfast.model.clock import Clock, monotonic
from holdfast.workers.approvals import ApprovalPlace
from holdfast.workers.asked_persons import AskedPersons, WaitsForPerson
from holdfast.workers.attempt_state import AttemptState
from holdfast.workers.call_records import CallRecords
from holdfast.workers.call_terms import CallTerms
from holdfast.workers.calls import MESSAGE_LENGTH, CallAnswer, Calls, Intent, Receipt, Try, answered, reserved_usage
from holdfast.workers.tools.seam import CallVerdict, DidNotHappen, Effect, Happened, Tool, ToolFailed, Unknown, Usage, verdict_on


class LostCalls:
    """Settles the lost calls of a run, for one body of the run."""

    def __init__(
        self,
        terms: CallTerms,
        records: CallRecords,
        persons: AskedPersons,
        attempt: AttemptState,
        reconcile_seconds: float,
        clock: Clock,
    ) -> None:
        """A tool has at least `reconcile_seconds` to say whether a call took place, even if the time of the attempt is over."""
        self._terms = terms
        self._records = records
        self._persons = persons
        self._attempt = attempt
        self._reconcile_seconds = reconcile_seconds
        self._clock = clock

    async def settle(self, tool: Tool, lost: Try) -> CallAnswer | None:
        """Settle a call that an earlier body made, and that the present body asks for again. Returns the answer of a write that took place.
        None: the gateway may make the call again. Raises the same errors as `find_out`."""
        why = f"The runner that called {tool.name} ended before the answer came."
        if tool.effect is Effect.WRITE and (answer := await self.find_out(tool, lost, why)) is not None:
            return answer
        await self._records.settle(lost, Receipt(void=True, usage=reserved_usage(lost) if tool.effect is Effect.READ else Usage()))
        return None

    async def settle_writes(self, calls: Calls, tools: Mapping[str, Tool]) -> ApprovalPlace | None:
        """After an attempt: settle the run's own lost writes, if possible. Returns the approval that the run must wait for, or None."""
        for lost in calls.unresolved():
            tool = tools.get(lost.intent.tool)
            if tool is None:
                continue
            try:
                if await self.find_out(tool, lost, f"The attempt ended before {tool.name} answered.") is None:
                    await self._records.settle(lost, Receipt(void=True))
            except WaitsForPerson as wait:
                return wait.at
            except ToolFailed:  # the approval expired, the person said stop, or the run is cancelled
                continue
        return None

    async def find_out(self, tool: Tool, lost: Try, why: str) -> CallAnswer | None:
        """Find out from the tool, else from a person, whether a lost write took place. If it did, write its receipt and return its answer.
        None: it did not, and nothing is written. `why` tells the person why the outcome is unknown. Raises WaitsForPerson while a person
        must decide, and ToolFailed if the person decides to stop, or if no decision can come any more."""
        verdict = await self._told_by_tool(tool, lost.intent)
        if isinstance(verdict, Unknown):
            verdict = await self._told_by_person(tool, lost.intent, why)
        if isinstance(verdict, DidNotHappen):
            return None
        await self._records.settle(lost, Receipt(result=verdict.result))
        return answered(lost)

    async def _told_by_tool(self, tool: Tool, intent: Intent) -> CallVerdict:
        until = max(self._attempt.time.deadline, monotonic() + self._reconcile_seconds)  # even if the attempt's time is over
        try:
            async with asyncio.timeout(max(0.0, until - monotonic())):
                call = self._terms.call_of(intent, self._attempt, self._clock.now())
                return await verdict_on(tool, msgspec.structs.replace(call, deadline=until), intent.arguments)
        except (ToolFailed, TimeoutError):
            return Unknown()

    async def _told_by_person(self, tool: Tool, intent: Intent, why: str) -> Happened | DidNotHappen:
        which = f"{intent.identity}.{intent.number}"
        decision, _ = await self._persons.decision("unknown_outcome", tool.name, which, intent.arguments, None, why[:MESSAGE_LENGTH])
        if decision.verdict == "stop":
            raise ToolFailed("unknown_outcome", f"It is unknown whether {tool.name} took place. {decision.decided_by} decided to stop.")
        return Happened(decision.result) if decision.verdict == "happened" else DidNotHappen()


async def settle_lost_reads(calls: Calls, records: CallRecords) -> None:
    """At the end of an attempt: settle the run's own lost reads, if a shared budget or the ledger counts them."""
    for lost in calls.abandoned():
        if records.counts(lost.intent.reservation):
            await records.settle(lost, Receipt(void=True, usage=reserved_usage(lost)))

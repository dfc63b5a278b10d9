"""The calls of a run: every call of a tool that it made, how each ended, and what that leaves of the budget.

It is read from the run's own intents and receipts, never remembered: a crash changes nothing that was spent.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import msgspec

from holdfast.contract.terms import Limits
from holdfast.durable.identifier import Identity
from holdfast.model.operations import Operation, Status, Type
from holdfast.workers.journal import INTENT, RECEIPT, place
from holdfast.workers.tools.seam import Remaining, Reservation, ToolFailed, Usage


class Intent(msgspec.Struct, frozen=True, kw_only=True):
    """What was about to be done, on disk before it was."""

    tool: str
    identity: str
    number: int
    """Which try of this call it is, from 1."""
    attempt: int
    asked_sha256: str
    """Of the arguments the body gave."""
    arguments: dict[str, Any]
    """Those that were used: a person may have edited them."""
    reservation: Reservation = Reservation()
    write: bool = True
    approval: str | None = None


class CallError(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why a call came to nothing."""

    error_code: str
    message: str
    retry_after_seconds: float | None = None
    details: Any = None


class Receipt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a call came to."""

    result: Any = None
    error: CallError | None = None
    usage: Usage = Usage()
    void: bool = False
    """The answer was lost in a crash, and it is certain that the call may be made again: the body never heard of this one."""

    def counts_in(self, made_in: int, attempt: int) -> bool:
        """Whether a body gets this answer: a good one in every attempt, a failure only in the attempt that met it."""
        return not self.void and (self.error is None or made_in == attempt)


class Try(msgspec.Struct, kw_only=True):
    """One try of a call: its intent, and its receipt once there is one."""

    intent: Intent
    receipt: Receipt | None = None
    """None: it is under way, or nobody knows what became of it."""
    began: int = 0
    """When the intent was written."""
    at: int = 0
    """When the receipt was written."""
    live: bool = False
    """It is under way in this very process."""
    inherited: bool = False
    """It was made by an earlier run of the same key."""


def intent_at(effects: Identity, tool: str, identity: str, number: int) -> Identity:
    """Where the intent of a try is kept."""
    return place(Type.STEP, INTENT, tool, identity, number, parent=effects)


def receipt_at(effects: Identity, tool: str, identity: str, number: int) -> Identity:
    """Where its receipt is kept."""
    return place(Type.STEP, RECEIPT, tool, identity, number, parent=effects)


_intents = msgspec.json.Decoder(Intent)
_receipts = msgspec.json.Decoder(Receipt)


class Calls:
    """The calls of one run."""

    def __init__(self, limits: Limits, effects: Identity, most_calls: int | None = None) -> None:
        """`most_calls` is the operator's cap, for a contract that has none or a wider one."""
        self._limits = limits
        self._most_calls = most_calls
        self._effects = effects
        self._tries: dict[str, list[Try]] = {}
        self._calls: defaultdict[str, int] = defaultdict(int)
        self._tokens, self._cost = 0, Decimal(0)
        """Spent or reserved by this run."""

    def read(self, operations: Iterable[Operation], *, inherited: bool = False) -> None:
        """Take in what a run has written; of an earlier run only what it did to the world counts."""
        by_id = {operation.id: operation for operation in operations}
        for operation in by_id.values():
            if operation.sub_type != INTENT or operation.result is None:
                continue
            intent = _intents.decode(operation.result)
            if inherited and not intent.write:
                continue
            found = by_id.get(receipt_at(self._effects, intent.tool, intent.identity, intent.number).operation_id)
            receipt = _receipts.decode(found.result) if found is not None and found.status is Status.SUCCEEDED and found.result else None
            if inherited and receipt is not None and receipt.error is not None:
                continue
            at = (found.ended_at or 0) if found is not None else 0
            self.begin(Try(intent=intent, receipt=receipt, began=operation.started_at, at=at, inherited=inherited))

    def begin(self, attempted: Try) -> None:
        """A call is about to be made."""
        self._tries.setdefault(attempted.intent.identity, []).append(attempted)
        if not attempted.inherited:
            self._calls[attempted.intent.tool] += 1
            self._count(attempted, 1)

    def take_back(self, attempted: Try) -> None:
        """A call was refused before it was written."""
        self._tries[attempted.intent.identity].remove(attempted)
        self._calls[attempted.intent.tool] -= 1
        self._count(attempted, -1)

    def settle(self, attempted: Try, receipt: Receipt) -> None:
        """It is known what became of a call."""
        if not attempted.inherited:
            self._count(attempted, -1)
        attempted.live, attempted.receipt = False, receipt
        if not attempted.inherited:
            self._count(attempted, 1)

    def _count(self, attempted: Try, sign: int) -> None:
        usage, reserved = None if attempted.receipt is None else attempted.receipt.usage, attempted.intent.reservation
        self._tokens += sign * (reserved.tokens if usage is None else usage.input_tokens + usage.output_tokens)
        self._cost += sign * (reserved.cost_usd if usage is None else usage.cost_usd)

    @property
    def tries(self) -> list[Try]:
        """Every try of every call."""
        return [attempted for tries in self._tries.values() for attempted in tries]

    def latest(self, identity: str) -> Try | None:
        """The last try of a call."""
        tries = self._tries.get(identity)
        return tries[-1] if tries else None

    def spent(self, identity: str) -> int:
        """How often a call was really made: each time uses up an approval."""
        tries = self._tries.get(identity, ())
        return sum(attempted.receipt is None or not attempted.receipt.void for attempted in tries)

    def unresolved(self) -> list[Try]:
        """Calls that change the world, made by this run, of which nobody knows what became."""
        return [attempted for attempted in self._own() if attempted.intent.write and attempted.receipt is None and not attempted.live]

    @property
    def usage(self) -> Usage:
        """What was spent, and what lost calls may have spent: that counts as spent."""
        total = Usage()
        for attempted in self._own():
            if attempted.receipt is not None:
                total += attempted.receipt.usage
            elif not attempted.live:
                total += Usage(attempted.intent.reservation.tokens, 0, attempted.intent.reservation.cost_usd)
        return total

    @property
    def calls(self) -> int:
        """How many calls were made."""
        return sum(self._calls.values())

    @property
    def remaining(self) -> Remaining:
        """What is left for the next call; what others have reserved is not."""
        limits = self._limits
        return Remaining(
            None if limits.max_tokens is None else limits.max_tokens - self._tokens,
            None if limits.max_cost_usd is None else limits.max_cost_usd - self._cost,
        )

    def check_calls(self, tool: str) -> None:
        """Refuse a call beyond the number of calls allowed."""
        most, quota = self._limits.max_tool_calls, self._limits.tool_quotas.get(tool)
        if most is not None and self.calls >= most:
            raise ToolFailed("budget_exceeded", f"The run has made its {most} tool calls (max_tool_calls).")
        if self._most_calls is not None and self.calls >= self._most_calls:
            raise ToolFailed(
                "budget_exceeded", f"The run has made the {self._most_calls} tool calls that are allowed here (policy.most.tool_calls)."
            )
        if quota is not None and self._calls[tool] >= quota:
            raise ToolFailed("tool_quota_exceeded", f"The run has called {tool} {quota} times, which is its quota.")

    def check_reservation(self, reservation: Reservation) -> None:
        """Refuse a call that may cost more than is left."""
        left = self.remaining
        if left.tokens is not None and reservation.tokens > left.tokens:
            raise ToolFailed(
                "budget_exceeded", f"The call may take {reservation.tokens} tokens, and {max(0, left.tokens)} are left (max_tokens)."
            )
        if left.cost_usd is not None and reservation.cost_usd > left.cost_usd:
            raise ToolFailed(
                "budget_exceeded",
                f"The call may cost {reservation.cost_usd} USD, and {max(Decimal(0), left.cost_usd)} are left (max_cost_usd).",
            )

    def _own(self) -> Iterable[Try]:
        return (attempted for tries in self._tries.values() for attempted in tries if not attempted.inherited)

"""The calls of a run: every call of a tool, how each ended, and what is left of the budget.

The calls are read from the intents and receipts that the run has on disk, so a crash does not change what the run has spent.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from decimal import Decimal
from typing import Any, Final

import msgspec

from holdfast.contract.protocol import ResponseUsage, Tokens
from holdfast.contract.terms import RunLimits
from holdfast.durable.identifier import Identity
from holdfast.durable.journal import identity_of
from holdfast.model import codec, json_structs
from holdfast.model.errors import Rejected
from holdfast.model.operations import Failure, Operation, Status, Type
from holdfast.workers.run_operations import CARRIED_AT, EFFECTS_AT, INHERITED, INTENT, RECEIPT
from holdfast.workers.tools.seam import ZERO, Remaining, Reservation, ToolFailed, Usage


class Intent(msgspec.Struct, frozen=True, kw_only=True):
    """A call that the gateway is about to make. It is on disk before the call."""

    tool: str
    identity: str
    number: int
    """The number of this try of the call, from 1. A call may be tried again."""
    attempt: int
    """The attempt of the run that makes the call, from 1."""
    asked_sha256: str
    """The hash of the arguments that the body gave."""
    arguments: dict[str, Any]
    """The arguments with which the call is made: a person may have edited those that the body gave."""
    reservation: Reservation = Reservation()
    write: bool = True
    """Whether the tool changes the world."""
    approval: str | None = None
    """The id of the operation with the decision that approved the call; None if it needed no approval."""
    changed: bool = False
    """Whether an earlier run made a try of this call with other arguments. Then all later tries of the call are changed ones, too."""


class CallError(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why a call failed."""

    error_code: str
    message: str
    retry_after_seconds: float | None = None
    details: Any = None


MESSAGE_LENGTH: Final = 4000


def call_error(failed: ToolFailed) -> CallError:
    """A failure as the receipt stores it. A long message is cut off at MESSAGE_LENGTH characters. Characters that cannot be stored are
    replaced; details that cannot be stored are left out."""
    told = codec.readable(Failure(failed.message[:MESSAGE_LENGTH])).message or ""
    details: Any = failed.details
    try:
        codec.fitting(codec.dumps(details), "details")
    except Rejected:
        details = None
    return CallError(error_code=failed.code, message=told, retry_after_seconds=failed.retry_after_seconds, details=details)


class Receipt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The outcome of a call: its result or its error, and what it used."""

    result: Any = None
    error: CallError | None = None
    usage: Usage = Usage()
    void: bool = False
    """Whether the call has no answer: it certainly did not take place, or it is a read whose answer was lost. Then the gateway may make the
    call again."""

    def counts_in(self, made_in: int, attempt: int) -> bool:
        """Whether a body of the attempt `attempt` gets this receipt as the answer to its call. A result is given in every attempt, an error
        only in the attempt that made the call (`made_in`), a void receipt (the call did not take place, or it is a read whose answer was
        lost) never."""
        return not self.void and (self.error is None or made_in == attempt)


class Try(msgspec.Struct, kw_only=True):
    """One try of a call: its intent, and its receipt once there is one."""

    intent: Intent
    receipt: Receipt | None = None
    """None: the call is under way, or its outcome is unknown."""
    began: int = 0
    """When the intent was written, in milliseconds since 1970."""
    at: int = 0
    """When the receipt was written, in milliseconds since 1970; 0 if there is none."""
    live: bool = False
    """Whether the call is under way in this process."""
    inherited: bool = False
    """Whether an earlier run of the same family made the call."""
    kept: tuple[str, ...] = ()
    """The hashes of those other arguments for which a person decided that this call's answer is used (`keep` in changed_writes)."""

    @property
    def is_void(self) -> bool:
        """Whether the try ended without an answer: the call did not take place, or it is a read whose answer was lost."""
        return self.receipt is not None and self.receipt.void


class Inherited(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A call of an earlier run, in the form in which the run that inherits it stores it. It is not counted again in quotas, budgets or the
    ledger."""

    intent: Intent
    receipt: Receipt | None = None
    began: int = 0
    at: int = 0
    kept: tuple[str, ...] = ()


class CallAnswer(msgspec.Struct, frozen=True):
    """The answer to a request of the body: to a tool call, a step, a question or an artifact. A request that fails has no answer: an error
    is raised instead."""

    result: Any
    at: int
    """When the answer was written, in milliseconds since 1970; 0 if it is not recorded."""
    beyond: Reservation | None = None
    """What the call used beyond its reservation. None if the call stayed within its reservation, reserved nothing, or was made by an
    earlier run."""


def run_usage(usage: Usage, calls: int) -> ResponseUsage:
    """What a run has used, in the form in which responses show it. `calls` is how many tool calls the run made."""
    return ResponseUsage(
        tokens=Tokens(usage.input_tokens, usage.output_tokens),
        cost_usd=usage.cost_usd,
        tool_calls=calls,
        cached_tokens=usage.cached_tokens,
        reasoning_tokens=usage.reasoning_tokens,
    )


def reserved_usage(attempted: Try) -> Usage:
    """What is counted as the usage of a try whose answer was lost: everything that the try reserved."""
    reserved = attempted.intent.reservation
    return Usage(reserved.tokens, 0, reserved.cost_usd, is_estimated=reserved != Reservation())


def answered(attempted: Try) -> CallAnswer:
    """The answer in the receipt of a try, which must have one. Raises ToolFailed if the receipt holds an error."""
    receipt = attempted.receipt
    assert receipt is not None
    if receipt.error is None:
        return CallAnswer(receipt.result, attempted.at, _beyond(attempted, receipt.usage))
    error = receipt.error
    failed = ToolFailed(error.error_code, error.message, retry_after_seconds=error.retry_after_seconds, details=error.details)
    failed.recorded, failed.beyond = True, _beyond(attempted, receipt.usage)
    raise failed


def _beyond(attempted: Try, used: Usage) -> Reservation | None:
    """What a call used beyond its reservation. None if the call stayed within its reservation, reserved nothing, or was made by an earlier
    run. Tokens and money are compared separately, because tokens of prompts and of answers have different prices."""
    reserved = attempted.intent.reservation
    tokens, cost = max(0, used.tokens - reserved.tokens), max(ZERO, used.cost_usd - reserved.cost_usd)
    return Reservation(tokens, cost) if (tokens or cost) and reserved != Reservation() and not attempted.inherited else None


def intent_at(tool: str, identity: str, number: int) -> Identity:
    """The identity of the step that holds the intent of a try. `identity` is that of the call, and `number` that of the try."""
    return identity_of(Type.STEP, INTENT, tool, identity, number, parent=EFFECTS_AT)


def receipt_at(tool: str, identity: str, number: int) -> Identity:
    """The identity of the step that holds the receipt of a try. `identity` is that of the call, and `number` that of the try."""
    return identity_of(Type.STEP, RECEIPT, tool, identity, number, parent=EFFECTS_AT)


_inherited = json_structs.decoder(Inherited)
_intents = json_structs.decoder(Intent)
_receipts = json_structs.decoder(Receipt)


class Calls:
    """The calls of one run."""

    def __init__(self, limits: RunLimits, most_calls: int | None = None) -> None:
        """`most_calls` is the operator's limit on the number of calls; None: no limit. The limit in `limits` holds too."""
        self._limits = limits
        self._most_calls = most_calls
        self._tries: dict[str, list[Try]] = {}
        self._calls: defaultdict[str, int] = defaultdict(int)
        self._tokens, self._cost = 0, Decimal(0)
        """The tokens and the cost that this run has spent or reserved."""

    def read(self, operations: Iterable[Operation], *, inherited: bool = False) -> None:
        """Add the calls that the operations of a run record: its own, and those that it inherited. With `inherited`, the operations are
        those of an earlier run: its calls are added as inherited ones, but its own reads, and its own calls that failed, are left out."""
        by_id = {operation.id: operation for operation in operations}
        for operation in by_id.values():
            if operation.sub_type == INHERITED and operation.id != CARRIED_AT.operation_id and operation.result is not None:
                self._keep(_inherited.decode(operation.result))
            if operation.sub_type != INTENT or operation.result is None:
                continue
            intent = _intents.decode(operation.result)
            if inherited and not intent.write:
                continue
            found = by_id.get(receipt_at(intent.tool, intent.identity, intent.number).operation_id)
            receipt = _receipts.decode(found.result) if found is not None and found.status is Status.SUCCEEDED and found.result else None
            if inherited and receipt is not None and receipt.error is not None:
                continue
            at = (found.ended_at or 0) if found is not None else 0
            self.begin(Try(intent=intent, receipt=receipt, began=operation.started_at, at=at, inherited=inherited))

    def _keep(self, found: Inherited) -> None:
        """Add a call that a run inherited from an earlier one. A later record of the same try replaces an earlier one."""
        made = Try(intent=found.intent, receipt=found.receipt, began=found.began, at=found.at, inherited=True, kept=found.kept)
        tries = self._tries.setdefault(found.intent.identity, [])
        for place, known in enumerate(tries):
            if known.inherited and known.intent.number == found.intent.number:
                tries[place] = made
                return
        tries.append(made)

    def begin(self, attempted: Try) -> None:
        """Add a try, and count what it reserves or has used. An inherited try is not counted."""
        self._tries.setdefault(attempted.intent.identity, []).append(attempted)
        if not attempted.inherited:
            self._calls[attempted.intent.tool] += 1
            self._count(attempted, 1)

    def take_back(self, attempted: Try) -> None:
        """Remove a try whose intent the store refused to write, and do not count it any more."""
        self._tries[attempted.intent.identity].remove(attempted)
        self._calls[attempted.intent.tool] -= 1
        self._count(attempted, -1)

    def settle(self, attempted: Try, receipt: Receipt) -> None:
        """Give a try its receipt. What the call used is now counted instead of its reservation."""
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
        """All tries of all calls, inherited ones included."""
        return [attempted for tries in self._tries.values() for attempted in tries]

    def latest(self, identity: str) -> Try | None:
        """The newest try of the call with this identity; None if the call was never made."""
        tries = self._tries.get(identity)
        return tries[-1] if tries else None

    def compared(self, identity: str, hashed: str) -> Try | None:
        """The try with which a call of this identity and with this hash of arguments is compared: the newest one. But if the newest one is
        inherited, had other arguments and ended without an answer (`is_void`), it is the newest one that is not void, if there is one."""
        newest = self.latest(identity)
        if newest is None or not newest.inherited or not newest.is_void or newest.intent.asked_sha256 == hashed:
            return newest
        return next((one for one in reversed(self._tries[identity]) if not one.is_void), newest)

    def next_number(self, identity: str) -> int:
        """The number of the next try of the call with this identity."""
        newest = self.latest(identity)
        return 1 if newest is None else newest.intent.number + 1

    def spent(self, identity: str) -> int:
        """How many tries of the call with this identity count for approvals: all except those that ended without an answer (`is_void`). If
        the tool needs approvals, each of these tries used up one approval."""
        tries = self._tries.get(identity, ())
        return sum(not attempted.is_void for attempted in tries)

    def unresolved(self) -> list[Try]:
        """The tries of this run's writes that have no receipt and are not under way: their outcome is unknown."""
        return [attempted for attempted in self._own() if attempted.intent.write and attempted.receipt is None and not attempted.live]

    def abandoned(self) -> list[Try]:
        """The tries of this run's reads that have no receipt and are not under way any more."""
        return [attempted for attempted in self._own() if not attempted.intent.write and attempted.receipt is None and not attempted.live]

    @property
    def usage(self) -> Usage:
        """What the run has spent. A call under way is not counted. A call without a receipt that is not under way counts with its whole
        reservation."""
        total = Usage()
        for attempted in self._own():
            if attempted.receipt is not None:
                total += attempted.receipt.usage
            elif not attempted.live:
                total += reserved_usage(attempted)
        return total

    @property
    def count(self) -> int:
        """How many calls the run has made, every try counted. Inherited calls are not counted."""
        return sum(self._calls.values())

    @property
    def remaining(self) -> Remaining:
        """What is left of the run's token and cost limits for the next call, after what is spent and what calls under way have reserved.
        Below 0 if calls used more than they reserved. None means no limit."""
        limits = self._limits
        return Remaining(
            None if limits.max_tokens is None else limits.max_tokens - self._tokens,
            None if limits.max_cost_usd is None else limits.max_cost_usd - self._cost,
        )

    def check_calls(self, tool: str) -> None:
        """Raise ToolFailed if the run may make no further call, or no further call of this tool."""
        most, quota = self._limits.max_tool_calls, self._limits.tool_quotas.get(tool)
        if most is not None and self.count >= most:
            raise ToolFailed(
                "budget_exceeded", f"The run has made {most} tool calls, the most that its contract or request allows (max_tool_calls)."
            )
        if self._most_calls is not None and self.count >= self._most_calls:
            raise ToolFailed(
                "budget_exceeded",
                f"The run has made {self._most_calls} tool calls, the most that the operator allows (policy.most.tool_calls).",
            )
        if quota is not None and self._calls[tool] >= quota:
            raise ToolFailed("tool_quota_exceeded", f"The run has called {tool} {quota} times, the most that the tool's quota allows.")

    def check_reservation(self, reservation: Reservation) -> None:
        """Raise ToolFailed if the reservation, the most that a call could use, is larger than what is left of the run's limits."""
        left = self.remaining
        if left.tokens is not None and reservation.tokens > left.tokens:
            raise ToolFailed(
                "budget_exceeded",
                f"The call could use {reservation.tokens} tokens, but the run has only {max(0, left.tokens)} left (max_tokens).",
            )
        if left.cost_usd is not None and reservation.cost_usd > left.cost_usd:
            raise ToolFailed(
                "budget_exceeded",
                f"The call could cost {reservation.cost_usd} USD, but the run has only {max(Decimal(0), left.cost_usd)} USD left "
                "(max_cost_usd).",
            )

    def _own(self) -> Iterable[Try]:
        return (attempted for tries in self._tries.values() for attempted in tries if not attempted.inherited)

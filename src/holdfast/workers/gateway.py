"""The gateway: every effect of a body goes through here, and none without an intent on disk before it.

allowed? → receipt known? answer it → approved? → intend (ONE write: quota, reservation, caps, cool-down, intent) → call → settle
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import msgspec

from holdfast.contract.terms import Limits
from holdfast.model import codec
from holdfast.model.charging import Charge
from holdfast.model.clock import Clock, monotonic
from holdfast.model.errors import LimitReached, Rejected
from holdfast.model.operations import OPEN, Failure, Operation, Type
from holdfast.workers.approvals import ApprovalPlace, Decision, Kind, Requested, approval_at, arguments_hash, decision_of, request_of
from holdfast.workers.calls import CallError, Calls, Intent, Receipt, Try, intent_at, receipt_at
from holdfast.workers.counting import Counters
from holdfast.workers.frames import Asked, ToolAsked
from holdfast.workers.journal import EFFECTS, Journal, begun, ended, place
from holdfast.workers.observing import CLOSED, Eye
from holdfast.workers.policy import Policy
from holdfast.workers.tools.fitting import check_arguments, check_schema
from holdfast.workers.tools.refused import RefusedTool
from holdfast.workers.tools.seam import (
    Call,
    DidNotHappen,
    Effect,
    Happened,
    Tool,
    ToolFailed,
    Unknown,
    Usage,
    cool_down_keys,
    verdict_on,
)

EFFECTS_AT = place(Type.CONTEXT, EFFECTS, "effects")


_MESSAGE_LENGTH = 4000


class Parked(Exception):
    """The body must wait for a person: end it, and run it again when the answer is there."""

    def __init__(self, at: ApprovalPlace) -> None:
        super().__init__("the run waits for a person")
        self.at = at


class Answer(msgspec.Struct, frozen=True):
    """What a body is told, and the time it was written."""

    result: Any
    at: int
    beyond: int = 0
    """Tokens that were used beyond those reserved, where any were."""


class CallTerms(msgspec.Struct, frozen=True, kw_only=True):
    """What the gateway must know of the run."""

    run_id: str
    family: str
    """The same for every run of one idempotency key: what is handed downstream does not change with a new run."""
    tenant: str
    worker_id: str = ""
    requested_by: str
    limits: Limits
    egress: tuple[str, ...] | None
    approvals: frozenset[str]
    eye: Eye = CLOSED


class Gateway:
    """The effects of one run. One attempt is at work at a time."""

    def __init__(self, terms: CallTerms, journal: Journal, ledger: Calls, tools: Mapping[str, Tool], policy: Policy, clock: Clock) -> None:
        self._terms = terms
        self._journal = journal
        self.ledger = ledger
        self._tools = tools
        self._policy = policy
        self._clock = clock
        self._counters = Counters(policy, terms.tenant, clock)
        self._who = f"{terms.tenant}/{terms.worker_id}"
        self.attempt, self.deadline, self.used_ms = 0, 0.0, 0
        self.cancelled = False
        """Nobody is asked any more: the run ends, and says what is not known."""
        self._ordinals: defaultdict[str, int] = defaultdict(int)
        self._turns: dict[str, asyncio.Lock] = {}

    def begin(self, attempt: int, deadline: float, used_ms: int) -> None:
        """A body begins, from the top: its calls are counted anew, and meet their receipts."""
        self.attempt, self.deadline, self.used_ms, self._began = attempt, deadline, used_ms, monotonic()
        self._ordinals.clear()
        self._turns.clear()

    # --- a tool

    async def call(self, asked: ToolAsked) -> Answer:
        """Serve one call; raises ToolFailed, or Parked."""
        tool = self._allowed(asked.tool)
        identity = self._identity(tool, asked)
        async with self._turns.setdefault(identity, asyncio.Lock()):  # two calls of one key are one call
            return await self._served(tool, asked, identity)

    async def _served(self, tool: Tool, asked: ToolAsked, identity: str) -> Answer:
        hashed = arguments_hash(asked.arguments)
        known = self.ledger.latest(identity)
        if known is not None and known.intent.asked_sha256 != hashed:
            raise ToolFailed("receipt_conflict", f"{tool.name} was called before under the same key with other arguments.", known=True)
        if known is not None and known.receipt is not None and known.receipt.counts_in(known.intent.attempt, self.attempt):
            self._terms.eye.tool_reused(known, self.attempt)
            return _answered(known)
        if known is not None and known.receipt is None:
            why = f"Whoever called {tool.name} was gone before it answered."
            settled = await self._lost(tool, known, why) if tool.effect is Effect.WRITE else None
            if settled is not None:
                return settled
            await self._settle(known, Receipt(void=True, usage=_reserved(known) if tool.effect is Effect.READ else Usage()))
        return await self._made(tool, asked, identity, hashed, known)

    def _allowed(self, name: str) -> Tool:
        if all(grant.name != name for grant in self._terms.limits.tools):
            raise ToolFailed("tool_not_allowed", f"The contract does not allow the tool {name!r:.100}.")
        tool = self._tools.get(name)
        if tool is None:
            raise ToolFailed("tool_not_allowed", f"Nobody provides the tool {name!r} here.")
        if isinstance(tool, RefusedTool):  # before a person is asked to approve what cannot be called
            raise ToolFailed("tool_not_trusted", tool.refusal)
        return tool

    def _identity(self, tool: Tool, asked: ToolAsked) -> str:
        """Which call it is: by its key, else by its place among the calls of its tool. What only reads is called anew in each attempt."""
        self._ordinals[tool.name] += asked.key is None
        which = f"#{self._ordinals[tool.name]}" if asked.key is None else f"key:{asked.key}"
        scope = "" if tool.effect is Effect.WRITE else f"@{self.attempt}"
        return sha256(f"{tool.name}\0{which}{scope}".encode()).hexdigest()[:32]

    async def _made(self, tool: Tool, asked: ToolAsked, identity: str, hashed: str, known: Try | None) -> Answer:
        arguments, approval = asked.arguments, None
        number = 1 if known is None else known.intent.number + 1
        await check_arguments(tool.name, tool.arguments_schema, arguments, self._who)
        if tool.name in self._terms.approvals:
            which = f"{identity}.{self.ledger.spent(identity)}"
            decision, decided = await self._decided("approve", tool.name, which, arguments, _schema(tool))
            approval = decided.id
            if decision.verdict == "reject":
                raise ToolFailed("approval_rejected", f"{decision.decided_by} rejected the call of {tool.name}.{_said(decision)}")
            arguments = decision.edited_arguments if decision.edited_arguments is not None else arguments
        intent = Intent(
            tool=tool.name,
            identity=identity,
            number=number,
            attempt=self.attempt,
            asked_sha256=hashed,
            arguments=arguments,
            write=tool.effect is Effect.WRITE,
            approval=approval,
        )
        attempted = await self._intend(tool, intent)
        return await self._called(tool, attempted)

    async def _intend(self, tool: Tool, intent: Intent) -> Try:
        """One write: everything the call uses up, and that it is about to be made."""
        self.ledger.check_calls(tool.name)
        try:
            reservation = tool.reserve(intent.arguments, self._counters.left(self.ledger.remaining))
            keys = cool_down_keys(tool, intent.arguments)
        except ToolFailed:
            raise
        except Exception as error:  # a body may give it anything
            raise ToolFailed("tool_failed", f"{tool.name} cannot be called like that: {type(error).__name__}") from error
        self.ledger.check_reservation(reservation)
        intent = msgspec.structs.replace(intent, reservation=reservation)
        attempted = Try(intent=intent, live=True, began=self._clock.now())
        at = (EFFECTS_AT, tool.name, intent.identity, intent.number)
        self.ledger.begin(attempted)  # before the write: two calls side by side must not reserve the same tokens
        try:
            await self._journal.write(
                ended(intent_at(*at), _text(intent)),
                begun(receipt_at(*at)),
                charges=(
                    *self._counters.reserved(reservation, attempted.began),
                    *self._counters.open(keys),
                ),
            )
        except LimitReached as limit:
            self.ledger.take_back(attempted)
            raise self._counters.refused(limit) from None
        except asyncio.CancelledError:
            attempted.live = False  # it may be on disk all the same
            raise
        return attempted

    async def _called(self, tool: Tool, attempted: Try) -> Answer:
        """Make the call and write down what came of it."""
        call, called = self._call_of(attempted.intent), None
        self._terms.eye.tool_began(tool, attempted.intent)
        try:
            async with asyncio.timeout(max(0.0, self.deadline - monotonic()) + self._policy.grace_seconds):
                called = await tool.call(call, attempted.intent.arguments, attempted.intent.reservation)
            codec.dumps(called.result)
            receipt = Receipt(result=called.result, usage=called.usage)
            codec.fitting(_text(receipt), f"The result of {tool.name}")
        except ToolFailed as failed:
            return await self._failed(tool, attempted, failed)
        except asyncio.CancelledError:
            attempted.live = False
            raise
        except TimeoutError:
            late = ToolFailed("tool_timeout", f"{tool.name} did not answer in time.", known=False)
            return await self._failed(tool, attempted, late)
        except Exception as error:  # whatever a tool raises is the tool's failure, and whether it happened nobody can say
            broken = ToolFailed("tool_failed", f"{tool.name} failed: {type(error).__name__}: {error}", known=False)
            return await self._failed(tool, attempted, broken, None if called is None else called.usage)
        await self._settle(attempted, receipt)
        return _answered(attempted)

    async def _failed(self, tool: Tool, attempted: Try, failed: ToolFailed, spent: Usage | None = None) -> Answer:
        """Write a failure down. `spent` is the tool's own count, where the call came back and its result cannot be kept."""
        if not failed.known and tool.effect is Effect.WRITE:
            attempted.live = False
            settled = await self._lost(tool, attempted, failed.message)
            if settled is not None:
                return settled
        usage = failed.usage if spent is None else spent
        if not failed.known and spent is None and usage == Usage():  # nobody can say what it took: all that it may have taken
            usage = _reserved(attempted)
        await self._settle(attempted, Receipt(error=_error_of(failed), usage=usage), self._counters.closing(failed))
        return _answered(attempted)

    async def _lost(self, tool: Tool, attempted: Try, why: str) -> Answer | None:
        """Nobody heard what became of a call that changes the world. None: it is certain that it did not take place."""
        intent = attempted.intent
        try:
            # Time to find out is left also when the call was killed because the attempt's time was up.
            until = max(self.deadline, monotonic() + self._policy.grace_seconds / 2)
            async with asyncio.timeout(max(0.0, until - monotonic())):
                verdict = await verdict_on(tool, msgspec.structs.replace(self._call_of(intent), deadline=until), intent.arguments)
        except (ToolFailed, TimeoutError):
            verdict = Unknown()
        if isinstance(verdict, Unknown):
            identity = f"{intent.identity}.{intent.number}"
            decision, _ = await self._decided("unknown_outcome", tool.name, identity, intent.arguments, None, why[:_MESSAGE_LENGTH])
            if decision.verdict == "stop":
                raise ToolFailed("unknown_outcome", f"Nobody knows whether {tool.name} took place, and {decision.decided_by} said stop.")
            verdict = Happened(decision.result) if decision.verdict == "happened" else DidNotHappen()
        if isinstance(verdict, DidNotHappen):
            return None
        await self._settle(attempted, Receipt(result=verdict.result))
        return _answered(attempted)

    async def lost(self) -> ApprovalPlace | None:
        """Calls of an attempt that is over, of which nobody knows what became: their tools are asked, then a person, who is named here."""
        for attempted in self.ledger.unresolved():
            tool = self._tools.get(attempted.intent.tool)
            if tool is None:
                continue
            try:
                if await self._lost(tool, attempted, f"The attempt was over before {tool.name} answered.") is None:
                    await self._settle(attempted, Receipt(void=True))
            except Parked as parked:
                return parked.at
            except ToolFailed:  # nobody answered in time, or said stop, or the run is cancelled
                continue
        return None

    async def _settle(self, attempted: Try, receipt: Receipt, closing: tuple[Charge, ...] = ()) -> None:
        """Write what a call came to, and give back what it did not use."""
        intent = attempted.intent
        self.ledger.settle(attempted, receipt)  # at once: the write goes on also when nobody waits for it any more
        at = receipt_at(EFFECTS_AT, intent.tool, intent.identity, intent.number)
        if not attempted.inherited:
            back = self._counters.settled(intent.reservation, receipt.usage, attempted.began)
            await self._journal.write(ended(at, _text(receipt)), charges=(*back, *closing))
        found = None if attempted.inherited else self._journal.find(at)
        attempted.at = (None if found is None else found.ended_at) or self._clock.now()
        self._terms.eye.tool_ended(attempted)

    # --- a person

    async def ask(self, asked: Asked) -> Answer:
        """Put a question to a person; raises Parked until it is answered."""
        await check_schema(asked.schema or {}, "The schema of a question", self._who)
        arguments = {"question": asked.question}
        asked_before = f"ask {arguments_hash(arguments)}"
        self._ordinals[asked_before] += 1
        identity = f"{asked_before}#{self._ordinals[asked_before]}"
        decision, decided = await self._decided("question", "ask", identity, arguments, asked.schema, asked.question)
        if decision.verdict in ("reject", "stop"):  # `stop` is what 0.1 wrote
            raise ToolFailed("approval_rejected", f"{decision.decided_by} did not answer the question.{_said(decision)}")
        return Answer(decision.result, decided.ended_at or 0)

    async def _decided(
        self, kind: Kind, tool: str, identity: str, arguments: dict[str, Any], schema: dict[str, Any] | None, question: str | None = None
    ) -> tuple[Decision, Operation]:
        """What was decided on these very arguments; asks if nobody was asked yet, and parks until there is an answer."""
        at = approval_at(EFFECTS_AT, kind, tool, identity, 1)
        found, written = self._journal.find(at.callback), self._journal.find(at.request)
        hashed = arguments_hash(arguments)
        if self.cancelled and (found is None or found.status in OPEN):
            raise ToolFailed("cancelled", f"The run was cancelled before anybody was asked about {tool}.")
        if found is None or written is None:
            request = Requested(
                kind=kind,
                tool=tool,
                arguments=arguments,
                arguments_sha256=hashed,
                requested_by=self._terms.requested_by,
                approvers=self._policy.approvers,
                used_ms=self.used_ms + int((monotonic() - self._began) * 1000),
                attempt=self.attempt,
                logged=self._terms.eye.lines,
                question=question,
                schema=schema,
            )
            wait = begun(at.callback, timeout_seconds=self._policy.approval_seconds)
            await self._journal.write(wait, ended(at.request, _text(request)))
            self._terms.eye.parked(kind, tool, self.attempt, at.callback.operation_id)
            raise Parked(at)
        if request_of(written).arguments_sha256 != hashed:
            raise ToolFailed("receipt_conflict", f"A person was asked about {tool} with other arguments; what was approved is what runs.")
        if found.status in OPEN:
            raise Parked(at)
        decision = decision_of(found)
        if decision is None:
            raise ToolFailed("approval_expired", f"Nobody decided on {tool} in time.")
        return decision, found

    def _call_of(self, intent: Intent) -> Call:
        key = sha256(f"{self._terms.family}\0{intent.identity}".encode()).hexdigest()[:32]
        return Call(
            run_id=self._terms.run_id,
            tool=intent.tool,
            idempotency_key=key,
            deadline=self.deadline,
            now=self._clock.now(),
            attempt=self.attempt,
            tenant=self._terms.tenant,
            egress=self._terms.egress,
            traceparent=self._terms.eye.traceparent(intent),
        )


def _answered(attempted: Try) -> Answer:
    receipt = attempted.receipt
    assert receipt is not None
    if receipt.error is None:
        used, reserved = receipt.usage.input_tokens + receipt.usage.output_tokens, attempted.intent.reservation.tokens
        return Answer(receipt.result, attempted.at, max(0, used - reserved) if reserved else 0)
    error = receipt.error
    failed = ToolFailed(error.error_code, error.message, retry_after_seconds=error.retry_after_seconds, details=error.details)
    failed.recorded = True
    raise failed


def _error_of(failed: ToolFailed) -> CallError:
    """What is kept of a failure: whatever a tool raised, in words that can be written down."""
    told = codec.readable(Failure(failed.message[:_MESSAGE_LENGTH])).message or ""
    details: Any = failed.details
    try:
        codec.fitting(codec.dumps(details), "details")
    except Rejected:
        details = None
    return CallError(error_code=failed.code, message=told, retry_after_seconds=failed.retry_after_seconds, details=details)


def _reserved(attempted: Try) -> Usage:
    return Usage(attempted.intent.reservation.tokens, 0, attempted.intent.reservation.cost_usd)


def _said(decision: Decision) -> str:
    return "" if decision.comment is None else f" ({decision.comment})"


def _schema(tool: Tool) -> dict[str, Any] | None:
    return None if tool.arguments_schema is None else dict(tool.arguments_schema)


def _text(value: msgspec.Struct) -> str:
    return msgspec.json.encode(value).decode()

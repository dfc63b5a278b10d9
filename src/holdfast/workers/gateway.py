"""The gateway: every call of a tool outside the sandbox goes through here. A call that a receipt answers is not made again. Otherwise the
gateway checks that the call is allowed and approved, writes its intent, makes the call, and writes its receipt."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import msgspec

from holdfast.durable.journal import Journal, started, succeeded
from holdfast.hosts.evaluator.evaluator_pool import party_of
from holdfast.model import codec
from holdfast.model.charges import Charge
from holdfast.model.clock import Clock, monotonic
from holdfast.model.errors import LimitReached
from holdfast.model.operations import OPEN, Operation
from holdfast.workers.approvals import ApprovalPlace, AskKind, Decision, Requested, approval_at, arguments_hash, decision_of, request_of
from holdfast.workers.attempt_time import AttemptTime
from holdfast.workers.budgets import Settlements, SharedBudgets
from holdfast.workers.call_terms import CallTerms
from holdfast.workers.calls import (
    MESSAGE_LENGTH,
    CallAnswer,
    Calls,
    Intent,
    Receipt,
    Try,
    answered,
    call_error,
    intent_at,
    receipt_at,
    reserved_usage,
)
from holdfast.workers.changed_writes import changed_write, keeps_earlier
from holdfast.workers.counters import Counters
from holdfast.workers.demands import demands_of
from holdfast.workers.frames import QuestionFrame, ToolAsked
from holdfast.workers.inherited_calls import SETTLED, kept_call
from holdfast.workers.ledger import Ledger, Payer, has_entries
from holdfast.workers.policy import Policy
from holdfast.workers.tools.refused_tool import RefusedTool
from holdfast.workers.tools.schema_checks import check_arguments, check_schema
from holdfast.workers.tools.seam import (
    Call,
    DidNotHappen,
    Effect,
    Happened,
    Hears,
    Tool,
    ToolFailed,
    Unknown,
    Usage,
    cool_down_keys,
    verdict_on,
)


class WaitsForPerson(Exception):
    """Raised when a person must decide first. The runner ends the body, and runs it again when the approval is closed."""

    def __init__(self, at: ApprovalPlace) -> None:
        super().__init__("the run waits for a person")
        self.at = at


class Gateway:
    """Makes the tool calls of one run, and asks persons what the run must know. At most one attempt of the run uses it at a time."""

    def __init__(
        self,
        terms: CallTerms,
        journal: Journal,
        calls: Calls,
        tools: Mapping[str, Tool],
        policy: Policy,
        clock: Clock,
        settlements: Settlements | None = None,
    ) -> None:
        self._terms = terms
        self._journal = journal
        self.calls = calls
        self._tools = tools
        self._policy = policy
        self._clock = clock
        self._counters = Counters(policy, terms.tenant, clock)
        self._budgets = SharedBudgets(terms.budgets, clock, settlements or Settlements())
        payer = terms.payer or Payer(run_id=terms.run_id, tenant=terms.tenant, worker_id=terms.worker_id)
        self._ledger = Ledger(payer, policy.ledger_days, clock)
        self._who = party_of(terms.tenant, terms.worker_id)
        self.attempt, self.time = 0, AttemptTime()
        self.cancelled = False
        """Whether the run was cancelled. Then the gateway asks no person, and the response names the calls whose outcome is unknown."""
        self._ordinals: defaultdict[str, int] = defaultdict(int)
        self._turns: dict[str, asyncio.Lock] = {}

    def begin(self, attempt: int, seconds: float, used_ms: int = 0) -> None:
        """Prepare for a body that begins from its start: its calls are numbered from 1 again. The attempt may take `seconds` from now on;
        it used `used_ms` before it waited for a person."""
        self.attempt, self.time = attempt, AttemptTime(seconds, used_ms)
        self._ordinals.clear()
        self._turns.clear()

    # --- a tool

    async def call(self, asked: ToolAsked) -> CallAnswer:
        """Serve one call of a tool. Raises ToolFailed if the call is refused or fails, and WaitsForPerson if a person must decide first."""
        tool = self._allowed(asked.tool)
        identity = self._identity(tool, asked)
        async with self._turns.setdefault(identity, asyncio.Lock()):  # two calls of one key are one call: the second waits for the first
            return await self._served(tool, asked, identity)

    async def _served(self, tool: Tool, asked: ToolAsked, identity: str) -> CallAnswer:
        hashed = arguments_hash(asked.arguments)
        known = self.calls.compared(identity, hashed)
        if known is not None and hashed not in (known.intent.asked_sha256, *known.kept):
            if not await self._keeps(tool, asked, known):
                return await self._made(tool, asked, identity, hashed, known)
            known.kept = (*known.kept, hashed)
            await self._journal.write(kept_call(known, hashed))
            return answered(known)
        if known is not None and known.receipt is not None and known.receipt.counts_in(known.intent.attempt, self.attempt):
            self._terms.reporter.tool_reused(known, self.attempt)
            return answered(known)
        if known is not None and known.receipt is None:
            why = f"The runner that called {tool.name} ended before the answer came."
            if tool.effect is Effect.WRITE and (settled := await self._lost(tool, known, why)) is not None:
                return settled
            await self._settle(known, Receipt(void=True, usage=reserved_usage(known) if tool.effect is Effect.READ else Usage()))
        return await self._made(tool, asked, identity, hashed, known)

    async def _keeps(self, tool: Tool, asked: ToolAsked, known: Try) -> bool:
        """Whether the earlier call `known` answers this call, which has other arguments: a person decides. Raises ToolFailed if no person
        may decide (`known` is a call of this run, or this run is no restart), or if the person decides to stop."""
        if not (known.inherited and self._terms.restarts):
            raise ToolFailed("receipt_conflict", f"{tool.name} was called before with other arguments (same key or number).", known=True)
        if known.is_void:
            return False  # the earlier call certainly did not happen
        question = changed_write(tool.name, known, asked.arguments)
        which = f"{known.intent.identity}.{arguments_hash(asked.arguments)}"
        decision, _ = await self._decided("question", tool.name, which, question.arguments, question.schema, question.text)
        return keeps_earlier(tool.name, decision)

    def _allowed(self, name: str) -> Tool:
        if all(grant.name != name for grant in self._terms.limits.tools):
            raise ToolFailed("tool_not_allowed", f"The contract or the request does not allow the tool {name!r:.100}.")
        tool = self._tools.get(name)
        if tool is None:
            raise ToolFailed("tool_not_allowed", f"The contract allows the tool {name!r}, but this runner has no such tool.")
        if isinstance(tool, RefusedTool):  # check this before a person is asked to approve a call that would be refused anyway
            raise ToolFailed("tool_not_trusted", tool.refusal)
        return tool

    def _identity(self, tool: Tool, asked: ToolAsked) -> str:
        """A hash of a call's tool, its key (without one: its number among the tool's calls without a key), and for a read its attempt."""
        self._ordinals[tool.name] += asked.key is None
        which = f"#{self._ordinals[tool.name]}" if asked.key is None else f"key:{asked.key}"
        scope = "" if tool.effect is Effect.WRITE else f"@{self.attempt}"
        return sha256(f"{tool.name}\0{which}{scope}".encode()).hexdigest()[:32]

    async def _made(self, tool: Tool, asked: ToolAsked, identity: str, hashed: str, known: Try | None) -> CallAnswer:
        arguments, approval = asked.arguments, None
        await check_arguments(tool.name, tool.arguments_schema, arguments, self._who)
        if tool.name in self._terms.approvals:
            which = f"{identity}.{self.calls.spent(identity)}"
            decision, decided = await self._decided("approve", tool.name, which, arguments, _schema(tool))
            approval = decided.id
            if decision.verdict == "reject":
                raise ToolFailed("approval_rejected", f"{decision.decided_by} rejected the call of {tool.name}.{_said(decision)}")
            arguments = decision.edited_arguments if decision.edited_arguments is not None else arguments
        intent = Intent(
            tool=tool.name,
            identity=identity,
            number=self.calls.next_number(identity),
            attempt=self.attempt,
            asked_sha256=hashed,
            arguments=arguments,
            write=tool.effect is Effect.WRITE,
            approval=approval,
            changed=known is not None and (known.intent.changed or known.intent.asked_sha256 != hashed),
        )
        attempted = await self._intend(tool, intent)
        return await self._called(tool, attempted)

    async def _intend(self, tool: Tool, intent: Intent) -> Try:
        """Wait until the budgets that are shared with other runs have room, and write the intent. Returns the call, without a receipt."""
        return await self._budgets.admitted(tool.name, self.time, lambda: self._intended(tool, intent), self._counters.refused)

    async def _intended(self, tool: Tool, intent: Intent) -> Try:
        """Write the call's intent and charges in one write. Raises ToolFailed or LimitReached if the call is above a limit or not valid."""
        self.calls.check_calls(tool.name)
        own = self._counters.left(self.calls.remaining)
        try:
            reservation = tool.reserve(intent.arguments, self._budgets.left(own))
            keys = cool_down_keys(tool, intent.arguments)
        except ToolFailed as failed:
            raise self._budgets.explained(failed, own) from None
        except Exception as error:  # a body may pass any arguments
            raise ToolFailed(
                "tool_failed", f"{tool.name} refuses these arguments: {type(error).__name__}. See the tool's schema."
            ) from error
        self.calls.check_reservation(reservation)
        intent = msgspec.structs.replace(intent, reservation=reservation)
        attempted = Try(intent=intent, live=True, began=self._clock.now())
        at = (tool.name, intent.identity, intent.number)
        self.calls.begin(attempted)  # before the write: two calls side by side must not reserve the same tokens
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
            self.calls.take_back(attempted)
            raise
        except asyncio.CancelledError:
            attempted.live = False  # the write may still succeed
            raise
        return attempted

    async def _called(self, tool: Tool, attempted: Try) -> CallAnswer:
        """Make the call, write its receipt, and return its answer. A failed call raises its error, unless it is a write that took place."""
        intent, called = attempted.intent, None
        try:
            async with self._terms.reporter.tool_began(tool, intent) as hears, asyncio.timeout(self.time.left + self._policy.grace_seconds):
                called = await tool.call(self._call_of(intent, hears), intent.arguments, intent.reservation)
            codec.dumps(called.result)
            receipt = Receipt(result=called.result, usage=called.usage)
            codec.fitting(_text(receipt), f"The result of {tool.name}")
        except ToolFailed as failed:
            return await self._failed(tool, attempted, failed)
        except asyncio.CancelledError:
            attempted.live = False
            raise
        except TimeoutError:
            return await self._failed(tool, attempted, ToolFailed("tool_timeout", f"{tool.name} did not answer in time.", known=False))
        except Exception as error:  # the tool failed, and whether its effect happened is unknown
            broken = ToolFailed("tool_failed", f"{tool.name} failed: {type(error).__name__}: {error}", known=False)
            return await self._failed(tool, attempted, broken, None if called is None else called.usage)
        await self._settle(attempted, receipt)
        return answered(attempted)

    async def _failed(self, tool: Tool, attempted: Try, failed: ToolFailed, spent: Usage | None = None) -> CallAnswer:
        """Settle a failed call: raise its error or, if it is a write that took place, return its answer. `spent`: its reported usage."""
        if not failed.known and tool.effect is Effect.WRITE:
            attempted.live = False
            settled = await self._lost(tool, attempted, failed.message)
            if settled is not None:
                return settled
        usage = failed.usage if spent is None else spent
        if not failed.known and spent is None:  # unknown; if the tool cannot tell how much was used, the whole reservation counts
            usage = reserved_usage(attempted) if usage == Usage() else msgspec.structs.replace(usage, is_estimated=True)
        await self._settle(attempted, Receipt(error=call_error(failed), usage=usage), self._counters.closing(failed))
        return answered(attempted)

    async def _lost(self, tool: Tool, attempted: Try, why: str) -> CallAnswer | None:
        """Find out from the tool, else from a person, if a lost write took place. Returns the write's answer; None: it did not happen."""
        intent = attempted.intent
        try:
            until = max(self.time.deadline, monotonic() + self._policy.reconcile_seconds)  # even if the attempt's time is over
            async with asyncio.timeout(max(0.0, until - monotonic())):
                verdict = await verdict_on(tool, msgspec.structs.replace(self._call_of(intent), deadline=until), intent.arguments)
        except (ToolFailed, TimeoutError):
            verdict = Unknown()
        if isinstance(verdict, Unknown):
            identity = f"{intent.identity}.{intent.number}"
            decision, _ = await self._decided("unknown_outcome", tool.name, identity, intent.arguments, None, why[:MESSAGE_LENGTH])
            if decision.verdict == "stop":
                raise ToolFailed("unknown_outcome", f"It is unknown whether {tool.name} took place. {decision.decided_by} decided to stop.")
            verdict = Happened(decision.result) if decision.verdict == "happened" else DidNotHappen()
        if isinstance(verdict, DidNotHappen):
            return None
        await self._settle(attempted, Receipt(result=verdict.result))
        return answered(attempted)

    async def lost(self) -> ApprovalPlace | None:
        """After an attempt: settle the writes of unknown outcome, if possible. Returns the approval that the run must wait for, or None."""
        for attempted in self.calls.unresolved():
            tool = self._tools.get(attempted.intent.tool)
            if tool is None:
                continue
            try:
                if await self._lost(tool, attempted, f"The attempt ended before {tool.name} answered.") is None:
                    await self._settle(attempted, Receipt(void=True))
            except WaitsForPerson as wait:
                return wait.at
            except ToolFailed:  # the approval expired, the person said stop, or the run is cancelled
                continue
        return None

    async def abandon(self) -> None:
        """Settle reads that lost their answer, if a budget or the ledger counts them: as if they had used all that they reserved."""
        for attempted in self.calls.abandoned():
            if self._budgets or has_entries(attempted.intent.reservation):
                await self._settle(attempted, Receipt(void=True, usage=reserved_usage(attempted)))

    async def _settle(self, attempted: Try, receipt: Receipt, closing: tuple[Charge, ...] = ()) -> None:
        """Write the receipt of a call, and give back what the call had reserved and did not use."""
        intent = attempted.intent
        self.calls.settle(attempted, receipt)  # before the write: the write goes on even if its caller is cancelled
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
        self._terms.reporter.tool_ended(attempted)

    # --- a person

    async def ask(self, asked: QuestionFrame) -> CallAnswer:
        """The answer of a person to a question. Raises WaitsForPerson while the question is open, and ToolFailed if there is no answer."""
        await check_schema(asked.schema or {}, "The schema of a question", self._who)
        arguments = {"question": asked.question}
        asked_before = f"ask {arguments_hash(arguments)}"
        self._ordinals[asked_before] += 1
        identity = f"{asked_before}#{self._ordinals[asked_before]}"
        decision, decided = await self._decided("question", "ask", identity, arguments, asked.schema, asked.question)
        if decision.verdict == "reject":
            raise ToolFailed("approval_rejected", f"{decision.decided_by} refused to answer the question.{_said(decision)}")
        return CallAnswer(decision.result, decided.ended_at or 0)

    async def _decided(
        self, kind: AskKind, tool: str, identity: str, arguments: dict[str, Any], schema: dict[str, Any] | None, question: str | None = None
    ) -> tuple[Decision, Operation]:
        """A person's decision, and the approval's callback. Raises WaitsForPerson if the approval is open, ToolFailed if undecided."""
        at, hashed = approval_at(kind, tool, identity, 1), arguments_hash(arguments)
        found, written = self._journal.find(at.callback), self._journal.find(at.request)
        if self.cancelled and (found is None or found.status in OPEN):
            raise ToolFailed("cancelled", f"The run was cancelled before a person decided about {tool}.")
        if found is None or written is None:
            request = Requested(
                kind=kind,
                tool=tool,
                arguments=arguments,
                arguments_sha256=hashed,
                requested_by=self._terms.requested_by,
                **demands_of(self._policy, risk=self._policy.tool_risks.get(tool) if kind == "approve" else None),
                used_ms=self.time.used_ms,
                attempt=self.attempt,
                logged=self._terms.reporter.lines,
                question=question,
                schema=schema,
            )
            wait = started(at.callback, timeout_seconds=self._policy.approval_seconds)
            await self._journal.write(wait, succeeded(at.request, _text(request)))
            self._terms.reporter.waits_for_person(kind, tool, self.attempt, at.callback.operation_id)
            raise WaitsForPerson(at)
        if request_of(written).arguments_sha256 != hashed:
            raise ToolFailed(
                "receipt_conflict", f"A person was asked about {tool} with other arguments. The decision does not hold for these arguments."
            )
        if found.status in OPEN:
            raise WaitsForPerson(at)
        decision = decision_of(found)
        if decision is None:
            raise ToolFailed("approval_expired", f"The approval of {tool} expired: no decision came in time.")
        return decision, found

    def _call_of(self, intent: Intent, hears: Hears | None = None) -> Call:
        changed = f"\0{intent.asked_sha256}" if intent.changed else ""  # without this, a server would take it for the earlier call
        key = sha256(f"{self._terms.family}\0{intent.identity}{changed}".encode()).hexdigest()[:32]
        return Call(
            run_id=self._terms.run_id,
            tool=intent.tool,
            idempotency_key=key,
            deadline=self.time.deadline,
            now=self._clock.now(),
            attempt=self.attempt,
            tenant=self._terms.tenant,
            egress=self._terms.egress,
            traceparent=self._terms.reporter.traceparent(intent),
            hears=hears,
        )


def _said(decision: Decision) -> str:
    return "" if decision.comment is None else f" ({decision.comment})"


def _schema(tool: Tool) -> dict[str, Any] | None:
    return None if tool.arguments_schema is None else dict(tool.arguments_schema)


def _text(value: msgspec.Struct) -> str:
    return msgspec.json.encode(value).decode()

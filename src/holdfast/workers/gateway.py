"""The gateway: every call of a tool outside the sandbox goes through here. A call that a receipt answers is not made again. Otherwise the
gateway checks that the call is allowed and approved, writes its intent, makes the call, and writes its receipt. If the answer of a call
was lost, another module decides what happens (lost_calls.py)."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import msgspec

from holdfast.durable.journal import Journal
from holdfast.hosts.evaluator.evaluator_pool import party_of
from holdfast.model import codec
from holdfast.model.clock import Clock
from holdfast.workers.approvals import ApprovalPlace, arguments_hash
from holdfast.workers.asked_persons import AskedPersons
from holdfast.workers.attempt_state import AttemptState
from holdfast.workers.budgets import Settlements
from holdfast.workers.call_records import CallRecords
from holdfast.workers.call_terms import CallTerms
from holdfast.workers.calls import CallAnswer, Calls, Intent, Receipt, Try, answered, call_error, reserved_usage
from holdfast.workers.changed_writes import changed_write, keeps_earlier
from holdfast.workers.frames import QuestionFrame, ToolAsked
from holdfast.workers.lost_calls import LostCalls
from holdfast.workers.policy import Policy
from holdfast.workers.tools.refused_tool import RefusedTool
from holdfast.workers.tools.schema_checks import check_arguments
from holdfast.workers.tools.seam import Effect, Tool, ToolFailed, Usage


class Gateway:
    """Serves what one body asks of the world: calls of tools, and questions to persons."""

    def __init__(
        self,
        terms: CallTerms,
        journal: Journal,
        calls: Calls,
        tools: Mapping[str, Tool],
        policy: Policy,
        clock: Clock,
        attempt: AttemptState,
        settlements: Settlements | None = None,
    ) -> None:
        self._terms = terms
        self.calls = calls
        self._tools = tools
        self._policy = policy
        self._clock = clock
        self._attempt = attempt
        self._records = CallRecords(terms, journal, calls, policy, clock, settlements)
        self._persons = AskedPersons(terms, journal, policy, attempt)
        self._lost_calls = LostCalls(terms, self._records, self._persons, attempt, policy.reconcile_seconds, clock)
        self._who = party_of(terms.tenant, terms.worker_id)
        self._ordinals: defaultdict[str, int] = defaultdict(int)
        self._turns: dict[str, asyncio.Lock] = {}

    async def call(self, asked: ToolAsked) -> CallAnswer:
        """Serve one call of a tool. Raises ToolFailed if the call is refused or fails, and WaitsForPerson if a person must decide first."""
        tool = self._allowed(asked.tool)
        identity = self._identity(tool, asked)
        async with self._turns.setdefault(identity, asyncio.Lock()):  # two calls of one key are one call: the second waits for the first
            return await self._served(tool, asked, identity)

    async def ask(self, asked: QuestionFrame) -> CallAnswer:
        """The answer of a person to a question. Raises WaitsForPerson while the question is open, and ToolFailed if there is no answer."""
        return await self._persons.ask(asked)

    async def settle_lost_writes(self) -> ApprovalPlace | None:
        """After an attempt: settle the writes of unknown outcome, if possible. Returns the approval that the run must wait for, or None."""
        return await self._lost_calls.settle_writes(self.calls, self._tools)

    async def _served(self, tool: Tool, asked: ToolAsked, identity: str) -> CallAnswer:
        hashed = arguments_hash(asked.arguments)
        known = self.calls.compared(identity, hashed)
        if known is not None and hashed not in (known.intent.asked_sha256, *known.kept):
            if not await self._keeps(tool, asked, known):
                return await self._made(tool, asked, identity, hashed, known)
            await self._records.keep(known, hashed)
            return answered(known)
        if known is not None and known.receipt is not None and known.receipt.counts_in(known.intent.attempt, self._attempt.number):
            self._terms.reporter.tool_reused(known, self._attempt.number)
            return answered(known)
        if known is not None and known.receipt is None and (answer := await self._lost_calls.settle(tool, known)) is not None:
            return answer
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
        decision, _ = await self._persons.decision("question", tool.name, which, question.arguments, question.schema, question.text)
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
        scope = "" if tool.effect is Effect.WRITE else f"@{self._attempt.number}"
        return sha256(f"{tool.name}\0{which}{scope}".encode()).hexdigest()[:32]

    async def _made(self, tool: Tool, asked: ToolAsked, identity: str, hashed: str, known: Try | None) -> CallAnswer:
        arguments, approval = asked.arguments, None
        await check_arguments(tool.name, tool.arguments_schema, arguments, self._who)
        if tool.name in self._terms.approvals:
            which = f"{identity}.{self.calls.spent(identity)}"
            decision, decided = await self._persons.decision("approve", tool.name, which, arguments, _schema(tool))
            approval = decided.id
            if decision.verdict == "reject":
                raise ToolFailed("approval_rejected", f"{decision.decided_by} rejected the call of {tool.name}.{decision.remark}")
            arguments = decision.edited_arguments if decision.edited_arguments is not None else arguments
        intent = Intent(
            tool=tool.name,
            identity=identity,
            number=self.calls.next_number(identity),
            attempt=self._attempt.number,
            asked_sha256=hashed,
            arguments=arguments,
            write=tool.effect is Effect.WRITE,
            approval=approval,
            changed=known is not None and (known.intent.changed or known.intent.asked_sha256 != hashed),
        )
        attempted = await self._intend(tool, intent)
        return await self._called(tool, attempted)

    async def _intend(self, tool: Tool, intent: Intent) -> Try:
        """Write the intent of a call (`CallRecords.intend`). A replay writes nothing: it overrides this method."""
        return await self._records.intend(tool, intent, self._attempt.time)

    async def _called(self, tool: Tool, attempted: Try) -> CallAnswer:
        """Make the call, write its receipt, and return its answer. A failed call raises its error, unless it is a write that took place."""
        intent, called = attempted.intent, None
        try:
            async with (
                self._terms.reporter.tool_began(tool, intent) as hears,
                asyncio.timeout(self._attempt.time.left + self._policy.grace_seconds),
            ):
                called = await tool.call(
                    self._terms.call_of(intent, self._attempt, self._clock.now(), hears), intent.arguments, intent.reservation
                )
            codec.dumps(called.result)
            receipt = Receipt(result=called.result, usage=called.usage)
            codec.fitting(msgspec.json.encode(receipt).decode(), f"The result of {tool.name}")
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
        await self._records.settle(attempted, receipt)
        return answered(attempted)

    async def _failed(self, tool: Tool, attempted: Try, failed: ToolFailed, spent: Usage | None = None) -> CallAnswer:
        """Settle a failed call: raise its error or, if it is a write that took place, return its answer. `spent`: its reported usage."""
        if not failed.known and tool.effect is Effect.WRITE:
            attempted.live = False
            answer = await self._lost_calls.find_out(tool, attempted, failed.message)
            if answer is not None:
                return answer
        usage = failed.usage if spent is None else spent
        if not failed.known and spent is None:  # unknown; if the tool cannot tell how much was used, the whole reservation counts
            usage = reserved_usage(attempted) if usage == Usage() else msgspec.structs.replace(usage, is_estimated=True)
        await self._records.settle(attempted, Receipt(error=call_error(failed), usage=usage), failed)
        return answered(attempted)


def _schema(tool: Tool) -> dict[str, Any] | None:
    return None if tool.arguments_schema is None else dict(tool.arguments_schema)

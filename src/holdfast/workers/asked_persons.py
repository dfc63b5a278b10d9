"""What a run of a worker asks persons: to approve a call, to say whether a call took place, or to answer a question of the body. A body
never waits for a person: the runner ends it, and runs it again when the approval is closed."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import msgspec

from holdfast.durable.journal import Journal, started, succeeded
from holdfast.hosts.evaluator.evaluator_pool import party_of
from holdfast.model.operations import OPEN, Operation
from holdfast.workers.approvals import ApprovalPlace, AskKind, Decision, Requested, approval_at, arguments_hash, decision_of, request_of
from holdfast.workers.attempt_state import AttemptState
from holdfast.workers.call_terms import CallTerms
from holdfast.workers.calls import CallAnswer
from holdfast.workers.demands import demands_of
from holdfast.workers.frames import QuestionFrame
from holdfast.workers.policy import Policy
from holdfast.workers.tools.schema_checks import check_schema
from holdfast.workers.tools.seam import ToolFailed


class WaitsForPerson(Exception):
    """Raised when a person must decide first. The runner ends the body, and runs it again when the approval is closed."""

    def __init__(self, at: ApprovalPlace) -> None:
        super().__init__("the run waits for a person")
        self.at = at


class AskedPersons:
    """Asks persons for the decisions that one body needs, and reads what they decided."""

    def __init__(self, terms: CallTerms, journal: Journal, policy: Policy, attempt: AttemptState) -> None:
        self._terms = terms
        self._journal = journal
        self._policy = policy
        self._attempt = attempt
        self._asked: defaultdict[str, int] = defaultdict(int)
        """How often the body has asked each question, by the hash of the question."""

    async def ask(self, asked: QuestionFrame) -> CallAnswer:
        """The answer of a person to a question. Raises WaitsForPerson while the question is open, and ToolFailed if there is no answer."""
        terms, arguments = self._terms, {"question": asked.question}
        await check_schema(asked.schema or {}, "The schema of a question", party_of(terms.tenant, terms.worker_id))
        hashed = arguments_hash(arguments)
        self._asked[hashed] += 1
        identity = f"ask {hashed}#{self._asked[hashed]}"
        decision, decided = await self.decision("question", "ask", identity, arguments, asked.schema, asked.question)
        if decision.verdict == "reject":
            raise ToolFailed("approval_rejected", f"{decision.decided_by} refused to answer the question.{decision.remark}")
        return CallAnswer(decision.result, decided.ended_at or 0)

    async def decision(
        self, kind: AskKind, tool: str, identity: str, arguments: dict[str, Any], schema: dict[str, Any] | None, question: str | None = None
    ) -> tuple[Decision, Operation]:
        """The decision of a person, and the callback of its approval. The first time, this writes the request for the decision. Raises
        WaitsForPerson while the approval is open, and ToolFailed if it was closed without a decision, if the run was cancelled, or if a
        person was asked with other arguments. `identity` tells apart the approvals that have the same kind and tool."""
        at, hashed = approval_at(kind, tool, identity, 1), arguments_hash(arguments)
        found, written = self._journal.find(at.callback), self._journal.find(at.request)
        if self._attempt.cancelled and (found is None or found.status in OPEN):
            raise ToolFailed("cancelled", f"The run was cancelled before a person decided about {tool}.")
        if found is None or written is None:
            request = Requested(
                kind=kind,
                tool=tool,
                arguments=arguments,
                arguments_sha256=hashed,
                requested_by=self._terms.requested_by,
                **demands_of(self._policy, risk=self._policy.tool_risks.get(tool) if kind == "approve" else None),
                used_ms=self._attempt.time.used_ms,
                attempt=self._attempt.number,
                logged=self._terms.reporter.lines,
                question=question,
                schema=schema,
            )
            wait = started(at.callback, timeout_seconds=self._policy.approval_seconds)
            await self._journal.write(wait, succeeded(at.request, msgspec.json.encode(request).decode()))
            self._terms.reporter.waits_for_person(kind, tool, self._attempt.number, at.callback.operation_id)
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

"""Approvals: what waits for a person, and what a person says. Who that is comes from the login, never from the request."""

from __future__ import annotations

import logging
from typing import Any

import msgspec

from holdfast.contract.refusals import InvalidRequest
from holdfast.model.threads import Purpose, in_thread
from holdfast.server.protocol.desk import Desk
from holdfast.server.protocol.visit import Visit, Way
from holdfast.server.replies import Reply
from holdfast.server.responses import document_reply
from holdfast.workers.approvals import Approval, Decision, check_settles
from holdfast.workers.looking import find_approval

log = logging.getLogger("holdfast.server")

_MAX_COMMENT = 4096


class _Said(msgspec.Struct, forbid_unknown_fields=True):
    comment: str | None = None


class _Approved(_Said):
    edited_arguments: dict[str, Any] | None = None


class _Answered(_Said, kw_only=True):
    result: Any


class _Settled(_Said, kw_only=True):
    verdict: str
    result: Any = None


class Approvals:
    """Their handlers."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def routes(self) -> list[Way]:
        """Where they are."""
        return [
            Way("GET", "/v1/approvals/?", self.list),
            Way("GET", "/v1/approvals/([^/]+)", self.show),
            Way("POST", "/v1/approvals/([^/]+)/approve", self.approve),
            Way("POST", "/v1/approvals/([^/]+)/reject", self.reject),
            Way("POST", "/v1/approvals/([^/]+)/answer", self.answer),
            Way("POST", "/v1/approvals/([^/]+)/settle", self.settle),
        ]

    async def list(self, visit: Visit) -> Reply:
        """What waits for a decision, oldest first."""
        found = await in_thread(Purpose.STORE, self._desk.workforce.approvals, visit.asker)
        return document_reply({"approvals": found})

    async def show(self, visit: Visit) -> Reply:
        """One of them, decided or not."""
        return document_reply(find_approval(self._desk.store, visit.label, visit.asker))

    async def approve(self, visit: Visit) -> Reply:
        """Let a call be made, as it was shown or with edited arguments."""
        said = _said(visit, _Approved)
        return await self._decided(visit, "approve", said, edited_arguments=said.edited_arguments)

    async def reject(self, visit: Visit) -> Reply:
        """Refuse a call: it is never made. A question stays unanswered."""
        return await self._decided(visit, "reject", _said(visit, _Said))

    async def answer(self, visit: Visit) -> Reply:
        """Answer a worker's question."""
        said = _said(visit, _Answered)
        return await self._decided(visit, "answer", said, result=said.result)

    async def settle(self, visit: Visit) -> Reply:
        """Say whether a call happened whose outcome is unknown; or stop. This is another permission than to approve."""
        said = _said(visit, _Settled)
        check_settles(said.verdict)
        return await self._decided(visit, said.verdict, said, result=said.result)

    async def _decided(self, visit: Visit, verdict: str, said: _Said, **more: Any) -> Reply:
        asker = visit.asker
        decision = Decision(verdict=verdict, decided_by=asker.principal, decided_at=self._desk.clock.now(), comment=said.comment, **more)
        decided: Approval = await self._desk.workforce.decide(visit.label, decision, asker)
        own = ", who had asked for it" if decided.own_request else ""
        log.info("approval %s of %s: %s, by %s%s", decided.approval_id, decided.worker_id, decided.state, decided.decided_by, own)
        return document_reply(decided, headers=((b"location", f"/v1/runs/{decided.run_id}".encode()),))


def _said(visit: Visit, kind: type[Any]) -> Any:
    """The body, which must hold what is known and nothing else: who decides cannot be said in it."""
    try:
        said = msgspec.json.decode(visit.body or b"{}", type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidRequest(f"The body does not fit: {error}") from None
    if said.comment is not None and len(said.comment) > _MAX_COMMENT:
        raise InvalidRequest(f"A comment has at most {_MAX_COMMENT} characters.")
    return said

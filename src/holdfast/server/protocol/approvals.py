"""Approvals: what waits for a person, and what a person says. Who that is comes from the login, never from the request."""

from __future__ import annotations

import logging
from typing import Any

import msgspec

from holdfast.contract.refusals import InvalidRequest
from holdfast.model.threads import Purpose, in_thread
from holdfast.server.protocol.handling import Handling
from holdfast.server.protocol.request import ProtocolRoute, RunRequest
from holdfast.web.replies import Reply
from holdfast.web.responses import document_reply
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

    def __init__(self, handling: Handling) -> None:
        self._handling = handling

    def routes(self) -> list[ProtocolRoute]:
        """Where they are."""
        return [
            ProtocolRoute("GET", "/v1/approvals/?", self.list),
            ProtocolRoute("GET", "/v1/approvals/([^/]+)", self.show),
            ProtocolRoute("POST", "/v1/approvals/([^/]+)/approve", self.approve),
            ProtocolRoute("POST", "/v1/approvals/([^/]+)/reject", self.reject),
            ProtocolRoute("POST", "/v1/approvals/([^/]+)/answer", self.answer),
            ProtocolRoute("POST", "/v1/approvals/([^/]+)/settle", self.settle),
        ]

    async def list(self, asked: RunRequest) -> Reply:
        """What waits for a decision, oldest first."""
        found = await in_thread(Purpose.STORE, self._handling.worker_service.approvals, asked.asker)
        return document_reply({"approvals": found})

    async def show(self, asked: RunRequest) -> Reply:
        """One of them, decided or not."""
        return document_reply(find_approval(self._handling.store, asked.label, asked.asker))

    async def approve(self, asked: RunRequest) -> Reply:
        """Let a call be made, as it was shown or with edited arguments."""
        said = _said(asked, _Approved)
        return await self._decided(asked, "approve", said, edited_arguments=said.edited_arguments)

    async def reject(self, asked: RunRequest) -> Reply:
        """Refuse a call: it is never made. A question stays unanswered."""
        return await self._decided(asked, "reject", _said(asked, _Said))

    async def answer(self, asked: RunRequest) -> Reply:
        """Answer a worker's question."""
        said = _said(asked, _Answered)
        return await self._decided(asked, "answer", said, result=said.result)

    async def settle(self, asked: RunRequest) -> Reply:
        """Say whether a call happened whose outcome is unknown; or stop. This is another permission than to approve."""
        said = _said(asked, _Settled)
        check_settles(said.verdict)
        return await self._decided(asked, said.verdict, said, result=said.result)

    async def _decided(self, asked: RunRequest, verdict: str, said: _Said, **more: Any) -> Reply:
        asker = asked.asker
        decision = Decision(
            verdict=verdict, decided_by=asker.principal, decided_at=self._handling.clock.now(), comment=said.comment, **more
        )
        decided: Approval = await self._handling.worker_service.decide(asked.label, decision, asker)
        own = ", who had asked for it" if decided.own_request else ""
        log.info("approval %s of %s: %s, by %s%s", decided.approval_id, decided.worker_id, decided.state, decided.decided_by, own)
        return document_reply(decided, headers=((b"location", f"/v1/runs/{decided.run_id}".encode()),))


def _said(asked: RunRequest, kind: type[Any]) -> Any:
    """The body, which must hold what is known and nothing else: who decides cannot be said in it."""
    try:
        said = msgspec.json.decode(asked.body or b"{}", type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidRequest(f"The body does not fit: {error}") from None
    if said.comment is not None and len(said.comment) > _MAX_COMMENT:
        raise InvalidRequest(f"A comment has at most {_MAX_COMMENT} characters.")
    return said

"""Approvals: decisions that runs wait for. The credential of the caller says who decides; the body of a decision cannot name another
person."""

from __future__ import annotations

import logging
from typing import Any, Final

import msgspec

from holdfast.contract.refusals import InvalidRequest
from holdfast.model import json_structs
from holdfast.model.durations import HINT, parsed
from holdfast.model.errors import InvalidParameter, Rejected
from holdfast.model.threads import Purpose, in_thread
from holdfast.server.protocol.served_workers import ServedWorkers
from holdfast.server.protocol.worker_replies import document_reply
from holdfast.web.caller import caller_of
from holdfast.web.policy import Needs, Reach, RoutePolicy
from holdfast.web.replies import Reply
from holdfast.web.requests import Request
from holdfast.web.routing import Route
from holdfast.workers import batches, links
from holdfast.workers.approval_pages import MOST_SHOWN, ApprovalPage, approval_page
from holdfast.workers.approvals import Approval, Decision, check_settles, is_approval_id
from holdfast.workers.run_lookup import Caller, find_approval

log = logging.getLogger("holdfast.server")

_MAX_COMMENT: Final = 4096
_SHOWN: Final = 100
_DECIDE: Final = RoutePolicy("DecideApproval", Needs.APPROVE, Reach.HANDLER)


class _Comment(msgspec.Struct, forbid_unknown_fields=True):
    comment: str | None = None


class _Approved(_Comment):
    edited_arguments: dict[str, Any] | None = None


class _Answered(_Comment, kw_only=True):
    result: Any


class _Settled(_Comment, kw_only=True):
    verdict: str
    result: Any = None


class _BatchDecision(_Comment, kw_only=True):
    verdict: batches.BatchVerdict
    result: Any = msgspec.UNSET
    """The answer to all chosen questions. It must be given with the verdict `answer`, and must not be given with another verdict."""
    approvals: list[str] = []
    run: str | None = None
    node: str | None = None


class _Linked(_Comment, kw_only=True):
    person: str
    valid: str | None = None


class Approvals:
    """The handlers of approvals."""

    def __init__(self, served: ServedWorkers) -> None:
        self._served = served

    def routes(self) -> list[Route]:
        return [
            Route("GET", "/v1/approvals/?", self.list, RoutePolicy("ListApprovals", Needs.VIEW, Reach.HANDLER)),
            Route("POST", "/v1/approvals/decide", self.decide_many, RoutePolicy("DecideApprovals", Needs.APPROVE, Reach.HANDLER)),
            Route("POST", "/v1/approvals/([^/]+)/link", self.link, RoutePolicy("LinkApproval", Needs.ADMINISTER, Reach.NONE)),
            Route("GET", "/v1/approvals/([^/]+)", self.show, RoutePolicy("GetApproval", Needs.VIEW, Reach.HANDLER)),
            Route("POST", "/v1/approvals/([^/]+)/approve", self.approve, _DECIDE),
            Route("POST", "/v1/approvals/([^/]+)/reject", self.reject, _DECIDE),
            Route("POST", "/v1/approvals/([^/]+)/answer", self.answer, _DECIDE),
            Route("POST", "/v1/approvals/([^/]+)/settle", self.settle, RoutePolicy("SettleOutcome", Needs.SETTLE, Reach.HANDLER)),
        ]

    async def list(self, request: Request) -> Reply:
        """A page of the open approvals that the caller may see: at most `?limit=`, else at most 100. With `?run=`, only those of this run
        and of all runs below it. `?after=` is the id of the last approval of the page before."""
        limit, after = request.number("limit"), request.text("after")
        if limit is not None and not 1 <= limit <= MOST_SHOWN:
            raise InvalidRequest(f"limit: {limit} is not between 1 and {MOST_SHOWN}.")
        if after is not None and not is_approval_id(after):
            raise InvalidRequest(f"after: {after!r:.100} is not the id of an approval.")
        return document_reply(await in_thread(Purpose.STORE, self._page, caller_of(request), request.text("run"), after, limit or _SHOWN))

    def _page(self, caller: Caller, run: str | None, after: str | None, limit: int) -> ApprovalPage:
        page = approval_page(self._served.store, caller, run=run, after=after, limit=limit)
        return msgspec.structs.replace(page, approvals=list(self._served.estimates().with_rests(page.approvals)))

    async def show(self, request: Request) -> Reply:
        """One approval, open or closed, with `may_cost`: what the rest of the outermost run above it may cost; null if that cannot be
        estimated."""
        return document_reply(await in_thread(Purpose.STORE, self._one, request.label, caller_of(request)))

    def _one(self, approval_id: str, caller: Caller) -> Approval:
        return self._served.estimates().with_rest(find_approval(self._served.store, approval_id, caller))

    async def approve(self, request: Request) -> Reply:
        """Approve what is asked; if several persons must approve, this is one vote. An approved tool call is made with the arguments that
        the approval shows, or with `edited_arguments` if the body of the request has them."""
        said = _said(request, _Approved)
        return await self._decided(request, "approve", said, edited_arguments=said.edited_arguments)

    async def reject(self, request: Request) -> Reply:
        """Reject what is asked. A rejected tool call is not made, and a rejected question gets no answer."""
        return await self._decided(request, "reject", _said(request, _Comment))

    async def answer(self, request: Request) -> Reply:
        """Answer a question of a worker or of a pipeline. The body has the answer as `result`."""
        said = _said(request, _Answered)
        return await self._decided(request, "answer", said, result=said.result)

    async def settle(self, request: Request) -> Reply:
        """Decide about a tool call for which it is not known whether it happened: record that it happened, record that it did not, or let
        the call fail (`stop`), which ends the run unless the worker catches the error. Only a settler or an admin may do this; an approver
        may not."""
        said = _said(request, _Settled)
        check_settles(said.verdict)
        return await self._decided(request, said.verdict, said, result=said.result)

    async def decide_many(self, request: Request) -> Reply:
        """Decide many approvals with one request and one verdict: those that the body names, or the open ones of a run and of all runs
        below it (with `node`, only those of this node of the run). One request decides at most 500. The reply has a result for each
        approval. If one decision is refused, the others are still made."""
        said, caller = _said(request, _BatchDecision), caller_of(request)
        if (said.verdict == "answer") is (said.result is msgspec.UNSET):
            raise InvalidParameter(
                "With the verdict `answer`, give one `result` for all questions. With `approve` or `reject`, give no `result`."
            )
        result = None if said.result is msgspec.UNSET else said.result
        ids = await in_thread(Purpose.STORE, batches.chosen, self._served.store, caller, said.approvals, said.run, said.node)
        results = []
        for approval_id in ids:
            now = self._served.clock.now()
            decision = Decision(verdict=said.verdict, decided_by=caller.principal, decided_at=now, comment=said.comment, result=result)
            try:
                decided: Approval = await self._served.worker_service.decide(approval_id, decision, caller, in_batch=True)
            except Rejected as refused:
                results.append(batches.refused(approval_id, refused))
                if caller.actor is not None:
                    note = caller.actor.refused(said.verdict, approval_id, refused.code, now)
                    await in_thread(Purpose.STORE, self._served.store.note, [note])
            else:
                results.append(batches.done(decided))
        log.info("batch of %d approvals: %s, by %s", len(ids), said.verdict, caller.principal)
        return document_reply({"results": results})

    async def link(self, request: Request) -> Reply:
        """Make a link by which the person that the body names may decide this approval, once. Only an admin of all tenants may make a link,
        because the caller who makes it could also use it. The reply has the address of the link."""
        said = _said(request, _Linked)
        seconds = links.DEFAULT_SECONDS if said.valid is None else parsed(said.valid)
        if seconds is None:
            raise InvalidRequest(f"valid: {said.valid!r:.50} is no duration. {HINT}")
        made = await in_thread(
            Purpose.STORE,
            links.make_link,
            self._served.store,
            request.label,
            said.person,
            caller_of(request),
            self._served.clock.now(),
            seconds,
        )
        reached = f"{request.scope.get('scheme', 'http')}://{request.header(b'host') or ''}"
        url = (self._served.worker_service.policy.link_base or reached).rstrip("/") + made.path
        document = {"approval_id": made.approval_id, "person": made.person, "expires_at": made.expires_at, "url": url}
        return document_reply(document, 201, ((b"cache-control", b"no-store"),))

    async def _decided(self, request: Request, verdict: str, said: _Comment, **more: Any) -> Reply:
        caller = caller_of(request)
        decision = Decision(verdict=verdict, decided_by=caller.principal, decided_at=self._served.clock.now(), comment=said.comment, **more)
        decided: Approval = await self._served.worker_service.decide(request.label, decision, caller)
        own = ", who had asked for it" if decided.own_request else ""
        log.info("approval %s of %s: %s, by %s%s", decided.approval_id, decided.worker_id, decided.state, decided.decided_by, own)
        return document_reply(decided, headers=((b"location", f"/v1/runs/{decided.run_id}".encode()),))


def _said(request: Request, kind: type[Any]) -> Any:
    """Read the body as a `kind`. Raises InvalidRequest if the body does not fit `kind`, or if its comment is too long. A body with a member
    that `kind` does not have does not fit, so a caller cannot name another person as the one who decides."""
    try:
        said = json_structs.received(request.content or b"{}", kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidRequest(f"The body is not valid: {error}") from None
    if said.comment is not None and len(said.comment) > _MAX_COMMENT:
        raise InvalidRequest(f"The comment has more than {_MAX_COMMENT} characters. Make it shorter.")
    return said

"""Links: a person decides one approval without a login. A GET shows and never decides, because mail scanners open links; a POST decides.

A person who has the token in the path can decide. So the token is written to no log, and the pages do not send it to other sites.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from functools import partial
from typing import Final

import msgspec

from holdfast.model.audit import Actor, kept_days
from holdfast.model.errors import CallbackClosed, HoldfastError, InvalidParameter, Rejected
from holdfast.model.threads import Purpose, in_thread
from holdfast.server.protocol.link_page import question_page, told_page
from holdfast.server.protocol.served_workers import ServedWorkers
from holdfast.web.form_fields import answer_of
from holdfast.web.policy import Needs, Reach, RoutePolicy
from holdfast.web.replies import Reply
from holdfast.web.requests import Request
from holdfast.web.routing import Route
from holdfast.workers.approvals import WITHDRAWN, Approval, ApprovalNotFound, ApprovalRefused, ApproverRefused, Decision, VotedBefore
from holdfast.workers.deciders import check_person, person_of
from holdfast.workers.links import Link, LinkExpired, LinkInvalid, holder, link_of
from holdfast.workers.run_lookup import Caller, find_approval

log = logging.getLogger("holdfast.server")

_BODY_BYTES: Final = 256 * 1024
_MAX_COMMENT: Final = 4096
_PATH: Final = "/v1/links/([^/]+)"
_STATUS: Final[Mapping[type[HoldfastError], int]] = {
    LinkInvalid: 404,
    ApprovalNotFound: 404,
    LinkExpired: 410,
    CallbackClosed: 410,
    VotedBefore: 410,
    ApproverRefused: 403,
}
_TITLES: Final = {404: "This link is not valid", 410: "This link cannot be used any more", 403: "You may not decide this"}


class Links:
    """The routes under `/v1/links/`: one shows a person the question of an approval, the other takes the decision."""

    def __init__(self, served: ServedWorkers) -> None:
        self._served = served

    def routes(self) -> list[Route]:
        """The routes of these handlers. They need no login: the token in the path is the permission."""
        show = RoutePolicy("ShowLink", Needs.NOTHING, Reach.ALL, secret_path=True)
        decide = RoutePolicy("DecideByLink", Needs.NOTHING, Reach.ALL, body_bytes=_BODY_BYTES, secret_path=True)
        return [Route("GET", _PATH, self.show, show), Route("POST", _PATH, self.decide, decide)]

    async def show(self, request: Request) -> Reply:
        """Show the question with a form. Opening the page never decides anything. If the link cannot be used, the page says why."""
        try:
            return await in_thread(Purpose.STORE, self._shown, request.label)
        except HoldfastError as refused:
            return _refusal(refused)

    def _shown(self, token: str) -> Reply:
        link, approval = self._opened(token)
        return question_page(approval, link.person)

    async def decide(self, request: Request) -> Reply:
        """Decide as the person for whom the link was made. The reply is a page: with the result, or with the reason why the link cannot be
        used. If the form was filled in wrongly, it is the page with the form again."""
        try:
            link, approval = await in_thread(Purpose.STORE, self._opened, request.label)
        except HoldfastError as refused:
            return _refusal(refused)
        caller = msgspec.structs.replace(holder(link.person), actor=_actor(link, request))
        given: dict[str, str] = {}
        try:
            given = {name: values[0] for name, values in request.form_values().items()}
            decided = await self._served.worker_service.decide(approval.approval_id, self._decision(approval, given, link.person), caller)
        except Rejected as refused:
            await self._note(caller, link, refused)
            if type(refused) in (ApprovalRefused, InvalidParameter):  # the person can correct the form and send it again
                page = partial(question_page, problem=str(refused), given=given, status=422)
                return await in_thread(Purpose.STORE, page, approval, link.person)
            return _refusal(refused)
        except HoldfastError as trouble:
            return _refusal(trouble)
        log.info("approval %s of %s: decided by a link of %s", decided.approval_id, decided.worker_id, link.person)
        return told_page(200, "Thank you", _told(decided, link.person))

    def _opened(self, token: str) -> tuple[Link, Approval]:
        """The link of a token, and its approval. Raises an error if the token is not valid or has expired, if there is no such approval, if
        it is closed, or if the person has voted already or may not decide."""
        store = self._served.store
        link = link_of(store.seal, token, self._served.clock.now())
        approval = find_approval(store, link.approval_id, holder(link.person))
        if approval.state != "open":
            raise CallbackClosed(_closed(approval))
        person = person_of(holder(link.person), link.person, store.credentials())
        if any(vote.person in person.names for vote in approval.votes):
            raise VotedBefore(f"{link.person} has voted on this already. A link can be used once.")
        check_person(approval, person, logged_in=True)
        return link, self._served.estimates().with_rest(approval)

    def _decision(self, approval: Approval, given: dict[str, str], person: str) -> Decision:
        verdict, comment = given.get("verdict", ""), given.get("comment", "").strip()
        if verdict not in ("approve", "reject", "answer"):
            raise InvalidParameter("Choose one of the buttons.")
        if len(comment) > _MAX_COMMENT:
            raise InvalidParameter(f"The comment has more than {_MAX_COMMENT} characters. Make it shorter.")
        result = answer_of(approval.schema, given) if verdict == "answer" else None
        now = self._served.clock.now()
        return Decision(verdict=verdict, decided_by=person, decided_at=now, comment=comment or None, result=result)

    async def _note(self, caller: Caller, link: Link, refused: Rejected) -> None:
        if caller.actor is not None:
            note = caller.actor.refused("decide by link", link.approval_id, refused.code, self._served.clock.now())
            await in_thread(Purpose.STORE, self._served.store.note, [note])


def _actor(link: Link, request: Request) -> Actor:
    return Actor(who=f"link:{link.person}", origin=request.origin, days=kept_days(os.environ))


def _closed(approval: Approval) -> str:
    if approval.state == "expired":
        return "The time for this decision is over."
    if approval.state == WITHDRAWN:
        return "The question was taken back. No decision is needed any more."
    return "The question is decided already. A link can be used once."


def _told(approval: Approval, person: str) -> str:
    if approval.state == "open":
        return f"Your vote is recorded, {person}. {len(approval.votes)} of {approval.votes_needed} persons have approved."
    return f"Your decision is recorded, {person}. The question is closed: {approval.state}."


def _refusal(refused: HoldfastError) -> Reply:
    status = next((status for kind, status in _STATUS.items() if isinstance(refused, kind)), None)
    if status is None:
        status = 422 if isinstance(refused, Rejected) else 503
    text = str(refused) if isinstance(refused, Rejected) else "The server cannot answer now. Try again in a minute."
    return told_page(status, _TITLES.get(status, "Not now"), text or "The question is closed.")

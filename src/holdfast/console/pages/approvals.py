"""The pages of approvals: what waits for a person, with everything that the person must know to decide, and the forms for the decisions."""

from __future__ import annotations

import json
from typing import Any, Final

from holdfast.console.rendering import address
from holdfast.console.site import Site, redirect
from holdfast.console.sources.approvals import Card
from holdfast.console.visit import Visit
from holdfast.model.durations import HINT, parsed
from holdfast.model.errors import CallbackClosed, InvalidParameter, Rejected
from holdfast.web.form_fields import answer_of, choices_of, fields_of
from holdfast.web.policy import Needs, Reach
from holdfast.web.replies import Reply
from holdfast.web.routing import Route
from holdfast.workers.approvals import ApproverRefused, VotedBefore, check_settles
from holdfast.workers.batches import MOST
from holdfast.workers.links import DEFAULT_SECONDS

_MOST_COMMENT: Final = 4096
_STATES: Final = ("open", "all")
_CONFLICTS: Final = (CallbackClosed, ApproverRefused, VotedBefore)
"""For these errors the status of the reply is 409: the person cannot correct them by sending the form with other values."""


class ApprovalsPages:
    """The pages of approvals."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def routes(self) -> list[Route]:
        """The routes of these pages."""
        site = self._site
        return [
            site.page("approvals", self.list, "ListApprovalsPage"),
            site.page("approvals/-/inbox", self.inbox, "ListApprovalsInbox"),
            site.page("approvals/-/count", self.count, "CountApprovals"),
            *site.action("approvals/-/batch", self.batch, "DecideApprovalsPage", needs=Needs.APPROVE),
            site.page("approvals/([^/]+)", self.one, "GetApprovalPage"),
            *site.action("approvals/([^/]+)/decide", self.decide, "DecideApprovalPage", needs=Needs.APPROVE),
            *site.action("approvals/([^/]+)/settle", self.settle, "SettleOutcomePage", needs=Needs.SETTLE),
            *site.action("approvals/([^/]+)/link", self.link, "LinkApprovalPage", needs=Needs.ADMINISTER, reach=Reach.NONE),
        ]

    # --- looking

    def list(self, visit: Visit) -> Reply:
        """The whole page."""
        done = visit.text("done")
        told = visit.source.approvals.card(done) if done else None
        return self._page(visit, "approvals.html", told=told, **self._values(visit))

    def inbox(self, visit: Visit) -> Reply:
        """Only the list of approvals. An open page asks for it again when something has changed."""
        return self._page(visit, "approvals_inbox.html", **self._values(visit))

    def count(self, visit: Visit) -> Reply:
        """How many runs wait for a person. An open page asks for this part again, also while the person types."""
        return self._page(visit, "approvals_count.html", waiting=visit.source.approvals.waiting())

    def one(self, visit: Visit) -> Reply:
        """The page of one approval."""
        return self._one(visit, visit.label)

    def _values(self, visit: Visit) -> dict[str, Any]:
        run, state = visit.text("run") or None, visit.text("state") or "open"
        if state not in _STATES:
            raise InvalidParameter(f"state: {state!r:.50} is not a state of this page. Write {' or '.join(_STATES)}.")
        source = visit.source.approvals
        after = visit.text("after") or None
        decided = source.decided(run) if state == "all" else None
        return {
            "run": run,
            "state": state,
            "after": after,
            "inbox": source.inbox(run, after),
            "decided": decided,
            "waiting": source.waiting(),
        }

    def _one(self, visit: Visit, approval_id: str, status: int = 200, *, problem: str = "", **more: Any) -> Reply:
        """The page of one approval; after a refused form, also what the person sent and what is wrong with it."""
        card = visit.source.approvals.card(approval_id)
        return self._page(visit, "approvals_one.html", status, card=card, problem=problem, given=visit.form, **more)

    def _page(self, visit: Visit, template: str, status: int = 200, **values: Any) -> Reply:
        usual: dict[str, Any] = {"problem": "", "given": {}, "link": None, "told": None, "run": None, "state": "open"}
        pieces = {"fields_of": fields_of, "choices_of": choices_of, "pretty": _pretty}
        return self._site.rendering.page(visit, template, status, **(usual | pieces | values))

    # --- deciding

    def decide(self, visit: Visit) -> Reply:
        """Approve, with the arguments that are shown or with edited ones, reject, or answer."""
        verdict = visit.field("verdict")
        try:
            card = visit.source.approvals.card(visit.label)
            if verdict not in ("approve", "reject", "answer"):
                raise InvalidParameter("Choose one of the buttons.")
            comment = _comment(visit)
            if verdict == "reject" and comment is None:
                raise InvalidParameter("Say why you reject it: the run and the people who asked read it.")
            edited = _edited(visit, card) if verdict == "approve" else None
            result = answer_of(card.approval.schema, visit.form) if verdict == "answer" else None
            visit.source.approvals.decide(visit.label, verdict, comment=comment, result=result, edited_arguments=edited)
        except Rejected as refused:
            return self._refused(visit, refused)
        return self._decided(visit)

    def settle(self, visit: Visit) -> Reply:
        """Record whether a call of unknown outcome happened, or stop the run."""
        verdict, text = visit.field("verdict"), visit.field("result")
        try:
            check_settles(verdict)
            result = _json(text, "The result") if text and verdict == "happened" else None
            visit.source.approvals.decide(visit.label, verdict, comment=_comment(visit), result=result)
        except Rejected as refused:
            return self._refused(visit, refused)
        return self._decided(visit)

    def _refused(self, visit: Visit, refused: Rejected) -> Reply:
        """Show the form again, with what is wrong. If the caller may not see the approval, the page does not say that it exists."""
        return self._one(visit, visit.label, 409 if isinstance(refused, _CONFLICTS) else 422, problem=str(refused))

    def _decided(self, visit: Visit) -> Reply:
        run, state = visit.field("run"), visit.field("state")
        return redirect(visit, address("approvals", run=run, state="" if state == "open" else state, done=visit.label))

    def batch(self, visit: Visit) -> Reply:
        """Decide many approvals: the first form shows how many and which; the second one decides them, and the page shows the result of
        each."""
        ids, verdict = visit.chosen.get("id", ()), visit.field("verdict")
        if verdict not in ("approve", "reject"):
            raise InvalidParameter("Choose whether to approve or to reject.")
        if not ids:
            raise InvalidParameter("Select approvals first: tick the boxes of those that you mean.")
        if len(ids) > MOST:
            raise InvalidParameter(f"A batch decides at most {MOST} approvals, not {len(ids)}.")
        cards = visit.source.approvals.chosen(ids)
        values: dict[str, Any] = {"cards": cards, "verdict": verdict, "comment": visit.field("comment")}
        problem = ""
        try:
            comment = _comment(visit)
        except InvalidParameter as wrong:
            comment, problem = None, str(wrong)
        if visit.field("confirmed") and verdict == "reject" and comment is None:
            problem = problem or "Say why you reject them: the runs and the people who asked read it."
        if problem or not visit.field("confirmed"):
            return self._page(visit, "approvals_batch.html", 422 if problem else 200, results=None, **(values | {"problem": problem}))
        results = visit.source.approvals.decide_many("approve" if verdict == "approve" else "reject", ids, comment)
        return self._page(visit, "approvals_batch.html", results=results, **values)

    def link(self, visit: Visit) -> Reply:
        """Make a link by which one person may decide, and show it this once."""
        valid = visit.field("valid")
        seconds = parsed(valid) if valid else DEFAULT_SECONDS
        try:
            if seconds is None:
                raise InvalidParameter(f"{valid!r:.50} is no duration. {HINT}")
            made = visit.source.approvals.link(visit.label, visit.field("person"), seconds)
        except Rejected as refused:
            return self._refused(visit, refused)
        base = visit.source.approvals.link_base
        reached = f"{visit.request.scope.get('scheme', 'http')}://{visit.request.header(b'host') or ''}"
        url = made.path if base is None else f"{(base or reached).rstrip('/')}{made.path}"
        return self._one(visit, visit.label, link=made, url=url)


def _comment(visit: Visit) -> str | None:
    comment = visit.field("comment")
    if len(comment) > _MOST_COMMENT:
        raise InvalidParameter(f"A reason has at most {_MOST_COMMENT} characters.")
    return comment or None


def _edited(visit: Visit, card: Card) -> dict[str, Any] | None:
    """The arguments as a person edited them; None if nothing was changed. Raises InvalidParameter if they are not a JSON object."""
    text = visit.field("arguments")
    if not text or text == _pretty(card.approval.arguments).strip():
        return None
    edited = _json(text, "The edited text")
    if not isinstance(edited, dict):
        raise InvalidParameter("The arguments of a call must be a JSON object: {…}.")
    return None if edited == card.approval.arguments else edited


def _json(text: str, what: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as wrong:
        raise InvalidParameter(f"{what} is not JSON: {wrong}.") from None


def _pretty(value: Any) -> str:
    """A value as people read and edit it. Characters that hide others or change the direction of text are written as JSON escapes."""
    text = json.dumps(value, ensure_ascii=False, indent=2, default=str)
    if text.replace("\n", "").isprintable():
        return text
    return "".join(one if one.isprintable() or one == "\n" else json.dumps(one)[1:-1] for one in text)

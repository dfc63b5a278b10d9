"""The pages of approvals: what waits for a person, with everything that the person must know to decide, and the forms for the decisions."""

from __future__ import annotations

import json
from typing import Any, Final

from holdfast.console.page_request import PageRequest
from holdfast.console.rendering import address
from holdfast.console.site import PageGroup, redirect
from holdfast.console.sources.approvals import Card
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


class ApprovalsPages(PageGroup):
    """The pages of approvals."""

    def routes(self) -> list[Route]:
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

    def list(self, request: PageRequest) -> Reply:
        """The whole page: a page of open approvals, and with `?state=all` also approvals that do not wait any more. After a decision or a
        vote, it also says what was recorded for the approval `?done=`."""
        done = request.text("done")
        told = request.source.approvals.card(done) if done else None
        return self._page(request, "approvals.html", told=told, **self._values(request))

    def inbox(self, request: PageRequest) -> Reply:
        """Only the list of approvals, as on the whole page. An open page asks for this list again when the store has changed, but not while
        the person selects, opens or types something."""
        return self._page(request, "approvals_inbox.html", **self._values(request))

    def count(self, request: PageRequest) -> Reply:
        """Only the text that says how many runs wait for a person; with `?run=`, how many questions of this run and of the runs below it
        wait. An open page asks for it again, also while the person types."""
        run = request.text("run") or None
        return self._page(request, "approvals_count.html", run=run, waiting=request.source.approvals.waiting(run))

    def one(self, request: PageRequest) -> Reply:
        return self._one(request, request.label)

    def _values(self, request: PageRequest) -> dict[str, Any]:
        run, state = request.text("run") or None, request.text("state") or "open"
        if state not in _STATES:
            raise InvalidParameter(f"state: {state!r:.50} is not a state of this page. Write {' or '.join(_STATES)}.")
        source = request.source.approvals
        after = request.text("after") or None
        decided = source.decided(run) if state == "all" else None
        return {
            "run": run,
            "state": state,
            "after": after,
            "inbox": source.inbox(run, after),
            "decided": decided,
            "waiting": source.waiting(run),
        }

    def _one(self, request: PageRequest, approval_id: str, status: int = 200, *, problem: str = "", **more: Any) -> Reply:
        """The page of one approval. After a form that was refused, `problem` says what is wrong, and the form has what the person sent.
        `more` are further values for the template."""
        card = request.source.approvals.card(approval_id)
        return self._page(request, "approvals_one.html", status, card=card, problem=problem, given=request.form, **more)

    def _page(self, request: PageRequest, template: str, status: int = 200, **values: Any) -> Reply:
        usual: dict[str, Any] = {"problem": "", "given": {}, "link": None, "told": None, "run": None, "state": "open"}
        pieces = {"fields_of": fields_of, "choices_of": choices_of, "pretty": _pretty}
        return self._render(request, template, status, **(usual | pieces | values))

    # --- deciding

    def decide(self, request: PageRequest) -> Reply:
        """Record the decision of the person: approve with the arguments that are shown or with edited ones, reject with a reason, or answer
        the question. If the decision is refused, show the form again with what is wrong."""
        verdict = request.field("verdict")
        try:
            card = request.source.approvals.card(request.label)
            if verdict not in ("approve", "reject", "answer"):
                raise InvalidParameter("Choose one of the buttons.")
            comment = _comment(request)
            if verdict == "reject" and comment is None:
                raise InvalidParameter("Say why you reject it: the run and the people who asked read the reason.")
            edited = _edited(request, card) if verdict == "approve" else None
            result = answer_of(card.approval.schema, request.form) if verdict == "answer" else None
            request.source.approvals.decide(request.label, verdict, comment=comment, result=result, edited_arguments=edited)
        except Rejected as refused:
            return self._refused(request, refused)
        return self._decided(request)

    def settle(self, request: PageRequest) -> Reply:
        """For a call of a tool whose outcome is unknown: record whether the call happened, or let the call fail (`stop`), which ends the
        run unless the worker catches the error. If the decision is refused, show the form again with what is wrong."""
        verdict, text = request.field("verdict"), request.field("result")
        try:
            check_settles(verdict)
            result = _json(text, "The result") if text and verdict == "happened" else None
            request.source.approvals.decide(request.label, verdict, comment=_comment(request), result=result)
        except Rejected as refused:
            return self._refused(request, refused)
        return self._decided(request)

    def _refused(self, request: PageRequest, refused: Rejected) -> Reply:
        """Show the form again, with what is wrong. Raises ExecutionNotFound if there is no such approval, or if the caller may not see
        it."""
        return self._one(request, request.label, 409 if isinstance(refused, _CONFLICTS) else 422, problem=str(refused))

    def _decided(self, request: PageRequest) -> Reply:
        run, state = request.field("run"), request.field("state")
        return redirect(request, address("approvals", run=run, state="" if state == "open" else state, done=request.label))

    def batch(self, request: PageRequest) -> Reply:
        """Decide many approvals, in two steps. A form without the field `confirmed` decides nothing: the page shows the chosen approvals. A
        form with this field decides them, and the page shows the result for each. If the reason is too long, or a confirmed rejection has
        no reason, nothing is decided, and the page says so. Raises InvalidParameter if no approval or too many are chosen, or if the
        verdict is neither `approve` nor `reject`."""
        ids, verdict = request.chosen.get("id", ()), request.field("verdict")
        if verdict not in ("approve", "reject"):
            raise InvalidParameter("Choose whether to approve or to reject.")
        if not ids:
            raise InvalidParameter("Select approvals first: tick the boxes of those that you mean.")
        if len(ids) > MOST:
            raise InvalidParameter(f"A batch decides at most {MOST} approvals, not {len(ids)}.")
        cards = request.source.approvals.chosen(ids)
        values: dict[str, Any] = {"cards": cards, "verdict": verdict, "comment": request.field("comment")}
        problem = ""
        try:
            comment = _comment(request)
        except InvalidParameter as wrong:
            comment, problem = None, str(wrong)
        if request.field("confirmed") and verdict == "reject" and comment is None:
            problem = problem or "Say why you reject them: the runs and the people who asked read the reason."
        if problem or not request.field("confirmed"):
            return self._page(request, "approvals_batch.html", 422 if problem else 200, results=None, **(values | {"problem": problem}))
        results = request.source.approvals.decide_many("approve" if verdict == "approve" else "reject", ids, comment)
        return self._page(request, "approvals_batch.html", results=results, **values)

    def link(self, request: PageRequest) -> Reply:
        """Make a link by which one person may decide this approval, and show the link this one time. If the link is refused, the page shows
        what is wrong."""
        valid = request.field("valid")
        seconds = parsed(valid) if valid else DEFAULT_SECONDS
        try:
            if seconds is None:
                raise InvalidParameter(f"{valid!r:.50} is no duration. {HINT}")
            made = request.source.approvals.link(request.label, request.field("person"), seconds)
        except Rejected as refused:
            return self._refused(request, refused)
        base = request.source.approvals.link_base
        reached = f"{request.http.scope.get('scheme', 'http')}://{request.http.header(b'host') or ''}"
        url = made.path if base is None else f"{(base or reached).rstrip('/')}{made.path}"
        return self._one(request, request.label, link=made, url=url)


def _comment(request: PageRequest) -> str | None:
    comment = request.field("comment")
    if len(comment) > _MOST_COMMENT:
        raise InvalidParameter(f"A reason has at most {_MOST_COMMENT} characters.")
    return comment or None


def _edited(request: PageRequest, card: Card) -> dict[str, Any] | None:
    """The arguments as the person edited them; None if the person changed nothing or left the field empty. Raises InvalidParameter if the
    edited text is not a JSON object."""
    text = request.field("arguments")
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
    """A value as JSON that people can read and edit. Characters that cannot be printed, for example invisible ones and those that change
    the direction of text, are written as JSON escapes."""
    text = json.dumps(value, ensure_ascii=False, indent=2, default=str)
    if text.replace("\n", "").isprintable():
        return text
    return "".join(one if one.isprintable() or one == "\n" else json.dumps(one)[1:-1] for one in text)

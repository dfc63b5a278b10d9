"""The page of a restart: a person chooses where the restart begins, edits the input, reads what the restart would do, and starts it."""

from __future__ import annotations

from hashlib import sha256

from holdfast.console.page_request import PageRequest
from holdfast.console.site import PageGroup, redirect
from holdfast.console.sources.restarts import RestartChoice, RestartView
from holdfast.contract.refusals import InvalidRequest
from holdfast.model.errors import Rejected
from holdfast.web.policy import Needs
from holdfast.web.replies import Reply
from holdfast.web.routing import Route

_CHANGED = "You changed the form after the plan was made. This is what the restart would do now: read it, then start it."
_MOST_RESEND = 100


class RestartPages(PageGroup):
    """The page of a restart."""

    def routes(self) -> list[Route]:
        site = self._site
        return [
            site.page("runs/([^/]+)/restart", self.show, "RestartPage", needs=Needs.OPERATE),
            *site.action("runs/([^/]+)/restart/plan", self.plan, "PlanRestart", needs=Needs.OPERATE),
            *site.action("runs/([^/]+)/restart", self.start, "RestartFromConsole", needs=Needs.OPERATE),
        ]

    def show(self, request: PageRequest) -> Reply:
        """The page of a restart. `?from=` names the node or the operation at which the restart begins. Without `?from=`, the page proposes
        where to begin."""
        place = request.text("from")[:1000]
        return self._shown(request, request.source.restarts.view(request.label, RestartChoice(place=place) if place else None))

    def plan(self, request: PageRequest) -> Reply:
        """Show the plan of the restart that the form describes. Nothing is started."""
        view = request.source.restarts.view(request.label, _choice(request))
        if request.is_fragment:
            return self._render(request, "restart_plan.html", view=view, planned=_mark(view), notice="")
        return self._shown(request, view)

    def start(self, request: PageRequest) -> Reply:
        """Start the restart whose plan the person has read, and show the page of the new run. If the restart is not possible, or if the
        form or the plan has changed since the plan was shown, nothing is started, and the page shows the present plan with the reason."""
        choice = _choice(request)
        view = request.source.restarts.view(request.label, choice)
        if not view.is_ready:
            return self._shown(request, view, status=422)
        if request.field("planned") != _mark(view):
            return self._shown(request, view, notice=_CHANGED, status=422)
        try:
            made = request.source.restarts.start(request.label, choice)
        except InvalidRequest as refused:
            return self._shown(request, view, notice=str(refused), status=422)
        except Rejected as refused:
            return self._shown(request, request.source.restarts.view(request.label, choice), notice=str(refused), status=422)
        return redirect(request, f"runs/{made}")

    def _shown(self, request: PageRequest, view: RestartView, *, notice: str = "", status: int = 200) -> Reply:
        return self._render(request, "restart.html", status, view=view, planned=_mark(view), notice=notice)


def _choice(request: PageRequest) -> RestartChoice:
    resend = tuple(request.chosen.get("resend", ()))[:_MOST_RESEND]
    return RestartChoice(place=request.field("from"), text=request.form.get("input"), resend=resend)


def _mark(view: RestartView) -> str:
    """A hash of what the person chose and of the plan for it. The form carries this hash, so that `start` knows whether the person has read
    exactly this plan."""
    plans = [(one.key, one.plan.what) for one in view.places if one.plan is not None]
    told = repr((view.choice.place, view.choice.resend, view.edited and view.choice.text, plans, view.again))
    return sha256(told.encode("utf-8", "surrogatepass")).hexdigest()[:32]

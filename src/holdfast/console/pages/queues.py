"""Queues: their counts, their limits and who set them, their lanes and parked runs; the actions are pause, resume, drain, set and
redrive."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from holdfast.console.admission_counts import AdmissionCounts
from holdfast.console.page_request import PageRequest
from holdfast.console.pages.queue_tables import counts, lanes, parked, queues, settings
from holdfast.console.pages.table_pages import TablePages, missing_is_no_page, part_asked, part_of_path
from holdfast.console.rendering import address
from holdfast.console.site import Site, redirect
from holdfast.console.sources.queues import MOST_REDRIVEN
from holdfast.console.tables import MOST_ROWS, Button, ConsoleField, ConsoleForm, ConsolePage, ConsoleSection, StatusMark
from holdfast.model.errors import InvalidParameter
from holdfast.model.queue_errors import QueueNotFound
from holdfast.model.queues import Mode
from holdfast.queues.setting_names import MEMBERS
from holdfast.queues.store_queues import QueueView
from holdfast.web.policy import Needs, Reach
from holdfast.web.replies import Reply
from holdfast.web.routing import Route

_VERBS: Final = ("pause", "resume", "drain")
_MARKS: Final = {
    Mode.OPEN: StatusMark("ok", "open", "It accepts new runs and admits waiting ones."),
    Mode.PAUSED: StatusMark("stopped", "paused", "It accepts new runs and admits none."),
    Mode.DRAINING: StatusMark("retrying", "draining", "It admits the runs that wait and accepts no new ones."),
}


class QueuesPages(TablePages):
    """The pages of queues. Actions that concern all tenants (pause, resume, drain, set) are refused to a caller who belongs to one
    tenant."""

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._admissions = AdmissionCounts()

    def routes(self) -> list[Route]:
        site = self._site
        one = "queues/([^/]+)"
        changes: dict[str, Any] = {"needs": Needs.OPERATE, "reach": Reach.NONE}
        turns = [(f"{one}/{verb}", partial(self.turn, verb=verb), f"{verb.title()}QueuePage") for verb in _VERBS]
        return [
            site.page("queues", self.list, "ListQueuesPage"),
            site.page(one, self.show, "ShowQueuePage"),
            site.page(f"{one}/redrive", self.ask_redrive, "AskRedriveQueue", needs=Needs.OPERATE),
            *site.action(f"{one}/settings", self.set, "SetQueuePage", **changes),
            *site.action(f"{one}/redrive", self.redrive, "RedriveQueuePage", needs=Needs.OPERATE),
            *(route for turn in turns for route in site.action(*turn, **changes)),
        ]

    def list(self, request: PageRequest) -> Reply:
        """The page with the queues, at most MOST_ROWS."""
        found = request.source.queues.list(MOST_ROWS + 1)
        sparks = (
            {}
            if request.source.viewer.tenant
            else {x.row.name: self._admissions.look(x.row.name, x.state.admitted, request.now) for x in found}
        )
        lead = "A queue accepts runs, and admits them as its limits allow."
        if sparks:
            lead += " The small bars are admissions in the last five minutes, as this console saw them while a person looked."
        page = ConsolePage(
            title="Queues",
            path="queues",
            lead=lead,
            sections=(ConsoleSection(id="queues", table=queues(found, sparks, request), live=True),),
        )
        return self._tables(request, page)

    @missing_is_no_page(QueueNotFound)
    def show(self, request: PageRequest) -> Reply:
        return self._queue(request)

    @missing_is_no_page(QueueNotFound)
    def turn(self, request: PageRequest, verb: str) -> Reply:
        """Pause, resume or drain the queue, as `verb` says."""
        request.source.queues.set_mode(request.label, verb)
        return redirect(request, f"queues/{part_of_path(request.label)}")

    @missing_is_no_page(QueueNotFound)
    def set(self, request: PageRequest) -> Reply:
        """Set the operator's values of the queue's settings. An empty field removes the operator's value, so that the code's value is in
        force. If a value is wrong, nothing is set, and the form is shown again with what is wrong."""
        said = {name: request.field(name) for name in MEMBERS if name in request.form}
        try:
            request.source.queues.set(request.label, said)
        except InvalidParameter as wrong:
            return self._queue(request, str(wrong), said)
        return redirect(request, f"queues/{part_of_path(request.label)}")

    @missing_is_no_page(QueueNotFound)
    def ask_redrive(self, request: PageRequest) -> Reply:
        """The page on which a person confirms that the parked runs start again. It says how many parked runs there are, counted up to
        MOST_REDRIVEN."""
        return self._ask_redrive(request)

    @missing_is_no_page(QueueNotFound)
    def redrive(self, request: PageRequest) -> Reply:
        """Start parked runs again. With the form's field `run`: this one run; raises its error if it cannot be started. Without the field:
        all parked runs that the caller may see, at most MOST_REDRIVEN. If the person typed another number than the number of these runs,
        nothing is started, and the page asks again. If some of them cannot be started, the others are started, and InvalidParameter is
        raised."""
        source, here = request.source.queues, f"queues/{part_of_path(request.label)}"
        if request.field("run"):
            done = source.redrive(request.label, request.field("run"))
            if done.error is not None:
                raise done.error
            return redirect(request, f"runs/{done.started}")
        if request.field("confirm") != str(source.count_parked(request.label)):
            return self._ask_redrive(request, "The number that you typed is not the number of parked runs.")
        refused = [one for one in source.redrive_all(request.label) if one.error is not None]
        if refused:
            first = refused[0]
            raise InvalidParameter(f"{len(refused):,} runs were not started again. The first of them is {first.parked}: {first.error}")
        return redirect(request, here)

    def _ask_redrive(self, request: PageRequest, problem: str = "") -> Reply:
        name = request.label
        count = request.source.queues.count_parked(name)
        bounded = " The console starts at most this many at once." if count >= MOST_REDRIVEN else ""
        note = f"{count:,} {'run is' if count == 1 else 'runs are'} parked. Each starts again under its key, in this queue.{bounded}"
        here = f"queues/{part_of_path(name)}"
        confirm = ConsoleField(name="confirm", label=f"Type {count} to confirm", required=True)
        form = ConsoleForm(to=f"{here}/redrive", fields=(confirm,), submit=f"Redrive {count:,}", needs="operate", back=here)
        section = ConsoleSection(id="redrive", note=note, form=form if count else None)
        above = (("Queues", "queues"), (name, here))
        page = ConsolePage(title="Redrive all parked runs", path=f"{here}/redrive", above=above, problem=problem, sections=(section,))
        return self._tables(request, page)

    def _queue(self, request: PageRequest, problem: str = "", said: dict[str, str] | None = None) -> Reply:
        source, name = request.source.queues, request.label
        view = source.show(name)
        here = f"queues/{part_of_path(name)}"
        path = address(here, lane=request.text("lane"), parked=request.text("parked"))
        may_set = request.may("operate") and request.source.viewer.tenant is None
        made: dict[str, Callable[[], ConsoleSection]] = {
            "counts": lambda: counts(view, self._spark(request, view), request),
            "parked": lambda: parked(source.parked(name, request.text("parked")), here, view.state.parked),
            "settings": lambda: settings(view.row, here, said, may_set=may_set),
            "lanes": lambda: lanes(source.lanes(name, request.text("lane")), here, request),
        }
        page = ConsolePage(
            title=name,
            path=path,
            above=(("Queues", "queues"),),
            mark=_MARKS[view.row.mode],
            buttons=self._buttons(request, view, here),
            problem=problem,
            sections=tuple(make() for part, make in made.items() if part == (part_asked(request) or part)),
        )
        return self._tables(request, page)

    def _spark(self, request: PageRequest, view: QueueView) -> tuple[int, ...] | None:
        if request.source.viewer.tenant is not None:
            return None
        return self._admissions.look(view.row.name, view.state.admitted, request.now)

    @staticmethod
    def _buttons(request: PageRequest, view: QueueView, here: str) -> tuple[Button, ...]:
        if request.source.viewer.tenant is not None:
            return ()
        wanted = ("pause", "drain") if view.row.mode is Mode.OPEN else ("resume",)
        return tuple(Button(label=verb.title(), to=f"{here}/{verb}", needs="operate", style="") for verb in wanted)

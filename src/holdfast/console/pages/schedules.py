"""Schedules: each in words, with its next times and the outcomes of its last occurrences. The actions are pause, resume, run now and
backfill."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from holdfast.console.page_request import PageRequest
from holdfast.console.pages.table_pages import TablePages, missing_is_no_page, part_of_path, runs_of
from holdfast.console.rendering import address, moment
from holdfast.console.run_names import short_id
from holdfast.console.site import redirect
from holdfast.console.tables import (
    NOTHING,
    Actions,
    Age,
    Button,
    Cell,
    Column,
    ConsoleField,
    ConsoleForm,
    ConsolePage,
    ConsoleSection,
    LinkCell,
    Number,
    Pile,
    StatusMark,
    Table,
    TextCell,
    Time,
    Until,
)
from holdfast.model.errors import InvalidParameter, Rejected
from holdfast.model.schedule_errors import ScheduleNotFound
from holdfast.model.schedule_times import Timing, in_words
from holdfast.model.schedules import Handled, ScheduleState
from holdfast.model.shown_status import ShownStatus
from holdfast.schedules.documents import expression, in_zone, next_times
from holdfast.web.policy import Needs
from holdfast.web.replies import Reply
from holdfast.web.routing import Route

_LEAD = "A schedule starts a function, a worker or a pipeline at its times. A runner that hosts it starts it."
_FORM = "Times are UTC."
_LOCAL: Final = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2})?")
_WORDS: Final = {"waiting": "waiting", "skipped": "waiting", "replaced": "stopped", "missed": "failed", "refused": "failed"}
"""For an outcome of an occurrence, the status whose shape and colour the page shows. It is used only if the occurrence has no execution
whose status the page can show instead. An outcome that is not here looks like `waiting`."""
_EXAMPLES: Final = 10


class SchedulesPages(TablePages):
    """The pages of schedules. A caller of one tenant sees and changes only the schedules of that tenant."""

    def routes(self) -> list[Route]:
        site, one = self._site, "schedules/([^/]+)"
        return [
            site.page("schedules", self.list, "ListSchedulesPage"),
            site.page(one, self.show, "ShowSchedulePage"),
            site.page(f"{one}/backfill", self.ask_backfill, "AskBackfill", needs=Needs.OPERATE),
            *site.action(f"{one}/pause", self.pause, "PauseSchedulePage", needs=Needs.OPERATE),
            *site.action(f"{one}/resume", self.resume, "ResumeSchedulePage", needs=Needs.OPERATE),
            *site.action(f"{one}/run", self.run_now, "RunSchedulePage", needs=Needs.OPERATE),
            *site.action(f"{one}/backfill", self.backfill, "BackfillSchedulePage", needs=Needs.OPERATE),
        ]

    def list(self, request: PageRequest) -> Reply:
        """A page of schedules, in the order of their names."""
        beyond = request.text("beyond")
        found, following = request.source.schedules.page(beyond)
        columns = (Column("Schedule"), Column("When"), Column("Runs"), Column("Next"), Column("Last"), Column("State"), Column(""))
        table = Table(
            columns=columns,
            rows=tuple(_row(state, request) for state in found),
            empty="There are no schedules.",
            hint="Declare one in code with `holdfast.Schedule(…)`, or add one with `holdfast schedules add`.",
            first="schedules" if beyond else "",
            following=address("schedules", beyond=following) if following else "",
        )
        page = ConsolePage(
            title="Schedules",
            path=address("schedules", beyond=beyond),
            lead=_LEAD,
            sections=(ConsoleSection(id="schedules", table=table, live=True),),
        )
        return self._tables(request, page)

    @missing_is_no_page(ScheduleNotFound)
    def show(self, request: PageRequest) -> Reply:
        state = request.source.schedules.get(request.label)
        here = f"schedules/{part_of_path(state.name)}"
        buttons = (*_pause_button(state, ""), Button(label="Backfill…", to=f"{here}/backfill", needs="operate", style="", is_link=True))
        page = ConsolePage(
            title=state.name,
            path=here,
            above=(("Schedules", "schedules"),),
            lead=in_words(state.definition.timing) + ".",
            mark=_mark(state),
            buttons=buttons,
            sections=(
                _facts(state),
                _coming(state, request.now),
                _history(state, request.source.schedules.statuses(state)),
                _input(state),
            ),
        )
        return self._tables(request, page)

    @missing_is_no_page(ScheduleNotFound)
    def pause(self, request: PageRequest) -> Reply:
        """Pause the schedule: what is due during the pause is not started. `run_now` and `backfill` still start occurrences."""
        request.source.schedules.pause(request.label)
        return redirect(request, f"schedules/{part_of_path(request.label)}")

    @missing_is_no_page(ScheduleNotFound)
    def resume(self, request: PageRequest) -> Reply:
        """Resume the schedule. What was due during the pause is not started. Occurrences that waited for an earlier one to end are dropped
        too."""
        request.source.schedules.resume(request.label)
        return redirect(request, f"schedules/{part_of_path(request.label)}")

    @missing_is_no_page(ScheduleNotFound)
    def run_now(self, request: PageRequest) -> Reply:
        """Ask for one occurrence now, also if an earlier occurrence still runs or the schedule is paused. A runner that hosts the function
        starts the occurrence."""
        request.source.schedules.run_now(request.label)
        return redirect(request, f"schedules/{part_of_path(request.label)}")

    # --- backfill

    @missing_is_no_page(ScheduleNotFound)
    def ask_backfill(self, request: PageRequest) -> Reply:
        """The form of a backfill. If the address has `?begin=` and `?end=`, the page also says how many occurrences were due between them.
        If one of them is missing or not valid, the page says what is wrong."""
        begin, end = request.text("begin"), request.text("end")
        return self._backfill(request, begin, end)

    @missing_is_no_page(ScheduleNotFound)
    def backfill(self, request: PageRequest) -> Reply:
        """Ask for the occurrences that were due in the span of time that the form gives. A runner that hosts the function starts them,
        except those whose execution is still in the store. If the person typed another number than the number of occurrences, nothing is
        asked for, and the form is shown again. Raises InvalidParameter or ScheduleInvalid if the times are not valid."""
        begin, end = request.field("begin"), request.field("end")
        plan = request.source.schedules.backfill_plan(request.label, _moment(begin), _moment(end))
        if request.field("confirm") != str(plan.count):
            return self._backfill(request, begin, end, "The number that you typed is not the number of occurrences.")
        request.source.schedules.backfill(request.label, plan.begin, plan.end)
        return redirect(request, f"schedules/{part_of_path(request.label)}")

    def _backfill(self, request: PageRequest, begin: str, end: str, problem: str = "") -> Reply:
        name = request.source.schedules.get(request.label).name
        here = f"schedules/{part_of_path(name)}"
        fields = tuple(
            ConsoleField(name=key, label=label, value=value, type="datetime-local", required=True, hint=_FORM)
            for key, label, value in (("begin", "From", begin), ("end", "To, not included", end))
        )
        times = ConsoleSection(
            id="times", form=ConsoleForm(to=f"{here}/backfill", fields=fields, submit="Count", get=True, style="", back=here)
        )
        sections = [times]
        if begin or end:
            try:
                sections.append(self._planned(request, here, begin, end))
            except Rejected as wrong:
                problem = str(wrong)
        page = ConsolePage(
            title="Backfill",
            path=f"{here}/backfill",
            above=(("Schedules", "schedules"), (name, here)),
            lead="A backfill starts what was due in a time of the past. What ran already, and is still in the store, is not started again.",
            problem=problem,
            sections=tuple(sections),
        )
        return self._tables(request, page)

    def _planned(self, request: PageRequest, here: str, begin: str, end: str) -> ConsoleSection:
        plan = request.source.schedules.backfill_plan(request.label, _moment(begin), _moment(end))
        count = plan.count
        title = f"{count:,} {'occurrence' if count == 1 else 'occurrences'} would start"
        cut = f"The first {_EXAMPLES} of {count:,}." if count > _EXAMPLES else ""
        table = Table(
            columns=(Column("Due"),),
            rows=tuple((Time(at),) for at in plan.due[:_EXAMPLES]),
            empty="Nothing was due in that time.",
            cut=cut,
            narrow=True,
        )
        hidden = (
            ConsoleField(name="begin", label="", value=begin, type="hidden"),
            ConsoleField(name="end", label="", value=end, type="hidden"),
        )
        confirm = ConsoleField(name="confirm", label=f"Type {count} to confirm", required=True)
        form = ConsoleForm(to=f"{here}/backfill", fields=(*hidden, confirm), submit=f"Start {count:,}", needs="operate", back=here)
        return ConsoleSection(id="plan", title=title, table=table, form=form if count else None)


def _moment(text: str) -> int:
    if not _LOCAL.fullmatch(text):
        raise InvalidParameter("Give both times, as 2026-01-31T12:00, in UTC.")
    try:
        return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise InvalidParameter(f"{text!r:.50} is not a time such as 2026-01-31T12:00.") from None


def _row(state: ScheduleState, request: PageRequest) -> tuple[Cell, ...]:
    coming = next_times(state, request.now, 1)
    timing = state.definition.timing
    return (
        LinkCell(state.name, f"schedules/{part_of_path(state.name)}"),
        _when(timing),
        LinkCell(state.definition.function, runs_of("function", state.definition.function)),
        Until(coming[0]) if coming else NOTHING,
        _last(state.recent[0]) if state.recent else NOTHING,
        _mark(state),
        Actions(_pause_button(state, "small")),
    )


def _when(timing: Timing) -> Cell:
    if timing.cron is None:
        return TextCell(in_words(timing))
    return Pile((TextCell(in_words(timing)), TextCell(expression(timing), mono=True, muted=True)))


def _mark(state: ScheduleState) -> StatusMark:
    if state.paused:
        return StatusMark("stopped", "paused", f"by {state.paused_by}" if state.paused_by else "")
    return StatusMark("waiting", "over", "It has no next time.") if state.next_at is None else StatusMark("ok", "active")


def _pause_button(state: ScheduleState, style: str) -> tuple[Button, ...]:
    here = f"schedules/{part_of_path(state.name)}"
    verb = "resume" if state.paused else "pause"
    return (
        Button(label="Run now", to=f"{here}/run", needs="operate", style=style, confirm=f"Start {state.name} now?"),
        Button(label=verb.title(), to=f"{here}/{verb}", needs="operate", style=style),
    )


def _last(line: Handled) -> Cell:
    what: Cell = LinkCell(line.outcome, f"runs/{line.execution}") if line.execution else TextCell(line.outcome)
    return Pile((what, Age(line.at)))


def _facts(state: ScheduleState) -> ConsoleSection:
    defined = state.definition
    target = defined.function if defined.version is None else f"{defined.function}:{defined.version}"
    facts: list[tuple[str, Cell]] = [
        ("Expression", TextCell(expression(defined.timing), mono=True)),
        ("Runs", LinkCell(target, runs_of("function", defined.function))),
        ("If the run before still goes on", TextCell(defined.overlap.value)),
        ("What no runner could start in time", TextCell(defined.catch_up.value)),
        ("Declared in", TextCell(state.origin.value)),
        ("Tenant", NOTHING if defined.tenant is None else TextCell(defined.tenant)),
        ("Asked for, not started yet", Number(len(state.asked), quiet=False)),
        ("Waiting for the one before", Number(len(state.waiting), quiet=False)),
    ]
    if state.paused_by is not None:
        facts.append(("Paused by", TextCell(state.paused_by)))
    if state.changed_by is not None:
        facts.append(("Changed by", TextCell(f"{state.changed_by}, {moment(state.changed_at)} UTC")))
    if state.declared is not None:
        facts.append(("The declaration says", TextCell(f"{in_words(state.declared.timing)}, which is not in force", wraps=True)))
    return ConsoleSection(id="facts", facts=tuple(facts), live=True)


def _coming(state: ScheduleState, now: int) -> ConsoleSection:
    zone = state.definition.timing
    times = next_times(state, now, 5)
    columns = (Column("When"), Column("In the schedule's zone"), Column("UTC"))
    rows = tuple((Until(at), TextCell(in_zone(at, zone)), Time(at)) for at in times)
    empty = "Nothing is due while it is paused." if state.paused else "It has no next time."
    return ConsoleSection(id="next", title="Next five", table=Table(columns=columns, rows=rows, empty=empty, narrow=True), live=True)


def _history(state: ScheduleState, statuses: Mapping[str, ShownStatus]) -> ConsoleSection:
    columns = (Column("Due"), Column("Outcome"), Column("How"), Column("Run"), Column("Why", fill=True))
    rows = tuple(
        (
            Pile((Age(line.at), TextCell(moment(line.at), muted=True))),
            _outcome(line, statuses),
            TextCell(line.how.value, muted=True),
            NOTHING
            if line.execution is None
            else LinkCell(short_id(line.execution), f"runs/{line.execution}", mono=True, title=line.execution),
            TextCell(line.why or "", muted=True),
        )
        for line in state.recent
    )
    table = Table(
        columns=columns,
        rows=rows,
        empty="Nothing was due yet.",
        cut="A schedule keeps its last ten occurrences." if len(rows) >= 10 else "",
    )
    return ConsoleSection(id="history", title="Last occurrences", table=table, live=True)


def _outcome(line: Handled, statuses: Mapping[str, ShownStatus]) -> Cell:
    if line.outcome != "skipped" and line.execution is not None and line.execution in statuses:  # its execution is an earlier one
        return StatusMark(statuses[line.execution].value)
    return StatusMark(_WORDS.get(line.outcome, "waiting"), line.outcome)


def _input(state: ScheduleState) -> ConsoleSection:
    return ConsoleSection(id="input", title="Input", facts=(("JSON", TextCell(state.input, mono=True, wraps=True)),))

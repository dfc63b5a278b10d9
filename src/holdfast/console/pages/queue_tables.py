"""The tables and sections of the pages of queues, as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from holdfast.console.page_request import PageRequest
from holdfast.console.pages.table_pages import part_of_path, runs_of
from holdfast.console.rendering import address
from holdfast.console.run_names import named
from holdfast.console.sources.queues import LanePage, ParkedPage, settings_of
from holdfast.console.tables import (
    MOST_ROWS,
    NOTHING,
    Actions,
    Age,
    Button,
    Cell,
    Chips,
    Column,
    ConsoleField,
    ConsoleForm,
    ConsoleSection,
    LinkCell,
    Number,
    Pile,
    Spark,
    StatusMark,
    Table,
    TextCell,
    Until,
)
from holdfast.model.error_text import brief_class
from holdfast.model.queues import UNLIMITED, Mode, QueueRow
from holdfast.queues.store_queues import QueueView

_SPARK: Final = "Admissions in each ten seconds of the last five minutes, as this console saw them"
_MODES: Final = {Mode.OPEN: "ok", Mode.PAUSED: "stopped", Mode.DRAINING: "retrying"}
_MEANINGS: Final[Mapping[str, str]] = {
    "at_once": "Runs that hold a slot at the same time",
    "rates": "Rates, such as 100/m; several with commas between them",
    "per_tenant.at_once": "Slots of each tenant",
    "per_tenant.rates": "Rates of each tenant",
    "per_key.at_once": "Slots of each key",
    "per_key.rates": "Rates of each key",
    "waiting": "What a run does with its slot while it waits: holds or free",
    "ordered": "Runs of one key go one after the other",
    "most_waiting": "A new run is refused while this many runs wait",
    "most_waiting_usd": "A new run is refused while the waiting runs together may cost this much, in dollars",
    "oldest": "A new run is refused while one run has waited this many seconds",
    "ttl": "A run expires after it has waited this many seconds",
    "parks": "Failed runs are parked",
}


def queues(found: Sequence[QueueView], sparks: Mapping[str, tuple[int, ...]], request: PageRequest) -> Table:
    """The table of queues, at most MOST_ROWS. `sparks` has, by the name of the queue, how many runs were admitted in each span of ten
    seconds. A caller of one tenant gets no columns about admissions and no buttons."""
    whole = request.source.viewer.tenant is None
    columns = [Column("Queue"), Column("Mode"), Column("Waiting", number=True), Column("Oldest"), Column("Held", number=True)]
    columns += [Column("Drains", number=True, title="Admissions in a minute, of late"), Column("Admissions")] if whole else []
    columns += [Column("Parked", number=True), Column("Limits"), Column("")]
    rows = []
    for view in found[:MOST_ROWS]:
        name, here = view.row.name, f"queues/{part_of_path(view.row.name)}"
        state = view.state
        cells: list[Cell] = [
            LinkCell(name, here),
            StatusMark(_MODES[view.row.mode], view.row.mode.value),
            _waiting(view),
            Age(state.oldest_at),
        ]
        cells.append(Number(state.held, of=view.settings.limits.at_once))
        if whole:
            cells += [Number(round(state.per_minute, 1), unit="/min"), Spark(sparks.get(name, ()), _SPARK)]
        cells += [Number(state.parked), _limits(view.row), Actions(_pause_button(view.row.mode, here) if whole else ())]
        rows.append(tuple(cells))
    return Table(
        columns=tuple(columns),
        rows=tuple(rows),
        empty="There are no queues.",
        hint="An engine declares one with queues=[holdfast.Queue(…)], and a run that is enqueued makes one.",
        cut=f"The first {MOST_ROWS} queues: there are more." if len(found) > MOST_ROWS else "",
    )


def _waiting(view: QueueView) -> Cell:
    if not view.state.delayed:
        return Number(view.state.waiting)
    return Pile((Number(view.state.waiting), TextCell(f"+{view.state.delayed:,} delayed", muted=True)))


def _pause_button(mode: Mode, here: str) -> tuple[Button, ...]:
    verb = "pause" if mode is Mode.OPEN else "resume"
    return (Button(label=verb.title(), to=f"{here}/{verb}", needs="operate"),)


def _limits(row: QueueRow) -> Cell:
    """The settings of a queue that code or an operator has set: the first three, and how many more there are. A value of an operator is
    marked."""
    told = [one for one in settings_of(row) if one.setter != "default"]
    if not told:
        return TextCell("none set", muted=True)
    shown = [f"{one.name} {one.counts}{' · operator' if one.setter == 'operator' else ''}" for one in told[:3]]
    return Chips((*shown, *([f"+{len(told) - 3}"] if len(told) > 3 else ())))


def counts(view: QueueView, spark: tuple[int, ...] | None, request: PageRequest) -> ConsoleSection:
    """The section with the counts of one queue: what waits, what holds slots, what is parked, and when the next run is admitted. `spark`
    has the admissions in each span of ten seconds. If `spark` is None, the section says nothing about past admissions."""
    state = view.state
    facts: list[tuple[str, Cell]] = [
        ("Waiting", Number(state.waiting, quiet=False)),
        ("Delayed", Number(state.delayed, quiet=False)),
        ("Oldest", Age(state.oldest_at)),
        ("Slots held", Number(state.held, of=view.settings.limits.at_once, quiet=False)),
    ]
    if spark is not None:
        facts += [
            ("Drains", Number(round(state.per_minute, 1), unit=" a minute", quiet=False)),
            ("Admitted in all", Number(state.admitted, quiet=False)),
        ]
    facts += [("Parked", Number(state.parked, quiet=False)), ("Next admission", TextCell(view.next_admission))]
    if spark is not None:
        facts.append(("Admissions, last five minutes", Spark(spark, _SPARK)))
    facts.append(("Runs", LinkCell("All runs of this queue", runs_of("queue", view.row.name))))
    return ConsoleSection(id="counts", facts=tuple(facts), live=True)


def parked(page: ParkedPage, here: str, count: int) -> ConsoleSection:
    """The section with one page of the parked runs of a queue. `here` is the path of the queue's page. `count` is the number on the button
    that starts all of them again."""
    columns = (Column("Run"), Column("Function"), Column("Parked"), Column("Error"), Column("Message", fill=True), Column(""))
    rows = tuple(
        (
            LinkCell(named(run.header), f"runs/{run.header.id}", mono=True, title=run.header.id),
            TextCell(run.header.function),
            Age(run.header.ended_at),
            TextCell(brief_class(run.error_code), mono=True, title=run.error_code),
            TextCell(run.message, muted=True),
            Actions((Button(label="Redrive", to=f"{here}/redrive", needs="operate", fields={"run": run.header.id}),)),
        )
        for run in page.runs
    )
    table = Table(
        columns=columns,
        rows=rows,
        empty="Nothing is parked.",
        hint="A run that fails waits here for a person, if the queue parks.",
        following=address(here, parked=page.beyond) if page.beyond else "",
    )
    every = Button(label=f"Redrive all {count:,}…", to=f"{here}/redrive", needs="operate", is_link=True)
    return ConsoleSection(id="parked", title="Parked runs, oldest first", table=table, buttons=(every,) if len(rows) > 1 else ())


def settings(row: QueueRow, here: str, said: Mapping[str, str] | None, *, may_set: bool) -> ConsoleSection:
    """The section with the settings of a queue. For each setting: the value that the code gives, the value that the operator set, and the
    value that is in force. `here` is the path of the queue's page. `said` has the values of a form that was refused, to be shown again;
    None if no form was refused. If `may_set` is False, the section has no form."""
    columns = (Column("Setting"), Column("Declared"), Column("Operator says"), Column("Counts"), Column("Set by"))
    rows = []
    for one in settings_of(row):
        value = (one.operator or "") if said is None else said.get(one.name, "")
        field = ConsoleField(name=one.name, label=f"Operator's {one.name}", value=value, placeholder="as the code says", bare=True)
        given: Cell = field if may_set else NOTHING if one.operator is None else TextCell(one.operator, mono=True)
        rows.append(
            (
                Pile((TextCell(one.name, mono=True), TextCell(_MEANINGS.get(one.name, ""), muted=True, wraps=True))),
                NOTHING if one.declared is None else TextCell(one.declared, mono=True),
                given,
                TextCell(one.counts, mono=True),
                StatusMark("person", "operator") if one.setter == "operator" else TextCell(one.setter, muted=True),
            )
        )
    note = "The operator's value wins over the code's. If you empty a field, the code's value is in force again; `none` means no limit."
    form = ConsoleForm(to=f"{here}/settings", submit="Set", needs="operate") if may_set else None
    table = Table(columns=columns, rows=tuple(rows))
    return ConsoleSection(id="settings", title="Limits", note=note if may_set else "", table=table, form=form, wraps=form is not None)


def lanes(page: LanePage, here: str, request: PageRequest) -> ConsoleSection:
    """The section with one page of the lanes of a queue. `here` is the path of the queue's page."""
    columns = (Column("Lane", fill=True), Column("Level"), Column("Waiting", number=True), Column("Held", number=True), Column("Opens"))
    rows = tuple(
        (
            TextCell(lane.key, mono=True, wraps=True),
            TextCell(lane.level, muted=True),
            Number(lane.waiting),
            Number(lane.held, of=None if lane.at_once is None or lane.at_once >= UNLIMITED else lane.at_once),
            Until(lane.closed_until) if lane.closed_until is not None and lane.closed_until > request.now else TextCell("open", muted=True),
        )
        for lane in page.lanes
    )
    table = Table(
        columns=columns,
        rows=rows,
        empty="No run has gone through this queue yet." if request.source.viewer.tenant is None else "No run of your tenant waits here.",
        first=here if request.text("lane") else "",
        following=address(here, lane=page.beyond) if page.beyond else "",
    )
    return ConsoleSection(
        id="lanes",
        title="Lanes",
        note="A queue is divided into lanes by tenant and key. A run waits in the innermost one.",
        table=table,
        live=True,
    )

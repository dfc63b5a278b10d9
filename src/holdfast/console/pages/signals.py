"""Signals: who subscribes, how far each subscriber is, who delivers, and the newest signals."""

from __future__ import annotations

from typing import Final

from holdfast.console.page_request import PageRequest
from holdfast.console.pages.table_pages import TablePages
from holdfast.console.rendering import address
from holdfast.console.run_names import named_by
from holdfast.console.sources.signals import DeadLetter, SignalLine, SignalsView
from holdfast.console.tables import Age, Cell, Column, ConsolePage, ConsoleSection, LinkCell, Number, StatusMark, Table, TextCell
from holdfast.model.errors import HoldfastError, InvalidParameter
from holdfast.model.execution import ExecutionStatus
from holdfast.model.ids import Arn
from holdfast.model.shown_status import ShownStatus
from holdfast.web.policy import Reach
from holdfast.web.replies import Reply
from holdfast.web.routing import Route

_LEAD = (
    "Each change of an execution's status is a signal. The store keeps it until every subscriber has had it. "
    "One runner delivers to each subscriber."
)
_LETTERS = (
    "A sink with `dead_letters` gives up after its tries and writes the event to that file; a sink without it tries until the signal is "
    "taken. These are the newest letters of the sinks of this server. Other runners keep theirs on their own machines."
)
_MARKS: Final = {
    ExecutionStatus.RUNNING: "running",
    ExecutionStatus.FAILED: "failed",
    ExecutionStatus.TIMED_OUT: "failed",
    ExecutionStatus.STOPPED: "stopped",
}
_LARGE: Final = 1000
"""If a runner delivers to a subscriber, but this many signals or more have not been delivered yet, the page marks the subscriber as
behind."""


class SignalsPages(TablePages):
    """The page of signals. It concerns all tenants, so credentials of one tenant are refused."""

    def routes(self) -> list[Route]:
        return [self._site.page("signals", self.list, "ListSignalsPage", reach=Reach.NONE)]

    def list(self, request: PageRequest) -> Reply:
        """The page: the subscribers, the dead letters, and the newest signals. With `?before=`, the signals before that number. Raises
        InvalidParameter if `?before=` is not a number."""
        text = request.text("before")
        if text and (not text.isascii() or not text.isdecimal() or len(text) > 18):
            raise InvalidParameter(f"before: {text!r:.50} is not the number of a signal. Write at most 18 digits.")
        view = request.source.signals.page(int(text) if text else None)
        page = ConsolePage(
            title="Signals",
            path=address("signals", before=text),
            lead=_LEAD,
            sections=(_subscribers(view), _letters(view), _signals(view, first=bool(text))),
        )
        return self._tables(request, page)


def _subscribers(view: SignalsView) -> ConsoleSection:
    columns = (
        Column("Subscriber"),
        Column("State"),
        Column("Delivered", number=True),
        Column("Newest", number=True),
        Column("Backlog", number=True),
        Column("Delivered by"),
    )
    rows: list[tuple[Cell, ...]] = []
    for one in view.subscribers:
        backlog = max(0, one.newest - one.delivered)
        state = (
            StatusMark("ok", "up to date")
            if not backlog
            else StatusMark("retrying" if backlog >= _LARGE else "running", "behind" if backlog >= _LARGE else "delivering")
        )
        if one.runner is None:
            state = StatusMark("failed" if backlog else "waiting", "no runner delivers")
        by: Cell = TextCell("no runner", muted=True) if one.runner is None else LinkCell(one.runner, "runners", mono=True)
        rows.append((TextCell(one.name), state, Number(one.delivered), Number(one.newest), Number(backlog), by))
    table = Table(
        columns=columns,
        rows=tuple(rows),
        empty="There are no subscribers, so the store writes no signals.",
        hint="Give holdfast.open subscribers={…}, or `holdfast serve` a file of sinks.",
    )
    return ConsoleSection(id="subscribers", title="Subscribers", table=table, live=True)


def _letters(view: SignalsView) -> ConsoleSection:
    columns = (
        Column("Sink"),
        Column("Signal", number=True),
        Column("Run"),
        Column("Tries", number=True),
        Column("Given up"),
        Column("Error", fill=True),
    )
    rows = tuple(map(_letter_row, view.letters))
    table = Table(columns=columns, rows=rows, empty="There are no dead letters here.")
    return ConsoleSection(id="letters", title="Dead letters", note=_LETTERS, table=table)


def _letter_row(one: DeadLetter) -> tuple[Cell, ...]:
    return (TextCell(one.sink), Number(one.number), _named(one.name, one.arn), Number(one.tries), Age(one.at), TextCell(one.error))


def _signals(view: SignalsView, *, first: bool) -> ConsoleSection:
    columns = (Column("Number", number=True), Column("Status"), Column("Run"), Column("Function"), Column("When"), Column("Why", fill=True))
    table = Table(
        columns=columns,
        rows=tuple(map(_row, view.signals)),
        empty="The store keeps no signals now.",
        hint="The store removes a signal when every subscriber has had it.",
        first="signals" if first else "",
        following=address("signals", before=view.before) if view.before else "",
        following_label="Older",
    )
    return ConsoleSection(id="signals", title="Newest signals", table=table, live=not first)


def _row(line: SignalLine) -> tuple[Cell, ...]:
    signal = line.signal
    aside = signal.quarantine is not None
    at = signal.quarantined_at if aside else signal.ended_at or signal.started_at
    return (
        Number(signal.number),
        StatusMark("quarantined") if aside else _mark(line),
        _named(signal.name, signal.arn),
        TextCell(signal.function),
        Age(at),
        TextCell(line.error_code if signal.quarantine is None else signal.quarantine.value.replace("_", " "), muted=True),
    )


def _mark(line: SignalLine) -> StatusMark:
    """The status in a signal. If the execution succeeded, the status of its run as the list of runs shows it; without a colour if the store
    has removed the execution."""
    told = line.signal.status.value.lower().replace("_", " ")
    if line.signal.status is not ExecutionStatus.SUCCEEDED:
        return StatusMark(_MARKS[line.signal.status], told)
    if line.ended is None:
        return StatusMark("waiting", told, title="The store has removed this execution, so how its run ended is not known here.")
    return StatusMark(line.ended.value, title="" if line.ended is ShownStatus.OK else "The execution succeeded, its run did not.")


def _named(name: str, arn: str) -> Cell:
    try:
        identity = Arn.parse(arn).id
        return LinkCell(named_by(name, identity), f"runs/{identity}", mono=True, title=identity)
    except HoldfastError:
        return TextCell(name, mono=True)

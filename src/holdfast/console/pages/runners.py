"""The page of runners: which runners are alive, how many executions each holds, and which functions, workers and pipelines were
published."""

from __future__ import annotations

from holdfast.console.page_request import PageRequest
from holdfast.console.pages.table_pages import TablePages, part_of_path, runs_of
from holdfast.console.sources.runners import RunnersView
from holdfast.console.tables import (
    MOST_ROWS,
    NOTHING,
    Cell,
    Column,
    ConsolePage,
    ConsoleSection,
    LinkCell,
    Number,
    StatusMark,
    Table,
    TextCell,
    Until,
)
from holdfast.model.operations import Kind
from holdfast.web.policy import Reach
from holdfast.web.replies import Reply
from holdfast.web.routing import Route

_LEAD = (
    "A runner takes executions and runs them. It renews its lease while it lives; when the lease is over, other runners take what it held."
)


class RunnersPages(TablePages):
    """The page of runners. It concerns all tenants, so credentials of one tenant are refused."""

    def routes(self) -> list[Route]:
        return [self._site.page("runners", self.list, "ListRunnersPage", reach=Reach.NONE)]

    def list(self, request: PageRequest) -> Reply:
        """The page with the registered runners, and with the functions, workers and pipelines that runners have published."""
        view = request.source.runners.all()
        sections = (_runners(view, request.now), _hosted(view))
        return self._tables(request, ConsolePage(title="Runners", path="runners", lead=_LEAD, sections=sections))


def _runners(view: RunnersView, now: int) -> ConsoleSection:
    columns = (Column("Runner"), Column("State"), Column("Lease ends"), Column("Holds", number=True), Column("Code", number=True))
    rows = tuple(
        (
            TextCell(one.id, mono=True),
            StatusMark("ok", "alive")
            if one.lease_until > now
            else StatusMark("failed", "late", "Its lease is over: others may take what it holds."),
            Until(one.lease_until),
            Number(one.holds),
            _code(one.code, view.newest_code),
        )
        for one in view.runners[:MOST_ROWS]
    )
    table = Table(
        columns=columns,
        rows=rows,
        empty="No runner has a lease.",
        hint="`holdfast serve`, `holdfast runner` and programs with holdfast.open(…) are runners.",
        cut=f"The first {MOST_ROWS} of {len(view.runners):,} runners." if len(view.runners) > MOST_ROWS else "",
    )
    return ConsoleSection(id="runners", table=table, live=True)


def _code(code: int | None, newest: int | None) -> Cell:
    if code is None:
        return NOTHING
    old = newest is not None and code < newest
    return TextCell(f"schema {code}", muted=not old, title="Another runner runs newer code." if old else "The schema number of its code")


def _hosted(view: RunnersView) -> ConsoleSection:
    columns = (Column("Name"), Column("Kind"), Column("Version"), Column("Runs"))
    rows = tuple(
        (
            LinkCell(one.function, f"workers/{part_of_path(one.function)}") if one.kind is not Kind.FUNCTION else TextCell(one.function),
            TextCell(one.kind.value, muted=True),
            TextCell(one.version, mono=True, muted=True),
            LinkCell("Runs", runs_of("function", one.function)),
        )
        for one in view.hosted[:MOST_ROWS]
    )
    table = Table(
        columns=columns,
        rows=rows,
        empty="No runner has published a function.",
        cut=f"The first {MOST_ROWS} of {len(view.hosted):,}." if len(view.hosted) > MOST_ROWS else "",
    )
    note = "What runners have published in this store. The store does not keep which runner published what, nor whether one still hosts it."
    return ConsoleSection(id="hosted", title="Functions, workers and pipelines", note=note, table=table)

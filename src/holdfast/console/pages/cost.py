"""Cost: what runs have spent on models, summed by pipeline, node, model, tenant, worker or day; also as a file for spreadsheets."""

from __future__ import annotations

from typing import Final

from holdfast.console.page_request import PageRequest
from holdfast.console.pages.table_pages import TablePages, csv_reply, runs_of
from holdfast.console.rendering import address, usd
from holdfast.console.sources.cost import DIMENSIONS
from holdfast.console.tables import (
    MOST_ROWS,
    NOTHING,
    Bar,
    Cell,
    Column,
    ConsoleField,
    ConsoleForm,
    ConsolePage,
    ConsoleSection,
    LinkCell,
    Money,
    Number,
    Table,
    TextCell,
)
from holdfast.costs.reports import CostLine, CostQuestion, CostReport, csv_rows
from holdfast.model.errors import InvalidParameter
from holdfast.model.ledger import Dimension
from holdfast.web.replies import Reply
from holdfast.web.routing import Route

_LEAD = (
    "What calls of models have cost, by the ledger. Settled: the model's server said what was used. Unknown: the answer was lost, so an "
    "estimate counts. Reserved: the call is not over yet."
)
_USUAL: Final = "30d"
_FILTERS: Final = (("pipeline", "Pipeline"), ("worker", "Worker"), ("tenant", "Tenant"))
_QUALIFIERS: Final = {Dimension.PIPELINE: "pipeline", Dimension.WORKER: "worker", Dimension.TENANT: "tenant"}


class CostPages(TablePages):
    """The page of costs. A caller of one tenant sees only the costs of that tenant."""

    def routes(self) -> list[Route]:
        site = self._site
        return [site.page("cost", self.table, "ShowCostPage"), site.page("cost.csv", self.file, "DownloadCost")]

    def table(self, request: PageRequest) -> Reply:
        """The page with the sums. If a time or a filter is wrong, the page has no sums, and says what is wrong. Raises InvalidParameter if
        `?by=` is not one of DIMENSIONS."""
        by = self._by(request)
        problem, report = "", None
        try:
            report = request.source.cost.report(_question(request, by))
        except InvalidParameter as wrong:
            problem = str(wrong)
        given = _given(request)
        page = ConsolePage(
            title="Cost",
            path=address("cost", by=by.value, **given),
            lead=_LEAD,
            tabs=tuple((f"By {one.value}", address("cost", by=one.value, **given), one is by) for one in self._tabs(request)),
            filters=self._filters(request, by),
            csv=address("cost.csv", by=by.value, **given),
            problem=problem,
            sections=() if report is None else (ConsoleSection(id="sums", table=_sums(report, by), live=True),),
        )
        return self._tables(request, page)

    def file(self, request: PageRequest) -> Reply:
        """The sums as CSV: at most 10,000 groups. Raises InvalidParameter if `?by=`, a time or a filter is wrong."""
        by = self._by(request)
        columns, *rows = csv_rows(request.source.cost.report(_question(request, by)))
        return csv_reply(f"cost-by-{by.value}", columns, rows)

    @staticmethod
    def _tabs(request: PageRequest) -> tuple[Dimension, ...]:
        return DIMENSIONS if request.source.viewer.tenant is None else tuple(one for one in DIMENSIONS if one is not Dimension.TENANT)

    @staticmethod
    def _by(request: PageRequest) -> Dimension:
        wanted = request.text("by") or Dimension.PIPELINE.value
        found = next((one for one in DIMENSIONS if one.value == wanted), None)
        if found is None:
            raise InvalidParameter(f"Costs are summed by {', '.join(DIMENSIONS)}, not by {wanted!r:.50}.")
        return found

    @staticmethod
    def _filters(request: PageRequest, by: Dimension) -> ConsoleForm:
        given = _given(request)
        times = (
            ConsoleField(name="since", label="Since", value=given["since"], placeholder="30d or 2026-01-31"),
            ConsoleField(name="until", label="Until", value=given["until"], placeholder="today"),
        )
        texts = [(name, label) for name, label in _FILTERS if name != "tenant" or request.source.viewer.tenant is None]
        fields = tuple(ConsoleField(name=name, label=label, value=given[name]) for name, label in texts)
        hidden = ConsoleField(name="by", label="", value=by.value, type="hidden")
        return ConsoleForm(to="cost", fields=(hidden, *times, *fields), submit="Show", get=True, back=address("cost", by=by.value))


def _given(request: PageRequest) -> dict[str, str]:
    names = ("since", "until", *(name for name, _ in _FILTERS))
    return {name: request.text(name).strip() for name in names} | {"since": request.text("since").strip() or _USUAL}


def _question(request: PageRequest, by: Dimension) -> CostQuestion:
    given = {name: value or None for name, value in _given(request).items()}
    return CostQuestion(by=by.value, **given)


def _sums(report: CostReport, by: Dimension) -> Table:
    columns = (
        Column(by.value.capitalize()),
        Column("Calls", number=True),
        Column("Tokens in", number=True),
        Column("Tokens out", number=True),
        Column("Settled", number=True),
        Column("Unknown", number=True, title="Calls whose answer was lost"),
        Column("Reserved", number=True, title="Calls that have not ended"),
        Column("Spent", number=True, title="Settled and unknown"),
        Column(""),
    )
    longest = max((line.nanos for line in report.lines), default=0)
    cut = ""
    if len(report.lines) > MOST_ROWS or report.truncated:
        cut = f"The first {min(len(report.lines), MOST_ROWS)} groups. The totals are of all; the CSV has up to 10,000."
    return Table(
        columns=columns,
        rows=tuple((_name(line, by), *_amounts(line), _bar(line, longest)) for line in report.lines[:MOST_ROWS]),
        total=(TextCell("All"), *_amounts(report.total), TextCell("")) if report.lines else (),
        empty="Nothing was spent in this time.",
        hint="Calls of models that workers and pipelines make appear here.",
        cut=cut,
    )


def _name(line: CostLine, by: Dimension) -> Cell:
    value = line.group[0] if line.group else ""
    if not value:
        return TextCell({Dimension.PIPELINE: "no pipeline", Dimension.NODE: "no node"}.get(by, "—"), muted=True)
    key = _QUALIFIERS.get(by)
    return TextCell(value) if key is None else LinkCell(value, runs_of(key, value))


def _amounts(line: CostLine) -> tuple[Cell, ...]:
    return (
        Number(line.calls),
        Number(line.input_tokens),
        Number(line.output_tokens),
        Money(line.settled.nanos),
        Money(line.unknown.nanos),
        Money(line.open.nanos),
        Money(line.nanos),
    )


def _bar(line: CostLine, longest: int) -> Cell:
    if longest <= 0:
        return NOTHING
    title = f"{usd(line.settled.nanos)} settled, {usd(line.unknown.nanos)} unknown"
    return Bar(max(0, line.settled.nanos) / longest, max(0, line.unknown.nanos) / longest, title)

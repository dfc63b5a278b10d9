"""The catalog: every worker, pipeline and function of the store, what this server knows of each, and how its runs ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from holdfast.console.query import Query
from holdfast.console.server_process import ServerProcess
from holdfast.console.sources.figures import MOST_ROWS, Figures, figures_by_function, figures_of
from holdfast.console.sources.gate_verdicts import GateVerdicts, few_enough, gate_verdicts
from holdfast.console.sources.runs import RunRow, RunsSource
from holdfast.console.sources.viewer import READ_SECONDS, CallerSource
from holdfast.contract.terms import Contract
from holdfast.model.errors import FunctionNotFound, HoldfastError
from holdfast.model.execution import Execution, Terms
from holdfast.model.ledger import DAY_MS
from holdfast.model.operations import Kind
from holdfast.pipelines.draw.svg import draw_svg
from holdfast.pipelines.draw.text import draw_text
from holdfast.pipelines.graph.contract import contract_in
from holdfast.pipelines.graph.graph import GateNode, Graph
from holdfast.pipelines.graph.graph_json import graph_from
from holdfast.pipelines.graph.refusals import PipelineInvalid
from holdfast.pipelines.page.writer import page_of
from holdfast.store.browse import Browse, Browsed, BrowsedRow

PAGE: Final = 50
_RECENT: Final = 20
_NEWEST: Final = 100
"""To find the graph of a pipeline that this server does not serve, at most this many of its newest runs are looked at."""
_JUDGED: Final = 200
"""The page reads the verdicts of gates in at most this many runs."""


class CatalogEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One worker, pipeline or function of the list."""

    name: str
    kind: Kind
    versions: tuple[str, ...]
    purpose: str = ""
    served: bool = False
    """Whether this server serves it; False for every function."""
    figures: Figures | None = None
    """The figures of its runs that began in the last 24 hours; None if they could not be read."""


class CatalogPage(msgspec.Struct, frozen=True, kw_only=True):
    """One page of the list."""

    entries: tuple[CatalogEntry, ...]
    counts: dict[str, int]
    """How many workers, pipelines and functions match the text, by kind."""
    number: int = 1
    more: bool = False
    bounded: bool = False
    """Whether more runs may have begun in the last 24 hours than the figures count."""


class CatalogDetails(msgspec.Struct, frozen=True, kw_only=True):
    """One worker, pipeline or function, with everything that its page shows."""

    name: str
    kind: Kind
    versions: tuple[str, ...]
    served: bool
    contract: Contract | None = None
    contracts: tuple[Contract, ...] = ()
    """The contract of each version that this server serves; empty if it serves none, and for a function."""
    graph: Graph | None = None
    terms: dict[str, Terms] = {}
    """The terms of each version that a runner has published."""
    isolation: str | None = None
    policy: tuple[str, ...] = ()
    """What the operator adds to the contract, in sentences."""

    @property
    def has_gates(self) -> bool:
        """Whether the subject is a pipeline whose graph has gates."""
        return self.graph is not None and any(isinstance(node, GateNode) for node in self.graph.nodes)


class Recent(msgspec.Struct, frozen=True, kw_only=True):
    """The newest runs of one worker, pipeline or function, and the figures of its runs that began in the last 24 hours."""

    rows: tuple[RunRow, ...]
    figures: Figures | None
    """The figures of the runs that began in the last 24 hours; None if these runs could not be read."""
    bounded: bool = False
    """Whether more runs may have begun in the last 24 hours than the figures count."""


class CatalogSource(CallerSource):
    """Reads the catalog for one caller. Functions are shared by all tenants; their runs are not."""

    def page(self, kind: Kind | None, text: str, number: int) -> CatalogPage:
        """A page of the list, in the order of names: the workers, pipelines and functions whose names contain `text`. Upper and lower case
        are the same. With `kind`, only those of this kind. `number` is the number of the page; the first is 1."""
        found = [entry for entry in self._entries() if text.lower() in entry.name.lower()]
        counts = {one.value: sum(entry.kind is one for entry in found) for one in (Kind.WORKER, Kind.PIPELINE, Kind.FUNCTION)}
        chosen = [entry for entry in found if kind in (None, entry.kind)]
        shown = chosen[(number - 1) * PAGE : number * PAGE]
        looked = self._day([entry.name for entry in shown])
        told = {} if looked is None else figures_by_function(_whole(looked))
        entries = tuple(
            msgspec.structs.replace(entry, figures=None if looked is None else told.get(entry.name, Figures())) for entry in shown
        )
        bounded = looked is not None and _is_bounded(looked)
        return CatalogPage(entries=entries, counts=counts, number=number, more=len(chosen) > number * PAGE, bounded=bounded)

    def find(self, name: str) -> CatalogDetails:
        """One worker, pipeline or function by its name. Raises FunctionNotFound if neither the store nor this server has it."""
        hosted = list(self._viewer.store.hosted(name))
        served = self._viewer.served
        contracts = () if served is None else tuple(served.contracts(name))
        if not hosted and not contracts:
            raise FunctionNotFound(f"There is no worker, pipeline or function {name!r:.100} in this store.")
        graph = (None if served is None else served.graph(name)) or self._graph(name, hosted[0].kind if hosted else Kind.WORKER)
        kind = Kind.PIPELINE if graph is not None else hosted[0].kind if hosted else Kind.WORKER
        contract = contracts[-1] if contracts else None if graph is None else _contract(graph)
        versions = tuple(one.version for one in contracts) or tuple(one.version for one in hosted)
        return CatalogDetails(
            name=name,
            kind=kind,
            versions=versions,
            served=bool(contracts) or (served is not None and served.function(name) is not None),
            contract=contract,
            contracts=contracts,
            graph=graph,
            terms={one.version: one.terms for one in hosted},
            isolation=_isolation(served, kind),
            policy=_policy(served, contract),
        )

    def recent(self, name: str) -> Recent:
        """The newest runs of a worker, pipeline or function, and the figures of its runs that began in the last 24 hours. Shards are left
        out."""
        found = RunsSource(self._viewer).page(Query(values=(("worker", name),)), limit=3 * _RECENT).rows
        rows = tuple(row for row in found if not is_shard(row.kind, row.header))[:_RECENT]
        day = self._day([name])
        if day is None:
            return Recent(rows=rows, figures=None)
        return Recent(rows=rows, figures=figures_of(_whole(day)), bounded=_is_bounded(day))

    def gates(self, subject: CatalogDetails) -> tuple[Sequence[GateVerdicts], int]:
        """Returns the verdicts of a pipeline's gates in its newest runs, with what people decided after each verdict; and how many runs
        were read. Very large runs are not read."""
        if subject.graph is None:
            return (), 0
        wanted = Browse(functions=(subject.name,), tenant=self._viewer.tenant, limit=_JUDGED)
        runs = few_enough(row.header for row in _whole(self._viewer.store.browse(wanted, READ_SECONDS)))
        return gate_verdicts(self._viewer.store, subject.graph, runs), len(runs)

    @staticmethod
    def drawing(graph: Graph) -> str:
        """The drawing of a graph, as SVG without styles. The style sheet of the console has the styles."""
        return draw_svg(graph, style=False)

    @staticmethod
    def text(graph: Graph) -> str:
        """The graph as a pipeline.md. If a pipeline.md cannot express the graph, a drawing of it as text."""
        try:
            return page_of(graph)
        except PipelineInvalid:
            return draw_text(graph)

    def _entries(self) -> list[CatalogEntry]:
        served = self._viewer.served
        found: dict[str, CatalogEntry] = {}
        for one in self._viewer.store.all_hosted():
            before = found.get(one.function)
            versions = (*(before.versions if before else ()), one.version)
            found[one.function] = CatalogEntry(name=one.function, kind=one.kind, versions=versions)
        for name in () if served is None else served.names():
            contracts, graph = served.contracts(name) if served is not None else (), None if served is None else served.graph(name)
            if contracts:
                kind, versions = Kind.WORKER if graph is None else Kind.PIPELINE, tuple(one.version for one in contracts)
                found[name] = CatalogEntry(name=name, kind=kind, versions=versions, purpose=contracts[-1].purpose, served=True)
        return [found[name] for name in sorted(found)]

    def _day(self, names: Sequence[str]) -> Browsed | None:
        """The runs of these functions that began in the last 24 hours, newest first. If there are more than MOST_ROWS, the older ones are
        left out. None if the runs cannot be read."""
        if not names:
            return Browsed((), False, None)
        since = self._viewer.now - DAY_MS
        asked = Browse(functions=tuple(names), tenant=self._viewer.tenant, since=since, limit=MOST_ROWS)
        try:
            return self._viewer.store.browse(asked, READ_SECONDS)
        except HoldfastError:
            return None

    def _graph(self, name: str, kind: Kind) -> Graph | None:
        """The graph of the newest run of a pipeline that this server does not serve. Only the newest _NEWEST runs that the caller may see
        are looked at, and shards are skipped. None if no such run has a graph, or if `kind` is not PIPELINE."""
        if kind is not Kind.PIPELINE:
            return None
        for row in self._viewer.store.browse(Browse(functions=(name,), tenant=self._viewer.tenant, limit=_NEWEST), READ_SECONDS).rows:
            text = None if row.header.graph is None else self._viewer.store.graph(row.header.graph)
            if text is not None:
                return graph_from(text)
        return None


def is_shard(kind: Kind, header: Execution) -> bool:
    """Whether an execution is a shard: it does a part of a pipeline's run, namely some items of a map."""
    return kind is Kind.PIPELINE and header.parent is not None and header.graph is None


def _is_bounded(found: Browsed) -> bool:
    """Whether there may be more runs than the search has found."""
    return found.more or found.searched_to is not None


def _whole(found: Browsed) -> list[BrowsedRow]:
    return [row for row in found.rows if not is_shard(row.kind, row.header)]


def _contract(graph: Graph) -> Contract | None:
    try:
        return contract_in(graph)
    except PipelineInvalid:
        return None


def _isolation(served: ServerProcess | None, kind: Kind) -> str | None:
    if served is None or served.workers is None or kind is not Kind.WORKER:
        return None
    return {
        "all": "sandbox: own process, no network, no files",
        "process": "own process, without a sandbox",
        "inline": "none: it runs in the server's process",
    }[served.workers.policy.isolation]


def _policy(served: ServerProcess | None, contract: Contract | None) -> tuple[str, ...]:
    """What the operator of this server adds to a contract, one sentence for each rule. Empty if the contract or the server is not known."""
    if served is None or served.workers is None or contract is None:
        return ()
    policy, told = served.workers.policy, []
    if asked := sorted(policy.approvals & {tool.name for tool in contract.tools}):
        told.append(f"A person approves each call of {', '.join(asked)}.")
    if (rate := policy.rate_limits.get(contract.worker_id)) is not None:
        told.append(f"At most {rate.count} runs in {rate.per_seconds:g} s for each {rate.per}.")
    for code, retried in policy.retry_codes.get(contract.worker_id, {}).items():
        told.append(f"{code} is {'retried' if retried else 'not retried'}.")
    if policy.estimate != "none":
        told.append(f"A run is refused before it starts if its {policy.estimate} estimate is above the cap.")
    return tuple(told)

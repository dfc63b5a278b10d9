"""The list of runs and executions: a page of rows, counts by facet, and completions."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from holdfast.console.query import FACETS, Query
from holdfast.console.run_names import is_unnamed
from holdfast.console.sources.viewer import READ_SECONDS, CallerSource
from holdfast.descriptions.why import MOST_OPERATIONS, Why, why
from holdfast.model.console_state import SavedView
from holdfast.model.errors import HoldfastError
from holdfast.model.execution import Execution, ExecutionStatus, State
from holdfast.model.operations import Kind
from holdfast.model.shown_status import ShownStatus
from holdfast.store.browse import MAX_SCAN, Browse, BrowsedRow, Completed, Facet
from holdfast.workers.run_lookup import accepted_in

PAGE = 50
MOST_LOOKED = 10_000
"""At most this many operations are read to explain why the runs of one page wait. The bound is needed because an author's run may have any
number of operations."""
MOST_VALUES = 12
"""The page shows at most this many values of a facet, the most frequent first. Values that the question gives are shown in any case."""


_MOST_STORED = 64 * 1024
"""If a run has stored more characters than this, a list does not read its input to show its key."""


_FIXED: Mapping[str, Sequence[str]] = {"since": ("1h", "24h", "7d", "30d"), "until": ("1h", "24h", "7d", "30d"), "is": ("any",)}
"""The completions of qualifiers whose values are not read from the store."""


class RunRow(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the list."""

    header: Execution
    status: ShownStatus
    kind: Kind
    why: Why
    attempt: int | None = None
    attempts: int | None = None
    cost: int | None = None
    """What the run has cost, in billionths of a dollar; None if that is not known, for example because the run has not ended."""
    key: str | None = None
    """The idempotency key of the run. None if it has none, and if its input is too long to be read for a list."""

    @property
    def id(self) -> str:
        return self.header.id

    @property
    def is_open(self) -> bool:
        """Whether the execution has not ended."""
        return self.header.status is ExecutionStatus.RUNNING


class RunPage(msgspec.Struct, frozen=True, kw_only=True):
    """One page of the list, newest first."""

    rows: tuple[RunRow, ...]
    beyond: str | None = None
    """The id of the last row of this page, after which the next page begins. None if the search found no more rows."""
    searched_to: str | None = None
    """The id of the execution at which the search stopped although the page was not full: one search looks at a bounded number of
    executions. None if the search did not stop early."""


class FacetValue(msgspec.Struct, frozen=True):
    """A value of a facet, how many executions have it, and whether the question gives it."""

    value: str
    count: int
    chosen: bool


class FacetCounts(msgspec.Struct, frozen=True, kw_only=True):
    """The counts at the left of the list."""

    facets: dict[str, tuple[FacetValue, ...]]
    counted: int
    bounded: bool
    """Whether more executions may match than were counted."""


class RunsSource(CallerSource):
    """Reads the list for one caller."""

    def page(self, query: Query, beyond: str | None = None, limit: int = PAGE) -> RunPage:
        """One page of at most `limit` executions that match, newest first. It begins after the execution with the id `beyond`; if that is
        None, with the newest."""
        found = self._viewer.store.browse(self._asked(query, beyond=beyond, limit=limit), READ_SECONDS)
        following = found.rows[-1].header.id if found.more and found.rows else None
        return RunPage(rows=tuple(self._rows(found.rows)), beyond=following, searched_to=found.searched_to)

    def facets(self, query: Query) -> FacetCounts:
        """The counts of each facet. If the question gives a value of a facet, the values of that facet are counted as if it gave none, so
        that a person sees what adding another value would bring. All counts together look at no more executions than one search may."""
        store, counted = self._viewer.store, 1 + sum(bool(query.of(key)) for key in FACETS)
        scan, seconds = MAX_SCAN // counted, READ_SECONDS / counted
        whole = store.facets(self._asked(query, scan=scan), seconds)
        shown: dict[str, tuple[FacetValue, ...]] = {}
        for key, field in FACETS.items():
            chosen = query.of(key)
            counts: Mapping[str, int] = whole.counts.get(Facet(field), {})
            if chosen:
                asked = self._asked(query.without(key), scan=scan)
                counts = store.facets(asked, seconds).counts.get(Facet(field), {})
            values = [FacetValue(value, count, value in chosen) for value, count in list(counts.items())[:MOST_VALUES]]
            values += [FacetValue(value, counts.get(value, 0), True) for value in chosen if value not in {one.value for one in values}]
            shown[key] = tuple(values)
        return FacetCounts(facets=shown, counted=whole.counted, bounded=whole.bounded)

    def complete(self, key: str, prefix: str) -> Sequence[str]:
        """Some values of a qualifier that begin with `prefix`, for completion. Empty for an unknown qualifier."""
        if key == "status":
            return [one.value for one in ShownStatus if one.value.startswith(prefix)]
        if key in _FIXED:
            return [one for one in _FIXED[key] if one.startswith(prefix)]
        if key == "version":  # no index has the versions, so only those of the newest executions are found
            counted = self._viewer.store.facets(Browse(tenant=self._viewer.tenant), READ_SECONDS).counts
            return [one for one in counted.get(Facet.VERSION, {}) if one.startswith(prefix)][:MOST_VALUES]
        field = {"worker": "function"}.get(key, FACETS.get(key, key))
        if field not in set(Completed):
            return []
        return self._viewer.store.values(Completed(field), prefix, 10, self._viewer.tenant)

    def views(self) -> Sequence[SavedView]:
        return self._viewer.store.views(self._viewer.owner)

    def save_view(self, name: str, query: Query) -> None:
        """Save a question under a name, for this caller. If the caller has a view of this name already, it is replaced. Raises TooManyViews
        if the caller has too many views."""
        view = SavedView(owner=self._viewer.owner, name=name, query=str(query), made_at=self._viewer.now)
        self._viewer.store.put_view(view)

    def remove_view(self, name: str) -> None:
        """Remove a saved view of this caller."""
        self._viewer.store.remove_view(self._viewer.owner, name)

    def _asked(self, query: Query, *, beyond: str | None = None, limit: int = PAGE, scan: int = MAX_SCAN) -> Browse:
        asked = query.browse(self._viewer.now)
        return msgspec.structs.replace(asked, tenant=self._viewer.tenant, beyond=beyond, limit=limit, scan=scan)

    def _rows(self, found: Sequence[BrowsedRow]) -> Iterator[RunRow]:
        left = MOST_LOOKED
        for one in found:
            yield self._row(one, min(left, MOST_OPERATIONS))
            left -= one.header.operations if one.header.operations <= left and one.header.state is State.SUSPENDED else 0

    def _row(self, found: BrowsedRow, most: int) -> RunRow:
        header, summary = found.header, found.header.summary
        told = why(self._viewer.store, header, most)
        row = RunRow(header=header, status=found.status, kind=found.kind, why=told, key=self._key(header))
        if summary is None:
            return row
        attempts = None if found.kind is Kind.PIPELINE else summary.attempts  # no run of a pipeline is tried again as a whole
        return msgspec.structs.replace(row, attempt=summary.attempt, attempts=attempts, cost=summary.cost)

    def _key(self, header: Execution) -> str | None:
        if header.name == header.id or not is_unnamed(header) or header.stored > _MOST_STORED:
            return None  # only the name of a run with a key is made from the key
        with contextlib.suppress(HoldfastError):
            accepted = accepted_in(self._viewer.store, header)
            return None if accepted is None else accepted.request.idempotency_key
        return None

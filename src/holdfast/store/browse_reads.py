"""Reads for people who look at a store. Both backends have the same named statements (browse.sql). Only `browse` and `facets` have a
deadline."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Final

from holdfast.model.credentials import DEFAULT_TENANT
from holdfast.model.execution import Terms
from holdfast.model.operations import Kind, Operation
from holdfast.model.shown_status import ShownStatus
from holdfast.store import rows
from holdfast.store.browse import (
    MAX_ATTEMPT_EVENTS,
    MAX_COUNTED,
    MAX_HOSTED,
    Browse,
    Browsed,
    BrowsedRow,
    Completed,
    Facet,
    Facets,
    RunnerStatus,
    SubscriberPosition,
)
from holdfast.store.browse_query import LAST, BrowseQuery, asked_text, end_of
from holdfast.store.browse_walk import Ask, BrowseWalk
from holdfast.store.damaged_rows import readable_execution
from holdfast.store.reads import Reads
from holdfast.store.values import HistoryEntry, Hosted

_NEWEST: Final = 10_000
"""If the caller may see only one tenant, `values` reads at most this many of the newest executions."""


class BrowseReads(Reads):
    """The part of a store with the reads for people."""

    _browse_query: BrowseQuery

    @abstractmethod
    def _search_connection(self, seconds: float) -> AbstractContextManager[Ask]:
        """A context in which statements run on a separate connection (a store in memory has only one). A statement raises ReadTooLong when
        `seconds` are over."""

    def browse(self, wanted: Browse, seconds: float) -> Browsed:
        limit = max(wanted.limit, 0)
        with self._search_connection(seconds) as ask:
            walk = BrowseWalk(ask, self._browse_query, wanted)
            found, searched_to = walk.matches("browse_rows", _browsed, limit + 1, first=8 * limit)
        more = len(found) > limit
        return Browsed(tuple(found[:limit]), more, None if more else searched_to)

    def facets(self, wanted: Browse, seconds: float, most: int = MAX_COUNTED) -> Facets:
        with self._search_connection(seconds) as ask:
            walk = BrowseWalk(ask, self._browse_query, wanted)
            found, searched_to = walk.matches("browse_facets", tuple, most + 1, first=most + 1)
        counted = found[:most]
        return Facets(_counts(counted), len(counted), len(found) > most or searched_to is not None)

    def outline(self, execution: str, newer_than: int = 0) -> Sequence[Operation]:
        return self._operations(self._read("outline", (self._text(execution), newer_than)), execution)

    def attempts(self, execution: str, place: int) -> Sequence[HistoryEntry]:
        asked = {"id": self._text(execution), "place": place, "limit": MAX_ATTEMPT_EVENTS}
        found = self._read("attempts", asked)
        operations = self._operations(self._read("operations_at", (self._text(execution), self._array([place]))), execution)
        return [self._line(row, {operation.place: operation for operation in operations}, execution) for row in found]

    def runners(self) -> Sequence[RunnerStatus]:
        return [RunnerStatus(*row) for row in self._read("runner_statuses")]

    def all_hosted(self) -> Sequence[Hosted]:
        found = self._read("all_hosted", (MAX_HOSTED,))
        return [Hosted(row[0], row[1], Terms(*row[2:6]), Kind(row[6])) for row in found]

    def subscribers(self) -> Sequence[SubscriberPosition]:
        return [SubscriberPosition(*row) for row in self._read("subscriber_positions")]

    def values(self, field: Completed, prefix: str, limit: int, tenant: str | None = None) -> Sequence[str]:
        prefix = asked_text(prefix)
        asked: dict[str, Any] = {"prefix": prefix, "end": end_of(prefix), "limit": max(limit, 0)}
        if tenant is None:
            return [row[0] for row in self._read(f"values_{field.value}", asked)]
        if field is Completed.TENANT:
            return [tenant] if tenant.startswith(prefix) and limit > 0 else []
        name = "default" if tenant == DEFAULT_TENANT else "tenant"
        asked |= {"upper": LAST, "newest": _NEWEST} | ({} if name == "default" else {"tenant": asked_text(tenant)})
        return [row[0] for row in self._read(f"values_{name}_{field.value}", asked)]


def _browsed(row: rows.Row) -> BrowsedRow | None:
    header = readable_execution(row[1:-2])
    return None if header is None else BrowsedRow(header, ShownStatus(row[-2]), Kind(row[-1]))


_COLUMNS: Final = {Facet.STATUS: 1, Facet.VERSION: 4, Facet.PIPELINE: 5, Facet.QUEUE: 6, Facet.TENANT: 7, Facet.ERROR_CODE: 8}


def _counts(found: Sequence[rows.Row]) -> dict[Facet, dict[str, int]]:
    """The counts by field. A row of `found` has id, status, kind, function, version, pipeline, queue, tenant and error code."""
    counters = {facet: Counter(row[column] for row in found if row[column] is not None) for facet, column in _COLUMNS.items()}
    counters |= {Facet.WORKER: Counter(), Facet.FUNCTION: Counter()}
    for (kind, function), count in Counter((row[2], row[3]) for row in found).items():
        if kind != Kind.PIPELINE.value:
            counters[Facet.WORKER if kind == Kind.WORKER.value else Facet.FUNCTION][function] += count
    return {facet: dict(sorted(counter.items(), key=_most_first)) for facet, counter in counters.items()}


def _most_first(item: tuple[Any, int]) -> tuple[int, str]:
    return -item[1], str(item[0])

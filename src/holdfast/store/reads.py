"""What a store answers outside a batch, as of the last commit. Both backends have the same named queries (queries.sql); each backend runs
them on its own database."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property

from holdfast.model.audit import Noted, NoteFilter
from holdfast.model.credentials import Credential
from holdfast.model.errors import HoldfastError
from holdfast.model.execution import Execution, Terms
from holdfast.model.operations import Kind, Operation
from holdfast.model.payloads import PayloadCodec
from holdfast.model.places import Only
from holdfast.model.schedules import ScheduleState
from holdfast.model.seal import Seal
from holdfast.store import rows
from holdfast.store.damaged_rows import readable_credentials, readable_page, readable_schedules
from holdfast.store.list_query import ListQuery
from holdfast.store.seam import Filter, HistoryEntry, Hosted, Target

Parameters = Sequence[object] | Mapping[str, object]


class Reads(ABC):
    """The reading half of a store. A backend implements the abstract methods."""

    _codec: PayloadCodec | None
    _lists: ListQuery
    seal: Seal

    @abstractmethod
    def _read(self, name: str, parameters: Parameters = ()) -> list[rows.Row]:
        """Run the query of this name in queries.sql, and return its rows."""

    @abstractmethod
    def _text(self, asked: str) -> str:
        """A text to search for, in which characters that the database refuses are replaced."""

    @abstractmethod
    def _array(self, values: Sequence[object]) -> object:
        """Many values as one parameter of a query."""

    @abstractmethod
    def _page(self, wanted: Filter) -> Sequence[rows.Row]:
        """The rows of one page of a list."""

    @abstractmethod
    def _event_rows(self, execution: str, after: int, limit: int) -> Sequence[rows.Row]:
        """The rows of an execution's events whose number is larger than `after`, in order; at most `limit`."""

    def _stored(self, payload: str | None) -> str | None:
        """The payload that the store wrote. `payload` is the text that the database returns for it, which may differ (postgres.columns)."""
        return payload

    def _operations(self, found: Sequence[rows.Row], execution: str) -> list[Operation]:
        return [rows.operation_from(row, execution, self.seal, self._codec) for row in found]

    def _line(self, row: rows.Row, operations: Mapping[int, Operation], execution: str) -> HistoryEntry:
        return HistoryEntry(*rows.event_from(row, operations, execution, self._codec))

    def suspect(self, targets: Sequence[Target], now: int) -> str | None:
        only = only_of(targets)
        hosted = self._target_keys(targets)
        asked = {"now": now, "targets": hosted}
        found = self._read("suspect", (now, hosted)) if only is None else self._read("suspect_only", asked | self._taken(only))
        return found[0][0] if found else None

    def due(self, now: int, limit: int) -> Sequence[str]:
        return [row[0] for row in self._read("due", (now, limit))]

    def held(self, runner: str) -> frozenset[str]:
        return frozenset(row[0] for row in self._read("held", (runner,)))

    def find(self, execution: str) -> Execution | None:
        found = self._read("header", (self._text(execution),))
        return rows.execution_from(found[0]) if found else None

    def find_named(self, function: str, name: str) -> Execution | None:
        found = self._read("named", (self._text(function), self._text(name)))
        return rows.execution_from(found[0]) if found else None

    def ended(self, executions: Sequence[str]) -> Sequence[str]:
        return [row[0] for row in self._read("ended", (self._array(executions),))] if executions else []

    def input(self, execution: str) -> str | None:
        """The payload with which the execution was started; None if there is no such execution, or if it was started without a payload."""
        return self._payload(execution, 1)

    def inputs(self, executions: Sequence[str]) -> Mapping[str, str]:
        return self._inputs_from(self._read("inputs", (self._array(executions),)))

    def _inputs_from(self, read: Iterable[rows.Row]) -> Mapping[str, str]:
        found: dict[str, str] = {}
        for execution, stored in read:
            with suppress(HoldfastError):  # an input that cannot be read: its own invocation reads it again, and gets the error
                found[execution] = rows.payload_from(self._stored(stored), execution, 1, self._codec) or ""
        return found

    def result(self, execution: Execution) -> str | None:
        return None if execution.result_event is None else self._payload(execution.id, execution.result_event)

    def _payload(self, execution: str, number: int) -> str | None:
        found = self._read("payload", (self._text(execution), number))
        return rows.payload_from(self._stored(found[0][0]), execution, number, self._codec) if found else None

    def graph(self, graph: str) -> str | None:
        return self._graph_from(self._read("graph", (self._text(graph),)), graph)

    def _graph_from(self, found: Sequence[rows.Row], graph: str) -> str | None:
        stored = self._stored(found[0][0]) if found else None
        return None if stored is None else rows.graph_from(stored, graph, self._codec)

    def operations(self, execution: str, newer_than: int = 0, *, after: int = 0, limit: int | None = None) -> Sequence[Operation]:
        return self._operations(self._read("operations", (self._text(execution), newer_than, after, limit)), execution)

    def contexts(self, execution: str) -> Sequence[Operation]:
        return self._operations(self._read("contexts", (self._text(execution),)), execution)

    def history(self, execution: str, after: int = 0, limit: int = 1000) -> Sequence[HistoryEntry]:
        found = self._event_rows(execution, after, limit)
        operations: dict[int, Operation] = {}
        if places := sorted({row[3] for row in found if row[3] is not None}):
            asked = self._read("operations_at", (self._text(execution), self._array(places)))
            operations = {operation.place: operation for operation in self._operations(asked, execution)}
        return [self._line(row, operations, execution) for row in found]

    def undecided(self, beyond: str, limit: int, tenant: str | None = None) -> Sequence[str]:
        return [row[0] for row in self._read("undecided", (beyond, tenant, limit))]

    def list(self, wanted: Filter) -> Sequence[Execution]:
        """One page of the executions that match a filter. A damaged row is left out."""
        return readable_page(wanted, self._page)

    @cached_property
    def unmarked(self) -> str:
        """The value never changes."""
        ((found,),) = self._read("unmarked")
        return str(found)

    def hosted(self, function: str) -> Sequence[Hosted]:
        return [Hosted(function, row[0], Terms(*row[1:5]), Kind(row[5])) for row in self._read("hosted", (self._text(function),))]

    def _taken(self, only: Only | None) -> dict[str, object]:
        """The parameters of a query: the queues and the tenants from which a runner takes executions. A parameter is None if the runner
        takes from all."""
        queues, tenants = (only.queues, only.tenants) if only is not None else ((), ())
        return {"queues": self._array(sorted(queues)) if queues else None, "tenants": self._array(sorted(tenants)) if tenants else None}

    def schedule(self, name: str) -> ScheduleState | None:
        found = self._read("schedule", (self._text(name),))
        return rows.schedule_from(found[0], self._codec) if found else None

    def schedules(self, beyond: str, limit: int, tenant: str | None = None) -> Sequence[ScheduleState]:
        asked = (self._text(beyond), None if tenant is None else self._text(tenant), limit)
        return readable_schedules(self._read("schedules", asked), self._codec)

    def due_schedules(self, functions: Sequence[str], now: int, limit: int, only: Only | None = None) -> Sequence[str]:
        return [row[0] for row in self._read("due_schedules", {**self._scheduled(functions, only), "now": now, "limit": limit})]

    def waiting_schedules(self, functions: Sequence[str], limit: int, only: Only | None = None) -> Sequence[str]:
        return [row[0] for row in self._read("waiting_schedules", {**self._scheduled(functions, only), "limit": limit})]

    def next_schedule(self, functions: Sequence[str], only: Only | None = None) -> int | None:
        ((at,),) = self._read("next_schedule", self._scheduled(functions, only))
        return None if at is None else int(at)

    def _scheduled(self, functions: Sequence[str], only: Only | None) -> dict[str, object]:
        """The parameters of a query: the functions and the tenants whose schedules a runner looks after. A schedule starts its executions
        without a queue. So a runner that takes executions only from some queues looks after no schedule."""
        taken = self._taken(only)
        return {"functions": self._array(functions if taken["queues"] is None else []), "tenants": taken["tenants"]}

    def audit(self, wanted: NoteFilter) -> Sequence[Noted]:
        asked = {name: self._text(value) if isinstance(value, str) else value for name, value in rows.note_question(wanted).items()}
        return [rows.noted_from(row) for row in self._read("audit", asked)]

    def credentials(self) -> Sequence[Credential]:
        return readable_credentials(self._read("credentials"))

    def _target_keys(self, targets: Sequence[Target]) -> object:
        return self._array([f"{target.function}:{target.version}" for target in targets])


def only_of(targets: Sequence[Target]) -> Only | None:
    """Which executions of these functions the runner takes; None if it takes all. All targets of one runner have the same `only`."""
    return targets[0].only if targets else None

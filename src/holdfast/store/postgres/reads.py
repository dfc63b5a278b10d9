"""What a store can be asked outside a batch; the answers are as of the last commit."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import Final

from holdfast.model.charging import Counter
from holdfast.model.execution import Execution, Terms
from holdfast.model.ids import Seal
from holdfast.model.operations import Kind, Operation
from holdfast.model.payloads import PayloadCodec
from holdfast.store import rows
from holdfast.store.pages import readable_page
from holdfast.store.postgres import listing
from holdfast.store.postgres.columns import texts, unmarked
from holdfast.store.postgres.session import Parameters, Session
from holdfast.store.seam import Filter, Hosted, Line, Target

_PAYLOAD: Final = 17
"""Where the payload stands in the row of an operation that was joined with its event."""


class Reading:
    """The reading half of a store."""

    _shown: str
    _texts: Mapping[str, str]
    _sql: Mapping[str, bytes]
    _side: Session
    """Everything but batches: a question or a lease never waits for a batch that waits for somebody else's."""
    _codec: PayloadCodec | None
    seal: Seal

    def _read(self, name: str, parameters: Parameters = None) -> list[rows.Row]:
        return self._side.ask(self._sql[name], parameters)

    def claimable(self, targets: Sequence[Target], dead: Collection[str], now: int, limit: int) -> Sequence[str]:
        """Ready executions of these functions, and what dead runners left."""
        asked = {"targets": _keys(targets), "dead": sorted(dead), "now": now, "limit": limit}
        return [row[0] for row in self._read("claimable", asked)]

    def suspect(self, targets: Sequence[Target], now: int) -> str | None:
        """A ready execution that must be claimed alone."""
        found = self._read("suspect", (now, _keys(targets)))
        return found[0][0] if found else None

    def due(self, now: int, limit: int) -> Sequence[str]:
        """Executions that may have a timer due."""
        return [row[0] for row in self._read("due", (now, limit))]

    def next_due(self, targets: Sequence[Target]) -> int | None:
        """The next time anything happens by itself."""
        ((at,),) = self._read("next_due", (_keys(targets),))
        return None if at is None else int(at)

    def find(self, execution: str) -> Execution | None:
        """An execution by id."""
        found = self._read("header", (_text(execution),))
        return rows.execution_from(found[0]) if found else None

    def find_named(self, function: str, name: str) -> Execution | None:
        """An execution by function and name."""
        found = self._read("named", (_text(function), _text(name)))
        return rows.execution_from(found[0]) if found else None

    def input(self, execution: str) -> str | None:
        """The payload it was started with."""
        return self._payload(execution, 1)

    def result(self, execution: Execution) -> str | None:
        """The payload it ended with."""
        return None if execution.result_event is None else self._payload(execution.id, execution.result_event)

    def _payload(self, execution: str, number: int) -> str | None:
        found = self._read("payload", (_text(execution), number))
        return rows.payload_from(unmarked(found[0][0]), execution, number, self._codec) if found else None

    def operations(self, execution: str, newer_than: int = 0, *, after: int = 0, limit: int | None = None) -> Sequence[Operation]:
        """Its operations in the order they began."""
        return self._operations(self._read("operations", (_text(execution), newer_than, after, limit)), execution)

    def contexts(self, execution: str) -> Sequence[Operation]:
        """Its contexts in the order they began, without what they came to."""
        return self._operations(self._read("contexts", (_text(execution),)), execution)

    def _operations(self, found: Sequence[rows.Row], execution: str) -> list[Operation]:
        made = []
        for row in found:
            payload = unmarked(row[_PAYLOAD])
            if payload is not row[_PAYLOAD]:
                row = (*row[:_PAYLOAD], payload, *row[_PAYLOAD + 1 :])
            made.append(rows.operation_from(row, execution, self.seal, self._codec))
        return made

    def history(self, execution: str, after: int = 0, limit: int = 1000) -> Sequence[Line]:
        """Its events in order, each with its operation."""
        found = self._read("history", {"id": _text(execution), "after": after, "limit": limit})
        places = sorted({row[3] for row in found if row[3] is not None})
        operations = {op.place: op for op in self._operations(self._read("operations_at", (_text(execution), places)), execution)}
        return [self._line(row, operations, execution) for row in found]

    def _line(self, row: rows.Row, operations: Mapping[int, Operation], execution: str) -> Line:
        number, kind, at, place, payload, detail = row
        return Line(*rows.event_from((number, kind, at, place, unmarked(payload), detail), operations, execution, self._codec))

    def counters(self, keys: Collection[str]) -> Sequence[Counter]:
        """Those of these that there are."""
        return [Counter(*row) for row in self._read("counters", (texts(sorted(keys)),))]

    def undecided(self, beyond: str, limit: int, tenant: str | None = None) -> Sequence[str]:
        """The executions that wait for a decision."""
        return [row[0] for row in self._read("undecided", (beyond, tenant, limit))]

    def list(self, wanted: Filter) -> Sequence[Execution]:
        """Executions by filter, one page."""
        return readable_page(wanted, self._page)

    def _page(self, wanted: Filter) -> Sequence[rows.Row]:
        question, asked = listing.question(self._texts, wanted)
        return self._side.ask(question.encode(), asked, prepare=False)

    @cached_property
    def unmarked(self) -> str:
        """The last execution from before runs were marked; it never changes."""
        ((found,),) = self._read("unmarked")
        return str(found)

    def hosted(self, function: str) -> Sequence[Hosted]:
        """The versions of a function that some runner has hosted."""
        return [Hosted(function, row[0], Terms(*row[1:5]), Kind(row[5])) for row in self._read("hosted", (_text(function),))]


def _text(asked: str) -> str:
    """A text to look for, without NUL and lone surrogates: Postgres refuses those, and no stored text has them, so nothing is missed."""
    return asked.replace("\0", "\ufffd").encode(errors="replace").decode()


def _keys(targets: Sequence[Target]) -> list[str]:
    return [f"{target.function}:{target.version}" for target in targets]

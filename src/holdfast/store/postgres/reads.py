"""What a store answers outside a batch. These reads have a connection of their own, so that they do not wait while this process writes a
batch."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from holdfast.model.charges import Counter
from holdfast.model.operations import Operation
from holdfast.store import rows
from holdfast.store.list_query import Dialect
from holdfast.store.postgres.columns import texts, unmarked
from holdfast.store.postgres.session import Session, Statement, StatementParameters
from holdfast.store.reads import Reads, only_of
from holdfast.store.seam import Filter, HistoryEntry, Target

DIALECT: Final = Dialect("%({})s", list, ordered_parts=True)
_PAYLOAD: Final = 17
"""The column of the payload in the row of an operation that was joined with its event."""


class PostgresReads(Reads):
    """The reading half of a store."""

    _shown: str
    _texts: Mapping[str, str]
    _sql: Mapping[str, Statement]
    _side: Session
    """The connection for everything except batches and reads for people: a read, or the renewal of a lease, does not wait for a batch that
    waits for a lock."""

    def _read(self, name: str, parameters: StatementParameters = None) -> list[rows.Row]:
        return self._side.ask(self._sql[name], parameters)

    def _text(self, asked: str) -> str:
        """The text, in which NUL and lone surrogates are replaced: Postgres refuses these, and no stored text has them, so no row is
        missed."""
        return asked.replace("\0", "\ufffd").encode(errors="replace").decode()

    def _array(self, values: Sequence[object]) -> object:
        return values

    def _stored(self, payload: str | None) -> str | None:
        return unmarked(payload)

    def _operations(self, found: Sequence[rows.Row], execution: str) -> list[Operation]:
        made = []
        for row in found:
            payload = unmarked(row[_PAYLOAD])
            if payload is not row[_PAYLOAD]:
                row = (*row[:_PAYLOAD], payload, *row[_PAYLOAD + 1 :])
            made.append(rows.operation_from(row, execution, self.seal, self._codec))
        return made

    def _event_rows(self, execution: str, after: int, limit: int) -> Sequence[rows.Row]:
        return self._read("history", {"id": self._text(execution), "after": after, "limit": limit})

    def _line(self, row: rows.Row, operations: Mapping[int, Operation], execution: str) -> HistoryEntry:
        number, kind, at, place, payload, detail = row
        return super()._line((number, kind, at, place, unmarked(payload), detail), operations, execution)

    def claimable(self, targets: Sequence[Target], dead: Collection[str], now: int, limit: int) -> Sequence[str]:
        asked = {**hosted(targets), "targets": self._target_keys(targets), "dead": sorted(dead), "now": now, "limit": limit}
        only = only_of(targets)
        if only is None:
            return [row[0] for row in self._read("claimable", asked)]
        return [row[0] for row in self._read("claimable_only", asked | self._taken(only))]

    def next_due(self, targets: Sequence[Target]) -> int | None:
        only, asked = only_of(targets), hosted(targets)
        ((at,),) = self._read("next_due", asked) if only is None else self._read("next_due_only", asked | self._taken(only))
        return None if at is None else int(at)

    def counters(self, keys: Collection[str]) -> Sequence[Counter]:
        return [Counter(*row) for row in self._read("counters", (texts(sorted(keys)),))]

    def _page(self, wanted: Filter) -> Sequence[rows.Row]:
        question, asked = self._lists.of(wanted)
        return self._side.ask(question.encode(), asked, prepare=False)


def hosted(targets: Sequence[Target]) -> dict[str, object]:
    """The parameters of a query that asks for functions and versions."""
    return {"functions": [target.function for target in targets], "versions": [target.version for target in targets]}

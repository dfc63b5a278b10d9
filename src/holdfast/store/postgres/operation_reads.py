"""The operations of an execution, as a decision reads them.

Each read is a round trip. Some reads a batch will surely make: the due timers of an execution that is claimed, the callback that is
answered. If several entries of the batch need such a read, it is made once for all of them, before the first entry is decided.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from holdfast.model.errors import CodecFailed, StoreBroken
from holdfast.model.operations import Operation
from holdfast.model.outside import Answering, Fire, Heartbeat
from holdfast.model.verbs import Claim, Write
from holdfast.store import rows
from holdfast.store.postgres.columns import numbers, texts
from holdfast.store.postgres.reads import PostgresReads
from holdfast.store.postgres.session import Session
from holdfast.store.views import RowView

_UNREADABLE: Final = (CodecFailed, StoreBroken)


class Timers:
    """The timers of some executions. By the key of the execution: the operations that are due at `now`, and the time of the first timer
    after `now`."""

    def __init__(self, now: int) -> None:
        self.now = now
        self.due: dict[int, list[Operation]] = {}
        self.next: dict[int, int | None] = {}


class OperationReads(PostgresReads):
    """The part of a store that reads operations for views, inside the batch that is decided."""

    _writer: Session
    _timers = Timers(0)

    def _ask_ahead(self, batch: Sequence[Write], bases: Mapping[str, RowView], now: int) -> None:
        """If several entries of a batch need the same kind of read, make this read once for all of them. If only one entry needs it, that
        entry reads for itself later."""
        self._timers = Timers(now)
        woken = [bases[write.execution] for write in batch if isinstance(write, Claim | Fire) and write.execution in bases]
        if len(woken) > 1:
            self._ask_timers(woken, now)
        answered = [write for write in batch if isinstance(write, Answering | Heartbeat) and write.execution in bases]
        if len(answered) > 1:
            self._ask_operations([(bases[write.execution], write.operation_id) for write in answered])

    def _ask_timers(self, views: Sequence[RowView], now: int) -> None:
        keys = numbers({view.key for view in views})
        found: dict[int, list[rows.Row]] = defaultdict(list)
        for row in self._writer.run(self._sql["all_due_operations"], (keys, now)):
            found[row[0]].append(row)
        nexts: dict[int, int] = dict(self._writer.run(self._sql["all_next_due_operations"], (keys, now)))
        for view in views:
            with suppress(*_UNREADABLE):  # the entry that needs an unreadable row reads it again, and only that entry fails
                self._timers.due[view.key] = self._operations(found[view.key], view.header.id)
                self._timers.next[view.key] = nexts.get(view.key)

    def _ask_operations(self, wanted: Sequence[tuple[RowView, str]]) -> None:
        views = {view.key: view for view, _ in wanted}
        asked = {(view.key, operation) for view, operation in wanted if operation not in view.operations and "\0" not in operation}
        if not asked:
            return
        keys, ids = zip(*asked, strict=True)
        for row in self._writer.run(self._sql["these_operations"], (numbers(keys), texts(ids))):
            view = views[row[0]]
            with suppress(*_UNREADABLE):
                (view.operations[row[1]],) = self._operations([row], view.header.id)

    # --- reads of a view

    def read_operation(self, view: RowView, operation_id: str) -> Operation | None:
        if "\0" in operation_id:
            return None
        found = self._operations(self._writer.run(self._sql["operation"], (view.key, operation_id)), view.header.id)
        return found[0] if found else None

    def read_newer(self, view: RowView, revision: int) -> list[Operation]:
        return self._operations(self._writer.run(self._sql["newer_operations"], (view.key, revision)), view.header.id)

    def read_due(self, view: RowView, now: int) -> list[Operation]:
        if now == self._timers.now and view.key in self._timers.due:
            return self._timers.due[view.key]
        return self._operations(self._writer.run(self._sql["due_operations"], (view.key, now)), view.header.id)

    def read_next_due(self, view: RowView, after: int) -> int | None:
        if after == self._timers.now and view.key in self._timers.next:
            return self._timers.next[view.key]
        ((at,),) = self._writer.run(self._sql["next_due_operation"], (view.key, after))
        return None if at is None else int(at)

    def read_has_ready(self, view: RowView, since: int) -> bool:
        return bool(self._writer.run(self._sql["ready_operation"], (view.key, since)))

"""How a batch is decided on a database that other processes write at the same time.

Most batches lock nothing while they are decided for the first time (store.py says which batches do). The batch remembers the executions
that it was decided on (`bases`). The statement that writes it (batch_statement.py) writes nothing, unless all executions that the batch
changes still have the same revision.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress

import psycopg

from holdfast.model.charges import Counter
from holdfast.model.errors import ExecutionNotFound, HoldfastError, InvalidParameter, RowDamaged
from holdfast.model.execution import Birth, Change, Execution, View
from holdfast.model.verbs import Answer, Checkpoint, Start, Write
from holdfast.store import rows
from holdfast.store.batch import Batch, BatchMark
from holdfast.store.decisions import Decisions
from holdfast.store.postgres.columns import texts
from holdfast.store.postgres.errors import is_shared
from holdfast.store.postgres.lanes import Made, PostgresLanes, entrants
from holdfast.store.postgres.older_code import PIPELINES, QUEUES, SUPERSEDING
from holdfast.store.postgres.operation_reads import OperationReads
from holdfast.store.views import Overlay, RowView

_KEYS = 1000
"""How many keys for new executions a process takes at a time. The sequence in schema.sql has the same number."""


class PostgresBatch(Batch):
    """What a batch has decided so far, and which of its decisions rely on views in memory that the database has not confirmed."""

    __slots__ = ("answers", "locking", "made", "remembered", "sent", "unsure")

    def __init__(self, *, locking: bool) -> None:
        super().__init__()
        self.locking = locking
        """Whether rows are locked when they are read. Then views in memory are used only if they have the revision of the row."""
        self.answers: list[Answer | HoldfastError] = []
        self.remembered: set[str] = set()
        """The executions of `bases` that come from memory."""
        self.unsure: set[str] = set()
        """Executions of `remembered` that the statement which writes the batch will not compare with their rows, because the batch does not
        change them."""
        self.made = Made(set(), set())
        """The lanes and queues that this batch has made."""
        self.sent = False
        """Whether the batch may be in the database already."""

    def undo(self, mark: BatchMark) -> set[str]:
        undone = {change.header.id for change in self.changes[mark[0] :]}
        super().undo(mark)
        for execution in undone & self.views.keys() - self.born:
            if not isinstance(self.views[execution], Overlay):
                del self.views[execution]  # the batch does not change it any more
        again = undone & self.remembered - self.views.keys()
        self.unsure |= again
        return again


class PostgresDecisions(OperationReads, PostgresLanes, Decisions[PostgresBatch]):
    """The part of a store that decides batches. It decides most batches first on the views in memory. If a view was not current, it decides
    again on rows that it has locked. A batch that needs locks is decided on locked rows from the beginning."""

    _keys = range(0)
    _places: Mapping[str, tuple[int, int]]
    """By name: the revision and the cursor of each schedule that the batch moves. These rows are locked."""

    def _decide(self, batch: Sequence[Write], now: int, done: PostgresBatch, known: Mapping[int, Answer | HoldfastError]) -> None:
        """Decide every entry of a batch, and add the answers to `done.answers`. `known`: the answers of entries that an earlier try has
        already written, by the `id()` of the entry. These entries are not decided again."""
        for write in batch:
            answer = known.get(id(write))
            done.answers.append(self._entry(write, now, done) if answer is None else answer)

    def _fetch(self, batch: Sequence[Write], now: int, also: Collection[str], done: PostgresBatch) -> None:
        """Read what the entries of a batch need: headers that are not in memory, counters, schedules, names and lanes. Counters and
        schedules are always locked. If the batch is `locking`, the headers of its entries and those in `also` are read and locked even if
        they are in memory, and lanes are read and locked, too. Otherwise no lane is read."""
        wanted = {write.execution for write in batch if not isinstance(write, Start)}
        if done.locking:
            wanted |= set(also)
            statement = "locked_headers"
        else:
            wanted -= self._views.keys()
            statement = "headers"
        if wanted:
            for row in self._writer.run(self._sql[statement], (texts(sorted(wanted)),)):
                with suppress(RowDamaged):  # the entry that needs a damaged row reads it again, and only that entry fails
                    self._based(row, done)
        keys = charged_keys(batch)
        while len(done.counters) < len(keys):  # `expire` may remove a counter before it is locked
            self._writer.run(self._sql["make_counters"], (texts(keys),))
            done.counters = {row[0]: Counter(*row) for row in self._writer.run(self._sql["locked_counters"], (texts(keys),))}
        moved = moved_names(batch)
        found = self._writer.run(self._sql["locked_schedules"], (texts(moved),)) if moved else ()
        self._places = {row[0]: (row[1], row[2]) for row in found}
        named = [(w.header.function, w.header.name) for w in batch if isinstance(w, Start) and w.header.name != w.header.id]
        if named:
            functions, names = zip(*sorted(set(named)), strict=True)
            for row in self._writer.run(self._sql["all_named"], (texts(functions), texts(names))):
                with suppress(RowDamaged):
                    header = self._based(row, done).header
                    done.names[header.function, header.name] = header.id
        if done.locking:  # lanes last, as in the statement that writes the batch
            self._lock_lanes(list(entrants(batch)), done.lanes, done.made)
        self._ask_ahead(batch, done.bases, now)

    def _decided(self, write: Write, now: int, done: PostgresBatch) -> Answer | HoldfastError:
        """Decide a write. The batch statement compares only executions that the batch changes. So if this write changes nothing, and the
        view of its execution came from memory, that view is compared with the database here."""
        before = len(done.changes)
        answer = super()._decided(write, now, done)
        if done.unsure and len(done.changes) == before:
            named = done.names.get((write.header.function, write.header.name)) if isinstance(write, Start) else write.execution
            if named in done.unsure and self._has_moved(named, done):
                return self._decided(write, now, done)
        return answer

    def _accept(self, change: Change, done: PostgresBatch, now: int) -> None:
        _check_texts(change)
        if change.header.superseded_by is not None:
            self._check_least(SUPERSEDING, "A name can be started again")
        super()._accept(change, done, now)
        done.unsure.discard(change.header.id)

    def _counter(self, key: str) -> Counter | None:
        """Always None: `_fetch` has put all counters that the batch charges into `done.counters`."""
        return None

    def _schedule_place(self, name: str) -> tuple[int, int] | None:
        """The revision and the cursor that `_fetch` has read and locked; None if there is no such schedule."""
        return self._places.get(name)

    def _is_shared(self, error: Exception) -> bool:
        return isinstance(error, psycopg.Error) or is_shared(error)  # after an error the server answers nothing more in this transaction

    def _children(self, parent: str, done: PostgresBatch) -> list[str]:
        """Executions that the batch has not read before are added to `done.bases`. So if another process changes one of them before the
        batch is written, the batch is decided again."""
        known = set()
        for row in self._writer.run(self._sql["children"], (parent,)):
            known.add(row[1])
            if row[1] not in done.bases:
                with suppress(RowDamaged):
                    self._based(row, done)
        for view in done.views.values():
            if view.header.parent == parent:
                known.add(view.header.id)
        return sorted(known)

    def _created(self, start: Start, now: int, done: PostgresBatch) -> Answer:
        if start.graph is not None:
            self._check_least(PIPELINES, "A pipeline can be started")
        if start.enqueue is not None:
            self._check_least(QUEUES, "An execution can be enqueued")
        return super()._created(start, now, done)

    def _new_base(self, header: Execution, done: PostgresBatch) -> RowView:
        if not self._keys:
            ((first,),) = self._writer.run(self._sql["next_keys"])
            self._keys = range(first, first + _KEYS)
        key, self._keys = self._keys[0], self._keys[1:]
        return RowView(self, key, header, 0, complete=True)

    def _named(self, start: Start, done: PostgresBatch) -> View | None:
        twin = done.names.get((start.header.function, start.header.name))
        found = None if twin is None else done.views.get(twin) or done.bases[twin]
        return found if found is None or found.header.superseded_by is None else None

    def _view(self, execution: str, done: PostgresBatch) -> RowView:
        base = done.bases.get(execution)
        if base is not None:
            return base
        view = None if done.locking else self._views.get(execution)
        if view is not None:
            done.bases[execution] = view
            done.remembered.add(execution)
            done.unsure.add(execution)
            return view
        found = self._writer.run(self._sql["header"], (execution,))
        if not found:
            raise ExecutionNotFound(f"There is no execution {execution}.")
        return self._based(found[0], done)

    def _based(self, row: rows.Row, done: PostgresBatch) -> RowView:
        """The view for a row that was just read. If a view of the same revision is in memory, that view is returned, else a new one."""
        header = rows.execution_from(row)
        view = self._views.get(header.id)
        if view is None or view.header.revision != header.revision:
            view = RowView(self, row[0], header, 0, complete=not header.operations)
        done.bases[header.id] = view
        return view

    def _has_moved(self, execution: str, done: PostgresBatch) -> bool:
        """Whether the view in memory is older than its row, or the row is gone. If so, the view is dropped, and a new view is made from the
        row, if there is one."""
        done.unsure.discard(execution)
        found = self._writer.run(self._sql["header"], (execution,))
        if found and rows.execution_from(found[0]).revision == done.bases[execution].header.revision:
            return False
        done.remembered.discard(execution)
        self._views.pop(execution, None)
        del done.bases[execution]
        if found:
            self._based(found[0], done)
        return True


def charged_keys(batch: Sequence[Write]) -> list[str]:
    """The keys of all counters that a batch charges, sorted. Charges for executions that its checkpoints start are included."""
    charges = [charge for write in batch if isinstance(write, Start | Checkpoint) for charge in write.charges]
    for write in batch:
        if isinstance(write, Checkpoint) and write.children:
            charges += [charge for child in write.children.values() if isinstance(child, Birth) for charge in child.charges]
    return sorted({charge.key for charge in charges})


def moved_names(batch: Iterable[Write]) -> list[str]:
    """The names of the schedules that a batch moves, sorted, each once."""
    return sorted({write.moved.name for write in batch if isinstance(write, Start) and write.moved is not None})


def has_graphs(batch: Sequence[Write]) -> bool:
    """Whether a batch starts an execution and brings the text of its graph."""
    for write in batch:
        if isinstance(write, Start) and write.graph is not None:
            return True
        if isinstance(write, Checkpoint) and write.children:
            births = (child for child in write.children.values() if isinstance(child, Birth))
            if any(birth.graph is not None for birth in births):
                return True
    return False


def _check_texts(change: Change) -> None:
    """Raise InvalidParameter for a NUL in a text of an operation or a header, because Postgres cannot store it. Payloads may have one
    (columns.py)."""
    for operation in change.operations.values():
        _check(operation.id, operation.name, operation.sub_type, operation.parent_id)
    for header in (change.header, *(birth.header for birth in change.births)):
        _check(header.client, header.tenant, header.trace)


def _check(*given: str | None) -> None:
    for text in given:
        if text is not None and "\0" in text:
            raise InvalidParameter(f"{text!r} has a NUL character. A Postgres store can keep a NUL only in payloads: remove it.")


def last_headers(changes: Iterable[Change]) -> dict[str, Execution]:
    """Each changed execution as the batch leaves it."""
    return {change.header.id: change.header for change in changes}

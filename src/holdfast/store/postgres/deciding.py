"""Deciding a batch: each entry on the rows as they are known, refused on its own, with what it brings to other executions.

Nothing is locked while a batch is decided for the first time. What it was decided on is remembered (`bases`), and the statement that
writes it (store.py) does so only if all of that is still as it was.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress

import psycopg

from holdfast.model.chaining import follow_ups
from holdfast.model.charging import Counter, charged
from holdfast.model.errors import ExecutionAlreadyStarted, ExecutionNotFound, HoldfastError, InvalidParameter, RowDamaged, StoreNotMigrated
from holdfast.model.execution import Change, Execution, View
from holdfast.model.payloads import identified
from holdfast.model.verbs import Answer, Checkpoint, Start, Write
from holdfast.store import rows
from holdfast.store.isolating import own, refused
from holdfast.store.postgres.asking import Asking
from holdfast.store.postgres.columns import texts
from holdfast.store.postgres.trouble import is_shared
from holdfast.store.views import Overlay, RowView

SUPERSEDING = 7
"""The step of the schema that lets a name be started again."""
_KEYS = 1000
"""How many keys of executions are taken at a time; schema.sql says so as well."""


Mark = tuple[int, int, int, dict[str, Counter]]


class Batch:
    """What a batch has decided so far."""

    __slots__ = (
        "answers",
        "bases",
        "born",
        "changes",
        "counters",
        "events",
        "followed",
        "following",
        "locking",
        "names",
        "remembered",
        "sent",
        "unsure",
        "views",
    )

    def __init__(self, *, locking: bool) -> None:
        self.locking = locking
        """Rows are locked when they are read, and memory is not believed."""
        self.answers: list[Answer | HoldfastError] = []
        self.changes: list[Change] = []
        self.events: list[rows.Row] = []
        self.bases: dict[str, RowView] = {}
        """The committed view below each execution the batch has read."""
        self.remembered: set[str] = set()
        """Those of them that come from memory."""
        self.unsure: set[str] = set()
        """Those of these that nobody has compared with the database yet, and that no change of this batch will be."""
        self.born: set[str] = set()
        self.views: dict[str, View] = {}
        """The latest view of each execution the batch has changed."""
        self.names: dict[tuple[str, str], str] = {}
        self.following: deque[Write] = deque()
        """What earlier writes bring to other executions, not yet decided."""
        self.followed: list[Execution] = []
        self.sent = False
        """It may be in the database."""
        self.counters: dict[str, Counter] = {}
        """Those that its entries charge, as the batch leaves them; made anew by each charge, so that a mark can hold on to it."""

    def mark(self) -> Mark:
        """How far it has come."""
        return len(self.changes), len(self.events), len(self.followed), self.counters

    def undo(self, mark: Mark) -> set[str]:
        """Take back everything decided since a mark. Answers which executions from memory are unsure again."""
        changes, events, followed, self.counters = mark
        for change in reversed(self.changes[changes:]):
            execution = change.header.id
            view = self.views.pop(execution)
            if not isinstance(view, Overlay):
                self.names.pop((change.header.function, change.header.name), None)
                self.born.discard(execution)
                del self.bases[execution]
            elif isinstance(view.below, Overlay) or execution in self.born:
                self.views[execution] = view.below
            if change.header.superseded_by is not None:
                self.names[change.header.function, change.header.name] = execution
        again = {change.header.id for change in self.changes[changes:]} & self.remembered - self.views.keys()
        del self.changes[changes:], self.events[events:], self.followed[followed:]
        self.following.clear()
        self.unsure |= again
        return again


class Deciding(Asking):
    """The part of a store that decides."""

    _views: dict[str, RowView]
    """What this process runs, as its last write left it."""
    _keys = range(0)
    _may_supersede = False

    def _decide(self, batch: Sequence[Write], now: int, done: Batch, known: Mapping[int, Answer | HoldfastError]) -> None:
        """Answer every entry; those whose answer is known already are not decided again."""
        for write in batch:
            answer = known.get(id(write))
            done.answers.append(self._entry(write, now, done) if answer is None else answer)

    def _entry(self, write: Write, now: int, done: Batch) -> Answer | HoldfastError:
        """Decide an entry with what it brings to other executions; if that cannot be written, the entry must not be.

        Whatever goes wrong with an entry is its own, and leaves nothing behind.
        """
        before = done.mark()
        failed: HoldfastError | None
        answer: Answer | HoldfastError
        try:
            answer = self._decided(write, now, done)
            failed = self._follow(now, done) if done.following else None
        except Exception as error:
            if isinstance(error, psycopg.Error) or is_shared(error):  # after an error of the server nothing can be asked any more
                raise
            answer = failed = refused(write, error)
        if failed is None:
            return answer
        moved = [execution for execution in done.undo(before) if self._has_moved(execution, done)]
        return self._entry(write, now, done) if moved else failed

    def _follow(self, now: int, done: Batch) -> HoldfastError | None:
        """Decide what the last write brings to other executions."""
        while done.following:
            before = len(done.changes)
            answer = self._decided(done.following.popleft(), now, done)
            if isinstance(answer, HoldfastError) and not isinstance(answer, ExecutionNotFound):  # what is gone needs nothing
                return answer
            if len(done.changes) > before:
                done.followed.append(done.changes[-1].header)
        return None

    def _fetch(self, batch: Sequence[Write], now: int, also: Collection[str], done: Batch) -> None:
        """The headers that are not in memory, with one statement for all of them and one for all names."""
        wanted = {write.execution for write in batch if not isinstance(write, Start)}
        if done.locking:
            wanted |= set(also)
            statement = "locked_headers"
        else:
            wanted -= self._views.keys()
            statement = "headers"
        if wanted:
            for row in self._writer.run(self._sql[statement], (texts(sorted(wanted)),)):
                with suppress(RowDamaged):  # an entry that needs this row asks for it alone, and fails alone
                    self._based(row, done)
        keys = charged_keys(batch)
        while len(done.counters) < len(keys):  # one whose time is over may be forgotten before it is locked
            self._writer.run(self._sql["make_counters"], (texts(keys),))
            done.counters = {row[0]: Counter(*row) for row in self._writer.run(self._sql["locked_counters"], (texts(keys),))}
        named = [(w.header.function, w.header.name) for w in batch if isinstance(w, Start) and w.header.name != w.header.id]
        if named:
            functions, names = zip(*sorted(set(named)), strict=True)
            for row in self._writer.run(self._sql["all_named"], (texts(functions), texts(names))):
                with suppress(RowDamaged):
                    header = self._based(row, done).header
                    done.names[header.function, header.name] = header.id
        self._ask_ahead(batch, done.bases, now)

    def _decided(self, write: Write, now: int, done: Batch) -> Answer | HoldfastError:
        answer: Answer | HoldfastError
        change: Change | None = None
        view: View | None = None
        try:
            if isinstance(write, Start):
                view = self._named(write, done)
                if self._codec is not None:
                    write = identified(write, view, self._codec)
                if view is None:
                    return self._created(write, now, done)
            else:
                view = done.views.get(write.execution) or self._view(write.execution, done)
            change, answer = write.decide(view, now, self.seal)
            if change is not None:
                if isinstance(write, Start):
                    self._check_superseding()
                self._accept(change, done, now)
        except HoldfastError as told:
            change, answer = None, own(told)
        if view is not None and change is not None:
            done.views[change.header.id] = Overlay(view, change)
            if change.births or not change.slight:
                done.following.extend(follow_ups(write, view.header, change, lambda parent: self._children(parent, done)))
        elif view is not None and view.header.id in done.unsure and self._has_moved(view.header.id, done):
            # What changes nothing is not compared with the database when it is written, so memory must be before it is believed.
            return self._decided(write, now, done)
        return answer

    def _accept(self, change: Change, done: Batch, now: int) -> None:
        """Take a change into the batch. Its events become rows here, so that a codec that fails spoils this entry alone."""
        _check_texts(change)
        execution, events = change.header.id, []
        key = done.bases[execution].key
        for event in change.events:
            operation_id = event.operation_id
            place = None if operation_id is None else change.operations[operation_id].place
            events.append(rows.event_row(key, event, place, execution, self._codec))
        if change.charges:
            done.counters = done.counters | charged(change.charges, done.counters.get, now)
        done.events += events
        done.changes.append(change)
        done.unsure.discard(execution)

    def _children(self, parent: str, done: Batch) -> list[str]:
        """The open executions it invoked, as this batch leaves them.

        Those it has not read yet are taken as they are in this very answer: if one of them ends meanwhile and another goes on for it,
        the batch is decided again.
        """
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

    def _created(self, start: Start, now: int, done: Batch) -> Answer:
        change, answer = start.create(now)
        header = change.header
        if header.id in done.bases:
            raise ExecutionAlreadyStarted(f"There is another execution {header.id}.")
        if not self._keys:
            ((first,),) = self._writer.run(self._sql["next_keys"])
            self._keys = range(first, first + _KEYS)
        base = RowView(self, self._keys[0], header, 0, complete=True)
        done.bases[header.id] = base
        try:
            self._accept(change, done, now)
        except BaseException:
            del done.bases[header.id]
            raise
        self._keys = self._keys[1:]
        done.born.add(header.id)
        done.views[header.id] = base
        done.names[header.function, header.name] = header.id
        return answer

    def _named(self, start: Start, done: Batch) -> View | None:
        twin = done.names.get((start.header.function, start.header.name))
        found = None if twin is None else done.views.get(twin) or done.bases[twin]
        return found if found is None or found.header.superseded_by is None else None

    def _check_superseding(self) -> None:
        """Refuse to start a name again while code from before may use the store: that code would find two executions of one name."""
        if not self._may_supersede:
            ((least,),) = self._writer.run(self._sql["least"])
            if least < SUPERSEDING:
                raise StoreNotMigrated(
                    "A name can be started again only when `holdfast db migrate --after` was run with this store: "
                    "do that when no process of the release before runs any more."
                )
            self._may_supersede = True

    def _view(self, execution: str, done: Batch) -> RowView:
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

    def _based(self, row: rows.Row, done: Batch) -> RowView:
        """The view of a row just read: what memory holds if it is still the same, else a new one."""
        header = rows.execution_from(row)
        view = self._views.get(header.id)
        if view is None or view.header.revision != header.revision:
            view = RowView(self, row[0], header, 0, complete=not header.operations)
        done.bases[header.id] = view
        return view

    def _has_moved(self, execution: str, done: Batch) -> bool:
        """Whether memory is behind the database; if so, it is forgotten."""
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
    """The counters that a batch charges, in order."""
    return sorted({charge.key for write in batch if isinstance(write, Start | Checkpoint) for charge in write.charges})


def _check_texts(change: Change) -> None:
    """Refuse what Postgres has no text for; payloads are written so that they may hold anything (columns.py)."""
    for operation in change.operations.values():
        _check(operation.id, operation.name, operation.sub_type, operation.parent_id)
    for header in (change.header, *(birth.header for birth in change.births)):
        _check(header.client, header.tenant, header.trace)


def _check(*given: str | None) -> None:
    for text in given:
        if text is not None and "\0" in text:
            raise InvalidParameter(f"{text!r} has a NUL character. A Postgres store keeps them in payloads only.")


def last_headers(changes: Iterable[Change]) -> dict[str, Execution]:
    """Each changed execution as the batch leaves it."""
    return {change.header.id: change.header for change in changes}

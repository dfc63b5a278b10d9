"""The embedded store: one writer per process, one transaction per batch, few statements however large the batch.

A batch is decided inside its transaction. Views of executions that this process runs are kept in memory and are current as long as
SQLite's data version says that nobody else wrote; when somebody did, each is compared with its row before it is used again.
"""

from __future__ import annotations

import sqlite3
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import nullcontext

from holdfast.model import codec
from holdfast.model.chaining import follow_ups
from holdfast.model.charging import Counter, charged
from holdfast.model.errors import ExecutionNotFound, HoldfastError
from holdfast.model.execution import Change, Execution, View
from holdfast.model.ids import Seal
from holdfast.model.operations import Operation
from holdfast.model.payloads import PayloadCodec, check_text, identified
from holdfast.model.verbs import Answer, Start, Write
from holdfast.store.seam import Committed, Hosted
from holdfast.store.sqlite import rows
from holdfast.store.sqlite.credentials import Credentials
from holdfast.store.sqlite.opening import MEMORY, connect, explained, load_queries, prepare, present
from holdfast.store.sqlite.outbox import Outbox
from holdfast.store.sqlite.retention import Retention
from holdfast.store.sqlite.room import Room
from holdfast.store.sqlite.sharing import Presence
from holdfast.store.sqlite.snapshots import Snapshots
from holdfast.store.sqlite.views import Overlay, RowView
from holdfast.store.sqlite.writing import CHUNKS

_COLUMNS = {"put_executions": 41, "touch_executions": 8, "move_executions": 2, "put_operations": 17, "put_events": 7, "put_signals": 7}


Mark = tuple[int, int, int, dict[str, Counter]]


class _Batch:
    """What a batch has decided so far."""

    __slots__ = ("bases", "changes", "counters", "events", "followed", "following", "last_key", "names", "views")

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self.events: list[rows.Row] = []
        self.bases: dict[str, RowView] = {}
        """The committed view below each execution the batch has read."""
        self.views: dict[str, View] = {}
        """The latest view of each execution the batch has changed."""
        self.names: dict[tuple[str, str], str] = {}
        self.following: deque[Write] = deque()
        """What earlier writes bring to other executions, not yet decided."""
        self.followed: list[Execution] = []
        self.last_key = 0
        self.counters: dict[str, Counter] = {}
        """As the batch leaves them; made anew by each charge, so that a mark can hold on to it."""

    def mark(self) -> Mark:
        """How far it has come."""
        return len(self.changes), len(self.events), len(self.followed), self.counters

    def undo(self, mark: Mark) -> None:
        """Take back everything decided since a mark."""
        changes, events, followed, self.counters = mark
        for change in reversed(self.changes[changes:]):
            view = self.views.pop(change.header.id)
            if isinstance(view, Overlay):
                self.views[change.header.id] = view.below
            else:
                self.names.pop((change.header.function, change.header.name), None)
        del self.changes[changes:], self.events[events:], self.followed[followed:]
        self.following.clear()


class SqliteStore(Outbox, Retention, Snapshots, Credentials):
    """A store in one SQLite file."""

    def __init__(self, where: str, member: str, codec: PayloadCodec | None = None) -> None:
        self._where = where
        self._codec = codec
        self._sql = load_queries()
        self._bulk = {
            name: {size: self._sql[name].replace("{rows}", ", ".join([f"({', '.join('?' * columns)})"] * size)) for size in CHUNKS}
            for name, columns in _COLUMNS.items()
        }
        # One row alone, the lone sequential step, is spared the join.
        self._bulk["touch_executions"][1] = self._sql["touch_execution"]
        self._presence: Presence | None = None
        self._room: Room | None = None
        self._writer = self._reader = connect(where)
        try:
            prepare(self._writer, where, codec)
            if where != MEMORY:
                self._reader = connect(where)
                self._presence = present(where, member)
                self._room = Room(where)
            (key,) = self._writer.execute(self._sql["get_meta"], ("seal",)).fetchone()
        except BaseException:
            self._reader.close()
            self._writer.close()
            raise
        self._turn = self._presence.turn if self._presence else nullcontext
        self._write_lock = threading.RLock()
        self._read_lock = self._write_lock if where == MEMORY else threading.RLock()
        self.seal = Seal(key)
        self._runner: str | None = None
        self._views: dict[str, RowView] = {}
        self._version = self._data_version()
        self._foreign = False

    # --- writing

    def commit(self, batch: Sequence[Write], now: int) -> Committed:
        """Decide and write a batch in one transaction; when it returns, all it answered is on disk."""
        try:
            with self._write_lock, self._turn():
                return self._commit(batch, now)
        except (sqlite3.Error, OSError) as error:
            raise explained(error, self._where) from error

    def _commit(self, batch: Sequence[Write], now: int) -> Committed:
        writer, done = self._writer, _Batch()
        self._begin()
        try:
            self._notice_others()
            self._fetch_headers(batch, done)
            answers = []
            for write in batch:
                before = done.mark()
                answer = self._decided(write, now, done)
                if done.following:
                    refused = self._follow(now, done)
                    if refused is not None:
                        done.undo(before)
                        answer = refused
                answers.append(answer)
            signalled = self._put(done)
            writer.execute("COMMIT")
        except BaseException:
            # Nobody knows what the file holds now: memory is dropped and read again.
            self._views.clear()
            if writer.in_transaction:
                writer.execute("ROLLBACK")
            raise
        self._keep(done)
        return Committed(answers, done.followed, signalled)

    def _follow(self, now: int, done: _Batch) -> HoldfastError | None:
        """Write what the last write brings to other executions. An error means that it cannot be written, so the last write must not be."""
        while done.following:
            before = len(done.changes)
            answer = self._decided(done.following.popleft(), now, done)
            if isinstance(answer, HoldfastError) and not isinstance(answer, ExecutionNotFound):  # what is gone needs nothing
                return answer
            if len(done.changes) > before:
                done.followed.append(done.changes[-1].header)
        return None

    def _decided(self, write: Write, now: int, done: _Batch) -> Answer | HoldfastError:
        try:
            answer: Answer
            change: Change | None
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
                self._accept(change, done, now)
        except HoldfastError as refused:
            return refused
        if change is not None:
            done.views[change.header.id] = Overlay(view, change)
            if change.births or not change.slight:
                done.following.extend(follow_ups(write, view.header, change, lambda parent: self._children(parent, done)))
        return answer

    def _accept(self, change: Change, done: _Batch, now: int) -> None:
        """Take a change into the batch. Its events become rows here, so that a codec that fails spoils this entry alone."""
        execution, events = change.header.id, []
        key = done.bases[execution].key
        for event in change.events:
            operation_id = event.operation_id
            place = None if operation_id is None else change.operations[operation_id].place
            events.append(rows.event_row(key, event, place, execution, self._codec))
        if change.charges:
            after = charged(change.charges, lambda counter: done.counters.get(counter) or self._counter(counter), now)
            done.counters = done.counters | after
        done.events += events
        done.changes.append(change)

    def _children(self, parent: str, done: _Batch) -> list[str]:
        """The open executions it invoked, as this batch leaves them."""
        known = {row[0] for row in self._writer.execute(self._sql["children"], (parent,))}
        for view in done.views.values():
            if view.header.parent == parent:
                known.add(view.header.id)
        return sorted(known)

    def _created(self, start: Start, now: int, done: _Batch) -> Answer:
        change, answer = start.create(now)
        header = change.header
        if not done.last_key:
            (done.last_key,) = self._writer.execute(self._sql["last_key"]).fetchone()
        done.last_key += 1
        base = done.bases[header.id] = RowView(self, done.last_key, header, self._version, complete=True)
        self._accept(change, done, now)
        done.views[header.id] = base
        done.names[header.function, header.name] = header.id
        return answer

    def _named(self, start: Start, done: _Batch) -> View | None:
        wanted = start.header
        if wanted.name == wanted.id:
            return None  # a name made from a fresh id cannot be taken
        twin = done.names.get((wanted.function, wanted.name))
        if twin is not None:
            return done.views[twin]
        row = self._writer.execute(self._sql["named"], (wanted.function, wanted.name)).fetchone()
        return None if row is None else self._based(row, done)

    def _view(self, execution: str, done: _Batch) -> RowView:
        base = done.bases.get(execution)
        if base is not None:
            return base
        view = self._views.get(execution)
        if view is not None and view.version == self._version:
            done.bases[execution] = view
            return view
        row = self._writer.execute(self._sql["header"], (execution,)).fetchone()
        if row is None:
            raise ExecutionNotFound(f"There is no execution {execution}.")
        return self._based(row, done)

    def _based(self, row: rows.Row, done: _Batch) -> RowView:
        """The view of a row just read: what memory holds if it is still the same, else a new one."""
        header = rows.execution_from(row)
        view = self._views.get(header.id)
        if view is None or view.header.revision != header.revision:
            view = RowView(self, row[0], header, self._version, complete=False)
        view.version = self._version
        done.bases[header.id] = view
        return view

    def _fetch_headers(self, batch: Sequence[Write], done: _Batch) -> None:
        """One statement for all the headers that are not in memory, instead of one each."""
        if len(batch) == 1:
            return
        known = self._views
        wanted = [w.execution for w in batch if not isinstance(w, Start) and w.execution not in known]
        if len(wanted) > 1:
            for row in self._writer.execute(self._sql["headers"], (codec.dumps(wanted),)):
                self._based(row, done)

    def _put(self, done: _Batch) -> bool:
        """All rows of a batch, each row once, as the last change leaves it; says whether there are signals among them."""
        headers: dict[str, Execution] = {}
        wide: set[str] = set()
        operations: dict[tuple[int, str], Operation] = {}
        for change in done.changes:
            execution = change.header.id
            key = done.bases[execution].key
            headers[execution] = change.header
            if not change.slight:
                wide.add(execution)
            for operation in change.operations.values():
                operations[key, operation.id] = operation
        keys = done.bases
        self._put_rows("put_executions", [rows.execution_row(keys[x].key, headers[x]) for x in wide])
        touched = [(keys[x], h) for x, h in headers.items() if x not in wide]
        self._put_rows("touch_executions", [rows.touched_row(base.key, h) for base, h in touched])
        self._put_rows("move_executions", [(base.key, h.due_at) for base, h in touched if h.due_at != base.header.due_at])
        self._put_rows("put_operations", [rows.operation_row(key, op) for (key, _), op in operations.items()])
        self._put_rows("put_events", done.events)
        for counter in done.counters.values():
            self._writer.execute(self._sql["put_counter"], (counter.key, counter.amount, counter.until))
        signals = self._new_signals(done.changes, keys)
        self._put_rows("put_signals", signals)
        return bool(signals)

    def _keep(self, done: _Batch) -> None:
        """After COMMIT: remember the executions that this process runs, forget all others."""
        for change in done.changes:
            header = change.header
            base = done.bases[header.id]
            base.keep(change)  # also what will not be remembered: a later change of the same batch may claim it
            if header.runner is not None and header.runner == self._runner:
                self._views[header.id] = base
            else:
                self._views.pop(header.id, None)

    # --- what is read inside the transaction

    def _counter(self, key: str) -> Counter | None:
        row = self._writer.execute(self._sql["counter"], (key,)).fetchone()
        return None if row is None else Counter(*row)

    def read_operation(self, view: RowView, operation_id: str) -> Operation | None:
        """One operation with its payload."""
        row = self._writer.execute(self._sql["operation"], (view.key, operation_id)).fetchone()
        return None if row is None else rows.operation_from(row, view.header.id, self.seal, self._codec)

    def read_newer(self, view: RowView, revision: int) -> list[Operation]:
        """Operations changed after a revision."""
        found = self._writer.execute(self._sql["newer_operations"], (view.key, revision))
        return [rows.operation_from(row, view.header.id, self.seal, self._codec) for row in found]

    def read_due(self, view: RowView, now: int) -> list[Operation]:
        """Operations whose timer is due."""
        found = self._writer.execute(self._sql["due_operations"], (view.key, now))
        return [rows.operation_from(row, view.header.id, self.seal, self._codec) for row in found]

    def read_next_due(self, view: RowView, after: int) -> int | None:
        """The next timer of an execution."""
        (at,) = self._writer.execute(self._sql["next_due_operation"], (view.key, after)).fetchone()
        return None if at is None else int(at)

    def read_has_ready(self, view: RowView, since: int) -> bool:
        """Whether a step became ready after a revision and was not started since."""
        return self._writer.execute(self._sql["ready_operation"], (view.key, since)).fetchone() is not None

    # --- runners and other processes

    def join(self, runner: str, lease_until: int) -> None:
        """Register a runner; views of what it runs are kept in memory from now on."""
        self._write("join", (runner, lease_until))
        if self._codec is not None:  # under the current key, so that the one the store was made with may go some day
            self._write("put_meta", ("codec_check", check_text(self._codec)))
        self._runner = runner

    def publish(self, functions: Sequence[Hosted]) -> None:
        """Tell everybody what is hosted here, and on what terms."""
        for hosted in functions:
            self._write("publish", (hosted.function, hosted.version, *rows.terms_row(hosted.terms)))

    def renew(self, runner: str, lease_until: int) -> bool:
        """Extend the lease; False when the runner was declared dead."""
        return self._write("renew", (lease_until, runner)) == 1

    def leave(self, runner: str) -> None:
        """Take a runner off the list."""
        self._write("leave", (runner,))

    def dead(self, now: int) -> frozenset[str]:
        """Runners whose process is gone, that are silent past their lease, or that left work behind."""
        holders = {row[0] for row in self._read("holders", ())}  # first: whoever joins and claims meanwhile is not a stranger
        known: dict[str, int] = dict(self._read("runners", ()))
        alive = {runner for runner, lease_until in known.items() if lease_until > now}
        if self._presence is not None:
            alive &= self._presence.living()
        for runner in known.keys() - alive:
            self._write("bury", (runner, known[runner]))
        return frozenset(holders - alive)

    def held(self, runner: str) -> frozenset[str]:
        """What a runner still has."""
        return frozenset(row[0] for row in self._read("held", (runner,)))

    def changed(self) -> bool:
        """Whether another process wrote since the last call."""
        if self._where == MEMORY or not self._write_lock.acquire(blocking=False):
            return False
        try:
            if not self._writer.in_transaction:
                self._notice_others()
            seen, self._foreign = self._foreign, False
            return seen
        except sqlite3.Error as error:
            raise explained(error, self._where) from error
        finally:
            self._write_lock.release()

    def _notice_others(self) -> None:
        version = self._data_version()
        if version != self._version:
            self._version = version
            self._foreign = True
            if self._presence is not None:
                self._presence.alone = False

    def _data_version(self) -> int:
        (version,) = self._writer.execute("PRAGMA data_version").fetchone()
        return int(version)

    def close(self) -> None:
        """Close the file and give up this process's sign of life."""
        with self._write_lock, self._read_lock:
            self._reader.close()
            self._writer.close()
        for beside in (self._presence, self._room):
            if beside is not None:
                beside.close()

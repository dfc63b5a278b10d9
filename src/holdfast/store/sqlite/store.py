"""The embedded store: one writer per process, one transaction per batch, few statements however large the batch.

A batch is decided inside its transaction. Views of executions that this process runs are kept in memory and are current as long as
SQLite's data version says that nobody else wrote; when somebody did, each is compared with its row before it is used again.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Sequence
from contextlib import nullcontext, suppress

from holdfast.model import codec
from holdfast.model.chaining import follow_ups
from holdfast.model.charging import Counter, charged
from holdfast.model.errors import ExecutionAlreadyStarted, ExecutionNotFound, HoldfastError, RowDamaged
from holdfast.model.execution import Change, Execution, View
from holdfast.model.ids import Seal
from holdfast.model.operations import Operation
from holdfast.model.payloads import PayloadCodec, check_text, identified
from holdfast.model.verbs import Answer, Start, Write
from holdfast.store import rows
from holdfast.store.isolating import Spoilt, committed_apart, own
from holdfast.store.seam import Committed, Hosted
from holdfast.store.sqlite.batch import Batch, Blame, is_shared
from holdfast.store.sqlite.connecting import MEMORY, connect, explained, load_queries, prepare, seal_of
from holdfast.store.sqlite.credentials import Credentials
from holdfast.store.sqlite.migrating import SCHEMA_VERSION
from holdfast.store.sqlite.outbox import Outbox
from holdfast.store.sqlite.retention import Retention
from holdfast.store.sqlite.sharing import Presence
from holdfast.store.sqlite.snapshots import Snapshots
from holdfast.store.sqlite.wal_space import WalSpace
from holdfast.store.sqlite.writing import bulk
from holdfast.store.views import Overlay, RowView


class SqliteStore(Outbox, Retention, Snapshots, Credentials):
    """A store in one SQLite file."""

    def __init__(self, where: str, member: str, codec: PayloadCodec | None = None) -> None:
        self._where, self._blame = where, Blame(where)
        self._codec = codec
        self._sql = load_queries()
        self._bulk = bulk(self._sql)
        self._presence: Presence | None = None
        self._room: WalSpace | None = None
        self._writer = self._reader = connect(where)
        try:
            self._presence = prepare(self._writer, where, member, codec)
            if where != MEMORY:
                self._reader = connect(where)
                self._room = WalSpace(where)
            key = seal_of(self._writer, where)
        except BaseException:
            if self._presence is not None:
                self._presence.close()
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
        """Decide and write a batch in one transaction; when it returns, all it answered is on disk.

        If a row of it is refused, the batch is written in parts, each in a transaction of its own, without the entry the row belongs to.
        """
        try:
            with self._write_lock, self._turn():
                return committed_apart(batch, lambda part: self._commit(part, now), self._blame.shared, self._blame.refused)
        except (sqlite3.Error, OSError) as error:
            raise explained(error, self._where) from error

    def _commit(self, batch: Sequence[Write], now: int) -> Committed:
        writer, done, deciding = self._writer, Batch(), False
        try:
            self._begin()
            self._notice_others()
            deciding = True  # only now an error may be that of one entry
            self._fetch_headers(batch, done)
            answers = [self._entry(write, now, done) for write in batch]
            signalled = self._put(done)
            deciding = False
            writer.execute("COMMIT")
        except BaseException as error:
            # Nobody knows what the file holds now: memory is dropped and read again.
            self._views.clear()
            if writer.in_transaction:
                writer.execute("ROLLBACK")
            if not deciding and isinstance(error, sqlite3.Error | OSError):
                raise explained(error, self._where) from error
            if deciding and isinstance(error, HoldfastError | OSError):  # SQLite raises neither
                raise Spoilt from error
            raise
        try:
            self._keep(done)
        except Exception:  # it is on disk, whatever becomes of our memory of it
            self._views.clear()
        return Committed(answers, done.followed, signalled)

    def _entry(self, write: Write, now: int, done: Batch) -> Answer | HoldfastError:
        """Decide an entry with what it brings to other executions. Whatever goes wrong with it is its own, and leaves nothing behind."""
        before = done.mark()
        failed: HoldfastError | None
        answer: Answer | HoldfastError
        try:
            answer = self._decided(write, now, done)
            failed = self._follow(now, done) if done.following else None
        except Exception as error:
            if is_shared(error) or not self._writer.in_transaction:
                raise
            answer = failed = self._blame.refused(write, error)
        if failed is None:
            return answer
        done.undo(before)
        return failed

    def _follow(self, now: int, done: Batch) -> HoldfastError | None:
        """Write what the last write brings to other executions. An error means that it cannot be written, so the last write must not be."""
        while done.following:
            before = len(done.changes)
            answer = self._decided(done.following.popleft(), now, done)
            if isinstance(answer, HoldfastError) and not isinstance(answer, ExecutionNotFound):  # what is gone needs nothing
                return answer
            if len(done.changes) > before:
                done.followed.append(done.changes[-1].header)
        return None

    def _decided(self, write: Write, now: int, done: Batch) -> Answer | HoldfastError:
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
        except HoldfastError as told:
            return own(told)
        if change is not None:
            done.views[change.header.id] = Overlay(view, change)
            if change.births or not change.slight:
                done.following.extend(follow_ups(write, view.header, change, lambda parent: self._children(parent, done)))
        return answer

    def _accept(self, change: Change, done: Batch, now: int) -> None:
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

    def _children(self, parent: str, done: Batch) -> list[str]:
        """The open executions it invoked, as this batch leaves them."""
        known = {row[0] for row in self._writer.execute(self._sql["children"], (parent,))}
        for view in done.views.values():
            if view.header.parent == parent:
                known.add(view.header.id)
        return sorted(known)

    def _created(self, start: Start, now: int, done: Batch) -> Answer:
        change, answer = start.create(now)
        header = change.header
        if header.id in done.bases:
            raise ExecutionAlreadyStarted(f"There is another execution {header.id}.")
        if not done.last_key:
            (done.last_key,) = self._writer.execute(self._sql["last_key"]).fetchone()
        done.last_key += 1
        base = done.bases[header.id] = RowView(self, done.last_key, header, self._version, complete=True)
        try:
            self._accept(change, done, now)
        except BaseException:
            del done.bases[header.id]
            raise
        done.views[header.id] = base
        done.names[header.function, header.name] = header.id
        return answer

    def _named(self, start: Start, done: Batch) -> View | None:
        wanted = start.header
        if wanted.name == wanted.id:
            return None  # a name made from a fresh id cannot be taken
        twin = done.names.get((wanted.function, wanted.name))
        if twin is not None:
            found = done.views[twin]
        else:
            row = self._writer.execute(self._sql["named"], (wanted.function, wanted.name)).fetchone()
            if row is None:
                return None
            found = done.views.get(row[1]) or self._based(row, done)
        return found if found.header.superseded_by is None else None

    def _view(self, execution: str, done: Batch) -> RowView:
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

    def _based(self, row: rows.Row, done: Batch) -> RowView:
        """The view of a row just read: what memory holds if it is still the same, else a new one."""
        header = rows.execution_from(row)
        view = self._views.get(header.id)
        if view is None or view.header.revision != header.revision:
            view = RowView(self, row[0], header, self._version, complete=False)
        view.version = self._version
        done.bases[header.id] = view
        return view

    def _fetch_headers(self, batch: Sequence[Write], done: Batch) -> None:
        """One statement for all the headers that are not in memory, instead of one each. If it fails, each entry asks for its own."""
        if len(batch) == 1:
            return
        try:
            self._fetch_all(batch, done)
        except Exception as error:
            if is_shared(error):
                raise

    def _fetch_all(self, batch: Sequence[Write], done: Batch) -> None:
        known = self._views
        wanted = [w.execution for w in batch if not isinstance(w, Start) and w.execution not in known]
        if len(wanted) > 1:
            for row in self._writer.execute(self._sql["headers"], (codec.dumps(wanted),)).fetchall():
                with suppress(RowDamaged):  # an entry that needs this row asks for it alone, and fails alone
                    self._based(row, done)

    def _put(self, done: Batch) -> bool:
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
        # Who gives up a name comes before who takes it.
        first = sorted(wide, key=lambda x: headers[x].superseded_by is None)
        self._put_rows("put_executions", [rows.execution_row(keys[x].key, headers[x]) for x in first])
        touched = [(keys[x], h) for x, h in headers.items() if x not in wide]
        self._put_rows("touch_executions", [rows.touched_row(base.key, h) for base, h in touched])
        self._put_rows("move_executions", [(base.key, h.due_at) for base, h in touched if h.due_at != base.header.due_at])
        self._put_rows("put_operations", [rows.operation_row(key, op) for (key, _), op in operations.items()])
        self._put_rows("put_events", done.events)
        self._writer.executemany(self._sql["put_counter"], [(x.key, x.amount, x.until) for x in done.counters.values()])
        self._put_changed_notes(done.changes)
        signals = self._new_signals(done.changes, keys)
        self._put_rows("put_signals", signals)
        return bool(signals)

    def _keep(self, done: Batch) -> None:
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
        self._write("join", (runner, lease_until, SCHEMA_VERSION))
        if self._codec is not None:  # under the current key, so that the one the store was made with may go some day
            self._write("put_meta", ("codec_check", check_text(self._codec)))
        self._runner = runner

    def publish(self, functions: Sequence[Hosted]) -> None:
        """Tell everybody what is hosted here, and on what terms."""
        for hosted in functions:
            self._write("publish", (hosted.function, hosted.version, *rows.terms_row(hosted.terms), hosted.kind.value))

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

"""The embedded store: one writing connection in each process, one transaction for each batch, and few statements for a batch of any size.

A batch is decided inside its transaction. Views of executions that this process runs are kept in memory. They are current as long as
SQLite's data version says that no other process wrote; after another process wrote, each view is compared with its row before it is used.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from typing import cast

from holdfast.model import codec
from holdfast.model.charges import Counter
from holdfast.model.errors import ExecutionNotFound, HoldfastError, RowDamaged
from holdfast.model.execution import Claimant, Execution, View
from holdfast.model.operations import Operation
from holdfast.model.payloads import PayloadCodec, check_text
from holdfast.model.schedules import ScheduleState
from holdfast.model.seal import Seal
from holdfast.model.verbs import Start, Write
from holdfast.store import rows
from holdfast.store.admission_order import Head, LaneReads, LaneWalk
from holdfast.store.batch import Batch
from holdfast.store.browse_query import BrowseQuery
from holdfast.store.changes import ConsoleChanges, ScheduleChanges
from holdfast.store.decisions import Decisions
from holdfast.store.isolation import Spoilt, committed_apart, refused
from holdfast.store.lane_rows import LaneRow
from holdfast.store.ledger import CUT_OFF
from holdfast.store.list_query import ListQuery
from holdfast.store.seam import Committed, Hosted, Target
from holdfast.store.sqlite.browse_reads import SqliteBrowseReads, look_address
from holdfast.store.sqlite.connection import MEMORY, all_statements, connect, prepare, seal_of
from holdfast.store.sqlite.credentials import SqliteCredentials
from holdfast.store.sqlite.errors import explained, is_damage, is_shared
from holdfast.store.sqlite.lanes import SqliteLanes
from holdfast.store.sqlite.ledger import SqliteLedger
from holdfast.store.sqlite.operation_reads import SqliteOperationReads
from holdfast.store.sqlite.outbox import SqliteOutbox
from holdfast.store.sqlite.presence import Presence
from holdfast.store.sqlite.reads import DIALECT
from holdfast.store.sqlite.retention import SqliteRetention
from holdfast.store.sqlite.schema_migrations import SCHEMA_VERSION
from holdfast.store.sqlite.snapshots import SqliteSnapshots
from holdfast.store.sqlite.transactions import WalSpace, bulk, orders
from holdfast.store.views import RowView


class SqliteBatch(Batch):
    """A batch in one file. `last_key` is the key of the newest execution that this batch made; 0 before it makes the first one."""

    __slots__ = ("last_key",)

    def __init__(self) -> None:
        super().__init__()
        self.last_key = 0


class SqliteStore(
    SqliteLanes,
    SqliteOutbox,
    SqliteRetention,
    SqliteSnapshots,
    SqliteCredentials,
    ScheduleChanges,
    SqliteLedger,
    SqliteBrowseReads,
    ConsoleChanges,
    SqliteOperationReads,
    Decisions[SqliteBatch],
):
    """A store in one SQLite file, or in memory."""

    def __init__(self, where: str, member: str, codec: PayloadCodec | None = None) -> None:
        self._where, self._codec = where, codec
        self._sql = all_statements()
        self._lists = ListQuery(self._sql, DIALECT)
        self._browse_query = BrowseQuery(self._sql, DIALECT)
        self._looker, self._look_at = None, look_address(where)
        self._bulk, self._orders = bulk(self._sql), orders(self._sql)
        self._presence: Presence | None = None
        self._wal_space: WalSpace | None = None
        self._writer = self._reader = connect(where)
        try:
            self._presence = prepare(self._writer, where, member, codec)
            if where != MEMORY:
                self._reader = connect(where)
                self._wal_space = WalSpace(where)
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
        self._look_lock = threading.RLock()
        self.seal = Seal(key)
        self._runner = None
        self._views = {}
        self._written_graphs = set()
        self._version = self._data_version()
        self._foreign = False

    # --- writing

    def commit(self, batch: Sequence[Write], now: int) -> Committed:
        try:
            with self._write_lock, self._turn():
                try:
                    return self._commit(batch, now)
                except Exception as error:
                    return committed_apart(batch, error, lambda part: self._commit(part, now), self._shared_error, self._refused)
        except (sqlite3.Error, OSError) as error:
            raise explained(error, self._where) from error

    def _commit(self, batch: Sequence[Write], now: int) -> Committed:
        writer, done, deciding = self._writer, SqliteBatch(), False
        try:
            self._begin()
            self._notice_others()
            deciding = True  # from here on one entry may have caused an error
            self._fetch_headers(batch, done)
            answers = [self._entry(write, now, done) for write in batch]
            signalled = self._put(done, now)
            deciding = False
            writer.execute("COMMIT")
        except BaseException as error:
            # It is unknown what is in the file now, so all views are dropped from memory, and rows are read again.
            self._views.clear()
            if writer.in_transaction:
                writer.execute("ROLLBACK")
            if not deciding and isinstance(error, sqlite3.Error | OSError):
                raise explained(error, self._where) from error
            if deciding and isinstance(error, HoldfastError | OSError):  # SQLite raises none of these, so a value of an entry did
                raise Spoilt from error
            raise
        try:
            self._keep(done)
        except Exception:  # the batch is on disk, even if the views in memory are lost
            self._views.clear()
        return done.committed(answers, signalled=signalled)

    def admit(self, targets: Sequence[Target], by: Sequence[Claimant], now: int) -> Committed:
        """If `has_open_lane` returns False, nothing is written."""
        if not by or not self.has_open_lane(targets, now):
            return Committed(())
        done = SqliteBatch()
        try:
            with self._transaction() as writer:
                self._notice_others()
                writer.execute(self._sql["reopen_lanes"], (now,))
                heads = partial(self._based_heads, done)
                reads = LaneReads(self._open_lanes, heads, self._is_ordered, self._next_of_key, self._root())
                walk = LaneWalk(reads, targets, now, lambda write: self._entry(write, now, done))
                taken = walk.take(by)
                signalled = self._put(done, now, walk.changed())
        except BaseException:
            self._views.clear()
            raise
        try:
            self._keep(done)
        except Exception:  # the admissions are on disk, even if the views in memory are lost
            self._views.clear()
        return walk.committed(taken, done.changes, done.followed, signalled=signalled)

    def _based_heads(self, done: SqliteBatch, lane: str, limit: int, skip: int) -> list[Head | None]:
        """At most `limit` executions of a leaf after the first `skip`, in the order of admission; None for one whose row is damaged."""
        heads: list[Head | None] = []
        for row in self._writer.execute(self._sql["heads"], (lane, limit, skip)).fetchall():
            try:
                header = self._based(row, done).header
            except RowDamaged:
                heads.append(None)
            else:
                heads.append(Head(header.id, 0 if header.place is None else header.place.units))
        return heads

    def _shared_error(self, error: Exception) -> HoldfastError | None:
        if not is_shared(error):
            return None
        return explained(error, self._where) if isinstance(error, sqlite3.Error | OSError) else cast("HoldfastError", error)

    def _is_shared(self, error: Exception) -> bool:
        return is_shared(error) or not self._writer.in_transaction

    def _refused(self, write: Write, error: Exception) -> HoldfastError:
        return explained(error, self._where) if isinstance(error, sqlite3.Error) and is_damage(error) else refused(write, error)

    def _children(self, parent: str, done: SqliteBatch) -> list[str]:
        known = {row[0] for row in self._writer.execute(self._sql["children"], (parent,))}
        for view in done.views.values():
            if view.header.parent == parent:
                known.add(view.header.id)
        return sorted(known)

    def _new_base(self, header: Execution, done: SqliteBatch) -> RowView:
        if not done.last_key:
            (done.last_key,) = self._writer.execute(self._sql["last_key"]).fetchone()
        done.last_key += 1
        return RowView(self, done.last_key, header, self._version, complete=True)

    def _named(self, start: Start, done: SqliteBatch) -> View | None:
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

    def _view(self, execution: str, done: SqliteBatch) -> RowView:
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

    def _based(self, row: rows.Row, done: SqliteBatch) -> RowView:
        """The view for a row that was just read: the view in memory if it has the revision of the row, else a new view. It is put into
        `done.bases`."""
        header = rows.execution_from(row)
        view = self._views.get(header.id)
        if view is None or view.header.revision != header.revision:
            view = RowView(self, row[0], header, self._version, complete=False)
        view.version = self._version
        done.bases[header.id] = view
        return view

    def _fetch_headers(self, batch: Sequence[Write], done: SqliteBatch) -> None:
        """Read the headers that are not in memory with one statement, and those that other processes have changed. If one row makes it
        fail, each entry reads its own header later."""
        if len(batch) == 1:
            return
        try:
            self._fetch_all(batch, done)
        except Exception as error:
            if is_shared(error):
                raise

    def _fetch_all(self, batch: Sequence[Write], done: SqliteBatch) -> None:
        views = {write.execution: self._views.get(write.execution) for write in batch if not isinstance(write, Start)}
        stale = {execution: view for execution, view in views.items() if view is not None and view.version != self._version}
        if len(stale) > 1:
            for execution, revision in self._writer.execute(self._sql["revisions"], (codec.dumps([*stale]),)).fetchall():
                if stale[execution].header.revision == revision:
                    stale.pop(execution).version = self._version
        wanted = [execution for execution, view in views.items() if view is None or execution in stale]
        if len(wanted) > 1:
            for row in self._writer.execute(self._sql["headers"], (codec.dumps(wanted),)).fetchall():
                with suppress(RowDamaged):  # the entry that needs a damaged row reads it again, and only that entry fails
                    self._based(row, done)

    def _put(self, done: SqliteBatch, now: int, walked: Sequence[LaneRow] = ()) -> bool:
        """Write all rows of a batch, inside its transaction. A row that was changed several times is written once, as its last change
        leaves it. `walked` has the lanes that an admission has changed. Returns whether signals were written."""
        keys = done.bases
        headers: dict[str, Execution] = {}
        wide: set[str] = set()
        operations: dict[tuple[int, str], Operation] = {}
        for change in done.changes:
            execution, key = change.header.id, keys[change.header.id].key
            headers[execution] = change.header
            if not change.slight:
                wide.add(execution)
            for operation in change.operations.values():
                operations[key, operation.id] = operation
        if wide:
            changed = {x for x in wide - done.born if headers[x].superseded_by is None}
            # An execution that gives up a name is written before the one that takes the name.
            first = sorted(wide - changed, key=lambda x: headers[x].superseded_by is None)
            self._put_rows("put_executions", [rows.execution_row(keys[x].key, headers[x]) for x in first])
            self._put_rows("change_executions", [rows.changed_row(keys[x].key, headers[x]) for x in changed])
        if touched := [(keys[x], h) for x, h in headers.items() if x not in wide]:
            self._put_rows("touch_executions", [(*rows.touched_row(h), base.key) for base, h in touched])
            self._put_rows("move_executions", [(base.key, h.due_at) for base, h in touched if h.due_at != base.header.due_at])
        if operations:
            self._put_rows("put_operations", [rows.operation_row(key, op) for (key, _), op in operations.items()])
        self._put_rows("put_events", done.events)
        if done.graphs:
            self._put_graphs(done.graphs, self._stale_graphs(done))
        if done.counters:
            self._writer.executemany(self._sql["put_counter"], [(x.key, x.amount, x.until, x.reserved) for x in done.counters.values()])
        if walked or done.uses_lanes:
            self._put_lanes(done.lanes, walked, now)
        if done.moved:
            self._move_schedules(done.moved.values())
        self._put_changed_notes(done.changes)
        if paid := [change for change in done.changes if change.ledger or change.header.status in CUT_OFF]:
            self._put_ledger(paid)
        if signals := self._new_signals(done.changes, keys):
            self._put_rows("put_signals", signals)
        return bool(signals)

    def _move_schedules(self, schedules: Iterable[ScheduleState]) -> None:
        for name, parameters in map(self._moved, schedules):
            self._writer.execute(self._sql[name], parameters)

    # --- what is read inside the transaction

    def _counter(self, key: str) -> Counter | None:
        row = self._writer.execute(self._sql["counter"], (key,)).fetchone()
        return None if row is None else Counter(*row)

    def _schedule_place(self, name: str) -> tuple[int, int] | None:
        row = self._writer.execute(self._sql["schedule_place"], (name,)).fetchone()
        return None if row is None else (row[0], row[1])

    # --- runners and other processes

    def join(self, runner: str, lease_until: int) -> None:
        """From now on the views of the executions of this runner stay in memory."""
        self._change("join", (runner, lease_until, SCHEMA_VERSION))
        if self._codec is not None:  # under the current key, so that an operator can drop the key the store was made with
            self._change("put_meta", ("codec_check", check_text(self._codec)))
        self._runner = runner

    def publish(self, functions: Sequence[Hosted]) -> None:
        for hosted in functions:
            self._change("publish", (hosted.function, hosted.version, *rows.terms_row(hosted.terms), hosted.kind.value))

    def renew(self, runner: str, lease_until: int) -> bool:
        return self._change("renew", (lease_until, runner)) == 1

    def leave(self, runner: str) -> None:
        self._change("leave", (runner,))

    def dead(self, now: int) -> frozenset[str]:
        holders = {row[0] for row in self._read("holders", ())}  # read this first: a runner that joins later holds nothing yet
        known: dict[str, int] = dict(self._read("runners", ()))
        alive = {runner for runner, lease_until in known.items() if lease_until > now}
        if self._presence is not None:
            alive &= self._presence.living()
        for runner in known.keys() - alive:
            self._change("bury", (runner, known[runner]))
        return frozenset(holders - alive)

    def changed(self) -> bool:
        """Always False for a store in memory."""
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
                self._presence.doubt()

    def _data_version(self) -> int:
        (version,) = self._writer.execute("PRAGMA data_version").fetchone()
        return int(version)

    def close(self) -> None:
        """Close the file, and remove this store's sign of life (presence.py)."""
        self._close_looker()
        with self._write_lock, self._read_lock:
            self._reader.close()
            self._writer.close()
        for beside in (self._presence, self._wal_space):
            if beside is not None:
                beside.close()

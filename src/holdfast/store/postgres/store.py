"""The store of a fleet: a batch is decided on views in memory, and one statement writes it if the views are current.

Views of executions that this process runs are kept in memory. If another process has changed such an execution, the statement that writes
the batch finds another revision and writes nothing. Then the batch is decided again, inside a transaction that first locks the rows it
reads, so that no other process can change them again.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Final, cast

import psycopg

from holdfast.model.clock import Clock
from holdfast.model.errors import HoldfastError, StoreBusy, StoreUnsuitable
from holdfast.model.execution import Change
from holdfast.model.operations import Operation
from holdfast.model.payloads import PayloadCodec, check_text
from holdfast.model.seal import Seal
from holdfast.model.verbs import Answer, Write
from holdfast.store import rows
from holdfast.store.admission_order import ROOT
from holdfast.store.browse_query import BrowseQuery
from holdfast.store.changes import ScheduleChanges
from holdfast.store.isolation import Spoilt, committed_apart, refused
from holdfast.store.lane_rows import LaneRow
from holdfast.store.ledger import has_ledger
from holdfast.store.list_query import ListQuery
from holdfast.store.outbox import signals_of
from holdfast.store.postgres.address import parsed
from holdfast.store.postgres.admissions import PostgresAdmissions, is_news
from holdfast.store.postgres.batch_statement import StatementResult
from holdfast.store.postgres.browse_reads import PostgresBrowseReads
from holdfast.store.postgres.changes import has_notes
from holdfast.store.postgres.clock import DatabaseClock
from holdfast.store.postgres.columns import numbers, texts
from holdfast.store.postgres.connection import load_queries, prepare
from holdfast.store.postgres.console_state import PostgresConsole
from holdfast.store.postgres.credentials import PostgresCredentials
from holdfast.store.postgres.decisions import PostgresBatch, charged_keys, has_graphs, last_headers, moved_names
from holdfast.store.postgres.errors import explained, is_moved, is_shared
from holdfast.store.postgres.lanes import Moved, entrants, lane_writes
from holdfast.store.postgres.ledger import PostgresLedger
from holdfast.store.postgres.outbox import PostgresOutbox
from holdfast.store.postgres.reads import DIALECT
from holdfast.store.postgres.retention import PostgresRetention
from holdfast.store.postgres.schema_migrations import SCHEMA_VERSION
from holdfast.store.postgres.session import Session, Statement
from holdfast.store.postgres.snapshots import PostgresSnapshots
from holdfast.store.seam import Committed, Hosted

_ATTEMPTS: Final = 10


class PostgresStore(
    PostgresOutbox,
    PostgresRetention,
    PostgresSnapshots,
    PostgresCredentials,
    ScheduleChanges,
    PostgresLedger,
    PostgresBrowseReads,
    PostgresConsole,
    PostgresAdmissions,
):
    """A store in one schema of a Postgres database."""

    def __init__(self, where: str, member: str, codec: PayloadCodec | None = None, *, migrate: bool = False) -> None:
        address = parsed(where)
        self._shown = address.shown
        self._codec = codec
        self._member = member
        self._channel = address.schema
        self._texts = load_queries(address.schema)
        self._lists = ListQuery(self._texts, DIALECT)
        self._browse_query = BrowseQuery(self._texts, DIALECT)
        self._looker = None
        self._address = address
        self._look_lock = threading.RLock()
        self._sql = {name: Statement(text) for name, text in self._texts.items()}
        self._statements = {}
        self._views = {}
        self._written_graphs = set()
        self._known = set()
        self._runner = None
        self._time: DatabaseClock | None = None
        self._untold: list[Change] = []
        """Changes that follow-ups made in a batch that was in doubt (doubts.py) and was found to be written. The result of the next batch
        has these changes, too."""
        self._foreign = False
        self._is_heard = True
        """Whether there may be a subscriber of signals. False if there was none at the last look."""
        self._writer = Session(address, self._texts["session"].encode())
        try:
            self.seal = Seal(prepare(self._writer, address, self._texts, codec, migrating=migrate))
            self._backend = self._whoami()
            self._side = Session(address, self._texts["session"].encode(), self._listen)
        except BaseException:
            self._writer.close()
            raise
        self._foreign = False

    # --- writing

    def commit(self, batch: Sequence[Write], now: int) -> Committed:
        with self._writer.lock:
            try:
                known, followed = self._resolved()
                self._untold += followed
                try:
                    done = self._commit(batch, now, known)
                except Exception as error:
                    done = committed_apart(batch, error, lambda part: self._commit(part, now, known), self._shared_error, self._refused)
                if self._untold:
                    headers = [change.header for change in self._untold]
                    done = done._replace(followed=[*headers, *done.followed], changes=[*self._untold, *done.changes])
                    self._untold = []
                return done
            except BaseException as error:
                self._views.clear()
                if isinstance(error, psycopg.Error):
                    raise explained(error, self._shown) from error
                raise

    def _shared_error(self, error: Exception) -> HoldfastError | None:
        self._views.clear()
        if not is_shared(error):
            return None
        return explained(error, self._shown) if isinstance(error, psycopg.Error) else cast("HoldfastError", error)

    def _refused(self, write: Write, error: Exception) -> HoldfastError:
        if isinstance(error, psycopg.Error) and (error.sqlstate or "").startswith("XX"):  # a row or its index is damaged
            return explained(error, self._shown)
        return refused(write, error)

    def _commit(self, batch: Sequence[Write], now: int, known: Mapping[int, Answer | HoldfastError]) -> Committed:
        read: set[str] = set()
        crossed: psycopg.Error | None = None
        charging = _needs_locks(batch)
        for attempt in range(_ATTEMPTS):
            done = PostgresBatch(locking=attempt > 0 or charging)
            try:
                if done.locking:
                    with self._writer.transaction():
                        signalled = self._attempt(batch, now, read, done, known)
                else:
                    signalled = self._attempt(batch, now, read, done, known)
                self._remember(done)
                return done.committed(done.answers, signalled=signalled)
            except Moved:
                pass
            except psycopg.Error as error:
                if self._writer.is_lost:
                    if self._is_written(batch, done):
                        self._forget(done)
                        return done.committed(done.answers, signalled=True)
                elif not is_moved(error):
                    raise
                crossed = error
            self._forget(done)
            read |= done.bases.keys() - done.born
        if crossed is not None:
            raise crossed
        raise StoreBusy(
            f"{self._shown}: other processes changed the same executions {_ATTEMPTS} times before they could be written. Try again."
        )

    def _attempt(
        self, batch: Sequence[Write], now: int, read: set[str], done: PostgresBatch, known: Mapping[int, Answer | HoldfastError]
    ) -> bool:
        """Decide a batch and write it. Returns whether signals were written. Raises Moved if the batch must be decided again. An error of
        Holdfast is raised as the cause of a Spoilt, because it comes from a value of an entry."""
        try:
            return self._decide_and_write(batch, now, read, done, known)
        except HoldfastError as error:  # the driver raises none
            raise Spoilt from error

    def _decide_and_write(
        self, batch: Sequence[Write], now: int, read: set[str], done: PostgresBatch, known: Mapping[int, Answer | HoldfastError]
    ) -> bool:
        self._fetch(batch, now, read, done)
        self._decide(batch, now, done, known)
        if done.made.lanes:
            self._unmake(done.made, (change.header for change in done.changes))
        if not done.changes:
            return False
        if not done.locking and (done.graphs or any(change.notes for change in done.changes)):
            raise Moved  # graphs and notes are statements of their own, so all need one transaction
        if not done.locking and self._lost_calls(done.changes):
            raise Moved  # as above; a call that begins later changes the revision of its execution
        if done.graphs:
            self._put_graphs(done.graphs, self._stale_graphs(done))
        done.sent = True
        agreed, signalled = self._put(done, now)
        if not agreed:
            done.sent = False
            raise Moved
        if done.counters:
            counters = done.counters.values()
            columns = (numbers(c.amount for c in counters), numbers(c.until for c in counters), numbers(c.reserved for c in counters))
            self._writer.run(self._sql["put_counters"], (texts(done.counters), *columns))
        if done.moved:
            for name, parameters in map(self._moved, done.moved.values()):
                self._writer.run(self._sql[name], parameters)
        self._put_changed_notes(done.changes)
        self._put_ledger(done.changes)
        return signalled

    def _put(self, done: PostgresBatch, now: int, walked: Sequence[LaneRow] | None = None) -> StatementResult:
        """Write all rows of a batch. A row that was changed several times is written once, as its last change leaves it. Returns whether
        the revisions agreed (if not, nothing was written), and whether signals were written. `walked` has the lanes that an admission has
        changed; the executions that an admission changes are locked, so their revisions are not compared.

        Signals are left out while there is no subscriber. If the statement then finds one, the batch is written with signals."""
        bases = done.bases
        headers = last_headers(done.changes)
        wide = {change.header.id for change in done.changes if not change.slight}
        operations: dict[tuple[int, str], Operation] = {}
        for change in done.changes:
            key = bases[change.header.id].key
            for operation in change.operations.values():
                operations[key, operation.id] = operation
        # In the same order for all processes, so that two batches never wait for names of each other. Of two that had the same name one
        # after the other in this batch, the one that gave it up is written first.
        new = sorted(wide & done.born, key=lambda x: (headers[x].name, headers[x].function, headers[x].superseded_by is None))
        signals = signals_of(done.changes, bases) if self._is_heard else ()
        unheard = bool(wide) and not self._is_heard
        written = self._write(
            {
                "changes": [rows.changed_row(bases[x].key, headers[x]) for x in headers if x in wide and x not in done.born],
                "executions": [rows.execution_row(bases[x].key, headers[x]) for x in new],
                "touches": [(bases[x].key, *rows.touched_row(h), h.due_at) for x, h in headers.items() if x not in wide],
                "operations": [rows.operation_row(key, operation) for (key, _), operation in operations.items()],
                "events": done.events,
                "signals": signals,
                **lane_writes(done.lanes, walked or ()),
            },
            {} if walked is not None else {bases[x].key: bases[x].header.revision for x in headers if x not in done.born},
            news=bool(wide) if walked is None else is_news(headers.values(), walked),
            unheard=unheard,
            clock=next((lane.clock for lane in walked or () if lane.key == ROOT), None),
            now=now,
        )
        if unheard and not written.agreed:
            self._is_heard = True
            return self._put(done, now, walked)
        self._is_heard &= not signals or not written.agreed or written.signalled
        return written

    def _remember(self, done: PostgresBatch) -> None:
        self._know_lanes(done.lanes)
        try:
            self._keep(done)
        except Exception:  # the batch is in the database, even if the views in memory are lost
            self._views.clear()

    def _forget(self, done: PostgresBatch) -> None:
        for execution in done.bases:
            self._views.pop(execution, None)

    # --- runners and other processes

    def clock(self, machine: Clock) -> Clock:
        """The clock that this process must use: one that follows the database's time. A virtual clock of a test is returned unchanged."""
        if machine.virtual:
            return machine
        self._time = DatabaseClock(machine)
        before = machine.now()
        ((theirs,),) = self._read("time")
        self._time.compare(before, theirs, machine.now())
        return self._time

    def join(self, runner: str, lease_until: int) -> None:
        """From now on the views of the executions of this runner stay in memory. Raises StoreUnsuitable if the store was migrated meanwhile
        and this code may not use it any more."""
        if not self._read("join", {"runner": runner, "lease_until": lease_until, "code": SCHEMA_VERSION}):
            raise StoreUnsuitable(
                f"{self._shown} was migrated meanwhile, and code of schema version {SCHEMA_VERSION} may not use it any more. "
                "Install the newer release."
            )
        if self._codec is not None:  # under the current key, so that an operator can drop the key the store was made with
            self._read("put_meta", ("codec_check", check_text(self._codec)))
        self._runner = runner

    def publish(self, functions: Sequence[Hosted]) -> None:
        for hosted in functions:
            self._read("publish", (hosted.function, hosted.version, *rows.terms_row(hosted.terms), hosted.kind.value))

    def renew(self, runner: str, lease_until: int) -> bool:
        """This call also compares the clock of this machine with the database's."""
        time = self._time
        before = 0 if time is None else time.machine.now()
        said = self._read("renew", (lease_until, runner))
        if time is not None and said:
            time.compare(before, said[0][0], time.machine.now())
        return bool(said)

    def leave(self, runner: str) -> None:
        """Remove the registration of a runner, and notify the other processes: one of them may take over the runner's deliveries."""
        if self._side.change(self._sql["leave"], (runner,)):
            self._notify()
        if runner == self._runner:
            self._runner = None

    def dead(self, now: int) -> frozenset[str]:
        holders = {row[0] for row in self._read("holders")}  # read this first: a runner that joins later holds nothing yet
        self._side.change(self._sql["bury"], (now,))
        return frozenset(holders - {row[0] for row in self._read("runners")})

    def _listen(self, connection: psycopg.Connection) -> None:
        """Listen for the notices of other processes on a new connection. Notices were lost while there was none, so `changed` returns True
        next."""
        connection.add_notify_handler(self._hear)
        connection.execute(f'LISTEN "{self._channel}"'.encode())
        self._foreign = True

    def _hear(self, notice: psycopg.Notify) -> None:
        if notice.payload != self._member:
            self._foreign = True

    def changed(self) -> bool:
        """An ordinary checkpoint is no write that another process may wait for. The result is also True after an admission that passed over
        rows which other processes had locked."""
        if not self._side.lock.acquire(blocking=False):
            return False
        try:
            self._read("ping")
            seen, self._foreign = self._foreign, False
            return seen
        finally:
            self._side.lock.release()

    def close(self) -> None:
        """Remove the registration of the runner, if it has not left already, and close the connections."""
        self._close_looker()
        try:
            if self._runner is not None:
                self.leave(self._runner)
        except HoldfastError:
            pass  # the lease ends by itself
        finally:
            self._side.close()
            self._writer.close()


def _needs_locks(batch: Sequence[Write]) -> bool:
    """Whether a batch needs a transaction that locks rows before it reads them: it charges counters, moves schedules, enqueues executions,
    or brings notes, graphs or entries of the ledger."""
    try:
        shared = charged_keys(batch) or moved_names(batch) or has_notes(batch) or has_graphs(batch) or has_ledger(batch)
        return bool(shared) or any(True for _ in entrants(batch))
    except HoldfastError as error:
        raise Spoilt from error

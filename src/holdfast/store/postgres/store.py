"""The store of a fleet: a batch is decided on what is known, and written by one statement if nothing has moved.

Views of executions that this process runs are kept in memory. They are believed: if somebody else wrote meanwhile, the statement that
writes the batch notices (every write moves an execution's revision) and writes nothing. Then the batch is decided again, inside a
transaction that first locks what it reads, so that nobody can be quicker twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, cast

import psycopg

from holdfast.model.clock import Clock
from holdfast.model.errors import DiskFailed, HoldfastError, StoreBusy, StoreUnsuitable
from holdfast.model.execution import Execution
from holdfast.model.ids import Seal
from holdfast.model.operations import Operation
from holdfast.model.payloads import PayloadCodec, check_text
from holdfast.model.verbs import Answer, Write
from holdfast.store import rows
from holdfast.store.isolating import Spoilt, committed_apart, refused
from holdfast.store.postgres.address import parsed
from holdfast.store.postgres.auditing import has_notes
from holdfast.store.postgres.clock import DatabaseClock
from holdfast.store.postgres.columns import numbers, texts
from holdfast.store.postgres.connecting import load_queries, prepare
from holdfast.store.postgres.credentials import Credentials
from holdfast.store.postgres.deciding import Batch, Deciding, charged_keys, last_headers
from holdfast.store.postgres.migrating import SCHEMA_VERSION
from holdfast.store.postgres.outbox import Outbox, signals_of
from holdfast.store.postgres.retention import Retention
from holdfast.store.postgres.session import Session
from holdfast.store.postgres.snapshots import Snapshots
from holdfast.store.postgres.trouble import explained, is_moved, is_shared
from holdfast.store.seam import Committed, Hosted
from holdfast.store.views import RowView

_ATTEMPTS: Final = 10


class _Moved(Exception):
    """What the batch was decided on is not so any more."""


class _Doubt(NamedTuple):
    """A batch whose connection was lost when it was written, so that nobody knows what became of it."""

    batch: Sequence[Write]
    done: Batch
    backend: tuple[int, str]


class PostgresStore(Outbox, Retention, Snapshots, Credentials, Deciding):
    """A store in one schema of a Postgres database."""

    def __init__(self, where: str, member: str, codec: PayloadCodec | None = None, *, migrate: bool = False) -> None:
        address = parsed(where)
        self._shown = address.shown
        self._codec = codec
        self._member = member
        self._channel = address.schema
        self._texts = load_queries(address.schema)
        self._sql = {name: text.encode() for name, text in self._texts.items()}
        self._statements = {}
        self._views: dict[str, RowView] = {}
        self._runner: str | None = None
        self._time: DatabaseClock | None = None
        self._doubt: _Doubt | None = None
        self._untold: list[Execution] = []
        """What changed with a batch that was in doubt; told with the next one that is answered."""
        self._foreign = False
        self._writer = Session(address, self._sql["session"])
        try:
            self.seal = Seal(prepare(self._writer, address, self._texts, codec, migrating=migrate))
            self._backend = self._whoami()
            self._side = Session(address, self._sql["session"], self._listen)
        except BaseException:
            self._writer.close()
            raise
        self._foreign = False

    # --- writing

    def commit(self, batch: Sequence[Write], now: int) -> Committed:
        """Decide and write a batch in one transaction; when it returns, all it answered is on disk.

        If a row of it is refused, the batch is written in parts, each in a transaction of its own, without the entry the row belongs to.
        """
        with self._writer.lock:
            try:
                known, followed = self._resolved()
                self._untold += followed
                done = committed_apart(batch, lambda part: self._commit(part, now, known), self._judged, self._refused)
                if self._untold:
                    done = done._replace(followed=[*self._untold, *done.followed])
                    self._untold = []
                return done
            except BaseException as error:
                self._views.clear()
                if isinstance(error, psycopg.Error):
                    raise explained(error, self._shown) from error
                raise

    def _judged(self, error: Exception) -> HoldfastError | None:
        self._views.clear()
        if not is_shared(error):
            return None
        return explained(error, self._shown) if isinstance(error, psycopg.Error) else cast("HoldfastError", error)

    def _refused(self, write: Write, error: Exception) -> HoldfastError:
        damaged = isinstance(error, psycopg.Error) and (error.sqlstate or "").startswith("XX")
        return explained(error, self._shown) if isinstance(error, psycopg.Error) and damaged else refused(write, error)

    def _commit(self, batch: Sequence[Write], now: int, known: Mapping[int, Answer | HoldfastError]) -> Committed:
        read: set[str] = set()
        crossed: psycopg.Error | None = None
        charging = _needs_locks(batch)
        for attempt in range(_ATTEMPTS):
            done = Batch(locking=attempt > 0 or charging)
            try:
                if done.locking:
                    with self._writer.transaction():
                        signalled = self._attempt(batch, now, read, done, known)
                else:
                    signalled = self._attempt(batch, now, read, done, known)
                self._remember(done)
                return Committed(done.answers, done.followed, signalled)
            except _Moved:
                pass
            except psycopg.Error as error:
                if self._writer.is_lost:
                    if self._is_landed(batch, done):
                        self._forget(done)
                        return Committed(done.answers, done.followed, True)
                elif not is_moved(error):
                    raise
                crossed = error
            self._forget(done)
            read |= done.bases.keys() - done.born
        if crossed is not None:
            raise crossed
        raise StoreBusy(f"{self._shown}: others changed the same executions {_ATTEMPTS} times before they could be written.")

    def _attempt(self, batch: Sequence[Write], now: int, read: set[str], done: Batch, known: Mapping[int, Answer | HoldfastError]) -> bool:
        """Decide and write; says whether there are signals."""
        try:
            return self._decide_and_write(batch, now, read, done, known)
        except HoldfastError as error:  # the driver raises none
            raise Spoilt from error

    def _decide_and_write(
        self, batch: Sequence[Write], now: int, read: set[str], done: Batch, known: Mapping[int, Answer | HoldfastError]
    ) -> bool:
        self._fetch(batch, now, read, done)
        self._decide(batch, now, done, known)
        if not done.changes:
            return False
        if not done.locking and any(change.notes for change in done.changes):
            raise _Moved  # a note and what it tells of are two statements, which one transaction holds together
        done.sent = True
        agreed, signalled = self._put(done)
        if not agreed:
            done.sent = False
            raise _Moved
        if done.counters:
            counters = done.counters.values()
            columns = texts(done.counters), numbers(c.amount for c in counters), numbers(c.until for c in counters)
            self._writer.run(self._sql["put_counters"], columns)
        self._put_changed_notes(done.changes)
        return signalled

    def _put(self, done: Batch) -> tuple[bool, bool]:
        """All rows of a batch, each row once, as the last change leaves it."""
        bases = done.bases
        headers = last_headers(done.changes)
        wide = {change.header.id for change in done.changes if not change.slight}
        operations: dict[tuple[int, str], Operation] = {}
        for change in done.changes:
            key = bases[change.header.id].key
            for operation in change.operations.values():
                operations[key, operation.id] = operation
        # In one order for all processes: who waits for a name waits for somebody who does not wait for one of ours. Who gives up a name
        # comes before who takes it.
        new_and_changed = sorted(wide, key=lambda x: (headers[x].name, headers[x].function, headers[x].superseded_by is None))
        return self._write(
            {
                "executions": [rows.execution_row(bases[x].key, headers[x]) for x in new_and_changed],
                "touches": [(*rows.touched_row(bases[x].key, h), h.due_at) for x, h in headers.items() if x not in wide],
                "operations": [rows.operation_row(key, operation) for (key, _), operation in operations.items()],
                "events": done.events,
                "signals": signals_of(done.changes, bases),
            },
            {bases[x].key: bases[x].header.revision for x in headers if x not in done.born},
            news=bool(wide),
        )

    def _remember(self, done: Batch) -> None:
        try:
            self._keep(done)
        except Exception:  # it is in the database, whatever becomes of our memory of it
            self._views.clear()

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

    def _forget(self, done: Batch) -> None:
        """Somebody else wrote: whatever this batch was decided on is read again."""
        for execution in done.bases:
            self._views.pop(execution, None)

    # --- when the connection is lost

    def _whoami(self) -> tuple[int, str]:
        ((pid, since),) = self._writer.run(self._sql["whoami"], prepare=False)
        return pid, since

    def _is_landed(self, batch: Sequence[Write], done: Batch) -> bool:
        """A new connection in place of the lost one, and whether what was said last on that one was done."""
        if done.sent:
            self._doubt = _Doubt(batch, done, self._backend)
        self._writer.reopen()
        self._backend = self._whoami()
        return self._doubt is not None and self._is_there(self._doubt)

    def _is_there(self, doubt: _Doubt) -> bool:
        """Whether a batch is in the database after all. First its connection must be gone there too, or it might still come."""
        gone = self._writer.run(self._sql["outlive"], doubt.backend, prepare=False)
        if gone and not gone[0][0]:
            raise DiskFailed(f"{self._shown} is still at work on a lost connection; nobody knows yet what it writes.")
        headers = last_headers(doubt.done.changes)
        found = self._writer.run(self._sql["headers"], (list(headers),), prepare=False)
        self._doubt = None
        return any(_is_ours(rows.execution_from(row), headers, doubt.done) for row in found)

    def _resolved(self) -> tuple[Mapping[int, Answer | HoldfastError], Sequence[Execution]]:
        """Answers of entries that were written when the connection was lost, and whose callers were told to try again."""
        doubt = self._doubt
        if doubt is None:
            return {}, ()
        if self._writer.is_lost:
            self._writer.reopen()
            self._backend = self._whoami()
        if not self._is_there(doubt):
            return {}, ()
        return {id(write): answer for write, answer in zip(doubt.batch, doubt.done.answers, strict=True)}, doubt.done.followed

    # --- runners and other processes

    def clock(self, machine: Clock) -> Clock:
        """The database's time; a test's own stays what it is."""
        if machine.virtual:
            return machine
        self._time = DatabaseClock(machine)
        before = machine.now()
        ((theirs,),) = self._read("time")
        self._time.compare(before, theirs, machine.now())
        return self._time

    def join(self, runner: str, lease_until: int) -> None:
        """Register a runner; views of what it runs are kept in memory from now on."""
        if not self._read("join", {"runner": runner, "lease_until": lease_until, "code": SCHEMA_VERSION}):
            raise StoreUnsuitable(
                f"{self._shown} was migrated meanwhile, and code of schema version {SCHEMA_VERSION} may not use it any more."
            )
        if self._codec is not None:  # under the current key, so that the one the store was made with may go some day
            self._read("put_meta", ("codec_check", check_text(self._codec)))
        self._runner = runner

    def publish(self, functions: Sequence[Hosted]) -> None:
        """Tell everybody what is hosted here, and on what terms."""
        for hosted in functions:
            self._read("publish", (hosted.function, hosted.version, *rows.terms_row(hosted.terms), hosted.kind.value))

    def renew(self, runner: str, lease_until: int) -> bool:
        """Extend the lease; False when the runner was declared dead. Also compares the clocks."""
        time = self._time
        before = 0 if time is None else time.machine.now()
        said = self._read("renew", (lease_until, runner))
        if time is not None and said:
            time.compare(before, said[0][0], time.machine.now())
        return bool(said)

    def leave(self, runner: str) -> None:
        """Take a runner off the list; others may want to deliver in its place."""
        if self._side.change(self._sql["leave"], (runner,)):
            self._read("notify", (self._channel, self._member))
        if runner == self._runner:
            self._runner = None

    def dead(self, now: int) -> frozenset[str]:
        """Runners that are silent past their lease, or that left work behind."""
        holders = {row[0] for row in self._read("holders")}  # first: whoever joins and claims meanwhile is not a stranger
        self._side.change(self._sql["bury"], (now,))
        return frozenset(holders - {row[0] for row in self._read("runners")})

    def held(self, runner: str) -> frozenset[str]:
        """What a runner still has."""
        return frozenset(row[0] for row in self._read("held", (runner,)))

    def _listen(self, connection: psycopg.Connection) -> None:
        """On every new connection. What was said while there was none was not heard, so that counts as news."""
        connection.add_notify_handler(self._hear)
        connection.execute(f'LISTEN "{self._channel}"'.encode())
        self._foreign = True

    def _hear(self, notice: psycopg.Notify) -> None:
        if notice.payload != self._member:
            self._foreign = True

    def changed(self) -> bool:
        """Whether another process wrote something that others may wait for; an ordinary checkpoint is nobody else's business."""
        if not self._side.lock.acquire(blocking=False):
            return False
        try:
            self._read("ping")
            seen, self._foreign = self._foreign, False
            return seen
        finally:
            self._side.lock.release()

    def close(self) -> None:
        """Leave, if nobody has yet, and close the connections."""
        try:
            if self._runner is not None:
                self.leave(self._runner)
        except HoldfastError:
            pass  # the lease runs out by itself
        finally:
            self._side.close()
            self._writer.close()


def _needs_locks(batch: Sequence[Write]) -> bool:
    """Rows that all writers share are locked before they are read: another writer is always quicker there."""
    try:
        return bool(charged_keys(batch)) or has_notes(batch)
    except HoldfastError as error:
        raise Spoilt from error


def _is_ours(found: Execution, headers: dict[str, Execution], done: Batch) -> bool:
    """Whether a row shows that a batch was written: it is as the batch leaves it, was made by it, or is still its invocation."""
    left = headers[found.id]
    claimed = left.invocation is not None and left.epoch != done.bases[found.id].header.epoch
    return found == left or found.id in done.born or (claimed and (found.epoch, found.invocation) == (left.epoch, left.invocation))

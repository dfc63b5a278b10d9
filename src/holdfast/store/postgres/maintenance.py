"""What an operator does with a store in a Postgres schema. To back up and to restore, use Postgres's own tools."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final, NoReturn

from holdfast.model.clock import Clock
from holdfast.model.errors import InvalidParameter, StoreNotFound
from holdfast.store.maintenance import CheckReport, Finding, Migrated, Removable, Sizes, StoreReport, TableSize
from holdfast.store.postgres.address import parsed, without_password
from holdfast.store.postgres.connection import apply, load_queries, load_statements, look
from holdfast.store.postgres.schema_migrations import CHECKED_SINCE, LINEAGE, SINCE, numbers_of
from holdfast.store.postgres.session import ONE_MOMENT, Session
from holdfast.store.schema_migrations import Numbers, SchemaStatus, known

_FEW: Final = 20
"""A report has at most this many findings of one check."""


class PostgresMaintenance:
    """The commands of an operator on a store in one schema."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._address = parsed(where)
        self._texts = load_queries(self._address.schema)

    @contextmanager
    def _session(self) -> Iterator[tuple[Session, Numbers]]:
        """A connection to the store, and the numbers of its schema. Raises StoreNotFound if there is no store."""
        with closing(Session(self._address, self._texts["session"].encode())) as session:
            yield session, self._numbers(session)

    def _numbers(self, session: Session) -> Numbers:
        found = look(session, self._address, self._texts)
        if found is None:
            raise StoreNotFound(f"There is no store at {self._address.shown}. The first process that opens it makes it.")
        return numbers_of(found)

    def look(self, machine: Clock) -> StoreReport:
        """Read the version numbers of the schema, the size of the store as Postgres counts it, and how far the database's clock is ahead of
        `machine`, the clock of this machine."""
        with self._session() as (session, numbers):
            behind = LINEAGE.status(self._address.shown, numbers) is SchemaStatus.BEHIND
            with session.explained_transaction(begin=ONE_MOMENT):
                sizes = session.run(load_statements("sizes.sql")["tables"].encode(), prepare=False)
                before = machine.now()
                ((theirs,),) = session.run(self._texts["time"].encode(), prepare=False)
                ahead = theirs - (before + machine.now()) // 2
        return StoreReport(numbers, LINEAGE.newest, behind, sum(used for _, used in sizes), ahead)

    def migrate(self, *, after: bool) -> Migrated:
        with self._session() as (session, before):
            steps = apply(session, self._address, self._texts, after=after)
            now = self._numbers(session)
        return Migrated(before, now, steps, LINEAGE.pending(now, after=True))

    def check(self, *, quick: bool) -> CheckReport:
        """Check that the rows agree with each other, in the state of one moment. It does not check pages, which `pg_amcheck` does, so
        `quick` makes no difference."""
        findings = []
        with self._session() as (session, numbers):
            status = LINEAGE.status(self._address.shown, numbers)
            with session.explained_transaction(begin=ONE_MOMENT):
                session.run(load_statements("sizes.sql")["whole_plans"].encode(), prepare=False)
                for name, question in load_statements("checks.sql").items():
                    if numbers.version < CHECKED_SINCE.get(name, 0):
                        continue
                    found = session.run(known(question, SINCE, numbers.version).encode(), {"limit": _FEW}, prepare=False)
                    findings += [Finding(name, *row) for row in found]
        return CheckReport(numbers, status is SchemaStatus.BEHIND, findings)

    def size(self, now: int) -> Sizes:
        """The sizes of tables with their indexes, as Postgres counts them, and how much retention can remove."""
        sql = load_statements("sizes.sql")
        with self._session() as (session, _), session.explained_transaction(begin=ONE_MOMENT):
            session.run(sql["whole_plans"].encode(), prepare=False)
            tables = []
            for name, used in session.run(sql["tables"].encode(), prepare=False):
                ((rows,),) = session.run(sql["rows_of"].replace("{table}", name).encode(), prepare=False)
                tables.append(TableSize(name, rows, used))
            ((over, over_bytes, kept, kept_bytes),) = session.run(sql["removable"].encode(), {"now": now}, prepare=False)
        total = sum(table.bytes or 0 for table in tables)
        return Sizes(tables, total, None, None, Removable(over, over_bytes), Removable(kept, kept_bytes))

    def backup(self, target: Path, *, replace: bool) -> NoReturn:
        """Always raises InvalidParameter, because Postgres's own tools do this. The message has the command."""
        words = ["pg_dump", "--format=custom", f"--schema={self._address.schema}", f"--file={target}", without_password(self._where)]
        raise InvalidParameter(
            f"Use Postgres's own tool to back up a Postgres store; processes may use the store meanwhile: {shlex.join(words)}"
        )

    def restore(self, source: Path) -> NoReturn:
        """Always raises InvalidParameter, because Postgres's own tools do this. The message has the command."""
        words = ["pg_restore", "--clean", "--if-exists", "--single-transaction", f"--dbname={without_password(self._where)}", str(source)]
        raise InvalidParameter(f"Use Postgres's own tool to restore a Postgres store, while no process has it open: {shlex.join(words)}")

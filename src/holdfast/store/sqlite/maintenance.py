"""What an operator does with a store's file."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final

from holdfast.model.clock import Clock
from holdfast.model.errors import InvalidParameter, StoreNotFound
from holdfast.model.payloads import PayloadCodec
from holdfast.store.maintenance import CheckReport, Finding, Migrated, Removable, Sizes, StoreReport, TableSize
from holdfast.store.rows import Row
from holdfast.store.schema_migrations import SchemaStatus, known
from holdfast.store.sqlite.backup import copy_to
from holdfast.store.sqlite.connection import connect, load_queries, prepare
from holdfast.store.sqlite.errors import explained
from holdfast.store.sqlite.restore import restore
from holdfast.store.sqlite.schema_migrations import CHECKED_SINCE, LINEAGE, SINCE, numbers_of

_FEW: Final = 20
"""A report has at most this many findings of one check."""
_DAMAGED: Final = "file_damaged"


class SqliteMaintenance:
    """The commands of an operator on a store in one file."""

    def __init__(self, where: str, member: str, codec: PayloadCodec | None = None) -> None:
        self._where = where
        self._member = member
        self._codec = codec
        self._sql = load_queries()

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        if not Path(self._where).exists():
            raise StoreNotFound(f"There is no store at {self._where}. The first process that opens it makes it.")
        try:
            with closing(connect(self._where)) as connection:
                yield connection
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise explained(error, self._where) from error

    def look(self, machine: Clock) -> StoreReport:
        """Read the schema numbers of the store, and its size as SQLite's own count of pages gives it. `machine` is not used."""
        with self._connected() as connection:
            connection.execute("BEGIN")
            numbers = numbers_of(connection, self._sql)
            pages, page = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size"))
        behind = LINEAGE.status(self._where, numbers) is SchemaStatus.BEHIND
        return StoreReport(numbers, LINEAGE.newest, behind, pages * page, None)

    def migrate(self, *, after: bool) -> Migrated:
        """Migrate the file, as every process does that opens the store: all steps in one transaction, with a copy of the old file kept
        beside it. `after` makes no difference. Raises StoreInUse if a migration is needed and another process has the file open."""
        with self._connected() as connection:
            before = numbers_of(connection, self._sql)
            presence = prepare(connection, self._where, self._member, self._codec)
            if presence is not None:
                presence.close()
            now = numbers_of(connection, self._sql)
        steps = [step for step in LINEAGE.steps() if step.number > (before.least if step.after else before.version)]
        return Migrated(before, now, steps if now != before else (), ())

    def check(self, *, quick: bool) -> CheckReport:
        """Let SQLite check its pages, and check that the rows agree with each other. A quick check uses SQLite's `quick_check`."""
        with self._connected() as connection:
            connection.execute("BEGIN")
            numbers = numbers_of(connection, self._sql)
            said = _asked(connection, "pages", f"PRAGMA {'quick' if quick else 'integrity'}_check({_FEW})")
            findings = [line if isinstance(line, Finding) else Finding(_DAMAGED, "pages", *line) for line in said if line != ("ok",)]
            for name, question in load_queries("checks.sql").items():
                if numbers.version < CHECKED_SINCE.get(name, 0):
                    continue
                found = _asked(connection, name, known(question, SINCE, numbers.version))
                findings += [row if isinstance(row, Finding) else Finding(name, *row) for row in found]
        return CheckReport(numbers, LINEAGE.status(self._where, numbers) is SchemaStatus.BEHIND, findings)

    def size(self, now: int) -> Sizes:
        """The size of the file by SQLite's own count of pages, the rows and sizes of its tables, and how much retention can remove. The
        size of a table is None if this build of SQLite cannot tell it."""
        sql = load_queries("sizes.sql")
        with self._connected() as connection:
            connection.execute("BEGIN")
            names = [row[0] for row in connection.execute(sql["tables"])]
            rows = {name: connection.execute(sql["rows_of"].replace("{table}", name)).fetchone()[0] for name in names}
            used: dict[str, int] = {}
            with suppress(sqlite3.OperationalError):  # this build of SQLite does not have dbstat
                used = dict(connection.execute(sql["bytes"]))
            over, over_bytes, kept, kept_bytes = connection.execute(sql["removable"], {"now": now}).fetchone()
            pages, free, page = (
                connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
            )
            log = Path(f"{self._where}-wal").stat().st_size
        tables = [TableSize(name, rows[name], used.get(name)) for name in names]
        return Sizes(tables, pages * page, log, free * page, Removable(over, over_bytes), Removable(kept, kept_bytes))

    def backup(self, target: Path, *, replace: bool) -> None:
        """The copy is made with SQLite's own backup, which includes the write-ahead log."""
        with self._connected() as connection:
            if target.exists() and os.path.samefile(target, self._where):
                raise InvalidParameter(f"{target} is the store itself. Name another file for its copy.")
            try:
                copy_to(connection, target, replace=replace)
            except FileExistsError:
                raise InvalidParameter(f"There is already a file {target}. Name another, or use --force to replace it.") from None
            except OSError as error:
                raise InvalidParameter(f"{target} could not be written: {error.strerror}.") from error

    def restore(self, source: Path) -> Path | None:
        return restore(self._where, source)


def _asked(connection: sqlite3.Connection, name: str, question: str) -> Sequence[Row | Finding]:
    """The rows that a query returns. If SQLite cannot answer the query because of damage, one finding that says so."""
    try:
        return connection.execute(question, {"limit": _FEW}).fetchall()
    except sqlite3.DatabaseError as error:
        if not getattr(error, "sqlite_errorname", "").startswith("SQLITE_CORRUPT"):
            raise
        return [Finding(_DAMAGED, name, str(error))]

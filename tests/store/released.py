"""The stores of releases, as files and schemas that a test may migrate, and what a store says of its tables."""

from __future__ import annotations

import contextlib
import gzip
import re
import sqlite3
from pathlib import Path
from typing import Any

from holdfast.store.backends import open_maintenance, open_store
from holdfast.store.maintenance import Migrated
from tests.postgres import database, new_schema, schema_of
from tests.store import flight

RELEASED = Path(__file__).parents[1] / "data" / "stores"
SQLITE = {int(re.findall(r"\d+", path.name)[0]): path for path in RELEASED.glob("sqlite-*.db.gz")}
POSTGRES = {int(re.findall(r"\d+", path.name)[0]): path for path in RELEASED.glob("postgres-*.sql.gz")}
KINDS = [*(f"sqlite-{version}" for version in SQLITE), *(f"postgres-{version}" for version in POSTGRES)]


def old_sqlite(folder: Path, version: int = 6) -> Path:
    """The file of a release."""
    path = folder / "old.db"
    path.write_bytes(gzip.decompress(SQLITE[version].read_bytes()))
    path.chmod(0o600)
    return path


def old_postgres(version: int = 4) -> str:
    """The schema of a release."""
    where = new_schema()
    with database() as connection:
        connection.execute(gzip.decompress(POSTGRES[version].read_bytes()))
        connection.execute(f"ALTER SCHEMA {flight.SCHEMA} RENAME TO {schema_of(where)}".encode())
    return where


def apply_after(where: str) -> Migrated:
    """What an operator says when no code from before runs any more."""
    return open_maintenance(where, "operator").migrate(after=True)


def migrated(where: str) -> None:
    """Bring a store up to date, and leave it."""
    open_store(where, "migrator", migrate=True).close()


def sqlite_shape(path: Path) -> dict[str, Any]:
    """All that a file says of its tables."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        objects = {(kind, name): sql for kind, name, sql in connection.execute("SELECT type, name, sql FROM sqlite_master")}
        tables = [name for kind, name in objects if kind == "table"]
        columns = {table: connection.execute(f"PRAGMA table_xinfo({table})").fetchall() for table in tables}
        metas: dict[str, str] = dict(
            connection.execute("SELECT key, typeof(value) || CASE key WHEN 'seal' THEN '' ELSE value END FROM meta WHERE key <> 'unmarked'")
        )  # up to which execution runs have no mark is a fact about its executions, and not about its schema
        pragmas = [connection.execute(f"PRAGMA {name}").fetchone() for name in ("user_version", "application_id", "page_size", "encoding")]
    return {"sql": {key: _plain(sql) for key, sql in objects.items()}, "columns": columns, "metas": metas, "pragmas": pragmas}


def _plain(sql: str | None) -> str:
    """A definition without comments and spaces."""
    return re.sub(r"\s", "", re.sub("--.*", "", sql or ""))


CATALOGUE = """
SELECT 'column', c.relname, a.attnum::text, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull::text,
       a.attcollation::regcollation::text, coalesce(pg_get_expr(d.adbin, d.adrelid), '')
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
WHERE c.relnamespace = %(schema)s::text::regnamespace AND c.relkind = 'r' AND a.attnum > 0
UNION ALL
SELECT 'table', relname, relkind::text, coalesce(reloptions::text, ''), relpersistence::text, '', '', ''
FROM pg_class WHERE relnamespace = %(schema)s::text::regnamespace
UNION ALL
SELECT 'index', indexname, indexdef, '', '', '', '', '' FROM pg_indexes WHERE schemaname = %(schema)s::text
UNION ALL
SELECT 'constraint', conname, pg_get_constraintdef(oid), '', '', '', '', ''
FROM pg_constraint WHERE connamespace = %(schema)s::text::regnamespace
UNION ALL
SELECT 'sequence', sequencename, data_type::text, start_value::text, increment_by::text, max_value::text, cache_size::text, cycle::text
FROM pg_sequences WHERE schemaname = %(schema)s::text
"""


def postgres_shape(where: str) -> dict[str, Any]:
    """All that a schema says of its tables."""
    schema = schema_of(where)
    with database() as connection:
        found = connection.execute(CATALOGUE.encode(), {"schema": schema}).fetchall()
        metas: dict[str, str] = dict(
            connection.execute(
                f"SELECT key, CASE key WHEN 'seal' THEN '' ELSE value END FROM {schema}.meta WHERE key <> 'unmarked'".encode()
            ).fetchall()
        )
    return {"catalogue": sorted(tuple(str(part).replace(f"{schema}.", "") for part in row) for row in found), "metas": metas}

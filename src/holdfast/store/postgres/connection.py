"""Opens the database: checks that it can be used, makes the schema in it, and says clearly why a database cannot be used."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import resources
from typing import Final

import psycopg

from holdfast.model.errors import StoreBroken, StoreNotFound, StoreNotMigrated, StoreUnsuitable
from holdfast.model.payloads import PayloadCodec, check_text
from holdfast.store.browse_values import with_values
from holdfast.store.connection import check_codec, named_statements, together
from holdfast.store.postgres.address import Address
from holdfast.store.postgres.columns import placeholders
from holdfast.store.postgres.errors import explained
from holdfast.store.postgres.schema_migrations import LINEAGE, SCHEMA_VERSION, migrate, numbers_of
from holdfast.store.postgres.session import Session
from holdfast.store.rows import with_columns
from holdfast.store.schema_migrations import MigrationStep, SchemaStatus

_LEAST_SERVER: Final = 140_000
_COMMENT: Final = re.compile(r"^--.*\n", re.M)


def load_statements(file: str) -> dict[str, str]:
    """The statements of an SQL file by name, without their comments."""
    return {name: _COMMENT.sub("", body).strip() for name, body in named_statements("holdfast.store.postgres", file).items()}


def load_queries(schema: str) -> Mapping[str, str]:
    """The statements of an open store by name, for this schema."""
    texts = together(load_statements("queries.sql"), with_values(load_statements("browse.sql")))
    found = {name: with_columns(body.replace("{schema}", schema)) for name, body in texts.items()}
    for table in ("executions", "changes", "touches", "operations", "events", "lanes", "rates", "cooled", "signals"):
        found[f"write_{table}"] = found[f"write_{table}"].replace("{rows}", placeholders(table))
    bulk = {"put_notes": "notes", "put_graphs": "graphs", "renew_graphs": "graphs", "make_lanes": "new_lanes", "make_rates": "new_rates"}
    bulk |= {"put_ledger": "ledger", "put_ledger_days": "ledger_days"}
    for name, table in bulk.items():
        found[name] = found[name].replace("{rows}", placeholders(table))
    return found


def prepare(session: Session, address: Address, sql: Mapping[str, str], codec: PayloadCodec | None, *, migrating: bool = False) -> bytes:
    """Make the tables if the schema has none. Returns the key with which the store seals tokens. Raises StoreUnsuitable for a database or a
    schema that cannot be used. Raises CodecMismatch if the codec is not the one with which the store was made, or has wrong keys.

    If the tables are of an older release, the before-halves of the missing steps, which only add to the schema, are applied if `migrating`
    is True; otherwise StoreNotMigrated is raised.
    """
    _check_server(session.connection, address)
    with _refusals(address):
        found = _found(session, address, sql)
        if found is None:
            with session.transaction():
                session.run(sql["making"].encode(), (address.schema,))
                found = _found(session, address, sql) or _made(session, sql, codec, there=_is_there(session, address, sql))
    check_codec(address.shown, codec, found.get("codec"), found.get("codec_check"))
    if LINEAGE.status(address.shown, numbers_of(found)) is SchemaStatus.BEHIND:
        if not migrating:
            raise StoreNotMigrated(
                f"{address.shown} has schema version {found['schema']}; this Holdfast needs version {SCHEMA_VERSION}. "
                "Run `holdfast db migrate` with this store first, or open it with migrate=True."
            )
        apply(session, address, sql, after=False)
    try:
        return bytes.fromhex(found["seal"])
    except ValueError:
        raise StoreBroken(
            f"{address.shown} is damaged: it has no valid seal, the key for its tokens. Put a good copy in its place."
        ) from None


def look(session: Session, address: Address, sql: Mapping[str, str]) -> dict[str, str] | None:
    """The rows of the table `meta`, by key; None if there is no store in the schema. Raises StoreUnsuitable if the schema has tables that
    are not those of a store."""
    with _refusals(address):
        return _found(session, address, sql)


def apply(session: Session, address: Address, sql: Mapping[str, str], *, after: bool) -> Sequence[MigrationStep]:
    """Apply the halves of migrations that are not applied yet: those that must be applied before new code runs or, if `after` is True,
    those that are applied when no older code runs any more. Returns the halves that were applied. Only one process at a time does this, and
    the next one finds nothing left to apply. Raises StoreNotFound if there is no store. Raises StoreInUse if a runner of older code must be
    stopped first, and StoreNotMigrated if `after` is True and the other halves are not applied yet."""
    with _refusals(address), session.transaction():
        session.run(sql["patience"].encode(), prepare=False)
        session.run(sql["making"].encode(), (address.schema,))
        session.run(sql["impatience"].encode(), prepare=False)
        found = _found(session, address, sql)
        if found is None:
            raise StoreNotFound(f"There is no store at {address.shown}. The first process that opens it makes it.")
        LINEAGE.status(address.shown, numbers_of(found))
        return migrate(session, address, sql, numbers_of(found), after=after)


@contextmanager
def _refusals(address: Address) -> Iterator[None]:
    """A `with` block that turns errors of the database into errors of Holdfast."""
    try:
        yield
    except psycopg.errors.InsufficientPrivilege as error:
        said = " ".join(str(error).split())
        raise StoreUnsuitable(
            f"{address.shown} cannot be used by this user: {said}. "
            f"A new store needs a schema {address.schema!r} in which this user may create tables; a migration needs its owner."
        ) from error
    except psycopg.Error as error:
        raise explained(error, address.shown) from error


def _check_server(connection: psycopg.Connection, address: Address) -> None:
    if connection.info.server_version < _LEAST_SERVER:
        raise StoreUnsuitable(
            f"{address.shown} is Postgres {connection.info.server_version // 10_000}; 14 or newer is needed. Use a newer server."
        )
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise StoreUnsuitable(f"{address.shown} is a database of encoding {encoding}; a store needs UTF8. Use another database.")


def _is_there(session: Session, address: Address, sql: Mapping[str, str]) -> bool:
    ((there, _, _),) = session.run(sql["schema_state"].encode(), {"schema": address.schema}, prepare=False)
    return bool(there)


def _found(session: Session, address: Address, sql: Mapping[str, str]) -> dict[str, str] | None:
    """The rows of the table `meta`, by key; None if there is no store in the schema. Raises StoreUnsuitable if the schema has tables that
    are not those of a store."""
    ((_, ours, used),) = session.run(sql["schema_state"].encode(), {"schema": address.schema}, prepare=False)
    foreign = f"{address.shown} has a schema {address.schema!r} that is not a Holdfast store. Choose another with `?schema=…`."
    if not ours and used:
        raise StoreUnsuitable(foreign)
    if not ours:
        return None
    try:
        found: dict[str, str] = dict(session.run(sql["metas"].encode(), prepare=False))
    except psycopg.errors.UndefinedColumn:
        raise StoreUnsuitable(foreign) from None
    if "seal" not in found or not found.get("schema", "").isdecimal():
        raise StoreUnsuitable(foreign)
    return found


def _made(session: Session, sql: Mapping[str, str], codec: PayloadCodec | None, *, there: bool) -> dict[str, str]:
    if not there:
        session.run(sql["create_schema"].encode(), prepare=False)
    session.run((resources.files("holdfast.store.postgres") / "schema.sql").read_bytes(), prepare=False)
    fresh = LINEAGE.fresh()
    known = {"schema": str(fresh.version), "least": str(fresh.least), "seal": os.urandom(32).hex()}
    if codec is not None:
        known |= {"codec": codec.name, "codec_check": check_text(codec)}
    for item in known.items():
        session.run(sql["put_meta"].encode(), item, prepare=False)
    return known

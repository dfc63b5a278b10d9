"""Opening the database: what it must be, how our schema in it is made, and a clear word when it cannot be used."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from importlib import resources
from typing import Final

import psycopg

from holdfast.model.errors import CodecFailed, CodecMismatch, StoreUnsuitable
from holdfast.model.payloads import PayloadCodec, check, check_text
from holdfast.store.postgres.address import Address
from holdfast.store.postgres.columns import placeholders
from holdfast.store.postgres.session import Session
from holdfast.store.postgres.trouble import explained

SCHEMA_VERSION: Final = "4"
_LEAST_SERVER: Final = 140_000
_NAMED: Final = re.compile(r"^-- name: (\w+)\n(.*?)(?=^-- name: |\Z)", re.M | re.S)
_COMMENT: Final = re.compile(r"^--.*\n", re.M)


def load_queries(schema: str) -> Mapping[str, str]:
    """The statements of queries.sql by name, for this schema."""
    text = (resources.files("holdfast.store.postgres") / "queries.sql").read_text()
    found = {name: _COMMENT.sub("", body).strip().replace("{schema}", schema) for name, body in _NAMED.findall(text)}
    for table in ("executions", "touches", "operations", "events", "signals"):
        found[f"write_{table}"] = found[f"write_{table}"].replace("{rows}", placeholders(table))
    return found


def prepare(session: Session, address: Address, sql: Mapping[str, str], codec: PayloadCodec | None) -> bytes:
    """Make the tables if they are not there; refuse a database that cannot be used. Answers with the key of the store's seal."""
    _check_server(session.connection, address)
    try:
        found = _found(session, address, sql)
        if found is None:
            with session.transaction():
                session.run(sql["making"].encode(), (address.schema,))
                found = _found(session, address, sql) or _made(session, sql, codec, there=_is_there(session, address, sql))
    except psycopg.errors.InsufficientPrivilege as error:
        said = " ".join(str(error).split())
        raise StoreUnsuitable(
            f"{address.shown} cannot be used by this user: {said}. Let its owner create the schema {address.schema!r} and grant it."
        ) from error
    except psycopg.Error as error:
        raise explained(error, address.shown) from error
    _check_codec(address.shown, codec, found.get("codec"), found.get("codec_check"))
    return bytes.fromhex(found["seal"])


def _check_server(connection: psycopg.Connection, address: Address) -> None:
    if connection.info.server_version < _LEAST_SERVER:
        raise StoreUnsuitable(f"{address.shown} is Postgres {connection.info.server_version // 10_000}; 14 or newer is needed.")
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise StoreUnsuitable(f"{address.shown} is a database of encoding {encoding}; only UTF8 can hold every text.")


def _is_there(session: Session, address: Address, sql: Mapping[str, str]) -> bool:
    ((there, _, _),) = session.run(sql["schema_state"].encode(), {"schema": address.schema}, prepare=False)
    return bool(there)


def _found(session: Session, address: Address, sql: Mapping[str, str]) -> dict[str, str] | None:
    """What the store that is there says of itself; None when nobody has made one yet."""
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
    version = found.get("schema")
    if version is None or "seal" not in found:
        raise StoreUnsuitable(foreign)
    if version != SCHEMA_VERSION:
        raise StoreUnsuitable(f"{address.shown} has schema version {version}; this Holdfast reads version {SCHEMA_VERSION}.")
    return found


def _made(session: Session, sql: Mapping[str, str], codec: PayloadCodec | None, *, there: bool) -> dict[str, str]:
    if not there:
        session.run(sql["create_schema"].encode(), prepare=False)
    session.run((resources.files("holdfast.store.postgres") / "schema.sql").read_bytes(), prepare=False)
    known = {"schema": SCHEMA_VERSION, "seal": os.urandom(32).hex()}
    if codec is not None:
        known |= {"codec": codec.name, "codec_check": check_text(codec)}
    for item in known.items():
        session.run(sql["put_meta"].encode(), item, prepare=False)
    return known


def _check_codec(shown: str, codec: PayloadCodec | None, name: str | None, text: str | None) -> None:
    """Refuse a codec that is not the store's before anything is read or written with it."""
    if codec is None and name is None:
        return
    if codec is None:
        raise CodecMismatch(
            f"{shown} was made with the payload codec {name!r}. Open it with that codec: `codec=`, or --codec or HOLDFAST_CODEC."
        )
    if name is None:
        raise CodecMismatch(
            f"{shown} was made without a payload codec: it holds plain text. Open it without {codec.name!r}, or choose a new store."
        )
    if name != codec.name:
        raise CodecMismatch(f"{shown} was made with the payload codec {name!r}, not with {codec.name!r}.")
    try:
        check(codec, text or "")
    except CodecFailed as failed:
        raise CodecMismatch(f"{shown} cannot be read with these keys. {failed}") from None

"""Opening a store: the only module that names a backend."""

from __future__ import annotations

import re
from typing import Final

from holdfast.model.errors import ExtraMissing, InvalidParameter
from holdfast.model.payloads import PayloadCodec
from holdfast.store.seam import Store

_PASSWORD: Final = re.compile(r"(?<=://)([^:@/?]*):[^@/]*(?=@)|(?<=[?&])password=[^&]*&?")


def shown(where: str) -> str:
    """A path or an address as people may read it: without its password."""
    return _PASSWORD.sub(r"\1", where) if "://" in where else where


def open_store(where: str, member: str, codec: PayloadCodec | None = None) -> Store:
    """Open the store at a path (`:memory:` for one that dies with its process) or at `postgresql://…`; `member` names this process in it.

    `codec` is what payloads are encoded with; a store is opened with the codec that made it, or with none if none did.
    """
    if "://" in where:
        scheme = where.split("://", 1)[0]
        if scheme not in ("postgres", "postgresql"):
            raise InvalidParameter(f"No store for {scheme!r} addresses. Give the path of a SQLite file, or postgresql://….")
        try:
            from holdfast.store.postgres.store import PostgresStore
        except ImportError:
            raise ExtraMissing("A Postgres store needs the package `psycopg`: pip install 'holdfast[postgres]'.") from None
        return PostgresStore(where, member, codec)
    from holdfast.store.sqlite.store import SqliteStore

    return SqliteStore(where, member, codec)

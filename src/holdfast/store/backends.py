"""Opening a store: the only module that names a backend."""

from __future__ import annotations

import re
from typing import Final

from holdfast.model.errors import ExtraMissing, InvalidParameter
from holdfast.model.payloads import PayloadCodec
from holdfast.store.keeping import Keeping
from holdfast.store.seam import Store

_PASSWORD: Final = re.compile(r"(?<=://)([^:@/?]*):[^@/]*(?=@)|(?<=[?&])password=[^&]*&?")


def shown(where: str) -> str:
    """A path or an address as people may read it: without its password."""
    return _PASSWORD.sub(r"\1", where) if "://" in where else where


def placed(where: str) -> str:
    """The path or address that is meant: `sqlite:///file.db` is the file `file.db`, `sqlite:////folder/file.db` is `/folder/file.db`.

    Asked wherever a store is named, because what lies beside a store is named after its path.
    """
    scheme, mark, rest = where.partition("://")
    if not mark or scheme.lower() != "sqlite":
        return where
    if rest in ("", "/", "/:memory:"):
        return ":memory:"
    path = rest.removeprefix("/")
    if path == rest or not path or "?" in path:
        raise InvalidParameter(f"{where!r} names no SQLite file. Write sqlite:///file.db, sqlite:////folder/file.db, or the path alone.")
    return path


def open_keeping(where: str, member: str, codec: PayloadCodec | None = None) -> Keeping:
    """The store at a path or an address, for its operator; nothing is opened yet."""
    where = placed(where)
    if _is_postgres(where):
        try:
            from holdfast.store.postgres.keeping import PostgresKeeping
        except ImportError:
            raise _postgres_missing() from None
        return PostgresKeeping(where)
    from holdfast.store.sqlite.keeping import SqliteKeeping

    return SqliteKeeping(where, member, codec)


def _is_postgres(where: str) -> bool:
    scheme, address, _ = where.partition("://")
    if address and scheme not in ("postgres", "postgresql"):
        raise InvalidParameter(f"No store for {scheme!r} addresses. Give the path of a SQLite file, sqlite:///PATH, or postgresql://….")
    return bool(address)


def _postgres_missing() -> ExtraMissing:
    return ExtraMissing("A Postgres store needs the package `psycopg`: pip install 'holdfast[postgres]'.")


def open_store(where: str, member: str, codec: PayloadCodec | None = None, *, migrate: bool = False) -> Store:
    """Open the store at a path (`:memory:` dies with its process), at `sqlite:///…` or `postgresql://…`; `member` names this process in it.

    `codec` is what payloads are encoded with; a store is opened with the codec that made it, or with none if none did. A file of an older
    release is migrated when it is opened; a Postgres schema only if `migrate` says so, because other processes use it at the same time.
    """
    where = placed(where)
    if _is_postgres(where):
        try:
            from holdfast.store.postgres.store import PostgresStore
        except ImportError:
            raise _postgres_missing() from None
        return PostgresStore(where, member, codec, migrate=migrate)
    from holdfast.store.sqlite.store import SqliteStore

    return SqliteStore(where, member, codec)

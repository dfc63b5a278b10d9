"""Opens a store by its path or address. No other module names a backend."""

from __future__ import annotations

from pathlib import Path

from holdfast.model.errors import ExtraMissing, InvalidParameter
from holdfast.model.payloads import PayloadCodec
from holdfast.store.maintenance import Maintenance
from holdfast.store.seam import Store


def placed(where: str) -> str:
    """The path or address that a user means: `sqlite:///file.db` is the file `file.db`, `sqlite:////folder/file.db` is `/folder/file.db`,
    `sqlite://` without a file is `:memory:`. A text that does not begin with `sqlite://` is returned as it is. Raises InvalidParameter for
    any other text that begins with `sqlite://`, for example `sqlite://file.db`.

    Code that gets the address of a store from a user must pass it through this function, because the files beside a store are named after
    its path.
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


def open_maintenance(where: str, member: str, codec: PayloadCodec | None = None) -> Maintenance:
    """The operator's commands for the store at a path or an address. This call does not open the store. Only `migrate` of a SQLite store
    needs `member` and `codec`."""
    where = placed(where)
    if _is_postgres(where):
        try:
            from holdfast.store.postgres.maintenance import PostgresMaintenance
        except ImportError:
            raise _postgres_missing() from None
        return PostgresMaintenance(where)
    from holdfast.store.sqlite.maintenance import SqliteMaintenance

    return SqliteMaintenance(where, member, codec)


def is_sqlite_file(path: Path) -> bool:
    """Whether a file begins like a SQLite database, or is empty."""
    from holdfast.store.sqlite.restore import is_database

    return is_database(path)


def sqlite_versions() -> tuple[str, str]:
    """The version of SQLite in this process, and the oldest that a store can use."""
    from holdfast.store.sqlite.connection import library_version

    return library_version()


def _is_postgres(where: str) -> bool:
    scheme, address, _ = where.partition("://")
    if address and scheme not in ("postgres", "postgresql"):
        raise InvalidParameter(f"No store for {scheme!r} addresses. Write the path of a SQLite file, sqlite:///PATH, or postgresql://….")
    return bool(address)


def _postgres_missing() -> ExtraMissing:
    return ExtraMissing("A Postgres store needs the package `psycopg`: pip install 'holdfast[postgres]'.")


def open_store(where: str, member: str, codec: PayloadCodec | None = None, *, migrate: bool = False) -> Store:
    """Open the store at a path, at `sqlite:///…` or at `postgresql://…`; make it if there is none. The path `:memory:` makes a store in
    memory, which is lost when it is closed.

    `member` names this process in the store. `codec` encodes payloads; a store must be opened with the codec that it was made with, or
    without one if it was made without. A SQLite file of an older release is migrated when it is opened. A Postgres schema of an older
    release is migrated only if `migrate` is True, because other processes may use it at the same time; otherwise StoreNotMigrated is
    raised.
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

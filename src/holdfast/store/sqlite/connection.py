"""Opens the file: checks that it is a store, sets SQLite up, and says clearly why a file cannot be used."""

from __future__ import annotations

import functools
import os
import sqlite3
import threading
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import assert_never

from holdfast.files import private
from holdfast.model.errors import StoreBroken, StoreUnsuitable
from holdfast.model.payloads import PayloadCodec, check_text
from holdfast.store.browse_values import with_values
from holdfast.store.connection import check_codec, named_statements, together
from holdfast.store.rows import with_columns
from holdfast.store.schema_migrations import SchemaStatus
from holdfast.store.sqlite.errors import explained, in_a_shut_folder, is_shut, read_only
from holdfast.store.sqlite.presence import Presence
from holdfast.store.sqlite.schema_migrations import LINEAGE, migrate, numbers_of

MEMORY = ":memory:"
_APPLICATION_ID = 0x484F4C44
_LEAST_SQLITE = (3, 37, 0)
_BUSY_SECONDS = 10.0
_BUSY_PAUSE = 0.005
_SEAL_BYTES = 32
_JOURNAL = "-journal"
_BESIDE = ("-wal", "-shm", _JOURNAL)
_PAGE_BYTES = 2_048
"""The page size of a new file. The checkpoint of one step writes about five pages, whatever their size, so smaller pages mean fewer bytes
to sync."""
_CACHE_KIB = 65_536
_WAL_PAGES = 8_000
"""SQLite copies the WAL into the file (a checkpoint) when the WAL has this many pages, about 16 MB. A page that many batches have changed
is then copied only once."""
_WAL_BYTES = 32 * 1024 * 1024
"""If the WAL file is larger than this, SQLite cuts it to this size. It does so when it begins to write the WAL from its start again, after
a checkpoint."""
_REMOTE = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "fuse.sshfs", "fuse.glusterfs"})


def library_version() -> tuple[str, str]:
    """The version of SQLite in this process, and the oldest that a store can use."""
    return sqlite3.sqlite_version, ".".join(map(str, _LEAST_SQLITE))


@functools.cache
def load_queries(file: str = "queries.sql") -> Mapping[str, str]:
    """The statements of an SQL file by name. The file is read once."""
    return {name: with_columns(body) for name, body in named_statements("holdfast.store.sqlite", file).items()}


@functools.cache
def all_statements() -> Mapping[str, str]:
    """The statements of queries.sql and browse.sql by name."""
    return together(load_queries(), with_values(load_queries("browse.sql")))


def connect(where: str, *, any_schema: bool = False) -> sqlite3.Connection:
    """Open a connection with full durability: a committed transaction is on disk. A missing file is made. Raises an error of Holdfast if
    the file cannot be used, for example StoreUnsuitable for another program's database. A store that this code can neither use nor migrate
    is refused, too, unless `any_schema` is True."""
    if sqlite3.sqlite_version_info < _LEAST_SQLITE:
        wanted = ".".join(map(str, _LEAST_SQLITE))
        raise StoreUnsuitable(f"SQLite {sqlite3.sqlite_version} is too old: {wanted} or newer is needed. Use a Python with a newer SQLite.")
    if where != MEMORY:
        _refuse_remote(Path(where))
        private.reserve(where)  # SQLite gives the files that it makes beside it the same mode
        if os.path.exists(where) and not os.access(where, os.W_OK):  # SQLite would open it, and make read-only files beside it
            raise read_only(where)
        if is_shut(Path(where).absolute().parent):
            raise in_a_shut_folder(where)
    made = [] if where == MEMORY else private.reserve_beside(f"{where}{beside}" for beside in _BESIDE)
    try:
        connection = _connected(where, any_schema=any_schema)
    except BaseException:
        private.remove_empty(made)
        raise
    private.remove_empty(path for path in made if path == f"{where}{_JOURNAL}")  # SQLite does not use it with a WAL
    return connection


def _connected(where: str, *, any_schema: bool) -> sqlite3.Connection:
    try:
        connection = sqlite3.connect(where, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False, cached_statements=256)
        try:
            _refuse_foreign(connection, where, any_schema=any_schema)  # first: the next lines would change another program's file
            if where != MEMORY:
                private.narrow((where, f"{where}-wal", f"{where}-shm"))
            connection.execute(f"PRAGMA page_size = {_PAGE_BYTES}")
            _use_wal(connection)
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA fullfsync = ON")
            connection.execute("PRAGMA checkpoint_fullfsync = ON")
            connection.execute("PRAGMA temp_store = MEMORY")
            connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
            connection.execute(f"PRAGMA wal_autocheckpoint = {_WAL_PAGES}")
            connection.execute(f"PRAGMA journal_size_limit = {_WAL_BYTES}")
        except BaseException:
            connection.close()
            raise
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise explained(error, where) from error
    return connection


def _use_wal(connection: sqlite3.Connection) -> None:
    """Switch to WAL mode. SQLite does not wait here while another process has locked the file, for example to make the store; so this
    function tries again and again, for about 10 seconds."""
    for _ in range(int(_BUSY_SECONDS / _BUSY_PAUSE)):
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if getattr(error, "sqlite_errorname", "") != "SQLITE_BUSY":
                raise
            threading.Event().wait(_BUSY_PAUSE)
    connection.execute("PRAGMA journal_mode = WAL")


def present(where: str, member: str) -> Presence:
    """Make this process's sign of life beside the store: a locked file in the folder `STORE-holdfast`."""
    try:
        presence = Presence(Path(f"{where}-holdfast"), member)
        presence.living()
    except OSError as error:
        raise explained(error, f"{where}-holdfast") from error
    return presence


def prepare(connection: sqlite3.Connection, where: str, member: str, codec: PayloadCodec | None) -> Presence | None:
    """Make the tables in a new file, or migrate those of an older release. Returns this process's sign of life; None for a store in memory.
    Raises StoreUnsuitable for another program's file, and for a schema that this code may not use. Raises CodecMismatch if the codec is not
    the one with which the store was made, or has wrong keys. Raises StoreInUse if it must be migrated and another process has it open.

    All of this is done under the file's write lock. So a process that migrates sees the sign of life of every process that has read the
    schema before.
    """
    presence = None
    try:
        connection.execute("BEGIN IMMEDIATE")
        try:
            _prepare(connection, where, codec)
            presence = None if where == MEMORY else present(where, member)
            connection.execute("COMMIT")
        except BaseException:
            if presence is not None:
                presence.close()
            if connection.in_transaction:  # a full disk may have ended the transaction
                connection.execute("ROLLBACK")
            raise
    except (sqlite3.Error, OSError, UnicodeDecodeError) as error:
        raise explained(error, where) from error
    return presence


def _refuse_foreign(connection: sqlite3.Connection, where: str, *, any_schema: bool) -> None:
    """Raise StoreUnsuitable for another program's database. Unless `any_schema` is True, raise it also for a store that this code can
    neither use nor migrate. All is read in one transaction, because another process may be making the store at the same time."""
    connection.execute("BEGIN")
    try:
        if not (any_schema and is_ours(connection)):
            _schema_status(connection, where, load_queries())
    finally:
        connection.execute("ROLLBACK")


def is_ours(connection: sqlite3.Connection) -> bool:
    """Whether the file is a Holdfast store: SQLite's `application_id` says so."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    return bool(application == _APPLICATION_ID)


def _schema_status(connection: sqlite3.Connection, where: str, sql: Mapping[str, str]) -> SchemaStatus | None:
    """Whether the store must be migrated before it is used; None if the file has no tables yet. Raises StoreUnsuitable for a file that is
    not a store, and for a store that this code can neither use nor migrate."""
    (tables,) = connection.execute("PRAGMA schema_version").fetchone()
    if is_ours(connection):
        return LINEAGE.status(where, numbers_of(connection, sql))
    if tables:
        raise StoreUnsuitable(f"{where} is a SQLite database, but not a Holdfast store. Choose another path.")
    return None


def _prepare(connection: sqlite3.Connection, where: str, codec: PayloadCodec | None) -> None:
    queries = load_queries()
    status = _schema_status(connection, where, queries)
    if status is None:
        _make(connection, queries, codec)
        return
    known = dict(connection.execute(queries["codec_meta"]))
    check_codec(where, codec, known.get("codec"), known.get("codec_check"))
    match status:
        case SchemaStatus.USABLE:
            pass
        case SchemaStatus.BEHIND:
            migrate(connection, where, numbers_of(connection, queries), queries)
        case _:
            assert_never(status)


def seal_of(connection: sqlite3.Connection, where: str) -> bytes:
    """The key with which the store seals tokens. Raises StoreBroken if it is missing or damaged."""
    found = connection.execute(load_queries()["get_meta"], ("seal",)).fetchone()
    if found is None or not isinstance(found[0], bytes) or len(found[0]) < _SEAL_BYTES:
        raise StoreBroken(f"{where} is damaged: it has no valid seal, the key for its tokens. Put a good copy in its place.")
    return found[0]


def _make(connection: sqlite3.Connection, queries: Mapping[str, str], codec: PayloadCodec | None) -> None:
    schema = (resources.files("holdfast.store.sqlite") / "schema.sql").read_text()
    for statement in schema.split(";\n"):
        connection.execute(statement)
    fresh = LINEAGE.fresh()
    connection.execute(queries["put_meta"], ("seal", os.urandom(_SEAL_BYTES)))
    connection.execute(queries["put_meta"], ("least", fresh.least))
    if codec is not None:
        connection.execute(queries["put_meta"], ("codec", codec.name))
        connection.execute(queries["put_meta"], ("codec_check", check_text(codec)))
    connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {fresh.version}")


def _refuse_remote(path: Path) -> None:
    """Raise StoreUnsuitable if the file is on a network file system: neither SQLite's locks nor Holdfast's work there. Does nothing on a
    system without /proc/mounts."""
    mounts = Path("/proc/mounts")
    if not mounts.exists():
        return
    real = str(path.resolve().parent)
    best, kind = "", ""
    for line in mounts.read_bytes().split(b"\n")[:-1]:  # only \n ends a line here: the name of a mount may hold other line ends
        point, fstype = map(os.fsdecode, line.split(b" ")[1:3])
        inside = real == point or real.startswith(point.rstrip("/") + "/")
        if inside and len(point) > len(best):
            best, kind = point, fstype
    if kind in _REMOTE:
        raise StoreUnsuitable(f"{path} is on a network file system ({kind}), and a store needs a local disk. Choose another path.")

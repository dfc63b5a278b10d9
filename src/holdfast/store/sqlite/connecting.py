"""Opening the file: what it must be, how it is set up, and a clear word when it cannot be used."""

from __future__ import annotations

import errno
import functools
import os
import re
import shlex
import sqlite3
import threading
from collections.abc import Mapping
from importlib import resources
from pathlib import Path

from holdfast.files import private
from holdfast.model.errors import CodecFailed, CodecMismatch, DiskFailed, DiskFull, HoldfastError, StoreBroken, StoreBusy, StoreUnsuitable
from holdfast.model.payloads import PayloadCodec, check, check_text
from holdfast.store.migrating import SchemaStanding
from holdfast.store.rows import with_columns
from holdfast.store.sqlite.migrating import LINEAGE, migrate, numbers_of
from holdfast.store.sqlite.sharing import Presence

MEMORY = ":memory:"
_APPLICATION_ID = 0x484F4C44
_LEAST_SQLITE = (3, 37, 0)
_BUSY_SECONDS = 10.0
_BUSY_PAUSE = 0.005
_SEAL_BYTES = 32
_JOURNAL = "-journal"
_BESIDE = ("-wal", "-shm", _JOURNAL)
_PAGE_BYTES = 2_048
"""A lone step touches five pages, whatever their size: smaller ones mean fewer bytes to sync."""
_CACHE_KIB = 65_536
_WAL_PAGES = 8_000
"""16 MiB of WAL before it is carried over: pages that many batches touch are carried over once, and there is room for what is written
while a reader keeps it from beginning anew."""
_WAL_BYTES = 32 * 1024 * 1024
"""What a WAL that had to grow beyond that is cut to when it begins anew."""
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_FAILING = frozenset({errno.EIO, errno.EROFS})
_MAY_BE_FULL = ("SQLITE_IOERR", "SQLITE_CANTOPEN")
_REMOTE = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "fuse.sshfs", "fuse.glusterfs"})
_NAMED = re.compile(r"^-- name: (\w+)\n(.*?)(?=^-- name: |\Z)", re.M | re.S)


@functools.cache
def load_queries(file: str = "queries.sql") -> Mapping[str, str]:
    """The statements of a file by name."""
    text = (resources.files("holdfast.store.sqlite") / file).read_text()
    return {name: with_columns(body.strip()) for name, body in _NAMED.findall(text)}


def connect(where: str, *, any_schema: bool = False) -> sqlite3.Connection:
    """A connection with full durability: a step acknowledged is a step on disk. `any_schema` is for one who replaces the store."""
    if sqlite3.sqlite_version_info < _LEAST_SQLITE:
        wanted = ".".join(map(str, _LEAST_SQLITE))
        raise StoreUnsuitable(f"SQLite {sqlite3.sqlite_version} is too old: {wanted} or newer is needed.")
    if where != MEMORY:
        _refuse_remote(Path(where))
        private.reserve(where)  # what SQLite puts beside the file has the file's mode
        if os.path.exists(where) and not os.access(where, os.W_OK):  # SQLite would open it, and leave files behind that are as closed
            raise _read_only(where)
        if _is_shut(Path(where).absolute().parent):
            raise _in_a_shut_folder(where)
    made = [] if where == MEMORY else private.reserve_beside(f"{where}{beside}" for beside in _BESIDE)
    try:
        connection = _connected(where, any_schema=any_schema)
    except BaseException:
        private.remove_empty(made)
        raise
    private.remove_empty(path for path in made if path == f"{where}{_JOURNAL}")  # with a WAL SQLite does not look for it any more
    return connection


def _connected(where: str, *, any_schema: bool) -> sqlite3.Connection:
    try:
        connection = sqlite3.connect(where, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False, cached_statements=256)
        try:
            _refuse_foreign(connection, where, any_schema=any_schema)  # first of all: the next line would change another program's file
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
    """Switch to WAL. SQLite does not wait for its lock here, so when several processes make the store at once we do."""
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
    """Our sign of life beside the file."""
    try:
        presence = Presence(Path(f"{where}-holdfast"), member)
        presence.living()
    except OSError as error:
        raise explained(error, f"{where}-holdfast") from error
    return presence


def prepare(connection: sqlite3.Connection, where: str, member: str, codec: PayloadCodec | None) -> Presence | None:
    """Make the tables in a new file, or migrate those of an older release; refuse a file that is another program's, of a schema that we may
    not use, or made with another codec. Answers with our sign of life.

    All of it under the file's write lock: a process that migrates sees every process that has looked at the schema before.
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
            if connection.in_transaction:  # a full disk has ended it already
                connection.execute("ROLLBACK")
            raise
    except (sqlite3.Error, OSError, UnicodeDecodeError) as error:
        raise explained(error, where) from error
    return presence


def _refuse_foreign(connection: sqlite3.Connection, where: str, *, any_schema: bool) -> None:
    """Look at the file as of one moment: another process may be making the store right now."""
    connection.execute("BEGIN")
    try:
        if not (any_schema and is_ours(connection)):
            _standing(connection, where, load_queries())
    finally:
        connection.execute("ROLLBACK")


def is_ours(connection: sqlite3.Connection) -> bool:
    """Whether a file says that it is a store."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    return bool(application == _APPLICATION_ID)


def _standing(connection: sqlite3.Connection, where: str, sql: Mapping[str, str]) -> SchemaStanding | None:
    """What is to be done with the file; None when there are no tables yet. What is not ours, or not for us, is refused."""
    (tables,) = connection.execute("PRAGMA schema_version").fetchone()
    if is_ours(connection):
        return LINEAGE.standing(where, numbers_of(connection, sql))
    if tables:
        raise StoreUnsuitable(f"{where} is a SQLite database, but not a Holdfast store. Choose another path.")
    return None


def _prepare(connection: sqlite3.Connection, where: str, codec: PayloadCodec | None) -> None:
    queries = load_queries()
    standing = _standing(connection, where, queries)
    if standing is None:
        _make(connection, queries, codec)
        return
    known = dict(connection.execute(queries["codec_meta"]))
    _check_codec(where, codec, known.get("codec"), known.get("codec_check"))
    if standing is SchemaStanding.BEHIND:
        migrate(connection, where, numbers_of(connection, queries), queries)


def seal_of(connection: sqlite3.Connection, where: str) -> bytes:
    """The key of the store's seal."""
    found = connection.execute(load_queries()["get_meta"], ("seal",)).fetchone()
    if found is None or not isinstance(found[0], bytes) or len(found[0]) < _SEAL_BYTES:
        raise StoreBroken(f"{where} is damaged: it has no seal. Put a good copy in its place.")
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


def _check_codec(where: str, codec: PayloadCodec | None, name: str | None, text: str | None) -> None:
    """Refuse a codec that is not the store's before anything is read or written with it."""
    if codec is None and name is None:
        return
    if codec is None:
        raise CodecMismatch(
            f"{where} was made with the payload codec {name!r}. Open it with that codec: `codec=`, or --codec or HOLDFAST_CODEC."
        )
    if name is None:
        raise CodecMismatch(
            f"{where} was made without a payload codec: it holds plain text. Open it without {codec.name!r}, or choose a new store."
        )
    if name != codec.name:
        raise CodecMismatch(f"{where} was made with the payload codec {name!r}, not with {codec.name!r}.")
    try:
        check(codec, text or "")
    except CodecFailed as failed:
        raise CodecMismatch(f"{where} cannot be read with these keys. {failed}") from None


def explained(error: sqlite3.Error | OSError | UnicodeDecodeError, where: str) -> HoldfastError:
    """An error of SQLite, or of the files beside it, in our words: what is wrong, and what to do."""
    name = getattr(error, "sqlite_errorname", "") or ""
    number = error.errno if isinstance(error, OSError) else None
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return StoreBusy(f"{where} is locked by somebody else: {error}")
    if name == "SQLITE_FULL" or number in _FULL or (name.startswith(_MAY_BE_FULL) and _has_no_space(where)):
        return DiskFull(f"{where}: there is no space left on its disk. Free some.")
    if name.startswith("SQLITE_IOERR") or number in _FAILING:
        return DiskFailed(f"{where}: its disk fails ({name or error}). Look after the disk.")
    if name.startswith("SQLITE_NOTADB"):
        return StoreUnsuitable(f"{where} is not a SQLite database. Choose another path.")
    if name.startswith("SQLITE_CORRUPT") or isinstance(error, UnicodeDecodeError):  # SQLite quotes what it found, whatever that is
        return StoreBroken(f"{where} is damaged: {error}. Put a good copy in its place.")
    if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN")) and _is_shut(Path(where).absolute().parent):
        return _in_a_shut_folder(where)
    if name.startswith("SQLITE_READONLY"):
        return _read_only(where)
    if name.startswith("SQLITE_CANTOPEN") and Path(where).is_dir():
        return StoreUnsuitable(f"{where} is a folder. Name a file in it.")
    if name.startswith("SQLITE_CANTOPEN") and not Path(where).parent.is_dir():
        return StoreBroken(f"{where} could not be opened: there is no folder {Path(where).parent}. Make it first.")
    return StoreBroken(f"{where} could not be read or written: {error}")


def _is_shut(folder: Path) -> bool:
    return folder.is_dir() and not os.access(folder, os.W_OK | os.X_OK)


def _in_a_shut_folder(where: str) -> StoreBroken:
    folder = Path(where).absolute().parent
    return StoreBroken(
        f"{where} is in a folder that this user may not write: {folder}. A store keeps files beside it, also for those who look. Let this "
        f"user write there (chmod u+w {shlex.quote(str(folder))}), or choose another path."
    )


def _read_only(where: str) -> StoreBroken:
    return StoreBroken(f"{where} may only be read. A store must be written, also by those who look: change its permissions.")


def _has_no_space(where: str) -> bool:
    """Whether a failure that has no better name may come from a full disk."""
    try:
        disk = os.statvfs(Path(where).parent)
    except OSError:
        return False
    return disk.f_blocks > 0 and disk.f_bavail * disk.f_frsize < _PAGE_BYTES


def _refuse_remote(path: Path) -> None:
    """SQLite's locks do not hold on network file systems, and ours neither."""
    mounts = Path("/proc/mounts")
    if not mounts.exists():
        return
    real = str(path.resolve().parent)
    best, kind = "", ""
    for line in mounts.read_bytes().split(b"\n")[:-1]:  # a user may have mounted something under a name with other ends of lines
        point, fstype = map(os.fsdecode, line.split(b" ")[1:3])
        inside = real == point or real.startswith(point.rstrip("/") + "/")
        if inside and len(point) > len(best):
            best, kind = point, fstype
    if kind in _REMOTE:
        raise StoreUnsuitable(f"{path} lies on a network file system ({kind}); a store needs a local disk.")

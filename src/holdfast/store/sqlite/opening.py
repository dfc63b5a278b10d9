"""Opening the file: what it must be, how it is set up, and a clear word when it cannot be used."""

from __future__ import annotations

import errno
import os
import re
import sqlite3
import threading
from collections.abc import Mapping
from importlib import resources
from pathlib import Path

from holdfast.model.errors import CodecFailed, CodecMismatch, DiskFailed, DiskFull, HoldfastError, StoreBroken, StoreBusy, StoreUnsuitable
from holdfast.model.payloads import PayloadCodec, check, check_text
from holdfast.store.sqlite.sharing import Presence

SCHEMA_VERSION = 6
MEMORY = ":memory:"
_APPLICATION_ID = 0x484F4C44
_LEAST_SQLITE = (3, 37, 0)
_BUSY_SECONDS = 10.0
_BUSY_PAUSE = 0.005
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


def load_queries() -> Mapping[str, str]:
    """The statements of queries.sql by name."""
    text = (resources.files("holdfast.store.sqlite") / "queries.sql").read_text()
    return {name: body.strip() for name, body in _NAMED.findall(text)}


def connect(where: str) -> sqlite3.Connection:
    """A connection with full durability: a step acknowledged is a step on disk."""
    if sqlite3.sqlite_version_info < _LEAST_SQLITE:
        wanted = ".".join(map(str, _LEAST_SQLITE))
        raise StoreUnsuitable(f"SQLite {sqlite3.sqlite_version} is too old: {wanted} or newer is needed.")
    if where != MEMORY:
        _refuse_remote(Path(where))
        if os.path.exists(where) and not os.access(where, os.W_OK):  # SQLite would open it, and leave files behind that are as closed
            raise _read_only(where)
    try:
        connection = sqlite3.connect(where, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False, cached_statements=256)
        try:
            _refuse_foreign(connection, where)  # first of all: the next line would change somebody else's file
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


def prepare(connection: sqlite3.Connection, where: str, codec: PayloadCodec | None) -> None:
    """Make the tables in a new file; refuse a file that is somebody else's, of another schema, or made with another codec."""
    try:
        connection.execute("BEGIN IMMEDIATE")
        try:
            _prepare(connection, where, codec)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:  # a full disk has ended it already
                connection.execute("ROLLBACK")
            raise
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise explained(error, where) from error


def _refuse_foreign(connection: sqlite3.Connection, where: str) -> None:
    """Look at the file as of one moment: another process may be making the store right now."""
    connection.execute("BEGIN")
    try:
        _is_new(connection, where)
    finally:
        connection.execute("ROLLBACK")


def _is_new(connection: sqlite3.Connection, where: str) -> bool:
    """Whether nobody has made tables yet; what is not ours, or not of our schema, is refused."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("PRAGMA schema_version").fetchone()
    if application == _APPLICATION_ID and version == SCHEMA_VERSION:
        return False
    if application == _APPLICATION_ID:
        raise StoreUnsuitable(f"{where} has schema version {version}; this Holdfast reads version {SCHEMA_VERSION}.")
    if tables:
        raise StoreUnsuitable(f"{where} is a SQLite database, but not a Holdfast store. Choose another path.")
    return True


def _prepare(connection: sqlite3.Connection, where: str, codec: PayloadCodec | None) -> None:
    queries = load_queries()
    if not _is_new(connection, where):
        known = dict(connection.execute(queries["codec_meta"]))
        _check_codec(where, codec, known.get("codec"), known.get("codec_check"))
        return
    schema = (resources.files("holdfast.store.sqlite") / "schema.sql").read_text()
    for statement in schema.split(";\n"):
        connection.execute(statement)
    connection.execute(queries["put_meta"], ("seal", os.urandom(32)))
    if codec is not None:
        connection.execute(queries["put_meta"], ("codec", codec.name))
        connection.execute(queries["put_meta"], ("codec_check", check_text(codec)))
    connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


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
    if name.startswith("SQLITE_READONLY"):
        return _read_only(where)
    if name.startswith("SQLITE_CANTOPEN") and Path(where).is_dir():
        return StoreUnsuitable(f"{where} is a folder. Name a file in it.")
    if name.startswith("SQLITE_CANTOPEN") and not Path(where).parent.is_dir():
        return StoreBroken(f"{where} could not be opened: there is no folder {Path(where).parent}. Make it first.")
    return StoreBroken(f"{where} could not be read or written: {error}")


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
    for line in mounts.read_text().splitlines():
        point, fstype = line.split()[1:3]
        inside = real == point or real.startswith(point.rstrip("/") + "/")
        if inside and len(point) > len(best):
            best, kind = point, fstype
    if kind in _REMOTE:
        raise StoreUnsuitable(f"{path} lies on a network file system ({kind}); a store needs a local disk.")

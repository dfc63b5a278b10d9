"""Replaces a store by a copy.

The copy is written into the store's file in one transaction of SQLite: after a crash, the file is the old store or the whole copy, and a
process that waits for the file's lock finds the copy. If SQLite cannot open the store's file at all, or the file is not a SQLite database,
that file is renamed first, and the copy is written into a new file.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final
from urllib.parse import quote

from holdfast.files import private
from holdfast.model.errors import InvalidParameter, StoreBroken, StoreNotFound, StoreUnsuitable
from holdfast.store.sqlite.backup import copy_to, free_name
from holdfast.store.sqlite.connection import connect, is_ours, load_queries
from holdfast.store.sqlite.errors import explained
from holdfast.store.sqlite.schema_migrations import LINEAGE, check_unused, numbers_of

_WHY: Final = "is to be replaced"
_MAGIC: Final = b"SQLite format 3\0"


def restore(where: str, source: Path) -> Path | None:
    """Replace the store at the path `where` by the copy `source`. Returns the path at which the replaced store is kept; None if there was
    no store. Raises StoreInUse if a process has the store open. Raises another error of Holdfast if the copy is missing, damaged, no store
    or the store itself, or if the store cannot be written."""
    if not source.is_file():
        raise StoreNotFound(f"There is no copy at {source}. Name a copy that `holdfast db backup` made.")
    if os.path.exists(where) and os.path.samefile(source, where):
        raise InvalidParameter(f"{source} is the store itself. Name a copy of it.")
    try:
        with closing(_opened(source)) as copy:
            _check(copy, source)
            return _put(copy, where)
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise explained(error, str(source)) from error


def _opened(source: Path) -> sqlite3.Connection:
    """A read-only connection to the copy, so that the copy may be on a read-only disk. If SQLite's write-ahead log or journal lies beside
    the copy, it is read, too. (A copy that `holdfast db backup` made has none.)"""
    fixed = "&immutable=1"
    for beside in (f"{source}-wal", f"{source}-shm", f"{source}-journal"):
        if os.path.lexists(beside):
            private.refuse_foreign(beside, source.stat().st_uid)  # else a user who can write in its folder could change what is restored
            fixed = ""
    return sqlite3.connect(f"file:{quote(str(source.absolute()))}?mode=ro{fixed}", uri=True, isolation_level=None)


def _check(copy: sqlite3.Connection, source: Path) -> None:
    """Raise StoreUnsuitable if the copy is not a store, or not one that this code can use; raise StoreBroken if it is damaged."""
    if not is_ours(copy):
        raise StoreUnsuitable(f"{source} is not a Holdfast store. Name a copy that `holdfast db backup` made.")
    LINEAGE.status(str(source), numbers_of(copy, load_queries()))
    ((said,),) = copy.execute("PRAGMA quick_check(1)").fetchall()
    if said != "ok":
        raise StoreBroken(f"{source} is damaged: {said}. Name another copy.")


def _put(copy: sqlite3.Connection, where: str) -> Path | None:
    check_unused(where, _WHY)
    there, aside = os.path.exists(where), free_name(Path(f"{where}.before-restore"))
    damaged = there and _is_damaged(where)
    try:
        if damaged:
            _move_aside(where, aside)
        if damaged or not there:
            os.close(os.open(where, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        with closing(connect(where, any_schema=True)) as target:
            _write_over(copy, target, where, aside if there and not damaged else None)
    except (sqlite3.Error, OSError) as error:
        raise explained(error, where) from error
    return aside if there else None


def _is_damaged(where: str) -> bool:
    """Whether the file is damaged: it does not begin like a SQLite database, or SQLite cannot open it. Raises StoreUnsuitable if it is a
    SQLite database of another program."""
    if Path(where).is_file() and not is_database(Path(where)):
        return True
    try:
        connect(where, any_schema=True).close()
    except StoreBroken:
        return True
    return False


def is_database(path: Path) -> bool:
    """Whether the file begins like a SQLite database, or is empty. If not, it is a damaged store or a file of another kind."""
    with open(path, "rb") as file:
        return file.read(len(_MAGIC)) in (_MAGIC, b"")


def _move_aside(where: str, aside: Path) -> None:
    """Rename the damaged file and its write-ahead log. If the log kept its name, SQLite would take it for the log of the new file."""
    for end in ("-wal", "-shm", ""):
        if os.path.exists(f"{where}{end}"):
            os.rename(f"{where}{end}", f"{aside}{end}")


def _write_over(copy: sqlite3.Connection, target: sqlite3.Connection, where: str, aside: Path | None) -> None:
    """Copy all pages of `copy` into `target`. SQLite holds the target's write lock from the first pages on. After the first pages, this
    function checks again that no other process has the store open, and copies the old store to `aside`, unless that is None. No other
    process can write in between."""
    (pages,) = copy.execute("PRAGMA page_count").fetchone()
    begun: list[bool] = []

    def under_lock(*_: object) -> None:
        if begun:
            return
        begun.append(True)
        check_unused(where, _WHY)
        if aside is not None:
            with closing(sqlite3.connect(where, isolation_level=None)) as before:
                copy_to(before, aside, replace=True)  # the name is free: the lock keeps other processes from making such files

    copy.backup(target, pages=max(1, pages // 2), progress=under_lock)

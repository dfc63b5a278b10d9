"""Errors of SQLite, and of the files beside the store, in Holdfast's words: what is wrong, and what to do.

When a statement of a batch fails, this module also decides whether the error concerns one entry or the whole batch.
"""

from __future__ import annotations

import errno
import os
import shlex
import sqlite3
from pathlib import Path
from typing import Final

from holdfast.model.errors import DiskFailed, DiskFull, HoldfastError, StoreBroken, StoreBusy, StoreUnsuitable
from holdfast.store.isolation import concerns_all

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_FAILING: Final = frozenset({errno.EIO, errno.EROFS})
_MAY_BE_FULL: Final = ("SQLITE_IOERR", "SQLITE_CANTOPEN")
_LITTLE_SPACE: Final = 2_048
"""A disk with fewer free bytes than this (one page of a store) counts as full."""
_OF_A_ROW: Final = (
    "SQLITE_CONSTRAINT",
    "SQLITE_MISMATCH",
    "SQLITE_TOOBIG",
    "SQLITE_RANGE",
    "SQLITE_ERROR",
    "SQLITE_NOMEM",
    "SQLITE_CORRUPT",
)
"""Errors of SQLite about one value or one row. A damaged page is among them, because it concerns only the entries that need that page."""
_CLOSED: Final = "Cannot operate on a closed database"


def explained(error: sqlite3.Error | OSError | UnicodeDecodeError, where: str) -> HoldfastError:
    """The error of Holdfast for an error of SQLite or of a file beside the store. `where` is the path of the store (or of the folder beside
    it), for the message."""
    name = getattr(error, "sqlite_errorname", "") or ""
    number = error.errno if isinstance(error, OSError) else None
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return StoreBusy(f"{where} is locked by another process: {error}. Try again.")
    if name == "SQLITE_FULL" or number in _FULL or (name.startswith(_MAY_BE_FULL) and _has_no_space(where)):
        return DiskFull(f"{where}: there is no space left on its disk. Free some.")
    if name.startswith("SQLITE_IOERR") or number in _FAILING:
        return DiskFailed(f"{where}: its disk fails ({name or error}). Check the disk.")
    if str(error).startswith(_CLOSED):
        return StoreBroken(f"{where} was closed by this process. Open it again.")
    if name.startswith("SQLITE_NOTADB"):
        return StoreUnsuitable(f"{where} is not a SQLite database. Choose another path.")
    if name.startswith("SQLITE_CORRUPT") or isinstance(error, UnicodeDecodeError):  # SQLite's message quotes the bytes it found
        return StoreBroken(f"{where} is damaged: {error}. Put a good copy in its place.")
    if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN")) and is_shut(Path(where).absolute().parent):
        return in_a_shut_folder(where)
    if name.startswith("SQLITE_READONLY"):
        return read_only(where)
    if name.startswith("SQLITE_CANTOPEN") and Path(where).is_dir():
        return StoreUnsuitable(f"{where} is a folder. Name a file in it.")
    if name.startswith("SQLITE_CANTOPEN") and not Path(where).parent.is_dir():
        return StoreBroken(f"{where} could not be opened: there is no folder {Path(where).parent}. Make it first.")
    return StoreBroken(f"{where} could not be read or written: {error}")


def is_shut(folder: Path) -> bool:
    """Whether this is a folder in which this user may not make files."""
    return folder.is_dir() and not os.access(folder, os.W_OK | os.X_OK)


def in_a_shut_folder(where: str) -> StoreBroken:
    """The error for a store in a folder in which this user may not make files."""
    folder = Path(where).absolute().parent
    return StoreBroken(
        f"{where} is in a folder that this user may not write: {folder}. Holdfast writes files beside a store, even if it "
        f"only reads the store. Let this user write there (in a folder of this user: chmod u+wx {shlex.quote(str(folder))}), "
        "or choose another path."
    )


def read_only(where: str) -> StoreBroken:
    """The error for a store file that this user may not write."""
    return StoreBroken(f"This user may not write {where}. Holdfast writes to a store even if it only reads it: change its permissions.")


def _has_no_space(where: str) -> bool:
    """Whether the disk is full. This is asked after an error of SQLite that does not tell its reason."""
    try:
        disk = os.statvfs(Path(where).parent)
    except OSError:
        return False
    return disk.f_blocks > 0 and disk.f_bavail * disk.f_frsize < _LITTLE_SPACE


def is_damage(error: sqlite3.Error) -> bool:
    """Whether SQLite says that a page of the file is damaged."""
    return (getattr(error, "sqlite_errorname", "") or "").startswith("SQLITE_CORRUPT")


def is_shared(error: Exception) -> bool:
    """Whether an error concerns all entries of a batch. Errors of the file, its lock and its disk do. Errors of a value, a row or a damaged
    page do not, nor does any error that is neither SQLite's, the system's nor Holdfast's."""
    if isinstance(error, HoldfastError):
        return concerns_all(error)
    if isinstance(error, sqlite3.Error):
        name = getattr(error, "sqlite_errorname", None)
        return not name.startswith(_OF_A_ROW) if name else str(error).startswith(_CLOSED)
    return isinstance(error, OSError)

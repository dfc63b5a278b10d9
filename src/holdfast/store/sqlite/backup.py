"""Copies of a store's file, made by SQLite's own backup while other processes may write. A copy gets its name only when it is complete, and
only its owner can read it."""

from __future__ import annotations

import errno
import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

from holdfast.files import private


def copy_to(source: sqlite3.Connection, target: Path, *, replace: bool = False) -> None:
    """Copy the committed state into the file `target`. Raises FileExistsError if that file exists, unless `replace` is True. Raises
    NotPrivate if other users can replace files in its folder."""
    if not replace and os.path.lexists(target):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
    private.refuse_shared(target.absolute().parent)  # SQLite opens the copy by its name, so no other user may replace it
    passing = target.with_name(f"{target.name}.part")
    try:
        _write(source, passing)
        if replace:
            passing.replace(target)
        else:
            _link(passing, target)
        _sync(target.parent)
    finally:
        passing.unlink(missing_ok=True)


def _link(passing: Path, target: Path) -> None:
    """Give the finished file its name. A hard link, unlike a rename, never replaces another file. On a file system without hard links the
    file is renamed."""
    try:
        os.link(passing, target)
    except FileExistsError:
        raise
    except OSError:
        passing.rename(target)


def _write(source: sqlite3.Connection, passing: Path) -> None:
    passing.unlink(missing_ok=True)  # a killed process may have left it
    file = os.open(passing, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        os.fchmod(file, 0o600)
        with closing(sqlite3.connect(passing, isolation_level=None)) as copy:
            copy.execute("PRAGMA journal_mode = OFF")  # no journal is needed: the copy gets its name only when it is complete
            copy.execute("PRAGMA synchronous = OFF")
            source.backup(copy)
        os.fsync(file)
    finally:
        os.close(file)


def _sync(folder: Path) -> None:
    """Sync a folder, so that a new name in it survives a power cut. An error of the sync is ignored: a file system that cannot sync a
    folder does not need it."""
    file = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with suppress(OSError):
            os.fsync(file)
    finally:
        os.close(file)


def free_name(wanted: Path) -> Path:
    """The path `wanted` if no file has it yet. Else the same path with the first free number at its end: `.2`, `.3` and so on."""
    name, number = wanted, 1
    while name.exists() or name.is_symlink():
        number += 1
        name = wanted.with_name(f"{wanted.name}.{number}")
    return name

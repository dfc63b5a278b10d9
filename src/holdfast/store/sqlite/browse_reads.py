"""The reads for people that have a deadline. If the store is a file, they use a separate read-only connection, so that no batch and no
runner waits for them."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from holdfast.model.browse_errors import ReadTooLong
from holdfast.model.clock import monotonic
from holdfast.store.browse_reads import BrowseReads
from holdfast.store.browse_walk import Ask
from holdfast.store.rows import Row
from holdfast.store.sqlite.connection import MEMORY
from holdfast.store.sqlite.errors import explained
from holdfast.store.sqlite.reads import SqliteReads, text_or_bytes

_STEPS: Final = 20_000
"""SQLite checks the deadline after this many steps of its virtual machine, which take less than a millisecond."""
_CACHE_KIB: Final = 16_384


class SqliteBrowseReads(SqliteReads, BrowseReads):
    """The part of a store with the reads for people."""

    _looker: sqlite3.Connection | None
    """The connection for the reads that have a deadline; None before the first such read."""
    _look_at: str
    _look_lock: threading.RLock

    @contextmanager
    def _search_connection(self, seconds: float) -> Iterator[Ask]:
        until = monotonic() + seconds
        lock = self._read_lock if self._where == MEMORY else self._look_lock
        if not lock.acquire(timeout=max(seconds, 0)):
            raise ReadTooLong
        try:
            connection = self._look_connection()
            connection.set_progress_handler(lambda: monotonic() > until, _STEPS)
            try:
                yield lambda question, asked: _asked(connection, question, asked, until)
            finally:
                connection.set_progress_handler(None, 0)
        except (sqlite3.Error, OSError, UnicodeDecodeError) as error:
            raise explained(error, self._where) from error
        finally:
            lock.release()

    def _look_connection(self) -> sqlite3.Connection:
        if self._where == MEMORY:
            return self._reader
        if self._looker is None:
            self._looker = sqlite3.connect(self._look_at, uri=True, isolation_level=None, check_same_thread=False, timeout=1.0)
            self._looker.execute("PRAGMA query_only = ON")
            self._looker.execute("PRAGMA temp_store = MEMORY")
            self._looker.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        return self._looker

    def _close_looker(self) -> None:
        if self._looker is not None:
            with self._look_lock:
                self._looker.close()


def look_address(where: str) -> str:
    """The SQLite URI that opens this file read-only. It is absolute, because the program may change its working directory later."""
    return f"{Path(where).absolute().as_uri()}?mode=ro"


def _asked(connection: sqlite3.Connection, question: str, asked: Mapping[str, object], until: float) -> list[Row]:
    if monotonic() > until:
        raise ReadTooLong
    try:
        return _answered(connection, question, asked)
    except sqlite3.OperationalError as error:
        if getattr(error, "sqlite_errorname", "") == "SQLITE_INTERRUPT":
            raise ReadTooLong from error
        raise


def _answered(connection: sqlite3.Connection, question: str, asked: Mapping[str, object]) -> list[Row]:
    try:
        return connection.execute(question, asked).fetchall()
    except sqlite3.OperationalError as error:
        if getattr(error, "sqlite_errorname", None) is not None:  # only Python's own error, about a damaged text, has no such name
            raise
    except UnicodeDecodeError:
        pass
    # A damaged text fails the whole query. The query runs again, and the damaged text is read as bytes.
    connection.text_factory = text_or_bytes
    try:
        return connection.execute(question, asked).fetchall()
    finally:
        connection.text_factory = str

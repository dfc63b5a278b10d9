"""How everything but a batch is written: single statements and short transactions, in turn with other processes."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager

from holdfast.store import rows
from holdfast.store.sqlite.connecting import explained
from holdfast.store.sqlite.reads import Reading
from holdfast.store.sqlite.wal_space import WalSpace

CHUNKS = (128, 16, 4, 2, 1)
"""Rows per statement: a batch of any size needs few statements, and each size is prepared once."""
_WIDTHS = {
    "put_executions": len(rows.COLUMNS["execution"]),
    "touch_executions": 8,
    "move_executions": 2,
    "put_operations": len(rows.COLUMNS["operation"]),
    "put_events": len(rows.COLUMNS["event"]),
    "put_signals": 9,
}


def bulk(sql: Mapping[str, str]) -> Mapping[str, dict[int, str]]:
    """The statements that put rows, for each number of rows."""
    made = {
        name: {size: sql[name].replace("{rows}", ", ".join([f"({', '.join('?' * width)})"] * size)) for size in CHUNKS}
        for name, width in _WIDTHS.items()
    }
    made["touch_executions"][1] = sql["touch_execution"]  # one row alone, the lone sequential step, is spared the join
    return made


class Writing(Reading):
    """The writing half of a store, without batches."""

    _writer: sqlite3.Connection
    _write_lock: threading.RLock
    _room: WalSpace | None
    _turn: Callable[[], AbstractContextManager[None]]
    _bulk: Mapping[str, dict[int, str]]
    """The statements that put rows, for each number of rows."""

    def _write(self, name: str, parameters: Sequence[object]) -> int:
        try:
            with self._write_lock, self._turn():
                return self._writer.execute(self._sql[name], parameters).rowcount
        except (sqlite3.Error, OSError, UnicodeDecodeError) as error:
            raise explained(error, self._where) from error

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Everything inside is written, or nothing of it."""
        try:
            with self._write_lock, self._turn():
                self._begin()
                try:
                    yield self._writer
                    self._writer.execute("COMMIT")
                except BaseException:
                    if self._writer.in_transaction:
                        self._writer.execute("ROLLBACK")
                    raise
        except (sqlite3.Error, OSError) as error:
            raise explained(error, self._where) from error

    def _begin(self) -> None:
        """From here to the end of the transaction nobody else writes."""
        self._writer.execute("BEGIN IMMEDIATE")
        if self._room is not None:
            self._room.make()

    def _put_rows(self, name: str, values: Sequence[rows.Row]) -> None:
        """Put many rows with few statements, inside a transaction."""
        statements = self._bulk[name]
        start, count = 0, len(values)
        for size in CHUNKS:
            while count - start >= size:
                flat = [value for row in values[start : start + size] for value in row]
                self._writer.execute(statements[size], flat)
                start += size

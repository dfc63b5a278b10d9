"""Everything that is written outside a batch: single statements and short transactions.

Each write waits until no other thread of this process writes, and then for the turn of this process among the processes that use the file.
Each transaction begins with space in the WAL for what it will write (`WalSpace`).
"""

from __future__ import annotations

import os
import re
import sqlite3
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import chain
from operator import itemgetter
from typing import Final

from holdfast.model.audit import Note
from holdfast.model.errors import InvalidParameter
from holdfast.model.execution import Change
from holdfast.store import rows
from holdfast.store.changes import Changes, RunStatement
from holdfast.store.sqlite.errors import explained
from holdfast.store.sqlite.reads import SqliteReads

CHUNKS = (128, 16, 4, 2, 1)
"""The numbers of rows that one statement can write. A batch of any size needs few of these statements, and SQLite prepares each of them
only once."""
_PIECE: Final = bytes(1024 * 1024)
_TAIL: Final = 8192
"""`make` reads this many bytes at the end of the WAL. If all of them are zeros, there is still space: a frame is shorter than this, and its
head is never all zeros."""
_WIDTHS = {
    "put_executions": len(rows.COLUMNS["execution"]),
    "change_executions": 36,
    "touch_executions": 8,
    "move_executions": 2,
    "put_operations": len(rows.COLUMNS["operation"]),
    "put_events": len(rows.COLUMNS["event"]),
    "put_signals": 9,
    "put_ledger": 23,
}


_UPDATES: Final = ("change_executions", "touch_executions", "move_executions")
_COLUMN: Final = re.compile(r"v\.column(\d+)")


def bulk(sql: Mapping[str, str]) -> Mapping[str, dict[int, str]]:
    """The statements that write many rows. The first key is the name of the statement, the second is how many rows it writes."""
    made = {
        name: {size: sql[name].replace("{rows}", ", ".join([f"({', '.join('?' * width)})"] * size)) for size in CHUNKS}
        for name, width in _WIDTHS.items()
    }
    for name in _UPDATES:
        made[name][1] = _COLUMN.sub("?", sql[name].replace("FROM (VALUES {rows}) AS v ", ""))
    return made


def orders(sql: Mapping[str, str]) -> Mapping[str, Callable[[rows.Row], rows.Row]]:
    """How to sort the values of a row for the statement of `bulk` that updates one row, by the name of the statement. Such a statement is
    without a join, because it is the most frequent one, and takes the values in the order in which it names them. A statement that takes
    them in the order of the row is left out."""
    named = {name: [int(column) - 1 for column in _COLUMN.findall(sql[name])] for name in _UPDATES}
    return {name: itemgetter(*columns) for name, columns in named.items() if columns != list(range(len(columns)))}


class WalSpace:
    """Space for the next writes in the WAL of one open file.

    A file that grows costs more to sync: the kernel must write its new length as well, which may take as long as writing the data. So the
    store makes the WAL longer in large pieces of zeros, and SQLite then writes over the zeros. When SQLite reads the WAL, it ignores
    everything after the last good frame.
    """

    def __init__(self, where: str) -> None:
        self._file: int | None = os.open(f"{where}-wal", os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        self._length: int | None = None

    def make(self) -> None:
        """Make the WAL longer if SQLite has used up its space since the last call. Call it only inside a write transaction: then no other
        process writes."""
        assert self._file is not None
        length = os.fstat(self._file).st_size
        grown, self._length = self._length is not None and length > self._length, length
        if grown and any(os.pread(self._file, _TAIL, max(0, length - _TAIL))):  # else another process has made space
            with suppress(OSError):  # if the disk is full, the write that needs the space reports it
                self._length += os.pwrite(self._file, _PIECE, length)

    def close(self) -> None:
        """Close the file. A second call does nothing."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


class Transactions(SqliteReads, Changes):
    """The writing half of a store, without batches."""

    _writer: sqlite3.Connection
    _write_lock: threading.RLock
    _wal_space: WalSpace | None
    _turn: Callable[[], AbstractContextManager[None]]
    _bulk: Mapping[str, dict[int, str]]
    """The statements that write many rows. The first key is the name of the statement, the second is how many rows it writes."""
    _orders: Mapping[str, Callable[[rows.Row], rows.Row]]
    """How the values of one row are sorted before they are written (`orders`)."""

    def _change(self, name: str, parameters: Sequence[object]) -> int:
        try:
            with self._write_lock, self._turn():
                return self._writer.execute(self._sql[name], parameters).rowcount
        except (sqlite3.Error, OSError, UnicodeDecodeError) as error:
            raise explained(error, self._where) from error

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """A write transaction, with its connection. At the end of the `with` block everything is committed; if the block raises an error,
        nothing is written."""
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
        except (sqlite3.Error, OSError, UnicodeDecodeError) as error:
            raise explained(error, self._where) from error

    @contextmanager
    def _changing(self) -> Iterator[RunStatement]:
        with self._transaction() as writer:
            yield lambda name, parameters: writer.execute(self._sql[name], parameters).rowcount

    def note(self, notes: Sequence[Note]) -> None:
        with self._transaction():
            self._put_notes(notes)

    def _put_changed_notes(self, changes: Iterable[Change]) -> None:
        """Write the notes of a batch, inside its transaction."""
        notes = [note for change in changes for note in change.notes]
        if notes:
            self._put_notes(notes)

    def _put_notes(self, notes: Sequence[Note]) -> None:
        self._writer.executemany(self._sql["put_note"], [rows.note_row(note) for note in notes])

    def _begin(self) -> None:
        """Begin a write transaction. No other connection can write until it ends. If another connection writes now, this waits at most 10
        seconds."""
        self._writer.execute("BEGIN IMMEDIATE")
        if self._wal_space is not None:
            self._wal_space.make()

    def _put_graphs(self, graphs: Mapping[str, str | None], stale: Collection[str] = ()) -> None:
        """Add the graphs that the store does not have, inside a transaction. Graphs in `stale` are written again, because they may be
        encoded with an older key. Raises InvalidParameter if a graph has no text here (None) and is not in the store either."""
        for graph, text in graphs.items():
            if text is not None:
                self._writer.execute(self._sql["renew_graph" if graph in stale else "put_graph"], (graph, text))
            elif self._writer.execute(self._sql["has_graph"], (graph,)).fetchone() is None:
                raise InvalidParameter(f"There is no graph {graph}: the start that names it must bring its text.")

    def _put_rows(self, name: str, values: Sequence[rows.Row]) -> None:
        """Write rows with few statements, inside a transaction. `name` is a key of `_bulk`."""
        statements, count, start = self._bulk[name], len(values), 0
        for size in CHUNKS[:-1] if count > 1 else ():
            while count - start >= size:
                flat = tuple(chain.from_iterable(values[start : start + size]))
                self._writer.execute(statements[size], flat)
                start += size
        if start < count:  # most often: an execution that runs alone writes one row of each kind
            order = self._orders.get(name)
            self._writer.execute(statements[1], values[start] if order is None else order(values[start]))

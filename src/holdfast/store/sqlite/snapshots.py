"""Snapshots: all rows of one execution, read at one moment, or written into another store as a copy."""

from __future__ import annotations

import sqlite3

from holdfast.store.seam import Snapshot
from holdfast.store.snapshots import CopyRows, SnapshotReads, check_name_free, is_known
from holdfast.store.sqlite.errors import explained
from holdfast.store.sqlite.transactions import Transactions


class SqliteSnapshots(Transactions, SnapshotReads):
    """The part of a store that reads and writes copies of whole executions."""

    def snapshot(self, execution: str) -> Snapshot | None:
        try:
            with self._read_lock:
                self._reader.execute("BEGIN")
                try:
                    return self._inside(self._reader, execution)
                finally:
                    self._reader.execute("COMMIT")
        except (sqlite3.Error, OSError, UnicodeDecodeError) as error:
            raise explained(error, self._where) from error

    def adopt(self, copy: Snapshot) -> bool:
        header = copy.header
        with self._transaction() as writer:
            if is_known(self._inside(writer, header.id), copy, self._where):
                return False
            taken = writer.execute(self._sql["named"], (header.function, header.name)).fetchone()
            check_name_free(taken, copy, self._where)
            (last,) = writer.execute(self._sql["last_key"]).fetchone()
            made = CopyRows(last + 1, copy, self._codec)
            self._put_rows("put_executions", made.executions)
            self._put_rows("put_operations", made.operations)
            self._put_rows("put_events", made.events)
            self._put_graphs(made.graphs)
        return True

    def _inside(self, connection: sqlite3.Connection, execution: str) -> Snapshot | None:
        return self._all_of(lambda name, parameters: connection.execute(self._sql[name], parameters).fetchall(), execution)

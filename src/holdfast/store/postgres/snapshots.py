"""Snapshots: all rows of one execution, read at one moment, or written into another store as a copy."""

from __future__ import annotations

import psycopg

from holdfast.store.postgres.batch_statement import BatchStatement
from holdfast.store.postgres.errors import explained
from holdfast.store.postgres.graphs import PostgresGraphs
from holdfast.store.postgres.older_code import PIPELINES
from holdfast.store.postgres.session import ONE_MOMENT, Session
from holdfast.store.seam import Snapshot
from holdfast.store.snapshots import CopyRows, SnapshotReads, check_name_free, is_known


class PostgresSnapshots(BatchStatement, PostgresGraphs, SnapshotReads):
    """The part of a store that reads and writes copies of whole executions."""

    def snapshot(self, execution: str) -> Snapshot | None:
        with self._side.explained_transaction(begin=ONE_MOMENT):
            return self._inside(self._side, execution)

    def adopt(self, copy: Snapshot) -> bool:
        """Returns False also if another process writes the same copy at the same time."""
        for last in (False, True):
            try:
                with self._writer.transaction():
                    return self._adopt(copy)
            except psycopg.errors.UniqueViolation as error:
                if last:
                    raise explained(error, self._shown) from error
            except psycopg.Error as error:
                raise explained(error, self._shown) from error
        raise AssertionError("the second try returns or raises")

    def _adopt(self, copy: Snapshot) -> bool:
        header = copy.header
        if is_known(self._inside(self._writer, header.id), copy, self._shown):
            return False
        taken = self._writer.run(self._sql["named"], (header.function, header.name))
        check_name_free(taken[0] if taken else None, copy, self._shown)
        ((key,),) = self._writer.run(self._sql["next_keys"])
        made = CopyRows(key, copy, self._codec)
        if made.graphs:
            self._check_least(PIPELINES, "A copy of a pipeline's run can be kept")
            self._put_graphs(made.graphs)
        self._write({"executions": made.executions, "operations": made.operations, "events": made.events}, {}, news=True)
        return True

    def _inside(self, session: Session, execution: str) -> Snapshot | None:
        return self._all_of(lambda name, parameters: session.run(self._sql[name], parameters), execution)

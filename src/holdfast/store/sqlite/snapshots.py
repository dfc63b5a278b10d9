"""Snapshots: all of one execution, read at one moment and written elsewhere as a copy."""

from __future__ import annotations

import sqlite3

import msgspec

from holdfast.model.codec import payload_hash
from holdfast.model.errors import ExecutionAlreadyStarted
from holdfast.model.execution import Execution
from holdfast.model.history import Event
from holdfast.model.operations import Operation
from holdfast.model.payloads import identified
from holdfast.model.verbs import Start
from holdfast.store import rows
from holdfast.store.seam import Snapshot
from holdfast.store.sqlite.connecting import explained
from holdfast.store.sqlite.writing import Writing


class Snapshots(Writing):
    """The part of a store that gives and takes whole executions."""

    def snapshot(self, execution: str) -> Snapshot | None:
        """All of an execution; one transaction, so that no write comes between its rows."""
        try:
            with self._read_lock:
                self._reader.execute("BEGIN")
                try:
                    return self._all_of(self._reader, execution)
                finally:
                    self._reader.execute("COMMIT")
        except (sqlite3.Error, OSError) as error:
            raise explained(error, self._where) from error

    def adopt(self, copy: Snapshot) -> bool:
        """Write a copy, unless it is there."""
        header = copy.header
        with self._transaction() as writer:
            there = self._all_of(writer, header.id)
            if there is not None:
                if _essence(there) == _essence(copy):
                    return False
                raise ExecutionAlreadyStarted(f"There is another execution {header.id} in {self._where}, which differs from this copy.")
            taken = writer.execute(self._sql["named"], (header.function, header.name)).fetchone()
            if taken is not None and header.superseded_by is None:
                raise ExecutionAlreadyStarted(
                    f"There is another execution {header.function}/{header.name} in {self._where}: {rows.execution_from(taken).id}."
                )
            (last,) = writer.execute(self._sql["last_key"]).fetchone()
            self._put_copy(last + 1, copy)
        return True

    def _put_copy(self, key: int, copy: Snapshot) -> None:
        header = msgspec.structs.replace(copy.header, input_hash=self._identity(copy))
        places = {operation.id: operation.place for operation in copy.operations}
        events = [rows.event_row(key, event, places.get(event.operation_id or ""), header.id, self._codec) for event in copy.events]
        self._put_rows("put_executions", [rows.execution_row(key, header)])
        self._put_rows("put_operations", [rows.operation_row(key, operation) for operation in copy.operations])
        self._put_rows("put_events", events)

    def _identity(self, copy: Snapshot) -> str:
        """What a start of the same name compares its input with; a copy without data has none."""
        given = copy.events[0].payload
        if given is None:
            return ""
        if self._codec is not None:
            return identified(Start(copy.header, given), None, self._codec).header.input_hash
        return payload_hash(given)

    def _all_of(self, connection: sqlite3.Connection, execution: str) -> Snapshot | None:
        row = connection.execute(self._sql["header"], (execution,)).fetchone()
        if row is None:
            return None
        key = row[0]
        found = connection.execute(self._sql["newer_operations"], (key, -1)).fetchall()
        operations = [rows.operation_from(each, execution, self.seal, self._codec) for each in found]
        places = {operation.place: operation for operation in operations}
        told = connection.execute(self._sql["all_events"], (key,)).fetchall()
        events = [rows.event_from(each, places, execution, self._codec)[0] for each in told]
        return Snapshot(rows.execution_from(row), tuple(operations), tuple(events))


def _essence(snapshot: Snapshot) -> tuple[Execution, list[Operation], tuple[Event, ...]]:
    """What two copies of one execution must share: all but what each store makes by itself."""
    header = msgspec.structs.replace(snapshot.header, input_hash="", expires_at=None)
    plain = [msgspec.structs.replace(op, callback_id=None, result=None, error=None) for op in snapshot.operations]
    return header, plain, snapshot.events

"""Snapshots: all of one execution, read at one moment and written elsewhere as a copy."""

from __future__ import annotations

import msgspec
import psycopg

from holdfast.model.codec import payload_hash
from holdfast.model.errors import ExecutionAlreadyStarted
from holdfast.model.execution import Execution
from holdfast.model.history import Event
from holdfast.model.operations import Operation
from holdfast.model.payloads import identified
from holdfast.model.verbs import Start
from holdfast.store import rows
from holdfast.store.postgres.session import Session
from holdfast.store.postgres.trouble import explained
from holdfast.store.postgres.writing import Writing
from holdfast.store.seam import Snapshot

_ONE_MOMENT = b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"


class Snapshots(Writing):
    """The part of a store that gives and takes whole executions."""

    def snapshot(self, execution: str) -> Snapshot | None:
        """All of an execution; one transaction with one view of the database, so that no write comes between its rows."""
        with self._side.explained_transaction(begin=_ONE_MOMENT):
            return self._all_of(self._side, execution)

    def adopt(self, copy: Snapshot) -> bool:
        """Write a copy, unless it is there. Where somebody else was quicker, what they wrote is looked at."""
        for last in (False, True):
            try:
                with self._writer.transaction():
                    return self._adopt(copy)
            except psycopg.errors.UniqueViolation as error:
                if last:
                    raise explained(error, self._shown) from error
            except psycopg.Error as error:
                raise explained(error, self._shown) from error
        raise AssertionError("the second time ends it")

    def _adopt(self, copy: Snapshot) -> bool:
        header = copy.header
        there = self._all_of(self._writer, header.id)
        if there is not None:
            if _essence(there) == _essence(copy):
                return False
            raise ExecutionAlreadyStarted(f"There is another execution {header.id} in {self._shown}, which differs from this copy.")
        taken = self._writer.run(self._sql["named"], (header.function, header.name))
        if taken and header.superseded_by is None:
            raise ExecutionAlreadyStarted(
                f"There is another execution {header.function}/{header.name} in {self._shown}: {rows.execution_from(taken[0]).id}."
            )
        ((key,),) = self._writer.run(self._sql["next_keys"])
        self._put_copy(key, copy)
        return True

    def _put_copy(self, key: int, copy: Snapshot) -> None:
        header = msgspec.structs.replace(copy.header, input_hash=self._identity(copy))
        places = {operation.id: operation.place for operation in copy.operations}
        self._write(
            {
                "executions": [rows.execution_row(key, header)],
                "operations": [rows.operation_row(key, operation) for operation in copy.operations],
                "events": [
                    rows.event_row(key, event, places.get(event.operation_id or ""), header.id, self._codec) for event in copy.events
                ],
            },
            {},
            news=True,
        )

    def _identity(self, copy: Snapshot) -> str:
        """What a start of the same name compares its input with; a copy without data has none."""
        given = copy.events[0].payload
        if given is None:
            return ""
        if self._codec is not None:
            return identified(Start(copy.header, given), None, self._codec).header.input_hash
        return payload_hash(given)

    def _all_of(self, session: Session, execution: str) -> Snapshot | None:
        found = session.run(self._sql["header"], (execution,))
        if not found:
            return None
        key = found[0][0]
        operations = self._operations(session.run(self._sql["newer_operations"], (key, -1)), execution)
        places = {operation.place: operation for operation in operations}
        events = [self._line(row, places, execution).event for row in session.run(self._sql["all_events"], (key,))]
        return Snapshot(rows.execution_from(found[0]), tuple(operations), tuple(events))


def _essence(snapshot: Snapshot) -> tuple[Execution, list[Operation], tuple[Event, ...]]:
    """What two copies of one execution must share: all but what each store makes by itself."""
    header = msgspec.structs.replace(snapshot.header, input_hash="", expires_at=None)
    plain = [msgspec.structs.replace(op, callback_id=None, result=None, error=None) for op in snapshot.operations]
    return header, plain, snapshot.events

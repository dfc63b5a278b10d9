"""Executions of any shape and size, written into a store as copies: no runner and no time is needed to make them."""

from __future__ import annotations

from hashlib import sha256

import msgspec

from holdfast.model.execution import Execution, ExecutionStatus, State, Terms
from holdfast.model.history import Event, EventType
from holdfast.model.ids import id_at
from holdfast.model.life import new_execution
from holdfast.model.operations import Operation, Status, SubType, Type
from holdfast.store.seam import Snapshot, Store


class History:
    """Writes down what an execution did, one operation after the other, in times of its own."""

    def __init__(self, name: str, start: int, *, tenant: str | None = None) -> None:
        terms = Terms()
        self.header = new_execution(id_at(start), name, "import", "3", payload="{}", now=start, terms=terms, tenant=tenant)
        self.now = start
        self._operations: list[Operation] = []
        self._events = [Event(1, EventType.EXECUTION_STARTED, start, None, "{}")]

    def context(self, name: str, sub_type: SubType = SubType.RUN_IN_CHILD_CONTEXT, parent: str | None = None) -> str:
        """A context that began now and ended at once."""
        return self._operation(
            Type.CONTEXT, sub_type.value, name, parent, 0, EventType.CONTEXT_STARTED, EventType.CONTEXT_SUCCEEDED, "null"
        )

    def step(self, name: str, took: int = 10, parent: str | None = None, error: str | None = None, result: str = '"done"') -> str:
        """A step that ran for a time."""
        ends = EventType.STEP_SUCCEEDED if error is None else EventType.STEP_FAILED
        payload = result if error is None else msgspec.json.encode({"ErrorType": "ValueError", "ErrorMessage": error}).decode()
        return self._operation(Type.STEP, SubType.STEP.value, name, parent, took, EventType.STEP_STARTED, ends, payload)

    def wait(self, name: str, took: int) -> str:
        """A wait that is over."""
        return self._operation(Type.WAIT, SubType.WAIT.value, name, None, took, EventType.WAIT_STARTED, EventType.WAIT_SUCCEEDED, None)

    def kept(self, store: Store) -> Execution:
        """End the execution, and write it into a store."""
        number = len(self._events) + 1
        self._events.append(Event(number, EventType.EXECUTION_SUCCEEDED, self.now, None, '"over"'))
        header = msgspec.structs.replace(
            self.header,
            status=ExecutionStatus.SUCCEEDED,
            state=State.CLOSED,
            ended_at=self.now,
            touched_at=self.now,
            result_event=number,
            events=number,
            sequence=number,
            revision=number,
            operations=len(self._operations),
            stored=20 * number,
        )
        assert store.adopt(Snapshot(header, tuple(self._operations), tuple(self._events)))
        return header

    def _operation(
        self, type: Type, sub_type: str, name: str, parent: str | None, took: int, begins: EventType, ends: EventType, payload: str | None
    ) -> str:
        identity, place = sha256(f"{len(self._operations)}".encode()).hexdigest(), len(self._events) + 1
        self._events.append(Event(place, begins, self.now, identity))
        begun, self.now = self.now, self.now + took
        self._events.append(Event(place + 1, ends, self.now, identity, payload))
        failed = ends is EventType.STEP_FAILED
        self._operations.append(
            Operation(
                id=identity,
                type=type,
                sub_type=sub_type,
                name=name,
                parent_id=parent,
                status=Status.FAILED if failed else Status.SUCCEEDED,
                started_at=begun,
                ended_at=self.now,
                due_at=self.now if type is Type.WAIT else None,
                attempt=1 if type is Type.STEP else 0,
                place=place,
                payload_event=place + 1,
                revision=place + 1,
            )
        )
        return identity

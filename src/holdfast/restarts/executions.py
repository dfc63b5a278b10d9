"""Restarts of durable functions: a new execution that begins with a part of the history of another one.

Operations that had ended before the chosen operation began are copied. Everything else runs again: the chosen operation, the operations
after it, and those that were still open at that time. Before anything is written, today's code is replayed on the copied part. If the code
does not match it, nothing is started.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from holdfast.durable.execution import DurableFunction
from holdfast.engine.restarts import check_restartable, restarted
from holdfast.exports.replaying import Replayed, replay_snapshot
from holdfast.model import codec
from holdfast.model.errors import ExecutionNotFound, InvalidParameter
from holdfast.model.execution import Execution, ExecutionStatus, State
from holdfast.model.history import KIND, Event, EventType
from holdfast.model.operations import OPEN, Operation, Status, Type
from holdfast.model.restart_errors import OperationNotFound, RestartRefused
from holdfast.model.starts import Prefix, Restart, Start
from holdfast.store.seam import ExecutionStore, Snapshot
from holdfast.workers.run_lookup import Caller

_MOST_SHOWN: Final = 5


class PreparedExecution(msgspec.Struct, frozen=True, kw_only=True):
    """A restart of an execution that was checked and may begin."""

    header: Execution
    """The header of the old execution."""
    operation: Operation
    """The operation from which on the new execution runs again: this operation itself is not copied."""
    input: str
    """The input of the new execution."""
    prefix: Prefix
    """The part of the old history that is copied."""
    version: str
    """The function's version for the new execution."""
    replayed: Replayed
    """The result of the replay on the copied part."""
    again: tuple[str, ...]
    """The operations that had begun in the old execution and run again, by name or id."""

    def write(self, identity: str, now: int, caller: Caller) -> Start:
        """The write that starts the new execution with the id `identity` at the time `now`. It also notes in the audit log that `caller`
        restarted it."""
        # The times of a history never decrease, so copied events get the time of the new start. Copied operations keep their times.
        prefix = Prefix(tuple(msgspec.structs.replace(event, at=now) for event in self.prefix.events), self.prefix.operations)
        return restarted(
            self.header,
            identity,
            now,
            payload=self.input,
            version=self.version,
            restart=Restart(self.header.id, self.operation.name or self.operation.id, prefix),
            notes=caller.did("restart", self.header.id, f"as {identity}", now),
        )


def prepare_execution(
    store: ExecutionStore, execution: str, function: DurableFunction, operation: str, input: str | None = None
) -> PreparedExecution:
    """Check the restart of an execution from an operation, and replay the function's code on the part of the history before it. Writes
    nothing. `input` is the new input; None: the old one.

    Raises ExecutionNotFound if there is no such execution, and OperationNotFound if no operation, or several, have this name or id. Raises
    InvalidParameter if it is an execution of another function, or if the function is a plain function. Raises RestartRefused if it cannot
    be restarted, or if the code ends without some of the records. Raises NonDeterministicExecutionError if the code calls another operation
    than the recorded one.
    """
    snapshot = store.snapshot(execution)
    if snapshot is None:
        raise ExecutionNotFound(f"There is no execution {execution!r:.100}.")
    header = snapshot.header
    if (snapshot.events[0].detail or {}).get(KIND) is not None:
        raise RestartRefused(f"{header.function} {header.id} is a run: restart it with `holdfast runs restart`.")
    check_restartable(header)
    if function.name != header.function:
        raise InvalidParameter(f"{header.id} is an execution of {header.function!r}, not of {function.name!r}. Give its own function.")
    found = _found(snapshot, operation)
    given = snapshot.events[0].payload if input is None else codec.fitting(codec.storable(input), "Execution input")
    kept = _kept(snapshot, found.place)
    prefix = _prefix(snapshot, kept, found.place)
    again = tuple(op.name or op.id for op in snapshot.operations if op.id not in kept)
    replayed = replay_snapshot(_cut(snapshot, prefix, given), function)
    if not replayed.matches:
        raise RestartRefused(f"The code does not follow the history before {operation!r:.100}. {replayed.why}")
    return PreparedExecution(
        header=header, operation=found, input=given or "null", prefix=prefix, version=function.version, replayed=replayed, again=again
    )


def _found(snapshot: Snapshot, operation: str) -> Operation:
    """The operation that a text names: its id, or a name that only one operation has. Raises OperationNotFound if there is none, or
    several."""
    named = [op for op in snapshot.operations if operation in (op.id, op.name)]
    if len(named) == 1:
        return named[0]
    names = list(dict.fromkeys(op.name or op.id for op in snapshot.operations))
    if named:
        ids = ", ".join(op.id for op in named[:_MOST_SHOWN])
        raise OperationNotFound(f"{len(named)} operations have the name {operation!r:.100}. Name one by its id: {ids}.")
    told = ", ".join(names[:20]) + (", …" if len(names) > 20 else "")
    raise OperationNotFound(f"Execution {snapshot.header.id} has no operation {operation!r:.100}. Its operations: {told or 'none'}.")


def _kept(snapshot: Snapshot, place: int) -> dict[str, Operation]:
    """The operations, by id, that had ended before the event with the number `place`, and the contexts that were open at that time. These
    contexts are open in the new execution."""
    last: dict[str, int] = {event.operation_id: event.number for event in snapshot.events if event.operation_id is not None}
    kept: dict[str, Operation] = {}
    for op in snapshot.operations:
        if op.place >= place or (op.parent_id is not None and op.parent_id not in kept):
            continue
        if op.status not in OPEN and last.get(op.id, place) < place:
            kept[op.id] = op
        elif op.type is Type.CONTEXT:
            opened: dict[str, Any] = {"ended_at": None, "result": None, "error": None, "payload_event": None, "replay_children": False}
            kept[op.id] = msgspec.structs.replace(op, status=Status.STARTED, **opened)
    return kept


def _prefix(snapshot: Snapshot, kept: dict[str, Operation], place: int) -> Prefix:
    """The events before the number `place` that are copied, and the kept operations, both with new event numbers. Copied are the events of
    kept operations, and those of no operation, but neither the first event nor the ends of invocations."""
    events = [event for event in snapshot.events[1:] if event.number < place and _stays(event, kept)]
    numbers = {event.number: number for number, event in enumerate(events, 2)}

    def moved(op: Operation) -> Operation:
        payload = None if op.payload_event is None else numbers[op.payload_event]
        return msgspec.structs.replace(op, place=numbers[op.place], payload_event=payload, revision=1, due_at=None)

    return Prefix(
        tuple(msgspec.structs.replace(event, number=numbers[event.number]) for event in events), tuple(moved(op) for op in kept.values())
    )


def _stays(event: Event, kept: dict[str, Operation]) -> bool:
    """Whether an event is copied. An event of an operation is copied if the operation is kept. An event of no operation is copied unless it
    is the end of an invocation."""
    return event.operation_id in kept if event.operation_id is not None else event.type is not EventType.INVOCATION_COMPLETED


def _cut(snapshot: Snapshot, prefix: Prefix, given: str | None) -> Snapshot:
    """The new execution as a snapshot, on which the code is replayed. `given` is its input."""
    header = msgspec.structs.replace(
        snapshot.header,
        status=ExecutionStatus.RUNNING,
        state=State.READY,
        ended_at=None,
        result_event=None,
        events=1 + len(prefix.events),
        operations=len(prefix.operations),
    )
    first = msgspec.structs.replace(snapshot.events[0], payload=given)
    return msgspec.structs.replace(snapshot, header=header, operations=prefix.operations, events=(first, *prefix.events))

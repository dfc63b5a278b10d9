"""Copies of whole executions: when two copies count as the same execution, and the rows of a copy."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from holdfast.model.codec import dumps, payload_hash
from holdfast.model.errors import ExecutionAlreadyStarted
from holdfast.model.execution import Execution, GraphText, checked_graph
from holdfast.model.history import Event
from holdfast.model.operations import Operation
from holdfast.model.payloads import PayloadCodec, encoded_document, identified
from holdfast.model.verbs import Start
from holdfast.store import rows
from holdfast.store.reads import Reads
from holdfast.store.seam import Snapshot


class CopyRows:
    """The rows of a copy, under the key `key` that the adopting store gives it. The copy loses its place in a queue, and is not parked."""

    def __init__(self, key: int, copy: Snapshot, codec: PayloadCodec | None) -> None:
        header = msgspec.structs.replace(copy.header, input_hash=_identity(copy, codec), graph=None, place=None, parked=False)
        self.graphs: dict[str, str | None] = {}
        """The id of the copy's graph with the text to store; empty if the copy has no graph, or does not bring the graph's text."""
        if copy.header.graph is not None and copy.graph is not None:
            graph = checked_graph(GraphText(copy.header.graph, copy.graph))
            header = msgspec.structs.replace(header, graph=graph.id)
            self.graphs[graph.id] = graph.text if codec is None else encoded_document(codec, graph.text, "graph", graph.id)
        places = {operation.id: operation.place for operation in copy.operations}
        self.executions = [rows.execution_row(key, header)]
        self.operations = [rows.operation_row(key, operation) for operation in copy.operations]
        self.events = []
        for event in copy.events:
            detail, place = None if event.detail is None else dumps(event.detail), places.get(event.operation_id or "")
            self.events.append(rows.event_row(key, event, detail, place, header.id, codec))


class SnapshotReads(Reads):
    """The part of a store that reads copies of whole executions."""

    def _all_of(self, ask: Callable[[str, Sequence[object]], Sequence[rows.Row]], execution: str) -> Snapshot | None:
        """All rows of an execution; None if there is no such execution. `ask` runs the statement of a name inside a transaction."""
        found = ask("header", (execution,))
        if not found:
            return None
        key, header = found[0][0], rows.execution_from(found[0])
        operations = self._operations(ask("newer_operations", (key, -1)), execution)
        places = {operation.place: operation for operation in operations}
        events = [self._line(row, places, execution).event for row in ask("all_events", (key,))]
        graph = () if header.graph is None else ask("graph", (header.graph,))
        return Snapshot(header, tuple(operations), tuple(events), self._graph_from(graph, header.graph or ""))


def is_known(there: Snapshot | None, copy: Snapshot, where: str) -> bool:
    """Whether the store has this execution already. `there` is the execution that the store has under this id; None if it has none. Raises
    ExecutionAlreadyStarted if `there` is another execution than the copy."""
    if there is None:
        return False
    if _essence(there) == _essence(copy):
        return True
    raise ExecutionAlreadyStarted(
        f"There is another execution {copy.header.id} in {where}, which differs from this copy. Import this copy into another store."
    )


def check_name_free(taken: rows.Row | None, copy: Snapshot, where: str) -> None:
    """Raise ExecutionAlreadyStarted if another execution has the copy's name. `taken` is the row of the execution that has it; None if none
    has it. A superseded copy needs no name, so nothing is raised for it."""
    header = copy.header
    if taken is not None and header.superseded_by is None:
        raise ExecutionAlreadyStarted(
            f"There is another execution {header.function}/{header.name} in {where}, with the id {rows.execution_from(taken).id}. "
            "Import this copy into another store."
        )


def _identity(copy: Snapshot, codec: PayloadCodec | None) -> str:
    """The hash of the copy's input, with which a later start of the same name is compared; empty if the copy has no input."""
    given = copy.events[0].payload
    if given is None:
        return ""
    return payload_hash(given) if codec is None else identified(Start(copy.header, given), None, codec).header.input_hash


def _essence(snapshot: Snapshot) -> tuple[Execution, list[Operation], tuple[Event, ...]]:
    """The parts in which two copies of one execution must be equal: everything except the values that each store computes for itself."""
    header = msgspec.structs.replace(snapshot.header, input_hash="", expires_at=None, graph=None, place=None, parked=False)
    plain = [msgspec.structs.replace(op, callback_id=None, result=None, error=None) for op in snapshot.operations]
    return header, plain, snapshot.events

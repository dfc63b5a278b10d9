"""Copies of whole executions: what two copies must share, and the rows of a copy."""

from __future__ import annotations

import msgspec

from holdfast.model.codec import payload_hash
from holdfast.model.errors import ExecutionAlreadyStarted
from holdfast.model.execution import Execution, GraphText, checked_graph
from holdfast.model.history import Event
from holdfast.model.operations import Operation
from holdfast.model.payloads import PayloadCodec, encoded_graph, identified
from holdfast.model.verbs import Start
from holdfast.store import rows
from holdfast.store.seam import Snapshot


class CopyRows:
    """The rows of a copy under a key of the store that adopts it."""

    def __init__(self, key: int, copy: Snapshot, codec: PayloadCodec | None) -> None:
        header = msgspec.structs.replace(copy.header, input_hash=_identity(copy, codec), graph=None, place=None, parked=False)
        self.graphs: dict[str, str | None] = {}
        """The graph of the copy, with the text to store."""
        if copy.header.graph is not None and copy.graph is not None:
            graph = checked_graph(GraphText(copy.header.graph, copy.graph))
            header = msgspec.structs.replace(header, graph=graph.id)
            self.graphs[graph.id] = graph.text if codec is None else encoded_graph(codec, graph.text, graph.id)
        places = {operation.id: operation.place for operation in copy.operations}
        self.executions = [rows.execution_row(key, header)]
        self.operations = [rows.operation_row(key, operation) for operation in copy.operations]
        self.events = [rows.event_row(key, event, places.get(event.operation_id or ""), header.id, codec) for event in copy.events]


def is_known(there: Snapshot | None, copy: Snapshot, where: str) -> bool:
    """Whether a copy is in the store already. Another execution under its id is an error."""
    if there is None:
        return False
    if _essence(there) == _essence(copy):
        return True
    raise ExecutionAlreadyStarted(f"There is another execution {copy.header.id} in {where}, which differs from this copy.")


def check_name_free(taken: rows.Row | None, copy: Snapshot, where: str) -> None:
    """Refuse a copy whose name another execution has. A superseded copy needs no name."""
    header = copy.header
    if taken is not None and header.superseded_by is None:
        raise ExecutionAlreadyStarted(
            f"There is another execution {header.function}/{header.name} in {where}: {rows.execution_from(taken).id}."
        )


def _identity(copy: Snapshot, codec: PayloadCodec | None) -> str:
    """What a start of the same name compares its input with; a copy without data has none."""
    given = copy.events[0].payload
    if given is None:
        return ""
    return payload_hash(given) if codec is None else identified(Start(copy.header, given), None, codec).header.input_hash


def _essence(snapshot: Snapshot) -> tuple[Execution, list[Operation], tuple[Event, ...]]:
    """What two copies of one execution must share: all but what each store makes by itself."""
    header = msgspec.structs.replace(snapshot.header, input_hash="", expires_at=None, graph=None, place=None, parked=False)
    plain = [msgspec.structs.replace(op, callback_id=None, result=None, error=None) for op in snapshot.operations]
    return header, plain, snapshot.events

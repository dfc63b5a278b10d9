"""Exports: one execution as a JSON document.

The document has the rows (`execution`, `operations`, `events`), from which importing.py rebuilds the execution, and the events in the form
of AWS's history API (`history`), for other tools. Members of operations and events that have their default value are left out. Payloads
are plain text.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

import msgspec

from holdfast.descriptions.executions import arn_of
from holdfast.model.execution import Execution
from holdfast.model.history import Event, event_to_wire
from holdfast.model.operations import Operation
from holdfast.store.seam import Snapshot

T = TypeVar("T", bound=msgspec.Struct)

FORMAT: Final = "holdfast-execution/1"
OF_ITS_STORE: Final = {"input_hash": "", "runner": None, "client": None, "client_revision": 0, "place": None, "parked": False}
"""Members that a document does not have, because each store makes them itself, or because they are only for the processes of one store."""


_LATER: Final = ("superseded_by", "quarantine", "quarantine_event", "graph", "summary")
"""Members that earlier releases do not know. A document has them only if they are set."""


class ExportedHeader(Execution, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The execution in a document."""

    input_hash: str = ""


class ExportedOperation(Operation, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """An operation in a document. It has no payload, because the event of the operation has the payload. It has no callback id, because
    a callback id is valid only in one store."""


class ExportedEvent(Event, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """An event in a document."""


class ExportedExecution(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An exported execution."""

    format: str
    """The name and version of this format: `FORMAT`."""
    exported_at: int
    """When it was exported, in milliseconds since 1970-01-01 UTC."""
    data: bool
    """Whether it contains payloads. A document without payloads can be imported, but not replayed."""
    arn: str
    execution: ExportedHeader
    operations: list[ExportedOperation]
    events: list[ExportedEvent]
    history: dict[str, Any]
    """The events in the form of GetDurableExecutionHistory. An import ignores this member."""
    graph: str | None = None
    """The text of the graph that the execution runs; None if it runs none, or if the document contains no payloads."""


def exported(snapshot: Snapshot, now: int, *, include_data: bool) -> dict[str, Any]:
    """The document of an execution, as JSON values. Without `include_data` it has no payloads."""
    header, events = snapshot.header, snapshot.events
    operations = {operation.id: operation for operation in snapshot.operations}
    who = (header.id, header.name)
    history = [
        event_to_wire(event, who, operations.get(event.operation_id or ""), include_data=include_data)
        for event in events
        if event.number <= header.events
    ]
    if not include_data:
        events = tuple(msgspec.structs.replace(event, payload=None) for event in events)
    document = ExportedExecution(
        format=FORMAT,
        exported_at=now,
        data=include_data,
        arn=arn_of(header),
        execution=remade(ExportedHeader, header, **OF_ITS_STORE),
        operations=[remade(ExportedOperation, operation, callback_id=None, result=None, error=None) for operation in snapshot.operations],
        events=[remade(ExportedEvent, event) for event in events],
        history={"Events": history},
        graph=snapshot.graph if include_data else None,
    )
    built: dict[str, Any] = msgspec.to_builtins(document)
    for member in OF_ITS_STORE:
        del built["execution"][member]
    for member in _LATER:
        if built["execution"][member] is None:
            del built["execution"][member]
    if document.graph is None:
        del built["graph"]
    return built


def remade(kind: type[T], struct: msgspec.Struct, **changed: Any) -> T:
    """A struct of the type `kind` with the members of another struct; `changed` has other values for some of them."""
    return kind(**{name: getattr(struct, name) for name in kind.__struct_fields__} | changed)

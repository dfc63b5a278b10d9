"""Exports: one execution as a JSON document.

The document holds the rows (`execution`, `operations`, `events`), from which importing.py rebuilds the execution, and the events in the
form of the history API (`history`), for other tools. Members of operations and events that are not set are left out. Payloads are plain
text.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

import msgspec

from holdfast.model.execution import Execution
from holdfast.model.history import Event, event_to_wire
from holdfast.model.operations import Operation
from holdfast.service.execution_descriptions import arn_of
from holdfast.store.seam import Snapshot

T = TypeVar("T", bound=msgspec.Struct)

FORMAT: Final = "holdfast-execution/1"
OF_ITS_STORE: Final = {"input_hash": "", "runner": None, "client": None, "client_revision": 0, "place": None, "parked": False}
"""Members that each store makes itself, or that have a meaning only for the processes of one store."""


_LATER: Final = ("superseded_by", "quarantine", "quarantine_event", "graph", "summary")
"""Members that earlier releases do not know. A document has them only if they are set."""


class Header(Execution, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The execution in a document."""

    input_hash: str = ""


class ExportedOperation(Operation, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """An operation in a document. Its payload is in its event; the id of its callback belongs to its store."""


class ExportedEvent(Event, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """An event in a document."""


class Document(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An export."""

    format: str
    exported_at: int
    data: bool
    """Whether it contains payloads. Without payloads it can be read, but not replayed."""
    arn: str
    execution: Header
    operations: list[ExportedOperation]
    events: list[ExportedEvent]
    history: dict[str, Any]
    """The events in the form of GetDurableExecutionHistory. It is made from the events, and import ignores it."""
    graph: str | None = None
    """The text of the graph that the execution names, if the document contains payloads."""


def exported(snapshot: Snapshot, now: int, *, include_data: bool) -> dict[str, Any]:
    """The document of an execution."""
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
    document = Document(
        format=FORMAT,
        exported_at=now,
        data=include_data,
        arn=arn_of(header),
        execution=remade(Header, header, **OF_ITS_STORE),
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
    """A struct of another type with the same members."""
    return kind(**{name: getattr(struct, name) for name in kind.__struct_fields__} | changed)

"""Exports: one execution as a JSON document.

It holds the rows (`execution`, `operations`, `events`), so that importing.py can rebuild them, and the same story as the history API
shows it (`history`), for other tools. Members of operations and events that are not set are left out. Payloads are plain text.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

import msgspec

from holdfast.model.execution import Execution
from holdfast.model.history import Event, event_to_wire
from holdfast.model.operations import Operation
from holdfast.service.describing import arn_of
from holdfast.store.seam import Snapshot

T = TypeVar("T", bound=msgspec.Struct)

FORMAT: Final = "holdfast-execution/1"
OF_ITS_STORE: Final = {"input_hash": "", "runner": None, "client": None, "client_revision": 0}
"""What each store makes by itself, or means something only to those who take part in it."""


_LATER: Final = ("superseded_by", "quarantine", "quarantine_event")
"""Members that earlier releases do not know: they are in a document only where they say something."""


class Header(Execution, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The execution in a document."""

    input_hash: str = ""


class Recorded(Operation, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """An operation in a document. Its payload is its event's, its callback's id its store's."""


class Told(Event, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """An event in a document."""


class Document(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An export."""

    format: str
    exported_at: int
    data: bool
    """Whether payloads are in it; without them it can be looked at, but not replayed."""
    arn: str
    execution: Header
    operations: list[Recorded]
    events: list[Told]
    history: dict[str, Any]
    """As GetDurableExecutionHistory shows it. It is made from the events, and not read again."""


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
        operations=[remade(Recorded, operation, callback_id=None, result=None, error=None) for operation in snapshot.operations],
        events=[remade(Told, event) for event in events],
        history={"Events": history},
    )
    built: dict[str, Any] = msgspec.to_builtins(document)
    for member in OF_ITS_STORE:
        del built["execution"][member]
    for member in _LATER:
        if built["execution"][member] is None:
            del built["execution"][member]
    return built


def remade(kind: type[T], struct: msgspec.Struct, **changed: Any) -> T:
    """The same members as another kind of struct."""
    return kind(**{name: getattr(struct, name) for name in kind.__struct_fields__} | changed)

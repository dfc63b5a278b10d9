"""The history of an execution as Python objects: one `HistoryEvent` for each event."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.model.execution import Execution
from holdfast.model.history import event_to_wire
from holdfast.store.seam import ExecutionStore


class HistoryEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One event of an execution's history. Events are numbered from 1, without a gap."""

    number: int
    type: str
    """AWS's name of the event, e.g. `StepSucceeded`."""
    at: int
    """When it happened, in milliseconds since 1970-01-01 UTC."""
    operation: str | None = None
    """The id of the operation that the event belongs to. For the start and the end of the execution: the execution's id. None for the end
    of an invocation."""
    name: str | None = None
    """The name of the operation or the execution; None if it has none."""
    sub_type: str | None = None
    """The sub-type of the operation, e.g. `Step` or `MapIteration`; None if it has none."""
    parent: str | None = None
    """The id of the context that contains the operation; None if it is in no child context."""
    details: dict[str, Any]
    """What else the event records, with AWS's names: `Result`, `Error`, `Input` and others."""

    def wire(self) -> dict[str, Any]:
        """This event in the form of AWS's history API."""
        names = {"Id": self.operation, "Name": self.name, "SubType": self.sub_type, "ParentId": self.parent}
        return {
            "EventType": self.type,
            "EventId": self.number,
            "EventTimestamp": self.at / 1000,
            **{key: value for key, value in names.items() if value},
            f"{self.type}Details": self.details,
        }


def wire_history(store: ExecutionStore, header: Execution, *, include_data: bool = True) -> list[dict[str, Any]]:
    """All events of an execution, in the form of AWS's history API. Without `include_data`, payloads are left out."""
    events: list[dict[str, Any]] = []
    while page := store.history(header.id, len(events)):
        who = (header.id, header.name)
        events += [event_to_wire(line.event, who, line.operation, include_data=include_data) for line in page]
    return events


def events_of(store: ExecutionStore, header: Execution, *, include_data: bool = True) -> list[HistoryEvent]:
    """All events of an execution, in order. Without `include_data`, inputs, results and errors are left out."""
    return [_event(wire) for wire in wire_history(store, header, include_data=include_data)]


def _event(wire: dict[str, Any]) -> HistoryEvent:
    return HistoryEvent(
        number=wire["EventId"],
        type=wire["EventType"],
        at=round(wire["EventTimestamp"] * 1000),
        operation=wire.get("Id"),
        name=wire.get("Name"),
        sub_type=wire.get("SubType"),
        parent=wire.get("ParentId"),
        details=wire[f"{wire['EventType']}Details"],
    )

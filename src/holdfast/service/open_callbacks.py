"""Callbacks that wait for an answer, across the executions of a store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from holdfast.model.execution import Execution, State
from holdfast.model.operations import KEPT, OPEN, Type
from holdfast.service.describing import arn_of
from holdfast.store.seam import Store


class OpenCallback(msgspec.Struct, frozen=True, kw_only=True):
    """A callback that no one has answered, and whose time is not over."""

    callback_id: str
    name: str | None
    function: str
    execution: str
    """The name of the execution."""
    arn: str
    started_at: int
    due_at: int | None
    """When it times out, or when its next heartbeat must have come; None without either."""


def open_callbacks(store: Store, executions: Iterable[Execution]) -> Iterator[OpenCallback]:
    """The open callbacks of these executions, in their order. A copy has none, and what a worker asks of people is an approval."""
    for header in executions:
        if header.state is State.IMPORTED:
            continue
        for op in store.operations(header.id):
            if op.type is Type.CALLBACK and op.status in OPEN and op.callback_id is not None and op.sub_type not in KEPT:
                yield OpenCallback(
                    callback_id=op.callback_id,
                    name=op.name,
                    function=header.function,
                    execution=header.name,
                    arn=arn_of(header),
                    started_at=op.started_at,
                    due_at=op.due_at,
                )

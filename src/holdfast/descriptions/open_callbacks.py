"""Callbacks that wait for an answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from holdfast.descriptions.executions import arn_of
from holdfast.model.execution import Execution, State
from holdfast.model.operations import KEPT, OPEN, Type
from holdfast.store.seam import ExecutionStore


class OpenCallback(msgspec.Struct, frozen=True, kw_only=True):
    """A callback that is not closed. Times are in milliseconds since 1970-01-01 UTC."""

    callback_id: str
    name: str | None
    function: str
    execution: str
    """The name of the execution."""
    arn: str
    started_at: int
    due_at: int | None
    """When it times out, if no answer and no heartbeat comes before; None if it has no timeout."""


def open_callbacks(store: ExecutionStore, executions: Iterable[Execution]) -> Iterator[OpenCallback]:
    """The open callbacks of these executions, in the order of `executions`; those of one execution in the order in which they began.
    Imported copies are left out, because no runner runs them. Callbacks that cannot be answered by their id (approvals, and the cancel of a
    run) are left out too."""
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

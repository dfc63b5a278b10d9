"""Earlier runs of a family, as a restart reads them: each with its accepted request, its operations, and the runs that it itself asked
for."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from holdfast.model.execution import Execution
from holdfast.model.operations import RUN, Operation, Type
from holdfast.model.restart_errors import RestartRefused
from holdfast.store.seam import ExecutionStore, Filter
from holdfast.workers.accepted_request import AcceptedRequest, accepted_from
from holdfast.workers.run_operations import CARRIED_AT

_PAGE: Final = 200
_START_NEW: Final = "Find out what it has written, and start a new run under another key."


class ChildOf(msgspec.Struct, frozen=True):
    """A run that an earlier run asked for."""

    run_id: str
    accepted: AcceptedRequest
    is_pipeline: bool = False
    """Whether it is a run of a pipeline, or a shard of a map: such a run asks for runs itself."""


class EarlierRun(msgspec.Struct, frozen=True):
    """One earlier run."""

    header: Execution
    accepted: AcceptedRequest
    operations: Mapping[str, Operation]
    """The operations of the run by their ids, in the order in which they began."""
    children: Mapping[str, ChildOf]
    """The runs that this run itself asked for, by the id of the operation that asked."""


def earlier_run(store: ExecutionStore, run_id: str, tenant: str) -> EarlierRun | None:
    """An earlier run of a tenant; None if the store has removed it, if it belongs to another tenant, or if it is not a run."""
    header = store.find(run_id)
    if header is None or header.tenant != tenant:
        return None
    try:
        accepted = accepted_from(store.input(run_id))
    except msgspec.DecodeError:
        return None
    operations = {operation.id: operation for operation in store.operations(run_id)}
    return EarlierRun(header, accepted, operations, dict(_children(store, run_id, header.function)))


def keeps_earlier_calls(operations: Iterable[Operation]) -> bool:
    """Whether the run with these operations has stored every call that it inherited. If so, the runs of its family before it are not needed
    any more."""
    return any(operation.id == CARRIED_AT.operation_id for operation in operations)


def check_kept(store: ExecutionStore, before: Sequence[str], tenant: str) -> None:
    """Raise RestartRefused if the store has removed a run whose writes a new run must know: one of the earlier runs `before` (oldest
    first), or a run below one of them. Without that run, the new run would make its writes again. If one of the earlier runs has stored the
    calls that it inherited, the runs before it are not needed, and are not checked."""
    for run_id in reversed(before):
        run = earlier_run(store, run_id, tenant)
        if run is None:
            raise RestartRefused(f"Run {run_id}, whose writes the new run must know, is not kept any more. {_START_NEW}")
        if keeps_earlier_calls(run.operations.values()):
            return
        _check_below(store, run)


def _check_below(store: ExecutionStore, run: EarlierRun) -> None:
    for operation in run.operations.values():
        if operation.type is not Type.CHAINED_INVOKE or operation.sub_type != RUN:
            continue
        child = run.children.get(operation.id)
        if child is None and (
            operation.error is None or operation.error.data is None
        ):  # with data in its error, the request was refused and no run began
            told = f"A run that {run.header.id} asked for, and whose writes the new run must know, is not kept any more. {_START_NEW}"
            raise RestartRefused(told)
        if child is not None and child.is_pipeline and (below := earlier_run(store, child.run_id, run.accepted.tenant)) is not None:
            _check_below(store, below)


def _children(store: ExecutionStore, run_id: str, function: str) -> Iterator[tuple[str, ChildOf]]:
    beyond: str | None = None
    while page := store.list(Filter(parent=run_id, oldest_first=True, beyond=beyond, limit=_PAGE)):
        inputs = store.inputs([header.id for header in page])
        for header in page:
            with contextlib.suppress(msgspec.DecodeError):  # an execution that is not a run
                if header.parent_operation is not None:
                    is_pipeline = header.graph is not None or header.function == function
                    yield header.parent_operation, ChildOf(header.id, accepted_from(inputs.get(header.id)), is_pipeline)
        beyond = page[-1].id

"""The runs that the nodes of a pipeline's run asked for, as tests see them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import msgspec

from holdfast.descriptions.executions import listed
from holdfast.model.execution import Execution, ExecutionStatus
from holdfast.store.seam import Filter, Store
from holdfast.workers.accepted_request import AcceptedRequest
from holdfast.workers.run_lookup import accepted_in, response_of


class NodeRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run that a node asked for."""

    node: str
    worker: str
    inputs: dict[str, Any]
    status: str
    """The status of its response, such as `ok`; `running` if the run is not over."""
    outputs: dict[str, Any] | None = None
    error_code: str | None = None
    """The code of the response's error; None if there is no error, or if the run is not over."""
    round: int = 1
    """The round of a validation loop, from 1; 1 outside a loop."""
    item: int | None = None
    """The index of the map's item that the run is for, from 0; None if the run is for no item of a map."""
    attempt: int = 1
    """How many attempts the worker has made."""
    run_id: str = ""


def _children(store: Store, header: Execution) -> Iterator[Execution]:
    return listed(store, Filter(parent=header.id, oldest_first=True, limit=sys.maxsize))


def below(store: Store, header: Execution) -> Iterator[Execution]:
    """Every execution that a run started, directly or through other executions."""
    for child in _children(store, header):
        yield child
        yield from below(store, child)


def runs_of(store: Store, header: Execution) -> Iterator[NodeRun]:
    """The runs that the nodes of a run asked for. The shards of a map are left out, but the runs that they asked for are included."""
    for child in _children(store, header):
        accepted = accepted_in(store, child)
        if accepted is None:
            continue
        if accepted.is_shard:
            yield from runs_of(store, child)
        else:
            yield _run(store, child, accepted)


def _run(store: Store, child: Execution, accepted: AcceptedRequest) -> NodeRun:
    response, labels = response_of(store, child, accepted), accepted.labels
    is_over = child.status is not ExecutionStatus.RUNNING
    return NodeRun(
        node=labels.node or "",
        worker=accepted.request.worker_id,
        inputs=accepted.request.inputs,
        status=response.status.value if is_over else "running",
        outputs=response.outputs,
        error_code=None if response.error is None or not is_over else response.error.error_code,
        round=labels.round or 1,
        item=labels.item,
        attempt=response.observability.attempt,
        run_id=child.id,
    )

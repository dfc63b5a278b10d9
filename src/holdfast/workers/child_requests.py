"""Child requests: what a durable function or a pipeline asks for when it runs a worker. An accepted child request becomes an order.

The order is made before the write that starts the child. Nothing in the order is random: if the runner dies before the write, the next
invocation makes an equal order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any, Final

import msgspec

from holdfast.contract.protocol import Response, Trace, WorkerRequest
from holdfast.contract.refusals import InvalidRequest
from holdfast.contract.terms import RunLimits
from holdfast.durable.identifier import Identity
from holdfast.model.credentials import tenant_of
from holdfast.model.execution import Execution
from holdfast.model.operations import Failure
from holdfast.signals.function_traces import execution_trace, invokers, span_of
from holdfast.signals.traceparent import below
from holdfast.workers import accept
from holdfast.workers.accept import ServedVersion
from holdfast.workers.accepted_request import AcceptedRequest, Budget, FamilyLink, Labels, Lineage

MAX_DEPTH: Final = 16
"""The deepest level of a run. A run that a caller asked for is at level 0; a run that a durable function asked for is at level 1; a run
that another run asked for is one level deeper than that other run."""


class ChildRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What an execution asks for when it runs a worker. The tenant, the budgets of the parents and the trace are not part of it: the
    service takes them from the execution."""

    worker_id: str
    version: str | None = None
    inputs: Mapping[str, Any]
    constraints: Mapping[str, Any] = {}
    budget: tuple[Budget, ...] = ()
    """The budgets of the pipeline that asks and of its node. The service adds the budgets of the pipelines above that pipeline."""
    labels: Labels = Labels()
    parent_span_id: str | None = None
    """The id of the span that becomes the parent of the run's span; None: the span of the execution that asks."""
    part: str = ""
    """Which part of a node's work the run does: `work`, `undo`, and others; empty for a run that no pipeline asks for."""
    link: FamilyLink | None = None
    """The place of the run in its family, if an earlier run of the pipeline asked for a run that did the same work; None: the run is the
    first of its family."""


class Ancestry(msgspec.Struct, frozen=True, kw_only=True):
    """What a child run gets from the execution that asks for it."""

    tenant: str
    requested_by: str
    user: str | None
    family: str
    depth: int
    trace: Trace
    span_id: str
    sampled: bool | None
    budgets: tuple[Budget, ...]
    lineage: Lineage


def ancestry(
    parent: Execution, accepted: AcceptedRequest | None, at: Identity, asked: ChildRequest, find: Callable[[str], Execution | None]
) -> Ancestry:
    """What the child run gets from its parent, which asks for it at the operation `at`. `accepted` is the parent's accepted request; None
    if the parent is a durable function and not a run. `find` returns the execution with an id; None: there is none."""
    family = sha256(f"{parent.id if accepted is None else accepted.family}\0{at.operation_id}".encode()).hexdigest()
    if accepted is not None:
        above = asked.parent_span_id or accepted.span_id
        return Ancestry(
            tenant=accepted.tenant,
            requested_by=accepted.requested_by,
            user=accepted.request.user,
            family=family,
            depth=accepted.depth + 1,
            trace=Trace(trace_id=accepted.trace_id, parent_span_id=above, upstream_request_id=accepted.request.trace.upstream_request_id),
            span_id=below(above, "run", parent.id, at.operation_id),
            sampled=accepted.sampled,
            budgets=(*asked.budget, *accepted.budgets),
            lineage=Lineage(above=(*accepted.lineage.above, parent.id), owner=accepted.lineage.owner if accepted.is_shard else parent.id),
        )
    traced, above = execution_trace(parent, find), asked.parent_span_id or span_of(parent.id)
    return Ancestry(
        tenant=tenant_of(parent.tenant),
        requested_by=f"execution:{parent.id}",
        user=None,
        family=family,
        depth=1,
        trace=Trace(trace_id=traced.trace_id, parent_span_id=above),
        span_id=below(above, "run", parent.id, at.operation_id),
        sampled=None if parent.trace is None else traced.sampled,
        budgets=asked.budget,
        lineage=Lineage(above=(*(one.id for one in reversed(invokers(parent, find))), parent.id), owner=parent.id),
    )


def child_request(asked: ChildRequest, above: Ancestry) -> WorkerRequest | Response:
    """The request to the worker, with the trace and the user that the child gets from its parent; or the response that refuses the request,
    because it is not valid."""
    document: dict[str, Any] = {"worker_id": asked.worker_id, "inputs": asked.inputs, "constraints": asked.constraints}
    if asked.version is not None:
        document["version"] = asked.version
    request = accept.read_request(document)
    return request if isinstance(request, Response) else msgspec.structs.replace(request, trace=above.trace, user=above.user)


def check_depth(above: Ancestry) -> None:
    """Raise InvalidRequest if the run is nested too deep. Without this limit a pipeline that runs itself would never end."""
    if above.depth > MAX_DEPTH:
        message = f"The run would be nested {above.depth} levels deep, and at most {MAX_DEPTH} levels are allowed."
        raise InvalidRequest(message, error_code="depth_exceeded")


def refusal_failure(refused: Response) -> Failure:
    """A refusal as the failure of the operation that asked for the run. The failure's data is the whole response."""
    code, message = ("", None) if refused.error is None else (refused.error.error_code, refused.error.message)
    return Failure(message, code, msgspec.json.encode(refused).decode())


def child_run(request: WorkerRequest, served: ServedVersion, limits: RunLimits, above: Ancestry, asked: ChildRequest) -> AcceptedRequest:
    """The accepted request of a child run."""
    contract, link = served.worker.contract, asked.link or FamilyLink(family=above.family, number=1)
    return AcceptedRequest(
        request=request,
        version=contract.version,
        limits=limits,
        package=served.package,
        tenant=above.tenant,
        requested_by=above.requested_by,
        family=link.family,
        link=link.number,
        before=link.before,
        trace_id=above.trace.trace_id or above.family[:32],
        span_id=above.span_id,
        sampled=above.sampled,
        log_fields=contract.log_fields,
        depth=above.depth,
        budgets=above.budgets,
        labels=asked.labels,
        part=asked.part,
        again=link.again,
        lineage=above.lineage,
    )

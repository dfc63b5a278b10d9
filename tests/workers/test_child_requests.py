"""accept_child: what a run takes from the execution that asks for it, and what is refused."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.contract.codes import ResponseStatus
from holdfast.contract.protocol import Response, Trace, response_from
from holdfast.contract.terms import RateLimit
from holdfast.durable.identifier import Identity
from holdfast.durable.journal import identity_of
from holdfast.model.clock import VirtualClock
from holdfast.model.execution import Execution, Terms
from holdfast.model.life import new_execution
from holdfast.model.operations import Failure, Kind, Order, Type
from holdfast.signals.function_traces import span_of
from holdfast.workers.accepted_request import AcceptedRequest, Budget, Labels, accepted_from
from holdfast.workers.child_requests import MAX_DEPTH, ChildRequest
from holdfast.workers.policy import Policy
from holdfast.workers.service import WorkerService
from tests.workers.harness import InlineWorker, contract, request, worker_service

TAKES_TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
AT = identity_of(Type.CHAINED_INVOKE, "Run", "scrape")
TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


async def body(inputs: dict[str, Any], ctx: Any) -> dict[str, Any]:
    return {}


def parent(**more: Any) -> Execution:
    return new_execution("e1", None, "order", "1", payload="{}", now=VirtualClock().now(), terms=Terms(), **more)


def run_above(**more: Any) -> AcceptedRequest:
    known = AcceptedRequest(
        request=msgspec.structs.replace(request(), trace=Trace(upstream_request_id="u"), user="ann"),
        version="1.0",
        limits=contract().limits,
        package="p",
        tenant="acme",
        requested_by="key:7",
        family="f",
        trace_id="t" * 32,
        span_id="s" * 16,
        sampled=True,
    )
    return msgspec.structs.replace(known, **more)


async def accepted(
    service: WorkerService, of: Execution, run: AcceptedRequest | None = None, at: Identity = AT, **asked: Any
) -> Order | Failure:
    return await service.accept_child(of, run, at, ChildRequest(**{"worker_id": "w", "inputs": {"text": "x"}, **asked}))


async def order(*arguments: Any, **asked: Any) -> Order:
    found = await accepted(*arguments, **asked)
    assert isinstance(found, Order), found
    return found


async def refusal(*arguments: Any, **asked: Any) -> Response:
    found = await accepted(*arguments, **asked)
    assert isinstance(found, Failure), found
    return response_from(found.data or "")


async def test_a_child_of_a_plain_function_belongs_to_its_tenant_and_is_asked_for_by_the_execution(tmp_path: Path) -> None:
    async with worker_service(InlineWorker(contract(), body), folder=tmp_path) as service:
        child = await order(service, parent(tenant="acme", trace=TRACEPARENT))
        without = await order(service, parent())
    run = accepted_from(child.input)
    assert (child.kind, run.request.worker_id, child.tenant) == (Kind.WORKER, "w", "acme")
    assert (run.tenant, run.requested_by, run.depth, run.budgets) == ("acme", "execution:e1", 1, ())
    assert (run.trace_id, run.request.trace.parent_span_id) == ("0af7651916cd43dd8448eb211c80319c", span_of("e1"))
    assert run.span_id != span_of("e1")
    assert (without.tenant, accepted_from(without.input).tenant) == ("default", "default")


async def test_a_child_of_a_run_takes_tenant_requester_user_trace_and_budgets_from_the_order_of_that_run(tmp_path: Path) -> None:
    outer, inner = Budget(key="budget/r0", max_tokens=10, until=1), Budget(key="budget/r1/n", max_cost=Decimal("0.5"), until=2)
    labels = Labels(pipeline="p", node="n", item=3, round=1)
    async with worker_service(InlineWorker(contract(), body), folder=tmp_path) as service:
        child = await order(service, parent(tenant="acme"), run_above(depth=2, budgets=(outer,)), budget=(inner,), labels=labels)
    run = accepted_from(child.input)
    assert (run.tenant, run.requested_by, run.request.user, run.depth) == ("acme", "key:7", "ann", 3)
    assert (run.trace_id, run.request.trace.parent_span_id, run.sampled) == ("t" * 32, "s" * 16, True)
    assert run.request.trace.upstream_request_id == "u"
    assert run.budgets == (inner, outer)
    assert run.labels == labels


async def test_the_same_operation_makes_an_equal_order_again_and_another_operation_another_family(tmp_path: Path) -> None:
    async with worker_service(InlineWorker(contract(), body), folder=tmp_path) as service:
        first, again = await order(service, parent()), await order(service, parent())
        other = await order(service, parent(), at=identity_of(Type.CHAINED_INVOKE, "Run", "scrape", 2))
    assert first == again
    run, beside = accepted_from(first.input), accepted_from(other.input)
    assert run.family != beside.family
    assert run.span_id != beside.span_id


async def test_the_run_stands_below_the_span_that_the_request_names(tmp_path: Path) -> None:
    async with worker_service(InlineWorker(contract(), body), folder=tmp_path) as service:
        child = await order(service, parent(), run_above(), parent_span_id="n" * 16)
    assert accepted_from(child.input).request.trace.parent_span_id == "n" * 16


async def test_terms_limits_and_charges_are_those_of_a_run_that_a_caller_asks_for(tmp_path: Path) -> None:
    rated = contract(limits={"timeout_seconds": 9, "run_timeout_seconds": 60}, rate_limit=RateLimit(per="tenant", count=2, per_seconds=60))
    async with worker_service(InlineWorker(rated, body), folder=tmp_path, policy=Policy()) as service:
        child = await order(service, parent(tenant="acme"), constraints={"timeout_seconds": 5})
    assert child.terms is not None
    assert child.terms.timeout_seconds == 60
    assert accepted_from(child.input).limits.timeout_seconds == 5
    assert [(charge.key, charge.amount, charge.limit) for charge in child.charges] == [("rate/w/acme", 1, 2)]


@pytest.mark.parametrize(
    "asked, code",
    [
        ({"worker_id": "other"}, "worker_not_found"),
        ({"version": "2.0"}, "version_not_found"),
        ({"inputs": {}}, "schema_mismatch"),
        ({"inputs": {"text": "x" * 7_000_000}}, "schema_mismatch"),
        ({"constraints": {"timeout_seconds": 10_000}}, "constraint_widened"),
        ({"constraints": {"haste": 1}}, "schema_mismatch"),
        ({"inputs": {"text": object()}}, "schema_mismatch"),
    ],
)
async def test_a_request_that_does_not_fit_is_answered_as_a_callers_would_be(tmp_path: Path, asked: dict[str, Any], code: str) -> None:
    worker = InlineWorker(contract(input_schema=TAKES_TEXT, limits={"timeout_seconds": 9}), body)
    async with worker_service(worker, folder=tmp_path) as service:
        refused = await refusal(service, parent(), **asked)
    assert refused.error is not None
    assert (refused.status, refused.error.error_code, refused.run_id) == (ResponseStatus.INVALID_REQUEST, code, "")


async def test_sixteen_runs_may_stand_one_below_the_other_and_no_seventeenth(tmp_path: Path) -> None:
    async with worker_service(InlineWorker(contract(), body), folder=tmp_path) as service:
        last = await order(service, parent(), run_above(depth=MAX_DEPTH - 1))
        refused = await refusal(service, parent(), run_above(depth=MAX_DEPTH))
    assert accepted_from(last.input).depth == MAX_DEPTH
    assert refused.error is not None
    assert (refused.status, refused.error.error_code) == (ResponseStatus.PERMANENT_ERROR, "depth_exceeded")

"""Workers: the contracts of the workers that are served, and the request that runs one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from holdfast.contract.protocol import Response, WorkerRequest, request_from
from holdfast.contract.refusals import InvalidRequest
from holdfast.contract.terms import Contract
from holdfast.model.codec import MAX_PAYLOAD_BYTES
from holdfast.server.protocol.request_parts import is_async, patience, trace_of
from holdfast.server.protocol.served_workers import ServedWorkers
from holdfast.server.protocol.worker_replies import document_reply, response_reply
from holdfast.web.caller import caller_of
from holdfast.web.policy import Needs, Reach, RoutePolicy, Waits
from holdfast.web.replies import Reply
from holdfast.web.requests import Request
from holdfast.web.routing import Route
from holdfast.workers.accept import not_served

_MAX_KEY: Final = 512
_LARGEST: Final = MAX_PAYLOAD_BYTES + 2 * 1024 * 1024
"""The body of a request has at most this many bytes: the largest payload that can be stored, and two megabytes for the JSON around it."""
_LARGE: Final = 256 * 1024
_INVOKE: Final = RoutePolicy("InvokeWorker", Needs.OPERATE, Reach.HANDLER, body_bytes=_LARGEST, waits=Waits.WHEN_ASKED)


class Workers:
    """The handlers of workers."""

    def __init__(self, served: ServedWorkers) -> None:
        self._served = served

    def routes(self) -> list[Route]:
        return [
            Route("GET", "/v1/workers/?", self.list, RoutePolicy("ListWorkers", Needs.VIEW, Reach.ALL)),
            Route("GET", "/v1/workers/([^/]+)", self.show, RoutePolicy("GetWorker", Needs.VIEW, Reach.ALL)),
            Route("POST", "/v1/workers/([^/]+)/invoke", self.invoke, _INVOKE),
        ]

    async def list(self, request: Request) -> Reply:
        """All workers that are served, each in the version that was added last, and with the names of all its versions. A request that
        names no version runs the version that was added last."""
        told = [_brief(contracts[-1], contracts) for contracts in map(self._contracts, self._served.worker_service.served)]
        return document_reply({"workers": told})

    async def show(self, request: Request) -> Reply:
        """The contract of a worker, in the version that `?version=` names; without it, in the version that was added last."""
        contracts = self._contracts(request.label)
        if not contracts:
            raise not_served(request.label, self._served.worker_service.served)
        version = request.text("version")
        found = next((one for one in reversed(contracts) if version in (None, one.version)), None)
        if found is None:
            known = ", ".join(one.version for one in contracts)
            raise InvalidRequest(
                f"{request.label} is served here in version {known}, not in {version!r:.50}.", error_code="version_not_found"
            )
        return document_reply({**_brief(found, contracts), **_whole(found)})

    async def invoke(self, request: Request) -> Reply:
        """Run a worker, or find the run that the request's idempotency key has. The reply waits until the run has ended or needs a person,
        but at most `?wait=` seconds, and at most as long as the server allows. With `?wait=0`, with the header `Prefer: respond-async`, and
        if too many requests wait already, the reply waits only until the run is on disk. If the request is refused, the reply says why, and
        no run is started."""
        most = self._served.limits.wait_seconds
        wait = 0.0 if is_async(request) else patience(request, most, most)
        order = _addressed(request)
        if len(request.content) > _LARGE:
            await asyncio.sleep(0)  # reading a large body took a while: other requests get a turn before this one is checked
        trace = trace_of(request)
        begun = await self._served.worker_service.begin(order, caller_of(request), sampled=None if trace is None else trace.sampled)
        if isinstance(begun, Response):
            return response_reply(begun)
        header, accepted = begun
        if wait == 0:
            return await self._served.begun(header, accepted)
        return await self._served.reply(header.id, accepted, await self._served.watched(request, header, accepted, wait))

    def _contracts(self, worker_id: str) -> Sequence[Contract]:
        return [served.worker.contract for served in self._served.worker_service.served.get(worker_id, {}).values()]


def _addressed(request: Request) -> WorkerRequest:
    """The request in the body. If it has no trace or no idempotency key, the trace or the key of the headers is used. Raises InvalidRequest
    if the body is not a valid request, if body and headers have different keys, or if the key in the header is empty or too long."""
    order = request_from(request.content, worker_id=request.label)
    parent, key = trace_of(request), request.header(b"idempotency-key")
    if parent is not None and order.trace.trace_id is None:
        span = order.trace.parent_span_id or parent.span_id
        trace = msgspec.structs.replace(order.trace, trace_id=parent.trace_id, parent_span_id=span)
        order = msgspec.structs.replace(order, trace=trace)
    if key is None:
        return order
    if order.idempotency_key not in (None, key):
        raise InvalidRequest("The header Idempotency-Key and the body's idempotency_key are not the same. Send only one of them.")
    if not 1 <= len(key) <= _MAX_KEY:
        raise InvalidRequest(f"The header Idempotency-Key must have 1 to {_MAX_KEY} characters.")
    return msgspec.structs.replace(order, idempotency_key=key)


def _brief(contract: Contract, contracts: Sequence[Contract]) -> dict[str, Any]:
    return {
        "worker_id": contract.worker_id,
        "version": contract.version,
        "versions": [one.version for one in contracts],
        "title": contract.title,
        "purpose": contract.purpose,
    }


def _whole(contract: Contract) -> dict[str, Any]:
    return {name: getattr(contract, name) for name in contract.__struct_fields__}

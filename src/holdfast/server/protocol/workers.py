"""Workers: what is served, by contract, and the one verb they have."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from holdfast.contract.protocol import Response, WorkerRequest, request_from
from holdfast.contract.refusals import InvalidRequest
from holdfast.contract.terms import Contract
from holdfast.model.codec import MAX_PAYLOAD_BYTES
from holdfast.server.protocol.handling import Handling
from holdfast.server.protocol.request import ProtocolRoute, RunRequest
from holdfast.web.replies import Reply
from holdfast.web.responses import document_reply, response_reply

_MAX_KEY: Final = 512
_LARGEST: Final = MAX_PAYLOAD_BYTES + 2 * 1024 * 1024
"""Bytes of a request: what can be kept of it, and some room for how it is written. Reading a larger one only to refuse it takes long."""
_LARGE: Final = 256 * 1024


class Workers:
    """Their handlers."""

    def __init__(self, handling: Handling) -> None:
        self._handling = handling

    def routes(self) -> list[ProtocolRoute]:
        """Where they are."""
        return [
            ProtocolRoute("GET", "/v1/workers/?", self.list),
            ProtocolRoute("GET", "/v1/workers/([^/]+)", self.show),
            ProtocolRoute("POST", "/v1/workers/([^/]+)/invoke", self.invoke, most=_LARGEST),
        ]

    async def list(self, asked: RunRequest) -> Reply:
        """All that is served, each in the version that a request gets which names none."""
        told = [_brief(contracts[-1], contracts) for contracts in map(self._contracts, self._handling.worker_service.served)]
        return document_reply({"workers": told})

    async def show(self, asked: RunRequest) -> Reply:
        """A contract; `?version=` names one that is not the newest."""
        contracts = self._contracts(asked.label)
        if not contracts:
            raise InvalidRequest(f"No worker {asked.label!r:.100} is served here.", error_code="worker_not_found")
        version = asked.text("version")
        found = next((one for one in reversed(contracts) if version in (None, one.version)), None)
        if found is None:
            known = ", ".join(one.version for one in contracts)
            raise InvalidRequest(f"{asked.label} is served here as {known}, not as {version!r:.50}.", error_code="version_not_found")
        return document_reply({**_brief(found, contracts), **_whole(found)})

    async def invoke(self, asked: RunRequest) -> Reply:
        """Run a worker: wait for what it comes to, or with `Prefer: respond-async` only for its being on disk."""
        wait = 0.0 if asked.is_async else asked.patience(self._handling.limits.wait_seconds, self._handling.limits.wait_seconds)
        request = _addressed(asked)
        if len(asked.body) > _LARGE:
            await asyncio.sleep(0)  # reading it took a while: everybody else has a turn before it is checked
        parent = asked.parent
        begun = await self._handling.worker_service.begin(request, asked.asker, sampled=None if parent is None else parent.sampled)
        if isinstance(begun, Response):
            return response_reply(begun)
        header, accepted = begun
        if wait == 0:
            return self._handling.begun(header, accepted)
        return self._handling.reply(header.id, accepted, await self._handling.watched(asked, header, accepted, wait))

    def _contracts(self, worker_id: str) -> Sequence[Contract]:
        return [served.worker.contract for served in self._handling.worker_service.served.get(worker_id, {}).values()]


def _addressed(asked: RunRequest) -> WorkerRequest:
    """The request of a body, with what its headers say where it says nothing."""
    request = request_from(asked.body, worker_id=asked.label)
    parent, key = asked.parent, asked.header(b"idempotency-key")
    if parent is not None and request.trace.trace_id is None:
        trace = msgspec.structs.replace(
            request.trace, trace_id=parent.trace_id, parent_span_id=request.trace.parent_span_id or parent.span_id
        )
        request = msgspec.structs.replace(request, trace=trace)
    if key is None:
        return request
    if request.idempotency_key not in (None, key):
        raise InvalidRequest("The header Idempotency-Key and the body's idempotency_key are not the same.")
    if not 1 <= len(key) <= _MAX_KEY:
        raise InvalidRequest(f"The header Idempotency-Key must have 1 to {_MAX_KEY} characters.")
    return msgspec.structs.replace(request, idempotency_key=key)


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

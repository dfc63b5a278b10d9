"""Artifacts: download and upload of large values, as bytes. The headers make a browser save an artifact, and never show it as a page."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from base64 import b64encode
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final
from urllib.parse import quote

from holdfast.contract.protocol import ArtifactRef
from holdfast.contract.refusals import InvalidRequest
from holdfast.model.threads import Purpose, in_thread
from holdfast.server.protocol.served_workers import ServedWorkers
from holdfast.server.protocol.worker_replies import document_reply
from holdfast.web.caller import caller_of
from holdfast.web.capacity import UPLOADS
from holdfast.web.policy import Needs, Reach, RoutePolicy, Waits
from holdfast.web.refusals import Header
from holdfast.web.replies import Reply
from holdfast.web.requests import Request
from holdfast.web.routing import Route
from holdfast.workers.tools.seam import ToolFailed

_CHUNK: Final = 256 * 1024
_TYPE: Final = re.compile(r"[\w.+-]{1,64}/[\w.+-]{1,64}( *; *[\w.+-]{1,32}=[\w.+-]{1,64}){0,3}", re.ASCII)
_ANY_TYPE: Final = "application/octet-stream"
_MAX_NAME: Final = 255
_SAFE: Final[tuple[Header, ...]] = (
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"sandbox; default-src 'none'"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"private, no-cache"),
)


class ArtifactRoutes:
    """The handlers of artifacts."""

    def __init__(self, served: ServedWorkers) -> None:
        self._served = served
        self._threads = ThreadPoolExecutor(UPLOADS, thread_name_prefix="upload")

    def routes(self) -> list[Route]:
        return [
            Route("GET", "/v1/artifacts/([^/]+)", self.get, RoutePolicy("GetArtifact", Needs.VIEW, Reach.HANDLER, waits=Waits.WHEN_ASKED)),
            Route("POST", "/v1/artifacts/?", self.put, RoutePolicy("PutArtifact", Needs.OPERATE, Reach.HANDLER, reads_body=True)),
        ]

    async def get(self, request: Request) -> Reply:
        """The bytes of an artifact of the caller's tenant; 304 without bytes if the client has them already. Before the first byte is sent,
        the artifact store compares all bytes with their hash."""
        tenant, kept = caller_of(request).tenant, self._served.worker_service.artifacts
        found = await in_thread(Purpose.ARTIFACTS, kept.find, tenant, request.label)
        tag = f'"{found.sha256}"'
        if tag in [each.strip().removeprefix("W/") for each in (request.header(b"if-none-match") or "").split(",")]:
            return Reply(304, headers=((b"etag", tag.encode()), *_SAFE))
        headers = (*_described(found), (b"etag", tag.encode()), *_SAFE)
        return Reply(200, headers=headers, chunks=_sent(request, lambda: kept.open(tenant, found.artifact_id)))

    async def put(self, request: Request) -> Reply:
        """Store the body as an artifact, while it arrives. `?name=` is its name, else `upload`. The reply describes the artifact."""
        name = request.text("name") or "upload"
        if len(name) > _MAX_NAME or not name.isprintable():
            raise InvalidRequest(f"name: must have at most {_MAX_NAME} characters, all of them printable.")
        media_type = _type_of(request.header(b"content-type") or _ANY_TYPE)
        kept, seconds = self._served.worker_service.artifacts, self._served.limits.body_seconds
        loop = asyncio.get_running_loop()
        with _refusals():
            kept.check_size(name, request.incoming.length)
        with _refusals(), request.uploading():
            parts = request.parts(seconds)

            def read(_: int) -> bytes:
                return asyncio.run_coroutine_threadsafe(_next(parts), loop).result()

            async with asyncio.timeout(self._served.limits.wait_seconds):
                found = await loop.run_in_executor(self._threads, kept.keep, caller_of(request).tenant, name, media_type, read)
        return document_reply(found, 201, ((b"location", f"/v1/artifacts/{found.artifact_id}".encode()),))


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    """Turn ToolFailed, which the artifact store raises for a limit or a failure, into InvalidRequest with the same code."""
    try:
        yield
    except ToolFailed as failed:
        raise InvalidRequest(str(failed), error_code=failed.code) from None


async def _next(parts: AsyncIterator[bytes]) -> bytes:
    return await anext(parts, b"")


async def _sent(request: Request, opened: Callable[[], int]) -> AsyncGenerator[bytes, None]:
    with request.waiting():
        with _refusals():
            descriptor = await in_thread(Purpose.ARTIFACTS, opened)
        try:
            while chunk := await in_thread(Purpose.ARTIFACTS, os.read, descriptor, _CHUNK):
                yield chunk
        finally:
            os.close(descriptor)


def _described(found: ArtifactRef) -> tuple[Header, ...]:
    """The headers that describe an artifact. A worker or a caller chose its name and its type, so neither is trusted."""
    digest = b64encode(bytes.fromhex(found.sha256)).decode()
    named = quote(found.name[:_MAX_NAME], safe="", errors="replace")
    return (
        (b"content-type", _type_of(found.media_type).encode()),
        (b"content-length", str(found.size_bytes).encode()),
        (b"content-disposition", f"attachment; filename*=UTF-8''{named}".encode()),
        (b"repr-digest", f"sha-256=:{digest}:".encode()),
    )


def _type_of(media_type: str) -> str:
    return media_type if _TYPE.fullmatch(media_type) else _ANY_TYPE

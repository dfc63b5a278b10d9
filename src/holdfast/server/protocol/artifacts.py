"""Artifacts: large values in and out, as bytes. What a worker made is shown to nobody as a page: it is something to save."""

from __future__ import annotations

import asyncio
import os
import re
from base64 import b64encode
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final
from urllib.parse import quote

from holdfast.contract.protocol import ArtifactRef
from holdfast.contract.refusals import InvalidRequest
from holdfast.model.threads import Purpose, in_thread
from holdfast.server.protocol.handling import Handling
from holdfast.server.protocol.request import ProtocolRoute, RunRequest
from holdfast.web.replies import Header, Reply
from holdfast.web.responses import document_reply

UPLOADS: Final = 16
"""At once."""
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


class Artifacts:
    """Their handlers."""

    def __init__(self, handling: Handling) -> None:
        self._handling = handling
        self._threads = ThreadPoolExecutor(UPLOADS, thread_name_prefix="upload")

    def routes(self) -> list[ProtocolRoute]:
        """Where they are."""
        return [
            ProtocolRoute("GET", "/v1/artifacts/([^/]+)", self.get),
            ProtocolRoute("POST", "/v1/artifacts/?", self.put, takes_body=True),
        ]

    async def get(self, asked: RunRequest) -> Reply:
        """An artifact's bytes, compared with their hash before any of them leaves."""
        tenant, kept = asked.asker.tenant, self._handling.worker_service.artifacts
        found = await in_thread(Purpose.ARTIFACTS, kept.find, tenant, asked.label)
        tag = f'"{found.sha256}"'
        if tag in [each.strip().removeprefix("W/") for each in (asked.header(b"if-none-match") or "").split(",")]:
            return Reply(304, headers=((b"etag", tag.encode()), *_SAFE))
        headers = (*_described(found), (b"etag", tag.encode()), *_SAFE)
        return Reply(200, headers=headers, chunks=_sent(asked, lambda: kept.open(tenant, found.artifact_id)))

    async def put(self, asked: RunRequest) -> Reply:
        """Take in a large value, as it comes; `?name=` names it."""
        name = asked.text("name") or "upload"
        if len(name) > _MAX_NAME or not name.isprintable():
            raise InvalidRequest(f"name: must be one line of at most {_MAX_NAME} characters.")
        media_type = _type_of(asked.header(b"content-type") or _ANY_TYPE)
        kept, seconds = self._handling.worker_service.artifacts, self._handling.limits.body_seconds
        kept.check_size(name, asked.length)
        loop = asyncio.get_running_loop()
        with asked.uploading():
            parts = asked.parts(seconds)

            def read(_: int) -> bytes:
                return asyncio.run_coroutine_threadsafe(_next(parts), loop).result()

            async with asyncio.timeout(self._handling.limits.wait_seconds):
                found = await loop.run_in_executor(self._threads, kept.keep, asked.asker.tenant, name, media_type, read)
        return document_reply(found, 201, ((b"location", f"/v1/artifacts/{found.artifact_id}".encode()),))


async def _next(parts: AsyncIterator[bytes]) -> bytes:
    return await anext(parts, b"")


async def _sent(asked: RunRequest, opened: Callable[[], int]) -> AsyncGenerator[bytes, None]:
    with asked.waiting():
        descriptor = await in_thread(Purpose.ARTIFACTS, opened)
        try:
            while chunk := await in_thread(Purpose.ARTIFACTS, os.read, descriptor, _CHUNK):
                yield chunk
        finally:
            os.close(descriptor)


def _described(found: ArtifactRef) -> tuple[Header, ...]:
    """What a client may know before the bytes come. The name and the type were a worker's to choose."""
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

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
from holdfast.server.protocol.desk import Desk
from holdfast.server.protocol.visit import Visit, Way
from holdfast.server.replies import Header, Reply
from holdfast.server.responses import document_reply

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

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._threads = ThreadPoolExecutor(UPLOADS, thread_name_prefix="upload")

    def routes(self) -> list[Way]:
        """Where they are."""
        return [
            Way("GET", "/v1/artifacts/([^/]+)", self.get),
            Way("POST", "/v1/artifacts/?", self.put, takes_body=True),
        ]

    async def get(self, visit: Visit) -> Reply:
        """An artifact's bytes, compared with their hash before any of them leaves."""
        tenant, kept = visit.asker.tenant, self._desk.workforce.artifacts
        found = await in_thread(Purpose.ARTIFACTS, kept.find, tenant, visit.label)
        tag = f'"{found.sha256}"'
        if tag in [each.strip().removeprefix("W/") for each in (visit.header(b"if-none-match") or "").split(",")]:
            return Reply(304, headers=((b"etag", tag.encode()), *_SAFE))
        headers = (*_described(found), (b"etag", tag.encode()), *_SAFE)
        return Reply(200, headers=headers, chunks=_sent(visit, lambda: kept.open(tenant, found.artifact_id)))

    async def put(self, visit: Visit) -> Reply:
        """Take in a large value, as it comes; `?name=` names it."""
        name = visit.text("name") or "upload"
        if len(name) > _MAX_NAME or not name.isprintable():
            raise InvalidRequest(f"name: must be one line of at most {_MAX_NAME} characters.")
        media_type = _type_of(visit.header(b"content-type") or _ANY_TYPE)
        kept, seconds = self._desk.workforce.artifacts, self._desk.limits.body_seconds
        kept.check_size(name, visit.length)
        loop = asyncio.get_running_loop()
        with visit.uploading():
            parts = visit.parts(seconds)

            def read(_: int) -> bytes:
                return asyncio.run_coroutine_threadsafe(_next(parts), loop).result()

            async with asyncio.timeout(self._desk.limits.wait_seconds):
                found = await loop.run_in_executor(self._threads, kept.keep, visit.asker.tenant, name, media_type, read)
        return document_reply(found, 201, ((b"location", f"/v1/artifacts/{found.artifact_id}".encode()),))


async def _next(parts: AsyncIterator[bytes]) -> bytes:
    return await anext(parts, b"")


async def _sent(visit: Visit, opened: Callable[[], int]) -> AsyncGenerator[bytes, None]:
    with visit.waiting():
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

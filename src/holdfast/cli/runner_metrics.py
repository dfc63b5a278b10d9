"""The metrics of `holdfast runner --metrics-port`: one page over plain HTTP, on this machine only. A runner needs no web server for it
(docs/internals/http.md)."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from http import HTTPStatus
from typing import Final

from holdfast.cli.serve import cannot_listen
from holdfast.model.errors import HoldfastError
from holdfast.model.threads import Purpose, in_thread
from holdfast.signals.metrics import CONTENT_TYPE

log = logging.getLogger("holdfast.cli")
HOST: Final = "127.0.0.1"
_NAMES: Final = frozenset({HOST, "localhost"})
_SECONDS: Final = 10
_LONGEST: Final = 16_384
"""The most bytes of a request's head."""


@contextlib.asynccontextmanager
async def metrics_page(port: int | None, text: Callable[[], str]) -> AsyncIterator[str | None]:
    """Serve the metrics at `/metrics` of a port until the block is left, and yield the address. If the port is None, nothing is served, and
    None is yielded. `text` returns the metrics, and may block. Raises InvalidParameter if the port cannot be used."""
    if port is None:
        yield None
        return

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(await _reply(head.decode("latin-1"), text))
                await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # a client that does not speak HTTP, or leaves, gets no answer
        finally:
            writer.close()

    try:
        server = await asyncio.start_server(answer, HOST, port, limit=_LONGEST)
    except OSError as error:
        raise cannot_listen(HOST, port, error, "--metrics-port") from None
    try:
        yield f"http://{HOST}:{server.sockets[0].getsockname()[1]}/metrics"
    finally:
        server.close()


async def _reply(head: str, text: Callable[[], str]) -> bytes:
    request, *lines = head.split("\r\n")
    method, _, rest = request.partition(" ")
    hosts = [value.strip() for name, _, value in (line.partition(":") for line in lines) if name.lower() == "host"]
    if len(hosts) != 1 or hosts[0].partition(":")[0] not in _NAMES:  # a page of another site reached this port under its own name
        return _written(421, "This runner answers only to the names of this machine.\n")
    if method != "GET" or rest.partition(" ")[0].partition("?")[0] != "/metrics":
        return _written(404, "A runner has only GET /metrics.\n")
    try:
        return _written(200, await in_thread(Purpose.STORE, text), CONTENT_TYPE)
    except HoldfastError as error:
        log.warning("the metrics could not be written: %s", error)
        return _written(503, f"{error.code}: {error}\n")


def _written(status: int, body: str, kind: str = "text/plain; charset=utf-8") -> bytes:
    content = body.encode()
    first = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}"
    return f"{first}\r\ncontent-type: {kind}\r\ncontent-length: {len(content)}\r\nconnection: close\r\n\r\n".encode() + content

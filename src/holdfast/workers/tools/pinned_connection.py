"""A pinned connection: one HTTP request to an IP address that was checked.

The host's name is resolved once, and the connection goes to one of the addresses that passed the check. So a name server cannot give
another address after the check. The `Host` header and the TLS name are those of the URL.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextvars import ContextVar
from functools import partial
from typing import Any, Final, TypeAlias
from weakref import WeakValueDictionary

import certifi
import httpcore
import httpx

from holdfast.model.threads import Purpose, pool_for
from holdfast.workers.tools.egress import Egress, host_of
from holdfast.workers.tools.seam import ToolFailed

ResolveHost: TypeAlias = Callable[[str, int], Awaitable[list[str]]]
"""Finds the IP addresses of a host, given its name and a port."""


_CONNECTIONS: Final = 32
_LOOKUPS: Final = 6
"""The most name lookups that one tenant may have under way at once, so that a tenant with slow name servers delays only its own lookups."""
_shares: WeakValueDictionary[tuple[int, str], asyncio.Semaphore] = WeakValueDictionary()
asking_for: ContextVar[str] = ContextVar("asking_for", default="")
"""The tenant for which this asyncio task looks up names."""


async def resolve(host: str, port: int) -> list[str]:
    """The addresses of a host from the machine's resolver. A lookup cannot be cancelled. At most 6 of one tenant (`asking_for`) are under
    way at once; a further one waits. A lookup counts until the resolver returns, even if the caller stops waiting."""
    loop = asyncio.get_running_loop()
    share = _shares.setdefault((id(loop), asking_for.get()), asyncio.Semaphore(_LOOKUPS))
    await share.acquire()
    look = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    looking = loop.run_in_executor(pool_for(Purpose.NAMES), look)

    def let_go(done: asyncio.Future[Any]) -> None:
        share.release()
        if not done.cancelled():
            done.exception()  # if the caller does not wait any more, the error must be read here

    looking.add_done_callback(let_go)
    found = await asyncio.shield(looking)
    return list(dict.fromkeys(str(info[4][0]) for info in found))


class PinnedBackend(httpcore.AsyncNetworkBackend):
    """Connects only to addresses that passed the check."""

    def __init__(self, egress: Egress, resolver: ResolveHost = resolve) -> None:
        self._egress = egress
        self._resolver = resolver
        self._tcp = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Resolve the name, check its addresses, and connect to the first allowed address that answers; at most four are tried. Raises
        ToolFailed if no address is allowed, and an error of httpcore if the name is not resolved or no address answers."""
        try:
            addresses = await asyncio.wait_for(self._resolver(host, port), timeout)
        except TimeoutError:
            raise httpcore.ConnectTimeout(f"The name {host} was not resolved in time.") from None
        except OSError as error:
            raise httpcore.ConnectError(f"The name {host} cannot be resolved: {error}.") from None
        refusals = [(address, self._egress.refusal(host_of(host), port, address)) for address in addresses]
        allowed = [address for address, refusal in refusals if refusal is None]
        if not allowed:
            reasons = "; ".join(sorted({refusal for _, refusal in refusals if refusal})) or "it has no address"
            remedy = self._egress.remedy(host_of(host), port, addresses)
            raise ToolFailed("egress_denied", f"Workers may not reach {host}: {reasons}.{remedy}")
        failure: Exception | None = None
        for address in allowed[:4]:
            try:
                return await self._tcp.connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        assert failure is not None
        raise failure

    async def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore.AsyncNetworkStream:
        """Refuse UNIX sockets, because a path is not an address that can be checked."""
        raise ToolFailed("egress_denied", "A worker may not reach a UNIX socket.")

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class PinnedTransport(httpx.AsyncBaseTransport):
    """An httpx transport that connects through PinnedBackend. It uses no proxy, no environment variable and no cookie, and follows no
    redirect."""

    def __init__(self, egress: Egress, resolver: ResolveHost = resolve, *, ca_file: str | None = None) -> None:
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=ssl.create_default_context(cafile=ca_file or certifi.where()),
            max_connections=_CONNECTIONS,
            max_keepalive_connections=0,  # each request needs a new connection, to an address that is checked for it
            network_backend=PinnedBackend(egress, resolver),
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request, and return the response when its headers have arrived. The body is read later."""
        url = request.url
        answer = await self._pool.handle_async_request(
            httpcore.Request(
                method=request.method,
                url=httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
                headers=request.headers.raw,
                content=request.stream,
                extensions=request.extensions,
            )
        )
        return httpx.Response(answer.status, headers=answer.headers, stream=_Stream(answer), extensions=answer.extensions)

    async def aclose(self) -> None:
        await self._pool.aclose()


class _Stream(httpx.AsyncByteStream):
    def __init__(self, answer: httpcore.Response) -> None:
        self._answer = answer

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._answer.aiter_stream():
            yield part

    async def aclose(self) -> None:
        await self._answer.aclose()

"""One request of the worker protocol: who sent it, and how long it may take. A handler that waits frees its place meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from typing import Final, NamedTuple

from holdfast.model.auditing import principal
from holdfast.model.clock import monotonic
from holdfast.model.errors import InvalidParameter
from holdfast.server.protocol.capacity import TenantCapacity
from holdfast.signals.traceparent import Parent, parent_of
from holdfast.web.asgi import Receive, Scope
from holdfast.web.auth.identity import ANYBODY, actor_of, identity_of
from holdfast.web.bodies import Gone
from holdfast.web.errors import Refused
from holdfast.web.replies import Reply
from holdfast.web.requests import Request
from holdfast.workers.looking import Asker

_SECONDS: Final = re.compile(r"[0-9]{1,6}(\.[0-9]{1,3})?")
_DIGITS: Final = 18
_LEAST_BYTES_A_SECOND: Final = 1024
_ASYNC: Final = re.compile(r"(^|[,;\s])respond-async($|[,;\s])")


class ProtocolRoute(NamedTuple):
    """A route of the worker protocol."""

    method: str
    path: str
    """A regular expression; its groups are the labels."""
    handler: Callable[[RunRequest], Awaitable[Reply]]
    most: int | None = None
    """Bytes its body may have, if that is not the server's own limit."""
    takes_body: bool = False
    """It reads the body by itself, as it comes."""


class Capacities(NamedTuple):
    """The places of a server, by what they are for."""

    requests: TenantCapacity
    waits: TenantCapacity
    uploads: TenantCapacity


class RunRequest(Request):
    """One request of the worker protocol."""

    def __init__(
        self, scope: Scope, labels: Iterable[str], body: bytes, receive: Receive, rooms: Capacities, limit: asyncio.Timeout
    ) -> None:
        super().__init__(scope, labels, body)
        self._receive = receive
        self._rooms = rooms
        self._limit = limit

    @property
    def asker(self) -> Asker:
        """Who asks, by the credential; where nobody logs in, whoever runs the server."""
        identity = identity_of(self._scope)
        if identity == ANYBODY:
            return Asker(principal=principal(), actor=actor_of(self._scope))
        everywhere = identity.tenant is None
        tenant, actor = identity.tenant or "default", actor_of(self._scope)
        return Asker(tenant=tenant, principal=identity.name, logged_in=True, everywhere=everywhere, actor=actor)

    @property
    def parent(self) -> Parent | None:
        """Where the request comes from, as its traceparent says."""
        return parent_of(self.header(b"traceparent"))

    @property
    def is_async(self) -> bool:
        """Whether whoever asks wants to be told at once where the run is."""
        return _ASYNC.search((self.header(b"prefer") or "").lower()) is not None or self.patience(1.0, 1.0) == 0

    def patience(self, default: float, most: float) -> float:
        """Seconds that whoever asks will wait: `?wait=`."""
        text = self.text("wait")
        if text is None:
            return default
        if _SECONDS.fullmatch(text) is None:
            raise InvalidParameter(f"wait: {text!r:.100} is not a number of seconds.")
        return min(float(text), most)

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """From here on it waits for something that takes its time: it is counted among those who wait."""
        with self._rooms.waits.taken(self.tenant), self._rooms.requests.given_back(self.tenant):
            self._limit.reschedule(None)
            yield

    @contextlib.contextmanager
    def uploading(self) -> Iterator[None]:
        """From here on it sends something large."""
        with self._rooms.uploads.taken(self.tenant), self._rooms.requests.given_back(self.tenant):
            self._limit.reschedule(None)
            yield

    async def parts(self, seconds: float) -> AsyncIterator[bytes]:
        """The body as it comes: within so many seconds of waiting, a kilobyte for each of them. A byte now and then is no progress."""
        more, left, came = True, seconds, 0
        while more:
            asked_at = monotonic()
            try:
                async with asyncio.timeout(left):
                    message = await self._receive()
            except TimeoutError:
                raise Refused(408, "RequestTimeoutException", "The rest of the body did not come in time.") from None
            if message["type"] != "http.request":
                raise Gone
            body, more = message.get("body", b""), message.get("more_body", False)
            left, came = max(0.0, left - (monotonic() - asked_at)), came + len(body)
            if came >= seconds * _LEAST_BYTES_A_SECOND:
                left, came = seconds, 0
            if body:
                yield body
                self._scope.get("released", _nothing)(len(body))

    @property
    def length(self) -> int:
        """What the body says that it has; 0 where it does not say."""
        text = self.header(b"content-length") or ""
        return int(text[:_DIGITS]) if text.isdigit() else 0


def _nothing(_: int) -> None:
    """Nobody counts."""

"""A gate before routes whose handler tells what got through, and requests signed as boto3 signs them."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping
from typing import Any
from unittest.mock import Mock

import httpx
from botocore.auth import SigV4Auth, SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from holdfast.lambda_api.routes.callbacks import Callbacks
from holdfast.lambda_api.routes.deploy import DeployRoutes
from holdfast.lambda_api.routes.executions import Executions
from holdfast.lambda_api.routes.functions import Functions
from holdfast.lambda_api.routes.hooks import HookRoutes
from holdfast.lambda_api.routes.logs import LogRoutes
from holdfast.model.clock import Clock, SystemClock
from holdfast.model.credentials import checked_roles
from holdfast.model.ids import id_at
from holdfast.server.events import Events
from holdfast.server.metrics import MetricsRoutes
from holdfast.server.protocol.queues import Queues
from holdfast.server.protocol.routes import worker_routes
from holdfast.server.schedules import ScheduleRoutes
from holdfast.store.seam import Store
from holdfast.web.app import App
from holdfast.web.auth.gate import Gate, open_gate
from holdfast.web.auth.key_sealing import Sealing
from holdfast.web.auth.keys import Issued, new_access_key, new_token
from holdfast.web.auth.secret import KeysSecrets
from holdfast.web.identity import WITHOUT_CREDENTIAL, CallerIdentity
from holdfast.web.limits import WebLimits
from holdfast.web.policy import Waits
from holdfast.web.replies import Reply, Response, json_reply
from holdfast.web.requests import Request
from holdfast.web.routing import Handler, Route

_chance = itertools.count(1)
BASE = "http://127.0.0.1:9001"
REAL = SystemClock()


def random_bytes(count: int) -> bytes:
    """Different ones each time, and the same in each run."""
    return next(_chance).to_bytes(count, "big")


def every_route() -> list[Route]:
    """All routes of a server that serves functions and workers."""
    nothing: Any = Mock()
    parts: list[Any] = [DeployRoutes(nothing), LogRoutes(nothing), Events(nothing, nothing), MetricsRoutes(nothing)]
    parts += [Executions(nothing), Callbacks(nothing), Functions(nothing), HookRoutes(nothing), Queues(nothing, nothing, None)]
    parts.append(ScheduleRoutes(nothing, nothing, nothing))
    return [*worker_routes(nothing), *(route for part in parts for route in part.routes())]


async def telling(request: Request) -> Reply:
    """A handler that answers with what it got."""
    is_unread = request.policy.reads_body or request.policy.waits is Waits.STREAM
    body = b"".join([part async for part in request.stream()]) if is_unread else request.content
    identity = request.identity
    told = {"who": identity.name, "tenant": identity.tenant, "body": body.decode(), "for": request.execution_tenant}
    return json_reply(told)


class Guarded(App):
    """All routes of the server behind their gate, each with another handler."""

    def __init__(
        self, store: Store, handler: Handler = telling, *, host: str = "127.0.0.1", clock: Clock | None = None, **options: Any
    ) -> None:
        clock = clock or SystemClock()
        self.guard = open_gate(store, host=host, clock=clock, **options)
        routes = [route._replace(handler=handler) for route in every_route()]
        super().__init__(routes, WebLimits(), lambda: id_at(clock.now()), self.guard)


class KnownCaller(Gate):
    """A gate that admits every request, those that read as of one caller, the others as of a server without credentials."""

    def __init__(self, identity: CallerIdentity) -> None:
        self._identity = identity

    async def admit(self, request: Request) -> None:
        reads = request.method == "GET" or request.policy.service == "logs"
        request.caller = self._identity if reads else WITHOUT_CREDENTIAL

    def note_reply(self, request: Request, reply: Response) -> None:
        """It keeps no log."""


def gate(store: Store, **options: Any) -> Guarded:
    return Guarded(store, **options)


def client(app: App, **options: Any) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=BASE, **options)


def token(store: Store, *roles: str, now: int = 0, **options: Any) -> Issued:
    """A new token, kept."""
    issued = new_token(roles=checked_roles(roles), now=now, chance=random_bytes, **options)
    store.put_credential(issued.credential)
    return issued


def sealing(store: Store, operator_secret: str | None = None) -> Sealing:
    """What seals the keys of tests: a given secret, or the key file of this run."""
    secrets = KeysSecrets(os.environ, "a-file.db", operator_secret)
    if not secrets.is_there:
        secrets.make(os.urandom)
    return Sealing(store.seal, secrets, chance=random_bytes)


def access_key(store: Store, *roles: str, now: int = 0, operator_secret: str | None = None, **options: Any) -> Issued:
    """A new access key, kept."""
    issued = new_access_key(sealing(store, operator_secret), roles=checked_roles(roles), now=now, chance=random_bytes, **options)
    store.put_credential(issued.credential)
    return issued


def bearer(issued: Issued) -> dict[str, str]:
    return {"Authorization": f"Bearer {issued.secret}"}


def signed(
    issued: Issued,
    method: str,
    path: str,
    body: bytes = b"",
    headers: Mapping[str, str] | None = None,
    *,
    service: str = "lambda",
    expires: int | None = None,
    session: str | None = None,
    secret: str | None = None,
) -> httpx.Request:
    """A request as botocore would send it."""
    made = AWSRequest(method, BASE + path, headers=dict(headers or {}), data=body)
    credentials = Credentials(issued.credential.id, secret or issued.secret, session)
    if expires is None:
        SigV4Auth(credentials, service, "eu-north-1").add_auth(made)
    else:
        SigV4QueryAuth(credentials, service, "eu-north-1", expires).add_auth(made)
    sent = made.prepare()
    return httpx.Request(method, sent.url, headers=dict(sent.headers.items()), content=body)

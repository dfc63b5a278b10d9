"""A gate with something behind it that tells what got through, and requests signed as boto3 signs them."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Mapping
from typing import Any

import httpx
from botocore.auth import SigV4Auth, SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from holdfast.model.clock import Clock, SystemClock
from holdfast.model.credentials import checked_roles
from holdfast.store.seam import Store
from holdfast.web.asgi import Receive, Scope, Send
from holdfast.web.auth.identity import identity_of
from holdfast.web.auth.keys import Issued, new_access_key, new_token
from holdfast.web.auth.protecting import Gate, protect
from holdfast.web.auth.sealing import Sealing
from holdfast.web.auth.secret import KeysSecrets

_chance = itertools.count(1)
BASE = "http://127.0.0.1:9001"


def random_bytes(count: int) -> bytes:
    """Different ones each time, and the same in each run."""
    return next(_chance).to_bytes(count, "big")


async def telling(scope: Scope, receive: Receive, send: Send) -> None:
    """An app that answers with what it got."""
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    identity = identity_of(scope)
    headers = {name.decode(): value.decode() for name, value in scope["headers"]}
    told = {"who": identity.name, "tenant": identity.tenant, "body": body.decode(), "for": headers.get("x-amz-tenant-id")}
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
    await send({"type": "http.response.body", "body": json.dumps(told).encode()})


def gate(store: Store, *, host: str = "127.0.0.1", clock: Clock | None = None, **options: Any) -> Gate:
    return protect(telling, store, host=host, clock=clock or SystemClock(), **options)


def client(app: Gate, **options: Any) -> httpx.AsyncClient:
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

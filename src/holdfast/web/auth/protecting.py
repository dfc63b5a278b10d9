"""The gate: one ASGI app around another. Host and origin, then who asks, then whether they may, then whether it is theirs."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Collection, Sequence
from typing import Final

from holdfast.model.auditing import Actor, Note, kept_days
from holdfast.model.clock import Clock
from holdfast.model.errors import CredentialsNeeded, HoldfastError
from holdfast.model.ids import Arn, IdSource, id_at
from holdfast.model.threads import Purpose, in_thread
from holdfast.store.seam import Store
from holdfast.web import errors
from holdfast.web.asgi import ASGIApp, Message, Receive, Scope, Send, send_reply
from holdfast.web.auth import sigv4
from holdfast.web.auth.browsers import check_host, check_origin, is_loopback
from holdfast.web.auth.identity import ANYBODY, Identity, actor_of, identified, origin_of
from holdfast.web.auth.keys import Keys, sealing_of
from holdfast.web.auth.noting import Refusals
from holdfast.web.auth.operations import Asked, Needs, Reach, asked, enough, may
from holdfast.web.auth.refusing import NO_SUCH_TOKEN, Refusal, Refused, answer
from holdfast.web.auth.sealing import Chance, access_keys
from holdfast.web.auth.secret import KeysSecrets
from holdfast.web.bodies import Gone, read_body

log = logging.getLogger("holdfast.server")

MAX_BODY: Final = 16 * 1024 * 1024
MAX_CODE: Final = 80 * 1024 * 1024
"""The largest bodies whose signatures are verified: of anything, and of a function's code, which comes in base64."""
_REFUSED: Final = frozenset({401, 403, 429})
"""Statuses with which an app refuses: who may not, and who asks too often."""
_TENANT_HEADER: Final = b"x-amz-tenant-id"


def protect(
    app: ASGIApp,
    store: Store,
    *,
    host: str,
    clock: Clock,
    allow_deploy: bool = False,
    hosts: Collection[str] = (),
    origins: Collection[str] = (),
    operator_secret: str | None = None,
    secrets: KeysSecrets | None = None,
    max_body: int = MAX_BODY,
    max_code: int = MAX_CODE,
    body_seconds: float = 30.0,
    ids: IdSource = id_at,
    chance: Chance = os.urandom,
) -> Gate:
    """The app behind a gate. `host` is where the server listens.

    If the store has credentials, every request needs one. If it has none, only this machine may ask, and a server that would listen
    elsewhere is refused here, before it begins. `hosts` are further names the server is called by, `origins` web pages that may ask it,
    like `https://console.example`. `operator_secret` opens the secrets of access keys; without it, HOLDFAST_KEYS_SECRET or the user's key
    file does. `secrets` says where else to look, and whether a key file may be made.
    """
    credentials = store.credentials()
    known = len(credentials)
    loopback = is_loopback(host)
    if not known and not loopback:
        raise CredentialsNeeded(
            f"{host} can be reached from other machines, and the store has no credentials. "
            "Make one with `holdfast keys create --role admin`, or listen on 127.0.0.1."
        )
    secrets = secrets or KeysSecrets(os.environ, given=operator_secret)
    sealing = sealing_of(store, secrets, chance)
    keys = Keys(store, sealing, clock) if known else None
    # Elsewhere the names by which a server is known are its operator's business; credentials do not travel with a browser.
    names = frozenset(name.lower() for name in hosts)
    return Gate(
        app,
        store,
        keys,
        clock=clock,
        ids=ids,
        allow_deploy=allow_deploy,
        hosts=names | {host.lower()} if loopback or names else None,
        origins=frozenset(origins),
        max_body=max_body,
        max_code=max_code,
        body_seconds=body_seconds,
        says=_said(known, allow_deploy) + (f"\n{secrets.says()}" if access_keys(credentials) else ""),
    )


def _said(known: int, allow_deploy: bool) -> str:
    if known:
        return f"credentials: required ({known} known; `holdfast keys list` shows them)"
    deploy = "functions can be deployed over HTTP too" if allow_deploy else "deploying functions over HTTP is off (--allow-deploy)"
    return f"credentials: none, so everybody on this machine may ask, and no web page; {deploy}"


class Gate:
    """An ASGI app that lets through what is allowed."""

    def __init__(
        self,
        app: ASGIApp,
        store: Store,
        keys: Keys | None,
        *,
        clock: Clock,
        ids: IdSource,
        allow_deploy: bool,
        hosts: Collection[str] | None,
        origins: Collection[str],
        max_body: int,
        max_code: int,
        body_seconds: float,
        says: str,
    ) -> None:
        self._app = app
        self._store = store
        self._keys = keys
        self._clock = clock
        self._ids = ids
        self._allow_deploy = allow_deploy
        self._hosts = hosts
        self._origins = origins
        self._max_body = max_body
        self._max_code = max_code
        self._body_seconds = body_seconds
        self._refreshing = asyncio.Lock()
        self._refusals = Refusals(store, clock.now)
        self._days = kept_days(os.environ)
        self.says = says
        """What a server prints when it begins: who may ask."""
        self.needs_credentials = keys is not None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            await self.close()
        elif scope["type"] == "http":
            await self._serve(scope, receive, send)
        else:  # nothing here speaks anything else, and a web page may open a WebSocket to anybody
            await send({"type": "websocket.close", "code": 1008})

    async def close(self) -> None:
        """Write what was refused and is not in the audit log yet. A server does this before it closes its store."""
        await self._refusals.close()

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = _request_of(scope)
        targets = request.values("x-amz-target")
        wanted = asked(request.method, request.path, targets[0] if len(targets) == 1 else (",".join(targets) or None))
        try:
            scope, receive = await self._admitted(scope, receive, request, wanted)
            changes = wanted.operation.needs in (Needs.DEPLOY, Needs.ADMINISTER) and request.method not in ("GET", "HEAD")
            if changes:
                await self._note_change(scope, request, wanted)
        except Gone:
            return
        except errors.Refused as why:
            log.info("refused %s: %s, %s", wanted.operation.name, why.shape, why)
            refused = why
            self._refusals.add(self._noted(scope, request, wanted, why))
        except HoldfastError as trouble:
            log.error("%s could not be checked: %s", wanted.operation.name, trouble)
            refused = Refused(Refusal.TROUBLE, "The server could not check the credentials of this request.")
        else:
            await self._pass(scope, receive, send, request, wanted, changes=changes)
            return
        await send_reply(send, answer(refused, aws=wanted.aws, protocol=wanted.protocol), self._ids(self._clock.now()))

    async def _note_change(self, scope: Scope, request: sigv4.SignedRequest, wanted: Asked) -> None:
        """What changes code is noted before it is done: should it fail, a refusal follows. Without the note it is not done."""
        actor = actor_of(scope)
        if actor is not None:
            notes = actor.did(wanted.operation.name, self._target(request, wanted), "accepted", self._clock.now())
            await in_thread(Purpose.STORE, self._store.note, notes)

    async def _pass(
        self, scope: Scope, receive: Receive, send: Send, request: sigv4.SignedRequest, wanted: Asked, *, changes: bool
    ) -> None:
        """Hand a request to the app; what the app itself refuses is noted as it answers."""
        actor = actor_of(scope)
        if actor is None or wanted.operation.needs is Needs.NOTHING:
            await self._app(scope, receive, send)
            return
        name, on = wanted.operation.name, self._target(request, wanted)
        hidden = actor.tenant is not None and wanted.operation.reach is Reach.HANDLER

        async def watched(message: Message) -> None:
            if message["type"] == "http.response.start":
                status = message["status"]
                if status in _REFUSED or (status >= 400 and changes) or (status == 404 and hidden):
                    self._refusals.add(actor.refused(name, on, _shape_of(message), self._clock.now()))
            await send(message)

        await self._app(scope, receive, watched)

    def _noted(self, scope: Scope, request: sigv4.SignedRequest, wanted: Asked, why: errors.Refused) -> Note:
        """A refusal of ours as the audit log has it: whom the caller claims to be, unless we know."""
        who, tenant = (why.who, why.tenant) if isinstance(why, Refused) else (None, None)
        actor = Actor(who=who or sigv4.claimed(request) or "anonymous", origin=origin_of(scope), tenant=tenant, days=self._days)
        return actor.refused(wanted.operation.name, self._target(request, wanted), why.shape, self._clock.now())

    def _target(self, request: sigv4.SignedRequest, wanted: Asked) -> str:
        """What a request is about. The id of a callback is a capability, and nothing for a log: its execution stands for it."""
        try:
            if wanted.callback is not None:
                return self._store.seal.callback_target(wanted.callback)[0]
            if wanted.arn is not None:
                return Arn.parse(wanted.arn).id
        except HoldfastError:
            return "unknown"
        parts = request.path.split("/")
        return "/".join(parts[:3] if wanted.operation.name == "Unknown" else parts)

    async def _admitted(self, scope: Scope, receive: Receive, request: sigv4.SignedRequest, wanted: Asked) -> tuple[Scope, Receive]:
        """The request as the app may have it."""
        host = request.values("host")
        check_host(host, self._hosts)
        fetch = request.values("sec-fetch-site"), request.values("sec-fetch-mode")
        at = {"method": request.method, "scheme": scope.get("scheme", "http")}
        check_origin(request.values("origin"), host, *fetch, **at, allowed=self._origins)
        needs = wanted.operation.needs
        if needs is Needs.NOTHING:
            return identified(scope, Identity("anybody", ())), receive
        if self._keys is None:
            if needs is Needs.DEPLOY and not self._allow_deploy:
                raise Refused(
                    Refusal.DENIED,
                    f"{wanted.operation.name} changes which code runs here. Start the server with --allow-deploy, or with credentials.",
                )
            return identified(scope, ANYBODY), receive
        identity, receive = await self._identify(self._keys, request, wanted, scope, receive)
        try:
            if not may(identity.roles, needs):
                raise Refused(Refusal.DENIED, f"{identity.name} may not use {wanted.operation.name}: that needs the role {enough(needs)}.")
            if identity.tenant is not None:
                scope = await self._confined(scope, request, wanted, identity, identity.tenant)
        except Refused as why:
            why.who, why.tenant = identity.name, identity.tenant
            raise
        return identified(scope, identity), receive

    async def _identify(
        self, keys: Keys, request: sigv4.SignedRequest, wanted: Asked, scope: Scope, receive: Receive
    ) -> tuple[Identity, Receive]:
        """Who asks. The body of a signed request is read to be compared, and handed on."""
        if keys.is_stale():
            async with self._refreshing:  # all who come meanwhile wait for one look
                if keys.is_stale():
                    await in_thread(Purpose.KEYS, keys.refresh)
        if sigv4.is_signed(request):
            return await self._verify(keys, request, wanted, scope, receive)
        given = request.values("authorization")
        if not given:
            raise Refused(Refusal.MISSING, "Missing Authentication Token: sign the request, or send a token as a bearer.")
        scheme, _, token = given[0].partition(" ")
        if len(given) > 1 or scheme.lower() != "bearer":
            raise Refused(Refusal.UNKNOWN, "Authorization must be one AWS4-HMAC-SHA256 signature, or one bearer token.")
        return Identity.of(keys.token(token.strip())), receive

    async def _verify(
        self, keys: Keys, request: sigv4.SignedRequest, wanted: Asked, scope: Scope, receive: Receive
    ) -> tuple[Identity, Receive]:
        claim = sigv4.claim_of(request)
        if request.values("x-amz-security-token") or "X-Amz-Security-Token=" in request.query:
            raise Refused(Refusal.UNKNOWN, NO_SUCH_TOKEN)  # a temporary credential of AWS, which means nothing here
        credential, secret = keys.access_key(claim.scope.key)
        if claim.scope.service != wanted.operation.service:
            raise Refused(Refusal.SIGNATURE, f"Credential should be scoped to correct service: '{wanted.operation.service}'.")
        sigv4.check_time(claim, self._clock.now())
        signed = sigv4.body_hash(request)
        if signed is not None:
            sigv4.check_signature(request, claim, secret, signed)  # before a stranger's body is read
        limit = self._max_code if wanted.operation.needs is Needs.DEPLOY else self._max_body
        body = await read_body(scope, receive, self._body_seconds, limit)
        if signed is None:
            sigv4.check_signature(request, claim, secret, sigv4.hash_of(body))
        else:
            sigv4.check_body(signed, body)
        return Identity.of(credential), _again(body, receive)

    async def _confined(self, scope: Scope, request: sigv4.SignedRequest, wanted: Asked, identity: Identity, tenant: str) -> Scope:
        """The request kept to a tenant; what is another's looks as if it were not there."""
        reach = wanted.operation.reach
        if reach is Reach.NONE:
            raise Refused(Refusal.DENIED, f"{identity.name} is of the tenant {tenant!r}, and {wanted.operation.name} is for all tenants.")
        if reach is Reach.EXECUTION and not await in_thread(Purpose.KEYS, self._is_of, tenant, wanted):
            what = "callback" if wanted.callback is not None else "durable execution"
            raise Refused(Refusal.ABSENT, f"The {what} does not exist.")
        if reach is Reach.START:
            given = request.values("x-amz-tenant-id")
            if given and list(given) != [tenant]:
                raise Refused(Refusal.DENIED, f"{identity.name} may only start executions of the tenant {tenant!r}.")
            if not given:
                return {**scope, "headers": [*scope["headers"], (_TENANT_HEADER, tenant.encode())]}
        return scope

    def _is_of(self, tenant: str, wanted: Asked) -> bool:
        try:
            if wanted.callback is not None:
                execution, _ = self._store.seal.callback_target(wanted.callback)
            else:
                execution = Arn.parse(wanted.arn or "").id
        except HoldfastError:
            return False
        found = self._store.find(execution)
        return found is not None and found.tenant == tenant


def _request_of(scope: Scope) -> sigv4.SignedRequest:
    path = scope.get("raw_path") or scope["path"].encode()
    client = scope.get("client")
    return sigv4.SignedRequest(
        method=scope["method"].upper(),
        path=_text(path.partition(b"?")[0]),
        query=_text(scope.get("query_string", b"")),
        headers=sigv4.gathered((_text(name).lower(), _text(value)) for name, value in scope["headers"]),
        private=scope.get("scheme") == "https" or (client is not None and is_loopback(client[0])),
    )


def _shape_of(answer: Message) -> str:
    """What an answer that refuses is called: AWS's name where it has one, else its status."""
    named = next((value for name, value in answer.get("headers", ()) if name == b"x-amzn-errortype"), None)
    return str(answer["status"]) if named is None else _text(named)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _again(body: bytes, receive: Receive) -> Receive:
    """Hand on a body that was read, then whatever comes after it."""
    pending: Sequence[Message] = ({"type": "http.request", "body": body, "more_body": False},)

    async def handed() -> Message:
        nonlocal pending
        if pending:
            first, pending = pending[0], ()
            return first
        return await receive()

    return handed

"""The gate: it decides whether the server serves a request.

    Host and Origin → credential → role → tenant → audit log

The gate compares each request with the policy of its route. A request that matches no route has a policy too: its caller must be an admin.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Collection
from typing import Final, Protocol

from holdfast.model.audit import Actor, Note, kept_days
from holdfast.model.clock import Clock
from holdfast.model.credentials import Credential, tenant_of
from holdfast.model.errors import CredentialsNeeded, HoldfastError
from holdfast.model.ids import Arn
from holdfast.model.threads import Purpose, in_thread
from holdfast.store.seam import AuditStore, CredentialStore, ExecutionStore, SessionStore
from holdfast.web.auth import sigv4
from holdfast.web.auth.denials import NO_SUCH_TOKEN, Denial, Denied, RoleMissing, TenantTooNarrow
from holdfast.web.auth.key_sealing import Chance, access_keys
from holdfast.web.auth.keys import Keys, sealing_of
from holdfast.web.auth.origins import check_host, check_origin, is_loopback
from holdfast.web.auth.refusal_log import RefusalLog
from holdfast.web.auth.secret import KeysSecrets
from holdfast.web.auth.sessions import Sessions, cookie_in
from holdfast.web.identity import UNKNOWN_CALLER, WITHOUT_CREDENTIAL, CallerIdentity
from holdfast.web.policy import UNKNOWN, Needs, Reach, enough, may
from holdfast.web.refusals import Refused
from holdfast.web.replies import Response
from holdfast.web.requests import Request

log = logging.getLogger("holdfast.server")

MAX_BODY: Final = 16 * 1024 * 1024
MAX_CODE: Final = 80 * 1024 * 1024
"""The most bytes of a signed body that the gate reads on a route that deploys code. It is larger than MAX_BODY because a function's code
may have 50 MB, which are 67 MB in base64. The routes have lower limits of their own."""
_REFUSED: Final = frozenset({401, 403, 429})
"""If a handler replies with one of these statuses, the gate notes a refusal: the caller has no valid credential, has no permission, or
sends too many requests."""


class GateStore(CredentialStore, SessionStore, ExecutionStore, AuditStore, Protocol):
    """The part of a store by which a gate recognises callers, confines them to their tenant, and notes what they do."""


def open_gate(
    store: GateStore,
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
    chance: Chance = os.urandom,
) -> Gate:
    """The gate of a server that listens on `host`.

    If the store has credentials now, a request needs a credential, except on a route with Needs.NOTHING. If the store has no credentials
    now, requests need none until the server is started again, also after some are made. Raises CredentialsNeeded if the store has no
    credentials and other machines could reach `host`. `allow_deploy`: also without credentials, requests may deploy code. `hosts` are
    further names of the server. `origins` are the origins of other web pages that may use the server, like `https://console.example`.

    `operator_secret` seals and opens the secrets of access keys, in place of `HOLDFAST_KEYS_SECRET`. If neither is given, the secret in the
    file that `HOLDFAST_KEYS_FILE` names does so, else the one in `keys.secret` in the user's configuration folder. If `secrets` is given,
    it decides where the gate looks and whether a key file may be made, and `operator_secret` is ignored. The body of a signed
    request may have at most `max_body` bytes, on a route that takes code at most `max_code`, and must arrive within `body_seconds`.

    Raises KeysSecretNeeded if an access key of the store cannot be opened, or if a secret is needed to seal it and there is none. Raises
    InvalidParameter if a secret is too short."""
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
    # If other machines can reach the server, every Host is allowed unless the operator names hosts: such a server needs credentials, and a
    # page of another site cannot make a browser send one.
    names = frozenset(name.lower() for name in hosts)
    return Gate(
        store,
        Keys(store, sealing, clock) if known else None,
        clock=clock,
        allow_deploy=allow_deploy,
        hosts=names | {host.lower()} if loopback or names else None,
        origins=frozenset(origins),
        max_body=max_body,
        max_code=max_code,
        body_seconds=body_seconds,
        chance=chance,
        summary=_summary(known, allow_deploy) + (f"\n{secrets.says()}" if access_keys(credentials) else ""),
    )


def _summary(known: int, allow_deploy: bool) -> str:
    if known:
        return f"credentials: required ({known} known; `holdfast keys list` shows them)"
    deploy = "functions can be deployed over HTTP too" if allow_deploy else "deploying functions over HTTP is off (--allow-deploy)"
    return f"credentials: none, so every user of this machine may use the server, and no page of another site; {deploy}"


class Gate:
    """Admits the requests that the policies of their routes allow."""

    def __init__(
        self,
        store: GateStore,
        keys: Keys | None,
        *,
        clock: Clock,
        allow_deploy: bool,
        hosts: Collection[str] | None,
        origins: Collection[str],
        max_body: int,
        max_code: int,
        body_seconds: float,
        chance: Chance,
        summary: str,
    ) -> None:
        self._store = store
        self._keys = keys
        self.sessions = Sessions(store, chance)
        self._clock = clock
        self._allow_deploy = allow_deploy
        self._hosts = hosts
        self._origins = origins
        self._max_body = max_body
        self._max_code = max_code
        self._body_seconds = body_seconds
        self._refreshing = asyncio.Lock()
        self._refusals = RefusalLog(store, clock.now)
        self._days = kept_days(os.environ)
        self.summary = summary
        """A text about the callers that the gate admits. A server prints it when it starts."""
        self.needs_credentials = keys is not None

    async def close(self) -> None:
        """Write the refusals that are not in the audit log yet. A server does this before it closes its store."""
        await self._refusals.close()

    async def admit(self, request: Request) -> None:
        """Recognise the caller, and set `request.caller`. Raises Refused if the caller may not make this request, or if the gate cannot
        check it. A request that may change code or settings gets a line in the audit log before it is served."""
        signed = _signed(request)
        operation = request.policy.operation
        try:
            request.caller = await self._admitted(request, signed)
            known = operation != UNKNOWN.operation  # an unknown one changes nothing, and its refusal gets a line (`note_reply`)
            if known and request.policy.changes_code and signed.method not in ("GET", "HEAD"):
                await self._note_change(request, signed.path)
        except Refused as why:
            log.info("refused %s: %s, %s", operation, why.shape, why)
            self._refusals.add(self._note_of(request, signed, why))
            raise
        except HoldfastError as trouble:
            log.error("%s could not be checked: %s", operation, trouble)
            raise Denied(
                Denial.TROUBLE,
                "The server could not check this request, or could not write it to the audit log. Try again. The server's log has the "
                "cause.",
            ) from None

    async def _note_change(self, request: Request, path: str) -> None:
        """Write to the audit log that a request is about to change code or settings. Raises an error if the line cannot be written: then
        the request is refused. If the change fails later, the log also gets a line about that failure (`note_reply`)."""
        actor = request.actor
        if actor is not None:
            notes = actor.did(request.policy.operation, self._subject(request, path), "accepted", self._clock.now())
            await in_thread(Purpose.STORE, self._store.note, notes)

    def note_reply(self, request: Request, reply: Response) -> None:
        """Note in the audit log that a request got an error reply after the gate had admitted it. If the route needs a permission, these
        are noted: every 401, 403 and 429; every error of a request that may change code or settings; and, for a caller of one tenant, a 404
        of a route whose handler hides other tenants (`Reach.HANDLER`)."""
        policy, status = request.policy, reply.status_code
        if status < 400 or policy.needs is Needs.NOTHING:
            return
        changes = policy.changes_code and request.method not in ("GET", "HEAD")
        hidden = status == 404 and policy.reach is Reach.HANDLER and request.tenant is not None
        actor = request.actor
        if actor is not None and (status in _REFUSED or changes or hidden):
            subject = self._subject(request, _signed(request).path)
            self._refusals.add(actor.refused(policy.operation, subject, _error_of(reply), self._clock.now()))

    def _note_of(self, request: Request, signed: sigv4.SignedRequest, why: Refused) -> Note:
        """The line of the audit log for a refusal. If the caller is not recognised, the line has the id of the access key that the request
        names, or `anonymous`."""
        who, tenant = (why.who, why.tenant) if isinstance(why, Denied) else (None, None)
        actor = Actor(who=who or sigv4.claimed(signed) or "anonymous", origin=request.origin, tenant=tenant, days=self._days)
        return actor.refused(request.policy.operation, self._subject(request, signed.path), why.shape, self._clock.now())

    def _subject(self, request: Request, path: str) -> str:
        """What a request is about, for the audit log. For a route of one execution: the id of the execution. For a route of a callback: the
        id of its execution, because a person who reads the callback's own id in the log could answer the callback. If that id cannot be
        read: `unknown`. For all other routes: the path; if the path has a secret or no route, only its first two parts."""
        try:
            if request.policy.reach is Reach.CALLBACK:
                return self._store.seal.callback_target(request.label)[0]
            if request.policy.reach is Reach.EXECUTION:
                return Arn.parse(request.label).id
        except HoldfastError:
            return "unknown"
        parts = path.split("/")
        cut = request.policy.secret_path or request.policy.operation == UNKNOWN.operation
        return "/".join(parts[:3] if cut else parts)

    async def _admitted(self, request: Request, signed: sigv4.SignedRequest) -> CallerIdentity:
        host = signed.values("host")
        check_host(host, self._hosts)
        fetch = signed.values("sec-fetch-site"), signed.values("sec-fetch-mode")
        at = {"method": signed.method, "scheme": request.scope.get("scheme", "http")}
        check_origin(signed.values("origin"), host, *fetch, **at, allowed=self._origins)
        needs, operation = request.policy.needs, request.policy.operation
        if needs is Needs.NOTHING:
            return UNKNOWN_CALLER
        if self._keys is None:
            if needs is Needs.DEPLOY and not self._allow_deploy:
                raise Denied(
                    Denial.DENIED, f"{operation} changes which code runs here. Start the server with --allow-deploy, or with credentials."
                )
            return WITHOUT_CREDENTIAL
        identity = await self._identify(self._keys, request, signed)
        try:
            if not may(identity.roles, needs):
                raise RoleMissing(identity.name, operation, enough(needs))
            if identity.tenant is not None:
                await self._confine(request, signed, identity, identity.tenant)
        except Denied as why:
            why.who, why.tenant = identity.name, identity.tenant
            raise
        return identity

    async def _identify(self, keys: Keys, request: Request, signed: sigv4.SignedRequest) -> CallerIdentity:
        """The caller, recognised by its signature, its token, or, on routes that allow it (`RoutePolicy.session`), the cookie of a session.
        Raises Denied if the request has none of these, or one that is not valid. Raises Refused if the body of a signed request cannot be
        read."""
        await self._refresh(keys)
        if sigv4.is_signed(signed):
            return await self._verify(keys, request, signed)
        given = signed.values("authorization")
        if not given and request.policy.session:
            return await self._of_session(keys, request)
        if not given:
            raise Denied(Denial.MISSING, "Missing Authentication Token: sign the request, or send `Authorization: Bearer TOKEN`.")
        scheme, _, token = given[0].partition(" ")
        if len(given) > 1 or scheme.lower() != "bearer":
            raise Denied(Denial.UNKNOWN, "Authorization must be one AWS4-HMAC-SHA256 signature, or one bearer token.")
        return CallerIdentity.of(keys.token(token.strip()))

    async def _refresh(self, keys: Keys) -> None:
        if keys.is_stale():
            async with self._refreshing:  # all requests that arrive during this read wait for it, and none reads again
                if keys.is_stale():
                    await in_thread(Purpose.KEYS, keys.refresh)

    async def _of_session(self, keys: Keys, request: Request) -> CallerIdentity:
        """The caller whose browser sent the cookie of a session. Raises Denied if the request has no such cookie, if its session has ended,
        or if the session's credential is not valid any more."""
        found = await in_thread(Purpose.KEYS, self.sessions.find, cookie_in(request.header(b"cookie")), self._clock.now())
        if found is None:
            raise Denied(Denial.MISSING, "Log in first.")
        request.session_of_browser = found
        return CallerIdentity.of(keys.credential(found.credential))

    async def log_in(self, request: Request, token: str) -> Credential | None:
        """The credential of the token that a person typed. None if the server needs no credentials. Raises Denied if the token is unknown
        or has expired. Logins and refused logins are noted in the audit log."""
        if self._keys is None:
            return None
        await self._refresh(self._keys)
        try:
            found = self._keys.token(token)
            actor = Actor(who=found.id, origin=request.origin, tenant=found.tenant, days=self._days)
            await in_thread(Purpose.STORE, self._store.note, actor.did("log in", "console", "logged in", self._clock.now()))
            return found
        except Denied as why:
            self._refusals.add(self._note_of(request, _signed(request), why))
            raise

    async def _verify(self, keys: Keys, request: Request, signed: sigv4.SignedRequest) -> CallerIdentity:
        """The holder of the access key that signed the request. The gate reads the body to check the signature, and then puts the body
        back, so that the handler can read it. Raises Denied if the key is unknown or has expired; if the signature is wrong, too old, too
        far in the future, or for another AWS service; if the body is not the signed one; or if the request has a session token of AWS.
        Raises Refused if the body is too large or arrives too late."""
        claim = sigv4.claim_of(signed)
        if signed.values("x-amz-security-token") or "X-Amz-Security-Token=" in signed.query:
            raise Denied(Denial.UNKNOWN, NO_SUCH_TOKEN)  # a temporary credential of AWS, which means nothing here
        credential, secret = keys.access_key(claim.scope.key)
        if claim.scope.service != request.policy.service:
            raise Denied(Denial.SIGNATURE, f"Credential should be scoped to correct service: '{request.policy.service}'.")
        sigv4.check_time(claim, self._clock.now())
        signed_body = sigv4.body_hash(signed)
        if signed_body is not None:
            sigv4.check_signature(signed, claim, secret, signed_body)  # checked before the gate reads the body of an unknown caller
        limit = self._max_code if request.policy.needs is Needs.DEPLOY else self._max_body
        body = await request.incoming.read(self._body_seconds, limit)
        if signed_body is None:
            sigv4.check_signature(signed, claim, secret, sigv4.hash_of(body))
        else:
            sigv4.check_body(signed_body, body)
        request.incoming.put_back(body)
        return CallerIdentity.of(credential)

    async def _confine(self, request: Request, signed: sigv4.SignedRequest, identity: CallerIdentity, tenant: str) -> None:
        """Raises Denied if the request could reach a tenant other than `tenant`, the caller's. If it names an execution or a callback of
        another tenant, the error says that this does not exist."""
        reach = request.policy.reach
        if reach is Reach.NONE:
            raise TenantTooNarrow(identity.name, request.policy.operation, tenant)
        if reach in (Reach.EXECUTION, Reach.CALLBACK) and not await in_thread(Purpose.KEYS, self._is_of, tenant, request):
            what = "callback" if reach is Reach.CALLBACK else "durable execution"
            raise Denied(Denial.ABSENT, f"The {what} does not exist.")
        if reach is Reach.START:
            given = signed.values("x-amz-tenant-id")
            if given and list(given) != [tenant]:
                raise Denied(Denial.DENIED, f"{identity.name} may only start executions of the tenant {tenant!r}.")

    def _is_of(self, tenant: str, request: Request) -> bool:
        found = self._store.find(self._subject(request, ""))
        return found is not None and tenant_of(found.tenant) == tenant


def _signed(request: Request) -> sigv4.SignedRequest:
    scope = request.scope
    path = scope.get("raw_path") or scope["path"].encode()
    client = scope.get("client")
    return sigv4.SignedRequest(
        method=scope["method"].upper(),
        path=_text(path.partition(b"?")[0]),
        query=_text(scope.get("query_string", b"")),
        headers=sigv4.gathered((_text(name).lower(), _text(value)) for name, value in scope["headers"]),
        private=scope.get("scheme") == "https" or (client is not None and is_loopback(client[0])),
    )


def _error_of(reply: Response) -> str:
    """The name of the error in a reply: the name that AWS's clients read, if the reply has one; else the HTTP status."""
    named = next((value for name, value in reply.raw_headers if name == b"x-amzn-errortype"), None)
    return str(reply.status_code) if named is None else _text(named)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")

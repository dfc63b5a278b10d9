"""The gate: who gets in, as whom, and what those hear who do not."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
from collections.abc import Iterator
from typing import Any
from unittest.mock import Mock
from urllib.parse import quote

import httpx
import msgspec
import pytest

from holdfast.model.clock import SystemClock, VirtualClock
from holdfast.model.credentials import Role, checked_roles
from holdfast.model.errors import CredentialsNeeded, InvalidParameter, KeysSecretNeeded, StoreBroken
from holdfast.model.execution import Terms
from holdfast.model.ids import Arn, id_at
from holdfast.model.life import new_execution
from holdfast.model.verbs import Start
from holdfast.store.backends import open_store
from holdfast.store.seam import Store
from holdfast.web.auth.key_sealing import Sealing
from holdfast.web.auth.keys import Keys
from holdfast.web.auth.secret import KeysSecret
from tests.surface.auth_server import access_key, bearer, client, gate, random_bytes, sealing, signed, token

INVOKE = "/2015-03-31/functions/order/invocations?Qualifier=%24LATEST"
CREATE = "/2015-03-31/functions"
LIST = "/2025-12-01/functions/order/durable-executions?Statuses=FAILED&Statuses=RUNNING"
EVENTS = "/events"


@pytest.fixture
def store() -> Iterator[Store]:
    with contextlib.closing(open_store(":memory:", "here")) as store:
        yield store


def aws_error(answer: httpx.Response) -> tuple[int, str]:
    """An error as AWS's clients read it."""
    assert answer.headers["content-type"] == "application/json"
    assert len(answer.headers["x-amzn-requestid"]) == 36
    body = answer.json()
    assert body["message"] == body["Message"]
    assert body["Type"] == ("Service" if answer.status_code == 500 else "User")
    return answer.status_code, answer.headers["x-amzn-errortype"]


# --- without credentials


async def test_without_credentials_this_machine_may_ask_and_the_gate_says_so(store: Store) -> None:
    app = gate(store)
    assert app.guard.summary == (
        "credentials: none, so every user of this machine may use the server, and no page of another site; "
        "deploying functions over HTTP is off (--allow-deploy)"
    )
    async with client(app) as asking:
        for headers in ({}, {"Authorization": "Bearer whatever"}, {"Authorization": "AWS4-HMAC-SHA256 nonsense"}):
            answer = await asking.post(INVOKE, content=b"{}", headers=headers)
            assert (answer.status_code, answer.json()["who"], answer.json()["body"]) == (200, "no-credential", "{}")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3", "holdfast.example", ""])
def test_a_server_that_others_can_reach_refuses_to_start_without_credentials(store: Store, host: str) -> None:
    with pytest.raises(CredentialsNeeded) as refused:
        gate(store, host=host)
    assert "holdfast keys create" in str(refused.value)
    token(store, "viewer")
    assert gate(store, host=host).guard.summary.startswith("credentials: required (1 known")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.10", "::1", "[::1]", "localhost"])
def test_loopback_has_many_names(store: Store, host: str) -> None:
    assert gate(store, host=host).guard.summary.startswith("credentials: none")


@pytest.mark.parametrize(
    "method, path",
    [("POST", CREATE), ("PUT", "/2015-03-31/functions/f/code"), ("PUT", "/2015-03-31/functions/f/configuration"),
     ("DELETE", "/2015-03-31/functions/f"), ("POST", "/2015-03-31/functions/f/versions"),
     ("POST", "/2015-03-31/functions/f/aliases"), ("PUT", "/2015-03-31/functions/f/aliases/live"),
     ("DELETE", "/2015-03-31/functions/f/aliases/live")],
)  # fmt: skip
async def test_deploying_needs_credentials_or_to_be_allowed(store: Store, method: str, path: str) -> None:
    async with client(gate(store)) as asking:
        for headers in ({}, {"X-Amz-Target": "Logs_20140328.FilterLogEvents"}, {"X-Amz-Target": "x"}):
            answer = await asking.request(method, path, headers=headers)
            assert answer.status_code == 403
            assert "--allow-deploy" in answer.json()["message"]
    async with client(gate(store, allow_deploy=True)) as asking:
        assert (await asking.request(method, path)).status_code == 200
    admin = token(store, "admin")
    async with client(gate(store)) as asking:
        assert (await asking.request(method, path, headers=bearer(admin))).status_code == 200


# --- web pages


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:9001", "127.0.0.1.evil.example", "localhost.evil.example", "169.254.169.254", "", "a b", "[::1"]
)
async def test_a_name_pointed_at_this_machine_is_refused(store: Store, host: str) -> None:
    """DNS rebinding: the page's own name comes in the Host header, and no page can change that."""
    async with client(gate(store)) as asking:
        assert aws_error(await asking.get(LIST, headers={"Host": host})) == (403, "AccessDeniedException")
        assert (await asking.get("/health", headers={"Host": host})).status_code == 403


@pytest.mark.parametrize("host", ["localhost", "localhost:9001", "LOCALHOST", "127.0.0.1:1", "[::1]:9001", "docker.internal:9001"])
async def test_names_of_this_machine_are_welcome_and_others_can_be_added(store: Store, host: str) -> None:
    async with client(gate(store, hosts=["Docker.Internal"])) as asking:
        assert (await asking.get(LIST, headers={"Host": host})).status_code == 200


@pytest.mark.parametrize(
    "origin", ["null", "https://evil.example", "http://127.0.0.1:3000", "http://localhost:9001", "https://127.0.0.1:9001"]
)
async def test_a_page_of_another_origin_is_refused(store: Store, origin: str) -> None:
    async with client(gate(store)) as asking:
        assert aws_error(await asking.post(INVOKE, headers={"Origin": origin})) == (403, "AccessDeniedException")
        refused = await asking.get(EVENTS, headers={"Origin": origin})
        assert (refused.status_code, refused.json()["error"]) == (403, "access_refused")


async def test_our_own_pages_and_allowed_ones_may_ask(store: Store) -> None:
    async with client(gate(store, origins=["https://console.example"])) as asking:
        for origin in ("http://127.0.0.1:9001", "https://console.example"):
            assert (await asking.post(INVOKE, headers={"Origin": origin})).status_code == 200


async def test_a_page_that_hides_its_origin_is_seen_by_what_the_browser_adds(store: Store) -> None:
    async with client(gate(store)) as asking:
        embedded = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}
        assert (await asking.get(EVENTS, headers=embedded)).status_code == 403
        assert (await asking.get(EVENTS, headers=embedded | {"Sec-Fetch-Mode": "navigate"})).status_code == 200
        assert (await asking.post(INVOKE, headers=embedded | {"Sec-Fetch-Mode": "navigate"})).status_code == 403  # a form


async def test_a_websocket_is_closed(store: Store) -> None:
    sent = []

    async def send(message: object) -> None:
        sent.append(message)

    async def receive() -> dict[str, object]:
        return {"type": "websocket.connect"}

    await gate(store)({"type": "websocket"}, receive, send)
    assert sent == [{"type": "websocket.close", "code": 1008}]


# --- credentials


async def test_with_credentials_nobody_gets_in_without_one(store: Store) -> None:
    token(store, "viewer")
    async with client(gate(store)) as asking:
        assert aws_error(await asking.get(LIST)) == (403, "MissingAuthenticationTokenException")
        plain = await asking.get(EVENTS)
        assert (plain.status_code, plain.json()["error"]) == (401, "access_refused")
        assert plain.headers["www-authenticate"].startswith("Bearer")
        assert (await asking.get("/health")).status_code == 200, "a probe has no credentials"
        head = await asking.head(EVENTS)
        assert (head.status_code, head.content) == (401, b"")


async def test_a_token_lets_its_holder_in(store: Store) -> None:
    issued = token(store, "operator")
    assert issued.secret.startswith("hf_")
    assert issued.secret not in repr(store.credentials())
    async with client(gate(store)) as asking:
        answer = await asking.post(INVOKE, content=b"{}", headers=bearer(issued))
        assert answer.json() == {"who": issued.credential.id, "tenant": None, "body": "{}", "for": None}
        for wrong in (b"Bearer hf_wrong", b"Bearer ", b"Bearer", b"Basic YTpi", issued.secret.encode(), b"Bearer \xff"):
            got = await asking.get(LIST, headers=[(b"Authorization", wrong)])
            assert aws_error(got) == (403, "UnrecognizedClientException"), wrong


async def test_a_signature_lets_its_holder_in_and_the_body_through(store: Store) -> None:
    issued = access_key(store, "operator")
    assert issued.secret not in repr(store.credentials())
    async with client(gate(store)) as asking:
        for request in (
            signed(issued, "POST", INVOKE, b'{"a":1}' * 10_000, {"X-Amz-Invocation-Type": "Event"}),
            signed(issued, "GET", LIST),
            signed(issued, "GET", LIST, expires=60),
            signed(issued, "GET", EVENTS),
        ):
            answer = await asking.send(request)
            assert (answer.status_code, answer.json()["who"]) == (200, issued.credential.id)
            assert answer.json()["body"].encode() == request.content


async def test_signatures_that_are_wrong_are_refused_as_on_aws(store: Store) -> None:
    issued = access_key(store, "admin")
    stranger = issued._replace(credential=msgspec.structs.replace(issued.credential, id="AKIASTRANGER"))
    cases = {
        "UnrecognizedClientException": [signed(stranger, "GET", LIST), signed(issued, "GET", LIST, session="of AWS")],
        "InvalidSignatureException": [signed(issued, "GET", LIST, secret="wrong"), signed(issued, "GET", LIST, service="s3")],
    }
    async with client(gate(store)) as asking:
        for error, requests in cases.items():
            for request in requests:
                assert aws_error(await asking.send(request)) == (403, error)
        halved = signed(issued, "GET", LIST)
        halved.headers["Authorization"] = halved.headers["Authorization"].split(", Signature")[0]
        assert aws_error(await asking.send(halved)) == (400, "IncompleteSignatureException")
        plain = await asking.send(signed(issued, "GET", EVENTS, secret="wrong"))
        assert (plain.status_code, plain.json()["error"]) == (401, "access_refused")


async def test_a_signed_hash_must_be_that_of_the_body_that_comes(store: Store) -> None:
    issued = access_key(store, "admin")
    request = signed(issued, "POST", INVOKE, b"{}", {"X-Amz-Content-SHA256": hashlib.sha256(b"{}").hexdigest()})
    async with client(gate(store)) as asking:
        assert (await asking.send(request)).json()["body"] == "{}"
        other = httpx.Request("POST", request.url, headers=request.headers, content=b"[]")
        assert aws_error(await asking.send(other)) == (403, "InvalidSignatureException")


async def test_a_request_is_refused_when_its_signature_is_old(store: Store) -> None:
    issued = access_key(store, "admin")
    clock = VirtualClock(SystemClock().now())
    fresh, presigned = signed(issued, "GET", LIST), signed(issued, "GET", LIST, expires=900)
    async with client(gate(store, clock=clock)) as asking:
        assert [(await asking.send(request)).status_code for request in (fresh, presigned)] == [200, 200]
        clock.move_to(clock.now() + 400_000)
        assert aws_error(await asking.send(fresh)) == (403, "InvalidSignatureException")
        assert (await asking.send(presigned)).status_code == 200
        clock.move_to(clock.now() + 600_000)
        assert aws_error(await asking.send(presigned)) == (403, "InvalidSignatureException")


async def test_a_body_larger_than_the_limit_is_not_read(store: Store) -> None:
    issued = access_key(store, "admin")
    async with client(gate(store, max_body=1000, max_code=2000)) as asking:
        assert (await asking.send(signed(issued, "POST", CREATE, b"x" * 2000))).status_code == 200
        assert aws_error(await asking.send(signed(issued, "POST", CREATE, b"x" * 2001))) == (413, "RequestTooLargeException")
        assert (await asking.send(signed(issued, "POST", INVOKE, b"x" * 1000))).status_code == 200
        assert aws_error(await asking.send(signed(issued, "POST", INVOKE, b"x" * 1001))) == (413, "RequestTooLargeException")


async def test_a_body_that_does_not_come_is_not_waited_for(store: Store) -> None:
    issued = access_key(store, "admin")
    request, sent = signed(issued, "POST", INVOKE, b"{}"), list[Any]()

    async def never() -> dict[str, object]:
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: object) -> None:
        sent.append(message)

    headers = [(name.lower(), value) for name, value in request.headers.raw]
    scope = {"type": "http", "method": "POST", "path": "/", "raw_path": INVOKE.split("?")[0].encode(), "headers": headers}
    await gate(store, body_seconds=0.01)({**scope, "query_string": INVOKE.split("?")[1].encode()}, never, send)
    assert sent[0]["status"] == 408


async def test_logs_are_signed_for_the_service_of_logs(store: Store) -> None:
    issued = access_key(store, "viewer")
    headers = {"X-Amz-Target": "Logs_20140328.FilterLogEvents"}
    async with client(gate(store)) as asking:
        assert (await asking.send(signed(issued, "POST", "/", b"{}", headers, service="logs"))).status_code == 200
        assert aws_error(await asking.send(signed(issued, "POST", "/", b"{}", headers)))[1] == "InvalidSignatureException"
        writes = {"X-Amz-Target": "Logs_20140328.DeleteLogGroup"}
        assert (await asking.send(signed(issued, "POST", "/", b"{}", writes, service="logs"))).status_code == 403
        sneaking = {**headers, "X-Amz-Invocation-Type": "Event"}
        assert (await asking.send(signed(issued, "POST", INVOKE, b"{}", sneaking, service="logs"))).status_code == 403


async def test_a_credential_expires(store: Store) -> None:
    clock = VirtualClock()
    issued = token(store, "viewer", now=clock.now(), days=1)
    async with client(gate(store, clock=clock)) as asking:
        clock.move_to(clock.now() + 86_399_999)
        assert (await asking.get(LIST, headers=bearer(issued))).status_code == 200
        clock.move_to(clock.now() + 1)
        assert aws_error(await asking.get(LIST, headers=bearer(issued))) == (403, "ExpiredTokenException")


def test_a_revoked_credential_is_refused_a_second_later_and_a_new_one_is_known(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    passed = [0.0]
    monkeypatch.setattr("holdfast.web.auth.keys.monotonic", lambda: passed[0])
    keys = Keys(store, sealing(store), VirtualClock())
    assert keys.is_stale()
    first = access_key(store, "admin")
    keys.refresh()
    assert keys.access_key(first.credential.id) == (first.credential, first.secret)
    store.remove_credential(first.credential.id)
    second = token(store, "viewer")
    assert not keys.is_stale()
    passed[0] = 1.0
    assert keys.is_stale()
    keys.refresh()
    assert keys.token(second.secret) == second.credential
    with pytest.raises(Exception, match="security token included in the request is invalid"):
        keys.access_key(first.credential.id)


async def test_a_store_that_cannot_be_asked_lets_nobody_in(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    issued = token(store, "viewer")
    app = gate(store)

    def broken() -> object:
        raise StoreBroken("it burns")

    monkeypatch.setattr(store, "credentials", broken)
    async with client(app) as asking:
        assert aws_error(await asking.get(LIST, headers=bearer(issued))) == (500, "ServiceException")
        assert (await asking.get(EVENTS, headers=bearer(issued))).status_code == 503


async def test_no_log_and_no_answer_shows_a_secret(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "holdfast")
    key, viewer = access_key(store, "viewer"), token(store, "viewer")
    async with client(gate(store)) as asking:
        answers = [
            await asking.send(signed(key, "POST", INVOKE)),
            await asking.post(INVOKE, headers=bearer(viewer)),
            await asking.post(INVOKE, headers={"Authorization": "Bearer hf_some-bodys"}),
        ]
    assert [answer.status_code for answer in answers] == [403, 403, 403]
    seen = caplog.text + "".join(answer.text for answer in answers)
    assert "Invoke" in caplog.text
    assert [secret for secret in (key.secret, viewer.secret, "hf_some-bodys") if secret in seen] == []


# --- sealing


def test_a_sealed_secret_opens_only_in_its_store_under_its_id_and_with_the_operators_secret(store: Store) -> None:
    own, theirs = "s" * 32, "t" * 32
    issued, beside = access_key(store, "admin", operator_secret=own), access_key(store, "admin", operator_secret=own)
    assert sealing(store, own).opened(issued.credential) == issued.secret
    moved = msgspec.structs.replace(issued.credential, id=beside.credential.id)
    with contextlib.closing(open_store(":memory:", "other")) as other:
        for wrong, credential in (
            (sealing(store, own), moved),
            (Sealing(store.seal, list, chance=random_bytes), issued.credential),
            (Sealing(store.seal, lambda: [KeysSecret(theirs, "theirs")], chance=random_bytes), issued.credential),
            (sealing(other, own), issued.credential),
        ):
            with pytest.raises(KeysSecretNeeded, match=issued.credential.id if credential is issued.credential else "key") as refused:
                wrong.opened(credential)
            assert not any(secret in str(refused.value) for secret in (issued.secret, own, theirs))


def test_a_short_operators_secret_is_refused(store: Store) -> None:
    with pytest.raises(InvalidParameter, match="32 characters"):
        sealing(store, "short")


def test_roles_are_named_and_a_credential_needs_one() -> None:
    assert checked_roles(["viewer", "admin", "viewer"]) == (Role.ADMIN, Role.VIEWER)
    with pytest.raises(InvalidParameter, match=r"'boss'.*viewer, operator, approver, settler, admin"):
        checked_roles(["boss"])
    with pytest.raises(InvalidParameter, match="needs a role"):
        checked_roles([])


# --- roles


async def test_a_role_that_is_not_enough_is_told_which_is(store: Store) -> None:
    approver = token(store, "approver", note="Zoë")
    both = token(store, "approver", "operator")
    async with client(gate(store)) as asking:
        refused = await asking.post(INVOKE, headers=bearer(approver))
        assert aws_error(refused) == (403, "AccessDeniedException")
        assert refused.json()["message"].endswith("may not use Invoke: that needs the role operator or admin.")
        for path in (INVOKE, "/2025-12-01/durable-execution-callbacks/abc/fail"):
            assert (await asking.post(path, headers=bearer(both))).status_code == 200


# --- tenants


def started(store: Store, name: str, tenant: str | None) -> tuple[str, str]:
    """The ARN of an execution, and the id of a callback of it."""
    header = new_execution(id_at(0), name, "order", "$LATEST", payload="{}", now=0, terms=Terms())
    store.commit([Start(msgspec.structs.replace(header, tenant=tenant), "{}")], 0)
    arn = str(Arn("order", "$LATEST", header.name, header.id))
    return quote(arn, safe=""), quote(store.seal.callback(header.id, "c"), safe="")


async def test_a_tenant_sees_only_its_own_executions_and_callbacks(store: Store) -> None:
    north = token(store, "admin", tenant="north")
    (own, own_callback), *others = [started(store, name, tenant) for name, tenant in (("a", "north"), ("b", "south"), ("c", None))]
    others.append(("not-an-arn", "AAAA"))
    async with client(gate(store), headers=bearer(north)) as asking:
        for arn, callback in ((own, own_callback), *others):
            asks = [
                await asking.get(f"/2025-12-01/durable-executions/{arn}"),
                await asking.get(f"/2025-12-01/durable-executions/{arn}/history"),
                await asking.get(f"/2025-12-01/durable-executions/{arn}/state"),
                await asking.post(f"/2025-12-01/durable-executions/{arn}/stop"),
                await asking.post(f"/2025-12-01/durable-executions/{arn}/checkpoint"),
                await asking.post(f"/2025-12-01/durable-execution-callbacks/{callback}/succeed"),
            ]
            if arn == own:
                assert [(answer.status_code, answer.json()["tenant"]) for answer in asks] == [(200, "north")] * 6
            else:
                assert [aws_error(answer) for answer in asks] == [(404, "ResourceNotFoundException")] * 6


async def test_an_execution_without_a_tenant_is_one_of_the_tenant_default(store: Store) -> None:
    default = token(store, "admin", tenant="default")
    arns = [started(store, name, tenant)[0] for name, tenant in (("a", None), ("b", "default"), ("c", "north"))]
    async with client(gate(store), headers=bearer(default)) as asking:
        answers = [await asking.get(f"/2025-12-01/durable-executions/{arn}") for arn in arns]
    assert [answer.status_code for answer in answers] == [200, 200, 404]


async def test_logins_that_come_together_read_the_credentials_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    issued = token(store, "viewer")
    guard, reads = gate(store).guard, list[int]()
    keys = guard._keys
    assert keys is not None
    refresh = keys.refresh

    def counted() -> None:
        reads.append(1)
        refresh()

    monkeypatch.setattr(keys, "refresh", counted)
    asked = Mock(origin="127.0.0.1")
    found = await asyncio.gather(*(guard.log_in(asked, issued.secret) for _ in range(3)))
    assert (found, reads) == ([issued.credential] * 3, [1])


async def test_a_tenant_starts_only_its_own(store: Store) -> None:
    key = access_key(store, "operator", tenant="north")
    async with client(gate(store)) as asking:
        for headers in ({}, {"X-Amz-Tenant-Id": "north"}):
            answer = await asking.send(signed(key, "POST", INVOKE, b"{}", headers))
            assert (answer.status_code, answer.json()["for"]) == (200, "north")
        refused = await asking.send(signed(key, "POST", INVOKE, b"{}", {"X-Amz-Tenant-Id": "south"}))
        assert aws_error(refused) == (403, "AccessDeniedException")


@pytest.mark.parametrize(
    "method, path",
    [
        ("POST", "/start-durable-execution"),
        ("GET", "/metrics"),
        ("GET", "/anything"),
        ("POST", CREATE),
        ("PUT", "/2015-03-31/functions/f/code"),
        ("POST", "/2015-03-31/functions/f/versions"),
        ("PUT", "/2015-03-31/functions/f/aliases/live"),
        ("DELETE", "/2015-03-31/functions/f"),
    ],
)
async def test_what_cannot_be_kept_to_a_tenant_is_for_none(store: Store, method: str, path: str) -> None:
    north, all_of_them = token(store, "admin", tenant="north"), token(store, "admin")
    async with client(gate(store)) as asking:
        assert (await asking.request(method, path, headers=bearer(north))).status_code == 403
        admitted = await asking.request(method, path, headers=bearer(all_of_them))
        assert admitted.status_code == (404 if path == "/anything" else 200), "an admin learns that there is nothing"

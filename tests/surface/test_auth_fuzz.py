"""The gate answers every request in words, and admits only requests that are allowed."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.model.clock import VirtualClock
from holdfast.model.credentials import checked_roles
from holdfast.store.backends import open_store
from holdfast.web.auth.key_sealing import Sealing
from holdfast.web.auth.keys import new_access_key
from holdfast.web.auth.secret import KeysSecret
from holdfast.web.replies import Reply
from holdfast.web.requests import Request
from tests.parts import examples
from tests.surface.auth_server import Guarded, gate, token

KEY = "HFKA" + 16 * "A"
SCOPES = st.sampled_from(["20260101", "20260230", "20251231", "٢٠٢٦٠١٠١", ""]).map(lambda day: f"{KEY}/{day}/local/lambda/aws4_request")
STAMPS = st.sampled_from([b"20260101T000000Z", b"20260230T000000Z", b"20260101T999999Z", b"now", b"", b"\xff"])
WORDS = st.one_of(st.binary(max_size=12), st.text(max_size=12).map(str.encode))


def signature(scope: str, signed: bytes, given_: bytes) -> bytes:
    return b"AWS4-HMAC-SHA256 Credential=" + scope.encode() + b", SignedHeaders=" + signed + b", Signature=" + given_


AUTHORIZATIONS = st.one_of(
    WORDS,
    WORDS.map(lambda word: b"Bearer " + word),
    WORDS.map(lambda word: b"AWS4-HMAC-SHA256 " + word),
    st.builds(signature, SCOPES, st.one_of(st.sampled_from([b"host", b"host;x-amz-date", b"", b";", b"HOST"]), WORDS), WORDS),
)
HEADERS = st.lists(
    st.one_of(
        st.tuples(st.just(b"authorization"), AUTHORIZATIONS),
        st.tuples(st.just(b"x-amz-date"), STAMPS),
        st.tuples(st.just(b"date"), st.one_of(WORDS, st.just(b"Thu, 01 Jan 2026 00:00:00 GMT"))),
        st.tuples(st.just(b"host"), st.one_of(st.just(b"127.0.0.1"), WORDS)),
        st.tuples(st.sampled_from([b"origin", b"x-amz-content-sha256", b"x-amz-target", b"content-length", b"sec-fetch-site"]), WORDS),
        st.tuples(WORDS, WORDS),
    ),
    max_size=6,
)
QUERIES = st.lists(
    st.one_of(
        WORDS,
        st.sampled_from(["Signature", "Credential", "Date", "Expires", "Algorithm", "SignedHeaders", "Security-Token"]).flatmap(
            lambda name: WORDS.map(lambda word: f"X-Amz-{name}=".encode() + word)
        ),
    ),
    max_size=7,
).map(b"&".join)
PATHS = st.one_of(
    WORDS.map(lambda word: b"/" + word),
    st.sampled_from([b"/", b"/events", b"/2015-03-31/functions", b"/2015-03-31/functions/f/invocations"]),
    WORDS.map(lambda word: b"/2025-12-01/durable-executions/" + word + b"/stop"),
)


async def asked(guarded: Guarded, scope: Any) -> tuple[int, bytes]:
    sent = list[Any]()

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"{}", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    await guarded(scope, receive, send)
    return sent[0]["status"], sent[1]["body"]


async def admitting(_: Request) -> Reply:
    return Reply(299, b"{}")


@settings(deadline=None, max_examples=examples(400))
@given(st.sampled_from(["GET", "POST", "PUT", "HEAD", "PATCH", "x"]), PATHS, QUERIES, HEADERS)
def test_no_request_without_a_credential_gets_in_and_each_gets_an_answer(
    method: str, path: bytes, query: bytes, headers: list[tuple[bytes, bytes]]
) -> None:
    with contextlib.closing(open_store(":memory:", "here")) as store:
        token(store, "admin")
        issued = new_access_key(
            Sealing(store.seal, lambda: [KeysSecret("s" * 32, "the test")], chance=bytes),
            roles=checked_roles(["admin"]),
            now=0,
            chance=bytes,
        )
        assert issued.credential.id == KEY, "what is asked below is a key that is known"
        store.put_credential(issued.credential)
        guarded = gate(store, handler=admitting, clock=VirtualClock(1_767_225_600_000), operator_secret="s" * 32)
        scope = {
            "type": "http",
            "method": method,
            "path": "/",
            "raw_path": path,
            "query_string": query,
            "headers": headers,
            "scheme": "http",
        }
        status, body = asyncio.run(asked(guarded, scope))
    assert 400 <= status < 500
    if method != "HEAD":
        assert json.loads(body)["message"]

"""Signatures: what botocore's own signers sign is accepted, and nothing that was changed afterwards is."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

import botocore.auth
import pytest
from botocore.auth import SigV4Auth, SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import given
from hypothesis import strategies as st

from holdfast.web.auth import sigv4
from holdfast.web.auth.denials import Denial, Denied

KEY, SECRET = "HFKAEXAMPLEEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
NOW = datetime(2026, 11, 16, 3, 28, 37, tzinfo=UTC)
NOW_MS = int(NOW.timestamp()) * 1000
HOST = "127.0.0.1:9001"
ARN = "arn:aws:lambda:local:000000000000:function:order:$LATEST/durable-execution/o-1/0190a1b2-0000-7000-8000-000000000000"
LABEL = quote(ARN, safe="")

Signed = tuple[sigv4.SignedRequest, bytes]


def request_of(made: AWSRequest, *, private: bool = True) -> Signed:
    """What arrives at a server when this is sent."""
    sent = made.prepare()
    parts = urlsplit(sent.url)
    headers = [(name.lower(), text(value)) for name, value in sent.headers.items()]
    if not any(name == "host" for name, _ in headers):
        headers.append(("host", parts.netloc))
    body = sent.body if isinstance(sent.body, bytes) else (sent.body or "").encode()
    return sigv4.SignedRequest(
        method=sent.method, path=parts.path, query=parts.query, headers=sigv4.gathered(headers), private=private
    ), body


def text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Callable[[datetime], None]:
    def stand(moment: datetime) -> None:
        monkeypatch.setattr(botocore.auth, "get_current_datetime", lambda: moment)

    stand(NOW)
    return stand


def signed(
    method: str = "POST",
    path: str = f"/2025-12-01/durable-executions/{LABEL}/checkpoint",
    body: bytes = b"{}",
    headers: Mapping[str, str] | None = None,
    *,
    region: str = "eu-north-1",
    expires: int | None = None,
    secret: str = SECRET,
    scheme: str = "http",
    context: Mapping[str, Any] | None = None,
) -> Signed:
    made = AWSRequest(method, f"{scheme}://{HOST}{path}", headers=dict(headers or {}), data=body)
    made.context.update(context or {})
    credentials = Credentials(KEY, secret)
    signer = SigV4Auth(credentials, "lambda", region) if expires is None else SigV4QueryAuth(credentials, "lambda", region, expires)
    signer.add_auth(made)
    return request_of(made)


def verify(request: sigv4.SignedRequest, body: bytes, now: int = NOW_MS, secret: str = SECRET) -> sigv4.RequestSignature:
    """As the gate does it."""
    claim = sigv4.claim_of(request)
    sigv4.check_time(claim, now)
    given = sigv4.body_hash(request)
    sigv4.check_signature(request, claim, secret, given or sigv4.hash_of(body))
    sigv4.check_body(given or sigv4.hash_of(body), body)
    return claim


def refusal(request: sigv4.SignedRequest, body: bytes, now: int = NOW_MS, secret: str = SECRET) -> tuple[Denial, str]:
    with pytest.raises(Denied) as refused:
        verify(request, body, now, secret)
    assert SECRET not in str(refused.value)
    return refused.value.why, str(refused.value)


def changed(request: sigv4.SignedRequest, **to: Any) -> sigv4.SignedRequest:
    return sigv4.SignedRequest(**{name: getattr(request, name) for name in request.__struct_fields__} | to)


def with_header(request: sigv4.SignedRequest, name: str, value: str | None) -> sigv4.SignedRequest:
    kept = {key: values for key, values in request.headers.items() if key != name}
    return changed(request, headers=kept if value is None else kept | {name: [value]})


REQUESTS: dict[str, tuple[str, str, bytes, dict[str, str]]] = {
    "a checkpoint": ("POST", f"/2025-12-01/durable-executions/{LABEL}/checkpoint", b'{"Token":"a"}', {"Content-Type": "text/json"}),
    "an arn that is not encoded": ("GET", f"/2025-12-01/durable-executions/{ARN}/history", b"", {}),
    "a version": ("POST", "/2015-03-31/functions/order/invocations?Qualifier=%24LATEST", b"null", {"X-Amz-Invocation-Type": "Event"}),
    "repeated keys": ("GET", "/2025-12-01/functions/order/durable-executions?Statuses=RUNNING&Statuses=FAILED&MaxItems=10", b"", {}),
    "keys out of order": ("GET", "/x?b=2&a=1&B=3&a=0&c=", b"", {}),
    "a key without a value": ("GET", "/x?flag&a=1", b"", {}),
    "a marker of base64": ("GET", "/x?Marker=" + quote("a+b/c==", safe=""), b"", {}),
    "a time": ("GET", "/x?StartedAfter=" + quote("2026-01-01T00:00:00Z", safe=""), b"", {}),
    "what is not escaped": ("GET", "/x?Marker=a+b/c*'()!", b"", {}),
    "a callback id": ("POST", f"/2025-12-01/durable-execution-callbacks/{quote('AaHh+/x==', safe='')}/succeed", b'"yes"', {}),
    "dots and double slashes": ("GET", "/a/./b//../c/", b"", {}),
    "the root": ("POST", "/", b"{}", {"X-Amz-Target": "Logs_20140328.FilterLogEvents"}),
    "other alphabets": ("GET", "/" + quote("größe/日本", safe="") + "?q=" + quote("ж", safe=""), b"", {}),
    "spaces in a header": ("POST", "/x", b"", {"X-Amz-Client-Context": "  a    b  "}),
    "bytes that are no text": ("POST", "/x", bytes(range(256)) * 100, {}),
    "a tenant and a name": ("POST", "/x", b"1", {"X-Amz-Tenant-Id": "acme: north/1", "X-Amz-Durable-Execution-Name": "n-1"}),
}  # fmt: skip
every_request = pytest.mark.parametrize("method, path, body, headers", REQUESTS.values(), ids=REQUESTS.keys())
pytestmark = pytest.mark.usefixtures("at")


@every_request
def test_what_botocore_signs_is_accepted(method: str, path: str, body: bytes, headers: dict[str, str]) -> None:
    request, sent = signed(method, path, body, headers)
    assert verify(request, sent).scope == ("HFKAEXAMPLEEXAMPLE", "20261116", "eu-north-1", "lambda")


@every_request
def test_what_botocore_presigns_is_accepted(method: str, path: str, body: bytes, headers: dict[str, str]) -> None:
    request, sent = signed(method, path, b"", headers, expires=60)
    assert "X-Amz-Signature=" in request.query
    assert verify(request, sent).expires_seconds == 60


@every_request
def test_another_secret_is_refused(method: str, path: str, body: bytes, headers: dict[str, str]) -> None:
    assert refusal(*signed(method, path, body, headers, secret="x" * 40))[0] is Denial.SIGNATURE


@given(
    st.dictionaries(st.text("abcXYZ-._~", min_size=1), st.text(max_size=8), max_size=4),
    st.text(min_size=1, max_size=12),
    st.binary(max_size=64),
)
def test_any_query_path_and_body_that_botocore_signs_is_accepted(query: dict[str, str], label: str, body: bytes) -> None:
    asked = "&".join(f"{quote(key, safe='-_.~')}={quote(value, safe='-_.~')}" for key, value in query.items())
    made = AWSRequest("POST", f"http://{HOST}/x/{quote(label, safe='')}/y?{asked}", data=body)
    SigV4Auth(Credentials(KEY, SECRET), "lambda", "local").add_auth(made)
    request, sent = request_of(made)
    stamp = datetime.strptime(request.values("x-amz-date")[0], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    verify(request, sent, int(stamp.timestamp()) * 1000)


@pytest.mark.parametrize("expires", [None, 60], ids=["header", "presigned"])
@pytest.mark.parametrize(
    "change",
    [
        lambda r: changed(r, method="DELETE"),
        lambda r: changed(r, path=r.path.replace("checkpoint", "stop")),
        lambda r: changed(r, path=r.path.replace("order", "other")),
        lambda r: changed(r, query=r.query + "&Qualifier=1"),
        lambda r: with_header(r, "host", "other.example"),
        lambda r: with_header(r, "x-amz-tenant-id", "other"),
        lambda r: with_header(r, "x-amz-date", "20261116T032838Z"),
    ],
    ids=["method", "operation", "function", "query", "host", "tenant", "date"],
)
def test_a_request_that_was_changed_is_refused(expires: int | None, change: Callable[[sigv4.SignedRequest], sigv4.SignedRequest]) -> None:
    headers = {"X-Amz-Tenant-Id": "acme"}
    request, body = signed(headers=headers, expires=expires, body=b"" if expires else b"{}")
    verify(request, body)
    assert refusal(change(request), body)[0] is Denial.SIGNATURE


def test_a_body_that_was_changed_is_refused() -> None:
    request, _ = signed(body=b'{"a":1}')
    assert refusal(request, b'{"a":2}')[0] is Denial.SIGNATURE
    hashed, body = signed(headers={"X-Amz-Content-SHA256": hashlib.sha256(b"{}").hexdigest()}, body=b"{}")
    verify(hashed, body)
    assert refusal(hashed, b"[]") == (Denial.SIGNATURE, "The body is not the one that was signed.")
    presigned, _ = signed(expires=60, body=b"")
    assert refusal(presigned, b"{}")[0] is Denial.SIGNATURE, "a presigned address is for an empty body"


def test_a_header_that_changes_the_meaning_must_be_signed() -> None:
    request, body = signed()
    added = with_header(request, "x-amz-invocation-type", "Event")
    assert refusal(added, body) == (Denial.SIGNATURE, "These headers must be signed: x-amz-invocation-type.")
    verify(with_header(with_header(request, "x-amzn-trace-id", "Root=1"), "user-agent", "any"), body)
    assert refusal(with_header(request, "x-amz-date", None), body)[0] is Denial.INCOMPLETE
    twice = changed(request, headers={**request.headers, "host": [HOST, "evil.example"]})
    assert refusal(twice, body)[0] is Denial.SIGNATURE


def test_a_header_that_was_signed_must_come() -> None:
    request, body = signed(headers={"X-Amz-Tenant-Id": "acme"})
    assert (
        refusal(with_header(request, "x-amz-tenant-id", None), body)[1]
        == "The header 'x-amz-tenant-id' was signed, but the request does not have it."
    )


@pytest.mark.usefixtures("at")
def test_an_idempotency_key_that_was_not_signed_is_refused() -> None:
    """Else a listener on the network could send a signed request again under another key, and the worker would run twice."""
    path = "/v1/workers/refund/invoke"
    verify(*signed(path=path, headers={"Idempotency-Key": "order-1"}))
    request, body = signed(path=path)
    added = sigv4.SignedRequest(
        method="POST", path=path, query="", headers={**request.headers, "idempotency-key": ["order-2"]}, private=True
    )
    assert refusal(added, body) == (Denial.SIGNATURE, "These headers must be signed: idempotency-key.")


def test_an_unsigned_body_is_taken_only_where_nobody_can_change_it() -> None:
    request, body = signed(scheme="https", context={"payload_signing_enabled": False})
    assert request.values("x-amz-content-sha256") == ["UNSIGNED-PAYLOAD"]
    verify(request, body)
    assert refusal(changed(request, private=False), body)[0] is Denial.SIGNATURE


def test_signed_chunks_are_refused_clearly() -> None:
    request, body = signed(headers={"X-Amz-Content-SHA256": "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"})
    assert "signed chunks are not supported" in refusal(request, body)[1]


# --- time


@pytest.mark.parametrize("minutes, good", [(-5, True), (5, True), (-5.02, False), (5.02, False)])
def test_a_signature_is_good_for_five_minutes_either_way(minutes: float, good: bool) -> None:
    request, body = signed()
    now = NOW_MS + int(minutes * 60_000)
    if good:
        verify(request, body, now)
    else:
        why, message = refusal(request, body, now)
        assert (why, message.split(":")[0]) == (Denial.SIGNATURE, "Signature not yet current" if minutes < 0 else "Signature expired")


def test_a_presigned_address_is_good_until_it_expires() -> None:
    request, body = signed(expires=3600, body=b"")
    verify(request, body, NOW_MS + 3_600_000)
    assert refusal(request, body, NOW_MS + 3_600_001)[1].startswith("Signature expired")
    longer = changed(request, query=request.query.replace("X-Amz-Expires=3600", "X-Amz-Expires=36000"))
    assert refusal(longer, body, NOW_MS + 3_600_001)[0] is Denial.SIGNATURE, "who makes it longer breaks its signature"


@pytest.mark.parametrize("expires", ["0", "-1", "604801", "1e3", "", "١"])
def test_an_expiry_that_cannot_be_is_refused(expires: str) -> None:
    request, body = signed(expires=60, body=b"")
    assert refusal(changed(request, query=request.query.replace("Expires=60", f"Expires={quote(expires)}")), body)[0] is Denial.INCOMPLETE


def test_a_date_that_is_in_the_year_10000_elsewhere_is_refused() -> None:
    request, body = signed(headers={"Date": "x"})
    assert refusal(with_header(request, "date", "Fri, 31 Dec 9999 23:30:00 -0100"), body)[0] is Denial.INCOMPLETE


def test_the_header_date_will_do() -> None:
    request, body = signed(headers={"Date": "x"})
    assert request.values("x-amz-date") == ()
    assert verify(request, body).stamp == "20261116T032837Z"
    assert refusal(with_header(request, "date", "soon"), body)[0] is Denial.INCOMPLETE


# --- what is no signature


@pytest.mark.parametrize(
    "authorization",
    [
        "AWS4-HMAC-SHA256",
        "AWS4-HMAC-SHA256 ",
        "AWS4-HMAC-SHA512 Credential=a/20261116/r/lambda/aws4_request, SignedHeaders=host, Signature=00",
        "AWS4-HMAC-SHA256 Credential=a/20261116/r/lambda/aws4_request, SignedHeaders=host",
        "AWS4-HMAC-SHA256 Credential=a/20261116/r/lambda/aws4_request, Signature=0, Signature=0, SignedHeaders=host",
        "AWS4-HMAC-SHA256 Credential=a/20261116/r/lambda/aws4_request, SignedHeaders=host, Signature=0, More=1",
        "AWS4-HMAC-SHA256 Credential=a/20261116/r/lambda/aws5_request, SignedHeaders=host, Signature=0",
        "AWS4-HMAC-SHA256 Credential=20261116/r/lambda/aws4_request, SignedHeaders=host, Signature=0",
        "AWS4-HMAC-SHA256 Credential=a/20261116/r/lambda/aws4_request, SignedHeaders=x;host, Signature=0",
        "AWS4-HMAC-SHA256 Credential=a/20261116/r/lambda/aws4_request, SignedHeaders=host;host, Signature=0",
        "AWS4-HMAC-SHA256 Credential=a/20261116/r/lambda/aws4_request, SignedHeaders=Host, Signature=0",
    ],
)
def test_what_is_no_signature_is_refused_as_incomplete(authorization: str) -> None:
    request, body = signed()
    assert refusal(with_header(request, "authorization", authorization), body)[0] is Denial.INCOMPLETE


def test_a_header_full_of_spaces_is_refused_in_a_moment() -> None:
    request = with_header(signed()[0], "authorization", f"{sigv4.ALGORITHM} Credential=a{' ' * 20_000}b")
    began = time.process_time()
    with pytest.raises(Denied):
        sigv4.claim_of(request)
    assert time.process_time() - began < 0.2, "the time must not grow with the square of the spaces: the caller is not known yet"


def test_the_host_must_be_signed_and_the_day_must_be_the_requests() -> None:
    request, body = signed()
    text = request.values("authorization")[0]
    assert (
        refusal(with_header(request, "authorization", text.replace("SignedHeaders=host;", "SignedHeaders=")), body)[0] is Denial.SIGNATURE
    )
    assert refusal(with_header(request, "authorization", text.replace("/20261116/", "/20261115/")), body)[0] is Denial.SIGNATURE


def test_two_signatures_are_one_too_many() -> None:
    request, body = signed(expires=60, body=b"")
    other, _ = signed()
    both = with_header(request, "authorization", other.values("authorization")[0])
    assert refusal(both, body)[0] is Denial.INCOMPLETE
    doubled = changed(request, query=request.query + "&X-Amz-Expires=600000")
    assert refusal(doubled, body)[0] is Denial.INCOMPLETE


def test_a_signature_with_strange_characters_is_a_wrong_one() -> None:
    request, body = signed()
    text = request.values("authorization")[0]
    assert refusal(with_header(request, "authorization", text[:-3] + "é\udcff"), body)[0] is Denial.SIGNATURE


# --- a plus is no space


SENT = ["a+b", "a%2Bb", "a%2bb", "a%20b", "a b"]


@pytest.mark.parametrize("meant", ["a+b", "a b"])
def test_what_botocore_signs_of_a_plus_and_of_a_space_is_accepted(meant: str) -> None:
    made = AWSRequest("GET", f"http://{HOST}/x", params={"Marker": meant})
    SigV4Auth(Credentials(KEY, SECRET), "lambda", "local").add_auth(made)
    request, body = request_of(made)
    verify(request, body)
    assert parse_qsl(request.query) == [("Marker", meant)]


@pytest.mark.parametrize("sent", SENT)
@pytest.mark.parametrize("to", SENT)
def test_a_signature_never_covers_a_query_that_is_read_differently(sent: str, to: str) -> None:
    """A plus as it is reads as a space here, and `%2B` as a plus: neither may stand for the other."""
    request, body = signed("GET", f"/x?Marker={quote(sent, safe='+%')}", b"")
    swapped = changed(request, query=f"Marker={quote(to, safe='+%')}")
    if parse_qsl(request.query) == parse_qsl(swapped.query):
        verify(request, body)
    else:
        assert refusal(swapped, body)[0] is Denial.SIGNATURE


@given(st.text("ab+%2B0 ", max_size=6), st.text("ab+%2B0 ", max_size=6))
def test_queries_with_a_form_in_common_are_read_the_same(one: str, other: str) -> None:
    forms = [set(sigv4._canonical_queries(f"q={text}")) for text in (one, other)]
    if forms[0] & forms[1]:
        assert parse_qsl(f"q={one}", keep_blank_values=True) == parse_qsl(f"q={other}", keep_blank_values=True)

"""Trailers: headers after a body are in no signature, and no part of the server ever sees them. Over a raw socket."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from holdfast.model.clock import SystemClock
from holdfast.store.backends import open_store
from holdfast.web.auth.gate import open_gate
from holdfast.web.auth.keys import Issued
from holdfast.web.policy import Waits
from holdfast.web.replies import Reply, json_reply
from holdfast.web.requests import Request
from tests.surface.auth_server import access_key, every_route, token
from tests.surface.http_functions import ALL
from tests.surface.http_server import Served, served

INVOKE = "/2015-03-31/functions/echo:$LATEST/invocations"


async def telling(request: Request) -> Reply:
    """Answers with all headers that reached it, after the whole body was read."""
    is_unread = request.policy.waits is Waits.STREAM
    body = b"".join([part async for part in request.stream()]) if is_unread else request.content
    return json_reply({"body": body.decode(), "headers": sorted(name.decode() for name, _ in request.scope["headers"])})


class Guarded:
    """A server with a gate, and two credentials of its store."""

    def __init__(self, server: Served, key: Issued, bearer: Issued) -> None:
        self.server = server
        self.key = key
        self.bearer = bearer


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    where = tmp_path_factory.mktemp("trailers") / "store.db"
    store = open_store(str(where), "test")
    key, bearer = access_key(store, "operator", tenant="acme"), token(store, "viewer")

    gate = open_gate(store, host="127.0.0.1", clock=SystemClock())
    with served(Path(where), ALL, gate=gate, more=[route._replace(handler=telling) for route in every_route()]) as server:
        yield Guarded(server, key, bearer)
    store.close()


def sent(server: Served, head: dict[str, str], body: bytes, *trailers: bytes, apart: bool = False) -> tuple[int, dict[str, Any]]:
    """A request whose body comes in one chunk, with trailers behind it: in one piece, or the trailers in a piece of their own."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
    first = f"POST {INVOKE} HTTP/1.1\r\n{lines}Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n".encode()
    chunk = b"%x\r\n%s\r\n0\r\n" % (len(body), body)
    last = b"".join(line + b"\r\n" for line in trailers) + b"\r\n"
    with socket.create_connection(server.address, timeout=30) as connection:
        for piece in [first, chunk, last] if apart else [first + chunk + last]:
            connection.sendall(piece)
        said = b""
        while part := connection.recv(65536):
            said += part
    top, _, rest = said.partition(b"\r\n\r\n")
    return int(top.split()[1]), json.loads(rest)


def signed_head(guarded: Guarded, body: bytes) -> dict[str, str]:
    """The headers of a signed request, as botocore makes them."""
    host, port = guarded.server.address
    made = AWSRequest("POST", f"http://{host}:{port}{INVOKE}", data=body)
    SigV4Auth(Credentials(guarded.key.credential.id, guarded.key.secret), "lambda", "local").add_auth(made)
    head = {"Host": f"{host}:{port}"} | {name: str(value) for name, value in made.headers.items()}
    return {name: value for name, value in head.items() if name.lower() not in ("content-length", "transfer-encoding")}


SMUGGLED = [
    b"X-Amz-Tenant-Id: bolt", b"X-Amz-Durable-Execution-Name: mine", b"X-Amz-Invocation-Type: Event", b"Idempotency-Key: k",
    b"Authorization: Bearer x", b"Host: other.example", b"Origin: http://evil.example", b"Prefer: respond-async",
    b"X-Amz-Target: Logs_20140328.X",
]  # fmt: skip


@pytest.mark.parametrize("apart", [False, True], ids=["in one piece", "in pieces"])
@pytest.mark.parametrize("trailer", SMUGGLED, ids=lambda line: line.partition(b":")[0].decode())
def test_a_trailer_after_a_signed_body_is_never_seen(guarded: Guarded, trailer: bytes, apart: bool) -> None:
    head = signed_head(guarded, b'{"a":1}')
    plain = sent(guarded.server, head, b'{"a":1}')
    assert plain[0] == 200, plain
    assert sent(guarded.server, head, b'{"a":1}', trailer, apart=apart) == plain


def test_a_trailer_does_not_log_anybody_in(guarded: Guarded) -> None:
    host, port = guarded.server.address
    trailer = f"Authorization: Bearer {guarded.bearer.secret}".encode()
    status, told = sent(guarded.server, {"Host": f"{host}:{port}"}, b"{}", trailer)
    assert (status, told["message"][:28]) == (403, "Missing Authentication Token")


def test_the_headers_of_the_next_request_on_the_connection_count_again(guarded: Guarded) -> None:
    host, port = guarded.server.address
    hosted = f"Host: {host}:{port}\r\n"
    bearer = f"Authorization: Bearer {guarded.bearer.secret}\r\n"
    first = f"POST /events HTTP/1.1\r\n{hosted}{bearer}Transfer-Encoding: chunked\r\n\r\n2\r\n{{}}\r\n0\r\nX-A: 1\r\n\r\n"
    second = f"GET /events HTTP/1.1\r\n{hosted}{bearer}X-B: 2\r\nConnection: close\r\n\r\n"
    with socket.create_connection(guarded.server.address, timeout=30) as connection:
        connection.sendall(first.encode())
        connection.recv(65536)
        connection.sendall(second.encode())
        said = b""
        while part := connection.recv(65536):
            said += part
    assert b'"x-b"' in said
    assert b'"x-a"' not in said

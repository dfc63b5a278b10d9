"""What one client sends at once is looked at a little at a time: others have their turn, and what waits is bounded. No login is needed."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from typing import Any, cast

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from holdfast.model.codec import MAX_PAYLOAD_BYTES
from holdfast.server.protocol.workers import Workers
from holdfast.web.limits import WebLimits
from holdfast.web.listener import _MOST_HEADERS, _SLICE, BoundedProtocol
from tests.surface.http_functions import ALL
from tests.surface.http_server import Served, served

GET = b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n"
CHUNKED = b"POST /start-durable-execution HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("turns") / "store.db", ALL, limits=WebLimits(body_seconds=0.3)) as running:
        yield running


def answer(server: Served, sent: bytes) -> bytes:
    """All that a server says until it closes the connection."""
    with socket.create_connection(server.address, timeout=30) as connection:
        return answered_on(connection, sent)


def answered_on(connection: socket.socket, sent: bytes) -> bytes:
    said = b""
    try:
        connection.sendall(sent)
        while part := connection.recv(65536):
            said += part
    except ConnectionError:  # it hung up while we were still sending
        pass
    return said


def test_a_body_in_very_many_small_chunks_is_refused_and_one_in_a_few_thousand_is_not(server: Served) -> None:
    assert answer(server, CHUNKED + b"1\r\nx\r\n" * 20_000).startswith(b"HTTP/1.1 400 ")
    said = answer(server, CHUNKED.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n") + b"1\r\n \r\n" * 4_000 + b"2\r\n{}\r\n0\r\n\r\n")
    assert b"too many small chunks" not in said
    assert said.startswith(b"HTTP/1.1 4"), "read to its end, and then found to name no function"


def test_a_request_to_a_worker_that_cannot_be_kept_is_refused_before_it_is_read() -> None:
    """Reading fifteen megabytes, to find that six can be kept, took a second in which the server did nothing else."""
    way = next(way for way in Workers(cast("Any", None)).routes() if way.path.endswith("/invoke"))
    assert way.policy.body_bytes is not None
    assert MAX_PAYLOAD_BYTES < way.policy.body_bytes < 2 * MAX_PAYLOAD_BYTES


def test_a_request_with_more_headers_than_a_client_needs_is_refused(server: Served) -> None:
    some = b"".join(b"a%d: b\r\n" % number for number in range(_MOST_HEADERS - 5))
    assert answer(server, GET.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n" + some + b"\r\n")).startswith(b"HTTP/1.1 200 ")
    assert answer(server, GET.replace(b"\r\n\r\n", b"\r\n" + some * 5 + b"\r\n")).startswith(b"HTTP/1.1 431 ")


def send_on(connection: socket.socket) -> None:
    while True:
        connection.sendall(b"400\r\n" + b"x" * 1024 + b"\r\n")


def test_a_body_that_goes_on_after_its_answer_ends_the_connection(server: Served) -> None:
    """The path is refused before a body is read. Without an end to it, a client without login had the server read for ever."""
    with socket.create_connection(server.address, timeout=30) as connection:
        connection.sendall(b"POST /nowhere HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 404 ")
        with pytest.raises(ConnectionError):
            send_on(connection)


def test_requests_in_one_piece_are_all_answered_however_many_they_are(server: Served) -> None:
    said = answer(server, GET * 2_000 + GET.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n"))
    assert said.count(b"HTTP/1.1 200 OK") == 2_001


MANY = GET.replace(b"\r\n\r\n", b"\r\n" + b"a: b\r\n" * (_MOST_HEADERS + 1) + b"\r\n")
LARGE = GET.replace(b"\r\n\r\n", b"\r\nbig: " + b"x" * 70_000 + b"\r\n\r\n")
REFUSED = [
    (MANY, b"431"),
    (LARGE, b"431"),
    (b"GET http:// HTTP/1.1\r\nhost: x\r\n\r\n", b"400"),
    (b"no HTTP\r\n\r\n", b"400"),
    (CHUNKED + b"1\r\nx\r\n" * 20_000, b"400"),
]
refused = pytest.mark.parametrize("sent, status", REFUSED, ids=["many headers", "a large head", "a wrong URL", "no HTTP", "tiny chunks"])


def statuses(said: bytes) -> list[bytes]:
    return [part.split(b" ")[0] for part in said.split(b"HTTP/1.1 ")[1:]]


@refused
def test_a_request_is_refused_with_its_reason_also_on_a_connection_that_was_used_before(server: Served, sent: bytes, status: bytes) -> None:
    with socket.create_connection(server.address, timeout=30) as connection:
        connection.sendall(GET)
        assert statuses(connection.recv(65536)) == [b"200"]
        assert statuses(answered_on(connection, sent)) == [status]


@refused
def test_a_refused_request_takes_the_answer_of_no_earlier_one(server: Served, sent: bytes, status: bytes) -> None:
    assert statuses(answer(server, GET * 3 + sent + GET)) == [b"200"] * 3 + [status]


# --- one connection, by itself -------------------------------------------------------------------------------------------------------


class Line:
    """The client's side of a connection: what is said to it is dropped."""

    def __init__(self) -> None:
        self.paused, self.resumed, self.closed = 0, 0, False

    def get_extra_info(self, name: str) -> Any:
        return {"peername": ("127.0.0.1", 1), "sockname": ("127.0.0.1", 2)}.get(name)

    def pause_reading(self) -> None:
        self.paused = 1

    def resume_reading(self) -> None:
        self.resumed = 1

    def write(self, _: bytes) -> None:
        pass

    def writelines(self, _: Any) -> None:
        pass

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed


async def ok(scope: Scope, receive: Receive, send: Send) -> None:
    answered.append(scope["path"])
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


answered: list[str] = []


async def test_of_a_thousand_requests_that_come_at_once_few_wait_in_memory_and_others_have_their_turn_in_between() -> None:
    answered.clear()
    line = Line()
    config = uvicorn.Config(ok, http=BoundedProtocol, ws="none", lifespan="off", loop="none", log_config=None)
    config.load()
    protocol = BoundedProtocol(config=config, server_state=ServerState(), app_state={}, _loop=asyncio.get_running_loop())
    protocol.connection_made(cast("asyncio.Transport", line))
    protocol.data_received(GET * 5_000)
    assert line.paused == 1, "nothing more is read before this is answered"
    turns = most = 0
    while len(answered) < 5_000:
        await asyncio.sleep(0)  # other connections have a turn
        turns += 1
        most = max(most, len(protocol.pipeline))
    assert most <= _SLICE // len(GET) + 1, "no more is parsed before what was parsed is answered"
    assert turns > 1_000
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert line.resumed == 1
    protocol.connection_lost(None)

"""How much may be asked of a server: sizes, numbers, times; and what is no HTTP at all."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
from botocore.exceptions import ClientError

from holdfast.model.errors import DiskFull
from holdfast.web.app import App
from holdfast.web.limits import WebLimits
from holdfast.web.listener import BoundedProtocol
from holdfast.web.policy import Needs, Reach, RoutePolicy, Waits
from holdfast.web.replies import Reply, json_reply
from holdfast.web.requests import Request
from holdfast.web.routing import Handler, Route
from tests.surface.http_functions import ALL
from tests.surface.http_server import Served, SilentHost, client, served

MEGABYTE = 1024 * 1024
SMALL = WebLimits(body_bytes=MEGABYTE, head_bytes=8 * 1024, requests=2, waits=1, head_seconds=0.3, body_seconds=0.3, request_seconds=0.3)
INVOKE = "/2015-03-31/functions/echo:$LATEST/invocations"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("limits") / "store.db", ALL) as running:
        yield running


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("small") / "store.db", ALL, limits=SMALL) as running:
        yield running


def talk(server: Served, *sent: bytes) -> bytes:
    """Send bytes, and read until the server has said all it has to say."""
    with socket.create_connection(server.address, timeout=30) as connection:
        for part in sent:
            connection.sendall(part)
        said = b""
        while True:
            part = connection.recv(65536)
            if not part:
                return said
            said += part


def shape(said: bytes) -> tuple[int, str, dict[str, str]]:
    """Status, error type and body of what a server said."""
    head, _, body = said.partition(b"\r\n\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head.decode().split("\r\n")[1:])}
    assert headers["x-amzn-requestid"]
    return int(head.split()[1]), headers["x-amzn-errortype"], json.loads(body)


# --- routes


@pytest.mark.parametrize(
    "path", ["/", "/nothing", "/2015-03-31", "/2025-12-01/functions/f", "/2015-03-31/functions/f/g/h", "//health", "/%2Fhealth"]
)
def test_an_unknown_path_is_a_404_of_the_right_shape(server: Served, path: str) -> None:
    answer = httpx.get(f"{server.url}{path}")
    assert (answer.status_code, answer.headers["x-amzn-errortype"]) == (404, "UnknownOperationException")
    assert answer.json()["Type"] == "User"
    assert answer.headers["x-amzn-requestid"]


@pytest.mark.parametrize(
    "method, path, allowed",
    [
        ("GET", INVOKE, "POST"),
        ("DELETE", "/2025-12-01/durable-executions/x/checkpoint", "POST"),
        ("PUT", "/2025-12-01/durable-executions/x", "GET"),
        ("POST", "/2025-12-01/durable-executions/x/state", "GET"),
        ("POST", "/health", "GET, HEAD"),
        ("BREW", "/health", ""),
    ],
)
def test_a_wrong_method_is_a_405_that_names_the_right_one(server: Served, method: str, path: str, allowed: str) -> None:
    answer = httpx.request(method, f"{server.url}{path}")
    if not allowed:  # no method of HTTP at all
        assert answer.status_code == 400
        return
    assert (answer.status_code, answer.headers["x-amzn-errortype"]) == (405, "MethodNotAllowedException")
    assert answer.headers["allow"] == allowed


def test_a_load_balancer_may_ask_for_health_with_head(server: Served) -> None:
    answer = httpx.head(f"{server.url}/health")
    assert (answer.status_code, answer.content) == (200, b"")


def test_no_answer_names_the_software_behind_it(server: Served) -> None:
    assert "server" not in httpx.get(f"{server.url}/health").headers


# --- sizes


def test_a_checkpoint_may_bring_six_megabytes_twice_as_large_on_the_wire(tmp_path: Path) -> None:
    host = SilentHost()
    with served(tmp_path / "store.db", ALL, host=host) as running:
        running.invoke("endless:$LATEST", InvocationType="Event")
        live = host.next()
        payload = json.dumps('"' * (3 * MEGABYTE - 1))
        assert len(payload) > 6 * MEGABYTE - 10
        update = {"Id": "a", "Type": "STEP", "Action": "SUCCEED", "Payload": payload}
        answer = running.lambda_.checkpoint_durable_execution(
            DurableExecutionArn=live.arn, CheckpointToken=running.token(live), Updates=[update]
        )
        assert answer["NewExecutionState"]["Operations"][0]["StepDetails"]["Result"] == payload


def test_a_body_that_is_too_large_is_refused_whether_its_length_is_told_or_not(small: Served) -> None:
    url = f"{small.url}/2025-12-01/durable-executions/x/checkpoint"
    told = httpx.post(url, content=b"x" * (MEGABYTE + 1))
    untold = httpx.post(url, content=iter([b"x" * MEGABYTE, b"x"]))
    for answer in (told, untold):
        assert (answer.status_code, answer.headers["x-amzn-errortype"]) == (413, "RequestTooLargeException")


ENDLESS = f"POST /2025-12-01/durable-executions/x/checkpoint HTTP/1.1\r\nhost: x\r\ncontent-length: {10**12}\r\n\r\n".encode()


def test_a_body_that_is_much_too_large_is_not_even_read(small: Served) -> None:
    status, kind, _ = shape(talk(small, ENDLESS, b"x" * 1000))
    assert (status, kind) == (413, "RequestTooLargeException")


def test_a_client_that_still_sends_a_refused_body_reads_the_whole_answer(server: Served) -> None:
    with socket.create_connection(server.address, timeout=30) as connection:
        connection.sendall(ENDLESS)
        said = connection.recv(65536)
        for _ in range(20):
            connection.sendall(b"x" * 65536)
        while part := connection.recv(65536):
            said += part
    status, kind, _ = shape(said)
    assert (status, kind) == (413, "RequestTooLargeException")


def test_a_client_that_sends_a_refused_body_for_too_long_is_cut_off(small: Served) -> None:
    def send() -> None:
        while True:
            connection.sendall(b"x" * 65536)

    with socket.create_connection(small.address, timeout=30) as connection:
        connection.sendall(ENDLESS)
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            send()


@pytest.mark.parametrize(
    "head",
    [
        b"GET /health HTTP/1.1\r\nhost: x\r\nbig: " + b"x" * 9000 + b"\r\n\r\n",
        b"GET /health HTTP/1.1\r\nhost: x\r\n" + b"many: x\r\n" * 1000 + b"\r\n",
        b"GET /health HTTP/1.1\r\nhost: x\r\nendless: " + b"x" * 9000,
        b"GET /" + b"x" * 9000 + b" HTTP/1.1\r\nhost: x\r\n\r\n",
    ],
    ids=["one large header", "many headers", "a header that does not end", "a long path"],
)
def test_a_head_that_is_too_large_is_refused_and_the_connection_closed(small: Served, head: bytes) -> None:
    status, kind, told = shape(talk(small, head))
    assert (status, kind) == (431, "RequestTooLargeException")
    assert "8192" in told["message"]


# --- times


def test_a_head_that_does_not_come_ends_the_connection(small: Served) -> None:
    assert talk(small, b"GET /health HTTP/1.1\r\nhost: x\r\n") == b""


@pytest.mark.parametrize("begun", [b"", b"{"])
def test_a_body_that_does_not_come_is_refused(small: Served, begun: bytes) -> None:
    head = b"POST /2025-12-01/durable-executions/x/checkpoint HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\n"
    status, kind, _ = shape(talk(small, head, begun))
    assert (status, kind) == (408, "RequestTimeoutException")


def test_an_answer_that_nobody_reads_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lost, hung_up, ours = BoundedProtocol.connection_lost, threading.Event(), list[tuple[str, int]]()

    def told(protocol: BoundedProtocol, why: Exception | None) -> None:
        lost(protocol, why)
        if protocol.client in ours:  # the servers of other tests lose connections, too
            hung_up.set()

    monkeypatch.setattr(BoundedProtocol, "connection_lost", told)
    with served(tmp_path / "store.db", ALL, limits=WebLimits(unread_seconds=0.3)) as running:
        large = json.dumps("x" * (6 * MEGABYTE - 2)).encode()
        head = f"POST {INVOKE} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(large)}\r\n\r\n"
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.settimeout(30)
            connection.connect(running.address)
            ours.append(connection.getsockname())
            connection.sendall(head.encode() + large)
            said = connection.recv(1)  # it was answered, and the client reads no more
            assert hung_up.wait(30)
            while part := connection.recv(65536):
                said += part
        assert said.startswith(b"HTTP/1.1 200")
        assert len(said) < len(large), "the rest was thrown away"
        assert running.invoke("echo:$LATEST", large)["Payload"] == large


def test_a_write_that_the_disk_does_not_take_is_answered_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What invocations write waits for the disk; their clients are told to come back with the same ClientToken."""
    host = SilentHost()
    with served(tmp_path / "store.db", ALL, host=host, limits=SMALL) as running:
        running.invoke("endless:$LATEST", InvocationType="Event")
        live = host.next()
        token = running.token(live)

        def full(*_: object, **__: object) -> None:
            raise DiskFull("no space left")

        monkeypatch.setattr(running.api.engine.store, "commit", full)
        asked = {"DurableExecutionArn": live.arn, "CheckpointToken": token, "ClientToken": "again"}
        with pytest.raises(ClientError) as error:
            running.lambda_.checkpoint_durable_execution(**asked)
        assert error.value.response["ResponseMetadata"]["HTTPStatusCode"] == 503
        assert error.value.response["ResponseMetadata"]["HTTPHeaders"]["retry-after"] == "1"
        monkeypatch.undo()
        patient = client(running.url, retries={"max_attempts": 10, "mode": "standard"})
        with closing(patient):
            assert patient.checkpoint_durable_execution(**asked)["CheckpointToken"]


# --- numbers


def test_more_synchronous_invocations_than_allowed_are_told_to_come_back(small: Served) -> None:
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(small.invoke, "asking:$LATEST", DurableExecutionName="the-one")
        while not (found := small.lambda_.list_durable_executions_by_function(FunctionName="asking")["DurableExecutions"]):
            pass
        with pytest.raises(small.lambda_.exceptions.TooManyRequestsException) as error:
            small.invoke("echo:$LATEST")
        told = error.value.response
        assert told["ResponseMetadata"]["HTTPStatusCode"] == 429
        assert told["ResponseMetadata"]["HTTPHeaders"]["retry-after"] == "1"
        assert (told["Reason"], told["retryAfterSeconds"]) == ("ConcurrentInvocationLimitExceeded", "1")
        callback = small.callback_id(found[0]["DurableExecutionArn"])
        small.lambda_.send_durable_execution_callback_success(CallbackId=callback, Result=b"1")
        assert waiting.result(30)["StatusCode"] == 200
    assert small.invoke("echo:$LATEST")["StatusCode"] == 200


def test_more_bytes_of_bodies_than_allowed_together_are_told_to_come_back(tmp_path: Path) -> None:
    large = json.dumps("x" * MEGABYTE).encode()
    with served(tmp_path / "store.db", ALL, limits=WebLimits(bodies_bytes=3 * MEGABYTE // 2)) as running, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(running.invoke, "asking:$LATEST", large)
        while not (found := running.lambda_.list_durable_executions_by_function(FunctionName="asking")["DurableExecutions"]):
            pass
        with pytest.raises(running.lambda_.exceptions.TooManyRequestsException) as error:
            running.invoke("echo:$LATEST", large)
        assert error.value.response["ResponseMetadata"]["HTTPHeaders"]["retry-after"] == "1"
        callback = running.callback_id(found[0]["DurableExecutionArn"])
        running.lambda_.send_durable_execution_callback_success(CallbackId=callback, Result=b"1")
        assert waiting.result(30)["StatusCode"] == 200
        assert running.invoke("echo:$LATEST", large)["Payload"] == large


def test_more_requests_than_allowed_are_told_to_come_back(tmp_path: Path) -> None:
    """Two requests stay unfinished until a third was refused: their own time must not run out meanwhile, however busy the machine is."""
    head = b"POST /2025-12-01/durable-executions/x/checkpoint HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{"
    with (
        served(tmp_path / "store.db", ALL, limits=WebLimits(requests=2)) as running,
        socket.create_connection(running.address, 30) as one,
        socket.create_connection(running.address, 30) as two,
        httpx.Client(base_url=running.url) as third,
    ):
        one.sendall(head)
        two.sendall(head)
        while (answer := third.get("/health")).status_code == 200:
            pass
        assert (answer.status_code, answer.headers["x-amzn-errortype"], answer.headers["retry-after"]) == (
            429,
            "TooManyRequestsException",
            "1",
        )
        for other in (one, two):
            other.sendall(b"}")
            assert other.recv(65536)
        assert third.get("/health").status_code == 200


def test_a_caller_that_leaves_gives_its_place_back_and_its_execution_goes_on(small: Served) -> None:
    with socket.create_connection(small.address) as caller:
        path = INVOKE.replace("echo", "asking")
        head = f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\nx-amz-durable-execution-name: left\r\n\r\n"
        caller.sendall(head.encode())
        asked = {"FunctionName": "asking", "DurableExecutionName": "left"}
        while not (found := small.lambda_.list_durable_executions_by_function(**asked)["DurableExecutions"]):
            pass
    while True:
        try:
            assert small.invoke("echo:$LATEST")["StatusCode"] == 200
            break
        except small.lambda_.exceptions.TooManyRequestsException:
            continue
    assert small.find(found[0]["DurableExecutionArn"])["Status"] == "RUNNING"


def test_a_server_that_shuts_down_tells_those_who_wait(tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as pool:
        with served(tmp_path / "store.db", ALL) as running:
            patient = client(running.url)
            waiting = pool.submit(patient.invoke, FunctionName="asking:$LATEST", DurableExecutionName="patient")
            while not running.lambda_.list_durable_executions_by_function(FunctionName="asking")["DurableExecutions"]:
                pass
        with closing(patient), pytest.raises(ClientError) as error:
            waiting.result(30)
        assert error.value.response["ResponseMetadata"]["HTTPStatusCode"] == 503
        assert "continues" in error.value.response["Error"]["Message"]


# --- the app alone


async def ask(app: App, before: Callable[[asyncio.Task[None]], None] = lambda _: None) -> tuple[int, dict[bytes, bytes], Any]:
    """One request to an app, without a network; `before` its answer something may happen."""
    scope = {"type": "http", "method": "GET", "path": "/x", "raw_path": b"/x", "query_string": b"", "headers": []}
    sent: list[Any] = []
    coming: list[Any] = [{"type": "http.request", "body": b""}]

    async def receive() -> Any:
        return coming.pop() if coming else await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message)

    task = asyncio.create_task(app(scope, receive, send))
    await asyncio.sleep(0)
    before(task)
    await task
    start, body = sent
    return start["status"], dict(start["headers"]), json.loads(body["body"])


def app_with(handler: Handler, *, waits: Waits = Waits.NO) -> App:
    return App([Route("GET", "/x", handler, RoutePolicy("X", Needs.VIEW, Reach.ALL, waits=waits))], WebLimits(), lambda: "an-id")


async def test_a_mistake_of_ours_is_a_500_that_tells_nothing_of_it(caplog: pytest.LogCaptureFixture) -> None:
    async def broken(_: Request) -> Reply:
        raise ZeroDivisionError("a secret")

    status, headers, told = await ask(app_with(broken))
    assert (status, headers[b"x-amzn-errortype"], told["Type"]) == (500, b"ServiceException", "Service")
    assert "secret" not in json.dumps(told)
    assert "a secret" in caplog.text


async def test_a_request_that_is_cut_off_by_a_shutdown_is_told_to_come_back() -> None:
    async def stuck(_: Request) -> Reply:
        await asyncio.Event().wait()
        raise AssertionError

    app = app_with(stuck)

    def shut_down(task: asyncio.Task[None]) -> None:
        app.close()
        task.cancel()

    status, headers, told = await ask(app, shut_down)
    assert (status, headers[b"retry-after"], headers[b"connection"]) == (503, b"1", b"close")
    assert told["message"] == "The server is shutting down."


async def test_an_invocation_that_is_nearly_done_gets_its_answer_from_a_server_that_leaves() -> None:
    done = asyncio.Event()

    async def nearly(_: Request) -> Reply:
        await done.wait()
        return json_reply("done")

    app = app_with(nearly, waits=Waits.INVOCATION)

    def shut_down(_: asyncio.Task[None]) -> None:
        app.close()
        asyncio.get_running_loop().call_later(0.01, done.set)

    status, _, told = await ask(app, shut_down)
    assert (status, told) == (200, "done")


# --- no HTTP


@pytest.mark.parametrize(
    "sent",
    [
        b"\x00\x01\x02\r\n\r\n",
        b"GET http:// HTTP/1.1\r\n\r\n",
        b"GET /\xff\xfe HTTP/1.1\r\nhost: x\r\n\r\n",
        b"POST /health HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n",
        b"POST /health HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\nabc",
        b"GET /health HTTP/9.9\r\nhost: x\r\n\r\n",
    ],
)
def test_what_is_no_http_is_refused_in_the_same_shape(server: Served, sent: bytes) -> None:
    status, kind, told = shape(talk(server, sent))
    assert (status, kind, told["Type"]) == (400, "SerializationException", "User")


def test_whoever_asks_for_another_protocol_is_answered_in_this_one(server: Served, caplog: pytest.LogCaptureFixture) -> None:
    upgrade = b"connection: upgrade, close\r\nupgrade: websocket\r\nsec-websocket-key: x\r\nsec-websocket-version: 13\r\n\r\n"
    assert talk(server, b"GET /health HTTP/1.1\r\nhost: x\r\n" + upgrade).startswith(b"HTTP/1.1 200 OK")
    assert not caplog.records


def test_requests_may_come_in_one_piece_and_are_answered_in_order(server: Served) -> None:
    last = b"GET /nothing HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
    said = talk(server, b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n" * 5 + last)
    assert said.count(b"HTTP/1.1 200 OK") == 5
    assert said.rindex(b"404 Not Found") > said.rindex(b"200 OK")

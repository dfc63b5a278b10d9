"""Bad requests at every route: the server refuses each in the right format, and writes nothing of it."""

from __future__ import annotations

import json
import socket
import string
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.lambda_api.routes.app import make_app
from holdfast.service.settings import Settings
from holdfast.store.seam import Filter
from tests.parts import examples
from tests.surface.http_functions import ALL
from tests.surface.http_server import Live, Served, SilentHost, served


class Place(NamedTuple):
    """A route: its method, its path with a hole for the label, and what may be asked beside."""

    method: str
    path: str
    query: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """A label that is right."""
        return "<arn>" if "-executions/{}" in self.path else "<callback>" if "callbacks" in self.path else "echo:$LATEST"


_PAGES = ("Marker", "MaxItems")
PLACES = [
    Place(
        "POST",
        "/2015-03-31/functions/{}/invocations",
        ("Qualifier",),
        ("x-amz-invocation-type", "x-amz-log-type", "x-amz-client-context", "x-amz-durable-execution-name", "x-amz-tenant-id"),
    ),
    Place("POST", "/2025-12-01/durable-executions/{}/checkpoint", (), ("user-agent",)),
    Place("GET", "/2025-12-01/durable-executions/{}/state", ("CheckpointToken", *_PAGES)),
    Place("GET", "/2025-12-01/durable-executions/{}/history", ("IncludeExecutionData", "ReverseOrder", *_PAGES)),
    Place("POST", "/2025-12-01/durable-executions/{}/stop"),
    Place("GET", "/2025-12-01/durable-executions/{}", ("IncludeExecutionData",)),
    Place("GET", "/2025-12-01/durable-executions", ("FunctionName", "Qualifier", "Statuses", "StartedAfter", *_PAGES)),
    Place(
        "GET",
        "/2025-12-01/functions/{}/durable-executions",
        ("Qualifier", "DurableExecutionName", "Statuses", "StartedAfter", "StartedBefore", "ReverseOrder", *_PAGES),
    ),
    Place("POST", "/2025-12-01/durable-execution-callbacks/{}/succeed"),
    Place("POST", "/2025-12-01/durable-execution-callbacks/{}/fail"),
    Place("POST", "/2025-12-01/durable-execution-callbacks/{}/heartbeat"),
    Place("GET", "/2015-03-31/functions/{}", ("Qualifier",)),
    Place("GET", "/2015-03-31/functions/{}/configuration", ("Qualifier",)),
    Place("GET", "/2015-03-31/functions/{}/versions", _PAGES),
    Place("GET", "/2015-03-31/functions", ("FunctionVersion", "MasterRegion", *_PAGES)),
    Place("POST", "/start-durable-execution"),
    Place("GET", "/health"),
    Place("GET", "/ready"),
]


class Target:
    """A server, one execution on it that lives, and a raw connection."""

    def __init__(self, server: Served, live: Live) -> None:
        self.server = server
        self.arn = live.arn
        self.token = server.token(live)
        self.callback = server.api.engine.store.seal.callback(live.position.execution, "no-such-operation")
        self._connection: socket.socket | None = None

    def written(self) -> tuple[str, int]:
        """What moves when something is started, and when the execution that lives is changed."""
        store = self.server.api.engine.store
        (newest,), main = store.list(Filter(limit=1)), store.find(self.arn.rpartition("/")[2])
        assert main is not None
        return newest.id, main.revision

    def ask(self, request: bytes) -> tuple[int, dict[str, str], bytes]:
        """Send bytes; status, headers and body of the answer."""
        if self._connection is None:
            self._connection = socket.create_connection(self.server.address, timeout=30)
        self._connection.sendall(request)
        said = b""
        while b"\r\n\r\n" not in said:
            said += self._read()
        head, _, body = said.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:])}
        while len(body) < int(headers.get("content-length", 0)):
            body += self._read()
        if headers.get("connection") == "close":
            self.close()
        return int(lines[0].split()[1]), headers, body

    def _read(self) -> bytes:
        assert self._connection is not None
        part = self._connection.recv(65536)
        assert part, "the server hung up without a word"
        return part

    def close(self) -> None:
        """Hang up."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    host = SilentHost(quick=[function.name for function in ALL if function.name != "endless"])
    with served(tmp_path_factory.mktemp("fuzz") / "store.db", ALL, host=host, settings=Settings(threads=100_000)) as running:
        running.invoke("endless:$LATEST", InvocationType="Event")
        found = Target(running, host.next())
        yield found
        found.close()


# --- what is sent

VALID = ("<arn>", "<token>", "<callback>", "echo", "echo:$LATEST", "nobody", "arn:aws:lambda:local:000000000000:function:echo")
"""The first three stand for what is only known when the server runs."""

words = st.one_of(
    st.sampled_from(
        [*VALID, "true", "0", "-1", "1001", "99999999999999999999", "2026-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00", "RUNNING"]
    ),
    st.sampled_from(
        ["", " ", "%", "%00", "\x00", "../..", "a" * 3000, "é", "\U0001f600", "bGlzdHw=", "c3RhdGV8MHww", "b2xkZXN0fDE=", "NaN"]
    ),
    st.text(max_size=40),
    st.from_regex(r"arn:aws:lambda:[a-z0-9-]{1,9}:\d{12}:function:\w{1,9}:(\$LATEST|\d)/durable-execution/\w{1,9}/\w{1,9}", fullmatch=True),
    st.from_regex(r"[A-Za-z0-9+/]{4,40}={0,2}", fullmatch=True),
)
scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=True), words)
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words, inner, max_size=4), max_leaves=12)


def near(**known: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """An object with members that are known, right or wrong."""
    return st.fixed_dictionaries({}, optional={name: st.one_of(right, values) for name, right in known.items()})


errors = near(ErrorMessage=words, ErrorType=words, ErrorData=words, StackTrace=st.lists(words, max_size=3))
numbers = st.integers(-1, 100_000_000)
updates = near(
    Id=words,
    Type=st.sampled_from(["CONTEXT", "STEP", "WAIT", "CALLBACK", "CHAINED_INVOKE"]),
    Action=st.sampled_from(["START", "SUCCEED", "FAIL", "RETRY", "CANCEL"]),
    ParentId=words,
    Name=words,
    SubType=words,
    Payload=words,
    Error=errors,
    ContextOptions=near(ReplayChildren=st.booleans()),
    StepOptions=near(NextAttemptDelaySeconds=numbers),
    WaitOptions=near(WaitSeconds=numbers),
    CallbackOptions=near(TimeoutSeconds=numbers, HeartbeatTimeoutSeconds=numbers),
    ChainedInvokeOptions=near(FunctionName=words, TenantId=words, XAmznTraceId=words),
)
fair = st.fixed_dictionaries(
    {
        "Id": st.sampled_from(string.ascii_letters),
        "Type": st.sampled_from(["CONTEXT", "STEP", "WAIT", "CALLBACK", "CHAINED_INVOKE"]),
        "Action": st.sampled_from(["START", "SUCCEED", "FAIL", "RETRY", "CANCEL"]),
    },
    optional={
        "ParentId": st.sampled_from("abcd"),
        "Payload": words,
        "Error": errors,
        "StepOptions": st.just({"NextAttemptDelaySeconds": 1}),
        "WaitOptions": st.just({"WaitSeconds": 1}),
        "ChainedInvokeOptions": st.fixed_dictionaries({"FunctionName": words}),
    },
)
objects = st.one_of(
    st.fixed_dictionaries({"CheckpointToken": st.just("<token>"), "Updates": st.lists(fair, max_size=2)}),
    near(CheckpointToken=words, ClientToken=words, Updates=st.lists(updates, max_size=3)),
    st.fixed_dictionaries({"CheckpointToken": st.just("<token>"), "Updates": st.lists(updates, min_size=1, max_size=3)}),
    errors,
    near(FunctionName=words, FunctionQualifier=words, ExecutionName=words, ExecutionTimeoutSeconds=numbers, Input=words, TenantId=words),
    values,
)
bodies = st.one_of(
    st.just(b""),
    st.binary(max_size=60),
    objects.map(lambda value: json.dumps(value).encode()),
    objects.map(lambda value: json.dumps(value, ensure_ascii=False).encode(errors="surrogatepass")),
    objects.map(lambda value: json.dumps(value).encode()[:-1]),
    st.sampled_from([b"[" * 100_000, b'{"a":' * 50_000, b'"\\ud800"', b"\xff", b'{"CheckpointToken":"<token>","Updates":null}']),
)


def request_for(target: Target, place: Place, data: st.DataObject) -> bytes:
    """A request to a route, put together from what is drawn."""

    def known(text: str) -> str:
        return text.replace("<arn>", target.arn).replace("<token>", target.token).replace("<callback>", target.callback)

    label = known(data.draw(st.just(place.label) | words, "label"))
    safe = data.draw(st.sampled_from(["", "/", "/:$+="]), "safe")
    path = place.path.format(quote(label.encode(errors="surrogatepass"), safe=safe))
    query = (
        [
            (name, known(data.draw(st.just("<token>") | words if name == "CheckpointToken" else words)).encode(errors="surrogatepass"))
            for name in data.draw(st.lists(st.sampled_from(place.query), max_size=4))
        ]
        if place.query
        else []
    )
    lines = [f"{place.method} {path}{'?' if query else ''}{urlencode(query)} HTTP/1.1", "host: x"]
    for name in data.draw(st.lists(st.sampled_from(place.headers), max_size=3, unique=True)) if place.headers else ():
        value = known(data.draw(words)).encode("latin-1", errors="replace").decode("latin-1")
        lines.append(f"{name}: {''.join(character for character in value if character.isprintable())}")
    body: bytes = data.draw(bodies, "body").replace(b"<token>", target.token.encode())
    return "\r\n".join([*lines, f"content-length: {len(body)}", "", ""]).encode("latin-1") + body


def check(target: Target, request: bytes) -> None:
    """Send it; an answer that refuses has the right shape, and nothing was written."""
    before = target.written()
    status, headers, body = target.ask(request)
    assert status < 500, (request, body)
    if status >= 400:
        told = json.loads(body)
        assert told["Type"] == "User"
        assert isinstance(told["message"], str)
        assert headers["x-amzn-errortype"].endswith("Exception")
        assert headers["content-type"] == "application/json"
        assert target.written() == before, "a refused request writes nothing"
    elif b"/checkpoint" in request.partition(b"\r\n")[0]:
        target.token = json.loads(body).get("CheckpointToken", target.token)


@settings(max_examples=examples(200), deadline=None)
@given(batch=st.lists(fair, min_size=1, max_size=3) | st.lists(updates, min_size=1, max_size=2))
def test_any_batch_of_updates_is_accepted_or_refused_whole(target: Target, batch: list[dict[str, Any]]) -> None:
    body = json.dumps({"CheckpointToken": target.token, "Updates": batch}).encode()
    line = f"POST /2025-12-01/durable-executions/{quote(target.arn)}/checkpoint HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n"
    check(target, line.encode() + body)


@pytest.mark.parametrize("place", PLACES, ids=lambda place: f"{place.method} {place.path}")
@settings(
    max_examples=examples(120),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large],
)
@given(data=st.data())
def test_whatever_is_sent_is_answered_in_the_right_shape(target: Target, place: Place, data: st.DataObject) -> None:
    check(target, request_for(target, place, data))


@settings(max_examples=examples(300), deadline=None)
@given(
    method=st.sampled_from(["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"]), path=st.text(min_size=0, max_size=60), body=bodies
)
def test_whatever_path_is_asked_for_is_answered_in_the_right_shape(target: Target, method: str, path: str, body: bytes) -> None:
    line = f"{method} /{quote(path.encode(errors='surrogatepass'))} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n"
    if method == "HEAD":
        return  # its answer has a length and no body; test_http_limits asks
    check(target, line.encode() + body)


def test_the_fuzz_knows_every_route(target: Target) -> None:
    routes = make_app(target.server.api).router.routes
    assert len([route for route in routes if route.method != "HEAD"]) == len(PLACES)

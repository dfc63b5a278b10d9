"""Bad requests at every route of the worker protocol: the server refuses each in the protocol's format, and none is a 500."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.contract.protocol import Response
from tests.parts import examples
from tests.surface.serve_program import Program, programs
from tests.surface.served_workers import ask, start, web, written
from tests.surface.test_http_fuzz import values, words

ROUTES = [
    ("GET", "/v1/workers"),
    ("GET", "/v1/workers/{}"),
    ("POST", "/v1/workers/{}/invoke"),
    ("GET", "/v1/runs/{}"),
    ("GET", "/v1/runs/{}/events"),
    ("POST", "/v1/runs/{}/cancel"),
    ("GET", "/v1/approvals"),
    ("GET", "/v1/approvals/{}"),
    ("POST", "/v1/approvals/{}/approve"),
    ("POST", "/v1/approvals/{}/reject"),
    ("POST", "/v1/approvals/{}/answer"),
    ("POST", "/v1/approvals/{}/settle"),
    ("GET", "/v1/artifacts/{}"),
    ("POST", "/v1/artifacts"),
    ("GET", "/metrics"),
]
HEADERS = ("prefer", "traceparent", "idempotency-key", "last-event-id", "if-none-match", "content-type", "x-amz-tenant-id", "x-amz-target")
labels = st.one_of(st.sampled_from(["echo", "payer", "<run>", "<approval>", "<artifact>"]), words)
bodies = st.one_of(
    st.binary(max_size=60),
    values.map(lambda value: json.dumps(value).encode()),
    st.fixed_dictionaries(
        {},
        optional={
            "worker_id": words,
            "version": values,
            "inputs": st.one_of(values, st.dictionaries(st.sampled_from(["say", "do", "cents", "$artifact"]), values, max_size=3)),
            "constraints": st.one_of(values, st.dictionaries(st.sampled_from(["timeout_seconds", "tools_allowed"]), values, max_size=2)),
            "trace": st.one_of(values, st.dictionaries(st.sampled_from(["trace_id", "span_id"]), values, max_size=2)),
            "idempotency_key": values,
            "run_timeout_seconds": values,
            "user": values,
            "comment": values,
            "result": values,
            "verdict": values,
            "edited_arguments": values,
        },
    ).map(lambda value: json.dumps(value).encode()),
)


class Target:
    """A server with one run, one approval and one artifact."""

    def __init__(self, program: Program) -> None:
        host, _, port = program.url.removeprefix("http://").rpartition(":")
        self._address = (host, int(port))
        self.program = program
        with web(program) as client:
            waits = ask(client, "echo", {"say": "hi", "do": "ask"}).json()
            over = ask(client, "echo", {"say": "hi", "do": "large"}).json()
        self.known = {
            "<run>": over["run_id"],
            "<approval>": waits["approvals"][0]["approval_id"],
            "<artifact>": over["artifacts"][0]["artifact_id"],
        }

    def ask(self, request: bytes) -> tuple[int, dict[str, str], bytes]:
        """Send bytes, and read until the server hangs up."""
        with socket.create_connection(self._address, timeout=30) as connection:
            connection.sendall(request)
            said = b""
            while part := connection.recv(65536):
                said += part
        head, _, body = said.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:])}
        return int(lines[0].split()[1]), headers, body


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    folder = tmp_path_factory.mktemp("fuzz")
    written(folder)
    with programs(folder) as started:
        yield Target(start(started, "--isolation", "inline"))


def clean(text: str) -> bytes:
    return text.encode("utf-8", "replace").replace(b"\r", b"").replace(b"\n", b"").replace(b"\0", b"")


@settings(max_examples=examples(400), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_request_finds_a_mistake_of_ours(target: Target, data: st.DataObject) -> None:
    method, path = data.draw(st.sampled_from(ROUTES))
    if data.draw(st.integers(0, 9)) == 0:
        method = data.draw(st.sampled_from(["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"]))
    label = data.draw(labels)
    query = data.draw(st.lists(st.tuples(st.sampled_from(["wait", "version", "name", "last_event_id"]), words), max_size=2))
    asked = "&".join(f"{name}={quote(text, errors='replace')}" for name, text in query)
    if path.endswith("/invoke") and "wait=" not in asked:
        asked += "&wait=0"
    headers = data.draw(st.lists(st.tuples(st.sampled_from(HEADERS), words), max_size=3))
    body = data.draw(bodies) if method != "GET" else b""
    place = path.format(quote(target.known.get(label, label), safe="", errors="replace"))
    lines = b"".join(name.encode() + b": " + clean(value) + b"\r\n" for name, value in headers)
    head = f"{method} {place}?{asked} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\ncontent-length: {len(body)}\r\n".encode()
    status, answered, said = target.ask(head + lines + b"\r\n" + body)
    assert status != 500, said
    assert b"Traceback" not in said
    assert target.program.process.poll() is None
    if status >= 400 and method != "HEAD" and path != "/metrics" and answered.get("x-amzn-errortype") is None:
        response: Any = msgspec.json.decode(said, type=Response)
        assert response.error is not None
        assert response.error.message


def test_the_server_is_as_it_was(target: Target) -> None:
    with web(target.program) as client:
        assert ask(client, "echo", {"say": "hi"}).json()["outputs"] == {"said": "hi"}
        assert client.get("/ready").status_code == 200
    assert not [line for line in target.program.warned if "Traceback" in line]

"""The worker protocol over HTTP, against a real `holdfast serve`: every route, every way to wait, people, artifacts, limits."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import httpx
import pytest

import holdfast
from holdfast.contract.protocol import response_document
from holdfast.operator.holdfast_toml import read_operator
from holdfast.server.metrics import MetricsRoutes
from holdfast.server.protocol.queues import Queues
from holdfast.server.protocol.routes import worker_routes
from tests.surface.cli_program import Program as Cli
from tests.surface.serve_program import Program, programs, until
from tests.surface.served_workers import approval_in, ask, events_of, start, web, written


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("workers")
    written(folder)
    return folder


@pytest.fixture(scope="module")
def program(folder: Path) -> Iterator[Program]:
    with programs(folder) as started:
        yield start(started)


@pytest.fixture(scope="module")
def http(program: Program) -> Iterator[httpx.Client]:
    with web(program) as client:
        yield client


def code_of(answer: httpx.Response) -> tuple[int, str, str]:
    document = answer.json()
    return answer.status_code, document["status"], document["error"]["error_code"]


# --- what is served


def test_the_reference_names_every_route(root: Path) -> None:
    nothing: Any = Mock()
    routes = [*worker_routes(nothing), *MetricsRoutes(nothing).routes(), *Queues(nothing, nothing, None).routes()]
    told = (root / "docs/reference/worker-protocol.md").read_text()
    shown = re.sub(r"\{\w+\}", "([^/]+)", told)
    missing = [way for way in routes if f"| {way.method} `{way.path.removesuffix('/?')}` |" not in shown]
    assert missing == []


def test_the_server_says_what_it_serves_and_how_to_try_it(program: Program) -> None:
    said = "\n".join(program.said)
    assert re.search(r"^WORKER +VERSION +ISOLATION +LIMITS$", said, re.M)
    assert re.search(r"^payer +1\.0 +all +30 s, tools: pay$", said, re.M)
    assert f"""curl -s {program.url}/v1/workers/echo/invoke -d '{{"inputs": {{"say": "…"}}}}'""" in said
    assert "AWS" not in said
    told = ("all bodies together may have", "watched every 50 ms", "cgroup v2")
    until(lambda: any(all(part in line for part in told) for line in program.warned), "how limits are kept")


def test_workers_are_listed_and_shown_by_their_contracts(http: httpx.Client) -> None:
    listed = http.get("/v1/workers").json()["workers"]
    assert [(one["worker_id"], one["version"]) for one in listed] == [("echo", "1.0"), ("payer", "1.0"), ("slow", "1.0")]
    shown = http.get("/v1/workers/payer").json()
    assert shown["limits"]["tools"] == [{"name": "pay", "optional": False}]
    assert shown["input_schema"]["required"] == ["cents"]
    assert code_of(http.get("/v1/workers/unknown")) == (404, "invalid_request", "worker_not_found")
    for missed in (http.get("/v1/workers/ecko"), http.post("/v1/workers/ecko/invoke", json={"inputs": {}})):
        assert missed.json()["error"]["message"] == "No worker 'ecko' is served here. Did you mean `echo`?"
    assert code_of(http.get("/v1/workers/payer", params={"version": "9"})) == (404, "invalid_request", "version_not_found")


def test_a_worker_cannot_be_invoked_as_a_function_nor_a_function_take_its_name(program: Program, http: httpx.Client) -> None:
    """A caller could make up an order with any tenant and any limits."""
    answer = http.post("/2015-03-31/functions/echo:$LATEST/invocations", content=b'{"tenant": "other"}')
    assert (answer.status_code, answer.headers["x-amzn-errortype"]) == (404, "ResourceNotFoundException")
    assert http.get("/2015-03-31/functions").json()["Functions"] == []


# --- invoking


@pytest.mark.parametrize(
    "inputs, status, answer, code",
    [
        ({"say": "hi"}, 200, "ok", None),
        ({"say": "hi", "do": "fail"}, 422, "permanent_error", "no_luck"),
        ({"say": "hi", "do": "human"}, 409, "needs_human", "ambiguous"),
        ({"say": "hi", "do": "wrong"}, 502, "invalid_output", "output_schema_mismatch"),
        ({"say": "hi", "do": "crash"}, 502, "retryable_error", "worker_crashed"),
        ({"say": 5}, 400, "invalid_request", "schema_mismatch"),
    ],
)
def test_an_invocation_answers_with_the_response_and_the_status_of_the_table(
    http: httpx.Client, inputs: dict[str, Any], status: int, answer: str, code: str | None
) -> None:
    told = ask(http, "echo", inputs)
    document = told.json()
    assert (told.status_code, document["status"], (document["error"] or {}).get("error_code")) == (status, answer, code)
    assert told.headers["content-type"] == "application/json"
    if status != 400:
        assert told.headers["location"] == f"/v1/runs/{document['run_id']}"


@pytest.mark.parametrize("asked", [{"headers": {"Prefer": "respond-async"}}, {"params": {"wait": "0"}}])
def test_whoever_does_not_wait_is_told_where_the_run_is(http: httpx.Client, asked: dict[str, Any]) -> None:
    told = ask(http, "echo", {"say": "later"}, **asked)
    assert told.status_code == 202
    assert set(told.json()) == {"state", "run_id", "worker_id", "version"}
    assert told.json()["state"] in ("queued", "running", "done")
    found = http.get(told.headers["location"], params={"wait": "30"})
    assert (found.status_code, found.json()["status"], found.json()["outputs"]) == (200, "ok", {"said": "later"})


def test_a_wait_that_is_too_short_finds_the_run_under_way(http: httpx.Client, folder: Path) -> None:
    inputs = {"log": str(folder / "short.log"), "go": str(folder / "short.go")}
    told = ask(http, "slow", inputs, params={"wait": "0.05"})
    assert (told.status_code, told.json()["state"]) == (202, "running")
    place = told.headers["location"]
    assert http.get(place).json()["state"] == "running"
    (folder / "short.go").touch()
    assert http.get(place, params={"wait": "30"}).json()["status"] == "ok"


def test_the_same_key_runs_once_and_other_inputs_are_a_conflict(http: httpx.Client) -> None:
    first = ask(http, "echo", {"say": "once"}, idempotency_key="k-1")
    again = ask(http, "echo", {"say": "once"}, headers={"Idempotency-Key": "k-1"})
    assert first.json() == again.json()
    assert code_of(ask(http, "echo", {"say": "other"}, idempotency_key="k-1")) == (409, "invalid_request", "idempotency_conflict")
    dear = ask(http, "echo", {"say": "dear"}, constraints={"max_cost_usd": 0.5}, headers={"Idempotency-Key": "k-3"})
    assert dear.json()["status"] == "ok"
    both = ask(http, "echo", {"say": "once"}, idempotency_key="k-1", headers={"Idempotency-Key": "k-2"})
    assert code_of(both) == (400, "invalid_request", "schema_mismatch")
    found = ask(http, "echo", {"say": "once"}, idempotency_key="k-1", headers={"Prefer": "respond-async"})
    assert (found.status_code, found.json()["state"]) == (202, "done")


def test_a_trace_comes_in_and_goes_out(http: httpx.Client) -> None:
    trace = "0af7651916cd43dd8448eb211c80319c"
    told = ask(http, "echo", {"say": "hi"}, headers={"traceparent": f"00-{trace}-b7ad6b7169203331-01"})
    seen = told.json()["observability"]
    assert seen["trace_id"] == trace
    assert told.headers["traceparent"] == f"00-{trace}-{seen['span_id']}-01"
    broken = ask(http, "echo", {"say": "hi"}, headers={"traceparent": "00-nothing"})
    assert broken.status_code == 200
    assert broken.json()["observability"]["trace_id"] != trace


def test_a_run_is_cancelled_and_a_run_that_is_over_stays_what_it_is(http: httpx.Client, folder: Path) -> None:
    inputs = {"log": str(folder / "cancel.log"), "go": str(folder / "cancel.go")}
    begun = ask(http, "slow", inputs, params={"wait": "0.3"}).json()["run_id"]
    told = http.post(f"/v1/runs/{begun}/cancel")
    assert (told.status_code, told.json()["status"], told.json()["error"]["error_code"]) == (200, "permanent_error", "cancelled")
    assert not (folder / "cancel.go").exists()
    over = ask(http, "echo", {"say": "hi"}).json()
    assert http.post(f"/v1/runs/{over['run_id']}/cancel").json() == over


# --- following


def test_a_runs_events_come_as_they_happen_and_can_be_taken_up_again(http: httpx.Client, folder: Path) -> None:
    (folder / "events.go").touch()
    inputs = {"log": str(folder / "events.log"), "go": str(folder / "events.go")}
    run = ask(http, "slow", inputs, headers={"Prefer": "respond-async"}).json()["run_id"]
    with http.stream("GET", f"/v1/runs/{run}/events") as stream:
        assert stream.headers["content-type"] == "text/event-stream; charset=utf-8"
        told = events_of(stream.read().decode())
    kept = [(number, event) for number, event, _ in told if number is not None]
    assert [event for _, event in kept] == ["accepted", "attempt", *["tool"] * 6, "attempt", "done"]
    assert told[-1][2]["outputs"] == {"attempt": "done"}
    numbers = [int(number or 0) for number, _ in kept]
    assert numbers == sorted(set(numbers))
    rest = http.get(f"/v1/runs/{run}/events", headers={"Last-Event-ID": str(numbers[1])})
    assert [number for number, event, _ in events_of(rest.text) if event != "gap"] == [str(number) for number in numbers[2:]]
    assert http.get(f"/v1/runs/{run}/events", headers={"Last-Event-ID": str(numbers[-1])}).status_code == 204
    assert code_of(http.get(f"/v1/runs/{run}/events", headers={"Last-Event-ID": "x"}))[0] == 400
    assert code_of(http.get("/v1/runs/unknown/events")) == (404, "invalid_request", "execution_not_found")


def test_a_stream_follows_a_run_that_waits_until_somebody_decides(http: httpx.Client, program: Program) -> None:
    waits = ask(http, "echo", {"say": "hi", "do": "ask"}).json()
    (approval,) = waits["approvals"]
    with web(program) as follower, follower.stream("GET", f"/v1/runs/{waits['run_id']}/events") as stream:
        seen = ""
        for text in stream.iter_text():
            seen += text
            if '"state":"open"' in seen and '"verdict"' not in seen and "decided_by" not in seen:
                http.post(f"/v1/approvals/{approval['approval_id']}/answer", content=b'{"result": "red"}')
    told = events_of(seen)
    assert [data["state"] for _, event, data in told if event == "approval"] == ["open", "answer"]
    assert told[-1][1] == "done"
    assert told[-1][2]["outputs"] == {"said": "red"}


def test_progress_has_an_id_that_a_client_may_come_back_with(http: httpx.Client, program: Program) -> None:
    waits = ask(http, "echo", {"say": "hi", "do": "ask"}).json()
    (approval,) = waits["approvals"]
    place = f"/v1/runs/{waits['run_id']}/events"
    with web(program) as follower, follower.stream("GET", place) as stream:
        seen = ""
        for text in stream.iter_text():
            if "event: approval" not in seen and "event: approval" in seen + text:
                http.post(f"/v1/approvals/{approval['approval_id']}/answer", content=b'{"result": "red"}')
            seen += text
    whole = events_of(seen)
    ((at, last),) = [(place, id) for place, (id, event, _) in enumerate(whole) if event == "progress"]
    assert last is not None
    again = events_of(http.get(place, headers={"Last-Event-ID": last}).text)
    assert (again, last.count(".")) == (whole[at + 1 :], 2)


def test_one_follower_too_many_of_a_run_is_refused_with_a_status_and_the_others_go_on(http: httpx.Client, program: Program) -> None:
    waits = ask(http, "echo", {"say": "hi", "do": "ask"}).json()
    place = f"/v1/runs/{waits['run_id']}/events"
    with web(program) as client, contextlib.ExitStack() as open_streams:
        streams = [open_streams.enter_context(client.stream("GET", place)) for _ in range(50)]
        refused = http.get(place)
        assert {stream.status_code for stream in streams} == {200}
        assert (code_of(refused), "50 followers" in refused.json()["error"]["message"]) == ((503, "retryable_error", "overloaded"), True)
        streams[0].close()
        until(lambda: _follows(http, place), "room for another follower")
    http.post(f"/v1/approvals/{waits['approvals'][0]['approval_id']}/answer", content=b'{"result": "red"}')


def _follows(http: httpx.Client, place: str) -> bool:
    with http.stream("GET", place) as stream:
        return stream.status_code == 200


# --- people


def test_an_approval_from_the_request_to_the_end(http: httpx.Client) -> None:
    told = ask(http, "payer", {"cents": 7}, user="ann")
    waits = told.json()
    assert (told.status_code, waits["state"], waits["status"], waits["error"]["error_code"]) == (
        202, "waiting", "needs_human", "approval_required",
    )  # fmt: skip
    (approval,) = waits["approvals"]
    place = f"/v1/approvals/{approval['approval_id']}"
    assert approval in http.get("/v1/approvals").json()["approvals"]
    assert (approval["tool"], approval["arguments"], approval["state"]) == ("pay", {"cents": 7}, "open")
    assert code_of(http.post(f"{place}/approve", content=b'{"decided_by": "boss"}')) == (400, "invalid_request", "schema_mismatch")
    assert code_of(http.post(f"{place}/answer", content=b'{"result": 1}')) == (422, "invalid_request", "approval_refused")
    decided = http.post(f"{place}/approve", content=json.dumps({"edited_arguments": {"cents": 5}, "comment": "less"}))
    assert decided.status_code == 200
    assert (decided.json()["state"], decided.json()["comment"]) == ("approve", "less")
    assert decided.json()["decided_by"].startswith("local:")
    over = http.get(told.headers["location"], params={"wait": "30"}).json()
    assert (over["status"], over["outputs"]) == ("ok", {"paid": 5})
    assert http.get(place).json()["edited_arguments"] == {"cents": 5}
    assert code_of(http.post(f"{place}/reject")) == (409, "invalid_request", "callback_closed")
    assert http.get("/v1/approvals").json()["approvals"] == []


def test_where_nobody_logs_in_one_may_decide_ones_own_request_and_it_is_written_down(http: httpx.Client) -> None:
    approval = approval_in(ask(http, "payer", {"cents": 1}))
    decided = http.post(f"/v1/approvals/{approval['approval_id']}/reject").json()
    assert (decided["requested_by"], decided["own_request"]) == (decided["decided_by"], True)
    over = http.get(f"/v1/runs/{approval['run_id']}", params={"wait": "30"}).json()
    assert over["error"]["error_code"] == "approval_rejected"


def test_the_rate_is_told_with_the_time_to_come_back(http: httpx.Client) -> None:
    """Four an hour, two of which the tests above may have used."""
    answers = [ask(http, "payer", {"cents": 1}, params={"wait": "0"}) for _ in range(5)]
    last = answers[-1]
    assert code_of(last) == (429, "retryable_error", "rate_limited")
    assert 0 < int(last.headers["retry-after"]) <= 3600
    assert last.json()["error"]["retry_after_seconds"] > 0
    for told in answers[:-1]:
        if told.status_code == 202:
            assert http.post(f"/v1/runs/{told.json()['run_id']}/cancel").status_code == 200


# --- artifacts


def test_a_large_output_is_an_artifact_that_can_be_fetched(http: httpx.Client) -> None:
    document = ask(http, "echo", {"say": "hi", "do": "large"}).json()
    (ref,) = document["artifacts"]
    assert document["outputs"] == {"said": {"$artifact": ref}}
    got = http.get(f"/v1/artifacts/{ref['artifact_id']}")
    assert json.loads(got.content) == "x" * 200_000
    assert hashlib.sha256(got.content).hexdigest() == ref["sha256"]
    assert got.headers["etag"] == f'"{ref["sha256"]}"'
    assert int(got.headers["content-length"]) == ref["size_bytes"] == len(got.content)
    again = http.get(f"/v1/artifacts/{ref['artifact_id']}", headers={"If-None-Match": got.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_what_a_worker_made_is_never_shown_as_a_page(http: httpx.Client) -> None:
    (ref,) = ask(http, "echo", {"say": "hi", "do": "page"}).json()["artifacts"]
    got = http.get(f"/v1/artifacts/{ref['artifact_id']}")
    assert got.content == b"<script>alert(1)</script>"
    assert got.headers["content-type"] == "application/octet-stream"
    assert got.headers["content-disposition"].startswith("attachment; filename*=UTF-8''..%2F%3Cb%3E")
    assert got.headers["x-content-type-options"] == "nosniff"
    assert got.headers["content-security-policy"] == "sandbox; default-src 'none'"
    assert "x" not in got.headers


def test_a_large_input_is_uploaded_first_and_named_by_its_id(http: httpx.Client) -> None:
    text = "y" * 500_000
    put = http.post("/v1/artifacts", params={"name": "say"}, content=json.dumps(text), headers={"Content-Type": "application/json"})
    ref = put.json()
    assert (put.status_code, ref["name"], ref["media_type"]) == (201, "say", "application/json")
    assert http.get(put.headers["location"]).content == json.dumps(text).encode()
    document = ask(http, "echo", {"say": {"$artifact": {"artifact_id": ref["artifact_id"]}}}).json()
    (moved,) = document["artifacts"]
    assert json.loads(http.get(f"/v1/artifacts/{moved['artifact_id']}").content) == text
    missing = ask(http, "echo", {"say": {"$artifact": {"artifact_id": "0" * 32}}})
    assert missing.json()["error"]["error_code"] == "artifact_not_found"


def test_an_upload_is_bounded_whether_or_not_it_says_how_large_it_is(http: httpx.Client, folder: Path) -> None:
    def parts() -> Iterator[bytes]:
        for _ in range(20):
            yield b"z" * 100_000

    assert code_of(http.post("/v1/artifacts", content=b"z" * 2_000_000)) == (413, "permanent_error", "artifact_too_large")
    assert code_of(http.post("/v1/artifacts", content=parts())) == (413, "permanent_error", "artifact_too_large")
    # Earlier runs of this server may still keep artifacts of their own.
    kept = [file for file in (folder / "orders.db.workers" / "artifacts").rglob("*") if file.is_file()]
    assert [file for file in kept if b"z" * 1000 in file.read_bytes()] == []
    assert http.post("/v1/artifacts", content=parts_of(9)).status_code == 201


def parts_of(count: int) -> Iterator[bytes]:
    for number in range(count):
        yield bytes([number]) * 100_000


# --- limits and errors


@pytest.mark.parametrize(
    "method, path, body, expected",
    [
        ("GET", "/v1/nothing", b"", (404, "invalid_request", "route_not_found")),
        ("DELETE", "/v1/workers/echo", b"", (405, "invalid_request", "method_not_allowed")),
        ("POST", "/v1/workers/echo/invoke", b"", (400, "invalid_request", "schema_mismatch")),
        ("POST", "/v1/workers/echo/invoke", b"{", (400, "invalid_request", "schema_mismatch")),
        ("POST", "/v1/workers/echo/invoke", b"[1]", (400, "invalid_request", "schema_mismatch")),
        ("POST", "/v1/workers/echo/invoke", b'{"inputs": {}, "tenant": "other"}', (400, "invalid_request", "schema_mismatch")),
        ("POST", "/v1/workers/echo/invoke", b'{"inputs": {}, "worker_id": "payer"}', (400, "invalid_request", "schema_mismatch")),
        ("POST", "/v1/workers/unknown/invoke", b'{"inputs": {}}', (404, "invalid_request", "worker_not_found")),
        ("POST", "/v1/workers/echo/invoke?wait=-1", b'{"inputs": {"say": "a"}}', (400, "invalid_request", "invalid_parameter")),
        ("POST", "/v1/workers/echo/invoke", b" " * 17_000_000, (413, "invalid_request", "request_too_large")),
        (
            "POST",
            "/v1/workers/echo/invoke",
            b'{"inputs": {"say": "a"}, "constraints": {"timeout_seconds": 9999}}',
            (400, "invalid_request", "constraint_widened"),
        ),
        ("GET", "/v1/runs/unknown", b"", (404, "invalid_request", "execution_not_found")),
        ("POST", "/v1/runs/unknown/cancel", b"", (404, "invalid_request", "execution_not_found")),
        ("GET", "/v1/approvals/a_x.y", b"", (404, "invalid_request", "approval_not_found")),
        ("POST", "/v1/approvals/nothing/approve", b"", (404, "invalid_request", "approval_not_found")),
        ("POST", "/v1/approvals/a_x.y/settle", b"{}", (400, "invalid_request", "schema_mismatch")),
        ("GET", "/v1/artifacts/..%2F..%2Fetc%2Fpasswd", b"", (404, "permanent_error", "artifact_not_found")),
    ],
)
def test_what_cannot_be_served_is_told_in_the_shape_of_a_response(
    http: httpx.Client, method: str, path: str, body: bytes, expected: tuple[int, str, str]
) -> None:
    answer = http.request(method, path, content=body)
    assert code_of(answer) == expected
    document = answer.json()
    assert set(document) == {
        "run_id", "worker_id", "version", "status", "outputs", "error", "artifacts", "approvals", "logs", "observability",
    }  # fmt: skip
    assert document["outputs"] is None
    assert document["error"]["message"]


def test_metrics_are_there_for_prometheus(http: httpx.Client) -> None:
    ask(http, "echo", {"say": "hi"})
    told = http.get("/metrics")
    assert told.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert re.search(r'^success_count\{version="1.0",worker_id="echo"\} \d', told.text, re.M)
    assert re.search(r"^p95_duration_ms", told.text, re.M)


# --- one response, three ways

_IDS = {"run_id", "trace_id", "span_id", "duration_ms", "approval_id", "requested_at", "expires_at", "sha256", "uri", "artifact_id"}
Case = tuple[str, dict[str, Any], int]
SAME: list[Case] = [
    ("echo", {"say": "hi"}, 0),
    ("echo", {"say": 5}, 2),
    ("payer", {"cents": 3}, 4),
    ("echo", {"say": "hi", "do": "fail"}, 1),
    ("echo", {"say": "hi", "do": "human"}, 4),
    ("echo", {"say": "hi", "do": "wrong"}, 5),
    ("echo", {"say": "hi", "do": "large"}, 0),
]
"""A worker, its inputs, and the exit code of the command."""


def alike(value: Any) -> Any:
    """A document without what differs from run to run."""
    if isinstance(value, dict):
        return {key: alike(each) for key, each in value.items() if key not in _IDS}
    if isinstance(value, list):
        return [alike(each) for each in value]
    return re.sub(r"a_[0-9a-f-]+\.[0-9a-f]+", "<approval>", value) if isinstance(value, str) else value


@pytest.mark.parametrize("same", [pytest.param(SAME[:3], id="its kinds"), pytest.param(SAME, id="every case", marks=pytest.mark.long)])
def test_http_the_command_line_and_python_give_the_same_response(tmp_path: Path, same: list[Case]) -> None:
    file = written(tmp_path)
    with programs(tmp_path) as started, web(start(started)) as client:
        over_http = [ask(client, worker, inputs).json() for worker, inputs, _ in same]
    for document in over_http:
        document.pop("state", None)
    cli = Cli(tmp_path)
    ran = [cli("run", f"{file.name}:{worker}", "--json", "--input", json.dumps(inputs), "--store", "cli.db") for worker, inputs, _ in same]
    assert [one.returncode for one in ran] == [code for *_, code in same]

    async def in_python() -> list[dict[str, Any]]:
        worker_settings = read_operator(file=tmp_path / "holdfast.toml")
        async with holdfast.open(tmp_path / "python.db", workers=[file], worker_settings=worker_settings) as engine:
            return [response_document(await engine.run(worker, inputs)) for worker, inputs, _ in same]

    by_python = asyncio.run(in_python())
    for document, command, python in zip(over_http, ran, by_python, strict=True):
        assert alike(document) == alike(json.loads(command.stdout)) == alike(python)

"""`holdfast serve` as a program: who gets in, and who is told of what it does."""

from __future__ import annotations

import base64
import contextlib
import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import httpx
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from tests.surface.serve_program import Programs, programs, until

FUNCTIONS = """
from holdfast.durable import durable_execution


@durable_execution(execution_timeout=60)
async def greet(event, context):
    if event is None:
        raise ValueError("no name to greet")
    return f"hello {event}"
"""
SIGNALS = """
[bad]
sink = "file"
path = "bad.jsonl"
pattern = { detail = { status = ["FAILED", "TIMED_OUT", "STOPPED"] } }
"""
SERVE = [sys.executable, "-m", "holdfast.cli", "serve"]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Programs]:
    (tmp_path / "greeting.py").write_text(FUNCTIONS)
    with programs(tmp_path) as made:
        yield made


def refusal(folder: Path, *arguments: str) -> str:
    """What it says when it does not start."""
    ended = subprocess.run(
        [*SERVE, "greeting.py", "--port", "0", *arguments], cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 2
    return ended.stderr


def keys(folder: Path, *arguments: str) -> dict[str, str]:
    made = subprocess.run(
        [sys.executable, "-m", "holdfast.cli", "keys", "create", "--store", "orders.db", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return dict(line.split("=", 1) for line in made.stdout.splitlines())


def test_without_credentials_it_says_so_and_refuses_to_listen_for_others(serve: Programs, tmp_path: Path) -> None:
    server = serve("greeting.py")
    assert [line for line in server.said if line.startswith("credentials: none, so every user of this machine may use the server")]
    said = refusal(tmp_path, "--host", "0.0.0.0")
    assert "error[credentials_needed]" in said
    assert "holdfast keys create" in said


def test_with_credentials_it_listens_for_others_and_lets_in_who_has_one(serve: Programs, tmp_path: Path) -> None:
    key = keys(tmp_path, "--role", "operator")
    token = keys(tmp_path, "--role", "viewer", "--token")["HOLDFAST_TOKEN"]
    server = serve("greeting.py", "--host", "0.0.0.0")
    assert "credentials: required (2 known; `holdfast keys list` shows them)" in server.said
    with pytest.raises(ClientError) as refused:
        server.lambda_.list_functions()
    assert refused.value.response["Error"]["Code"] == "UnrecognizedClientException"
    config = Config(retries={"total_max_attempts": 1}, proxies={})
    credentials = {"aws_access_key_id": key["AWS_ACCESS_KEY_ID"], "aws_secret_access_key": key["AWS_SECRET_ACCESS_KEY"]}
    with contextlib.closing(boto3.client("lambda", endpoint_url=server.url, region_name="x", config=config, **credentials)) as lambda_:
        answer = lambda_.invoke(FunctionName="greet", Qualifier="$LATEST", Payload=b'"you"')
        with contextlib.closing(answer["Payload"]) as stream:
            assert json.loads(stream.read()) == "hello you"
    with httpx.Client(trust_env=False, headers={"Authorization": f"Bearer {token}"}) as viewer:
        assert viewer.get(f"{server.url}/2025-12-01/functions/greet/durable-executions").status_code == 200
        assert viewer.post(f"{server.url}/2015-03-31/functions/greet/invocations").status_code == 403


def test_a_web_page_does_not_reach_in_unless_it_is_allowed(serve: Programs) -> None:
    server = serve("greeting.py", "--allow-host", "holdfast.test", "--allow-origin", "https://console.example")
    listing = f"{server.url}/2025-12-01/durable-executions"

    def status(**headers: str) -> int:
        with httpx.Client(trust_env=False) as client:
            return client.get(listing, headers=headers).status_code

    assert [status(Host="evil.example"), status(Host="holdfast.test"), status()] == [403, 200, 200]
    assert [status(Origin="null"), status(Origin="https://evil.example"), status(Origin="https://console.example")] == [403, 403, 200]


def told(stream: Iterator[str], count: int) -> list[tuple[str, str, str]]:
    """The next events: number, name and status."""
    found, number = list[tuple[str, str, str]](), ""
    for line in stream:
        if line.startswith("id:"):
            number = line.removeprefix("id:").strip()
        assert line != "event: gap"
        if line.startswith("data:"):
            detail = json.loads(line.removeprefix("data:"))["detail"]
            found.append((number, detail["durableExecutionName"], detail["status"]))
            if len(found) == count:
                return found
    return found


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_the_stream_and_the_sinks_hear_of_everything_also_across_a_restart(serve: Programs, tmp_path: Path) -> None:
    (tmp_path / "signals.toml").write_text(SIGNALS)
    arguments = ("greeting.py", "--signals", "signals.toml")
    server = serve(*arguments)
    with httpx.Client(trust_env=False, timeout=60) as client:
        with client.stream("GET", f"{server.url}/events") as answer:
            server.invoke("greet", "a", Qualifier="$LATEST", DurableExecutionName="a")
            server.invoke("greet", None, Qualifier="$LATEST", DurableExecutionName="b")
            first = told(answer.iter_lines(), 4)
            assert [(name, status) for _, name, status in first] == [
                ("a", "RUNNING"),
                ("a", "SUCCEEDED"),
                ("b", "RUNNING"),
                ("b", "FAILED"),
            ]
            assert server.leave() == 0, "an open stream does not keep a server from leaving"
        server = serve(*arguments)
        server.invoke("greet", "c", Qualifier="$LATEST", DurableExecutionName="c")
        with client.stream("GET", f"{server.url}/events", headers={"Last-Event-ID": first[-1][0]}) as answer:
            found = told(answer.iter_lines(), 2)
            assert [(name, status) for _, name, status in found] == [("c", "RUNNING"), ("c", "SUCCEEDED")], "and no gap before them"
    bad = until(lambda: lines(tmp_path / "bad.jsonl"), "the line of a failure")
    assert [event["detail"]["durableExecutionName"] for event in bad] == ["b"]


def test_a_file_of_sinks_with_a_mistake_is_refused_with_its_place(serve: Programs, tmp_path: Path) -> None:
    (tmp_path / "signals.toml").write_text("[bad]\nsink = 'pigeon'")
    assert "signals.toml, [bad]: there is no sink 'pigeon'" in refusal(tmp_path, "--signals", "signals.toml")
    (tmp_path / "signals.toml").write_text("[events]\nsink = 'file'\npath = 'x'")
    assert "Give the sink another name" in refusal(tmp_path, "--signals", "signals.toml")


def test_what_a_sink_gave_up_is_on_the_consoles_page_of_signals(serve: Programs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRM_SECRET", "whsec_" + base64.b64encode(bytes(32)).decode())
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]  # after this block no server listens here
    (tmp_path / "sinks.toml").write_text(
        f'[crm]\nsink = "webhook"\nurl = "http://127.0.0.1:{port}/"\nsecrets = ["CRM_SECRET"]\ndead_letters = "dead.jsonl"\ntries = 1\n'
    )
    server = serve("greeting.py", "--signals", "sinks.toml")
    server.invoke("greet:$LATEST", "ann", DurableExecutionName="given-up")
    until(lambda: (tmp_path / "dead.jsonl").exists(), "a dead letter")
    page = httpx.get(f"{server.url}/console/signals").text
    section = page.partition('id="letters"')[2].partition("</section>")[0]
    assert "crm" in section
    assert "given-up" in section

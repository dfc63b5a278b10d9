"""`kill -9` of `holdfast serve` under load: eight boto3 clients go on with the next server, and nothing that was acknowledged is lost."""

from __future__ import annotations

import collections
import contextlib
import gc
import json
import platform
import random
import shutil
import socket
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.postgres import empty_store
from tests.surface.cutting import SENDING, Cut
from tests.surface.load_clients import COUNT, PATIENCE_SECONDS, Client, Kept, Outside, patient
from tests.surface.serve_program import DATA, Program, Programs, programs, until
from tests.surface.swallowing import Swallowing

T = TypeVar("T")
CLIENTS = 8


@pytest.fixture(autouse=True)
def botos_own_leaks() -> Iterator[None]:
    """A connection that breaks in the middle of an answer stays in a cycle of boto3's until the garbage is collected: here, not in the
    middle of whatever test comes next."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Programs]:
    shutil.copytree(DATA / "load", tmp_path / "load", ignore=shutil.ignore_patterns("__pycache__"))
    with programs(tmp_path) as made:
        yield made


def lines(journal: Path) -> list[list[str]]:
    """What was noted so far."""
    return [json.loads(line) for line in journal.read_text().splitlines()] if journal.exists() else []


def killed_load(serve: Programs, store: str, *, kills: int, each: int, seed: int) -> tuple[Program, list[Kept], Outside]:
    """Load on a server that is killed again and again, until all clients have got what they wanted; the last server."""
    chance, journal, never = random.Random(seed), serve.folder / "journal", threading.Event()
    server = serve("load", store=store)
    url, port = server.url, int(server.url.rpartition(":")[2])
    clients = [Client(url, number, each, journal) for number in range(CLIENTS)]
    outside = Outside(url, serve.folder / "outside")
    threads: Sequence[Client | Outside] = [*clients, outside]
    for thread in threads:
        thread.start()
    try:
        for kill in range(kills):
            goal = len(lines(journal)) + chance.randint(1, 12)
            until(lambda goal=goal: len(lines(journal)) >= goal, f"more work before kill {kill}")  # type: ignore[misc]
            never.wait(chance.uniform(0, 0.05))
            assert any(client.is_alive() for client in clients), "it is killed under load"
            server.kill()
            server = serve("load", store=store, port=port)
    finally:
        outside.enough.set()
        for thread in threads:
            thread.join(PATIENCE_SECONDS)
    assert [thread for thread in threads if thread.is_alive()] == []
    failed = [(thread.name, thread.failed) for thread in threads if thread.failed]
    assert failed == [], "\n".join([*map(str, failed), *server.warned[-20:]])
    return server, [kept for client in clients for kept in client.kept], outside


def succeeded(history: Sequence[dict[str, Any]]) -> dict[str, str]:
    """The results of an execution's steps, by name; each was recorded once."""
    assert [event["EventId"] for event in history] == list(range(1, len(history) + 1))
    ends = [(event["EventType"], event["Id"]) for event in history if event["EventType"].endswith("Succeeded")]
    assert max(collections.Counter(ends).values()) == 1, ends
    return {event["Name"]: event["StepSucceededDetails"]["Result"]["Payload"] for event in history if event["EventType"] == "StepSucceeded"}


def assert_nothing_lost(server: Program, kept: Sequence[Kept], journal: Path) -> None:
    """Each execution exists once and ended as its client was told; each acknowledged value is the one on record."""
    for function in ("walk", "ask", "raw"):
        pages = server.lambda_.get_paginator("list_durable_executions_by_function").paginate(FunctionName=function)
        found = {one["DurableExecutionName"]: one for page in pages for one in page["DurableExecutions"]}
        wanted = {one.name: one.arn for one in kept if one.function == function}
        assert {name: one["DurableExecutionArn"] for name, one in found.items()} == wanted
        assert {one["Status"] for one in found.values()} <= {"SUCCEEDED"}
    noted = collections.defaultdict(list)
    for name, *what in lines(journal):
        noted[name].append(what)
    for one in kept:
        recorded = succeeded(server.history(one.arn))
        if one.function == "raw":
            assert len(recorded) == COUNT
            assert one.result == list(recorded.values())
            assert noted[one.name], "its acknowledgements were noted"
            for step, value in noted[one.name]:
                assert recorded[step] == value, "an acknowledged checkpoint stays"
            continue
        values = {step: json.loads(text) for step, text in recorded.items()}
        answer = f"answer of {one.name}"
        assert one.result == [*values.values(), *([answer] if one.function == "ask" else [])]
        for step, _, before in noted[one.name]:  # a step runs when the one before it was acknowledged: that value must be the recorded one
            number = int(step.removeprefix("step-"))
            given = values[f"step-{number - 1}"] if number else ""
            assert before == (answer if (one.function, number) == ("ask", 2) else given)


def assert_outside_kept(server: Program, outside: Outside) -> None:
    """What the client outside was told is done is on record."""
    assert outside.acknowledged == succeeded(server.history(outside.arn))
    found = server.lambda_.get_durable_execution(DurableExecutionArn=outside.arn)
    assert (found["Status"], json.loads(found["Result"])) == ("SUCCEEDED", list(outside.acknowledged.values()))


@pytest.mark.long
@pytest.mark.parametrize("seed", [1])
def test_kill_9_under_load_of_eight_clients_loses_nothing(serve: Programs, seed: int) -> None:
    server, kept, outside = killed_load(serve, "load.db", kills=3, each=2, seed=seed)
    assert len(kept) == CLIENTS * 2
    assert_nothing_lost(server, kept, serve.folder / "journal")
    assert_outside_kept(server, outside)


@pytest.mark.long
def test_kill_9_under_load_of_eight_clients_loses_nothing_on_postgres(serve: Programs) -> None:
    server, kept, outside = killed_load(serve, empty_store(), kills=1, each=1, seed=2)
    assert len(kept) == CLIENTS
    assert_nothing_lost(server, kept, serve.folder / "journal")
    assert_outside_kept(server, outside)


def test_an_answers_head_and_body_leave_together(serve: Programs) -> None:
    """boto3 takes a head alone for an answer with nothing in it, so a server must not be killed between the two."""
    host, port = serve("load", store="load.db").url.removeprefix("http://").split(":")
    for _ in range(200):
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(f"GET /2015-03-31/functions HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
            head, _, body = connection.recv(1 << 20).partition(b"\r\n\r\n")
        assert b"content-length: %d\r\n" % len(body) in head + b"\r\n"


# --- between commit and answer


class Unheard:
    """A server behind a proxy that swallows one answer and kills the server; the next one is on the same port."""

    def __init__(self, serve: Programs, proxy: Swallowing, server: Program) -> None:
        self._serve = serve
        self._proxy = proxy
        self.server = server
        self.url = proxy.url
        self.folder = serve.folder
        self.answers = proxy.answers

    def ask(self, wanted: str, call: Callable[[Any], T]) -> T:
        """What boto3's own retry brings, when the answer to the first request is lost together with its server."""
        self._proxy.swallow(wanted, self.server.process.kill)
        with patient(self.url) as client, ThreadPoolExecutor(1) as elsewhere:
            asked = elsewhere.submit(call, client)
            assert self._proxy.swallowed.wait(PATIENCE_SECONDS)
            self.server.kill()
            self.server = self._serve("load", store="load.db", port=int(self.server.url.rpartition(":")[2]))
            return asked.result(PATIENCE_SECONDS)


@pytest.fixture
def unheard(serve: Programs) -> Iterator[Unheard]:
    server = serve("load", store="load.db")
    with Swallowing(int(server.url.rpartition(":")[2])).running() as proxy:
        yield Unheard(serve, proxy, server)


@pytest.mark.long
def test_a_checkpoint_whose_answer_was_lost_with_its_server_is_answered_the_same_again(unheard: Unheard, tmp_path: Path) -> None:
    server = unheard.server
    arn = server.invoke("held:live", {"place": str(tmp_path)}, InvocationType="Event")["DurableExecutionArn"]
    event = json.loads(until(lambda: list(tmp_path.glob("*.json")), "the invocation")[0].read_text())
    update = {"Id": "a", "Name": "a", "Type": "STEP", "Action": "SUCCEED", "Payload": "done"}
    callback = {"Id": "c", "Name": "c", "Type": "CALLBACK", "Action": "START", "CallbackOptions": {"TimeoutSeconds": 60}}
    asked = {"DurableExecutionArn": arn, "CheckpointToken": event["CheckpointToken"], "ClientToken": "the-same"}
    answer = unheard.ask("/checkpoint", lambda client: client.checkpoint_durable_execution(Updates=[update, callback], **asked))
    assert answer["ResponseMetadata"]["RetryAttempts"] > 0
    first, again = unheard.answers
    assert again == first
    told = json.loads(first)
    assert answer["CheckpointToken"] == told["CheckpointToken"] != event["CheckpointToken"]
    assert [operation["Id"] for operation in answer["NewExecutionState"]["Operations"]] == ["a", "c"]
    server = unheard.server
    kinds = [event["EventType"] for event in server.history(arn)]
    assert kinds.count("StepSucceeded") == kinds.count("CallbackStarted") == 1
    with pytest.raises(server.lambda_.exceptions.InvalidParameterValueException, match="Invalid checkpoint token"):
        server.lambda_.checkpoint_durable_execution(**asked | {"ClientToken": "another"})
    (tmp_path / "done").touch()


@pytest.mark.skipif(
    platform.system() != "Linux" or platform.machine() not in SENDING, reason="it knows the system calls of Linux on x86_64 and aarch64"
)
def test_a_checkpoint_that_was_committed_but_never_answered_is_answered_after_the_restart(serve: Programs, tmp_path: Path) -> None:
    server = serve("load", store="load.db")
    arn = server.invoke("held:live", {"place": str(tmp_path)}, InvocationType="Event")["DurableExecutionArn"]
    event = json.loads(until(lambda: list(tmp_path.glob("*.json")), "the invocation")[0].read_text())
    update = {"Id": "a", "Name": "a", "Type": "STEP", "Action": "SUCCEED", "Payload": "done"}
    asked = {"DurableExecutionArn": arn, "CheckpointToken": event["CheckpointToken"], "ClientToken": "same", "Updates": [update]}
    cut = Cut(server.process.pid, b'"CheckpointToken"')
    with patient(server.url) as client, ThreadPoolExecutor(1) as elsewhere:
        with cut.watching():
            answered = elsewhere.submit(client.checkpoint_durable_execution, **asked)
        server.kill()
        server = serve("load", store="load.db", port=int(server.url.rpartition(":")[2]))
        answer = answered.result(PATIENCE_SECONDS)
    assert answer["ResponseMetadata"]["RetryAttempts"] > 0
    unsent = json.loads(cut.unsent.partition(b"\r\n\r\n")[2])
    assert answer["CheckpointToken"] == unsent["CheckpointToken"]
    (operation,), (told,) = answer["NewExecutionState"]["Operations"], unsent["NewExecutionState"]["Operations"]
    assert operation["StepDetails"] == told["StepDetails"]
    assert operation["EndTimestamp"].timestamp() == pytest.approx(told["EndTimestamp"])
    assert [event["EventType"] for event in server.history(arn)].count("StepSucceeded") == 1
    (tmp_path / "done").touch()


def test_an_invoke_whose_answer_was_lost_with_its_server_starts_nothing_twice(unheard: Unheard) -> None:
    payload = json.dumps({"journal": str(unheard.folder / "journal"), "name": "once", "work": 0, "count": 2}).encode()
    asked = {"FunctionName": "raw:live", "DurableExecutionName": "once", "InvocationType": "Event", "Payload": payload}
    answer = unheard.ask("/invocations", lambda client: client.invoke(**asked))
    assert (answer["StatusCode"], len(unheard.answers)) == (202, 2)
    assert unheard.server.ended(answer["DurableExecutionArn"])["Status"] == "SUCCEEDED"
    listed = unheard.server.lambda_.list_durable_executions_by_function(FunctionName="raw")
    assert [one["DurableExecutionArn"] for one in listed["DurableExecutions"]] == [answer["DurableExecutionArn"]]


@pytest.mark.long
def test_the_result_of_an_invoke_is_the_same_when_its_first_answer_was_lost_with_its_server(unheard: Unheard) -> None:
    payload = json.dumps({"journal": str(unheard.folder / "journal"), "name": "once", "work": 0}).encode()
    asked = {"FunctionName": "walk:live", "DurableExecutionName": "once", "Payload": payload}

    def result(client: Any) -> bytes:
        with contextlib.closing(client.invoke(**asked)["Payload"]) as stream:
            found: bytes = stream.read()
            return found

    assert [unheard.ask("/invocations", result)] * 2 == unheard.answers
    assert len(lines(unheard.folder / "journal")) == 6  # no step ran twice

"""EventBridge: boto3's own client on the wire, against a server that answers as AWS does; and once against moto where that is installed."""

from __future__ import annotations

import contextlib
import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config

from holdfast.model.errors import DeliveryFailed, ExtraMissing, InvalidParameter
from holdfast.signals.event import event_of
from holdfast.signals.eventbridge import EventBridge
from tests.unit.test_signals_event import BEGUN
from tests.unit.test_signals_sinks import ENDED, ONLY_ENDS

Answer = tuple[int, dict[str, Any]]
TAKEN: Answer = (200, {"FailedEntryCount": 0, "Entries": [{"EventId": "1"}]})
HALF: Answer = (200, {"FailedEntryCount": 1, "Entries": [{"ErrorCode": "ThrottlingException", "ErrorMessage": "slow down"}]})
REFUSED: Answer = (400, {"__type": "ResourceNotFoundException", "message": "no such bus"})


class Bus:
    """Answers in turn, and remembers what it was asked."""

    def __init__(self, address: str, asked: list[Any], answers: list[Answer]) -> None:
        self.address = address
        self.asked = asked
        self.answers = answers

    def client(self) -> Any:
        return boto3.client(
            "events",
            endpoint_url=self.address,
            region_name="eu-north-1",
            aws_access_key_id="AKIAEXAMPLE",
            aws_secret_access_key="a-secret",
            config=Config(retries={"total_max_attempts": 1}, proxies={}),
        )


@pytest.fixture
def bus() -> Iterator[Bus]:
    asked: list[Any] = []
    answers: list[Answer] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            asked.append((self.headers["x-amz-target"], body))
            status, answer = answers.pop(0)
            raw = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("content-type", "application/x-amz-json-1.1")
            self.send_header("content-length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield Bus(f"http://127.0.0.1:{server.server_port}", asked, answers)
        server.shutdown()
        thread.join()


def closed(client: Any) -> contextlib.closing[Any]:
    return contextlib.closing(client)


def test_an_event_is_put_as_boto3_puts_it(bus: Bus) -> None:
    bus.answers += [TAKEN]
    with closed(bus.client()) as client:
        sink = EventBridge("orders", client=client, pattern=ONLY_ENDS)
        sink(BEGUN)
        sink(ENDED)
    ((target, body),) = bus.asked
    (entry,) = body["Entries"]
    assert target == "AWSEvents.PutEvents"
    assert json.loads(entry.pop("Detail")) == event_of(ENDED)["detail"]
    assert entry.pop("Time") == 1_767_225_600
    assert entry == {"Source": "holdfast", "DetailType": "Durable Execution Status Change", "EventBusName": "orders", "Resources": []}


def test_an_entry_that_was_not_taken_is_tried_again(bus: Bus) -> None:
    """The call itself succeeds: a sink that checks only the call loses events."""
    bus.answers += [HALF, HALF, TAKEN]
    with closed(bus.client()) as client:
        sink = EventBridge("orders", client=client)
        for _ in range(2):
            with pytest.raises(DeliveryFailed, match="EventBridge orders did not accept an event: ThrottlingException: slow down"):
                sink(BEGUN)
        sink(BEGUN)
    assert len(bus.asked) == 3


def test_a_refusal_becomes_a_dead_letter_after_the_last_try(bus: Bus, tmp_path: Path) -> None:
    bus.answers += [REFUSED, HALF]
    with closed(bus.client()) as client:
        sink = EventBridge("orders", client=client, dead_letters=tmp_path / "dead.jsonl", tries=2)
        with pytest.raises(DeliveryFailed, match="no such bus") as failed:
            sink(BEGUN)
        sink(BEGUN)
    assert "a-secret" not in str(failed.value)
    (letter,) = map(json.loads, (tmp_path / "dead.jsonl").read_text().splitlines())
    assert (letter["tries"], letter["event"]) == (2, event_of(BEGUN))


def test_a_bus_that_cannot_be_reached_is_said() -> None:
    with closed(Bus("http://127.0.0.1:9", [], []).client()) as client, pytest.raises(DeliveryFailed, match="Could not connect"):
        EventBridge(client=client)(BEGUN)


def test_aws_keeps_its_own_sources() -> None:
    with pytest.raises(InvalidParameter, match="aws"):
        EventBridge(source="aws.lambda", client=object())


def test_without_boto3_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(ExtraMissing, match=r"pip install 'holdfast\[aws\]'"):
        EventBridge()


def test_moto_takes_what_we_put() -> None:
    moto = pytest.importorskip("moto", reason="moto is not installed: another implementation of EventBridge is not asked")
    with moto.mock_aws():
        client = boto3.client("events", region_name="eu-north-1", aws_access_key_id="a", aws_secret_access_key="b")
        arn = client.create_event_bus(Name="orders")["EventBusArn"]
        client.create_archive(ArchiveName="all", EventSourceArn=arn, EventPattern=json.dumps({"source": ["holdfast"]}))
        EventBridge("orders", client=client)(BEGUN)
        assert client.describe_archive(ArchiveName="all")["EventCount"] == 1

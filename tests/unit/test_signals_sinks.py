"""Sinks: what they send, what they do about failures, and what must never be in logs and errors."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import logging
import os
import sys
from collections import UserDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from holdfast.model.clock import VirtualClock
from holdfast.model.errors import AccessRefused, DeliveryFailed, ExtraMissing, InvalidParameter
from holdfast.model.execution import ExecutionStatus
from holdfast.signals.event import event_of
from holdfast.signals.lines import LineFile
from holdfast.signals.signatures import key_of, new_secret, signature, verify
from holdfast.signals.sinks import JsonLines
from holdfast.signals.webhook import Webhook
from tests.unit.test_signals_event import BEGUN

SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()
ENDED = msgspec.structs.replace(BEGUN, number=8, status=ExecutionStatus.FAILED, ended_at=BEGUN.started_at + 1)
ONLY_ENDS = {"detail": {"status": [{"anything-but": "RUNNING"}]}}
Answering = Callable[[httpx.Request], httpx.Response]


def webhook(answering: Answering, url: str = "https://user:pass@hooks.example/T0/hush?key=hush", **options: Any) -> Webhook:
    client = httpx.AsyncClient(transport=httpx.MockTransport(answering))
    return Webhook(url, options.pop("secret", SECRET), client=client, clock=VirtualClock(), **options)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


# --- signatures


def test_a_signature_is_an_hmac_over_id_time_and_body() -> None:
    by_hand = hmac.new(bytes(range(32)), b"msg_1.1767225600.{}", hashlib.sha256).digest()
    assert signature([key_of(SECRET)], "msg_1", 1_767_225_600, b"{}") == "v1," + base64.b64encode(by_hand).decode()


def test_a_receiver_takes_what_is_signed_and_new_and_nothing_else() -> None:
    old = new_secret(lambda count: b"x" * count)
    signed = signature([key_of(SECRET), key_of(old)], "id", 1000, b"{}")
    headers = {"webhook-id": "id", "webhook-timestamp": "1000", "webhook-signature": signed}
    for secret in (SECRET, old):
        assert verify(headers, b"{}", secret, 1300) == "id"
        assert verify(headers, b"{}", secret, 700) == "id"
    refused = [
        (headers, b"[]", 1000),
        (headers | {"webhook-id": "other"}, b"{}", 1000),
        (headers | {"webhook-timestamp": "1001"}, b"{}", 1000),
        (headers | {"webhook-timestamp": "soon"}, b"{}", 1000),
        (headers | {"webhook-timestamp": "1" * 5000}, b"{}", 1000),
        (headers | {"webhook-signature": "v1,é"}, b"{}", 1000),
        (headers, b"{}", 1301),
        (headers, b"{}", 699),
        ({"webhook-id": "id"}, b"{}", 1000),
    ]
    for wrong, body, now in refused:
        with pytest.raises(AccessRefused):
            verify(wrong, body, SECRET, now)
    with pytest.raises(AccessRefused):
        verify(headers, b"{}", "another secret of some length", 1000)


def test_a_missing_header_is_named_also_if_the_mapping_raises_an_error_of_its_own() -> None:
    class Headers(UserDict[str, str]):
        def __missing__(self, name: str) -> str:
            raise KeyError("an error of a framework")

    with pytest.raises(AccessRefused, match=r"^The header 'webhook-timestamp' is missing\.$"):
        verify(Headers({"webhook-id": "id"}), b"{}", SECRET, 1000)


@pytest.mark.parametrize("secret", ["short", "whsec_", "whsec_!!!", "whsec_" + base64.b64encode(b"short").decode()])
def test_a_bad_secret_is_refused_and_not_shown(secret: str) -> None:
    with pytest.raises(InvalidParameter) as refused:
        key_of(secret)
    assert secret == "whsec_" or secret not in str(refused.value)


# --- webhooks


async def test_a_webhook_sends_the_event_signed() -> None:
    seen = list[httpx.Request]()

    def take(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(202)

    await webhook(take)(BEGUN)
    (request,) = seen
    assert (request.method, str(request.url)) == ("POST", "https://user:pass@hooks.example/T0/hush?key=hush")
    assert json.loads(request.content) == event_of(BEGUN)
    now = VirtualClock().now() // 1000
    assert verify(dict(request.headers), request.content, SECRET, now) == event_of(BEGUN)["id"]


async def test_a_webhook_hears_only_of_what_its_pattern_wants() -> None:
    seen = list[str]()

    def take(request: httpx.Request) -> httpx.Response:
        seen.append(json.loads(request.content)["detail"]["status"])
        return httpx.Response(200)

    hook = webhook(take, pattern=ONLY_ENDS)
    await hook(BEGUN)
    await hook(ENDED)
    assert seen == ["FAILED"]


def unreachable(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError(f"no way to {request.url}")


def gibberish(request: httpx.Request) -> httpx.Response:
    raise httpx.RemoteProtocolError(f"illegal status line of {request.url}")


@pytest.mark.parametrize(
    "answering, said",
    [
        (lambda _: httpx.Response(500, text="hush"), "https://hooks.example answered 500."),
        (lambda _: httpx.Response(404), "https://hooks.example answered 404."),
        (lambda _: httpx.Response(302, headers={"location": "https://evil.example/"}), "answered 302, a redirect, which is not followed"),
        (lambda _: httpx.Response(307, headers={"location": "https://hooks.example/b"}), "answered 307, a redirect, which is not followed"),
        (unreachable, "https://hooks.example could not be reached, or gave no valid answer: ConnectError."),
        (gibberish, "https://hooks.example could not be reached, or gave no valid answer: RemoteProtocolError."),
    ],
)
async def test_a_webhook_that_fails_says_why_without_secrets(answering: Answering, said: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    asked = list[str]()

    def counting(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.host)
        return answering(request)

    hook = webhook(counting)
    with pytest.raises(DeliveryFailed) as failed:
        await hook(BEGUN)
    logging.getLogger("holdfast.engine").warning("%r did not take it: %r", hook, failed.value, exc_info=failed.value)  # as the outbox does
    assert said in str(failed.value)
    assert asked == ["hooks.example"]
    assert [word for word in ("hush", "user:pass", SECRET) if word in caplog.text] == []


async def test_httpx_logs_its_other_requests_but_not_the_address_of_a_webhook(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    transport = httpx.MockTransport(lambda request: httpx.Response(200))
    async with httpx.AsyncClient(transport=transport) as client:
        await Webhook("https://hooks.example/hush?token=hush", SECRET, client=client)(BEGUN)
        assert caplog.text == ""
        await client.get("https://other.example/open")
    assert "https://other.example/open" in caplog.text


async def test_a_webhook_that_does_not_answer_is_not_waited_for() -> None:
    class Never(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            await asyncio.Event().wait()
            raise AssertionError

    async with httpx.AsyncClient(transport=Never()) as client:
        hook = Webhook("http://hooks.example", SECRET, client=client, timeout_seconds=0.01)
        with pytest.raises(DeliveryFailed, match=r"did not answer within 0\.01 seconds"):
            await hook(BEGUN)


async def test_a_large_answer_is_not_read_to_its_end() -> None:
    read = [0]

    async def endless() -> Any:
        while True:
            read[0] += 1
            yield b"x" * 10_000

    await webhook(lambda _: httpx.Response(200, content=endless()))(BEGUN)
    assert read[0] < 20


@pytest.mark.parametrize("broken", [False, True])
async def test_what_was_taken_is_taken_however_the_answer_goes_on(broken: bool) -> None:
    async def body() -> Any:
        yield b"so far"
        if broken:
            raise httpx.ReadError("gone")
        await asyncio.Event().wait()

    class Begins(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            return httpx.Response(int(request.url.path[1:]), content=body())

    async with httpx.AsyncClient(transport=Begins()) as client:
        await Webhook("http://hooks.example/202", SECRET, client=client, timeout_seconds=0.05)(BEGUN)
        with pytest.raises(DeliveryFailed, match="answered 503"):
            await Webhook("http://hooks.example/503", SECRET, client=client, timeout_seconds=0.05)(BEGUN)


async def test_after_the_last_try_a_signal_becomes_a_dead_letter_and_the_next_has_its_own_tries(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    letters = tmp_path / "dead.jsonl"
    hook = webhook(lambda _: httpx.Response(503), dead_letters=letters, tries=3)
    for signal in (BEGUN, ENDED):
        for _ in range(2):
            with pytest.raises(DeliveryFailed):
                await hook(signal)
        await hook(signal)
    assert lines(letters) == [
        {
            "sink": "https://hooks.example",
            "number": signal.number,
            "tries": 3,
            "error": "https://hooks.example answered 503.",
            "at": VirtualClock().now(),
            "event": event_of(signal),
        }
        for signal in (BEGUN, ENDED)
    ]
    told = [record.getMessage() for record in caplog.records if record.name == "holdfast.signals"]
    assert told[0] == f"signal {BEGUN.number} is given up after 3 tries, and kept in {letters}: https://hooks.example answered 503."


async def test_without_a_file_for_dead_letters_nothing_is_given_up() -> None:
    hook = webhook(lambda _: httpx.Response(503), tries=1)
    for _ in range(20):
        with pytest.raises(DeliveryFailed):
            await hook(BEGUN)


async def test_a_dead_letter_that_cannot_be_written_leaves_the_signal_where_it_is(tmp_path: Path) -> None:
    hook = webhook(lambda _: httpx.Response(503), dead_letters=tmp_path / "missing" / "dead.jsonl", tries=1)
    with pytest.raises(DeliveryFailed, match="could not be written"):
        await hook(BEGUN)


@pytest.mark.parametrize("url", ["ftp://x.example", "hooks.example", "https://", "https://[::1", "http://x:port/", ""])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(InvalidParameter):
        Webhook(url, SECRET)


@pytest.mark.parametrize("options", [{"secret": []}, {"tries": 0}])
def test_options_that_mean_nothing_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter):
        webhook(lambda _: httpx.Response(200), **options)


def test_without_httpx_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(ExtraMissing, match=r"pip install 'holdfast\[server\]'"):
        Webhook("https://hooks.example", SECRET)


# --- files


def test_events_are_lines_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    every, ends = JsonLines(path), JsonLines(tmp_path / "ends.jsonl", pattern=json.dumps(ONLY_ENDS))
    for signal in (BEGUN, ENDED):
        every(signal)
        ends(signal)
    assert lines(path) == [event_of(BEGUN), event_of(ENDED)]
    assert lines(tmp_path / "ends.jsonl") == [event_of(ENDED)]
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_line_is_on_disk_before_it_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = list[str]()
    real = os.fsync

    def sync(file: int) -> None:
        synced.append(Path(os.readlink(f"/proc/self/fd/{file}")).name)
        real(file)

    monkeypatch.setattr(os, "fsync", sync)
    sink = JsonLines(tmp_path / "events.jsonl")
    sink(BEGUN)
    sink(ENDED)
    assert synced == ["events.jsonl", tmp_path.name, "events.jsonl"], "the file each time, its folder when it is new"


def test_a_torn_line_does_not_tear_the_next(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text('{"torn": ')
    LineFile(path).append({"whole": 1})
    assert path.read_text() == '{"torn": \n{"whole":1}\n'


def test_a_failed_write_leaves_no_half_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "events.jsonl"
    file = LineFile(path)
    file.append({"a": 1})
    real = os.write
    monkeypatch.setattr(os, "write", lambda f, data: real(f, data[:3]) if len(data) > 8 else (_ for _ in ()).throw(OSError(28, "No space")))
    with pytest.raises(DeliveryFailed, match="No space"):
        file.append({"b": 2222})
    monkeypatch.undo()
    file.append({"c": 3})
    assert lines(path) == [{"a": 1}, {"c": 3}]


def test_a_full_file_is_set_aside_and_the_oldest_goes(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    file = LineFile(path, max_bytes=20, keep=2)
    for number in range(8):
        file.append({"n": number})
    found = {name: lines(tmp_path / name) for name in sorted(os.listdir(tmp_path))}
    assert found == {
        "events.jsonl": [{"n": 6}, {"n": 7}],
        "events.jsonl.1": [{"n": 4}, {"n": 5}],
        "events.jsonl.2": [{"n": 2}, {"n": 3}],
    }


def test_a_line_longer_than_the_limit_gets_a_file_of_its_own(tmp_path: Path) -> None:
    file = LineFile(tmp_path / "x", max_bytes=10, keep=1)
    for number in range(3):
        file.append({"long": "x" * 20, "n": number})
    assert [line["n"] for line in lines(tmp_path / "x")] == [2]
    assert [line["n"] for line in lines(tmp_path / "x.1")] == [1]


def test_nothing_may_be_kept(tmp_path: Path) -> None:
    file = LineFile(tmp_path / "x", max_bytes=10, keep=0)
    for number in range(3):
        file.append({"n": number})
    assert os.listdir(tmp_path) == ["x"]
    assert lines(tmp_path / "x") == [{"n": 2}]


@pytest.mark.parametrize("options", [{"max_bytes": 0}, {"keep": -1}])
def test_limits_that_mean_nothing_are_refused(options: dict[str, int], tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter):
        LineFile(tmp_path / "x", **options)

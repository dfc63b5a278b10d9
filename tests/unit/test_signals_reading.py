"""Sinks described in a file: what is there works, and a mistake is named with its place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast.model.clock import VirtualClock
from holdfast.model.errors import InvalidParameter, PatternInvalid
from holdfast.model.signals import Subscriber
from holdfast.signals.event import event_of
from holdfast.signals.sink_addresses import read_sinks
from tests.unit.test_signals_event import BEGUN
from tests.unit.test_signals_sinks import ENDED

SECRET = "a secret of the webhook, long enough"


def read(folder: Path, text: str) -> dict[str, Subscriber]:
    (folder / "signals.toml").write_text(text)
    return read_sinks(folder / "signals.toml", {"HOOK_SECRET": SECRET, "EMPTY": "", "SHORT": "short"}, VirtualClock())


def test_every_kind_of_sink_can_be_described(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-north-1")
    sinks = read(
        tmp_path,
        """
        [failures]
        sink = "webhook"
        url = "https://hooks.example/orders"
        secrets = ["HOOK_SECRET"]
        pattern = { detail = { status = ["FAILED", "TIMED_OUT"] } }
        dead_letters = "dead.jsonl"
        tries = 3
        timeout_seconds = 5

        [all]
        sink = "file"
        path = "events.jsonl"
        max_bytes = 1000000
        keep = 2
        pattern = { detail = { status = [{ anything-but = "RUNNING" }] } }

        [aws]
        sink = "eventbridge"
        bus = "orders"
        source = "shop"
        """,
    )
    assert {name: repr(sink) for name, sink in sinks.items()} == {
        "failures": "Webhook(https://hooks.example)",
        "all": f"JsonLines({tmp_path}/events.jsonl)",
        "aws": "EventBridge(EventBridge orders)",
    }
    for signal in (BEGUN, ENDED):
        sinks["all"](signal)
    assert [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()] == [event_of(ENDED)]


HOOK = '[hook]\nsink = "webhook"\nurl = "https://hooks.example"\nsecrets = ["HOOK_SECRET"]\n'


@pytest.mark.parametrize(
    "text, said",
    [
        ("nonsense", "is not TOML"),
        ("hook = 1", "hook must be a table"),
        ("[hook]", "[hook]: sink is missing."),
        ('[hook]\nsink = "pigeon"', "[hook]: there is no sink 'pigeon'. There are webhook, file, eventbridge."),
        ('[hook]\nsink = "webhook"', "[hook]: url is missing."),
        ('[hook]\nsink = "webhook"\nurl = "https://x"', "[hook]: secrets is missing."),
        (HOOK.replace("HOOK_SECRET", "NOT_SET"), "'NOT_SET' is not the name of one."),
        (HOOK.replace("HOOK_SECRET", "EMPTY"), "'EMPTY' is not the name of one."),
        (HOOK.replace("HOOK_SECRET", "SHORT"), "at least 24 bytes"),
        (HOOK.replace("https", "ftp"), "must begin with https://"),
        (HOOK + "tries = '3'", "[hook]: tries must be a whole number."),
        (HOOK + "tries = true", "[hook]: tries must be a whole number."),
        (HOOK + "tris = 3", "[hook]: there is no option 'tris' for this sink."),
        ('["bad name"]\nsink = "file"\npath = "x"', "Subscriber name 'bad name'"),
    ],
)
def test_a_mistake_is_named_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(InvalidParameter) as refused:
        read(tmp_path, text)
    assert said in str(refused.value)
    assert str(tmp_path / "signals.toml") in str(refused.value)
    assert SECRET not in str(refused.value)


def test_a_bad_pattern_is_named_with_its_place(tmp_path: Path) -> None:
    with pytest.raises(PatternInvalid) as refused:
        read(tmp_path, HOOK + "pattern = { detail = { status = 'FAILED' } }")
    assert str(refused.value).startswith(f"{tmp_path / 'signals.toml'}, [hook]: detail.status: must be")


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match="could not be read"):
        read_sinks(tmp_path / "nothing.toml", {}, VirtualClock())

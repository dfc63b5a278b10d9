"""The text of a model while it arrives: gathered into few events, never lost in between, and nothing of it is made without a follower."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.contract.redaction import REDACTED
from holdfast.workers import token_streams
from holdfast.workers.token_streams import MOST_BYTES, TokenStream
from holdfast.workers.tools.secrets import Redactor


class Told:
    """What followers were told."""

    def __init__(self, secrets: dict[str, str] | None = None) -> None:
        self.parts: list[tuple[int, str]] = []
        self.is_followed = True
        self.made = 0
        self._secrets = secrets

    def redactor(self) -> Redactor | None:
        self.made += 1
        return None if self._secrets is None else Redactor(self._secrets)

    def stream(self) -> TokenStream:
        return TokenStream(lambda offset, text: self.parts.append((offset, text)), lambda: self.is_followed, self.redactor)

    @property
    def text(self) -> str:
        assert [offset for offset, _ in self.parts] == [sum(len(text) for _, text in self.parts[:at]) for at in range(len(self.parts))]
        return "".join(text for _, text in self.parts)


async def until(told: Told, length: int) -> None:
    async with asyncio.timeout(20):
        while sum(len(text) for _, text in told.parts) < length:
            await asyncio.sleep(0)


async def test_small_pieces_are_gathered_until_it_is_time_or_an_event_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_streams, "EVERY_SECONDS", 3600.0)
    told = Told({})
    async with told.stream() as add:
        add("first ")
        await until(told, 6)
        for _ in range(MOST_BYTES // 2 - 1):
            add("x ")
        await asyncio.sleep(0)
        assert len(told.parts) == 1
        add("y ")
        await until(told, 6 + MOST_BYTES)
        add("the end")
    assert [len(text) for _, text in told.parts] == [6, MOST_BYTES, 7]
    assert told.text.endswith("x y the end")


async def test_a_text_that_pauses_is_told_without_waiting_for_more() -> None:
    told = Told({})
    async with told.stream() as add:
        add("one ")
        await until(told, 4)
        add("two")
        await until(told, 7)
        add(" three")
    assert told.text == "one two three"


async def test_a_large_piece_is_told_in_parts_that_fit() -> None:
    told, text = Told({}), "漢字 and more " * 2000 + "\ud800"
    async with told.stream() as add:
        add(text)
    assert told.text == text[:-1] + "?"
    assert all(len(part.encode()) <= MOST_BYTES for _, part in told.parts)


async def test_without_a_follower_nothing_is_made_and_little_is_kept() -> None:
    told = Told({"key": "sk-secret-0123456789"})
    told.is_followed = False
    stream = told.stream()
    async with stream as add:
        for _ in range(10_000):
            add("word word ")
        assert len(stream._text) <= 4 * 8 * 1024
    assert (told.parts, told.made) == ([], 0)


async def test_a_follower_that_comes_late_is_told_no_end_of_a_secret() -> None:
    secret = "".join(f"s3cr3t{number:04}" for number in range(1000))  # longer than what is kept
    told = Told({"key": secret})
    told.is_followed = False
    async with told.stream() as add:
        for at in range(0, len(secret), 100):
            add(secret[at : at + 100])
        add(secret)
        told.is_followed = True
        add(" and then")
    assert told.made == 1
    assert not any("s3cr3t" in text for _, text in told.parts)


async def test_with_too_many_secrets_no_text_is_told() -> None:
    told = Told(None)
    async with told.stream() as add:
        add("anything ")
        await until(told, len(REDACTED))
        add("else")
    assert {text for _, text in told.parts} == {REDACTED}


async def test_a_call_that_is_cancelled_tells_nothing_more_and_a_call_that_failed_tells_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_streams, "EVERY_SECONDS", 3600.0)

    async def call(told: Told, end: BaseException) -> None:
        async with told.stream() as add:
            add("begun ")
            await until(told, 6)
            add("rest")
            raise end

    cancelled, failed = Told({}), Told({})
    with pytest.raises(asyncio.CancelledError):
        await call(cancelled, asyncio.CancelledError())
    with pytest.raises(ValueError, match="no"):
        await call(failed, ValueError("no"))
    assert (cancelled.text, failed.text) == ("begun ", "begun rest")


async def test_trouble_with_the_text_does_not_reach_the_call(caplog: pytest.LogCaptureFixture) -> None:
    def broken(offset: int, text: str) -> None:
        raise RuntimeError("no room")

    async with TokenStream(broken, lambda: True, lambda: Redactor({})) as add:
        add("text")
    assert "could not be sent to followers: RuntimeError: no room" in caplog.text

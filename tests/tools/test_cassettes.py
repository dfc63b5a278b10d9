"""Cassettes: recorded once against a real server, played back without it."""

from pathlib import Path
from typing import Any

import pytest

from holdfast.model.errors import InvalidParameter
from holdfast.workers.tools.cassettes import Cassette, CassetteMode, CassetteSettings, cassette_settings
from holdfast.workers.tools.language_model import LanguageModel, ModelSettings
from holdfast.workers.tools.seam import (
    Call,
    CallResult,
    Effect,
    Happened,
    Remaining,
    Reservation,
    ToolFailed,
    Unknown,
    cool_down_keys,
    verdict_on,
)
from holdfast.workers.tools.secrets import Redactor
from tests.tools.calls import a_call, called, failure
from tests.tools.models import a_model

SECRET = "sk-very-secret-key-0123456789"


class Echo:
    """A write tool that answers with what it is given, and counts."""

    name = "echo"
    effect = Effect.WRITE
    arguments_schema = None
    approval = True

    def __init__(self) -> None:
        self.calls = 0

    def reserve(self, arguments: Any, remaining: Remaining) -> Reservation:
        return Reservation()

    async def call(self, call: Call, arguments: Any, reservation: Reservation) -> CallResult:
        self.calls += 1
        if "fail" in arguments:
            raise ToolFailed("rate_limited", f"no {SECRET}", retry_after_seconds=4, closes="tool:echo", known=arguments["fail"] == "known")
        return CallResult({"number": self.calls, **arguments})


def tape(path: Path, mode: CassetteMode) -> Cassette:
    return Cassette(CassetteSettings(mode, str(path)), Redactor({"KEY": SECRET}))


async def test_a_model_is_recorded_with_a_key_and_played_back_without_one(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    question = {"prompt": "Well?", "schema": {"type": "object"}}
    async with a_model() as model:
        model.answer = '{"decision": "yes"}'
        tool = LanguageModel(ModelSettings(base_url=model.url, model="m", api_key=SECRET))
        first = await called(tape(path, CassetteMode.RECORD).wrap(tool), question)
        await tool.close()
    silent = LanguageModel(ModelSettings(base_url="http://127.0.0.1:1", model="m"))
    again = await called(tape(path, CassetteMode.REPLAY).wrap(silent), {"schema": {"type": "object"}, "prompt": "Well?"})
    assert (again, again.result, len(model.asked)) == (first, {"decision": "yes"}, 1)
    assert SECRET not in path.read_text()


async def test_nothing_is_called_in_replay_and_the_order_is_kept(tmp_path: Path) -> None:
    path, echo = tmp_path / "a.jsonl", Echo()
    recording = tape(path, CassetteMode.RECORD).wrap(echo)
    for _ in range(2):
        await called(recording, {"a": 1})
    await failure(recording, {"fail": "known"})
    await failure(recording, {"fail": "unknown"})
    playing = tape(path, CassetteMode.REPLAY).wrap(echo)
    numbers = [(await called(playing, {"a": 1})).result["number"] for _ in range(3)]
    failed = await failure(playing, {"fail": "known"})
    assert (numbers, echo.calls, failed.code, failed.retry_after_seconds, failed.closes) == ([1, 2, 2], 4, "rate_limited", 4, "tool:echo")
    assert "cassette_miss" in str((await failure(playing, {"fail": "unknown"})).details)  # an unknown outcome is not recorded


async def test_a_secret_is_neither_recorded_nor_needed_to_find_the_call_again(tmp_path: Path) -> None:
    path, echo = tmp_path / "a.jsonl", Echo()
    recording = tape(path, CassetteMode.RECORD).wrap(echo)
    await called(recording, {"header": f"Bearer {SECRET}"})
    await failure(recording, {"fail": "known"})
    assert SECRET not in path.read_text()
    assert (await called(tape(path, CassetteMode.REPLAY).wrap(echo), {"header": "Bearer [redacted:KEY]"})).result["number"] == 1


async def test_a_miss_names_the_nearest(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    recording = tape(path, CassetteMode.RECORD).wrap(Echo())
    await called(recording, {"order": "4711", "cents": 100})
    await called(recording, {"something": "else entirely"})
    miss = await failure(tape(path, CassetteMode.REPLAY).wrap(Echo()), {"order": "4712", "cents": 100})
    assert (miss.code, 'nearest {"cents":100,"order":"4711"}' in miss.message, "record:a.jsonl" in miss.message) == (
        "tool_failed",
        True,
        True,
    )
    other = await failure(tape(path, CassetteMode.REPLAY).wrap(LanguageModel()), {"prompt": "x"})
    assert "none of that tool at all (it has calls of: echo)" in other.message


async def test_a_taped_tool_is_the_tool_in_everything_else(tmp_path: Path) -> None:
    taped: Any = tape(tmp_path / "a.jsonl", CassetteMode.RECORD).wrap(Echo())
    assert (taped.name, taped.effect, taped.approval, cool_down_keys(taped, {})) == ("echo", Effect.WRITE, True, ("tool:echo",))
    assert await verdict_on(taped, a_call("echo"), {}) == Unknown()


class Findable(Echo):
    """A tool that looks in the real world whether a call took place, and counts how often."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    async def reconcile(self, call: Call, arguments: Any) -> Happened:
        self.asked += 1
        return Happened({"found": True})


async def test_a_lost_call_is_looked_up_in_the_real_world_when_recording_and_never_when_replaying(tmp_path: Path) -> None:
    path, tool = tmp_path / "a.jsonl", Findable()
    recording = tape(path, CassetteMode.RECORD).wrap(tool)
    await called(recording, {"a": 1})
    assert (await verdict_on(recording, a_call("echo"), {"a": 1}), tool.asked) == (Happened({"found": True}), 1)
    playing = tape(path, CassetteMode.REPLAY).wrap(tool)
    assert (await verdict_on(playing, a_call("echo"), {"a": 1}), tool.asked) == (Unknown(), 1), "a person decides"


def test_off_changes_nothing(tmp_path: Path) -> None:
    echo = Echo()
    assert Cassette(CassetteSettings()).wrap(echo) is echo


def test_a_cassette_for_some_tools_leaves_the_others_alone(tmp_path: Path) -> None:
    echo, model = Echo(), LanguageModel()
    cassette = Cassette(CassetteSettings(CassetteMode.RECORD, str(tmp_path / "a.jsonl"), ("language_model",)))
    assert (cassette.wrap(echo) is echo, cassette.wrap(model) is model) == (True, False)


@pytest.mark.parametrize("text,settings", [
    (None, CassetteSettings()), ("off", CassetteSettings()), ("", CassetteSettings()),
    ("record:a/b:c.jsonl", CassetteSettings(CassetteMode.RECORD, "a/b:c.jsonl")),
    ("replay:x", CassetteSettings(CassetteMode.REPLAY, "x")),
])  # fmt: skip
def test_the_setting_is_one_word_and_a_file(text: str | None, settings: CassetteSettings) -> None:
    assert cassette_settings(text) == settings


@pytest.mark.parametrize("text", ["on", "record", "replay:", "off:x"])
def test_a_setting_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InvalidParameter, match="record:FILE"):
        cassette_settings(text)


@pytest.mark.parametrize(
    "line",
    [
        "no json",
        "[]",
        '{"tool": "x"}',
        '{"tool": "x", "arguments": {}}',
        '{"tool": "x", "arguments": {}, "result": 1, "usage": {"cost_usd": "x"}}',
    ],
)
def test_a_broken_cassette_is_named_with_its_line(tmp_path: Path, line: str) -> None:
    (tmp_path / "a.jsonl").write_text('{"tool": "x", "arguments": {}, "result": 1}\n' + line + "\n")
    with pytest.raises(InvalidParameter, match=r"Line 2 of the cassette a\.jsonl"):
        tape(tmp_path / "a.jsonl", CassetteMode.REPLAY)
    with pytest.raises(InvalidParameter, match="cannot be read"):
        tape(tmp_path / "none.jsonl", CassetteMode.REPLAY)

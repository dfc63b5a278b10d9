"""An answer that the model's server streams: the same result and the same bill as in one piece, whatever the server sends."""

import asyncio
import gzip
import tracemalloc
from collections.abc import AsyncIterator
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from holdfast.workers.tools import model_streams
from holdfast.workers.tools.cassettes import Cassette, CassetteMode, CassetteSettings
from holdfast.workers.tools.language_model import LanguageModel, ModelSettings
from holdfast.workers.tools.prices import prices_of
from holdfast.workers.tools.seam import CallResult, Remaining, ToolFailed, Usage
from holdfast.workers.tools.token_estimate import estimated_tokens
from tests.tools.calls import a_call, failure
from tests.tools.models import Model, a_model, event_of
from tests.tools.servers import head

KEY = "sk-very-secret-key-0123456789"
PRICES = prices_of({"m": {"input": "1", "output": "10"}})


@pytest.fixture
async def model() -> AsyncIterator[Model]:
    async with a_model() as made:
        yield made


@pytest.fixture
async def tool(model: Model) -> AsyncIterator[LanguageModel]:
    made = LanguageModel(ModelSettings(base_url=model.url, model="m", api_key=KEY, prices=PRICES, max_output_tokens=500))
    yield made
    await made.close()


async def heard(tool: Any, arguments: dict[str, Any], told: list[str], seconds: float = 20.0) -> CallResult:
    """The result of a call whose text is told to this list."""
    call = msgspec.structs.replace(a_call(tool.name, seconds=seconds), hears=told.append)
    called: CallResult = await tool.call(call, arguments, tool.reserve(arguments, Remaining()))
    return called


async def test_a_streamed_answer_has_the_result_and_the_bill_of_a_whole_one_and_is_told_as_it_arrives(
    model: Model, tool: LanguageModel
) -> None:
    whole: list[str] = []
    in_one_piece = await heard(tool, {"prompt": "Say hello."}, whole)
    parts: list[str] = []
    model.streams("Hel")
    calling = asyncio.create_task(heard(tool, {"prompt": "Say hello."}, parts))
    async with asyncio.timeout(10):
        while not parts:
            await asyncio.sleep(0)
    before_the_end = list(parts)
    model.streams("lo.", None)
    streamed = await calling
    assert (before_the_end, parts, whole) == (["Hel"], ["Hel", "lo."], ["Hello."])
    assert streamed == in_one_piece == CallResult("Hello.", Usage(11, 3, Decimal("0.000041")))
    assert [(asked["stream"], asked["stream_options"]) for asked in model.asked] == [(True, {"include_usage": True})] * 2
    assert model.counted == 28


async def test_an_operator_may_forbid_streams(model: Model) -> None:
    tool = LanguageModel(ModelSettings(base_url=model.url, model="m", stream=False))
    assert (await heard(tool, {"prompt": "x"}, [])).result == "Hello."
    assert "stream" not in model.asked[0]
    await tool.close()


async def test_a_server_that_refuses_streams_is_told_with_the_setting_that_helps(model: Model, tool: LanguageModel) -> None:
    model.status, model.error = 400, {"message": "unknown field `stream_options`."}
    refused = await failure(tool, {"prompt": "x"})
    assert (refused.code, refused.known, "stream = false" in refused.message) == ("tool_failed", True, True)


async def test_a_server_that_counts_nothing_in_its_stream_is_taken_to_have_used_all(model: Model, tool: LanguageModel) -> None:
    model.usage = None
    model.streams("Hello.", None)
    reserved = tool.reserve({"prompt": "x"}, Remaining())
    spent = (await heard(tool, {"prompt": "x"}, [])).usage
    assert (spent.input_tokens + spent.output_tokens, spent.cost_usd) == (reserved.tokens, reserved.cost_usd)


async def test_a_stream_with_a_schema_gives_the_value_and_a_cut_one_is_told_as_cut(model: Model, tool: LanguageModel) -> None:
    model.streams('{"a', '": 1}', None, "And so", None)
    assert (await heard(tool, {"prompt": "x", "schema": {"type": "object"}}, [])).result == {"a": 1}
    model.finish_reason = "length"
    cut = await failure(tool, {"prompt": "x"})
    assert (cut.code, cut.details, cut.usage.output_tokens) == ("budget_exceeded", {"reason": "truncated"}, 3)


GOOD = event_of({"delta": {"content": "Hello."}}) + event_of({"delta": {}, "finish_reason": "stop"})


@pytest.mark.parametrize("sent", [
    [bytes([byte]) for byte in event_of({"delta": {"content": "Hello."}})], [b": a comment\n\nevent: message\nretry: 5\n", "Hello."],
    [b"data:\n\ndata: {}\n\n", "Hello."], [event_of({"delta": {"content": "Hel"}}).replace(b"\n", b"\r\n"), "lo."],
    [event_of({"index": 1, "delta": {"content": "another choice"}}), "Hello."], ["", "Hello."],
    [event_of({"delta": {"content": 7, "refusal": None}}), "Hello."],
])  # fmt: skip
async def test_unusual_streams_give_the_same_text(model: Model, tool: LanguageModel, sent: list[Any]) -> None:
    model.streams(*sent, None)
    assert (await heard(tool, {"prompt": "x"}, [])).result == "Hello."


async def test_a_server_that_says_done_and_does_not_hang_up_is_not_waited_for(model: Model, tool: LanguageModel) -> None:
    model.streams(GOOD, b"data: [DONE]\n\n")  # and no end
    assert (await heard(tool, {"prompt": "x"}, [], seconds=60)).result == "Hello."


@pytest.mark.parametrize(
    "sent,says",
    [
        ([b"data: not json\n\n"], "cannot be read"),
        ([b'data: {"choices":[{"delta":{"content":"\xff\xfe"}}]}\n\n'], "cannot be read"),
        ([b"data: [1]\n\n"], "not a JSON object"),
        ([b"data: " + b"[" * 1500 + b"\n\n"], "nested more than 200 levels"),
        ([b'data: {"error": {"message": "out of memory, sk-very-secret-key-0123456789"}}\n\n'], "out of memory"),
        ([b"data: " + b"x" * 3000], "a line of more than 2,000 bytes"),
        (["y" * 600, "y" * 600], "a text of more than 1,000 characters"),
        ([b": " + b"z" * 1000 + b"\n\n"] * 7, "an answer of more than 6,000 bytes"),
    ],
)
async def test_a_hostile_stream_ends_with_a_named_error_and_what_arrived_is_paid_for(
    model: Model, tool: LanguageModel, sent: list[Any], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, most in {"MOST_LINE": 2_000, "MOST_TEXT": 1_000, "MOST_BYTES": 6_000}.items():
        monkeypatch.setattr(model_streams, name, most)
    model.streams("So far. ", *sent)  # the stream has no end: only the limit ends the call
    error = await failure(tool, {"prompt": "x"}, seconds=60)
    assert (error.code, error.known, KEY in error.message) == ("tool_unavailable", False, False)
    assert says in error.message
    reserved = tool.reserve({"prompt": "x"}, Remaining())
    assert error.usage.input_tokens == reserved.tokens - 500
    assert error.usage.output_tokens >= estimated_tokens("So far. ")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le"])
@pytest.mark.parametrize("in_stream", [True, False])
async def test_an_answer_of_too_many_values_is_not_parsed(model: Model, tool: LanguageModel, in_stream: bool, encoding: str) -> None:
    """Eight megabytes of empty lists took the event loop most of a second. In UTF-16 a letter may have the bytes of a quote."""
    crowd = ('{"\u0122":[' + "[]," * 30_000 + "[]]}").encode(encoding)
    if in_stream:
        model.streams("So far. ", b"data: " + crowd + b"\n\n")
    else:
        model.body = crowd
    error = await failure(tool, {"prompt": "x"})
    assert (error.code, error.known) == ("tool_unavailable", False)
    assert ("holds more than 20000 objects and lists" if encoding == "utf-8" else "holds the byte 0") in error.message


def test_the_text_of_an_answer_that_broke_off_is_found_without_a_step_for_each_character() -> None:
    """The engine of regular expressions kept a hundred bytes for each character, and took seconds for an answer of the largest size."""
    answer = model_streams.WholeAnswer()
    answer.take(b'{"choices":[{"message":{"content" : "' + rb"\"\\ " * 100_000)
    tracemalloc.start()
    text = answer.text
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (text, peak < 8 * len(text)) == (r"\"\\ " * 100_000, True)
    answer.take(b'","content":"more"}}]}')
    assert answer.text == text


@pytest.mark.parametrize("status, says", [(200, "compressed answer"), (400, "answered 400")])
async def test_a_compressed_answer_is_not_asked_for_and_refused_and_a_broken_error_is_told_by_its_status(
    model: Model, tool: LanguageModel, status: int, says: str
) -> None:
    """Forty kilobytes of line breaks, unpacked, took the event loop half a minute."""
    kind = "text/event-stream" if status == 200 else "application/json"
    model.status, model.headers = status, {"content-type": kind, "content-encoding": "gzip"}
    model.body = b"no gzip: to unpack it would fail in another way"
    error = await failure(tool, {"prompt": "x"})
    assert (error.known, says in error.message) == (status == 400, True)
    assert model.web.asked[0].headers["accept-encoding"] == "identity"


async def test_the_reason_of_a_compressed_error_is_read(model: Model, tool: LanguageModel) -> None:
    """Some servers compress errors although the request does not allow it."""
    reason = b'{"error": {"message": "You exceeded your quota", "code": "insufficient_quota"}}'
    model.status, model.headers = 429, {"content-type": "application/json", "content-encoding": "gzip"}
    model.body = gzip.compress(reason)
    error = await failure(tool, {"prompt": "x"})
    assert (error.code, "quota" in error.message) == ("tool_failed", True)


async def test_of_an_error_without_end_only_the_beginning_is_read(model: Model, tool: LanguageModel) -> None:
    sent = 0

    async def endless(asked: Any, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(head(400, {"content-type": "application/json"}) + b'{"error": {"message": "')
        while sent < 64 * 1024 * 1024:
            writer.write(b"y" * 65536)
            await writer.drain()
            sent += 65536

    model.web.pages["/v1/chat/completions"] = endless
    error = await failure(tool, {"prompt": "x"}, seconds=60)
    assert (error.code, "answered 400" in error.message, sent < 64 * 1024 * 1024) == ("tool_failed", True, True)


async def test_a_stream_that_breaks_off_is_no_answer(model: Model, tool: LanguageModel) -> None:
    async def broken(asked: Any, writer: asyncio.StreamWriter) -> None:
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n" + event_of({"delta": {"content": "Hel"}})
        )

    model.web.pages["/v1/chat/completions"] = broken
    error = await failure(tool, {"prompt": "x"})
    assert (error.code, error.known, "before its answer was complete" in error.message) == ("tool_unavailable", False, True)
    assert error.usage.output_tokens == estimated_tokens("Hel")


USED = b'data: {"choices":[],"usage":{"prompt_tokens":11,"completion_tokens":3}}\n\n'


@pytest.mark.parametrize("begins, is_reported", [(GOOD + USED, True), (USED + event_of({"delta": {"content": "Hello."}}), False)])
async def test_a_stream_that_breaks_after_the_count_of_its_whole_answer_is_billed_by_that_count(
    model: Model, tool: LanguageModel, begins: bytes, is_reported: bool
) -> None:
    """A count that comes before the end of the answer is a running one, and says nothing about the whole."""
    model.streams(begins, b'data: {"error": {"message": "out of memory"}}\n\n')
    error = await failure(tool, {"prompt": "x"})
    assert (error.code, error.known) == ("tool_unavailable", False)
    assert (error.usage == Usage(11, 3, Decimal("0.000041")), error.usage.is_estimated) == (is_reported, not is_reported)


async def test_a_whole_answer_that_never_ends_is_limited_too(model: Model, tool: LanguageModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_streams, "MOST_TEXT", 1_000)
    model.answer = "y" * 3000
    error = await failure(tool, {"prompt": "x"})
    assert (error.code, "more than 2,000 bytes" in error.message) == ("tool_unavailable", True)


async def test_a_recorded_answer_is_told_as_one_text_and_a_stream_is_recorded_as_its_whole(
    model: Model, tool: LanguageModel, tmp_path: Any
) -> None:
    path = str(tmp_path / "cassette.jsonl")
    model.streams("Hel", "lo.", None)
    recording = Cassette(CassetteSettings(CassetteMode.RECORD, path)).wrap(tool)
    recorded: list[str] = []
    first = await heard(recording, {"prompt": "x"}, recorded)
    playing = Cassette(CassetteSettings(CassetteMode.REPLAY, path)).wrap(tool)
    played: list[str] = []
    again = await heard(playing, {"prompt": "x"}, played)
    assert (first, "".join(recorded), played) == (again, "Hello.", ["Hello."])
    with pytest.raises(ToolFailed, match="cassette"):
        await heard(playing, {"prompt": "another"}, played)

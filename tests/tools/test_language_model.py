"""language_model, against a real server that speaks the protocol and counts."""

import asyncio
import importlib.abc
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from decimal import Decimal
from typing import Any

import pytest

from holdfast.hosts.evaluator import evaluator_pool
from holdfast.model.errors import InvalidParameter
from holdfast.workers.tools import schema_checks
from holdfast.workers.tools.language_model import LanguageModel, ModelSettings
from holdfast.workers.tools.prices import prices_of
from holdfast.workers.tools.seam import Effect, Remaining, Reservation, ToolFailed, Usage
from holdfast.workers.tools.token_estimate import estimated_tokens
from tests.tools.calls import called, failure
from tests.tools.models import Model, a_model

KEY = "sk-very-secret-key-0123456789"
PRICES = prices_of({"m": {"input": "1", "output": "10", "cached_input": 0.5}})
VERDICT = {"type": "object", "required": ["decision"], "properties": {"decision": {"enum": ["yes", "no"]}}, "additionalProperties": False}


@pytest.fixture
async def model() -> AsyncIterator[Model]:
    async with a_model() as made:
        yield made


@pytest.fixture
async def tool(model: Model) -> AsyncIterator[LanguageModel]:
    made = LanguageModel(ModelSettings(base_url=model.url, model="m", models=("other",), api_key=KEY, prices=PRICES, max_output_tokens=500))
    yield made
    await made.close()


async def test_a_prompt_is_answered_and_the_servers_count_is_the_bill(model: Model, tool: LanguageModel) -> None:
    result = await called(tool, {"prompt": "Say hello.", "system": "Be brief.", "temperature": 0})
    assert (result.result, result.usage) == ("Hello.", Usage(11, 3, Decimal("0.000041")))
    (asked,) = model.asked
    assert asked["messages"] == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Say hello."}]
    assert (asked["max_tokens"], asked["temperature"], "response_format" in asked) == (500, 0, False)
    assert model.web.asked[0].headers["authorization"] == f"Bearer {KEY}"
    assert (tool.effect, model.counted) == (Effect.READ, 14)


async def test_without_a_key_nobody_is_asked_and_the_setting_is_named() -> None:
    refused = await failure(LanguageModel(ModelSettings(model="m")), {"prompt": "Well?"})
    assert (refused.code, refused.known, "HOLDFAST_MODEL_KEY" in refused.message) == ("access_denied", True, True)


async def test_input_that_the_server_had_kept_costs_less(model: Model, tool: LanguageModel) -> None:
    model.usage = {"prompt_tokens": 1000, "completion_tokens": 0, "total_tokens": 1000, "prompt_tokens_details": {"cached_tokens": 400}}
    assert (await called(tool, {"prompt": "x"})).usage.cost_usd == Decimal("0.0008")


async def test_a_server_that_counts_nothing_is_taken_to_have_used_all(model: Model, tool: LanguageModel) -> None:
    model.usage = None
    reserved = tool.reserve({"prompt": "x"}, Remaining())
    spent = (await called(tool, {"prompt": "x"})).usage
    assert (spent.input_tokens + spent.output_tokens, spent.cost_usd) == (reserved.tokens, reserved.cost_usd)


# --- structure


async def test_with_a_schema_the_result_is_the_value(model: Model, tool: LanguageModel) -> None:
    model.answer = '{"decision": "yes"}'
    assert (await called(tool, {"prompt": "Well?", "schema": VERDICT})).result == {"decision": "yes"}
    assert model.asked[0]["response_format"] == {"type": "json_schema", "json_schema": {"name": "answer", "schema": VERDICT}}


async def test_the_checks_of_a_schema_and_of_its_value_are_made_for_the_tenant(
    model: Model, tool: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    charged: list[str | None] = []

    async def examined(schema: Any, who: str) -> None:
        charged.append(evaluator_pool._tenant_of(who))

    async def problems_in(schema: Any, value: Any, who: str) -> tuple[()]:
        charged.append(evaluator_pool._tenant_of(who))
        return ()

    monkeypatch.setattr(schema_checks, "examined", examined)
    monkeypatch.setattr(schema_checks, "problems_in", problems_in)
    model.answer = '{"decision": "yes"}'
    await called(tool, {"prompt": "Well?", "schema": VERDICT}, tenant="acme")
    assert charged == ["acme", "acme"]


async def test_a_server_that_knows_no_schemas_gets_it_in_the_prompt(model: Model) -> None:
    tool = LanguageModel(ModelSettings(base_url=model.url, model="m", schema_mode="json_object", cap_field="max_completion_tokens"))
    model.answer = '{"decision": "no"}'
    assert (await called(tool, {"prompt": "Well?", "schema": VERDICT})).result == {"decision": "no"}
    (asked,) = model.asked
    assert (asked["response_format"], "additionalProperties" in asked["messages"][0]["content"]) == ({"type": "json_object"}, True)
    assert asked["max_completion_tokens"] > 0
    await tool.close()


@pytest.mark.parametrize(
    "answer,path", [('{"decision": "perhaps"}', "/decision"), ("yes", ""), ("{}", ""), ('{"decision": NaN}', ""), ("[" * 100_000, "")]
)
async def test_an_answer_that_does_not_fit_is_told_as_such_and_paid_for(model: Model, tool: LanguageModel, answer: str, path: str) -> None:
    model.answer = answer
    error = await failure(tool, {"prompt": "Well?", "schema": VERDICT})
    assert (error.code, error.known, error.usage.input_tokens) == ("output_schema_mismatch", True, 11)
    assert error.details is not None
    assert error.details["problems"][0]["path"] == path


async def test_a_schema_that_is_none_is_refused_before_anybody_is_asked(model: Model, tool: LanguageModel) -> None:
    error = await failure(tool, {"prompt": "x", "schema": {"type": "nonsense"}})
    assert (error.code, error.details, model.asked) == ("tool_failed", {"reason": "schema"}, [])


async def test_a_refusal_and_a_cut_answer_are_clear(model: Model, tool: LanguageModel) -> None:
    model.refusal = "I cannot help with that."
    refused = await failure(tool, {"prompt": "x"})
    model.refusal, model.finish_reason = None, "length"
    cut = await failure(tool, {"prompt": "x", "max_output_tokens": 3})
    assert (refused.code, refused.details, refused.usage.output_tokens) == ("tool_failed", {"reason": "refusal"}, 3)
    assert (cut.code, cut.details, "limit of 3" in cut.message, cut.usage.output_tokens) == (
        "budget_exceeded",
        {"reason": "truncated"},
        True,
        3,
    )


# --- budget


def test_the_output_gets_what_the_budget_leaves(tool: LanguageModel) -> None:
    assert tool.reserve({"prompt": "hi"}, Remaining()).output_tokens == 500
    tight = tool.reserve({"prompt": "hi"}, Remaining(tokens=100))
    assert (tight.tokens, 0 < (tight.output_tokens or 0) < 100) == (100, True)
    assert tool.reserve({"prompt": "hi", "max_output_tokens": 7}, Remaining()).output_tokens == 7
    assert tool.reserve({"prompt": "hi", "max_output_tokens": 9_999}, Remaining()).output_tokens == 500


def test_the_output_gets_what_the_money_pays_for(tool: LanguageModel) -> None:
    money = Decimal("0.001")
    reserved = tool.reserve({"prompt": "hi"}, Remaining(cost_usd=money))
    assert (reserved.cost_usd <= money, 90 < (reserved.output_tokens or 0) < 100) == (True, True)


@pytest.mark.parametrize(
    "remaining", [Remaining(tokens=10), Remaining(tokens=0), Remaining(cost_usd=Decimal("0.00005")), Remaining(cost_usd=Decimal(0))]
)
def test_nothing_is_asked_beyond_the_budget(tool: LanguageModel, remaining: Remaining) -> None:
    with pytest.raises(ToolFailed, match="budget_exceeded"):
        tool.reserve({"prompt": "hi there"}, remaining)


async def test_the_cap_is_sent_upstream(model: Model, tool: LanguageModel) -> None:
    await called(tool, {"prompt": "hi"}, Remaining(tokens=90))
    assert model.asked[0]["max_tokens"] == tool.reserve({"prompt": "hi"}, Remaining(tokens=90)).output_tokens


def test_a_model_without_a_price_does_not_run_under_a_cost_cap(tool: LanguageModel) -> None:
    with pytest.raises(ToolFailed, match="price_unknown"):
        tool.reserve({"prompt": "hi", "model": "other"}, Remaining(cost_usd=Decimal(5)))
    assert tool.reserve({"prompt": "hi", "model": "other"}, Remaining()).cost_usd == 0


def test_a_model_that_the_operator_does_not_name_is_refused(tool: LanguageModel) -> None:
    with pytest.raises(ToolFailed, match="m, other"):
        tool.reserve({"prompt": "hi", "model": "the-most-expensive"}, Remaining())


@pytest.mark.parametrize("text,tokens", [
    ("The quick brown fox jumps over the lazy dog. " * 20, 200), ("Donaudampfschifffahrtsgesellschaft", 10), ('{"a": [1, 2, 3]}', 11),
    ("日本語のテキスト", 8), ("1234567890" * 3, 10), ("naïve café", 5), (chr(0x1F600) * 10, 20),
])  # fmt: skip
def test_the_estimate_is_rather_too_high(text: str, tokens: int) -> None:
    """The numbers are about what tokenizers in use make of such texts."""
    assert tokens <= estimated_tokens(text) <= 4 * tokens + 8


def test_the_estimate_of_a_long_text_looks_at_no_single_character() -> None:
    """A worker's caller chooses the prompt, and the estimate is made on the event loop: a third of a second for six megabytes, one
    character after the other."""

    class Long(str):
        def __iter__(self) -> Iterator[str]:
            raise AssertionError("one character after the other")

    assert estimated_tokens(Long("a b1é" * 100)) == 100 + 100 + 100


def test_a_price_that_is_none_is_refused() -> None:
    for row in ({"input": 1}, {"input": -1, "output": 1}, {"input": "x", "output": 1}, {"input": 1, "output": 1, "more": 1}):
        with pytest.raises(InvalidParameter, match="price of 'm'"):
            prices_of({"m": row})


# --- trouble


@pytest.mark.parametrize("status,headers,error,code,known", [
    (429, {"retry-after": "7"}, {}, "rate_limited", True), (429, {"retry-after-ms": "1500"}, {}, "rate_limited", True),
    (429, {"retry-after-ms": "600000"}, {}, "rate_limited", True), (429, {"retry-after-ms": "soon"}, {}, "rate_limited", True),
    (429, {"retry-after-ms": "9e99"}, {}, "rate_limited", True),
    (429, {}, {}, "rate_limited", True), (429, {}, {"code": "insufficient_quota"}, "tool_failed", True),
    (503, {"retry-after": "3"}, {}, "rate_limited", True),
    (500, {}, {}, "tool_unavailable", True), (503, {}, {}, "tool_unavailable", True), (401, {}, {}, "access_denied", True),
    (403, {}, {}, "access_denied", True), (400, {}, {}, "tool_failed", True), (404, {}, {}, "tool_failed", True),
    (302, {"location": "http://127.0.0.1:1/"}, {}, "tool_failed", True),
])  # fmt: skip
async def test_a_refusal_of_the_server_is_told_by_its_meaning(
    model: Model, tool: LanguageModel, status: int, headers: dict[str, str], error: dict[str, Any], code: str, known: bool
) -> None:
    model.status, model.headers, model.error = status, headers, {"message": f"no, not with {KEY}"} | error
    told = await failure(tool, {"prompt": "x"})
    assert (told.code, told.known, KEY in told.message) == (code, known, False), told.message
    if code == "rate_limited":
        wanted = {"7": 7, "1500": 1.5, "3": 3, "600000": 600, "9e99": 86_400}.get(next(iter(headers.values()), ""), 60)
        assert (told.retry_after_seconds, told.closes) == (wanted, "tool:language_model")
    assert len(model.asked) == 1  # no retries of its own


async def unanswered(model: Model, tool: LanguageModel) -> ToolFailed:
    """How a call fails whose time is over after the server was asked: on a busy machine, a short time is over before that."""
    seconds = 0.4
    while (error := await failure(tool, {"prompt": "x"}, seconds=seconds)).known and not model.asked:
        seconds *= 2
    return error


async def test_a_silent_server_is_a_timeout_and_its_outcome_unknown(model: Model, tool: LanguageModel) -> None:
    model.silent = True
    error = await unanswered(model, tool)
    assert (error.code, error.known) == ("tool_timeout", False)
    assert (await failure(tool, {"prompt": "x"}, seconds=-1)).known


async def test_an_answer_that_comes_a_byte_at_a_time_is_a_timeout_too(model: Model, tool: LanguageModel) -> None:
    model.dribbles = 0.05
    error = await unanswered(model, tool)
    assert (error.code, error.known) == ("tool_timeout", False)


@pytest.mark.parametrize(
    "body", [b"", b"not json", b"[]", b'{"choices": []}', b'{"choices": [{}]}', b'{"choices": [{"message": {"content": 7}}]}']
)
async def test_nonsense_from_the_server_is_no_traceback(model: Model, tool: LanguageModel, body: bytes) -> None:
    model.body = body
    assert (await failure(tool, {"prompt": "x"})).code in ("tool_unavailable", "tool_failed")


async def test_a_server_that_is_not_there_is_unavailable(model: Model) -> None:
    tool = LanguageModel(ModelSettings(base_url="http://127.0.0.1:1/v1", model="m"))
    error = await failure(tool, {"prompt": "x"})
    assert (error.code, error.known) == ("tool_unavailable", True)
    await tool.close()


async def test_the_environment_has_no_say(model: Model, tool: LanguageModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1")
    assert (await called(tool, {"prompt": "x"})).result == "Hello."


async def test_the_key_is_in_no_result_and_no_text_of_the_settings(model: Model, tool: LanguageModel) -> None:
    model.answer = f"your key is {KEY}"
    assert (await called(tool, {"prompt": "x"})).result == "your key is [redacted:model_key]"
    assert KEY not in repr(ModelSettings(api_key=KEY))


async def test_what_fifty_calls_settled_is_what_the_server_counted(model: Model, tool: LanguageModel) -> None:
    results = await asyncio.gather(*(called(tool, {"prompt": f"x{at}"}) for at in range(50)))
    assert sum(result.usage.input_tokens + result.usage.output_tokens for result in results) == model.counted == 50 * 14


async def test_without_the_package_the_command_to_install_it_is_named(tool: LanguageModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    error = await failure(tool, {"prompt": "x"})
    assert (error.code, error.known, "pip install 'holdfast[llm]'" in error.message) == ("tool_failed", True, True)


def test_a_reservation_is_plain_data() -> None:
    assert Reservation() == Reservation(0, Decimal(0), None)


async def test_the_package_of_the_model_is_loaded_beside_the_loop(
    model: Model, tool: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded_on: list[threading.Thread] = []

    class Watching(importlib.abc.MetaPathFinder):
        def find_spec(self, name: str, path: Any, target: Any = None) -> None:
            if name == "openai":
                loaded_on.append(threading.current_thread())
                raise ImportError(name)

    monkeypatch.delitem(sys.modules, "openai", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Watching(), *sys.meta_path])
    assert (await failure(tool, {"prompt": "x"})).code == "tool_failed"
    assert loaded_on
    assert threading.current_thread() not in loaded_on

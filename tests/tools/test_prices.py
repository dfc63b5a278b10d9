"""Prices: by the operator's table, by an optional list, with their source and date; costs are whole billionths of a dollar."""

from __future__ import annotations

import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from importlib.metadata import version
from types import SimpleNamespace
from typing import Any

import genai_prices
import pytest

from holdfast.model.clock import VirtualClock
from holdfast.model.errors import InvalidParameter
from holdfast.workers.tools import listed_prices
from holdfast.workers.tools.language_model import LanguageModel, ModelSettings
from holdfast.workers.tools.model_answers import parts_of
from holdfast.workers.tools.prices import Price, prices_of
from holdfast.workers.tools.seam import Remaining, ToolFailed

ROW: dict[str, Any] = {"input": 0.15, "output": 0.6}


def test_a_price_says_where_it_is_from_and_for_which_day() -> None:
    (price,) = prices_of({"m": {**ROW, "source": "contract 17", "as_of": date(2026, 11, 1)}}).values()
    assert (price.source, price.as_of) == ("contract 17", "2026-11-01")
    reserved = LanguageModel(ModelSettings(model="m", prices={"m": price})).reserve({"prompt": "hm"}, Remaining())
    assert (reserved.model, reserved.price_source, reserved.price_date) == ("m", "contract 17", "2026-11-01")


@pytest.mark.parametrize(
    "row", [{**ROW, "source": ""}, {**ROW, "source": "x" * 101}, {**ROW, "as_of": 7}, {**ROW, "colour": "red"}, {"input": 1}]
)
def test_a_price_that_cannot_be_meant_is_refused(row: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter, match="The price of 'm'"):
        prices_of({"m": row})


def test_costs_are_whole_billionths_of_a_dollar_rounded_up() -> None:
    price = Price(input=Decimal("0.0375"), output=Decimal("0.15"), cached_input=Decimal("0.01"))
    assert price.cost(1, 0) == Decimal("0.000000038")
    assert price.cost(1000, 10, cached_tokens=400) == (600 * price.input + 400 * Decimal("0.01") + 10 * price.output) / 1_000_000
    assert price.dearest == Decimal("0.00000015")


@pytest.mark.parametrize(
    "reported, parts",
    [
        ({"prompt_tokens_details": {"cached_tokens": 4}, "completion_tokens_details": {"reasoning_tokens": 2}}, (4, 2)),
        ({"prompt_tokens_details": {"cached_tokens": 99}, "completion_tokens_details": {"reasoning_tokens": 99}}, (10, 5)),
        ({"prompt_tokens_details": None, "completion_tokens_details": []}, (0, 0)),
        ({"prompt_tokens_details": {"cached_tokens": "4"}, "completion_tokens_details": {"reasoning_tokens": -1}}, (0, 0)),
        ({}, (0, 0)),
    ],
)
def test_cached_and_reasoning_tokens_are_parts_of_what_the_server_reports(reported: dict[str, Any], parts: tuple[int, int]) -> None:
    assert parts_of(reported, 10, 5) == parts


def listed(model: str, **more: Any) -> ModelSettings:
    given: dict[str, Any] = {"base_url": "https://api.openai.com/v1", "price_source": "genai-prices", **more}
    return ModelSettings(model=model, **given)


def test_a_model_that_the_table_does_not_have_gets_the_listed_price_of_its_server() -> None:
    """By the package itself: what it says of its prices is what we read."""
    settings = listed("gpt-4.1-mini", models=("none", "own"), prices=prices_of({"own": ROW}))
    price, own = settings.price_of("gpt-4.1-mini"), settings.price_of("own")
    assert price is not None
    assert (price.input, price.output, price.cached_input) == (Decimal("0.4"), Decimal("1.6"), Decimal("0.1"))
    assert price.source == f"genai-prices {version('genai-prices')}"
    assert date.fromisoformat(price.as_of) >= date(2026, 1, 1), "the day on which the list was read"
    assert own is not None
    assert own.source == "holdfast.toml"
    assert listed("gpt-4.1-mini", base_url="http://127.0.0.1:1/v1").price_of("gpt-4.1-mini") is None, "another server"
    with pytest.raises(ToolFailed) as unknown:
        LanguageModel(settings).reserve({"prompt": "hm", "model": "none"}, Remaining(cost_usd=Decimal(1)))
    assert unknown.value.code == "price_unknown"


@pytest.mark.parametrize(
    "server, model",
    [
        pytest.param("https://api.deepseek.com", "deepseek-chat", id="cheaper in some hours"),
        pytest.param("https://generativelanguage.googleapis.com/v1beta/openai", "gemini-2.5-pro", id="dearer for long prompts"),
    ],
)
def test_a_listed_price_that_depends_on_the_hour_or_the_amount_is_no_price(server: str, model: str) -> None:
    assert genai_prices.calc_price(genai_prices.Usage(input_tokens=1), model, provider_api_url=server).total_price > 0
    assert listed(model, base_url=server).price_of(model) is None


def test_a_listed_price_that_will_change_is_no_price_and_one_that_has_changed_is(monkeypatch: pytest.MonkeyPatch) -> None:
    changes = {"soon": datetime(2998, 1, 1, tzinfo=UTC), "lately": datetime(2026, 1, 1, tzinfo=UTC)}

    def calc_price(usage: Any, model: str, *, genai_request_timestamp: datetime, **_: Any) -> Any:
        now = Decimal(2 if genai_request_timestamp >= changes[model] else 1)
        return SimpleNamespace(model_price=SimpleNamespace(input_mtok=now, output_mtok=now))

    monkeypatch.setattr(genai_prices, "calc_price", calc_price)
    listed_prices._price_on.cache_clear()
    found = {model: listed(model).price_of(model) for model in changes}
    listed_prices._price_on.cache_clear()
    assert {model: price and price.input for model, price in found.items()} == {"soon": None, "lately": Decimal(2)}


def test_a_listed_price_is_of_the_present_day_also_in_a_process_that_runs_for_weeks(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = VirtualClock(int(datetime(2026, 11, 1, 23, 59, tzinfo=UTC).timestamp() * 1000))
    monkeypatch.setattr(listed_prices, "SystemClock", lambda: clock)
    first = listed("gpt-4.1-mini").price_of("gpt-4.1-mini")
    clock.move_to(clock.now() + 60_000)
    second = listed("gpt-4.1-mini").price_of("gpt-4.1-mini")
    assert [price and price.as_of for price in (first, second)] == ["2026-11-01", "2026-11-02"]


def test_a_source_that_is_not_there_is_told_with_its_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    listed_prices._package.cache_clear()
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    with pytest.raises(InvalidParameter, match=r"holdfast\[prices\]"):
        listed_prices.check_source("genai-prices")
    with pytest.raises(InvalidParameter, match="price_source is 'somewhere'"):
        listed_prices.check_source("somewhere")

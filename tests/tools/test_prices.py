"""Prices: by the operator's table, by an optional list, with their source and date; costs are whole billionths of a dollar."""

from __future__ import annotations

import sys
from datetime import date
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest

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


class Listed:
    """What the package `genai-prices` looks like from here."""

    __version__ = "0.2.1"
    Usage = staticmethod(lambda **_: None)

    @staticmethod
    def calc_price(usage: object, model: str, *, provider_api_url: str) -> Any:
        known = {"plain": (Decimal(1), Decimal(2), Decimal("0.5")), "tiered": (object(), Decimal(2), None)}
        if model not in known or "provider.example" not in provider_api_url:
            raise LookupError
        prices = dict(zip(("input_mtok", "output_mtok", "cache_read_mtok"), known[model], strict=True))
        return SimpleNamespace(model_price=SimpleNamespace(**prices), model=SimpleNamespace(prices_checked=date(2026, 10, 1)))


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> Any:
    def cleared() -> None:
        listed_prices.listed_price.cache_clear()
        listed_prices._package.cache_clear()

    monkeypatch.setitem(sys.modules, "genai_prices", Listed)
    cleared()
    yield
    cleared()


def test_a_model_that_the_table_does_not_have_gets_the_listed_price_of_its_server(package: None) -> None:
    settings = ModelSettings(
        base_url="https://provider.example/v1",
        model="plain",
        models=("tiered", "none", "own"),
        prices=prices_of({"own": ROW}),
        price_source="genai-prices",
    )
    listed, own = settings.price_of("plain"), settings.price_of("own")
    assert listed is not None
    assert (listed.input, listed.cached_input, listed.source, listed.as_of) == (
        Decimal(1),
        Decimal("0.5"),
        "genai-prices 0.2.1",
        "2026-10-01",
    )
    assert own is not None
    assert own.source == "holdfast.toml"
    assert settings.price_of("tiered") is None, "its price depends on the amount"
    with pytest.raises(ToolFailed) as unknown:
        LanguageModel(settings).reserve({"prompt": "hm", "model": "none"}, Remaining(cost_usd=Decimal(1)))
    assert unknown.value.code == "price_unknown"


def test_a_source_that_is_not_there_is_told_with_its_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    listed_prices._package.cache_clear()
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    with pytest.raises(InvalidParameter, match=r"holdfast\[prices\]"):
        listed_prices.check_source("genai-prices")
    with pytest.raises(InvalidParameter, match="price_source is 'somewhere'"):
        listed_prices.check_source("somewhere")

"""Listed prices: the prices of models in the optional package `genai-prices`, for an operator who chooses that source.

The package contains the list, so the network is not used. Two kinds of models have no price here, so the operator must write their prices
into holdfast.toml: a model that the list does not have for its server, and a model whose price depends on the time or on the amount. (A run
that began at a cheap hour must not be charged that price at an expensive hour.)
"""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from importlib import import_module
from typing import Any, Final

from holdfast.model.clock import SystemClock
from holdfast.model.errors import InvalidParameter
from holdfast.workers.tools.prices import Price

GENAI_PRICES: Final = "genai-prices"
"""The only source of prices beside the operator's table."""
_LATER: Final = tuple(datetime(2999, 1, 1, hour, 30, tzinfo=UTC) for hour in range(24))
"""Each hour of a day in the far future, after every change of a price that the list may announce."""


def check_source(source: str | None) -> None:
    """Raise InvalidParameter if the source is not known, or if its package is not installed. None is allowed."""
    if source is None:
        return
    if source != GENAI_PRICES:
        raise InvalidParameter(f"price_source is {source!r:.50}; write {GENAI_PRICES!r}, or leave it out.")
    _package()


def listed_price(model: str, base_url: str) -> Price | None:
    """The price of a model at the server with this address; its `as_of` is the present day (UTC). None if the list has no price of the
    model for this server, or if the price depends on the time or on the amount."""
    now = datetime.fromtimestamp(SystemClock().now() / 1000, UTC)
    return _price_on(now.replace(hour=0, minute=0, second=0, microsecond=0), model, base_url)


@lru_cache(maxsize=1000)
def _price_on(today: datetime, model: str, base_url: str) -> Price | None:
    """The listed price on the day that begins at `today`."""
    package = _package()
    at_any_hour = {_price_at(package, model, base_url, moment) for moment in (today, *_LATER)}
    found = at_any_hour.pop()
    if at_any_hour or found is None:
        return None
    reads, writes, cached = found
    if reads is None or writes is None:
        return None
    source = f"{GENAI_PRICES} {package.__version__}"
    return Price(input=reads, output=writes, cached_input=cached, source=source, as_of=today.date().isoformat())


def _price_at(package: Any, model: str, base_url: str, moment: datetime) -> tuple[Decimal | None, ...] | None:
    """The price of a million tokens at this moment: of input, of output, and of input from a cache. None if the list does not have the
    model."""
    usage = package.Usage(input_tokens=1, output_tokens=1)
    try:
        found = package.calc_price(usage, model, provider_api_url=base_url, genai_request_timestamp=moment)
    except LookupError:
        return None
    return tuple(_certain(getattr(found.model_price, name, None)) for name in ("input_mtok", "output_mtok", "cache_read_mtok"))


def _certain(value: Any) -> Decimal | None:
    """The price `value` if it is one number; None if it depends on the amount or is missing."""
    return value if isinstance(value, Decimal) and value.is_finite() and value >= 0 else None


@lru_cache(maxsize=1)
def _package() -> Any:
    try:
        return import_module("genai_prices")
    except ImportError:
        raise InvalidParameter("price_source needs the package `genai-prices`: pip install 'holdfast[prices]'.") from None

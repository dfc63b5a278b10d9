"""Listed prices: the prices of models by the optional package `genai-prices`, for an operator who chooses that source.

The package has its list inside; nothing is asked over the network. A model that is not in the list of its server, or whose price is not
one number for each kind of token at any time, has no price here: the operator writes it into the table. A run that began at a cheap hour
must not go on with its price in a dear one.
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
"""The only other source of prices than the operator's table."""
_LATER: Final = tuple(datetime(2999, 1, 1, hour, 30, tzinfo=UTC) for hour in range(24))
"""Each hour of a day after every change of a price that a list may announce."""


def check_source(source: str | None) -> None:
    """Refuse a source that does not exist, or whose package is not installed."""
    if source is None:
        return
    if source != GENAI_PRICES:
        raise InvalidParameter(f"price_source is {source!r:.50}; write {GENAI_PRICES!r}, or leave it out.")
    _package()


@lru_cache(maxsize=1000)
def listed_price(model: str, base_url: str) -> Price | None:
    """The price of a model of the server at this address; None if the list has none that is certain. It is dated with the day of today."""
    package, today = _package(), datetime.fromtimestamp(SystemClock().now() / 1000, UTC)
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
    """What a million tokens cost at this moment: read, written, and read from a cache."""
    usage = package.Usage(input_tokens=1, output_tokens=1)
    try:
        found = package.calc_price(usage, model, provider_api_url=base_url, genai_request_timestamp=moment)
    except LookupError:
        return None
    return tuple(_certain(getattr(found.model_price, name, None)) for name in ("input_mtok", "output_mtok", "cache_read_mtok"))


def _certain(value: Any) -> Decimal | None:
    """A price that does not depend on how much is used."""
    return value if isinstance(value, Decimal) and value.is_finite() and value >= 0 else None


@lru_cache(maxsize=1)
def _package() -> Any:
    try:
        return import_module("genai_prices")
    except ImportError:
        raise InvalidParameter("price_source needs the package `genai-prices`: pip install 'holdfast[prices]'.") from None

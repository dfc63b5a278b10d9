"""Listed prices: the prices of models by the optional package `genai-prices`, for an operator who chooses that source.

The package has its list inside; nothing is asked over the network. A model that is not in the list of its server, or whose price is not
one number for each kind of token, has no price here: the operator writes it into the table.
"""

from __future__ import annotations

from decimal import Decimal
from functools import lru_cache
from importlib import import_module
from typing import Any, Final

from holdfast.model.errors import InvalidParameter
from holdfast.workers.tools.prices import Price

GENAI_PRICES: Final = "genai-prices"
"""The only other source of prices than the operator's table."""


def check_source(source: str | None) -> None:
    """Refuse a source that does not exist, or whose package is not installed."""
    if source is None:
        return
    if source != GENAI_PRICES:
        raise InvalidParameter(f"price_source is {source!r:.50}; write {GENAI_PRICES!r}, or leave it out.")
    _package()


@lru_cache(maxsize=1000)
def listed_price(model: str, base_url: str) -> Price | None:
    """The price of a model of the server at this address; None if the list has none that is certain."""
    package = _package()
    try:
        found = package.calc_price(package.Usage(input_tokens=1, output_tokens=1), model, provider_api_url=base_url)
    except LookupError:
        return None
    price = found.model_price
    whole = [_certain(getattr(price, name, None)) for name in ("input_mtok", "output_mtok", "cache_read_mtok")]
    if whole[0] is None or whole[1] is None:
        return None
    checked = getattr(found.model, "prices_checked", None)
    return Price(
        input=whole[0],
        output=whole[1],
        cached_input=whole[2],
        source=f"{GENAI_PRICES} {package.__version__}",
        as_of="" if checked is None else str(checked),
    )


def _certain(value: Any) -> Decimal | None:
    """A price that does not depend on how much is used."""
    return value if isinstance(value, Decimal) and value.is_finite() and value >= 0 else None


@lru_cache(maxsize=1)
def _package() -> Any:
    try:
        return import_module("genai_prices")
    except ImportError:
        raise InvalidParameter("price_source needs the package `genai-prices`: pip install 'holdfast[prices]'.") from None

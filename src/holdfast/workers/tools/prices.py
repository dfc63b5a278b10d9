"""Prices: what a model's tokens cost, by the operator's table. No price is built in, because prices change, and a wrong price is worse than
none.

Each price says where it comes from (`source`), and on which day it was known to be right (`as_of`). Costs are whole billionths of a dollar,
rounded up, so that sums of costs are exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from decimal import ROUND_CEILING, Decimal
from typing import Any, Final

from msgspec import Struct

from holdfast.model.errors import InvalidParameter
from holdfast.workers.tools.seam import ZERO

_MILLION: Final = Decimal(1_000_000)
_NANO: Final = Decimal(1).scaleb(-9)
_LONGEST: Final = 100
"""The most characters of `source` and of `as_of`."""


class Price(Struct, frozen=True, kw_only=True):
    """The price of a model's tokens, in US dollars for a million tokens."""

    input: Decimal
    output: Decimal
    cached_input: Decimal | None = None
    """The price of input tokens from the server's cache; None: the same as `input`."""
    source: str = "holdfast.toml"
    """Where the price is from."""
    as_of: str = ""
    """The day on which this price was known to be right, such as 2026-11-01; empty if no day is given."""

    def cost(self, input_tokens: int, output_tokens: int, cached_tokens: int = 0) -> Decimal:
        """What these tokens cost, in dollars. `cached_tokens` says how many of the `input_tokens` came from the server's cache."""
        cached = min(max(cached_tokens, 0), input_tokens)
        kept = self.input if self.cached_input is None else self.cached_input
        return _whole(((input_tokens - cached) * self.input + cached * kept + output_tokens * self.output) / _MILLION)

    @property
    def dearest(self) -> Decimal:
        """The price of one token of the most expensive kind (input, output or cached input), in dollars."""
        return max(self.input, self.output, self.cached_input or ZERO) / _MILLION

    def affordable_output(self, input_tokens: int, dollars: Decimal) -> int | None:
        """How many output tokens can be paid with what is left of `dollars` after the input is paid; 0 if `dollars` do not even pay for the
        input. None if output costs nothing and the input can be paid: there is no limit."""
        if self.output == ZERO:
            return None if dollars >= self.cost(input_tokens, 0) else 0
        return max(int((dollars - self.cost(input_tokens, 0)) * _MILLION / self.output), 0)


def prices_of(table: Mapping[str, Mapping[str, Any]]) -> dict[str, Price]:
    """The prices in a table of the settings, such as `{"small-model": {"input": 0.15, "output": 0.60}}`. Raises InvalidParameter if a price
    is not valid."""
    return {model: _price(model, row) for model, row in table.items()}


def _price(model: str, row: Mapping[str, Any]) -> Price:
    try:
        unknown = set(row) - {"input", "output", "cached_input", "source", "as_of"}
        values: dict[str, Any] = {name: Decimal(str(value)) for name, value in row.items() if name not in ("source", "as_of")}
        if unknown or not {"input", "output"} <= set(row) or not all(value.is_finite() and value >= 0 for value in values.values()):
            raise ValueError
        said: dict[str, Any] = {name: _text(row[name]) for name in ("source", "as_of") if name in row}
        return Price(**values, **said)
    except (ArithmeticError, ValueError, TypeError):
        raise InvalidParameter(
            f"The price of {model!r} is {dict(row)!r}: it must have `input` and `output`, dollars for a million tokens, and may have "
            "`cached_input`, `source` (a short text) and `as_of` (a day such as 2026-11-01)."
        ) from None


def _text(value: Any) -> str:
    """The value of `source` or `as_of` as a text: the text itself, or a TOML date as a text. Raises ValueError for a text that is empty,
    too long or not printable, and for any other value."""
    text = value.isoformat() if isinstance(value, date) else value
    if not isinstance(text, str) or not text.isprintable() or not 0 < len(text) <= _LONGEST:
        raise ValueError
    return text


def _whole(dollars: Decimal) -> Decimal:
    return dollars.quantize(_NANO, ROUND_CEILING) if dollars % _NANO else dollars

"""Prices: what a model's tokens cost, by the operator's table. None is built in: prices change, and a wrong one is worse than none."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from msgspec import Struct

from holdfast.model.errors import InvalidParameter
from holdfast.workers.tools.seam import ZERO

_MILLION: Final = Decimal(1_000_000)


class Price(Struct, frozen=True, kw_only=True):
    """US dollars for a million tokens."""

    input: Decimal
    output: Decimal
    cached_input: Decimal | None = None
    """For input that the server had kept; as `input` when not said."""

    def cost(self, input_tokens: int, output_tokens: int, cached_tokens: int = 0) -> Decimal:
        """What these tokens cost."""
        cached = min(max(cached_tokens, 0), input_tokens)
        kept = self.input if self.cached_input is None else self.cached_input
        return ((input_tokens - cached) * self.input + cached * kept + output_tokens * self.output) / _MILLION

    def affordable_output(self, input_tokens: int, dollars: Decimal) -> int | None:
        """How many tokens of output the money pays for after the input; None: as many as you like."""
        if self.output == ZERO:
            return None if dollars >= self.cost(input_tokens, 0) else 0
        return max(int((dollars - self.cost(input_tokens, 0)) * _MILLION / self.output), 0)


def prices_of(table: Mapping[str, Mapping[str, Any]]) -> dict[str, Price]:
    """From settings: `{"small-model": {"input": 0.15, "output": 0.60}}`."""
    return {model: _price(model, row) for model, row in table.items()}


def _price(model: str, row: Mapping[str, Any]) -> Price:
    try:
        unknown = set(row) - {"input", "output", "cached_input"}
        values = {name: Decimal(str(value)) for name, value in row.items()}
        if unknown or not {"input", "output"} <= set(row) or not all(value.is_finite() and value >= 0 for value in values.values()):
            raise ValueError
        return Price(**values)
    except (ArithmeticError, ValueError, TypeError):
        raise InvalidParameter(
            f"The price of {model!r} is {dict(row)!r}: it has `input` and `output`, dollars for a million tokens."
        ) from None

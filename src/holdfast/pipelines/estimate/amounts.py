"""Amounts of tokens and money, either of which may be unknown."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import msgspec

from holdfast.model.ledger import NANO


class Amount(msgspec.Struct, frozen=True):
    """An amount of tokens, and an amount of money in billionths of a US dollar (`nanos`). Each may be None: it is not known."""

    tokens: int | None = 0
    nanos: int | None = 0

    def __add__(self, other: Amount) -> Amount:
        return Amount(_plus(self.tokens, other.tokens), _plus(self.nanos, other.nanos))

    def times(self, count: int) -> Amount:
        """This amount, `count` times. Zero times an unknown amount is zero."""
        return Amount(_times(self.tokens, count), _times(self.nanos, count))

    def at_most(self, other: Amount) -> Amount:
        """The smaller of two amounts, for tokens and money separately; if only one of them is known, that one."""
        return Amount(_least(self.tokens, other.tokens), _least(self.nanos, other.nanos))

    def or_more(self, other: Amount) -> Amount:
        """The larger of two amounts, for tokens and money separately; unknown if one of them is unknown."""
        return Amount(_most(self.tokens, other.tokens), _most(self.nanos, other.nanos))

    def less(self, other: Amount) -> Amount:
        """What is left of this amount after `other` was spent, at least 0. If this amount is unknown, so is the rest; an unknown `other`
        counts as 0."""
        tokens = None if self.tokens is None else max(0, self.tokens - (other.tokens or 0))
        return Amount(tokens, None if self.nanos is None else max(0, self.nanos - (other.nanos or 0)))

    @property
    def cost_usd(self) -> Decimal | None:
        """The money in US dollars; None if it is not known."""
        return None if self.nanos is None else Decimal(self.nanos) / NANO

    def document(self) -> dict[str, Any]:
        """The tokens and the money as JSON; null for the one that is not known."""
        return {"tokens": self.tokens, "cost_usd": None if self.nanos is None else self.nanos / NANO}


NOTHING = Amount()
UNKNOWN = Amount(None, None)


def capped(tokens: int | None, cost_usd: Decimal | None, dearest: Decimal | None) -> Amount:
    """The most that these limits allow; unknown where there is no limit. `dearest` is the highest price of one token, in US dollars: with
    it, a limit of tokens is also a limit of money."""
    by_tokens = None if tokens is None or dearest is None else math.ceil(tokens * dearest * NANO)
    return Amount(tokens, _least(None if cost_usd is None else int(cost_usd * NANO), by_tokens))


def _plus(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


def _times(one: int | None, count: int) -> int | None:
    return 0 if count == 0 else None if one is None else one * count


def _least(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else min(one, other)


def _most(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else max(one, other)

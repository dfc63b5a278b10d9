"""The tool seam: what the gateway knows about a tool, and what a tool knows about a call.

If the gateway has a receipt that answers a call, the tool is not asked. Otherwise the gateway first waits for an approval, if the call
needs one, and then calls two methods of the tool. `reserve` has no effect and returns the most that the call may cost. If the budgets have
room for that, the gateway writes the intent, and `call` makes the call. The tool only reports what happened; it writes no receipt.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from enum import StrEnum
from typing import Any, Protocol, TypeAlias, TypeVar

from msgspec import Struct

ZERO = Decimal(0)
_Number = TypeVar("_Number", int, Decimal)
Hears: TypeAlias = Callable[[str], None]
"""A function that takes a part of a result's text while it arrives, for followers of the run. It returns at once. Followers may miss parts;
the result itself is complete. A tool that calls such a function has an attribute `streams`: a Redactor with the tool's own secrets."""


class Effect(StrEnum):
    """What a call does to the world: nothing outside the sandbox (`pure`), only reading (`read`), or a change (`write`). The gateway
    repeats a `write` only if it is known that the earlier call did not take place."""

    PURE = "pure"
    READ = "read"
    WRITE = "write"


class Usage(Struct, frozen=True, omit_defaults=True):
    """What a call has used: tokens and US dollars."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: Decimal = ZERO
    cached_tokens: int = 0
    """How many of the input tokens the server had in its cache."""
    reasoning_tokens: int = 0
    """How many of the output tokens the model used for reasoning."""
    is_estimated: bool = False
    """Whether the amounts are estimates, because the server did not say what the call used."""

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cost_usd + other.cost_usd,
            self.cached_tokens + other.cached_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
            self.is_estimated or other.is_estimated,
        )

    @property
    def tokens(self) -> int:
        """Input and output tokens together."""
        return self.input_tokens + self.output_tokens


class Remaining(Struct, frozen=True):
    """What the run may still spend: tokens and US dollars. None: no limit."""

    tokens: int | None = None
    cost_usd: Decimal | None = None

    def within(self, tokens: int | None, cost_usd: Decimal | None) -> Remaining:
        """The smaller one of each amount: this one, or the given limit. A limit of None leaves the amount as it is."""
        return Remaining(_smaller(self.tokens, tokens), _smaller(self.cost_usd, cost_usd))


def _smaller(one: _Number | None, other: _Number | None) -> _Number | None:
    return min((amount for amount in (one, other) if amount is not None), default=None)


class Reservation(Struct, frozen=True, omit_defaults=True):
    """What a call may cost at most, as far as that is known before the call."""

    tokens: int = 0
    cost_usd: Decimal = ZERO
    output_tokens: int | None = None
    """The most tokens of the answer; the tool sends this limit to the model's server. None: the tool sends no limit."""
    model: str = ""
    """The model that is asked; empty for a tool that asks none."""
    price_source: str = ""
    """Where the price is from; empty if no price is known."""
    price_date: str = ""
    """The day on which this price was known to be right (`as_of`), such as 2026-11-01; empty if no day is known."""


class CallResult(Struct, frozen=True):
    """The result of a call, and its usage."""

    result: Any
    usage: Usage = Usage()


class Call(Struct, frozen=True, kw_only=True):
    """Facts about one call that the gateway gives to the tool, beside the arguments."""

    run_id: str
    tool: str
    idempotency_key: str
    deadline: float
    """The time by which the tool must have answered, in seconds of `model.clock.monotonic`."""
    now: int
    """The time of the call, in milliseconds since 1970. A tool that puts the present time into its result uses this time."""
    attempt: int = 1
    tenant: str = "default"
    egress: tuple[str, ...] | None = None
    """The domains that the contract lets the worker reach; None: any public address."""
    traceparent: str | None = None
    """The W3C trace context of this call, for tools that send it to the servers that they call; None: there is none to send."""
    hears: Hears | None = None
    """The function to which the tool gives the text of its result while the text arrives, for followers of the run. None if the text is not
    passed on, for example because the tool has no attribute `streams`."""


class ToolFailed(Exception):
    """A call was refused or failed. `code` is an error code, usually one of the table of codes."""

    recorded = False
    """Whether the call was made and has a receipt. If not, the call was refused, or its outcome is unknown."""
    beyond: Reservation | None = None
    """What the failed call used beyond its reservation. None if the call stayed within its reservation, reserved nothing, was made by an
    earlier run, or has no receipt."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        retry_after_seconds: float | None = None,
        closes: str | None = None,
        known: bool = True,
        usage: Usage | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.retry_after_seconds = retry_after_seconds
        self.closes = closes
        """A key, such as `domain:shop.example`. Calls of this tenant with the key are refused until `retry_after_seconds` have passed.
        None: no calls are refused."""
        self.known = known
        """Whether it is known that the effect of the call did not take place. If not, and the call is a write, the gateway finds out
        whether it did."""
        self.usage = usage or Usage()
        self.details = details

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


class Tool(Protocol):
    """A tool, as the gateway calls it."""

    @property
    def name(self) -> str: ...
    @property
    def effect(self) -> Effect: ...
    @property
    def arguments_schema(self) -> Mapping[str, Any] | None: ...

    def reserve(self, arguments: Mapping[str, Any], remaining: Remaining) -> Reservation:
        """The most that the call may cost, given what the run may still spend. Has no effect. Raises ToolFailed if the call cannot be made,
        for example with the code `price_unknown` or `budget_exceeded`."""
        ...

    async def call(self, call: Call, arguments: Mapping[str, Any], reservation: Reservation) -> CallResult:
        """Make the call. Raises ToolFailed if it fails."""
        ...


class Happened(Struct, frozen=True):
    """The effect took place, with this result."""

    result: Any


class DidNotHappen(Struct, frozen=True):
    """The effect did not take place: the call may be made again."""


class Unknown(Struct, frozen=True):
    """It is unknown whether the effect took place: a person must decide."""


CallVerdict: TypeAlias = Happened | DidNotHappen | Unknown


async def verdict_on(tool: Tool, call: Call, arguments: Mapping[str, Any]) -> CallVerdict:
    """Ask the tool whether a call whose answer was lost took place. Returns Unknown if the tool has no method `reconcile`."""
    reconcile = getattr(tool, "reconcile", None)
    if reconcile is None:
        return Unknown()
    verdict: CallVerdict = await reconcile(call, arguments)
    return verdict


def cool_down_keys(tool: Tool, arguments: Mapping[str, Any]) -> tuple[str, ...]:
    """The cool-down keys of a call: the tool's own key, and those that the tool names for these arguments, such as a domain. The call is
    refused while a server's earlier `Retry-After` keeps one of them closed."""
    own = f"tool:{tool.name}"
    more = getattr(tool, "cool_down_keys", None)
    return (own,) if more is None else (own, *more(arguments))

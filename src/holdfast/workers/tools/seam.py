"""The tool seam: what the gateway knows about a tool, and what a tool knows about a call.

Before it asks the tool, the gateway answers a call that was made before from its receipt, and waits for an approval if one is needed.
Then it calls the tool twice. `reserve` has no effect and returns the most that the call may cost. If the budget has room for that, the
gateway writes the intent, and `call` makes the call. The tool only reports what happened.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from enum import StrEnum
from typing import Any, Protocol, TypeAlias

from msgspec import Struct

ZERO = Decimal(0)
Hears: TypeAlias = Callable[[str], None]
"""Takes a part of a result's text while it arrives. It returns at once. Parts may get lost, because only the result itself is guaranteed.
A tool that sends such text has an attribute `streams`: a Redactor with the tool's own secrets."""


class Effect(StrEnum):
    """What a call does to the world, which decides whether it may be made twice."""

    PURE = "pure"
    READ = "read"
    WRITE = "write"


class Usage(Struct, frozen=True, omit_defaults=True):
    """What a call has cost."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: Decimal = ZERO
    cached_tokens: int = 0
    """How many input tokens the server had in its cache."""
    reasoning_tokens: int = 0
    """How many output tokens the model used for reasoning."""
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
        """Input and output together."""
        return self.input_tokens + self.output_tokens


class Remaining(Struct, frozen=True):
    """What the run may still spend; None: no cap."""

    tokens: int | None = None
    cost_usd: Decimal | None = None


class Reservation(Struct, frozen=True, omit_defaults=True):
    """What a call may cost at most, as far as that is known before the call."""

    tokens: int = 0
    cost_usd: Decimal = ZERO
    output_tokens: int | None = None
    """The cap on its output, sent upstream."""
    model: str = ""
    """The model that is asked; empty for a tool that asks none."""
    price_source: str = ""
    """Where the price is from; empty if no price is known."""
    price_date: str = ""
    """The day for which the price was written down."""


class Called(Struct, frozen=True):
    """The result of a call, and its usage."""

    result: Any
    usage: Usage = Usage()


class Call(Struct, frozen=True, kw_only=True):
    """One call, as the gateway hands it to a tool."""

    run_id: str
    tool: str
    idempotency_key: str
    deadline: float
    """On the clock of `model.clock.monotonic`: the tool must be done by then."""
    now: int
    """Milliseconds of the wall clock when the call was intended: the time a result carries."""
    attempt: int = 1
    tenant: str = "default"
    egress: tuple[str, ...] | None = None
    """The contract's domains; None: any public address."""
    traceparent: str | None = None
    """The W3C trace context of this call, for the servers that it calls."""
    hears: Hears | None = None
    """Takes the text of the result while it arrives, for followers of the run."""


class ToolFailed(Exception):
    """A call failed; `code` is in the runtime's table of codes."""

    recorded = False
    """Whether the call was made and has a receipt. If not, the gateway refused it."""
    beyond: Reservation | None = None
    """What the call used beyond its reservation, though it failed."""

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
        """A key, such as `domain:shop.example`, that stays closed until `retry_after_seconds` have passed."""
        self.known = known
        """Whether it is known if the effect happened."""
        self.usage = usage or Usage()
        self.details = details

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


class Tool(Protocol):
    """What the gateway calls."""

    @property
    def name(self) -> str: ...
    @property
    def effect(self) -> Effect: ...
    @property
    def arguments_schema(self) -> Mapping[str, Any] | None: ...

    def reserve(self, arguments: Mapping[str, Any], remaining: Remaining) -> Reservation:
        """What the call may cost; raises ToolFailed (`price_unknown`, `budget_exceeded`) when it may not be made at all."""
        ...

    async def call(self, call: Call, arguments: Mapping[str, Any], reservation: Reservation) -> Called:
        """Make the call; raises ToolFailed."""
        ...


class Happened(Struct, frozen=True):
    """The effect took place, with this result."""

    result: Any


class DidNotHappen(Struct, frozen=True):
    """The effect did not take place: the call may be made again."""


class Unknown(Struct, frozen=True):
    """It is unknown whether the effect took place: a person must decide."""


Verdict: TypeAlias = Happened | DidNotHappen | Unknown


class Reconciling(Protocol):
    """A tool that can find out afterwards whether a lost call took place."""

    async def reconcile(self, call: Call, arguments: Mapping[str, Any]) -> Verdict:
        """Find out whether this call, whose answer was lost, took place."""
        ...


async def verdict_on(tool: Tool, call: Call, arguments: Mapping[str, Any]) -> Verdict:
    """The outcome of a call whose answer was lost; unknown for a tool without `reconcile`."""
    reconcile = getattr(tool, "reconcile", None)
    if reconcile is None:
        return Unknown()
    verdict: Verdict = await reconcile(call, arguments)
    return verdict


def cool_down_keys(tool: Tool, arguments: Mapping[str, Any]) -> tuple[str, ...]:
    """The keys that a `Retry-After` may have closed for this call: the key of the tool, and of a domain."""
    own = f"tool:{tool.name}"
    more = getattr(tool, "cool_down_keys", None)
    return (own,) if more is None else (own, *more(arguments))

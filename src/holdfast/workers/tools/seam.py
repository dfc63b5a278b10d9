"""The tool seam: what the gateway knows of a tool, and what a tool is told of a call.

A tool is asked twice. `reserve` says, without any effect, what the call may cost at most; `call` does it. Everything that a
run may spend, repeat or approve is decided between the two, by the gateway; a tool only tells the truth about what happened.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from enum import StrEnum
from typing import Any, Protocol, TypeAlias

from msgspec import Struct

ZERO = Decimal(0)


class Effect(StrEnum):
    """What a call does to the world, which decides whether it may be made twice."""

    PURE = "pure"
    READ = "read"
    WRITE = "write"


class Usage(Struct, frozen=True):
    """What a call has cost."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: Decimal = ZERO

    def __add__(self, other: Usage) -> Usage:
        return Usage(self.input_tokens + other.input_tokens, self.output_tokens + other.output_tokens, self.cost_usd + other.cost_usd)


class Remaining(Struct, frozen=True):
    """What the run may still spend; None: no cap."""

    tokens: int | None = None
    cost_usd: Decimal | None = None


class Reservation(Struct, frozen=True):
    """What a call may cost at most, as far as that can be known before it."""

    tokens: int = 0
    cost_usd: Decimal = ZERO
    output_tokens: int | None = None
    """The cap on its output, sent upstream."""


class Called(Struct, frozen=True):
    """A call that came back."""

    result: Any
    usage: Usage = Usage()


class Call(Struct, frozen=True, kw_only=True):
    """One call, as the gateway hands it to a tool."""

    run_id: str
    tool: str
    idempotency_key: str
    deadline: float
    """On the clock of `model.clock.monotonic`: whatever the tool does is over by then."""
    now: int
    """Milliseconds of the wall clock when the call was intended: the time a result carries."""
    attempt: int = 1
    tenant: str = "default"
    egress: tuple[str, ...] | None = None
    """The contract's domains; None: any public address."""
    traceparent: str | None = None
    """W3C trace context of this very call, to hand on to what it calls."""


class ToolFailed(Exception):
    """A call that did not come to a result; `code` is one of the runtime's table of codes."""

    recorded = False
    """It has a receipt: the call was made. Else the gateway refused it."""

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
        """A key that nobody should try before then, such as `domain:shop.example`."""
        self.known = known
        """False: whether it happened, nobody can say."""
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
    """The effect did not take place: it may be tried again."""


class Unknown(Struct, frozen=True):
    """Nobody can say: a person must."""


Verdict: TypeAlias = Happened | DidNotHappen | Unknown


class Reconciling(Protocol):
    """A tool that can find out afterwards whether a lost call took place."""

    async def reconcile(self, call: Call, arguments: Mapping[str, Any]) -> Verdict:
        """What became of this call."""
        ...


async def verdict_on(tool: Tool, call: Call, arguments: Mapping[str, Any]) -> Verdict:
    """What became of a call whose answer was lost; a tool that cannot tell does not know."""
    reconcile = getattr(tool, "reconcile", None)
    if reconcile is None:
        return Unknown()
    verdict: Verdict = await reconcile(call, arguments)
    return verdict


def cool_down_keys(tool: Tool, arguments: Mapping[str, Any]) -> tuple[str, ...]:
    """The keys under which somebody's `Retry-After` may have closed this call: the tool's own, and a domain's."""
    own = f"tool:{tool.name}"
    more = getattr(tool, "cool_down_keys", None)
    return (own,) if more is None else (own, *more(arguments))

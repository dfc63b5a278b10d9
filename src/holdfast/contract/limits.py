"""The limits of one run: a request may make the contract's limits tighter, but not wider."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from holdfast.contract.protocol import Constraints
from holdfast.contract.refusals import InvalidRequest
from holdfast.contract.terms import RunLimits

_BOUNDS = (
    "timeout_seconds",
    "idle_timeout_seconds",
    "max_tokens",
    "max_cost_usd",
    "max_tool_calls",
    "max_cpu_seconds",
    "max_memory_mb",
)


_NOTHING_ASKED = Constraints()


class Widened(msgspec.Struct, frozen=True):
    """A constraint of a request that asks for more than the contract allows: its name, the value that was asked for, and the contract's
    value."""

    field: str
    asked: Any
    allowed: Any


def tighten(limits: RunLimits, constraints: Constraints, *, run_timeout_seconds: float | None = None) -> RunLimits:
    """The limits of one run: those that the request sets, else those of the contract. Raises InvalidRequest (`constraint_widened`) if the
    request asks for more than the contract allows: a wider limit, or a tool that the contract does not name.

    `run_timeout_seconds` is a field of the request itself, not of its constraints. The same rule holds for it.
    """
    if run_timeout_seconds is None and constraints == _NOTHING_ASKED:
        return limits
    widened = list(_widened(limits, constraints))
    if run_timeout_seconds is not None and limits.run_timeout_seconds is not None and run_timeout_seconds > limits.run_timeout_seconds:
        widened.append(Widened("run_timeout_seconds", run_timeout_seconds, limits.run_timeout_seconds))
    if widened:
        told = "; ".join(f"{wide.field}: asked for {_shown(wide.asked)}, allowed is {_shown(wide.allowed)}" for wide in widened)
        raise InvalidRequest(
            f"Constraints may tighten the contract's limits, never widen them. {told}.", error_code="constraint_widened", details=widened
        )
    asked = {field: value for field in _BOUNDS if (value := getattr(constraints, field)) is not None}
    if run_timeout_seconds is not None:
        asked["run_timeout_seconds"] = run_timeout_seconds
    if constraints.allow_subprocess is not None:
        asked["allow_subprocess"] = constraints.allow_subprocess
    if constraints.tool_quotas is not None:
        asked["tool_quotas"] = {**limits.tool_quotas, **constraints.tool_quotas}
    if constraints.tools_allowed is not None:
        asked["tools"] = tuple(tool for tool in limits.tools if tool.name in constraints.tools_allowed)
    return msgspec.structs.replace(limits, **asked)


def _widened(limits: RunLimits, constraints: Constraints) -> Iterator[Widened]:
    for field in _BOUNDS:
        asked, allowed = getattr(constraints, field), getattr(limits, field)
        if asked is not None and allowed is not None and asked > allowed:
            yield Widened(field, asked, allowed)
    if constraints.allow_subprocess and not limits.allow_subprocess:
        yield Widened("allow_subprocess", True, False)
    names = [tool.name for tool in limits.tools]
    more = [name for name in constraints.tools_allowed or () if name not in names]
    if more:
        yield Widened("tools_allowed", more, names)
    for name, count in (constraints.tool_quotas or {}).items():
        if name not in names:
            yield Widened(f"tool_quotas.{name}", count, 0)
        elif name in limits.tool_quotas and count > limits.tool_quotas[name]:
            yield Widened(f"tool_quotas.{name}", count, limits.tool_quotas[name])


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(value)}]"
    return str(value).lower() if isinstance(value, bool) else str(value)

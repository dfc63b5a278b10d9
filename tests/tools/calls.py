"""Calls as the gateway makes them."""

from collections.abc import Mapping
from typing import Any

from holdfast.model.clock import monotonic
from holdfast.workers.tools.seam import Call, CallResult, Remaining, Tool, ToolFailed

NOW = 1_767_225_600_000  # 2026-01-01T00:00:00Z


def a_call(tool: str, *, seconds: float = 20.0, egress: tuple[str, ...] | None = None, tenant: str = "t", key: str = "k-1") -> Call:
    return Call(run_id="r", tool=tool, idempotency_key=key, deadline=monotonic() + seconds, now=NOW, egress=egress, tenant=tenant)


async def called(tool: Tool, arguments: Mapping[str, Any], remaining: Remaining | None = None, **about: Any) -> CallResult:
    return await tool.call(a_call(tool.name, **about), arguments, tool.reserve(arguments, remaining or Remaining()))


async def failure(tool: Tool, arguments: Mapping[str, Any], remaining: Remaining | None = None, **about: Any) -> ToolFailed:
    """The failure that this call must end in."""
    try:
        result = await called(tool, arguments, remaining, **about)
    except ToolFailed as error:
        return error
    raise AssertionError(f"it did not fail but returned {result}")

"""An author's tool that the operator does not trust: every call is refused, and the error says why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.workers.tools.declarations import Declared
from holdfast.workers.tools.seam import Call, CallResult, CallVerdict, Effect, Remaining, Reservation, ToolFailed, Unknown


class RefusedTool:
    """One `@tool` of a worker's file. The operator does not trust the file, so the tool is never called."""

    def __init__(self, declared: Declared, refusal: str) -> None:
        self.declared = declared
        self.refusal = refusal
        """The text of the error: the reason, and the command that allows the tool."""
        self.name = declared.name
        self.effect: Effect = declared.effect
        self.arguments_schema: Mapping[str, Any] | None = declared.arguments_schema

    def reserve(self, arguments: Mapping[str, Any], remaining: Remaining) -> Reservation:
        """Always raise ToolFailed, so that no record of a call is written."""
        raise ToolFailed("tool_not_trusted", self.refusal)

    async def call(self, call: Call, arguments: Mapping[str, Any], reservation: Reservation) -> CallResult:
        """Always raise ToolFailed."""
        raise ToolFailed("tool_not_trusted", self.refusal)

    async def reconcile(self, call: Call, arguments: Mapping[str, Any]) -> CallVerdict:
        """Always returns Unknown: the reconcile function is the author's code too and may not run, so a person must decide."""
        return Unknown()

"""An author's tool that may not run here: every call is refused with the reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.workers.tools.declarations import Declared
from holdfast.workers.tools.seam import Call, Called, Effect, Remaining, Reservation, ToolFailed, Unknown, Verdict


class RefusedTool:
    """One `@tool` of a worker's file that is not trusted."""

    def __init__(self, declared: Declared, refusal: str) -> None:
        self.declared = declared
        self.refusal = refusal
        """The reason, and the command that allows the tool."""
        self.name = declared.name
        self.effect: Effect = declared.effect
        self.approval = declared.approval
        self.arguments_schema: Mapping[str, Any] | None = declared.arguments_schema

    def reserve(self, arguments: Mapping[str, Any], remaining: Remaining) -> Reservation:
        """Refuse the call before anything is written."""
        raise ToolFailed("tool_not_trusted", self.refusal)

    async def call(self, call: Call, arguments: Mapping[str, Any], reservation: Reservation) -> Called:
        """Refused."""
        raise ToolFailed("tool_not_trusted", self.refusal)

    async def reconcile(self, call: Call, arguments: Mapping[str, Any]) -> Verdict:
        """The outcome stays unknown: the reconcile function is author code too and may not run, so a person must find out."""
        return Unknown()

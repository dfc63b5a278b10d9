"""Checks schemas that a body sends, and values against schemas. A check that may be slow runs in a separate process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from holdfast.contract.checking import Mismatch, told_of
from holdfast.contract.costs import SchemaInvalid
from holdfast.contract.refusals import Overloaded
from holdfast.hosts.evaluator.schema_check import CheckTooCostly, examined, problems_in
from holdfast.workers.tools.seam import ToolFailed

_SHOWN: Final = 2_000


async def check_schema(schema: Mapping[str, Any], what: str, who: str) -> None:
    """Raise ToolFailed if `schema` is not a JSON Schema, if it is above a limit, or if it cannot be checked now. `what` names the schema in
    the error. `who` says for whom the check is made."""
    try:
        await examined(schema, who)
    except SchemaInvalid as wrong:
        code, reason = ("tool_failed", "schema") if wrong.code == "schema_invalid" else ("schema_too_costly", wrong.code)
        raise ToolFailed(code, f"{what} cannot be used: {wrong}"[:_SHOWN], details={"reason": reason}) from None
    except (CheckTooCostly, Overloaded) as refused:
        raise ToolFailed(refused.code, str(refused)) from None


async def check_arguments(tool: str, schema: Mapping[str, Any] | None, arguments: dict[str, Any], who: str) -> None:
    """Raise ToolFailed if the arguments of a tool do not fit its schema, or if they cannot be checked now. Without a schema nothing is
    checked. `who` says for whom the check is made."""
    problems = () if schema is None else await mismatches(schema, arguments, who)
    if problems:
        told = f"{tool} was called with arguments that do not fit its schema: {told_of(problems)}."
        raise ToolFailed("tool_failed", told, details=msgspec.to_builtins(problems))


async def mismatches(schema: Mapping[str, Any], value: Any, who: str) -> tuple[Mismatch, ...]:
    """The places where a value does not fit its schema; empty if it fits. The schema must be valid (`check_schema`). Raises ToolFailed if
    the check would take too long or cannot be made now. `who` says for whom the check is made."""
    try:
        return await problems_in(schema, value, who)
    except (CheckTooCostly, Overloaded) as refused:
        raise ToolFailed(refused.code, str(refused)) from None

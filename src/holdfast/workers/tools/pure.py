"""The pure tools: they run inside the sandbox, touch nothing and leave no receipt. Each is a plain function of its arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from holdfast.contract.checking import SchemaInvalid, checker_of, problems_of
from holdfast.workers.tools.seam import ToolFailed

_SCHEMA_ARGUMENTS: Final[Mapping[str, Any]] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["value", "schema"],
    "properties": {"value": True, "schema": {"type": ["object", "boolean"]}},
}


def parse_html(html: str, base_url: str = "", select: Mapping[str, str | Mapping[str, Any]] | None = None) -> dict[str, Any]:
    """A page as data: title, language, meta, links, text, JSON-LD, and what `select` asks for."""
    from holdfast.workers.tools.pages import parse_html as parse  # the parser is loaded with the first page

    return parse(html, base_url, select)


def json_schema_validate(value: Any, schema: Mapping[str, Any] | bool) -> dict[str, Any]:
    """Whether a value fits a JSON Schema (draft 2020-12), and every place where it does not."""
    try:
        problems = checker_of(schema).problems(value)
    except SchemaInvalid as error:
        raise ToolFailed("tool_failed", f"The schema is no JSON Schema: {error}", details={"reason": "schema"}) from None
    return {"valid": not problems, "problems": [{"path": at.path, "reason": at.reason, "value": at.value} for at in problems]}


PURE: Final[Mapping[str, Callable[..., Any]]] = {"json_schema_validate": json_schema_validate, "parse_html": parse_html}
"""Every pure tool by name."""


def arguments_schema(tool: str) -> Mapping[str, Any]:
    """What a pure tool takes."""
    if tool == "json_schema_validate":
        return _SCHEMA_ARGUMENTS
    from holdfast.workers.tools.pages import ARGUMENTS

    return ARGUMENTS


def call_pure(tool: str, arguments: Mapping[str, Any]) -> Any:
    """Call one of them; raises ToolFailed."""
    problems = problems_of(dict(arguments), arguments_schema(tool))
    if problems:
        at = "; ".join(f"{problem.path or 'arguments'}: {problem.reason}" for problem in problems[:5])
        raise ToolFailed("tool_failed", f"The arguments of {tool} do not fit: {at}", details={"reason": "arguments"})
    return PURE[tool](**arguments)

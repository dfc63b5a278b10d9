"""The pure tools: they run inside the sandbox, touch nothing and leave no receipt. Each is a plain function of its arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, get_args

import msgspec

from holdfast.contract.checking import SchemaInvalid, checker_of, problems_of
from holdfast.contract.merges import MISSING, NO_CHOICES, MergePolicy, failure_of, merged
from holdfast.contract.rules import RULE_SCHEMA, Rule, broken, flaw_of
from holdfast.model import json_structs
from holdfast.workers.tools.seam import ToolFailed

_SCHEMA_ARGUMENTS: Final[Mapping[str, Any]] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["value", "schema"],
    "properties": {"value": True, "schema": {"type": ["object", "boolean"]}},
}
_RULES_ARGUMENTS: Final[Mapping[str, Any]] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["value", "rules"],
    "properties": {"value": True, "rules": {"type": "array", "items": RULE_SCHEMA}},
}
_MERGE_ARGUMENTS: Final[Mapping[str, Any]] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["parts", "policy"],
    "properties": {
        "parts": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["source"],
                "properties": {"source": {"type": "string"}, "value": True},
            },
        },
        "policy": {"enum": list(get_args(MergePolicy))},
        "key": {"type": ["string", "null"]},
        "choices": {"type": "object", "additionalProperties": {"type": "string"}},
    },
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
        raise ToolFailed("tool_failed", f"The schema is not a JSON Schema: {error}", details={"reason": "schema"}) from None
    return {"valid": not problems, "problems": [{"path": at.path, "reason": at.reason, "value": at.value} for at in problems]}


def rules_engine(value: Any, rules: list[dict[str, Any]]) -> dict[str, Any]:
    """Whether a value keeps rules, and every place where it does not. A rule that can never hold is refused."""
    read = [json_structs.converted(rule, Rule) for rule in rules]
    for at, rule in enumerate(read):
        if (flaw := flaw_of(rule)) is not None:
            raise ToolFailed("tool_failed", f"Rule {at} cannot be asked: {flaw}", details={"reason": "rules", "rule": at})
    reasons = broken(read, value)
    kept = not any(reason.severity == "error" for reason in reasons)
    return {"holds": kept, "reasons": [msgspec.structs.asdict(reason) for reason in reasons]}


def merge_rules(
    parts: list[dict[str, Any]], policy: MergePolicy, key: str | None = None, choices: Mapping[str, str] = NO_CHOICES
) -> dict[str, Any]:
    """One result of several parts. A part without a value is missing. `error_code` is `merge_conflict` if `strict` refuses the result."""
    result = merged([(part["source"], part.get("value", MISSING)) for part in parts], policy, key, choices)
    return {**result.document, "error_code": failure_of(policy, result)}


def redact_pii(texts: list[str], names: list[str | list[str]] | None = None) -> dict[str, Any]:
    """The texts with placeholders in the place of personal data, and the value behind each placeholder."""
    from holdfast.workers.tools.redact_pii import redact_pii as redact  # few workers redact

    return redact(texts, names or ())


PURE: Final[Mapping[str, Callable[..., Any]]] = {
    "json_schema_validate": json_schema_validate,
    "merge_rules": merge_rules,
    "parse_html": parse_html,
    "redact_pii": redact_pii,
    "rules_engine": rules_engine,
}
"""Every pure tool by name."""


def arguments_schema(tool: str) -> Mapping[str, Any]:
    """What a pure tool takes."""
    match tool:
        case "json_schema_validate":
            return _SCHEMA_ARGUMENTS
        case "rules_engine":
            return _RULES_ARGUMENTS
        case "merge_rules":
            return _MERGE_ARGUMENTS
        case "redact_pii":
            from holdfast.workers.tools.redact_pii import ARGUMENTS as REDACT_ARGUMENTS

            return REDACT_ARGUMENTS
        case _:
            from holdfast.workers.tools.pages import ARGUMENTS

            return ARGUMENTS


def call_pure(tool: str, arguments: Mapping[str, Any]) -> Any:
    """Call one of them; raises ToolFailed."""
    problems = problems_of(dict(arguments), arguments_schema(tool))
    if problems:
        at = "; ".join(f"{problem.path or 'arguments'}: {problem.reason}" for problem in problems[:5])
        raise ToolFailed("tool_failed", f"The arguments of {tool} do not fit: {at}", details={"reason": "arguments"})
    return PURE[tool](**arguments)

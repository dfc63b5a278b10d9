"""The pure tools: they run where the body runs (usually in the sandbox), have no effect and leave no receipt. The result of each depends
only on its arguments."""

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
    """The data of an HTML page: title, language, metadata, links, text, JSON-LD, and in `selected` what `select` asks for: for each name a
    CSS selector, or an object with `css` and the options `attribute`, `html` and `all`."""
    from holdfast.workers.tools.parse_html import parse_html as parse  # imported at the first call, because few workers need the parser

    return parse(html, base_url, select)


def json_schema_validate(value: Any, schema: Mapping[str, Any] | bool) -> dict[str, Any]:
    """Whether a value fits a JSON Schema, draft 2020-12 (`valid`), and at most 50 places where the value does not fit (`problems`). Raises
    ToolFailed if the schema is not valid."""
    try:
        problems = checker_of(schema).problems(value)
    except SchemaInvalid as error:
        raise ToolFailed("tool_failed", f"The schema is not a JSON Schema: {error}", details={"reason": "schema"}) from None
    return {"valid": not problems, "problems": [{"path": at.path, "reason": at.reason, "value": at.value} for at in problems]}


def rules_engine(value: Any, rules: list[dict[str, Any]]) -> dict[str, Any]:
    """Whether a value keeps these rules (`holds`), and the places where it breaks one, up to a limit (`reasons`; see contract.rules). A
    broken rule whose severity is lower than `error` is listed, but does not make `holds` false. Raises ToolFailed if a rule cannot be
    checked."""
    read = [json_structs.converted(rule, Rule) for rule in rules]
    for at, rule in enumerate(read):
        if (flaw := flaw_of(rule)) is not None:
            raise ToolFailed("tool_failed", f"Rule {at} (from 0) cannot be checked: {flaw}", details={"reason": "rules", "rule": at})
    reasons = broken(read, value)
    kept = not any(reason.severity == "error" for reason in reasons)
    return {"holds": kept, "reasons": [msgspec.structs.asdict(reason) for reason in reasons]}


def merge_rules(
    parts: list[dict[str, Any]], policy: MergePolicy, key: str | None = None, choices: Mapping[str, str] = NO_CHOICES
) -> dict[str, Any]:
    """Merge the values of several parts into one. `policy` says which value is taken where parts differ, `key` which field tells the
    elements of a list apart (for `union`), and `choices` which source decides the conflict at a path. A part that has no member `value`
    counts as missing. `error_code` in the result is None, or `merge_conflict` if the policy `strict` refuses the result."""
    result = merged([(part["source"], part.get("value", MISSING)) for part in parts], policy, key, choices)
    return {**result.document, "error_code": failure_of(policy, result)}


def redact_pii(texts: list[str], names: list[str | list[str]] | None = None) -> dict[str, Any]:
    """The texts with placeholders in place of personal data, and the value behind each placeholder. `names` are the persons' names to
    replace (redact_pii.redact_pii)."""
    from holdfast.workers.tools.redact_pii import redact_pii as redact  # imported at the first call, because few workers need it

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
    """The JSON Schema of the arguments of a pure tool."""
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
            from holdfast.workers.tools.parse_html import ARGUMENTS

            return ARGUMENTS


def call_pure(tool: str, arguments: Mapping[str, Any]) -> Any:
    """Call the pure tool of this name, which must be in PURE. Raises ToolFailed if the arguments do not fit, or if the tool refuses
    them."""
    problems = problems_of(dict(arguments), arguments_schema(tool))
    if problems:
        at = "; ".join(f"{problem.path or 'arguments'}: {problem.reason}" for problem in problems[:5])
        raise ToolFailed("tool_failed", f"The arguments of {tool} do not fit its schema: {at}", details={"reason": "arguments"})
    return PURE[tool](**arguments)

"""An example of the inputs of a worker, made from its input schema, for a person to change."""

from __future__ import annotations

from typing import Any, Final

_BY_TYPE: Final = {"boolean": False, "null": None}
_BY_FORMAT: Final = {
    "uri": "https://example.com/",
    "email": "ann@example.com",
    "date": "2026-01-01",
    "date-time": "2026-01-01T00:00:00Z",
    "uuid": "00000000-0000-4000-8000-000000000000",
}
_TEXT: Final = "…"
_MOST_LEVELS: Final = 4
_MOST_ITEMS: Final = 3
_MOST_LENGTH: Final = 200


def example_inputs(schema: dict[str, Any]) -> dict[str, Any]:
    """Values for the required inputs. They follow the types, formats, lengths and bounds of the schema, but not its patterns, references
    and conditions, so they may not fit the schema."""
    found = _value({**schema, "type": "object"}, 0)
    return found if isinstance(found, dict) else {}


def _value(schema: Any, level: int) -> Any:
    if not isinstance(schema, dict) or level > _MOST_LEVELS:
        return _TEXT
    if "const" in schema or "default" in schema:
        return schema.get("const", schema.get("default"))
    for word in ("examples", "enum"):
        if isinstance(schema.get(word), list) and schema[word]:
            return schema[word][0]
    kind = schema.get("type")
    match kind[0] if isinstance(kind, list) and kind else kind:
        case "object":
            return _object(schema, level)
        case "array":
            return [_value(schema.get("items"), level + 1)] * min(_count(schema, "minItems"), _MOST_ITEMS)
        case "integer" | "number":
            return _number(schema)
        case str(name) if name in _BY_TYPE:
            return _BY_TYPE[name]
        case _:
            return _BY_FORMAT.get(str(schema.get("format")), _TEXT * max(1, min(_count(schema, "minLength"), _MOST_LENGTH)))


def _object(schema: dict[str, Any], level: int) -> dict[str, Any]:
    known, required = schema.get("properties"), schema.get("required")
    if not isinstance(known, dict) or not isinstance(required, list):
        return {}
    return {name: _value(known.get(name), level + 1) for name in required if isinstance(name, str)}


def _number(schema: dict[str, Any]) -> int | float:
    least, above, most = schema.get("minimum"), schema.get("exclusiveMinimum"), schema.get("maximum")
    if isinstance(above, int | float):
        return int(above) + 1
    if isinstance(least, int | float):
        return least
    return most if isinstance(most, int | float) and most < 1 else 1


def _count(schema: dict[str, Any], word: str) -> int:
    found = schema.get(word)
    return found if isinstance(found, int) and found > 0 else 0

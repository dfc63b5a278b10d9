"""Records in a normal form: texts in the Unicode form NFC without white space at their ends, numbers and truth values instead of texts,
defaults filled in. This is done only at places that the schema describes.

A schema is followed along `properties` and `items`, so the work is never deeper than the schema, whatever a record contains. A value that
cannot be normalized is not changed; the check against the schema then reports it.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Any, Final

_INTEGER: Final = re.compile(r"[+-]?\d{1,15}", re.ASCII)
_NUMBER: Final = re.compile(r"[+-]?\d{1,15}(?:\.\d{1,15})?", re.ASCII)
_TRUTH: Final = {"true": True, "false": False}
_DEEPEST: Final = 50


def normalized(value: Any, schema: Any, depth: int = 0) -> Any:
    """The value in the normal form that its schema asks for. `depth` is how deep the value is in the record; what is deeper than 50 levels
    is not changed."""
    if not isinstance(schema, dict) or depth > _DEEPEST:
        return value
    if isinstance(value, str):
        return _text(unicodedata.normalize("NFC", value).strip(), schema.get("type"))
    if isinstance(value, dict):
        return _fields(value, schema.get("properties"), depth)
    if isinstance(value, list) and "items" in schema:
        return [normalized(item, schema["items"], depth + 1) for item in value]
    return value


def _fields(value: dict[str, Any], known: Any, depth: int) -> dict[str, Any]:
    if not isinstance(known, dict):
        return value
    filled = {name: at["default"] for name, at in known.items() if name not in value and isinstance(at, dict) and "default" in at}
    return {**{name: normalized(inner, known.get(name), depth + 1) for name, inner in value.items()}, **filled}


def _text(text: str, wanted: Any) -> Any:
    """The number or the truth value in a text, if the schema's type (`wanted`) asks for it and the text has that form; else the text."""
    if wanted == "integer" and _INTEGER.fullmatch(text):
        return int(text)
    if wanted == "number" and _NUMBER.fullmatch(text):
        return float(text) if "." in text else int(text)
    if wanted == "boolean":
        return _TRUTH.get(text.casefold(), text)
    return text

"""Forms: fields of an HTML form from a JSON Schema, and the answer from what a person filled in. Pure.

For an object of 1 to 50 properties, the form has a field for each property. For any other schema it has one field. The answer is not
checked against the schema here: the code that stores the decision checks it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from typing import Any, Final

import msgspec

from holdfast.model.errors import InvalidParameter
from holdfast.web.plain_html import shown

ANSWER: Final = "answer"
"""The name of the field in a form with a single field."""
_PREFIX: Final = "field."
_MOST_FIELDS: Final = 50
_MOST_CHOICES: Final = 200
_LONGEST: Final = 500


class AnswerField(msgspec.Struct, frozen=True):
    """One field of a form."""

    key: str
    """The name of the field in the HTML form."""
    title: str
    kind: str
    """`text`, `integer`, `number`, `boolean`, `choice` or `json`."""
    required: bool = False
    about: str = ""
    choices: tuple[Any, ...] = ()


def fields_of(schema: Mapping[str, Any] | None) -> list[AnswerField]:
    """The fields of a form for this schema. If `schema` is None, the form has one field for a text."""
    named = _properties(schema or {})
    if named is None:
        kind = "text" if schema is None else _kind(schema)
        return [AnswerField(ANSWER, "Answer", kind, True, _about(schema or {}), _choices(schema or {}))]
    listed = (schema or {}).get("required")
    required = listed if isinstance(listed, list) else []
    return [
        AnswerField(f"{_PREFIX}{name}", str(part.get("title") or name), _kind(part), name in required, _about(part), _choices(part))
        for name, part in named.items()
    ]


def answer_of(schema: Mapping[str, Any] | None, given: Mapping[str, str]) -> Any:
    """The answer that a person gave in the form. `given` has the text of each field, by the field's key. If the schema is an object with a
    field for each property, an empty field is left out of the answer, unless it is a required text. A field that is not in `given` is left
    out too. Raises InvalidParameter if a field cannot be read."""
    fields = fields_of(schema)
    if len(fields) == 1 and fields[0].key == ANSWER:
        return _value(fields[0], given.get(ANSWER, ""))
    return {
        field.key.removeprefix(_PREFIX): _value(field, given[field.key])
        for field in fields
        if given.get(field.key, "") != "" or (field.required and field.kind == "text")
        if field.key in given
    }


def choices_of(field: AnswerField) -> list[tuple[str, str]]:
    """The choices of a field, each as the text that the form sends and the text that a person reads; empty for a field without choices."""
    texts = [_json(choice) for choice in field.choices] if field.kind == "choice" else ["true", "false"] if field.kind == "boolean" else []
    return [(text, _plain(text)) for text in texts]


def drawn(field: AnswerField, value: str = "") -> str:
    """A field as HTML, filled with `value`."""
    need = " required" if field.required and field.kind != "text" else ""
    name = f'name="{escape(field.key)}"'
    about = f"<small>{shown(field.about)}</small>" if field.about else ""
    return f"<p><label>{shown(field.title)}<br>{_input(field, name, need, value)}</label>{about}</p>"


def _input(field: AnswerField, name: str, need: str, value: str) -> str:
    match field.kind:
        case "choice" | "boolean":
            chosen = "".join(
                f'<option value="{escape(one)}"{" selected" if one == value else ""}>{shown(read)}</option>'
                for one, read in choices_of(field)
            )
            return f'<select {name}{need}><option value=""></option>{chosen}</select>'
        case "integer" | "number":
            step = "1" if field.kind == "integer" else "any"
            return f'<input type="number" step="{step}" {name}{need} value="{escape(value)}">'
        case "text":
            return f'<textarea rows="2" cols="60" {name}{need}>{escape(value)}</textarea>'
        case _:
            return f'<textarea rows="6" cols="60" {name}{need}>{escape(value)}</textarea> <small>JSON</small>'


def _value(field: AnswerField, text: str) -> Any:
    if field.kind == "text":
        return text.replace("\r\n", "\n")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        what = {"integer": "a whole number", "number": "a number", "boolean": "true or false"}.get(field.kind, "JSON")
        raise InvalidParameter(f"{field.title[:80]}: {text[:80]!r} is not {what}.") from None


def _properties(schema: Mapping[str, Any]) -> dict[str, Mapping[str, Any]] | None:
    found = schema.get("properties")
    if schema.get("type") != "object" or not isinstance(found, dict) or not 1 <= len(found) <= _MOST_FIELDS:
        return None
    return {str(name): part if isinstance(part, dict) else {} for name, part in found.items()}


def _kind(schema: Mapping[str, Any]) -> str:
    if _choices(schema):
        return "choice"
    kinds = {"string": "text", "integer": "integer", "number": "number", "boolean": "boolean"}
    kind = schema.get("type")
    return kinds.get(kind, "json") if isinstance(kind, str) else "json"


def _choices(schema: Mapping[str, Any]) -> tuple[Any, ...]:
    listed = schema.get("enum")
    return tuple(listed) if isinstance(listed, list) and len(listed) <= _MOST_CHOICES else ()


def _about(schema: Mapping[str, Any]) -> str:
    about = schema.get("description")
    return about[:_LONGEST] if isinstance(about, str) else ""


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _plain(text: str) -> str:
    """The text of a choice for a person. `text` is the JSON of the choice; a JSON string loses its quotes."""
    value = json.loads(text)
    return value if isinstance(value, str) else text

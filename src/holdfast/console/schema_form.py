"""JSON Schemas for people: a table that describes the properties of a value, and a form with which a person makes such a value. Pure.

A form has a field for each property of an object. A property that does not fit a plain field gets a field in which a person types JSON. A
schema without properties, with too many of them, or with `anyOf`, `oneOf`, `allOf` or `if`, gets one such field for the whole value. The
form only turns what a person typed into JSON. The contract checks the inputs when the run starts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import msgspec

MOST_ROWS: Final = 200
MOST_FIELDS: Final = 60
_MOST_CHOICES: Final = 200
_MOST_INSIDE: Final = 4
_LONG: Final = 200
_MARKS: Final = ("writeOnly", "x-redact")
WHOLE: Final = "inputs"
"""The name of the field in which a person types the whole value as JSON."""
_PREFIX: Final = "in."
_BOUNDS: Final = {
    "minimum": "at least {}",
    "exclusiveMinimum": "more than {}",
    "maximum": "at most {}",
    "exclusiveMaximum": "less than {}",
    "minLength": "{} characters or more",
    "maxLength": "{} characters at most",
    "minItems": "{} items or more",
    "maxItems": "{} items at most",
    "pattern": "matches {}",
    "format": "{}",
    "multipleOf": "a multiple of {}",
}


class SchemaRow(msgspec.Struct, frozen=True, kw_only=True):
    """One property of a schema, as a row of the table."""

    path: str
    depth: int
    type: str
    required: bool
    about: str = ""
    bounds: str = ""
    secret: bool = False


class FormField(msgspec.Struct, frozen=True, kw_only=True):
    """One field of a form."""

    name: str
    """The name of the property."""
    kind: str
    """The kind of the field: text, long, number, boolean, choice, secret or json."""
    required: bool
    type: str
    about: str = ""
    bounds: str = ""
    choices: tuple[tuple[str, str], ...] = ()
    """Each choice as (its JSON, the label that a person reads)."""
    value: str = ""
    example: str = ""
    problem: str = ""
    secret: bool = False
    """Whether the schema marks the property as secret. Such a field shows no value, no default and no example."""

    @property
    def key(self) -> str:
        """The name of the field in the form."""
        return _PREFIX + self.name


class SchemaForm(msgspec.Struct, frozen=True, kw_only=True):
    """A form. If `fields` is empty, the form has a single field, in which a person types the whole value as JSON."""

    fields: tuple[FormField, ...] = ()
    whole: str = "{}"
    problem: str = ""

    @property
    def is_whole(self) -> bool:
        """Whether the form has one field for the whole value, and not one for each property."""
        return not self.fields


def rows_of(schema: Mapping[str, Any]) -> tuple[tuple[SchemaRow, ...], bool]:
    """Returns the rows for the properties of an object and of the objects inside it, down to four levels; and True if rows are left out,
    because there are more than MOST_ROWS."""
    rows: list[SchemaRow] = []
    _walk(schema, schema, "", 0, rows)
    return tuple(rows[:MOST_ROWS]), len(rows) > MOST_ROWS


def _walk(schema: Any, root: Mapping[str, Any], above: str, depth: int, rows: list[SchemaRow]) -> None:
    whole = _followed(schema, root)
    known, required = whole.get("properties"), whole.get("required")
    if not isinstance(known, dict) or depth > 3:
        return
    for name, part in known.items():
        if len(rows) > MOST_ROWS:
            return
        one = _followed(part, root)
        is_needed = isinstance(required, list) and name in required
        path = f"{above}{name}"
        rows.append(
            SchemaRow(
                path=path,
                depth=depth,
                type=_type(one, root),
                required=is_needed,
                about=_text(one.get("description")),
                bounds=_bounds(one),
                secret=_is_secret(one),
            )
        )
        inner = one.get("items") if one.get("type") == "array" else one
        _walk(inner, root, f"{path}[]." if one.get("type") == "array" else f"{path}.", depth + 1, rows)


def form_of(schema: Mapping[str, Any], values: Mapping[str, Any] | None = None) -> SchemaForm:
    """The form of a schema, filled with `values`. If `values` is None, each field has the default of its property. Without a default, a
    required JSON field has an example or an empty value; so has a form for the whole value. The field of a secret property is always
    empty."""
    whole = _followed(schema, schema)
    known, required = whole.get("properties"), whole.get("required")
    plain = (
        isinstance(known, dict) and 0 < len(known) <= MOST_FIELDS and not any(word in whole for word in ("anyOf", "oneOf", "allOf", "if"))
    )
    if not plain or not isinstance(known, dict):
        given = values if values is not None else _example(whole)
        return SchemaForm(whole=json.dumps(given, indent=2, ensure_ascii=False))
    names = required if isinstance(required, list) else []
    fields = [_field(name, _followed(part, schema), schema, name in names, values) for name, part in known.items()]
    return SchemaForm(fields=tuple(fields))


def _field(name: str, part: dict[str, Any], root: Mapping[str, Any], required: bool, values: Mapping[str, Any] | None) -> FormField:
    choices: tuple[tuple[str, str], ...] = ()
    options = part.get("enum")
    if isinstance(options, list) and 0 < len(options) <= _MOST_CHOICES and not any(isinstance(one, dict | list) for one in options):
        kind, choices = "choice", tuple((_json(one), one if isinstance(one, str) else _json(one)) for one in options)
    elif _is_secret(part):
        kind = "secret" if part.get("type") == "string" else "json"
    else:
        kind = {"string": "text", "integer": "number", "number": "number", "boolean": "boolean"}.get(_text(part.get("type")), "json")
        longest = part.get("maxLength")
        if kind == "text" and part.get("format") is None and isinstance(longest, int) and longest > _LONG:
            kind = "long"
    secret = _is_secret(part)
    example = None if secret else next((one for one in _list(part.get("examples"))), part.get("example"))
    value = None if secret else part.get("default") if values is None else values.get(name)
    if value is None and values is None and required and kind == "json":
        value = example if example is not None else [] if part.get("type") == "array" else {} if part.get("type") == "object" else None
    return FormField(
        name=name,
        kind=kind,
        required=required,
        type=_type(part, root),
        about=_text(part.get("description")),
        bounds=_bounds(part),
        choices=choices,
        value="" if value is None else value if kind in ("text", "long") and isinstance(value, str) else _json(value),
        example="" if example is None else example if isinstance(example, str) else _json(example),
        secret=secret,
    )


def filled(form: SchemaForm, given: Mapping[str, str]) -> tuple[SchemaForm, dict[str, Any] | None]:
    """Returns the form with what a person typed, and the inputs that the person gave. `given` has the text of each field, by the field's
    key. A property whose field is empty is left out of the inputs. If a field cannot be read, the inputs are None, and the form says which
    field and why."""
    if form.is_whole:
        text = given.get(WHOLE, "")
        try:
            value = loads(text or "{}")
        except ValueError as wrong:
            return msgspec.structs.replace(form, whole=text, problem=f"This is not JSON: {wrong}"), None
        if not isinstance(value, dict):
            return msgspec.structs.replace(form, whole=text, problem="The inputs must be a JSON object: {…}."), None
        return msgspec.structs.replace(form, whole=text), value
    inputs: dict[str, Any] = {}
    fields: list[FormField] = []
    for field in form.fields:
        text, problem = given.get(field.key, ""), ""
        try:
            if text.strip():
                inputs[field.name] = _read(field, text)
        except ValueError as wrong:
            problem = str(wrong)
        fields.append(msgspec.structs.replace(field, value="" if field.secret else text, problem=problem))
    whole = msgspec.structs.replace(form, fields=tuple(fields))
    return whole, None if any(one.problem for one in fields) else inputs


def with_problems(form: SchemaForm, details: Any, message: str) -> SchemaForm:
    """The form, with the problems that the contract found in the inputs. `details` is a list of objects with `path` and `reason`. Each
    problem is shown at its field. If a problem belongs to no field, or `details` has none, `message` is shown above the form."""
    found = [one for one in details if isinstance(one, dict)] if isinstance(details, list) else []
    fields, placed = [], 0
    for field in form.fields:
        own = [one for one in found if _first(one.get("path")) == field.name or (not one.get("path") and _names(one, field.name))]
        placed += len(own)
        told = "; ".join(f"{_within(one.get('path'))}{one.get('reason', '')}" for one in own[:5])
        fields.append(msgspec.structs.replace(field, problem=told) if own else field)
    above = "" if found and placed >= len(found) else message
    return msgspec.structs.replace(form, fields=tuple(fields), problem=above)


def loads(text: str) -> Any:
    """Read JSON that a person typed. Raises ValueError if it is not JSON, or is nested too deep. NaN and Infinity are not JSON."""
    try:
        return json.loads(text, parse_constant=_refused)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def dumps(value: Any) -> str:
    """A value as indented JSON, so that a person can edit it."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def _refused(word: str) -> Any:
    raise ValueError(f"{word} is not a value of JSON")


def _read(field: FormField, text: str) -> Any:
    if field.kind in ("text", "long", "secret"):
        return text
    try:
        value = loads(text)
    except ValueError as wrong:
        expected = {"number": "a number", "boolean": "true or false"}.get(field.kind, "JSON")
        raise ValueError(f"This is not {expected}{'' if field.kind != 'json' else f': {wrong}'}.") from None
    if field.kind == "number" and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise ValueError("This is not a number.")
    return value


def _followed(part: Any, root: Mapping[str, Any]) -> dict[str, Any]:
    """The schema that a part of a schema stands for. If the part has a `$ref`, this is the schema in `root` to which the `$ref` leads, over
    at most 10 references. A part without a `$ref` is returned as it is. Empty if there is no such schema."""
    found, steps = part, 0
    while isinstance(found, dict) and isinstance(found.get("$ref"), str) and steps < 10:
        target: Any = root
        for word in found["$ref"].removeprefix("#").strip("/").split("/"):
            target = (
                target.get(word.replace("~1", "/").replace("~0", "~"))
                if word and isinstance(target, dict)
                else target
                if not word
                else None
            )
        found, steps = target, steps + 1
    return found if isinstance(found, dict) else {}


def _type(part: dict[str, Any], root: Mapping[str, Any], inside: int = 0) -> str:
    if isinstance(part.get("enum"), list):
        return "one of " + ", ".join(_json(one) for one in part["enum"][:8]) + (", …" if len(part["enum"]) > 8 else "")
    if "const" in part:
        return _json(part["const"])
    word = part.get("type")
    if word == "array":
        # A `$ref` may lead to the array itself, so it is described down to some levels only.
        deeper = inside < _MOST_INSIDE and isinstance(part.get("items"), dict)
        inner = _type(_followed(part.get("items"), root), root, inside + 1) if deeper else ""
        return f"array of {inner}" if inner and len(inner) < 60 else "array"
    if isinstance(word, list):
        return " or ".join(map(str, word[:6]))
    if word is None:
        return next((f"{name} of {len(_list(part[name]))}" for name in ("anyOf", "oneOf", "allOf") if name in part), "any value")
    return str(word)


def _bounds(part: dict[str, Any]) -> str:
    told = [
        text.format(str(part[word])[:100]) for word, text in _BOUNDS.items() if word in part and not isinstance(part[word], dict | list)
    ]
    told = [text.replace(" items", " item").replace(" characters", " character") if text.startswith("1 ") else text for text in told]
    if "default" in part and not _is_secret(part):
        told.append(f"default {_json(part['default'])[:100]}")
    return ", ".join(told)


def _is_secret(part: dict[str, Any]) -> bool:
    return any(part.get(mark) is True for mark in _MARKS)


def _example(whole: dict[str, Any]) -> Any:
    return next(iter(_list(whole.get("examples"))), {})


def _first(path: Any) -> str:
    """The name of the property with which a JSON pointer begins; empty for the whole value."""
    return str(path or "").removeprefix("/").partition("/")[0].replace("~1", "/").replace("~0", "~")


def _within(path: Any) -> str:
    rest = str(path or "").removeprefix("/").partition("/")[2]
    return f"{rest}: " if rest else ""


def _names(problem: dict[str, Any], name: str) -> bool:
    """Whether this problem, which the contract found in the whole value, says that the property `name` is missing."""
    reason = str(problem.get("reason", ""))
    return "required" in reason and (f'"{name}"' in reason or f"'{name}'" in reason or f"`{name}`" in reason)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""

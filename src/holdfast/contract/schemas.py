"""The two schemas of a page: checks that they are schemas of draft 2020-12, and that they agree with the spec."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from holdfast.contract.checking import Checker
from holdfast.contract.costs import MANY, NAMED, ONE, SchemaInvalid, pointer
from holdfast.contract.jsonblocks import JsonBlock
from holdfast.contract.notes import PageNotes, meant, shown
from holdfast.contract.page import SPEC
from holdfast.contract.schema_references import References
from holdfast.contract.terms import Field

T = TypeVar("T", list[Any], dict[str, Any])
DRAFT = "https://json-schema.org/draft/2020-12/schema"
FORMATS = (
    "date", "date-time", "duration", "email", "hostname", "idn-email", "idn-hostname", "ipv4", "ipv6", "iri", "iri-reference",
    "json-pointer", "regex", "relative-json-pointer", "time", "uri", "uri-reference", "uri-template", "uuid",
)  # fmt: skip
_PLAIN = (
    "$schema", "$id", "$ref", "$anchor", "$dynamicRef", "$dynamicAnchor", "$comment", "$vocabulary", "type", "enum", "const", "multipleOf",
    "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum", "maxLength", "minLength", "pattern", "maxItems", "minItems",
    "uniqueItems", "maxContains", "minContains", "maxProperties", "minProperties", "required", "dependentRequired", "format", "title",
    "description", "default", "deprecated", "readOnly", "writeOnly", "examples", "contentEncoding", "contentMediaType",
)  # fmt: skip
KEYWORDS = (*ONE, *MANY, *NAMED, *_PLAIN)
_KNOWN = frozenset(KEYWORDS)
_MOST_DEFS_BYTES = 512 * 1024
"""A definition that refers to others contains a copy of all definitions of its schema. All these copies together have at most this many
bytes."""
_LOOSE = ("anyOf", "oneOf", "allOf", "const", "not", "if")


def examined(block: JsonBlock, section: str, notes: PageNotes) -> dict[str, Any] | None:
    """The schema of a section. If it is not a valid schema of draft 2020-12, has another `type` than `object` or is above a limit, the
    error is noted and None is returned. Unknown formats, and keywords that look misspelled, are noted as warnings."""
    schema = block.value
    if not isinstance(schema, dict):
        notes.error("schema_invalid", section, block.line, "The schema is not a JSON object. Write an object with `type` and `properties`.")
        return None
    if (draft := schema.get("$schema", DRAFT)) not in (DRAFT, DRAFT + "#"):
        told = f"The schema is written for `{shown(draft)}`. Write it for draft 2020-12: `{DRAFT}`."
        notes.error("schema_draft", section, block.at("$schema"), told)
        return None
    try:
        Checker(schema)
    except SchemaInvalid as error:
        path = error.path if error.path or error.code != "schema_invalid" else _lost_reference(schema)
        notes.error(error.code, section, block.at(*path), _explained(error, path))
        return None
    if schema.get("type", "object") != "object":
        told = f"The schema must describe an object, but its type is `{shown(schema['type'])}`. Make the value a property of an object."
        notes.error("schema_invalid", section, block.at("type"), told)
        return None
    for path, part in _schemas(schema):
        _words(path, part, block, section, notes)
    return schema


def _lost_reference(schema: dict[str, Any]) -> tuple[str, ...]:
    """The path of the first reference that leads to no part of the schema; empty if there is none. The validator's error does not have this
    path."""
    references = References(schema)
    for path, part in _schemas(schema):
        if isinstance(part.get("$ref"), str) and not references.found(part["$ref"]):
            return (*path, "$ref")
    return ()


_SMALLER = {
    "schema_too_large": "Make it smaller: check large parts of the value in the worker's code instead.",
    "schema_too_deep": "Make it flatter.",
    "schema_too_costly": "Refer to each definition fewer times: two references to the next definition double the work at each level.",
    "schema_pattern": "Use fewer or shorter patterns, and no look-around, no back reference, no large repetition of a repetition.",
}


def _explained(error: SchemaInvalid, path: tuple[str, ...]) -> str:
    reason, where = error.reason, f" (at {shown(pointer(path))})" if path else ""
    if error.code in _SMALLER:
        return f"The schema is refused{where}: {reason[:300]}. {_SMALLER[error.code]}"
    if "etrieval is disabled" in reason or "not present in a registry" in reason:
        return f"A reference leads out of the page{where}. Put the schema that it names under `$defs` and refer to `#/$defs/NAME`."
    return f"This is not a valid schema of draft 2020-12{where}: {reason[:300]}"


def _schemas(schema: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    """The schema and all the schemas in it, each with its path (without the index in a list). This recurses, which is safe because the
    depth of a block is limited."""
    if not isinstance(schema, Mapping):
        return
    yield path, schema
    for word in ONE:
        yield from _schemas(schema.get(word), (*path, word))
    for word in MANY:
        for part in _as(list, schema.get(word)):
            yield from _schemas(part, (*path, word))
    for word in NAMED:
        for name, part in _as(dict, schema.get(word)).items():
            yield from _schemas(part, (*path, word, name))


def _as(kind: type[T], value: Any) -> T:
    """The value if it has this type, else an empty value of the type. Before the schema is checked, the value may be anything."""
    return value if isinstance(value, kind) else kind()


def _words(path: tuple[str, ...], part: Mapping[str, Any], block: JsonBlock, section: str, notes: PageNotes) -> None:
    """Warn about formats that the validator ignores, and about ignored keywords that are similar to a known keyword."""
    for word in part:
        if word not in _KNOWN and not word.startswith("x-") and (hint := meant(word, KEYWORDS)):
            notes.warning(
                "unknown_keyword", section, block.at(*path, word), f"`{shown(word)}` is not a JSON Schema keyword; it is ignored.{hint}"
            )
    form = part.get("format")
    if isinstance(form, str) and form not in FORMATS:
        told = f"The format `{shown(form)}` is not known here and is not checked.{meant(form, FORMATS)}"
        notes.warning("unknown_format", section, block.at(*path, "format"), told)


def derived(fields: Sequence[Field], *, closed: bool) -> dict[str, Any]:
    """A schema made from the fields of a spec. With `closed` it allows no other fields."""
    return {
        "$schema": DRAFT,
        "type": "object",
        "additionalProperties": not closed,
        "properties": {field.name: _shape(field) for field in fields},
        "required": [field.name for field in fields if not field.optional],
    }


def _shape(field: Field) -> dict[str, Any]:
    if field.type == "enum":
        return {"type": "string", "enum": list(field.enum)}
    return {} if field.type == "any" else {"type": field.type}


def fields_of(schema: Mapping[str, Any]) -> tuple[Field, ...]:
    """The fields of a schema, for a page whose spec does not list them."""
    required, references = frozenset(schema.get("required", ())), References(schema)
    properties = schema.get("properties", {})
    return tuple(Field(name, _type(references, part) or "any", name not in required) for name, part in properties.items())


def _type(references: References, part: Any) -> str | None:
    for one in _resolved(references, part):
        if isinstance(one, Mapping) and isinstance(one.get("type"), str):
            return str(one["type"])
    return None


def _resolved(references: References, part: Any) -> list[Any]:
    """The part, the parts that its `$ref` leads to, the parts that their `$ref`s lead to, and so on; at most 20 parts in all."""
    seen: list[Any] = []
    waiting = [part]
    while waiting and len(seen) < 20:
        one = waiting.pop()
        seen.append(one)
        if isinstance(one, Mapping) and isinstance(one.get("$ref"), str):
            waiting.extend(found.part for found in references.found(one["$ref"]))
    return seen


class SpecComparison:
    """Compares a schema with the fields in the spec. A problem names both lines that do not agree."""

    def __init__(self, block: JsonBlock, section: str, lines: Mapping[str, int], list_line: int, notes: PageNotes) -> None:
        self._schema: Mapping[str, Any] = block.value
        self._references = References(block.value)
        self._listed = frozenset(self._schema.get("required", ()))
        self._block = block
        self._section = section
        self._lines = lines
        self._list_line = list_line
        self._notes = notes

    def run(self, fields: Sequence[Field], *, required_counts: bool) -> None:
        """Note an error for every field in which spec and schema do not agree. If `required_counts` is False, it is not compared which
        fields are required."""
        properties = self._schema.get("properties", {})
        for field in fields:
            if field.name in properties:
                self._shape(field, properties[field.name])
            else:
                self._differ(field.name, f"the spec names `{field.name}`, the schema does not", self._block.at("properties"))
            if required_counts and field.name in properties:
                self._required(field)
        for name in properties:
            if name not in self._lines:
                self._differ(name, f"the schema names `{shown(name)}`, the spec does not", self._block.at("properties", name))

    def _required(self, field: Field) -> None:
        listed = field.name in self._listed
        if listed == field.optional:
            spec = "optional" if field.optional else "required"
            schema = "required" if listed else "optional"
            self._differ(field.name, f"in the spec it is {spec}, in the schema it is {schema}", self._block.at("required"))

    def _shape(self, field: Field, part: Any) -> None:
        parts = [one for one in _resolved(self._references, part) if isinstance(one, Mapping)]
        line = self._block.at("properties", field.name)
        if field.type == "enum":
            values = next((one["enum"] for one in parts if isinstance(one.get("enum"), list)), None)
            if values is None and not any(word in one for one in parts for word in _LOOSE):
                self._differ(field.name, f"the spec gives it the values {', '.join(field.enum)}, the schema none", line)
            elif values is not None and {str(value) for value in values if value is not None} != set(field.enum):
                listed = ", ".join(str(value) for value in values)
                self._differ(field.name, f"the spec gives it the values {', '.join(field.enum)}, the schema {shown(listed)}", line)
            return
        types = next((one["type"] for one in parts if "type" in one), None)
        if types is None or field.type == "any":
            return
        if field.type not in (types if isinstance(types, list) else [types]):
            self._differ(field.name, f"the spec says `{field.type}`, the schema `{shown(types)}`", line)

    def _differ(self, name: str, how: str, line: int) -> None:
        spec_line = self._lines.get(name, self._list_line)
        told = f"`{shown(name)}`: {how} ({SPEC}, line {spec_line}; {self._section}, line {line}). Make them say the same."
        self._notes.error("spec_and_schema_differ", self._section, line, told)


def defs_of(schemas: Mapping[str, Mapping[str, Any]], blocks: Mapping[str, JsonBlock], notes: PageNotes) -> dict[str, Any]:
    """The `$defs` of all schemas, by name. Each can be used alone: a definition that refers to others contains them. If two schemas have
    different definitions with one name, the first is used, and a warning is noted. If the definitions are too large together, an error is
    noted, and the result is empty."""
    merged: dict[str, Any] = {}
    carried = 0
    for section, schema in schemas.items():
        own = schema.get("$defs", {})
        size = len(msgspec.json.encode(own))
        for name, part in own.items():
            alone = part
            if isinstance(part, dict) and any("$ref" in one for _, one in _schemas(part)):
                alone = {**part, "$defs": {**own, **part.get("$defs", {})}}
                carried += size
            if carried > _MOST_DEFS_BYTES:  # check the size before any code compares or writes the definitions
                line = blocks[section].at("$defs", name)
                told = f"The `$defs`, each with the definitions it needs, have more than {_MOST_DEFS_BYTES} bytes. Refer to fewer of them."
                notes.error("schema_too_large", section, line, told)
                return {}
            if name in merged and merged[name] != alone:
                line = blocks[section].at("$defs", name)
                told = f"The input schema has another `{shown(name)}` in its `$defs`, and the worker gets that one. Rename one of the two."
                notes.warning("defs_differ", section, line, told)
            merged.setdefault(name, alone)
    return merged

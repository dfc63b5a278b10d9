"""Reads the part of a JSON Schema that can be compared. The result allows every value that the schema allows, and maybe more. These
keywords are read: `type`, `enum`, `const`, `properties`, `required`, `additionalProperties`, `items`, `prefixItems`, `minItems`, `allOf`,
`anyOf`, `oneOf` and `$ref` inside the document. Other keywords only make a schema stricter. So they can be ignored safely when the question
is whether no value fits at all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, Final, NamedTuple

from holdfast.contract.equality import equal
from holdfast.contract.schema_references import References

ALL_TYPES: Final = frozenset({"null", "boolean", "integer", "fraction", "string", "array", "object"})
"""All types, chosen so that no value has two of them: `number` is split into `integer` and `fraction`."""
MOST_PARTS: Final = 64
"""At most this many schemas are read for one place, including those to which references and `allOf` lead. Further ones are ignored, so that
more values are allowed."""
_TYPES: Final[Mapping[str, frozenset[str]]] = {
    **{name: frozenset({name}) for name in ALL_TYPES},
    "number": frozenset({"integer", "fraction"}),
}


class SchemaDocument:
    """A whole schema document. References inside it lead to its parts."""

    def __init__(self, root: Any) -> None:
        self.root = root
        self._references = References(root)

    @property
    def part(self) -> Subschema:
        """The whole schema of the document, as a Subschema."""
        return Subschema(self.root, self)

    def led(self, reference: str) -> Subschema | None:
        """The schema to which a reference leads; None if it leads out of the document, to nothing, or not certainly to one place."""
        if self._has_inner_documents or not reference.startswith("#"):
            return None
        found = self._references.found(reference)
        return Subschema(found[0].part, self) if len(found) == 1 else None

    @cached_property
    def _has_inner_documents(self) -> bool:
        """Whether a part of the document has its own `$id`. Then the same reference can mean two places."""
        waiting = list(_below(self.root))
        while waiting:
            part = waiting.pop()
            if isinstance(part, Mapping) and "$id" in part:
                return True
            waiting.extend(_below(part))
        return False


def _below(part: Any) -> Iterator[Any]:
    if isinstance(part, Mapping):
        yield from part.values()
    elif isinstance(part, list):
        yield from part


class Subschema(NamedTuple):
    """A schema, and the document in which its `$ref` is looked up. Without a document (None), a `$ref` is not followed. A schema that this
    package makes may contain Subschemas in place of schemas."""

    schema: Any
    document: SchemaDocument | None = None


ANYTHING: Final[tuple[Subschema, ...]] = ()
"""The type of every value: no schema."""


def made(schema: Mapping[str, Any]) -> tuple[Subschema, ...]:
    """The type of a schema that this package makes. The schema may contain Subschemas in place of schemas."""
    return (Subschema(schema),)


def closed(**fields: Any) -> dict[str, Any]:
    """The schema of an object that has exactly these fields."""
    return {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}


def all_of(parts: tuple[Subschema, ...]) -> Subschema:
    """One schema that is met only if all of these are met."""
    return parts[0] if len(parts) == 1 else Subschema({"allOf": list(parts)})


class _Listing(NamedTuple):
    """What one schema says of the elements of a list: the schemas of the first elements, and that of all others (None: it says nothing)."""

    first: tuple[Subschema, ...]
    rest: Subschema | None


class _Naming(NamedTuple):
    """What one schema says of the fields of an object."""

    fields: Mapping[str, Subschema]
    other: Subschema | None
    """The schema of the fields that are not named. None if the schema says nothing about them, or says it by a pattern."""


class Shape:
    """What all schemas of one place say together."""

    def __init__(self, parts: tuple[Subschema, ...]) -> None:
        self.types = ALL_TYPES
        self.values: list[Any] | None = None
        """The only allowed values, from `enum` and `const`; None if there is neither."""
        self.required: set[str] = set()
        self.least_items = 0
        self.choices: list[list[Subschema]] = []
        """A value must meet at least one schema of each list (`anyOf`, `oneOf`)."""
        self._namings: list[_Naming] = []
        self._listings: list[_Listing] = []
        self.read = 0
        waiting, seen = list(reversed(parts)), set()
        while waiting and self.read < MOST_PARTS:
            part = waiting.pop()
            key = (id(part.schema), id(part.document))
            if key in seen:
                continue
            seen.add(key)
            self.read += 1
            if part.schema is False:
                self.types = frozenset()
            elif isinstance(part.schema, Mapping):
                self._add(part.schema, part.document)
                waiting.extend(_together(part.schema, part.document))

    def _add(self, schema: Mapping[str, Any], document: SchemaDocument | None) -> None:
        if (types := schema.get("type")) is not None:
            names = types if isinstance(types, list) else [types]
            self.types &= frozenset().union(*(_TYPES.get(name, ALL_TYPES) for name in names if isinstance(name, str)))
        for word in ("enum", "const"):
            if word in schema and (word == "const" or isinstance(schema[word], list)):
                values = [schema[word]] if word == "const" else schema[word]
                self.values = list(values) if self.values is None else [one for one in self.values if any(equal(one, v) for v in values)]
        if isinstance(schema.get("required"), list):
            self.required.update(name for name in schema["required"] if isinstance(name, str))
        if isinstance(least := schema.get("minItems"), int | float) and not isinstance(least, bool):
            self.least_items = max(self.least_items, int(least))
        for word in ("anyOf", "oneOf"):
            if isinstance(schema.get(word), list) and schema[word]:
                self.choices.append([_part(one, document) for one in schema[word]])
        self._add_fields(schema, document)
        self._add_elements(schema, document)

    def _add_fields(self, schema: Mapping[str, Any], document: SchemaDocument | None) -> None:
        named = schema.get("properties")
        fields = {name: _part(one, document) for name, one in named.items()} if isinstance(named, Mapping) else {}
        other = None if "patternProperties" in schema else schema.get("additionalProperties")
        if fields or other is not None:
            self._namings.append(_Naming(fields, None if other is None else _part(other, document)))

    def _add_elements(self, schema: Mapping[str, Any], document: SchemaDocument | None) -> None:
        listed = schema.get("prefixItems")
        first = tuple(_part(one, document) for one in listed) if isinstance(listed, list) else ()
        rest = schema.get("items")
        if first or rest is not None:
            self._listings.append(_Listing(first, None if rest is None else _part(rest, document)))

    # --- what is asked

    @property
    def says_something(self) -> bool:
        """Whether the schemas say anything that can be compared; `minItems` alone does not count."""
        return bool(self.types != ALL_TYPES or self.values is not None or self.required or self.choices or self._namings or self._listings)

    @property
    def names(self) -> list[str]:
        """The names of the fields that the schemas name, each once."""
        return list(dict.fromkeys(name for naming in self._namings for name in naming.fields))

    def field(self, name: str) -> tuple[Subschema, ...]:
        """The schemas that this shape has for the field of this name, without those inside `anyOf` and `oneOf` (`choices`); empty if
        nothing is said about the field."""
        found = []
        for fields, other in self._namings:
            if name in fields:
                found.append(fields[name])
            elif other is not None and other.schema is not True:
                found.append(other)
        return tuple(found)

    def element(self, index: int) -> tuple[Subschema, ...]:
        """The schemas that this shape has for the element of a list at this index, without those inside `anyOf` and `oneOf` (`choices`);
        empty if there are none."""
        return tuple(
            part
            for first, rest in self._listings
            for part in ((first[index],) if index < len(first) else () if rest is None or rest.schema is True else (rest,))
        )

    @property
    def first_elements(self) -> int:
        """How many elements at the beginning of a list have schemas of their own (`prefixItems`). If several schemas say it, the largest
        number."""
        return max((len(listing.first) for listing in self._listings), default=0)


def _part(schema: Any, document: SchemaDocument | None) -> Subschema:
    return schema if isinstance(schema, Subschema) else Subschema(schema, document)


def _together(schema: Mapping[str, Any], document: SchemaDocument | None) -> Iterator[Subschema]:
    """The further schemas that a value of this schema must meet: the target of `$ref`, and those of `allOf`."""
    reference = schema.get("$ref")
    if isinstance(reference, str) and document is not None and (led := document.led(reference)) is not None:
        yield led
    if isinstance(schema.get("allOf"), list):
        yield from (_part(one, document) for one in schema["allOf"])


def type_of(value: Any) -> str:
    """The type of a JSON value, as one of ALL_TYPES."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "integer" if value.is_integer() else "fraction"
        case str():
            return "string"
        case list() | tuple():
            return "array"
        case _:
            return "object"


def told_types(types: frozenset[str]) -> str:
    """Types as words for a message: `a text or null`."""
    order = ("string", "number", "integer", "fraction", "boolean", "object", "array", "null")
    shown = set(types)
    if {"integer", "fraction"} <= shown:
        shown = shown - {"integer", "fraction"} | {"number"}
    words = {"string": "a text", "number": "a number", "integer": "an integer", "fraction": "a number with a fraction", "array": "a list"}
    words |= {"boolean": "true or false", "object": "an object", "null": "null"}
    return " or ".join(words[name] for name in order if name in shown) or "nothing"

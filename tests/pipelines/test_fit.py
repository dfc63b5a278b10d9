"""Two schemas beside each other. The law: a certain misfit is reported only if no value fits both schemas."""

from __future__ import annotations

from random import Random
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.pipelines.check.fit import MOST_VISITS, SchemaComparison, fits
from holdfast.pipelines.check.shapes import SchemaDocument
from tests.parts import examples
from tests.pipelines.check_graphs import NUMBER, TEXT, shape

INTEGER = {"type": "integer"}


def listed(items: Any, **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, **more}


CERTAIN = [
    (TEXT, INTEGER, "the value is a text; an integer is needed"),
    (shape("*", a=TEXT), shape("*", a=INTEGER), ".a is a text; an integer is needed"),
    (shape(b=TEXT), shape("*", a=TEXT), ".a is required, and is not there"),
    (shape("*", a=TEXT, b=TEXT), shape("*", a=TEXT), ".b is not accepted"),
    ({"enum": ["a"]}, {"enum": ["b"]}, "the value is 'a'; only 'b' is accepted"),
    ({"const": {"a": 1}}, shape("*", a=TEXT), "the value is dict with 1 elements, which is not accepted"),
    (listed(TEXT, minItems=1), listed(INTEGER), "[0] is a text; an integer is needed"),
    ({"anyOf": [TEXT, NUMBER]}, {"type": "null"}, "the value fits none of the 2 forms: is a text; null is needed"),
    (TEXT, {"oneOf": [INTEGER, {"type": "null"}]}, "the value fits none of the 2 forms: is a text; an integer is needed"),
    ({"$ref": "#/$defs/a", "$defs": {"a": TEXT}}, {"allOf": [{}, INTEGER]}, "the value is a text; an integer is needed"),
    (TEXT, False, "the value is a text; nothing is needed"),
]
POSSIBLE = [
    (shape(a=TEXT), shape("*", a=TEXT), ".a is required, and may be missing"),
    (shape(closed=False, b=TEXT), shape("a", a=TEXT, b=TEXT), ".a is required, and is not promised"),
    ({"type": ["string", "null"]}, TEXT, "the value may be null; a text is needed"),
    (NUMBER, INTEGER, "the value may be a number with a fraction; an integer is needed"),
    ({"enum": ["a", "b"]}, {"enum": ["b"]}, "the value may be 'a', which is not accepted"),
    (TEXT, {"enum": ["b"]}, "the value may be any value; only 'b' is accepted"),
    (listed(TEXT), listed(INTEGER), "[*] is a text; an integer is needed, unless the list is empty"),
    (shape(a=TEXT), shape(a=INTEGER), ".a is a text; an integer is needed, if it is there"),
    ({"anyOf": [TEXT, NUMBER]}, NUMBER, "the value is a text; a number is needed in one of its forms"),
    (shape(a=TEXT, b=TEXT), shape(a=TEXT), ".b may be there, and is not accepted"),
]
FINE = [
    ({}, TEXT),
    (TEXT, {}),
    (INTEGER, NUMBER),
    (TEXT, {"anyOf": [INTEGER, TEXT]}),
    ({"enum": ["a"]}, {"type": "string", "enum": ["a", "b"]}),
    ({"const": 1.0}, INTEGER),
    (shape("*", a=TEXT), shape("a", a=TEXT, b=TEXT)),
    (listed(shape("*", a=TEXT)), listed(shape("*", a=TEXT))),
    (TEXT, {"type": "string", "minLength": 3, "pattern": "x", "format": "uri"}),
    ({"$ref": "#"}, {"$ref": "#"}),
]


@pytest.mark.parametrize("producer, consumer, told", CERTAIN)
def test_a_certain_misfit_is_told_with_its_place(producer: Any, consumer: Any, told: str) -> None:
    assert [(str(one), one.certain) for one in fits(producer, consumer)] == [(told, True)]


@pytest.mark.parametrize("producer, consumer, told", POSSIBLE)
def test_a_possible_misfit_is_told_with_its_place(producer: Any, consumer: Any, told: str) -> None:
    assert [(str(one), one.certain) for one in fits(producer, consumer)] == [(told, False)]


@pytest.mark.parametrize("producer, consumer", FINE)
def test_schemas_that_fit_have_no_misfit(producer: Any, consumer: Any) -> None:
    assert fits(producer, consumer) == []


def test_every_field_that_does_not_fit_is_told_at_once() -> None:
    found = fits(shape("*", a=TEXT, b=TEXT, c=TEXT), shape("*", a=INTEGER, b=TEXT, c=INTEGER, d=TEXT))
    assert [one.path for one in found] == [".a", ".c", ".d"]


def test_a_reference_that_could_mean_two_places_proves_nothing() -> None:
    """An inner `$id` begins a document of its own, in which `#/$defs/a` is another place."""
    inner = {"$id": "http://inner.example/", "$ref": "#/$defs/a", "$defs": {"a": INTEGER}}
    producer = {"properties": {"x": inner}, "required": ["x"], "type": "object", "$defs": {"a": TEXT}}
    assert not any(one.certain for one in fits(producer, shape("*", x=INTEGER)))


# --- the law ---------------------------------------------------------------------------------------------------------------------

NAMES = ("a", "b", "c")
SCALARS = (None, True, False, 0, 1, -2, 0.5, 1.0, "", "a", "b")
TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")
WORDS = (
    "type", "type", "type", "enum", "const", "properties", "properties", "required", "additionalProperties", "patternProperties", "items",
    "prefixItems", "minItems", "maxItems", "allOf", "anyOf", "oneOf", "not", "minimum", "maxLength", "$ref",
)  # fmt: skip


class Chance:
    """Schemas and values from a seed. Hypothesis chooses the seed: to draw each member would take it a hundred times as long."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def value(self, depth: int = 2) -> Any:
        kind = self._random.randrange(4) if depth else 0
        if kind == 2:
            return [self.value(depth - 1) for _ in range(self._random.randrange(3))]
        if kind == 3:
            return {name: self.value(depth - 1) for name in NAMES if self._random.random() < 0.4}
        return self._random.choice(SCALARS)

    def document(self) -> dict[str, Any]:
        return {**self._words(3), "$defs": {"x": self.schema(1), "y": self.schema(1)}}

    def schema(self, depth: int) -> Any:
        return self._random.choice((True, False, True, True)) if not depth or self._random.random() < 0.1 else self._words(depth)

    def _words(self, depth: int) -> dict[str, Any]:
        return {word: self._word(word, depth - 1) for word in self._random.sample(WORDS, self._random.randrange(1, 4))}

    def _word(self, word: str, depth: int) -> Any:
        random = self._random
        match word:
            case "type":
                return random.choice(TYPES) if random.random() < 0.7 else random.sample(TYPES, 2)
            case "enum":
                return [self.value() for _ in range(random.randrange(1, 4))]
            case "const":
                return self.value()
            case "properties":
                return {name: self.schema(depth) for name in NAMES if random.random() < 0.6}
            case "required":
                return random.sample(NAMES, random.randrange(1, 3))
            case "patternProperties":
                return {random.choice(("a", "^b", ".")): self.schema(depth)}
            case "prefixItems" | "allOf" | "anyOf" | "oneOf":
                return [self.schema(depth) for _ in range(random.randrange(1, 3))]
            case "$ref":
                return random.choice(("#", "#/$defs/x", "#/$defs/y"))
            case "minItems" | "maxItems" | "minimum" | "maxLength":
                return random.randrange(3)
            case _:
                return self.schema(depth)


SEEDS = st.integers(0, 2**48)


@settings(max_examples=examples(3000))
@given(SEEDS)
def test_no_value_fits_both_schemas_where_a_misfit_is_certain(seed: int) -> None:
    chance = Chance(seed)
    for _ in range(8):
        producer, consumer = chance.document(), chance.document()
        if any(one.certain for one in fits(producer, consumer)) and _ends(producer) and _ends(consumer):
            values = [*_constants(producer), *_constants(consumer), *(chance.value() for _ in range(60))]
            gives, takes = (jsonschema_rs.Draft202012Validator(schema) for schema in (producer, consumer))
            assert [value for value in values if gives.is_valid(value) and takes.is_valid(value)] == []


@settings(max_examples=examples(100))
@given(SEEDS)
def test_a_value_that_fits_a_schema_never_clashes_with_it(seed: int) -> None:
    chance = Chance(seed)
    for _ in range(8):
        schema = chance.document()
        if _ends(schema):
            checker = jsonschema_rs.Draft202012Validator(schema)
            for value in filter(checker.is_valid, [*_constants(schema), *(chance.value() for _ in range(30))]):
                assert not any(one.certain for one in fits({"const": value}, schema))
                assert not any(one.certain for one in fits(schema, schema))


def test_the_schemas_of_the_law_are_neither_all_misfits_nor_all_fine() -> None:
    """Else the law would hold for want of cases."""
    chance = Chance(1)
    certain = fitting = 0
    for _ in range(400):
        producer, consumer = chance.document(), chance.document()
        if _ends(producer) and _ends(consumer):
            gives, takes = (jsonschema_rs.Draft202012Validator(schema) for schema in (producer, consumer))
            values = [*_constants(producer), *_constants(consumer), *(chance.value() for _ in range(30))]
            fitting += any(gives.is_valid(value) and takes.is_valid(value) for value in values)
            certain += any(one.certain for one in fits(producer, consumer))
    assert certain > 40
    assert fitting > 40


def _constants(schema: Any) -> list[Any]:
    """The values that a schema names."""
    found, waiting = [], [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            found += [part["const"]] if "const" in part else []
            found += part["enum"] if isinstance(part.get("enum"), list) else []
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part
    return found


def _ends(schema: Any) -> bool:
    """A reference that leads to itself without a step into the value never ends: the reader of contracts refuses such schemas."""
    return not _turns(schema, schema, frozenset())


def _turns(root: Any, part: Any, seen: frozenset[str]) -> bool:
    """Whether a reference leads back to its own place without going into the value."""
    if not isinstance(part, dict):
        return False
    inner = [one for word in ("allOf", "anyOf", "oneOf") for one in part.get(word, ())] + [part[word] for word in ("not",) if word in part]
    if isinstance(where := part.get("$ref"), str):
        if where in seen:
            return True
        led = root if where == "#" else root["$defs"][where[-1]]
        if _turns(root, led, seen | {where}):
            return True
    return any(_turns(root, one, seen | ({"#"} if part is root else set())) for one in inner)


# --- the cost ----------------------------------------------------------------------------------------------------------------------


def test_schemas_that_double_with_each_level_are_compared_up_to_the_limit() -> None:
    doubling: dict[str, Any] = {"$ref": "#/$defs/0", "$defs": {"40": TEXT}}
    for level in range(40):
        doubling["$defs"][str(level)] = shape("*", x={"$ref": f"#/$defs/{level + 1}"}, y={"$ref": f"#/$defs/{level + 1}"})
    comparison = SchemaComparison()
    assert comparison.misfits((SchemaDocument(doubling).part,), (SchemaDocument(doubling).part,)) == []
    assert comparison.exhausted
    assert comparison.visits < MOST_VISITS * 1.1


def test_forms_inside_forms_do_not_exhaust_the_stack() -> None:
    nested: Any = TEXT
    for _ in range(5000):
        nested = {"anyOf": [nested, INTEGER]}
    assert not any(one.certain for one in fits(nested, nested))

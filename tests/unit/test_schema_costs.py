"""What a schema can cost is counted before it is compiled; above a limit it is refused by name, and the count itself is quick."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from random import Random
from typing import Any

import pytest

from holdfast.contract.checking import Checker, Size, checker_of
from holdfast.contract.costs import IN_PLACE, MAX_BYTES, MAX_CHAIN, MAX_DEPTH, MAX_EVALUATIONS, MAX_PATTERNS, SchemaInvalid, cost_of
from holdfast.contract.page_reader import read
from holdfast.contract.patterns import MAX_CHARACTERS, matcher
from holdfast.contract.redaction import MAX_STEPS, REDACTED, redacted
from holdfast.hosts.evaluator.schema_check import _in_place, problems_now
from tests.workers.pages import page

Schema = dict[str, Any]


def doubling(levels: int, *, word: str = "allOf") -> Schema:
    """Each definition refers twice to the next."""
    two = [[{"$ref": f"#/$defs/d{level + 1}"}] * 2 for level in range(levels)]
    defs: Schema = {f"d{level}": {word: refs} for level, refs in enumerate(two)}
    return {"type": "object", "$defs": {**defs, f"d{levels}": {"type": "object"}}, "$ref": "#/$defs/d0"}


def chained(length: int) -> Schema:
    defs: Schema = {f"d{level}": {"$ref": f"#/$defs/d{level + 1}"} for level in range(length)}
    return {"type": "object", "$defs": {**defs, f"d{length}": {}}, "$ref": "#/$defs/d0"}


def nested(depth: int) -> Schema:
    schema: Schema = {"type": "object"}
    for _ in range(depth):
        schema = {"not": schema}
    return schema


ATTACKS: Mapping[str, tuple[Schema, str]] = {
    "references that double 36 times": (doubling(36), "schema_too_costly"),
    "references that double 400 times": (doubling(400), "schema_too_costly"),
    "the same through anyOf": (doubling(36, word="anyOf"), "schema_too_costly"),
    "a schema of many bytes": ({"type": "object", "description": "x" * MAX_BYTES}, "schema_too_large"),
    "a schema that is nested deeply": (nested(MAX_DEPTH + 1), "schema_too_deep"),
    "a chain of references": (chained(MAX_CHAIN + 1), "schema_too_deep"),
    "a pattern with a back reference": ({"pattern": r"(a+)\1"}, "schema_pattern"),
    "a pattern that looks around": ({"pattern": "^(?=a)(?!b)"}, "schema_pattern"),
    "a pattern that repeats repetitions": ({"pattern": "((a{1,100}){1,100}){1,100}"}, "schema_pattern"),
    "a long pattern": ({"pattern": "a" * (MAX_CHARACTERS + 1)}, "schema_pattern"),
    "many patterns": ({"patternProperties": {f"a{number}": {} for number in range(MAX_PATTERNS + 1)}}, "schema_pattern"),
    "a list of values, evaluated again and again": (
        {"$defs": {"e": {"enum": list(range(2_000))}}, "allOf": [{"$ref": "#/$defs/e"}] * 100},
        "schema_too_costly",
    ),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_schema_above_a_limit_is_refused_by_name_and_at_once(attack: str) -> None:
    schema, code = ATTACKS[attack]
    began = time.process_time()
    with pytest.raises(SchemaInvalid) as refused:
        Checker(schema)
    assert refused.value.code == code
    assert time.process_time() - began < 1.0


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_page_with_such_a_schema_is_refused_with_its_line_and_what_to_do(attack: str) -> None:
    schema, code = ATTACKS[attack]
    reading = read(page("w", outputs={**schema, "type": "object"}))
    problem = next(problem for problem in reading.errors)
    assert reading.contract is None
    assert problem.code in (code, "json_too_deep")  # a page's JSON has the same limit of its own
    assert problem.section == "Output schema"


def test_where_the_limit_is_passed_is_told() -> None:
    with pytest.raises(SchemaInvalid) as refused:
        cost_of(doubling(36))
    at = int(refused.value.path[-1].removeprefix("d"))
    assert refused.value.path[0] == "$defs"
    assert cost_of({**doubling(36), "$ref": f"#/$defs/d{at + 1}"}).evaluations <= MAX_EVALUATIONS


def expanded(schema: Any, root: Schema) -> int:
    """The same count, by writing every reference out."""
    if not isinstance(schema, Mapping):
        return 0
    below = [part for word in ("allOf", "anyOf") for part in schema.get(word, ())]
    below += [*schema.get("properties", {}).values(), *([schema["not"]] if "not" in schema else [])]
    if "$ref" in schema:
        below.append(root["$defs"][schema["$ref"].rpartition("/")[2]])
    return 1 + len(schema.get("properties", {})) + sum(expanded(part, root) for part in below)


@pytest.mark.parametrize("seed", range(30))
def test_the_count_is_that_of_the_schema_written_out(seed: int) -> None:
    chance = Random(seed)

    def made(level: int) -> Schema:
        refs: list[Schema] = (
            [{"$ref": f"#/$defs/d{chance.randrange(level + 1, 9)}"} for _ in range(chance.randrange(4))] if level < 8 else []
        )
        shapes: list[Schema] = [{"allOf": refs}, {"anyOf": refs}, {"properties": {f"p{at}": ref for at, ref in enumerate(refs)}}]
        return {"not": {}} if not refs else chance.choice(shapes)

    root: Schema = {"$defs": {f"d{level}": made(level) for level in range(9)}, "$ref": "#/$defs/d0"}
    assert cost_of(root).evaluations == expanded(root, root)


LINKED: Schema = {"type": "object", "properties": {"next": {"$ref": "#"}}}
TREE: Schema = {"type": "object", "properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}}
UNBOUNDED: Mapping[str, Schema] = {
    "a tree": TREE,
    "two ways to the same place": {"allOf": [{"properties": {"a": {"$ref": "#"}}}, {"properties": {"a": {"$ref": "#"}}}]},
    "a reference to itself": {"$ref": "#"},
    "a reference that depends on where it is met": {"$dynamicAnchor": "x", "items": {"$dynamicRef": "#x"}},
    "a document inside the document": {"$defs": {"a": {"$id": "other", "items": {"$ref": "#"}}}, "$ref": "#/$defs/a"},
    "what was not evaluated": {"anyOf": [{"required": ["a"]}], "unevaluatedProperties": False},
}


@pytest.mark.parametrize("kind", UNBOUNDED)
def test_a_schema_whose_cost_the_value_decides_is_never_evaluated_in_place(kind: str) -> None:
    assert cost_of(UNBOUNDED[kind]).unbounded


@pytest.mark.parametrize(
    "schema", [LINKED, {"items": {"$ref": "#"}}, {"$defs": {"a": {"items": {"$ref": "#/$defs/a"}}}, "$ref": "#/$defs/a"}]
)
def test_a_cycle_with_one_way_costs_in_proportion_to_the_value(schema: Schema) -> None:
    assert not cost_of(schema).unbounded


def test_listing_a_hundred_thousand_mistakes_does_not_take_seconds() -> None:
    checker = checker_of({"type": "array", "items": {"type": "string"}})
    began = time.process_time()
    problems = checker.problems(list(range(100_000)))
    assert time.process_time() - began < 1.0
    assert [problem.path for problem in problems] == ["/0"]


def test_a_pattern_that_backtracks_in_other_engines_is_matched_in_linear_time() -> None:
    checker = checker_of({"pattern": "^(a+)+$"})
    began = time.process_time()
    assert not checker.fits("a" * 50_000 + "b")
    assert time.process_time() - began < 1.0


def test_a_mark_under_a_pattern_that_backtracks_is_found_in_linear_time() -> None:
    schema: Schema = {"patternProperties": {"^(a+)+$": {"x-redact": True}}}
    began = time.process_time()
    shown = redacted({"a" * 40 + "b": 1, "aa": 2}, schema)
    assert time.process_time() - began < 1.0
    assert shown == {"a" * 40 + "b": 1, "aa": REDACTED}
    assert redacted({"k": 1}, {"patternProperties": {"(?=k)": {"x-redact": True}}}) == {"k": REDACTED}, "when in doubt, it is a secret"


def test_a_value_that_takes_too_long_to_redact_is_not_shown_at_all() -> None:
    schema: Schema = {"items": {"anyOf": [{"properties": {"a": {"x-redact": True}}}]}}
    assert redacted([{"a": 1, "b": 2}], schema) == [{"a": REDACTED, "b": 2}]
    assert redacted([{"b": 1}] * MAX_STEPS, schema) == REDACTED


def test_what_no_mark_can_reach_is_not_walked() -> None:
    large = [{"b": number} for number in range(MAX_STEPS)]
    schema: Schema = {"properties": {"secret": {"x-redact": True}, "large": {"items": {"properties": {"b": {"type": "integer"}}}}}}
    shown = redacted({"secret": "s", "large": large}, schema)
    assert shown["secret"] == REDACTED
    assert shown["large"] is large


def test_many_unknown_words_are_not_all_guessed_at() -> None:
    words = {f"propertiez{number}": 1 for number in range(3_000)}
    began = time.process_time()
    assert read(page("w", outputs={"type": "object", **words})).contract is not None
    assert time.process_time() - began < 2.0


def test_definitions_that_carry_each_other_are_bounded() -> None:
    defs = {f"d{number}": {"anyOf": [{"$ref": "#/$defs/leaf"}], "title": "x" * 40} for number in range(400)}
    reading = read(page("w", outputs={"type": "object", "$defs": {"leaf": {}, **defs}}))
    assert [problem.code for problem in reading.errors] == ["schema_too_large"]


def test_properties_that_refer_by_anchor_are_looked_up_once() -> None:
    names = {f"p{number}": {"$ref": "#leaf"} for number in range(1_500)}
    text = page("w", outputs={"type": "object", "$defs": {"leaf": {"$anchor": "leaf", "type": "string"}}, "properties": names})
    began = time.process_time()
    assert read(text).contract is not None
    assert time.process_time() - began < 2.0


def test_patterns_of_ecmascript_are_understood() -> None:
    assert matcher(r"^[\u0041-\u005A]+$").search("ABC") is not None  # type: ignore[union-attr]
    assert matcher("(?=a)") is None


def test_the_schemas_of_everyday_are_far_from_every_limit() -> None:
    person = {"type": "object", "properties": {f"field_{number}": {"type": "string", "minLength": 1} for number in range(50)}}
    cost = cost_of({**person, "required": list(person["properties"])})
    assert cost.steps(200, 4_000) < IN_PLACE
    assert json.dumps(person)


def test_dividing_numbers_of_many_digits_is_not_done_where_others_wait() -> None:
    """One division of this kind takes as long as thousands of other steps: 20,000 of them took three seconds."""
    cost = cost_of({"items": {"multipleOf": 1e-300}})
    assert cost.steps(20_000, 0) > IN_PLACE
    assert cost_of({"$ref": "#/$defs/d", "$defs": {"d": {"allOf": [{"multipleOf": 0.01}] * 2}}}).numbers == 2 * cost.numbers
    cents = {f"price_{number}": {"type": "number", "multipleOf": 0.01} for number in range(100)}
    assert cost_of({"type": "object", "properties": cents}).evaluations < 1_000, "many prices are no reason to refuse a schema"


def test_a_number_beyond_64_bits_does_not_hide_how_large_a_value_is() -> None:
    """The quick writer knows no such number, so another one writes the value: what that wrote is counted."""
    checker = Checker({"items": {"allOf": [{"minimum": least} for least in range(45)]}})
    for large in (2**70, 2**60):
        value = [large, *[100] * 20_000]
        found = _in_place(checker, value)
        assert isinstance(found, Size), "evaluated on the event loop"
        assert found.places == 20_002


def test_a_text_that_is_no_unicode_is_a_mismatch_and_no_error() -> None:
    assert [problem.path for problem in problems_now({"type": "object"}, {"a": "\ud800"}, "caller")] == [""]

"""A value is checked against draft 2020-12: with path, reason and value, secrets left out, nothing fetched, nothing raised."""

from __future__ import annotations

import json
import socket
import tracemalloc
from time import perf_counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.contract.checking import MAX_MISMATCHES, MAX_VALUE_CHARACTERS, Mismatch, SchemaInvalid, brief, checker_of, problems_of
from holdfast.contract.redaction import REDACTED, redacted

PERSON = {
    "type": "object",
    "required": ["name"],
    "additionalProperties": False,
    "properties": {
        "name": {"type": "string", "minLength": 1},
        "email": {"type": "string", "format": "email"},
        "born": {"type": "string", "format": "date"},
        "age": {"type": "integer", "minimum": 0},
        "friends": {"type": "array", "items": {"$ref": "#"}},
        "a/b~c": {"$ref": "#/$defs/flag"},
    },
    "$defs": {"flag": {"type": "boolean"}},
}


def test_a_value_that_fits_has_no_problems() -> None:
    person = {"name": "Ada", "email": "ada@shop.example", "born": "1815-12-10", "friends": [{"name": "Charles"}], "a/b~c": True}
    assert problems_of(person, PERSON) == ()


@pytest.mark.parametrize(
    "value, expected",
    [
        ({"name": "Ada", "age": "old"}, Mismatch("/age", 'the value is not of type "integer"', '"old"')),
        ({"name": "Ada", "age": -1}, Mismatch("/age", "the value is less than the minimum of 0", "-1")),
        ({"name": "Ada", "email": "nowhere"}, Mismatch("/email", 'the value is not a "email"', '"nowhere"')),
        ({"name": "Ada", "born": "1815-13-10"}, Mismatch("/born", 'the value is not a "date"', '"1815-13-10"')),
        ({"age": 3}, Mismatch("", '"name" is a required property', '{"age":3}')),
        ({"name": "Ada", "a/b~c": 1}, Mismatch("/a~1b~0c", 'the value is not of type "boolean"', "1")),
        ({"name": "Ada", "friends": [{"name": "B"}, {"name": 2}]}, Mismatch("/friends/1/name", 'the value is not of type "string"', "2")),
        ([], Mismatch("", 'the value is not of type "object"', "[]")),
        (None, Mismatch("", 'the value is not of type "object"', "null")),
    ],
)
def test_a_problem_has_a_path_a_reason_and_a_value(value: Any, expected: Mismatch) -> None:
    assert problems_of(value, PERSON) == (expected,)


def test_all_problems_are_told_at_once_and_names_that_are_not_allowed_too() -> None:
    paths = [(problem.path, problem.reason) for problem in problems_of({"nmae": "Ada", "age": "old"}, PERSON)]
    assert ("", "Additional properties are not allowed ('nmae' was unexpected)") in paths
    assert {path for path, _ in paths} == {"", "/age"}
    assert len(paths) == 3


def test_a_problem_stays_short_however_large_the_value() -> None:
    (problem,) = problems_of({"name": {"x": "y" * 1_000_000}}, PERSON)
    assert len(problem.value) == MAX_VALUE_CHARACTERS
    assert len(brief(["z" * 1000] * 100_000)) == MAX_VALUE_CHARACTERS
    long = "é" * 10_000_000
    for value in (long, [long], {"a": [{"b": long}]}, {long: 1}, ["z", ("y", long)]):
        tracemalloc.start()
        told = brief(value)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert told[:3] == json.dumps(value, ensure_ascii=False, separators=(",", ":"))[:3]
        assert (len(told), told[-1], most < 1_000_000) == (MAX_VALUE_CHARACTERS, "…", True)
    crowd = {"name": "Ada", "friends": [1] * 500}
    assert len(checker_of(PERSON).problems(crowd, patient=True)) == MAX_MISMATCHES
    assert [problem.path for problem in problems_of(crowd, PERSON)] == ["/friends/0"], "on the event loop only the first is listed"


# --- secrets -----------------------------------------------------------------------------------------------------------------

SECRETIVE = {
    "type": "object",
    "required": ["id"],
    "properties": {
        "token": {"type": "string", "maxLength": 5, "writeOnly": True},
        "cards": {"type": "array", "items": {"$ref": "#/$defs/card"}},
        "either": {"anyOf": [{"type": "integer"}, {"properties": {"pin": {"type": "integer", "x-redact": True}}, "required": ["x"]}]},
    },
    "patternProperties": {"^secret_": {"x-redact": True}},
    "$defs": {"card": {"type": "object", "properties": {"number": {"type": "string", "x-redact": True}, "owner": {"type": "string"}}}},
}


def test_what_a_schema_marks_is_never_shown() -> None:
    value = {"token": "hunter22", "cards": [{"number": 4111, "owner": "Ada"}, "4222"], "either": {"pin": 1234}, "secret_x": "s3cret"}
    problems = problems_of(value, SECRETIVE)
    told = " ".join(f"{problem.path} {problem.reason} {problem.value}" for problem in problems)
    assert {problem.path for problem in problems} == {"", "/token", "/cards/0/number", "/cards/1", "/either"}
    assert not [secret for secret in ("hunter22", "4111", "1234", "s3cret") if secret in told]
    assert next(problem.value for problem in problems if problem.path == "/token") == json.dumps(REDACTED)
    assert "Ada" in told


def test_a_mark_is_found_behind_references_and_branches() -> None:
    schema = {
        "$ref": "#/$defs/a",
        "$defs": {"a": {"allOf": [{"properties": {"k": {"$ref": "#tagged"}}}]}, "b": {"$anchor": "tagged", "writeOnly": True}},
    }
    assert redacted({"k": 1, "other": [1, {"k": 2}]}, schema) == {"k": REDACTED, "other": [1, {"k": 2}]}
    looping = {"properties": {"next": {"$ref": "#"}, "secret": {"x-redact": True}}, "$ref": "#"}
    assert redacted({"next": {"next": {"secret": 1}}}, looping) == {"next": {"next": {"secret": REDACTED}}}
    assert redacted({"a": 1}, {"properties": {"a": {"writeOnly": "true"}}}) == {"a": 1}


def test_what_is_not_marked_is_shown_as_it_is() -> None:
    value = {"cards": [{"owner": "Ada"}], "n": [1, 2.5, None, True]}
    assert redacted(value, SECRETIVE) == value


# --- no network, no files, no exceptions --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "reference", ["https://shop.example/schema.json", "http://127.0.0.1:9/x", "file:///etc/passwd", "#/nowhere", "other.json"]
)
def test_a_reference_out_of_the_document_is_refused_and_not_followed(reference: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def called(*_: object) -> None:
        raise AssertionError("a name was looked up")

    monkeypatch.setattr(socket, "getaddrinfo", called)
    with pytest.raises(SchemaInvalid):
        checker_of({"$ref": reference})


def test_references_inside_the_document_work() -> None:
    schema = {
        "$id": "https://shop.example/s",
        "$ref": "#/$defs/a",
        "$defs": {"a": {"$ref": "#b"}, "b": {"$anchor": "b", "type": "integer"}},
    }
    assert checker_of(schema).fits(3)
    assert not checker_of(schema).fits("3")


@pytest.mark.parametrize("schema", [{"type": "objekt"}, {"pattern": "("}, {"required": "a"}, {"properties": []}, {"minimum": "1"}])
def test_a_schema_that_is_none_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(SchemaInvalid):
        checker_of(schema)


def deep(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value", [object(), b"x", {"a": object()}, {1, 2}, float("nan"), float("inf"), "\ud800", deep(900), 10**400, {1: 2}]
)
def test_any_value_is_answered(value: Any) -> None:
    (problem, *_) = problems_of(value, {"type": "integer", "maximum": 5})
    assert problem.reason


@settings(deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x), max_leaves=20
    )
)
def test_any_json_is_answered_the_same_twice(value: Any) -> None:
    first = problems_of({"name": value, "friends": value}, PERSON)
    assert first == problems_of({"name": value, "friends": value}, PERSON)
    assert all(len(problem.value) <= MAX_VALUE_CHARACTERS for problem in first)


def test_equal_schemas_are_compiled_once() -> None:
    assert checker_of({"type": "string", "minLength": 17}) is checker_of({"type": "string", "minLength": 17})
    assert checker_of({"type": "string", "minLength": 18}) is not checker_of({"type": "string", "minLength": 17})


@pytest.mark.alone
def test_a_document_of_ten_kilobytes_is_checked_in_a_moment() -> None:
    item = {
        "type": "object",
        "required": ["id"],
        "properties": {"id": {"type": "integer"}, "name": {"type": "string"}, "tags": {"type": "array"}},
    }
    schema = {"type": "object", "properties": {"items": {"type": "array", "items": item}}}
    document = {"items": [{"id": n, "name": f"a thing called {n}", "tags": ["one", "two"], "price": n * 1.5} for n in range(130)]}
    assert 10_000 <= len(json.dumps(document)) <= 12_000
    checker = checker_of(schema)

    def once() -> float:
        begun = perf_counter()
        for _ in range(100):
            assert checker.problems(document) == ()
        return (perf_counter() - begun) / 100

    assert min(once() for _ in range(20)) < 50e-6

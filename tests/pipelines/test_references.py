"""References: a template has the value that its forms promise, or a named reason why it has none, for any JSON."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.model import codec
from holdfast.pipelines.graph.resolved_templates import MapItem, Unresolved, resolved
from holdfast.pipelines.graph.templates import flaws_in, references_in, sources_in
from tests import parts
from tests.pipelines.values import JSON, TEMPLATES

RESULTS: dict[str, Any] = {
    "inputs": {"urls": ["u1", "u2"], "vendor": "Acme", "nothing": None},
    "pages": {"ok": [{"outputs": {"title": "A"}}, {"outputs": {}}], "failed": []},
    "report": {"outputs": {"large": {"$artifact": {"artifact_id": "a_1"}}, "n": 3}},
}


def ref(source: str, *path: str | int, **rest: Any) -> dict[str, Any]:
    return {"$from": source, "path": list(path), **rest}


@pytest.mark.parametrize(
    "template, value",
    [
        ({"a": [1, "x", None, True]}, {"a": [1, "x", None, True]}),
        (ref("inputs"), RESULTS["inputs"]),
        ({"$from": "inputs"}, RESULTS["inputs"]),
        (ref("inputs", "urls", 1), "u2"),
        (ref("inputs", "nothing"), None),
        (ref("inputs", "nothing", default=1), None),
        (ref("inputs", "absent", default=None), None),
        (ref("skipped", "outputs", "x", default={"$from": "x"}), {"$from": "x"}),
        (ref("inputs", "urls", length=True), 2),
        (ref("inputs", "vendor", length=True), 4),
        (ref("inputs", "absent", length=True, default=0), 0),
        (ref("pages", "ok", "*", "outputs"), [{"title": "A"}, {}]),
        (ref("pages", "ok", "*", "outputs", "title", default="?"), ["A", "?"]),
        (ref("pages", "ok", "*", length=True), 2),
        (ref("pages", "failed", "*", "error"), []),
        (ref("item", "url"), "the-item"),
        (ref("index"), 7),
        (ref("report", "outputs", "large"), {"$artifact": {"artifact_id": "a_1"}}),
        ({"$const": {"$from": "inputs"}}, {"$from": "inputs"}),
        ({"$concat": [ref("inputs", "urls"), ["u3"], {"$const": []}]}, ["u1", "u2", "u3"]),
        ({"$text": "{} of {}: {}", "with": [ref("inputs", "vendor"), ref("inputs", "urls"), None]}, 'Acme of ["u1","u2"]: null'),
        ({"$text": "plain"}, "plain"),
    ],
)
def test_a_form_has_its_value(template: Any, value: Any) -> None:
    assert resolved(template, RESULTS, item=MapItem({"url": "the-item"}, 7)) == value
    assert flaws_in(template, item=True) == []


@pytest.mark.parametrize(
    "template, reason, source, path",
    [
        (ref("skipped", "outputs"), "no_result", "skipped", ()),
        (ref("item"), "no_result", "item", ()),
        (ref("inputs", "absent", "x"), "missing", "inputs", ("absent",)),
        (ref("inputs", "urls", 2), "missing", "inputs", ("urls", 2)),
        (ref("inputs", "vendor", 0), "missing", "inputs", ("vendor", 0)),
        (ref("pages", "ok", "*", "outputs", "title"), "missing", "pages", ("ok", "*", "outputs", "title")),
        (ref("inputs", "vendor", "*"), "not_a_list", "inputs", ("vendor",)),
        (ref("inputs", "nothing", "*", default=[]), "not_a_list", "inputs", ("nothing",)),
        (ref("report", "outputs", "n", length=True), "no_length", "report", ("outputs", "n")),
        (ref("report", "outputs", "large", "title"), "artifact", "report", ("outputs", "large")),
        (ref("report", "outputs", "large", "*", "title"), "artifact", "report", ("outputs", "large")),
        (ref("report", "outputs", "large", length=True), "artifact", "report", ("outputs", "large")),
        ({"$text": "{}", "with": [ref("report", "outputs", "large")]}, "artifact", "report", ("outputs", "large")),
        ({"$concat": [ref("inputs", "vendor")]}, "not_a_list", "inputs", ("vendor",)),
        ({"$concat": [ref("report", "outputs", "large")]}, "artifact", "report", ("outputs", "large")),
    ],
)
def test_what_has_no_value_says_why_and_where(template: Any, reason: str, source: str, path: tuple[str | int, ...]) -> None:
    found = resolved(template, RESULTS)
    assert isinstance(found, Unresolved)
    assert (found.reason, found.source, found.path) == (reason, source, path)
    assert source in str(found)


@pytest.mark.parametrize(
    "template, told",
    [
        ({"$eval": "1"}, "`$eval` is not a form of a template"),
        ({"a": 1, "$from": "inputs"}, "`a` does not belong to `$from`"),
        ({"$from": 5}, "`$from` must be the name of a node"),
        ({"$from": "x" * 65}, "`$from` must be the name of a node"),
        (ref("inputs", True), "has the part True"),
        (ref("inputs", -1), "has the index -1"),
        (ref("inputs", *["a"] * 33), "has 33 parts"),
        ({"$from": "inputs", "path": "a"}, "is not a list of parts"),
        (ref("inputs", length=1), "`length` must be true or false"),
        ({"$const": "x" * 70_000}, "more than 65536 bytes"),
        (ref("inputs", default="x" * 70_000), "more than 65536 bytes"),
        ({"$concat": 1}, "`$concat` must have a list"),
        ({"$text": "{} {}", "with": [1]}, "2 places {} and 1 values"),
        ({"$text": 1}, "`$text` must be a text"),
    ],
)
def test_a_wrong_form_is_told_with_its_place(template: Any, told: str) -> None:
    (flaw,) = flaws_in({"inputs": [template]})
    assert told in flaw.what
    assert flaw.where == ("inputs", 0)


def test_the_item_is_known_only_in_a_map() -> None:
    assert [flaw.what for flaw in flaws_in(ref("item"))] == ["`item` is known only in the inputs of a map and of its undo."]
    assert flaws_in(ref("item"), item=True) == []


def test_a_template_is_nested_at_most_32_levels_deep() -> None:
    deep: Any = 1
    for _ in range(100_000):
        deep = [deep]
    (flaw,) = flaws_in(deep)
    assert "more than 32 levels" in flaw.what
    assert resolved(deep, {}) == Unresolved(reason="malformed")
    assert references_in(deep) == []


def test_sources_are_told_once_and_in_order() -> None:
    assert sources_in({"b": ref("two"), "a": [ref("one", "x"), {"$concat": [ref("two"), ref("inputs")]}]}) == ["two", "one", "inputs"]


@pytest.mark.parametrize(
    "template",
    [
        [ref("inputs")] * 100,
        [ref("inputs", "*", length=True)] * 100_000,
        {"$concat": [ref("inputs")] * 100},
        {"$text": "{}" * 100, "with": [ref("inputs")] * 100},
    ],
)
def test_a_small_template_makes_no_large_value(template: Any) -> None:
    """The document is found once and named many times: what the value costs is bounded, not what the template is."""
    found = resolved(template, {"inputs": ["x" * 1000] * 1000})
    assert found == Unresolved(reason="too_large")


@settings(max_examples=parts.examples(400))
@given(TEMPLATES, st.dictionaries(st.sampled_from(["inputs", "one", "two"]), JSON), JSON)
def test_every_template_has_a_value_or_a_reason(template: Any, results: dict[str, Any], element: Any) -> None:
    found = resolved(template, results, item=MapItem(element, 0))
    if isinstance(found, Unresolved):
        assert str(found)
    else:
        codec.dumps(found)
    assert {reference.source for reference in references_in(template)} == set(sources_in(template))


@settings(max_examples=parts.examples(400))
@given(JSON, JSON)
def test_any_json_is_a_template_or_has_a_flaw(template: Any, results: Any) -> None:
    found = resolved(template, {"inputs": results})
    if not flaws_in(template):
        assert not isinstance(found, Unresolved) or found.reason != "malformed"
    if "$" not in repr(template):
        assert found == template

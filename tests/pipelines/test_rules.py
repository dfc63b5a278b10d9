"""Rules: one form for gates, routes and conditions, total for any JSON; and the paths and durations that authors write."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.contract.equality import equal
from holdfast.contract.rules import MAX_REASONS, broken, flaw_of, holds
from holdfast.pipelines.graph.durations import MAX_SECONDS, duration_of, seconds_of
from holdfast.pipelines.graph.graph import Rule
from holdfast.pipelines.graph.paths import EACH, path_of, text_of
from holdfast.pipelines.graph.refusals import PipelineInvalid
from tests import parts
from tests.pipelines.values import JSON, RULES

OFFER: dict[str, Any] = {"price": 10, "name": "Acme", "tags": ["a", "b"], "none": None, "yes": True, "odd name": 1}


@pytest.mark.parametrize(
    "path, op, value, kept",
    [
        (".price", "equals", 10.0, True),
        (".yes", "equals", 1, False),
        (".price", "differs", 11, True),
        (".yes", "differs", 1, True),
        ("", "equals", OFFER, True),
        (".price", "less", 10, False),
        (".price", "at_most", 10, True),
        (".price", "more", 9.5, True),
        (".price", "at_least", 11, False),
        (".name", "less", "Beta", True),
        (".name", "less", 5, False),
        (".yes", "at_least", 0, False),
        (".name", "in", ["Acme", "Beta"], True),
        (".yes", "in", [1], False),
        (".price", "not_in", [1, 2], True),
        (".price", "not_in", "10", False),
        (".none", "exists", None, True),
        (".absent", "exists", None, False),
        (".absent", "missing", None, True),
        (".none", "missing", None, False),
        (".name", "matches", "^A.me$", True),
        (".name", "matches", "z", False),
        (".price", "matches", "1", False),
        (".name", "matches", "(a)\\1", False),
        (".tags", "length_at_least", 2, True),
        (".tags", "length_at_most", 1, False),
        (".name", "length_at_most", 4, True),
        (".price", "length_at_least", 0, False),
        (".tags[*]", "matches", "^[ab]$", True),
        (".tags[*]", "equals", "a", False),
        ('["odd name"]', "equals", 1, True),
        (".tags[1]", "equals", "b", True),
        (".absent", "differs", 1, False),
        (".absent", "not_in", [], False),
    ],
)
def test_an_operator_asks_its_question(path: str, op: Any, value: Any, kept: bool) -> None:
    rule = Rule(path=path, op=op, value=value)
    assert holds([rule], OFFER) is kept
    assert (broken([rule], OFFER) == []) is kept


def test_a_broken_rule_is_a_reason_with_code_place_and_message() -> None:
    rules = [
        Rule(path=".offers[*].price", op="at_most", value=5, code="too_dear", message="Too dear.", severity="warning"),
        Rule(path=".offers[*].price", op="less", value=100),
    ]
    reasons = broken(rules, {"offers": [{"price": 9}, {"price": 1}, {}]})
    assert [(reason.code, reason.path, reason.message, reason.severity) for reason in reasons] == [
        ("too_dear", ".offers[0].price", "Too dear.", "warning"),
        ("too_dear", ".offers[2].price", "Too dear.", "warning"),
        ("missing", ".offers[2].price", ".offers[2].price is missing.", "error"),
    ]
    assert not holds(rules, {"offers": [{}]})
    assert holds(rules[:1], {"offers": [{}]}), "a warning lets pass"


def test_a_value_has_a_bounded_number_of_reasons() -> None:
    assert len(broken([Rule(path="[*]", op="equals", value=0)], [1] * 100_000)) == MAX_REASONS


def test_a_hundred_warnings_do_not_hide_an_error() -> None:
    warning, error = (Rule(path="[*]", op="equals", value=0, severity=severity) for severity in ("warning", "error"))
    value = [1] * (MAX_REASONS + 1)
    reasons = broken([warning, error], value)
    assert [reason.severity for reason in reasons] == ["warning"] * (MAX_REASONS - 1) + ["error"]
    assert (reasons[-1].path, holds([warning, error], value)) == ("[0]", False)
    assert {reason.severity for reason in broken([warning, warning], value)} == {"warning"}
    assert len(broken([error, warning], value)) == MAX_REASONS


@pytest.mark.parametrize(
    "rule, told",
    [
        (Rule(path="price", op="exists"), "is not understood from 'price'"),
        (Rule(path="", op="matches", value="("), "not an RE2 pattern"),
        (Rule(path="", op="matches", value="\ud800"), "not an RE2 pattern"),
        (Rule(path="", op="matches", value=1), "needs a pattern"),
        (Rule(path="", op="in", value="abc"), "needs a list"),
        (Rule(path="", op="less", value=True), "needs a number or a text"),
        (Rule(path="", op="length_at_most", value="3"), "needs a number"),
    ],
)
def test_a_rule_that_can_never_hold_is_told(rule: Rule, told: str) -> None:
    assert told in (flaw_of(rule) or "")
    assert not holds([rule], "abc")


@settings(max_examples=parts.examples(500))
@given(st.lists(RULES, max_size=3), JSON)
def test_rules_are_total(rules: list[Rule], value: Any) -> None:
    reasons = broken(rules, value)
    assert holds(rules, value) is (not reasons)
    assert all(reason.message and reason.code for reason in reasons)


@given(JSON, JSON)
def test_equality_is_that_of_json(one: Any, other: Any) -> None:
    assert equal(one, one)
    assert equal(one, other) is equal(other, one)
    if equal(one, other):
        assert one == other


@given(st.lists(st.integers(0, 999_999) | st.just(EACH) | st.text(max_size=20).filter(lambda name: name != EACH), max_size=6))
def test_a_path_is_read_back_as_it_was_written(path: list[str | int]) -> None:
    assert path_of(text_of(path)) == tuple(path)


@given(st.text(alphabet='.[]*"\\a0 ', max_size=12))
def test_any_text_is_a_path_or_refused(text: str) -> None:
    try:
        path = path_of(text)
    except PipelineInvalid:
        return
    assert path_of(text_of(path)) == path


@pytest.mark.parametrize("text, seconds", [("30s", 30), ("10m", 600), ("2h", 7200), ("7d", 604_800), ("366d", MAX_SECONDS)])
def test_a_duration_is_an_integer_and_a_unit(text: str, seconds: int) -> None:
    assert seconds_of(text) == seconds
    assert duration_of(seconds) == text


@pytest.mark.parametrize(
    "text", ["", "10", "s", "1.5h", "-1s", "0s", "1 h", "1h30m", "1w", "1S", "١s", "01s", "367d", "9" * 10 + "s", 60, None]
)
def test_anything_else_is_no_duration(text: object) -> None:
    with pytest.raises(PipelineInvalid, match=r"timeout= is .*Write"):
        seconds_of(text, "timeout=")


@given(st.integers(1, MAX_SECONDS))
def test_every_number_of_seconds_has_a_text(seconds: int) -> None:
    assert seconds_of(duration_of(seconds)) == seconds

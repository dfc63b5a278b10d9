"""Event patterns match what EventBridge's would, and what is wrong in one is named by its path."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.errors import PatternInvalid
from holdfast.signals.patterns import Pattern

EVENT = {
    "source": "aws.lambda",
    "resources": [],
    "count": 5,
    "price": 1.5,
    "yes": True,
    "nothing": None,
    "tags": ["red", "green"],
    "empty": "",
    "deep": [["a", "b"], ["c"]],
    "boxes": [[{"n": 1}], [{"n": 2}]],
    "path": "a*b\\c",
    "lines": [{"sku": "a", "n": 1}, {"sku": "b", "n": 2}],
    "detail": {"status": "FAILED", "name": "order-42", "function": {"arn": "arn:x:order:7"}},
}


@pytest.mark.parametrize(
    "pattern, wanted",
    [
        # exact
        ({"source": ["aws.lambda"]}, True),
        ({"source": ["other", "aws.lambda"]}, True),
        ({"source": ["aws.Lambda"]}, False),
        ({"missing": ["x"]}, False),
        ({"count": [5]}, True),
        ({"count": [5.0]}, True),
        ({"count": ["5"]}, False),
        ({"yes": [True]}, True),
        ({"yes": [1]}, False),
        ({"count": [True]}, False),
        ({"nothing": [None]}, True),
        ({"missing": [None]}, False),
        # nested, and all members
        ({"detail": {"status": ["FAILED"], "name": ["order-42"]}}, True),
        ({"detail": {"status": ["FAILED"], "name": ["other"]}}, False),
        ({"detail": {"function": {"arn": [{"suffix": ":7"}]}}}, True),
        ({"source": {"inner": ["x"]}}, False),
        ({"detail": ["x"]}, False),
        # lists in the event
        ({"tags": ["green"]}, True),
        ({"tags": ["blue"]}, False),
        ({"tags": [{"prefix": "gr"}]}, True),
        ({"lines": {"sku": ["a"], "n": [1]}}, True),
        ({"lines": {"sku": ["a"], "n": [2]}}, False),
        ({"deep": ["c"]}, True),
        ({"deep": [{"anything-but": ["a", "b", "c"]}]}, False),
        ({"deep": [{"anything-but": ["a", "b"]}]}, True),
        ({"boxes": {"n": [2]}}, True),
        ({"tags": [{"anything-but": "red"}]}, True),
        ({"tags": [{"anything-but": ["red", "green"]}]}, False),
        ({"nothing": [{"anything-but": "x"}]}, True),
        ({"empty": [""]}, True),
        ({"empty": [{"prefix": ""}]}, True),
        ({"resources": [{"anything-but": "x"}]}, False),
        # prefix and suffix
        ({"detail": {"name": [{"prefix": "order-"}]}}, True),
        ({"detail": {"name": [{"prefix": "Order-"}]}}, False),
        ({"detail": {"name": [{"prefix": {"equals-ignore-case": "ORDER-"}}]}}, True),
        ({"detail": {"name": [{"suffix": "42"}]}}, True),
        ({"detail": {"name": [{"suffix": "43"}]}}, False),
        ({"count": [{"prefix": "5"}]}, False),
        # anything but
        ({"detail": {"status": [{"anything-but": "RUNNING"}]}}, True),
        ({"detail": {"status": [{"anything-but": ["RUNNING", "FAILED"]}]}}, False),
        ({"detail": {"name": [{"anything-but": {"prefix": "order-"}}]}}, False),
        ({"detail": {"name": [{"anything-but": {"prefix": ["a", "b"]}}]}}, True),
        ({"detail": {"name": [{"anything-but": {"suffix": "42"}}]}}, False),
        ({"detail": {"name": [{"anything-but": {"equals-ignore-case": "ORDER-42"}}]}}, False),
        ({"detail": {"name": [{"anything-but": {"wildcard": "*-42"}}]}}, False),
        ({"count": [{"anything-but": 5}]}, False),
        ({"count": [{"anything-but": [1, 2]}]}, True),
        ({"missing": [{"anything-but": "x"}]}, False),
        ({"detail": [{"anything-but": "x"}]}, False),
        # exists
        ({"source": [{"exists": True}]}, True),
        ({"source": [{"exists": False}]}, False),
        ({"missing": [{"exists": False}]}, True),
        ({"missing": [{"exists": True}]}, False),
        ({"nothing": [{"exists": True}]}, True),
        ({"detail": {"end": [{"exists": False}]}}, True),
        ({"absent": {"deep": {"er": [{"exists": False}]}}}, True),
        ({"detail": [{"exists": True}]}, False),
        ({"resources": [{"exists": True}]}, False),
        ({"resources": [{"exists": False}]}, True),
        ({"resources": {"inner": [{"exists": False}]}}, True),
        ({"tags": {"inner": [{"exists": False}]}}, True),
        ({"lines": {"sku": [{"exists": False}]}}, False),
        # numeric
        ({"count": [{"numeric": [">", 0]}]}, True),
        ({"count": [{"numeric": [">", 5]}]}, False),
        ({"count": [{"numeric": [">=", 5, "<", 6]}]}, True),
        ({"price": [{"numeric": ["=", 1.5]}]}, True),
        ({"price": [{"numeric": [">", 0, "<=", 1]}]}, False),
        ({"yes": [{"numeric": ["=", 1]}]}, False),
        ({"source": [{"numeric": [">", 0]}]}, False),
        # the rest
        ({"source": [{"equals-ignore-case": "AWS.LAMBDA"}]}, True),
        ({"detail": {"function": {"arn": [{"wildcard": "arn:*:order:*"}]}}}, True),
        ({"detail": {"function": {"arn": [{"wildcard": "arn:*:other:*"}]}}}, False),
        ({"detail": {"name": [{"wildcard": "order-42"}]}}, True),
        ({"path": [{"wildcard": r"a\*b\\*"}]}, True),
        ({"path": [{"wildcard": r"a\*c"}]}, False),
        ({"path": [{"wildcard": r"*\*b*"}]}, True),
        ({"path": [{"wildcard": "a*c"}]}, True),
        # or
        ({"$or": [{"source": ["x"]}, {"count": [5]}]}, True),
        ({"$or": [{"source": ["x"]}, {"count": [6]}]}, False),
        ({"source": ["x"], "$or": [{"count": [5]}, {"count": [6]}]}, False),
        ({"detail": {"$or": [{"status": ["RUNNING"]}, {"name": [{"prefix": "order"}]}]}}, True),
        ({"detail": {"status": ["FAILED"], "$or": [{"name": ["a"]}, {"name": ["b"]}]}}, False),
    ],
)
def test_a_pattern_matches(pattern: dict[str, Any], wanted: bool) -> None:
    assert Pattern(pattern).matches(EVENT) is wanted


@pytest.mark.parametrize(
    "pattern, said",
    [
        ("[1]", "The pattern: must be an object with at least one member."),
        ("{}", "The pattern: must be an object with at least one member."),
        ("{", "The pattern cannot be read as JSON"),
        ('{"detail": {}}', "detail: must be an object with at least one member."),
        (
            '{"detail": {"status": "FAILED"}}',
            'detail.status: must be an object or a list, not a text. Write ["FAILED"] for exactly this value.',
        ),
        ('{"detail": {"status": []}}', "detail.status: must have at least one value"),
        ('{"detail": {"status": ["A", {"prefx": "x"}]}}', "detail.status[1]: there is no operator 'prefx'. There are prefix, suffix"),
        ('{"detail": {"status": [{"prefix": 1}]}}', "detail.status[0].prefix: must be a text, not a number."),
        ('{"detail": {"status": [{"prefix": {"x": "y"}}]}}', "detail.status[0].prefix: must be a text or"),
        ('{"detail": {"status": [{"prefix": "a", "suffix": "b"}]}}', "detail.status[0]: must have exactly one of"),
        ('{"a": [["x"]]}', "a[0]: must be a value or an operator, not a list."),
        ('{"a": [{"exists": "yes"}]}', "a[0].exists: must be true or false without quotes; it is a text."),
        ('{"a": [{"anything-but": []}]}', "a[0].anything-but: must be a text, a number, or a list"),
        ('{"a": [{"anything-but": [true]}]}', "a[0].anything-but: must be a text, a number, or a list"),
        ('{"a": [{"anything-but": {"numeric": [">", 0]}}]}', "a[0].anything-but: must be a value, a list of values, or one of prefix"),
        ('{"a": [{"anything-but": {"prefix": []}}]}', "a[0].anything-but.prefix: must have at least one value."),
        ('{"a": [{"numeric": [">"]}]}', "a[0].numeric: must be a list such as"),
        ('{"a": [{"numeric": ["=>", 0]}]}', "a[0].numeric[0]: must be one of =, <, <=, >, >=."),
        ('{"a": [{"numeric": [">", "0"]}]}', "a[0].numeric[1]: must be a number, not a text."),
        ('{"$or": [{"a": ["x"]}]}', "$or: must be a list of at least two patterns."),
        ('{"a": {"$or": [{"b": ["x"]}, {"b": "x"}]}}', "a.$or[1].b: must be an object or a list"),
        ('{"a": [{"wildcard": 1}]}', "a[0].wildcard: must be a text"),
        ('{"a": [{"wildcard": "x**y"}]}', "a[0].wildcard: has two stars in a row"),
        (r'{"a": [{"wildcard": "x\\y"}]}', "a[0].wildcard: a backslash must be followed by a star or by another backslash"),
        (r'{"a": [{"wildcard": "x\\"}]}', "a[0].wildcard: a backslash must be followed by a star or by another backslash"),
        ('{"a":' * 21 + '["x"]' + "}" * 21, "is nested more than 20 levels deep."),
        ('{"a": ["' + "x" * 5000 + '"]}', "The pattern has 5011 characters; at most 4096 are allowed."),
        ("[" * 2000 + "]" * 2000, "The pattern"),
    ],
)
def test_a_bad_pattern_is_refused_with_the_path_of_what_is_wrong(pattern: str, said: str) -> None:
    with pytest.raises(PatternInvalid) as refused:
        Pattern(pattern)
    assert said in str(refused.value)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab$or.", max_size=3), inner, max_size=3),
    max_leaves=8,
)
operators = st.sampled_from(["prefix", "suffix", "anything-but", "exists", "numeric", "equals-ignore-case", "wildcard", "cidr"])
patterns = st.recursive(
    st.lists(json_values | st.dictionaries(operators, json_values, max_size=2), max_size=3),
    lambda inner: st.dictionaries(st.sampled_from(["a", "b", "$or", ""]), inner | json_values, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["a", "b", "$or"]), patterns, max_size=3), st.dictionaries(st.sampled_from(["a", "b"]), json_values))
def test_any_pattern_either_is_refused_or_gives_an_answer(pattern: dict[str, Any], event: dict[str, Any]) -> None:
    try:
        made = Pattern(pattern)
    except PatternInvalid:
        return
    assert made.matches(event) in (True, False)


@given(st.text("ab*", max_size=8).filter(lambda text: "**" not in text), st.text("ab", max_size=8))
def test_a_wildcard_means_what_the_obvious_regular_expression_means(wildcard: str, text: str) -> None:
    obvious = re.fullmatch(".*".join(map(re.escape, wildcard.split("*"))), text) is not None
    assert Pattern({"a": [{"wildcard": wildcard}]}).matches({"a": text}) is obvious


def test_many_stars_take_no_longer_than_few() -> None:
    """A pattern may come from any viewer; no pattern may take a year."""
    assert not Pattern({"a": [{"wildcard": "*a" * 1000 + "b"}]}).matches({"a": "a" * 5000})

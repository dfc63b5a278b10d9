"""Equality of JSON values, asked in two ways: by comparing, and by an identity that can be looked up."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from holdfast.contract.equality import equal, identity
from holdfast.contract.rules import Rule, broken

scalars = st.none() | st.booleans() | st.integers(-2, 2) | st.floats(-2, 2).map(lambda x: round(x, 1)) | st.sampled_from(["", "1", "true"])
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2))


@given(values, values)
def test_two_values_are_equal_exactly_if_they_have_one_identity(one: Any, other: Any) -> None:
    assert equal(one, other) is (identity(one) == identity(other))
    assert equal(one, one)


def test_numbers_are_compared_by_value_and_never_with_truth() -> None:
    assert identity({"a": [1, 2**63]}) == identity({"a": [1.0, float(2**63)]})
    different: list[Any] = [0, False, None, "", "0", [], {}, [[]], [0], [False]]
    assert len(set(map(identity, different))) == len(different)


def test_depth_and_length_cost_no_recursion_and_no_square() -> None:
    deep: Any = 0
    for _ in range(10_000):
        deep = [deep]
    assert identity(deep) == identity(deep)
    options = list(range(20_000))
    assert broken([Rule(path="[*]", op="in", value=options)], options[::-1]) == []
    assert broken([Rule(path="[*]", op="not_in", value=options)], [-1] * 20_000) == []

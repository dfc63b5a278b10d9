"""Merges: every policy on small cases, and the laws that hold for any parts."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.contract.equality import identity
from holdfast.contract.merges import MAX_PATH, MISSING, Merged, failure_of, merged
from holdfast.pipelines.graph import graph
from tests import parts as amounts

POLICIES: tuple[graph.MergePolicy, ...] = get_args(graph.MergePolicy)
BY_SOURCE: tuple[graph.MergePolicy, ...] = tuple(policy for policy in POLICIES if policy != "first")

scalars = st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from([0.0, 1.0, 1.5]) | st.sampled_from(["", "a", "b", "1"])
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["id", "a", "b", "a b"]), inner, max_size=4),
    max_leaves=12,
)
sources = st.sampled_from(["north", "south", "east", "west", "mid"])
part_lists = st.lists(st.tuples(sources, values | st.just(MISSING)), max_size=6)
keys = st.sampled_from([None, "id"])
laws = settings(max_examples=amounts.examples(150))


def _same(one: Merged, other: Merged) -> bool:
    return identity(one.document) == identity(other.document)


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [{}, *(leaf for inner in value.values() for leaf in _leaves(inner))]
    if isinstance(value, list):
        return [[], *(leaf for inner in value for leaf in _leaves(inner))]
    return [value]


def _said(result: Merged) -> dict[str, list[tuple[str, Any]]]:
    return {found.path: [(said.source, said.value) for said in found.values] for found in result.conflicts}


# --- the policies


def test_strict_takes_parts_that_agree_where_they_overlap() -> None:
    result = merged([("a", {"name": "Acme", "size": {"staff": 3}}), ("b", {"name": "Acme", "size": {"offices": 1}})], "strict")
    assert result == Merged({"name": "Acme", "size": {"staff": 3, "offices": 1}})
    assert failure_of("strict", result) is None


def test_strict_leaves_out_what_differs_and_names_every_source() -> None:
    result = merged([("b", {"name": "Acme", "price": 12}), ("a", {"name": "Acme", "price": 10})], "strict")
    assert result.outputs == {"name": "Acme"}
    assert _said(result) == {".price": [("a", 10), ("b", 12)]}
    assert (result.missing, result.completeness) == ((".price",), 0.5)
    assert failure_of("strict", result) == "merge_conflict"


def test_strict_refuses_a_missing_part_and_no_other_policy_does() -> None:
    parts = [("a", {"price": 10}), ("b", MISSING)]
    for policy in POLICIES:
        result = merged(parts, policy)
        assert (result.outputs, result.missing, result.conflicts) == ({"price": 10}, ("b",), ())
        assert failure_of(policy, result) == ("merge_conflict" if policy == "strict" else None)
        assert result.completeness == (1.0 if policy == "first" else 0.5)


def test_best_effort_takes_the_commonest_value_then_the_first_source_by_name() -> None:
    result = merged([("c", {"x": 1, "y": 1}), ("b", {"x": 2, "y": 2}), ("a", {"x": 1, "y": 3})], "best_effort")
    assert result.outputs == {"x": 1, "y": 3}
    assert set(_said(result)) == {".x", ".y"}
    assert (result.completeness, result.missing) == (1.0, ())


def test_best_effort_and_union_take_a_value_where_another_part_has_null() -> None:
    for policy in ("best_effort", "union"):
        assert merged([("a", {"x": None, "y": None}), ("b", {"x": 1})], policy) == Merged({"x": 1, "y": None})


def test_first_is_the_first_part_of_the_graph_that_is_there_and_compares_nothing() -> None:
    assert merged([("z", MISSING), ("m", {"x": 1}), ("a", {"x": 2})], "first") == Merged({"x": 1}, (), 1.0, ("z",))


def test_majority_decides_each_field_and_a_tie_is_a_conflict() -> None:
    result = merged([("a", {"x": 1, "y": 1}), ("b", {"x": 1, "y": 2}), ("c", {"x": 2, "z": None})], "majority")
    assert result.outputs == {"x": 1, "z": None}
    assert _said(result) == {".y": [("a", 1), ("b", 2)]}
    assert result.missing == (".y",)


def test_union_joins_lists_by_key_and_objects_by_field() -> None:
    one = {"people": [{"id": 1, "name": "Ann"}, {"id": 2, "name": "Bo"}], "tags": ["x", "y"]}
    other = {"people": [{"id": 2, "name": "Bob", "age": 7}, {"id": 3}], "tags": ["y", "z"]}
    result = merged([("b", other), ("a", one)], "union", "id")
    assert result.outputs["people"] == [{"id": 1, "name": "Ann"}, {"id": 2, "name": "Bo", "age": 7}, {"id": 3}]
    assert result.outputs["tags"] == ["x", "y", "z"]
    assert _said(result) == {".people[1].name": [("a", "Bo"), ("b", "Bob")]}


def test_union_keeps_two_equal_elements_of_one_part() -> None:
    assert merged([("a", [1, 1]), ("b", [1, 2])], "union").outputs == [1, 1, 2]


def test_numbers_are_equal_by_value_and_true_is_no_number() -> None:
    assert merged([("a", {"x": 1}), ("b", {"x": 1.0})], "strict").conflicts == ()
    assert len(merged([("a", {"x": 1}), ("b", {"x": True})], "strict").conflicts) == 1


def test_a_conflict_of_the_whole_result_has_the_empty_path() -> None:
    result = merged([("a", {"x": 1}), ("b", [1])], "strict")
    assert (result.outputs, list(_said(result)), result.missing, result.completeness) == (None, [""], ("",), 0.0)


def test_no_part_at_all_is_null_and_nothing_is_complete() -> None:
    for policy in POLICIES:
        assert merged([], policy) == Merged(None, (), 0.0)
        assert merged([("b", MISSING), ("a", MISSING)], policy) == Merged(None, (), 0.0, ("a", "b"))


def test_a_field_that_is_no_plain_name_is_quoted_in_a_path() -> None:
    result = merged([("a", {"a b": {"x": 1}}), ("b", {"a b": {"x": 2}})], "strict")
    assert result.missing == ('["a b"].x',)


def test_a_choice_settles_the_conflict_that_it_names_and_nothing_else() -> None:
    parts = [("a", {"x": 1, "y": 1}), ("b", {"x": 2, "y": 2})]
    result = merged(parts, "majority", choices={".x": "b", ".y": "nobody", ".z": "a"})
    assert result.outputs == {"x": 2}
    assert list(_said(result)) == [".y"]
    assert merged(parts, "best_effort", choices={".x": "b", ".y": "b"}) == Merged({"x": 2, "y": 2})


# --- the laws


@pytest.mark.parametrize("policy", BY_SOURCE)
@given(data=st.data(), parts=part_lists, key=keys)
@laws
def test_no_order_of_the_parts_changes_a_result(
    policy: graph.MergePolicy, data: st.DataObject, parts: list[tuple[str, Any]], key: str | None
) -> None:
    assert _same(merged(parts, policy, key), merged(data.draw(st.permutations(parts)), policy, key))


@pytest.mark.parametrize("policy", POLICIES)
@given(parts=part_lists, key=keys)
@laws
def test_a_result_keeps_its_promises_for_any_parts(policy: graph.MergePolicy, parts: list[tuple[str, Any]], key: str | None) -> None:
    result = merged(parts, policy, key)
    there = [value for _, value in parts if value is not MISSING]
    assert 0.0 <= result.completeness <= 1.0
    for conflict in result.conflicts:
        assert len({identity(said.value) for said in conflict.values}) >= 2, "a conflict has differing values"
        assert len(conflict.values) >= 2
        assert {said.source for said in conflict.values} <= {source for source, _ in parts}
    known = {identity(leaf) for value in there for leaf in _leaves(value)}
    if there and "" not in result.missing:
        assert {identity(leaf) for leaf in _leaves(result.outputs)} <= known, "nothing is invented"
    if result.completeness == 1.0 and policy != "first":
        assert len(there) == len(parts)


@pytest.mark.parametrize("policy", BY_SOURCE)
@given(data=st.data(), parts=part_lists, key=keys)
@laws
def test_choices_take_a_value_of_the_source_that_they_name(
    policy: graph.MergePolicy, data: st.DataObject, parts: list[tuple[str, Any]], key: str | None
) -> None:
    first = merged(parts, policy, key)
    choices = {found.path: data.draw(st.sampled_from([said.source for said in found.values])) for found in first.conflicts}
    again = merged(parts, policy, key, choices)
    assert again.conflicts == ()
    known = {identity(leaf) for _, value in parts if value is not MISSING for leaf in _leaves(value)}
    assert {identity(leaf) for leaf in _leaves(again.outputs)} <= known or not known


@pytest.mark.parametrize("policy", POLICIES)
@given(value=values, count=st.integers(1, 4), key=keys)
@laws
def test_equal_parts_give_that_part_without_a_conflict(policy: graph.MergePolicy, value: Any, count: int, key: str | None) -> None:
    result = merged([(f"s{at}", value) for at in range(count)], policy, key)
    assert identity(result.outputs) == identity(value)
    assert (result.conflicts, result.completeness, result.missing) == ((), 1.0, ())


@pytest.mark.parametrize("policy", POLICIES)
@given(parts=part_lists, key=keys)
@laws
def test_a_result_merged_again_stays_what_it_is(policy: graph.MergePolicy, parts: list[tuple[str, Any]], key: str | None) -> None:
    once = merged(parts, policy, key)
    again = merged([("one", once.outputs), ("two", once.outputs)], policy, key)
    assert identity(again.outputs) == identity(once.outputs)
    assert again.conflicts == ()


# --- bounds


@pytest.mark.parametrize("policy", POLICIES)
def test_a_merge_survives_any_depth(policy: graph.MergePolicy) -> None:
    deep: Any = 1
    other: Any = 2
    for _ in range(5_000):
        deep, other = {"a": [deep]}, {"a": [other]}
    result = merged([("x", deep), ("y", other)], policy)
    assert len(result.conflicts) == (0 if policy in ("first", "union") else 1)


def test_paths_below_a_long_name_stay_short() -> None:
    long = "n" * 100_000
    result = merged([(source, {long: {f"f{at}": source for at in range(50)}}) for source in ("a", "b")], "strict")
    assert len(result.conflicts) == 50
    assert max(len(conflict.path) for conflict in result.conflicts) == MAX_PATH


@pytest.mark.parametrize("policy", POLICIES)
def test_twice_the_items_cost_twice_the_calls(policy: graph.MergePolicy) -> None:
    def calls(items: int) -> int:
        rows = [[{"id": at, "by": part} for at in range(items)] for part in (1, 2)]
        parts = [(f"s{at}", {"rows": row, "n": {str(one["id"]): one["by"] for one in row}}) for at, row in enumerate(rows)]
        count = 0

        def counted(frame: FrameType, event: str, argument: object) -> None:
            nonlocal count
            count += 1

        before = sys.getprofile()
        sys.setprofile(counted)
        try:
            merged(parts, policy, "id")
        finally:
            sys.setprofile(before)
        return count

    assert calls(1_000) <= 2.1 * calls(500)


def test_ten_thousand_parts_are_merged() -> None:
    result = merged([(f"s{at:05}", {"rows": [{"id": at % 100, "last": at}]}) for at in range(10_000)], "union", "id")
    assert len(result.outputs["rows"]) == 100
    assert len(result.conflicts) == 100


def test_the_policies_are_those_of_the_graph() -> None:
    from holdfast.contract import merges

    assert get_args(merges.MergePolicy) == POLICIES

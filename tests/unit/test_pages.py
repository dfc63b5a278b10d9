"""Pages of an execution's state join to the whole, whatever their size, and markers are not to be made up."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.errors import InvalidParameter
from holdfast.model.operations import Failure, Operation, Status, Type
from holdfast.model.state_pages import BEGINNING, FIRST_OPERATION, Mark, cut, marker, number, read_marker, state_mark, state_marker, weight


def operation(place: int, payload: int = 0) -> Operation:
    return Operation(id=f"o{place}", type=Type.STEP, status=Status.SUCCEEDED, started_at=0, place=place, result="x" * payload)


@given(
    st.lists(st.integers(0, 2000), max_size=20),
    st.integers(1, 5),
    st.integers(0, 4000),
)
def test_pages_join_to_the_whole(payloads: list[int], most: int, room: int) -> None:
    whole = [operation(place * 2 + 2, payload) for place, payload in enumerate(payloads)]
    mark: Mark | None = FIRST_OPERATION
    read: list[Operation] = []
    while mark is not None:
        page, mark = cut(whole, mark, most=most, room=room)
        assert len(page) <= most
        assert len(page) <= 1 or sum(map(weight, page)) <= room
        assert page or mark is None
        read += page
    assert read == whole


def test_a_page_that_has_begun_may_end_before_its_first_operation() -> None:
    whole = [operation(2, 100)]
    assert cut(whole, BEGINNING, most=0, room=10_000, begun=True) == ([], BEGINNING)
    assert cut(whole, BEGINNING, most=5, room=0, begun=True) == ([], BEGINNING)
    assert cut([], BEGINNING, most=0, begun=True) == ([], None)


def test_an_operation_weighs_what_it_carries() -> None:
    failed = Operation(
        id="f", type=Type.STEP, status=Status.FAILED, started_at=0, error=Failure("m" * 10, "t" * 10, "d" * 10, ("s" * 10, "s" * 10))
    )
    assert weight(failed) - weight(operation(1)) == 50
    assert weight(operation(1, 70)) - weight(operation(1)) == 70


@given(st.integers(0, 2**62), st.integers(-1, 2**62))
def test_a_marker_leads_back_to_where_it_came_from(newer_than: int, after: int) -> None:
    assert state_mark(state_marker(Mark(newer_than, after))) == Mark(newer_than, after)


@given(st.text(max_size=60))
def test_a_marker_that_nobody_gave_is_refused(text: str) -> None:
    with pytest.raises(InvalidParameter, match="Invalid Marker"):
        state_mark(text)


@pytest.mark.parametrize(
    "text",
    [
        marker("list", 1, 2),
        marker("state", 1),
        marker("state", 1, 2, 3),
        marker("state", "x", 0),
        marker("state", -1, 0),
        marker("state", "²", 0),
    ],
)
def test_the_marker_of_another_list_is_refused(text: str) -> None:
    with pytest.raises(InvalidParameter, match="Invalid Marker"):
        state_mark(text)


def test_a_number_of_a_marker_stays_within_its_bounds() -> None:
    assert number("5", 5) == 5
    for text in ("6", "-2", "", "-", "9" * 20, "1.0"):
        with pytest.raises(InvalidParameter):
            number(text, 5)
    assert read_marker("any", marker("any", "a", 1)) == ["a", "1"]

"""Counters with two numbers: spent and reserved stay within the limit together, and a refusal says which of them stands in the way."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.model.charges import Charge, Counter, charged
from holdfast.model.errors import LimitReached
from tests.parts import examples

NOW, END = 1_000, 9_000
KEYS = ("run", "node")


def books(*charges: Charge, found: dict[str, Counter] | None = None) -> dict[str, Counter]:
    return charged(charges, (found or {}).get, NOW)


def refusal(*charges: Charge, found: dict[str, Counter] | None = None) -> LimitReached:
    with pytest.raises(LimitReached) as refused:
        books(*charges, found=found)
    return refused.value


def held(spent: int, reserved: int, key: str = "run") -> dict[str, Counter]:
    return {key: Counter(key, spent, END, reserved)}


def test_a_reservation_and_its_settlement_move_the_two_numbers_apart() -> None:
    reserved = books(Charge("run", 0, 100, END, reserved=60))
    assert reserved == held(0, 60)
    assert books(Charge("run", 45, None, END, reserved=-60), found=reserved) == held(45, 0)


@pytest.mark.parametrize(
    "spent, reserved, asked, is_curable",
    [(0, 60, 41, True), (59, 1, 41, True), (60, 0, 41, False), (60, 40, 41, False), (0, 0, 101, False), (100, 0, 1, False)],
)
def test_a_refusal_says_whether_there_would_be_room_without_the_reservations(
    spent: int, reserved: int, asked: int, is_curable: bool
) -> None:
    refused = refusal(Charge("run", 0, 100, END, reserved=asked), found=held(spent, reserved))
    assert (refused.is_curable, refused.spent, refused.reserved, refused.limit) == (is_curable, spent, reserved, 100)


def test_of_several_refusals_the_one_that_no_settlement_can_cure_is_told() -> None:
    found = held(0, 90) | held(90, 0, "node")
    asked = [Charge(key, 0, 100, END, reserved=20) for key in KEYS]
    assert [refusal(*order, found=found).key for order in (asked, asked[::-1])] == ["node", "node"]


def test_a_counter_whose_time_is_over_begins_with_nothing_reserved() -> None:
    old = {"run": Counter("run", 90, NOW, 10)}
    assert books(Charge("run", 0, 100, END, reserved=100), found=old) == held(0, 100)


def test_a_counter_without_reservations_is_what_it_was() -> None:
    refused = refusal(Charge("day", 3, 10, END), found={"day": Counter("day", 8, END)})
    assert (refused.is_curable, refused.spent) == (False, 8)
    assert books(Charge("day", 2, 10, END), found={"day": Counter("day", 8, END)}) == {"day": Counter("day", 10, END)}


@settings(max_examples=examples(200))
@given(st.lists(st.tuples(st.sampled_from(["call", "end", "lose"]), st.integers(1, 60), st.integers(0, 60)), max_size=40))
def test_whatever_calls_come_and_end_both_numbers_are_those_of_the_calls(story: list[tuple[str, int, int]]) -> None:
    """Calls reserve in two budgets, end with less or more than they reserved, or are lost and count in full."""
    limits = {"run": 100, "node": 70}
    counters: dict[str, Counter] = {}
    under_way: list[int] = []
    spent = overshoot = 0
    for what, estimate, actual in story:
        if what == "call":
            charges = [Charge(key, 0, limit, END, reserved=estimate) for key, limit in limits.items()]
            fits = all(spent + sum(under_way) + estimate <= limit for limit in limits.values())
            curable = all(spent + estimate <= limit for limit in limits.values())
            if fits:
                counters |= charged(charges, counters.get, NOW)
                under_way.append(estimate)
            else:
                assert refusal(*charges, found=counters).is_curable is curable
        elif under_way:
            mine = under_way.pop(actual % len(under_way))
            used = mine if what == "lose" else actual
            overshoot += max(0, used - mine)
            spent += used
            counters |= charged([Charge(key, used, None, END, reserved=-mine) for key in limits], counters.get, NOW)
        for key, limit in limits.items():
            counter = counters.get(key, Counter(key, 0, END))
            assert (counter.amount, counter.reserved) == (spent, sum(under_way))
            assert counter.amount + counter.reserved <= limit + overshoot

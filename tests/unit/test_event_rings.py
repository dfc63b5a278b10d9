"""The ring of live events: bounded in count and bytes, alone and together, and it knows what a follower has missed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.model.errors import InvalidParameter
from holdfast.workers.event_rings import EventRing, EventRings, FollowerPosition, RingLimits, position_of
from tests import parts

SMALL = RingLimits(events=4, bytes=1000, event_bytes=500, all_bytes=2000, unfollowed=2)


def kept(ring: EventRing, number: int = 0) -> list[Any]:
    """What a follower that had this many events is still given."""
    found = []
    number += ring.missed(number)
    while (event := ring.after(number)) is not None:
        found.append(event.data)
        number = event.number
    return found


def test_a_ring_keeps_the_last_events_and_tells_how_many_are_gone() -> None:
    ring = EventRing("0a1b2c3d", 3, SMALL)
    for number in range(6):
        ring.add("progress", number)
    assert (kept(ring), ring.missed(0), ring.missed(1), ring.missed(2)) == ([2, 3, 4, 5], 2, 1, 0)
    ring.add("progress", "x" * 400)
    ring.add("progress", "y" * 400)
    ring.add("progress", "z" * 400)
    assert [text[0] for text in kept(ring)] == ["y", "z"]
    assert ring.size <= SMALL.bytes


def test_an_event_that_is_too_large_says_so_in_its_place() -> None:
    ring = EventRing("0a1b2c3d", 3, SMALL)
    ring.add("progress", "x" * 501)
    ring.add("log", object())
    assert [set(data) for data in kept(ring)] == [{"too_large"}, {"too_large"}]


@pytest.mark.parametrize(
    "position,goes_on,may_have_missed",
    [
        (FollowerPosition(), [1, 2, 3, 4], False),  # the first time: from what there is
        (FollowerPosition(3), [1, 2, 3, 4], True),  # before the ring was there
        (FollowerPosition(4), [1, 2, 3, 4], True),  # an event behind 4 is gone
        (FollowerPosition(5), [2, 3, 4], False),
        (FollowerPosition(6), [4], False),
        (FollowerPosition(7), [], False),
        (FollowerPosition(5, "0a1b2c3d", 3), [3, 4], False),
        (FollowerPosition(6, "0a1b2c3d", 5), [], False),
        (FollowerPosition(6, "0a1b2c3d", 99), [], False),
        (FollowerPosition(5, "ffffffff", 3), [2, 3, 4], True),  # the ring of a runner that is gone
    ],
)
def test_a_follower_goes_on_where_it_was(position: FollowerPosition, goes_on: list[int], may_have_missed: bool) -> None:
    ring = EventRing("0a1b2c3d", 4, SMALL)
    for number, recorded in enumerate([4, 4, 5, 5, 6]):
        ring.recorded = recorded
        ring.add("progress", number)
    number, missed = ring.began(position)
    assert (kept(ring, number), missed) == (goes_on, may_have_missed)


def test_rings_of_runs_without_followers_go_first_and_none_is_kept_for_ever() -> None:
    rings = EventRings(SMALL, name=lambda: "0a1b2c3d")
    assert not rings.add("r0", "progress", 1)  # no client follows it: nothing is kept
    for run in range(5):
        rings.open(f"r{run}", 1)
        rings.add(f"r{run}", "progress", "x" * 300)
    assert (len(rings), rings.size <= SMALL.all_bytes) == (5, True)
    for run in range(4):
        rings.leave(f"r{run}")
    assert [rings.get(f"r{run}") is not None for run in range(5)] == [False, False, True, True, True]
    for _ in range(20):
        rings.add("r4", "progress", "y" * 300)
    assert rings.size <= SMALL.all_bytes


@settings(max_examples=parts.examples(100), deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from(["open", "leave", "add"]), st.integers(0, 480)), max_size=60))
def test_all_rings_together_stay_within_their_bounds(acts: list[tuple[str, str, int]]) -> None:
    rings, followed = EventRings(SMALL), dict.fromkeys("abcdef", 0)
    for run, act, size in acts:
        if act == "open":
            rings.open(run, 1)
            followed[run] += 1
        elif act == "leave" and followed[run]:
            rings.leave(run)
            followed[run] -= 1
        elif act == "add":
            rings.add(run, "progress", "x" * size)
        found = {name: ring for name in followed if (ring := rings.get(name)) is not None}
        assert rings.size == sum(ring.size for ring in found.values()) <= SMALL.all_bytes
        assert all(ring.size <= SMALL.bytes for ring in found.values())
        assert all(name in found for name, count in followed.items() if count)
        assert len([name for name in found if not followed[name]]) <= SMALL.unfollowed


@pytest.mark.parametrize(
    "text,position", [("0", FollowerPosition()), (12, FollowerPosition(12)), ("12.0a1b2c3d.7", FollowerPosition(12, "0a1b2c3d", 7))]
)
def test_an_id_says_where_a_follower_stands(text: str | int, position: FollowerPosition) -> None:
    assert position_of(text) == position


@pytest.mark.parametrize("text", ["", "x", "-1", "1.2", "1.0a1b2c3d", "1.0A1B2C3D.1", "1.0a1b2c3d.1.1", "9" * 19, "1\n", "１"])
def test_what_is_no_id_is_refused(text: str) -> None:
    with pytest.raises(InvalidParameter, match="id of an event"):
        position_of(text)

"""One order for all followers: however fast each of them reads, leaves and comes back, it gets everything once."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.model.execution import ExecutionStatus, State
from holdfast.workers import followed_runs
from holdfast.workers.event_rings import RingLimits, position_of
from holdfast.workers.events import RunEvent
from holdfast.workers.followed_runs import FollowedRuns
from tests import parts


class Written:
    """A store with one run. Every third line of its history is no event."""

    def __init__(self) -> None:
        self.events = 1
        self.over = False

    def find(self, run_id: str) -> Any:
        status = ExecutionStatus.SUCCEEDED if self.over else ExecutionStatus.RUNNING
        return SimpleNamespace(id=run_id, events=self.events, status=status, state=State.CLOSED if self.over else State.RUNNING)

    def history(self, run_id: str, after: int, limit: int) -> list[Any]:
        numbers = range(after + 1, min(self.events, after + 2) + 1)  # two lines at a time
        return [SimpleNamespace(event=SimpleNamespace(number=number)) for number in numbers]


def told_of(store: Written, run_id: str, accepted: Any, lines: list[Any]) -> list[RunEvent]:
    numbers = [line.event.number for line in lines]
    last = store.events if store.over else 0
    return [RunEvent(number, "done" if number == last else "tool", number) for number in numbers if number == last or number % 3]


class Reader:
    """A follower that reads as much as it is told to, and may lose its connection."""

    def __init__(self, runs: FollowedRuns, store: Written) -> None:
        self._runs = runs
        self._store = store
        self.seen: list[RunEvent] = []
        self._events: Any = None

    async def read(self, most: int) -> None:
        """Read until nothing more comes, and at most so many events."""
        if self._events is None:
            position = position_of(self.seen[-1].id or 0) if self.seen else None
            header = self._store.find("r")
            self._events = self._runs.follow(cast("Any", self._store), header, cast("Any", SimpleNamespace(tenant="t")), position)
        while most > 0 and (event := await anext(self._events, None)) is not None:
            self.seen.append(event)
            most -= 1

    async def leave(self) -> None:
        if self._events is not None:
            await self._events.aclose()
            self._events = None


ACTS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(1, 3)),
        st.tuples(st.just("tell"), st.integers(1, 3)),
        st.tuples(st.just("read"), st.integers(0, 1), st.integers(1, 6)),
        st.tuples(st.just("leave"), st.integers(0, 1)),
    ),
    max_size=25,
)


async def played(acts: list[Any], limits: RingLimits) -> tuple[list[list[RunEvent]], int]:
    """What two readers saw in the end, and how many live events there were."""
    runs, store, live = FollowedRuns(rings=limits), Written(), 0
    readers = [Reader(runs, store) for _ in range(2)]
    for reader in readers:
        await reader.read(1)  # both come before anything is told
    for act, *more in acts:
        if act == "write":
            store.events += more[0]
            runs.nudge("r")
        elif act == "tell":
            for _ in range(more[0]):
                live += 1
                runs.offer("r", "progress", live)
        elif act == "read":
            await readers[more[0]].read(more[1])
        else:
            await readers[more[0]].leave()
    store.events, store.over = store.events + 1, True
    runs.nudge("r")
    for reader in readers:
        await reader.read(1000)
        await reader.leave()
    return [reader.seen for reader in readers], live


@pytest.fixture
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    async def at_once(purpose: Any, call: Any, *args: Any) -> Any:
        return call(*args)

    monkeypatch.setattr(followed_runs, "in_thread", at_once)
    monkeypatch.setattr(followed_runs, "events_of", told_of)
    monkeypatch.setattr(followed_runs, "_POLL_SECONDS", 0.002)


@pytest.mark.usefixtures("quickly")
def test_all_followers_get_everything_once_in_one_order_whenever_they_leave_and_come_back() -> None:
    @settings(max_examples=parts.examples(200), deadline=None)
    @given(ACTS)
    def check(acts: list[Any]) -> None:
        (one, other), live = asyncio.run(played(acts, RingLimits()))
        assert one == other
        assert [event.data for event in one if event.event == "progress"] == list(range(1, live + 1))
        recorded = [event.data for event in one if isinstance(event.id, int)]
        assert recorded == [number for number in range(1, recorded[-1] + 1) if number % 3 or number == recorded[-1]]
        assert not any(event.event == "gap" for event in one)

    check()


@pytest.mark.usefixtures("quickly")
def test_with_a_small_ring_each_follower_gets_every_recorded_event_and_a_gap_for_whatever_else_it_misses() -> None:
    @settings(max_examples=parts.examples(200), deadline=None)
    @given(ACTS)
    def check(acts: list[Any]) -> None:
        for seen in asyncio.run(played(acts, RingLimits(events=2)))[0]:
            recorded = [event.data for event in seen if isinstance(event.id, int)]
            assert recorded == [number for number in range(1, recorded[-1] + 1) if number % 3 or number == recorded[-1]]
            last, missed = 0, 0
            for event in seen:
                if event.event == "gap":
                    missed += 1000 if event.data["missed"] is None else event.data["missed"]  # None: it is not known how many
                elif event.event == "progress":
                    assert event.data == last + 1 + missed or (missed >= 1000 and event.data > last)
                    last, missed = event.data, 0

    check()

"""The broadcaster: every listener gets every signal once and in order, or is told of a gap; none holds up another."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec
import pytest

from holdfast.model.errors import StoreBusy
from holdfast.model.signals import StatusSignal
from holdfast.signals.broadcast import GAP, Broadcaster, Listener, SignalGap
from tests.unit.test_signals_event import BEGUN

Told = int | str | None


def signal(number: int) -> StatusSignal:
    return msgspec.structs.replace(BEGUN, number=number)


async def tell(broadcaster: Broadcaster, *numbers: int) -> None:
    for number in numbers:
        await broadcaster(signal(number))


async def heard(listener: Listener, count: int) -> list[Told]:
    """The next things a listener is told: numbers, "gap", and None for a pause."""
    said: list[Told] = []
    async for told in listener.signals(60):
        said.append("gap" if isinstance(told, SignalGap) else None if told is None else told.number)
        if len(said) == count:
            break
    return said


class Outbox:
    """What a store still has."""

    def __init__(self, *numbers: int) -> None:
        self._kept = [signal(number) for number in numbers]
        self.asked: list[int] = []

    def __call__(self, after: int, limit: int) -> Sequence[StatusSignal]:
        self.asked.append(after)
        return [kept for kept in self._kept if kept.number > after][:limit]


async def test_each_listener_hears_every_signal_from_when_it_came() -> None:
    broadcaster = Broadcaster()
    async with broadcaster.listen() as early:
        await tell(broadcaster, 1, 2)
        async with broadcaster.listen() as late:
            await tell(broadcaster, 3)
            assert await heard(early, 3) == [1, 2, 3]
            assert await heard(late, 1) == [3]


async def test_a_signal_that_is_repeated_is_told_once() -> None:
    broadcaster = Broadcaster()
    async with broadcaster.listen() as listener:
        await tell(broadcaster, 1, 2, 1, 2, 3)
        assert await heard(listener, 3) == [1, 2, 3]


async def test_a_listener_goes_on_where_it_was() -> None:
    broadcaster = Broadcaster()
    await tell(broadcaster, 1, 2, 3)
    async with broadcaster.listen(after=1) as listener:
        await tell(broadcaster, 4)
        assert await heard(listener, 3) == [2, 3, 4]
    async with broadcaster.listen(after=4) as listener:
        await tell(broadcaster, 5)
        assert await heard(listener, 1) == [5]


async def test_what_memory_has_forgotten_comes_from_the_outbox() -> None:
    outbox = Outbox(*range(1, 9))
    broadcaster = Broadcaster(recent=2)
    await tell(broadcaster, *range(1, 9))
    async with broadcaster.listen(after=3, kept=outbox) as listener:
        await tell(broadcaster, 9)
        assert await heard(listener, 6) == [4, 5, 6, 7, 8, 9]
    outbox.asked.clear()
    async with broadcaster.listen(after=7, kept=outbox) as listener:
        await tell(broadcaster, 10)
        assert await heard(listener, 3) == [8, 9, 10]
    assert outbox.asked == [], "memory was enough"


async def test_after_a_restart_the_outbox_tells_and_what_is_delivered_meanwhile_is_told_once() -> None:
    broadcaster = Broadcaster()
    async with broadcaster.listen(after=4, kept=Outbox(5, 6, 7)) as listener:
        await tell(broadcaster, 6, 7, 8)
        assert await heard(listener, 4) == [5, 6, 7, 8]


async def test_many_pages_of_the_outbox_are_read() -> None:
    broadcaster = Broadcaster()
    async with broadcaster.listen(after=0, kept=Outbox(*range(1, 2501))) as listener:
        assert await heard(listener, 2500) == list(range(1, 2501))


async def test_the_outbox_is_read_only_as_far_as_the_listener_has_come() -> None:
    outbox = Outbox(*range(1, 5001))
    async with Broadcaster().listen(after=0, kept=outbox) as listener:
        assert await heard(listener, 1500) == list(range(1, 1501))
    assert outbox.asked == [0, 1000], "however much is kept, one page of it is in memory"


async def test_what_is_kept_nowhere_is_a_gap() -> None:
    broadcaster = Broadcaster(recent=1)
    await tell(broadcaster, 7)
    async with broadcaster.listen(after=3, kept=Outbox(6, 7)) as listener:
        assert await heard(listener, 3) == ["gap", 6, 7]
    empty = Broadcaster()
    async with empty.listen(after=3) as listener:
        await tell(empty, 5, 6)
        assert await heard(listener, 3) == ["gap", 5, 6]


async def test_a_listener_that_falls_behind_is_ended_and_comes_back_without_loss() -> None:
    broadcaster = Broadcaster(queue=3)
    async with broadcaster.listen() as slow, broadcaster.listen() as quick:
        for number in range(1, 6):
            await tell(broadcaster, number)
            assert await heard(quick, 1) == [number]
        said = [told.number async for told in slow.signals(60) if isinstance(told, StatusSignal)]
    assert said == [1, 2, 3]
    async with broadcaster.listen(after=said[-1]) as again:
        assert await heard(again, 2) == [4, 5]


async def test_a_pause_is_told() -> None:
    broadcaster = Broadcaster()
    async with broadcaster.listen() as listener:
        async for told in listener.signals(0.001):
            assert told is None
            break


async def test_closing_ends_everybody_and_lets_nobody_in() -> None:
    broadcaster = Broadcaster()
    async with broadcaster.listen() as listener:
        await tell(broadcaster, 1)
        reading = asyncio.ensure_future(heard(listener, 10))
        await asyncio.sleep(0)
        broadcaster.close()
        assert await reading == [1]
    with pytest.raises(StoreBusy, match="closing"):
        broadcaster.listen()


async def test_there_is_room_for_so_many_and_who_leaves_makes_room() -> None:
    broadcaster = Broadcaster(listeners=1)
    async with broadcaster.listen():
        with pytest.raises(StoreBusy, match="too many"):
            broadcaster.listen()
    async with broadcaster.listen():
        pass
    assert isinstance(GAP, SignalGap)


async def test_signals_may_come_from_another_loop() -> None:
    """The engine may run on a thread of its own."""
    broadcaster = Broadcaster()
    async with broadcaster.listen() as listener:
        await asyncio.to_thread(lambda: asyncio.run(tell(broadcaster, 1, 2)))
        assert await heard(listener, 2) == [1, 2]

"""The writer gathers: what comes over several connections comes one by one, and shares a commit all the same."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

from holdfast.engine.health import Health
from holdfast.engine.writer import Writer
from holdfast.model.clock import SystemClock
from holdfast.model.errors import CodecFailed, DiskFull, StoreBroken, WriteFailed
from holdfast.model.execution import Execution
from holdfast.model.ids import Position
from holdfast.model.operations import Action, Type, Update
from holdfast.model.outside import Fire
from holdfast.model.payloads import PayloadCodec, encoded
from holdfast.model.verbs import Answer, Checkpoint, Write
from holdfast.store.seam import Committed, Store


class Counting:
    """A store that only counts."""

    def __init__(self) -> None:
        self.commits: list[int] = []

    def commit(self, batch: Sequence[Write], now: int) -> Committed:
        self.commits.append(len(batch))
        return Committed(cast("list[Answer]", list(batch)))


async def written(arrive: int, live: int) -> list[int]:
    """So many writes, one at each look of the loop, while so many executions live: the sizes of the commits."""
    loop, store = asyncio.get_running_loop(), Counting()
    writer = Writer(cast("Store", store), SystemClock(), loop, range(live), Health("runner", lambda: None))
    answered: list[object] = []

    def come(left: int) -> None:
        if left:
            loop.call_soon(come, left - 1)  # before the write: as what was read from a socket, it is there at the next look
            writer.submit(cast("Write", left), answered.append)

    come(arrive)
    while len(answered) < arrive:
        await asyncio.sleep(0)
    assert sorted(map(str, answered)) == sorted(map(str, range(1, arrive + 1)))
    return store.commits


@pytest.mark.parametrize(
    "arrive, live, commits",
    [
        (1, 1, [1]),
        (4, 8, [4]),  # as long as each look brings one more, the next may
        (8, 8, [8]),  # all writers have arrived
        (20, 40, [16, 4]),  # enough for one commit
    ],
)
async def test_what_comes_one_by_one_shares_a_commit(arrive: int, live: int, commits: list[int]) -> None:
    assert await written(arrive, live) == commits


# --- when a batch fails -----------------------------------------------------------------------------------------------------------------


class Failing(Counting):
    """A store that raises for the whole batch what one entry caused."""

    def __init__(self, trouble: Callable[[Sequence[Any]], Committed | None]) -> None:
        super().__init__()
        self._trouble = trouble

    def commit(self, batch: Sequence[Write], now: int) -> Committed:
        return self._trouble(batch) or super().commit(batch, now)


async def answered(store: Counting, *writes: object) -> list[object]:
    """What each of these writes is answered, all of them in one batch; what is kept is answered with None."""
    loop, health = asyncio.get_running_loop(), Health("runner", lambda: None)
    writer = Writer(cast("Store", store), SystemClock(), loop, range(1), health)
    said: list[object] = [None] * len(writes)
    for place, write in enumerate(writes):
        writer.submit(cast("Write", write), functools.partial(said.__setitem__, place))
    for _ in range(10):
        await asyncio.sleep(0)
    assert len(writer._queue) == said.count(None), "what is not answered is kept"
    return said


async def test_an_error_that_a_store_did_not_expect_is_the_answer_of_the_entry_that_met_it() -> None:
    def trouble(batch: Sequence[Any]) -> Committed | None:
        if "bad" in batch:
            raise TypeError("an int has no len()")
        return None

    one, bad, two, three = await answered(Failing(trouble), "one", "bad", "two", "three")
    assert (one, two, three) == ("one", "two", "three")
    assert isinstance(bad, WriteFailed)


@pytest.mark.parametrize("updates", [5, (5,), (Update(id="s", type=Type.STEP, action=Action.SUCCEED, payload=cast("str", 5)),)])
async def test_an_entry_that_cannot_be_measured_keeps_no_answer_from_its_neighbours(updates: Any) -> None:
    bad = Checkpoint(Position("execution", 1, 1, 1), updates)
    assert await answered(Counting(), "one", bad, "two") == ["one", bad, "two"]


async def test_an_error_of_the_store_itself_is_shared_answer_and_is_not_tried_again() -> None:
    def trouble(batch: Sequence[Any]) -> Committed | None:
        tried.append(len(batch))
        raise StoreBroken("The store is closed.")

    tried: list[int] = []
    assert [type(answer) for answer in await answered(Failing(trouble), "one", "two")] == [StoreBroken] * 2
    assert tried == [2]


async def test_what_a_full_disk_left_of_a_batch_is_kept_and_what_was_written_is_answered() -> None:
    def trouble(batch: Sequence[Any]) -> Committed | None:
        return Committed(["one written", "two written", *[DiskFull()] * (len(batch) - 2)]) if len(batch) == 5 else None  # type: ignore[list-item]

    fire = Fire("execution")
    said = await answered(Failing(trouble), "one", fire, fire, "asked", fire)
    assert said[:2] == ["one written", "two written"]
    assert [said[2], said[4]] == [None, None], "the engine's own work waits for the disk"
    assert isinstance(said[3], DiskFull), "a caller who asked for something new is told"


@pytest.mark.parametrize("shape", [Committed([]), None, ("one",)], ids=["too few", "nothing", "no answers"])
async def test_a_store_that_answers_in_a_shape_of_its_own_leaves_no_caller_waiting(shape: Any) -> None:
    class Shapeless(Counting):
        def commit(self, batch: Sequence[Write], now: int) -> Committed:
            return cast("Committed", shape)

    assert [type(answer) for answer in await answered(Shapeless(), "one", "two")] == [StoreBroken] * 2


async def test_a_panic_that_is_no_exception_leaves_no_caller_waiting() -> None:
    class Panic(BaseException):
        """As native code raises it."""

    def trouble(batch: Sequence[Any]) -> None:
        if "bad" in batch:
            raise Panic

    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda *_: None)  # the loop hears of it too
    store = cast("Store", Failing(trouble))
    writer = Writer(store, SystemClock(), loop, range(1), Health("runner", lambda: None))
    answered: list[object] = []
    writer.submit(cast("Write", "bad"), answered.append)
    while not answered:
        await asyncio.sleep(0)
    writer.submit(cast("Write", "good"), answered.append)
    while len(answered) < 2:
        await asyncio.sleep(0)
    assert isinstance(answered[0], StoreBroken)
    assert answered[1] == "good"


def test_a_codec_that_panics_fails_the_one_payload_and_says_nothing_of_it() -> None:
    class Panic(BaseException):
        """As native code raises it."""

    class Panicking:
        name = "panicking"

        def encode(self, text: str, about: str) -> str:
            raise Panic(text)

    with pytest.raises(CodecFailed, match="could not encode the payload of event 1 of execution e: Panic") as failed:
        encoded(cast("PayloadCodec", Panicking()), "secret", "e", 1)
    assert "secret" not in str(failed.value)


async def test_what_was_written_is_acknowledged_also_when_the_loop_is_gone() -> None:
    class Telling(Counting):
        def commit(self, batch: Sequence[Write], now: int) -> Committed:
            return Committed(cast("list[Answer]", list(batch)), followed=cast("list[Execution]", ["moved"]))

    class Closed:
        """A loop that takes nothing from other threads any more."""

        def call_soon_threadsafe(self, *_: object) -> None:
            raise RuntimeError("Event loop is closed")

    health = Health("runner", lambda: None)
    loop = cast("asyncio.AbstractEventLoop", Closed())
    writer = Writer(cast("Store", Telling()), SystemClock(), loop, range(1), health)
    said: object = await asyncio.to_thread(writer.call, cast("Write", "one"))
    assert said == "one"

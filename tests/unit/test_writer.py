"""The writer gathers: what comes over several connections comes one by one, and shares a commit all the same."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import pytest

from holdfast.engine.health import Health
from holdfast.engine.writer import Writer
from holdfast.model.clock import SystemClock
from holdfast.model.verbs import Write
from holdfast.store.seam import Store


class Counting:
    """A store that only counts."""

    def __init__(self) -> None:
        self.commits: list[int] = []

    def commit(self, batch: Sequence[Write], now: int) -> tuple[list[Any], list[Any], bool]:
        self.commits.append(len(batch))
        return list(batch), [], False


async def written(arrive: int, live: int) -> list[int]:
    """So many writes, one at each look of the loop, while so many executions live: the sizes of the commits."""
    loop, store = asyncio.get_running_loop(), Counting()
    writer = Writer(cast("Store", store), SystemClock(), loop, lambda: live, lambda _: None, lambda: None, Health("runner", lambda: None))
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
        (8, 8, [8]),  # everybody is here
        (20, 40, [16, 4]),  # enough for one commit
    ],
)
async def test_what_comes_one_by_one_shares_a_commit(arrive: int, live: int, commits: list[int]) -> None:
    assert await written(arrive, live) == commits

"""The writes of a `def` handler's threads: one write at a time, and every thread that waits for it learns how it ended."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from holdfast.durable import blocking_driver
from holdfast.durable.blocking_driver import BlockingState
from holdfast.durable.exceptions import BackgroundThreadError
from holdfast.durable.stragglers import ThreadStragglers
from holdfast.model.clock import VirtualClock
from holdfast.model.execution import Terms
from holdfast.model.ids import Position
from holdfast.model.life import new_execution
from holdfast.model.operations import Action, Operation, Type, Update
from holdfast.model.ports import Invocation
from holdfast.model.verbs import Checkpointed

PATIENCE = 20.0


class Disk:
    """A port whose first write waits, and whose second does as it is told."""

    def __init__(self, second: Callable[[], None]) -> None:
        self.goes_on = threading.Event()
        self.began = threading.Event()
        self.written: list[list[str]] = []
        self._second = second

    def checkpoint(self, token: Position, updates: Sequence[Update], client_token: str | None = None) -> Checkpointed:
        if not self.began.is_set():
            self.began.set()
            assert self.goes_on.wait(PATIENCE)
        elif len(self.written) == 1:
            self._second()
        self.written.append([update.id for update in updates])
        return Checkpointed(token, (), token.revision)

    def checkpoint_soon(self, *_: Any) -> None:
        raise AssertionError("a thread writes and waits")

    def state(self, token: Position, newer_than: int = 0) -> Sequence[Operation]:
        return ()

    def input(self, token: Position) -> str | None:
        return None


class CountedGate(blocking_driver._Gate):
    """Counts the threads that wait for the end of a write."""

    waiting = 0

    def wait(self) -> None:
        CountedGate.waiting += 1
        super().wait()


def state_over(disk: Disk) -> BlockingState:
    header = new_execution("x", None, "f", "1", payload="1", now=1, terms=Terms())
    invocation = Invocation("arn", header, Position("x", 1, 0, 1), True)
    return BlockingState(invocation, disk, VirtualClock(), ThreadStragglers(), lend=lambda _: False)


def step(name: str) -> Update:
    return Update(id=name, type=Type.STEP, action=Action.SUCCEED)


def three_threads(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> tuple[BlockingState, list[Future[None]]]:
    """The first write is under way, the second thread makes the next write, the third thread waits for the same write."""

    class CountedWrite(blocking_driver._Write):
        def __init__(self) -> None:
            super().__init__()
            self.done = CountedGate()

    monkeypatch.setattr(blocking_driver, "_Write", CountedWrite)
    CountedGate.waiting = 0
    state = state_over(disk)
    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(state.write, step("first"))
        assert disk.began.wait(PATIENCE)
        second = pool.submit(state.write, step("second"))
        until(lambda: state._next is not None)
        third = pool.submit(state.write, step("third"))
        until(lambda: CountedGate.waiting == 1)
        disk.goes_on.set()
    return state, [first, second, third]


def until(fact: Callable[[], bool]) -> None:
    never = threading.Event()
    for _ in range(int(PATIENCE * 1000)):
        if fact():
            return
        never.wait(0.001)
    raise AssertionError("it never came")


def test_one_write_takes_the_updates_of_all_threads_that_came_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(lambda: None)
    _, writes = three_threads(disk, monkeypatch)
    assert [write.exception() for write in writes] == [None, None, None]
    assert disk.written == [["first"], ["second", "third"]]


@pytest.mark.parametrize("error", [ValueError("not ours"), KeyboardInterrupt()], ids=["an exception", "an interrupt"])
def test_a_write_that_fails_fails_for_every_thread_that_waits(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a branch would go on with a step that is not on disk."""

    def fail() -> None:
        raise error

    disk = Disk(fail)
    state, (first, second, third) = three_threads(disk, monkeypatch)
    assert first.exception() is None
    told = second.exception()
    assert told is error or (isinstance(told, BackgroundThreadError) and told.__cause__ is error)
    assert isinstance(third.exception(), BackgroundThreadError)
    with pytest.raises(BackgroundThreadError):
        state.write(step("later"))
    assert disk.written == [["first"]]


def test_nothing_to_write_writes_nothing_unless_news_are_wanted() -> None:
    disk = Disk(lambda: None)
    disk.goes_on.set()
    state = state_over(disk)
    state.flush()
    assert disk.written == []
    state.flush(even_if_empty=True)
    assert disk.written == [[]]

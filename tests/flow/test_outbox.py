"""Status signals as subscribers get them: all, in order, at least once, with any deliverer and after any failure."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast import AsyncDurableContext, Duration, StatusSignal, durable_execution
from holdfast.engine import outbox
from holdfast.model.clock import VirtualClock
from holdfast.model.errors import DeliveryFailed, InvalidParameter, StoreBusy
from holdfast.model.signals import Subscriber
from holdfast.service.engines import OpenEngine
from holdfast.service.settings import Settings
from holdfast.store.backends import open_store
from holdfast.store.seam import Store
from holdfast.store.sqlite.store import SqliteStore
from tests.flow.harness import eventually


@durable_execution
async def echo(event: Any, context: AsyncDurableContext) -> Any:
    if event == "bad":
        raise ValueError("bad")
    return event


@durable_execution
async def sleeper(event: Any, context: AsyncDurableContext) -> None:
    await context.wait(Duration.from_days(1))


class Place:
    """A store, and engines over it."""

    def __init__(self, folder: Path) -> None:
        self.store = str(folder / "test.db")
        self.clock = VirtualClock()

    def engine(self, clock: VirtualClock | None = None, **subscribers: Subscriber) -> AbstractAsyncContextManager[OpenEngine]:
        settings = Settings(clock=clock or self.clock)
        return holdfast.open(self.store, functions=[echo, sleeper], subscribers=subscribers, settings=settings)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


class Receiver:
    """Takes signals; what it is told to refuse it refuses so many times."""

    def __init__(self, **refused: int) -> None:
        self.taken: list[StatusSignal] = []
        self.tried: list[tuple[str, str]] = []
        self._refused = refused

    async def __call__(self, signal: StatusSignal) -> None:
        self.tried.append((signal.name, signal.status.value))
        if self._refused.get(signal.name, 0) > 0:
            self._refused[signal.name] -= 1
            raise ConnectionError(f"no line for {signal.name}")
        self.taken.append(signal)

    @property
    def said(self) -> list[tuple[str, str]]:
        return [(signal.name, signal.status.value) for signal in self.taken]


async def ran(engine: OpenEngine, *names: str) -> None:
    for name in names:
        execution = await engine.start(echo, name, name=name)
        await execution.result()


def both(*names: str) -> list[tuple[str, str]]:
    """What is said of executions that ran one after the other."""
    return [(name, status) for name in names for status in ("RUNNING", "SUCCEEDED")]


async def heard(receiver: Receiver, *expected: tuple[str, str]) -> None:
    await eventually(lambda: len(receiver.taken) >= len(expected))
    assert receiver.said == list(expected)


# --- what is delivered -------------------------------------------------------------------------------------------------------


async def test_a_subscriber_hears_of_every_beginning_and_every_end(place: Place) -> None:
    billing = Receiver()
    async with place.engine(billing=billing) as engine:
        good = await engine.start(echo, 1, name="good")
        await good.result()
        bad = await engine.start(echo, "bad", name="bad")
        stopped = await engine.start(sleeper, name="stopped")
        await eventually(lambda: len(billing.taken) == 5)
        await stopped.stop()
        await eventually(lambda: len(billing.taken) == 6)
    assert sorted(billing.said) == sorted(
        [*both("good"), ("bad", "RUNNING"), ("bad", "FAILED"), ("stopped", "RUNNING"), ("stopped", "STOPPED")]
    )
    first, second = billing.taken[:2]
    assert first.arn == second.arn == good.arn
    assert (first.function, first.version, first.ended_at) == ("echo", "$LATEST", None)
    assert second.ended_at is not None
    assert second.started_at == first.started_at <= second.ended_at
    assert bad.arn in {signal.arn for signal in billing.taken}


async def test_signals_come_in_the_order_of_their_commits(place: Place) -> None:
    billing = Receiver()
    async with place.engine(billing=billing) as engine:
        started = await asyncio.gather(*(engine.start(echo, n, name=f"n{n}") for n in range(200)))
        await asyncio.gather(*(execution.result() for execution in started))
        await eventually(lambda: len(billing.taken) == 400)
    numbers = [signal.number for signal in billing.taken]
    assert numbers == sorted(set(numbers))
    for n in range(200):
        assert [status for name, status in billing.said if name == f"n{n}"] == ["RUNNING", "SUCCEEDED"]


async def test_a_def_is_called_on_a_thread_and_an_async_def_on_the_loop(place: Place) -> None:
    where: dict[str, threading.Thread] = {}

    def blocking(signal: StatusSignal) -> None:
        where["def"] = threading.current_thread()

    async def awaiting(signal: StatusSignal) -> None:
        await asyncio.sleep(0)
        where["async def"] = threading.current_thread()

    async with place.engine(one=blocking, two=awaiting, three=lambda signal: awaiting(signal)) as engine:
        await ran(engine, "a")
        await eventually(lambda: len(where) == 2)
    assert where["async def"] is threading.current_thread()
    assert where["def"].name.startswith("holdfast-outbox")


def test_subscribers_work_without_asyncio(place: Place) -> None:
    heard = threading.Event()

    def on_status(signal: StatusSignal) -> None:
        if signal.status.value == "SUCCEEDED":
            heard.set()

    with holdfast.open(place.store, functions=[echo], subscribers={"billing": on_status}) as engine:
        engine.start(echo, 1).result()
        assert heard.wait(20)


# --- when it is not taken ----------------------------------------------------------------------------------------------------


async def test_a_signal_that_is_not_taken_is_tried_again_and_none_is_passed_over(place: Place) -> None:
    billing = Receiver(b=3)
    async with place.engine(billing=billing) as engine:
        await ran(engine, "a", "b", "c")
        await heard(billing, *both("a", "b", "c"))
    assert billing.tried == [*both("a"), *[("b", "RUNNING")] * 4, *both("b", "c")[1:]]


async def test_a_sink_that_fails_is_told_in_a_line_and_a_strangers_mistake_with_its_place(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    left: list[Exception] = [KeyError("mine"), DeliveryFailed("hooks.example answered 503.")]

    async def hook(signal: StatusSignal) -> None:
        if left:
            raise left.pop()

    def told() -> list[logging.LogRecord]:
        return [record for record in caplog.records if "did not take" in record.getMessage()]

    async with place.engine(hook=hook) as engine:
        await ran(engine, "a")
        await eventually(lambda: len(told()) == 2)

    assert [record.getMessage().split("; ")[1] for record in told()] == [
        "it is tried again: hooks.example answered 503.",
        "it is tried again: KeyError('mine')",
    ]
    assert [record.exc_info is None for record in told()] == [True, False]


async def test_a_retry_comes_after_a_pause_that_grows(place: Place) -> None:
    clock = VirtualClock(skipping=False)
    billing = Receiver(a=3)
    async with place.engine(clock, billing=billing) as engine:
        await ran(engine, "a")
        for tries, least, most in ((1, 500, 1_000), (2, 1_000, 2_000), (3, 2_000, 4_000)):
            await eventually(lambda: engine._engine.outbox.next_at is not None)
            at = engine._engine.outbox.next_at
            assert at is not None
            assert least <= at - clock.now() <= most
            assert len(billing.tried) == tries, "not before its time"
            clock.move_to(at)
            await eventually(lambda: len(billing.tried) > tries)  # noqa: B023
        await heard(billing, *both("a"))


async def test_one_subscriber_does_not_wait_for_another(place: Place) -> None:
    clock = VirtualClock(skipping=False)
    billing, mail = Receiver(a=1_000_000), Receiver()
    async with place.engine(clock, billing=billing, mail=mail) as engine:
        await ran(engine, "a", "b")
        await heard(mail, *both("a", "b"))
    assert billing.taken == []


@pytest.mark.parametrize("colour", ["async", "def"])
@pytest.mark.parametrize("error", [asyncio.CancelledError, SystemExit])
async def test_a_subscriber_that_would_end_its_task_or_the_program_fails_like_any_other(
    place: Place, colour: str, error: type[BaseException]
) -> None:
    tried: list[int] = []

    def on_status(signal: StatusSignal) -> None:
        tried.append(signal.number)
        if len(tried) == 1:
            raise error

    async def on_status_soon(signal: StatusSignal) -> None:
        on_status(signal)

    async with place.engine(billing=on_status if colour == "def" else on_status_soon) as engine:
        await ran(engine, "a")
        await eventually(lambda: len(tried) == 3)
    assert tried == [tried[0], tried[0], tried[2]]


async def test_time_stands_still_while_a_function_has_a_signal_in_hand(place: Place) -> None:
    began = place.clock.now()
    held, go = asyncio.Event(), asyncio.Event()

    async def on_status(signal: StatusSignal) -> None:
        held.set()
        await go.wait()

    async with place.engine(billing=on_status) as engine:
        execution = await engine.start(sleeper)
        await held.wait()
        for _ in range(100):
            await asyncio.sleep(0)
        assert place.clock.now() == began
        go.set()
        await execution.result()
    assert place.clock.now() > began


async def test_a_bad_moment_of_the_store_does_not_end_the_delivery(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "_TROUBLE_SECONDS", 0.01)
    troubled: dict[str, int] = {}

    def troubled_once(verb: str) -> None:
        real = getattr(SqliteStore, verb)

        def once(self: SqliteStore, *given: Any) -> Any:
            troubled[verb] = troubled.get(verb, 0) + 1
            if troubled[verb] == 1:
                raise StoreBusy
            return real(self, *given)

        monkeypatch.setattr(SqliteStore, verb, once)

    for verb in ("take_delivery", "signals", "delivered"):
        troubled_once(verb)
    billing = Receiver()
    async with place.engine(billing=billing) as engine:
        await ran(engine, "a")
        await eventually(lambda: troubled.get("delivered", 0) >= 2)
        await ran(engine, "b")
        await heard(billing, *both("a", "b"))


# --- across engines ----------------------------------------------------------------------------------------------------------


async def test_what_happened_while_nobody_was_there_is_delivered_later_and_nothing_twice(place: Place) -> None:
    first, second = Receiver(), Receiver()
    async with place.engine(billing=first) as engine:
        await ran(engine, "a")
        await heard(first, *both("a"))
    async with place.engine() as engine:
        await ran(engine, "b")
    async with place.engine(billing=second) as engine:
        await heard(second, *both("b"))


async def test_a_subscriber_that_comes_later_hears_of_what_happens_from_then_on(place: Place) -> None:
    billing, mail = Receiver(), Receiver()
    async with place.engine(billing=billing) as engine:
        await ran(engine, "a")
    async with place.engine(billing=billing, mail=mail) as engine:
        await ran(engine, "b")
        await heard(mail, *both("b"))
        await heard(billing, *both("a", "b"))


async def test_a_signal_that_was_not_taken_before_the_end_is_the_first_one_of_the_next_engine(place: Place) -> None:
    clock = VirtualClock(skipping=False)
    first, second = Receiver(b=1_000_000), Receiver()
    async with place.engine(clock, billing=first) as engine:
        await ran(engine, "a", "b")
        await eventually(lambda: ("b", "RUNNING") in first.tried)
    assert first.said == both("a")
    async with place.engine(clock, billing=second):
        await heard(second, *both("b"))


@pytest.mark.parametrize("colour", ["async", "def"])
async def test_a_function_that_does_not_come_back_does_not_keep_the_engine_from_closing(
    place: Place, monkeypatch: pytest.MonkeyPatch, colour: str
) -> None:
    monkeypatch.setattr(outbox, "_PATIENCE_SECONDS", 0.01)
    held, go = threading.Event(), threading.Event()

    async def awaiting(signal: StatusSignal) -> None:
        held.set()
        await asyncio.Event().wait()

    def blocking(signal: StatusSignal) -> None:
        held.set()
        go.wait(20)

    async with place.engine(billing=awaiting if colour == "async" else blocking) as engine:
        await engine.start(echo, 1, name="a")
        await eventually(held.is_set)
    billing = Receiver()
    async with place.engine(billing=billing) as engine:
        await eventually(lambda: len(billing.taken) >= 1)
        assert billing.said[0] == ("a", "RUNNING"), "it may not have been taken, so it comes again"
    go.set()


async def test_closing_waits_for_a_function_that_is_nearly_done(place: Place) -> None:
    held, done = asyncio.Event(), list[str]()

    async def on_status(signal: StatusSignal) -> None:
        held.set()
        await asyncio.sleep(0)
        done.append(signal.status.value)

    async with place.engine(billing=on_status) as engine:
        await engine.start(sleeper, name="a")
        await held.wait()
    assert done == ["RUNNING"]
    billing = Receiver()
    async with place.engine(VirtualClock(skipping=False), billing=billing) as engine:
        await ran(engine, "b")
        await eventually(lambda: len(billing.taken) == 2)
    assert billing.said == both("b"), "and it is not told again"


async def test_of_two_engines_on_one_file_one_delivers_and_the_other_goes_on_when_it_closes(place: Place) -> None:
    one, two = Receiver(), Receiver()
    async with place.engine(VirtualClock(skipping=False), billing=two) as second:
        await eventually(lambda: second._engine.outbox._deliveries[0]._holding)
        async with place.engine(VirtualClock(skipping=False), billing=one) as first:
            await ran(first, "a", "b")
            await ran(second, "c")
            await heard(two, *both("a", "b", "c"))
            assert one.taken == []
        # It closed without ever having delivered, which takes nothing from the one that does.
        await ran(second, "d")
        await heard(two, *both("a", "b", "c", "d"))


async def test_the_other_engine_goes_on_where_the_first_one_stopped(place: Place) -> None:
    one, two = Receiver(), Receiver()
    opening = place.engine(VirtualClock(skipping=False), billing=one)
    first = await opening.__aenter__()
    await eventually(lambda: first._engine.outbox._deliveries[0]._holding)
    async with place.engine(VirtualClock(skipping=False), billing=two) as second:
        await ran(second, "a")
        await heard(one, *both("a"))
        await opening.__aexit__(None, None, None)
        await ran(second, "b", "c")
        await heard(two, *both("b", "c"))
    assert one.said == both("a")


@pytest.fixture
def thief(place: Place) -> Iterator[Thief]:
    """Another runner on the same store."""
    store = open_store(place.store, "thief")
    store.join("thief", 10**15)
    yield Thief(store)
    store.close()


class Thief:
    """Takes the delivery away, as it happens to one that is taken for dead while it is paused, and gives it back."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.cursor = 0

    def take(self, engine: OpenEngine) -> None:
        self._store.leave(engine._engine.runner)
        cursor = self._store.take_delivery("billing", "thief")
        assert cursor is not None
        self.cursor = cursor

    def deliver(self, name: str, status: str) -> None:
        """Up to this one."""
        found = self._store.signals("billing", "thief", self.cursor, 100)
        assert found is not None
        (number,) = [signal.number for signal in found if (signal.name, signal.status) == (name, status)]
        assert self._store.delivered("billing", "thief", number)

    def give_back(self) -> None:
        self._store.leave("thief")


def delivery(engine: OpenEngine) -> Any:
    return engine._engine.outbox._deliveries[0]


async def test_an_engine_that_lost_the_delivery_delivers_no_more_until_it_has_it_again(place: Place, thief: Thief) -> None:
    billing = Receiver()
    async with place.engine(VirtualClock(skipping=False), billing=billing) as engine:
        await ran(engine, "a")
        await heard(billing, *both("a"))
        await eventually(lambda: delivery(engine)._kept == billing.taken[-1].number)
        thief.take(engine)
        await ran(engine, "b")
        await eventually(lambda: not delivery(engine)._holding)
        thief.deliver("b", "RUNNING")
        assert billing.said == both("a")
        thief.give_back()
        await heard(billing, *both("a"), ("b", "SUCCEEDED"))


async def test_a_signal_is_not_tried_again_by_an_engine_that_lost_the_delivery_meanwhile(place: Place, thief: Thief) -> None:
    clock = VirtualClock(skipping=False)
    billing = Receiver(a=1)
    async with place.engine(clock, billing=billing) as engine:
        await ran(engine, "a")
        await eventually(lambda: engine._engine.outbox.next_at is not None)
        thief.take(engine)
        clock.move_to(clock.now() + 60_000)
        await eventually(lambda: not delivery(engine)._holding)
        thief.deliver("a", "RUNNING")
        thief.give_back()
        await heard(billing, ("a", "SUCCEEDED"))
    assert billing.tried == both("a")


async def test_signals_of_another_process_are_delivered_here(place: Place) -> None:
    billing = Receiver()
    clock = VirtualClock(skipping=False)
    async with place.engine(clock, billing=billing), place.engine(clock) as elsewhere:
        await ran(elsewhere, "a")
        await heard(billing, *both("a"))


async def test_a_forgotten_subscriber_hears_no_more_and_nothing_is_kept_for_it(place: Place) -> None:
    billing, mail = Receiver(), Receiver()
    async with place.engine(VirtualClock(skipping=False), billing=billing, mail=mail) as engine:
        await ran(engine, "a")
        await heard(billing, *both("a"))
        await engine.unsubscribe("billing")
        await ran(engine, "b")
        await heard(mail, *both("a", "b"))
        assert billing.said == both("a")
        await engine.unsubscribe("mail")
        while engine._store.expire(0, 100):
            pass
        await ran(engine, "c")
        assert not engine._store.expire(0, 100), "there was nothing to remove"


async def test_the_cursor_is_moved_now_and_then_and_not_for_each_signal(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    moved: list[int] = []
    delivered = SqliteStore.delivered

    def counted(self: SqliteStore, subscriber: str, runner: str, number: int) -> bool:
        moved.append(number)
        return delivered(self, subscriber, runner, number)

    monkeypatch.setattr(SqliteStore, "delivered", counted)
    monkeypatch.setattr(outbox, "_KEEP_SECONDS", 3600.0)
    billing = Receiver()
    async with place.engine(billing=billing) as engine:
        await ran(engine, *(f"n{n}" for n in range(20)))
        await eventually(lambda: len(billing.taken) == 40)
    assert moved == sorted(set(moved))
    assert len(moved) <= 2
    assert moved[-1] == billing.taken[-1].number, "closing leaves it where it belongs"


# --- misuse ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", "two words", "x" * 65, "a/b", 7])
def test_a_name_that_cannot_be_kept_is_refused(place: Place, name: Any) -> None:
    with pytest.raises(InvalidParameter, match="Subscriber name"):
        _ = holdfast.open(place.store, functions=[echo], subscribers={name: print})


def test_what_cannot_be_called_is_refused(place: Place) -> None:
    with pytest.raises(InvalidParameter, match=r"'billing'.*cannot be called"):
        _ = holdfast.open(place.store, functions=[echo], subscribers={"billing": "on_status"})  # type: ignore[dict-item]

"""Backends with one fault each, and the suite inherited for each of them. test_suite.py says which test finds which fault."""

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.model.errors import HoldfastError, StoreBroken
from holdfast.model.execution import Birth, Execution, View
from holdfast.model.payloads import PayloadCodec
from holdfast.model.seal import Seal
from holdfast.model.verbs import Checkpoint, Claim, Settle, Start, VerbDecision, Write
from holdfast.store.seam import Committed, Filter
from holdfast.store.sqlite.store import SqliteStore
from holdfast.testing.stores import Opening, SharedStoreSuite
from holdfast.testing.stores.opened_stores import PROCESSES
from holdfast.testing.stores.writes import DAY, position
from tests.store.files import quick_store


class Twisted:
    """A write that decides otherwise than it should."""

    def __init__(self, write: Write, decide: Callable[[Write, View, int, Seal], VerbDecision]) -> None:
        self.execution = write.execution
        self._write, self._decide = write, decide

    def decide(self, view: View, now: int, seal: Seal) -> VerbDecision:
        return self._decide(self._write, view, now, seal)


class Seen:
    """A view whose header is an older one."""

    def __init__(self, view: View, header: Execution) -> None:
        self._view, self.header = view, header

    def __getattr__(self, name: str) -> Any:
        return getattr(self._view, name)


class IgnoresFences(SqliteStore):
    """Any writer may write, as the row stands."""

    def commit(self, batch: Sequence[Write], now: int) -> Committed:
        def decide(write: Any, view: View, now: int, seal: Seal) -> VerbDecision:
            return msgspec.structs.replace(write, at=position(view.header)).decide(view, now, seal)  # type: ignore[no-any-return]

        return super().commit([Twisted(write, decide) if isinstance(write, Checkpoint) else write for write in batch], now)


class LosesWakeUps(SqliteStore):
    """Suspends without a look at what came since."""

    def commit(self, batch: Sequence[Write], now: int) -> Committed:
        def decide(write: Any, view: View, now: int, seal: Seal) -> VerbDecision:
            return msgspec.structs.replace(write, seen=view.header.revision).decide(view, now, seal)  # type: ignore[no-any-return]

        return super().commit([Twisted(write, decide) if isinstance(write, Settle) else write for write in batch], now)


class KeepsNothing(SqliteStore):
    """Acknowledges what it only remembers."""

    def __init__(self, where: str, member: str, codec: PayloadCodec | None = None) -> None:
        super().__init__(":memory:", member, codec)


class GivesUpABatch(SqliteStore):
    """After one refusal every entry is refused."""

    def commit(self, batch: Sequence[Write], now: int) -> Committed:
        refused: list[HoldfastError] = []

        def decide(write: Write, view: View, now: int, seal: Seal) -> VerbDecision:
            if refused:
                raise refused[0]
            try:
                return write.decide(view, now, seal)
            except HoldfastError as error:
                refused.append(error)
                raise

        return super().commit([write if isinstance(write, Start) else Twisted(write, decide) for write in batch], now)


class FailsTogether(SqliteStore):
    """A bug that one entry meets is the answer of all entries."""

    def commit(self, batch: Sequence[Write], now: int) -> Committed:
        bugs: list[Exception] = []

        def decide(write: Write, view: View, now: int, seal: Seal) -> VerbDecision:
            try:
                return write.decide(view, now, seal)
            except HoldfastError:
                raise
            except Exception as bug:
                bugs.append(bug)
                raise

        done = super().commit([write if isinstance(write, Start) else Twisted(write, decide) for write in batch], now)
        return done._replace(answers=[StoreBroken()] * len(batch)) if bugs else done


class DecidesInAnyOrder(SqliteStore):
    """The last entry first."""

    def commit(self, batch: Sequence[Write], now: int) -> Committed:
        done = super().commit(batch[::-1], now)
        return done._replace(answers=done.answers[::-1])


class ForgetsRequests(SqliteStore):
    """A repeated request is a new one."""

    def commit(self, batch: Sequence[Write], now: int) -> Committed:
        forgotten = [msgspec.structs.replace(write, client_token=None) if isinstance(write, Checkpoint) else write for write in batch]
        return super().commit(forgotten, now)


class RingsLastFirst(SqliteStore):
    """Timers in the wrong order."""

    def due(self, now: int, limit: int) -> Sequence[str]:
        return super().due(now, 1000)[::-1][:limit]


class TrustsItsMemory(SqliteStore):
    """Decides on what it wrote last, though others have written since. Only the numbers of events are the table's own."""

    def __init__(self, where: str, member: str, codec: PayloadCodec | None = None) -> None:
        super().__init__(where, member, codec)
        self._known: dict[str, Execution] = {}

    def commit(self, batch: Sequence[Write], now: int) -> Committed:
        def decide(write: Write, view: View, now: int, seal: Seal) -> VerbDecision:
            known = msgspec.structs.replace(self._known.get(write.execution, view.header), events=view.header.events)
            return write.decide(Seen(view, known), now, seal)

        done = super().commit([write if isinstance(write, Start) else Twisted(write, decide) for write in batch], now)
        for write in batch:
            if (header := self.find(write.execution)) is not None:
                self._known[header.id] = header
        return done


class StartsChildrenFirst(SqliteStore):
    """A child in a transaction of its own, before its parent's."""

    def commit(self, batch: Sequence[Write], now: int) -> Committed:
        for write in batch:
            if isinstance(write, Checkpoint) and write.children:
                super().commit([Start(child.header, child.input) for child in write.children.values() if isinstance(child, Birth)], now)
        return super().commit(batch, now)


class LooksBeforeItsTurn(SqliteStore):
    """Reads, waits for its turn, and claims what it read. The gate lets all look first, so that the race is always lost."""

    gate = threading.Barrier(PROCESSES)

    def commit(self, batch: Sequence[Write], now: int) -> Committed:
        if len(batch) < 40 or not isinstance(batch[0], Claim):  # the race's own
            return super().commit(batch, now)
        looked = {write.execution: self.find(write.execution) for write in batch}
        self.gate.wait(10)

        def decide(write: Write, view: View, now: int, seal: Seal) -> VerbDecision:
            return write.decide(Seen(view, looked[write.execution] or view.header), now, seal)

        return super().commit([Twisted(write, decide) for write in batch], now)


class LetsAnybodyDeliver(SqliteStore):
    """Every runner that asks may deliver."""

    def take_delivery(self, subscriber: str, runner: str) -> int | None:
        return super().take_delivery(subscriber, "here")


class ForgetsADayEarly(SqliteStore):
    """Removes rows that a reader may still need."""

    def expire(self, now: int, limit: int) -> bool:
        return super().expire(now + DAY, limit)


class RepeatsTheEdge(SqliteStore):
    """The next page begins with the last one's end."""

    def list(self, wanted: Filter) -> Sequence[Execution]:
        edge = [self.find(wanted.beyond)] if wanted.beyond else []
        return [x for x in (*edge, *super().list(wanted)) if x is not None][: wanted.limit]


BACKENDS: list[type[SqliteStore]] = [
    IgnoresFences, LosesWakeUps, KeepsNothing, GivesUpABatch, FailsTogether, DecidesInAnyOrder, ForgetsRequests, RingsLastFirst,
    TrustsItsMemory, StartsChildrenFirst, LooksBeforeItsTurn, LetsAnybodyDeliver, ForgetsADayEarly, RepeatsTheEdge,
]  # fmt: skip


class TestBroken(SharedStoreSuite):
    """The whole suite, for each of them."""

    @pytest.fixture(params=BACKENDS, ids=[backend.__name__ for backend in BACKENDS])
    def opening(self, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opening]:
        with contextlib.ExitStack() as stores:
            made = tmp_path / "holdfast.db"
            yield lambda member: stores.enter_context(contextlib.closing(quick_store(made, member, backend=request.param)))

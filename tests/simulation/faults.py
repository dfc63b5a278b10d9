"""A store with faults: the seam between an engine and its disk, where a simulation lets things go wrong.

What it does must be possible. An error of a commit means that nothing of it is written, as the seam promises; but an acknowledgement may
get lost, because the process dies between COMMIT and its answer, or because a store says that it failed and is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from holdfast.model.errors import DiskFailed, HoldfastError, StoreBroken, StoreBusy
from holdfast.model.life import Claimant
from holdfast.model.schedules import ScheduleState
from holdfast.model.verbs import Write
from holdfast.store.seam import Committed, Target
from holdfast.store.sqlite.store import SqliteStore
from tests.simulation.loop import Died, Process

_READS = frozenset(
    {
        "claimable",
        "suspect",
        "due",
        "next_due",
        "hosted",
        "find",
        "input",
        "operations",
        "dead",
        "held",
        "renew",
        "changed",
        "has_open_lane",
        "inputs",
        "schedule",
        "due_schedules",
        "next_schedule",
        "waiting_schedules",
    }
)


class Rates:
    """How often each thing goes wrong; all zero once faults have ceased."""

    def __init__(self) -> None:
        self.busy = 0.0
        self.broken = 0.0
        self.disk = 0.0
        self.lost = 0.0
        self.dies = 0.0
        self.read = 0.0

    def cease(self) -> None:
        """From now on everything works."""
        self.__init__()  # type: ignore[misc]


class FaultyStore:
    """One process's store. Every verb is the real one's, unless chance says otherwise."""

    def __init__(
        self,
        inner: SqliteStore,
        process: Process,
        rates: Rates,
        chance: Random,
        tell: Callable[[str], None],
        look: Callable[[], None] = lambda: None,
    ) -> None:
        self._inner = inner
        self._process = process
        self._rates = rates
        self._chance = chance
        self._tell = tell
        self._look = look
        """Looks at the store after each commit."""
        self.seal = inner.seal

    def commit(self, batch: Sequence[Write], now: int) -> Committed:
        """Before, after, late, or as it should be."""
        self._before()
        done = self._inner.commit(batch, now)
        self._tell(" ".join(_told(write, answer) for write, answer in zip(batch, done.answers, strict=True)))
        self._after()
        return done

    def _before(self) -> None:
        self._check_alive()
        rates, chance = self._rates, self._chance
        if rates.dies and chance.random() < rates.dies:
            self._die("died before a commit")
        if rates.busy and chance.random() < rates.busy:
            self._tell("busy")
            raise StoreBusy("simulated")
        if rates.broken and chance.random() < rates.broken:
            self._tell("broken")
            raise StoreBroken("simulated")
        if rates.disk and chance.random() < rates.disk:
            self._tell("disk failed")
            raise DiskFailed("simulated")

    def _after(self) -> None:
        self._look()
        rates, chance = self._rates, self._chance
        if rates.dies and chance.random() < rates.dies:
            self._die("died after a commit")
        if rates.lost and chance.random() < rates.lost:
            self._tell("lost the acknowledgement")
            self._inner._views.clear()  # as after any error of a commit
            raise StoreBroken("simulated: it was written after all")

    def admit(self, targets: Sequence[Target], by: Sequence[Claimant], now: int) -> Committed:
        """As a commit."""
        self._before()
        done = self._inner.admit(targets, by, now)
        if done.answers or done.followed:
            self._tell("admitted " + " ".join(getattr(header, "id", "?")[-4:] for header in (*done.answers, *done.followed)))
        self._after()
        return done

    def move_schedule(self, schedule: ScheduleState) -> bool:
        """As a commit."""
        self._before()
        done = self._inner.move_schedule(schedule)
        self._tell(f"moved {schedule.name}: {done}")
        self._after()
        return done

    def __getattr__(self, verb: str) -> Any:
        self._check_alive()
        if verb in _READS and self._rates.read and self._chance.random() < self._rates.read:
            self._tell(f"busy: {verb}")
            raise StoreBusy("simulated")
        return getattr(self._inner, verb)

    def _die(self, how: str) -> None:
        self._tell(how)
        self._process.die()
        raise Died

    def _check_alive(self) -> None:
        if not self._process.alive:
            raise Died


def _told(write: Write, answer: object) -> str:
    said = type(answer).__name__ if isinstance(answer, HoldfastError) else "ok"
    return f"{type(write).__name__}({write.execution[-4:]}):{said}"


def abandon(store: SqliteStore) -> None:
    """What the kernel does with the files of a dead process: locks are freed, connections closed; the file that told of its life stays."""
    if store._presence is not None:
        store._presence._forget()
    store._reader.close()
    store._writer.close()

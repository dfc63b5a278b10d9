"""Simulations: several engines on one store, under a virtual clock, where everything goes wrong that a seed can think of.

    simulate(seed) → story (faults) → calm (no more faults, everything must end) → laws (laws.py)

The same seed is the same story, turn by turn. Threads are not simulated, so every handler here is `async def`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

from holdfast.engine.engine import Engine
from holdfast.engine.registry import Capacity, Function
from holdfast.hosts.inline import InlineHost
from holdfast.model.errors import HoldfastError
from holdfast.model.execution import Execution, State
from holdfast.model.ids import Ids
from holdfast.store.seam import Filter
from holdfast.store.sqlite.store import SqliteStore
from tests.measured_time import measured_by
from tests.simulation.chaos import Chaos
from tests.simulation.checks import Acknowledged, check_all
from tests.simulation.faults import FaultyStore, Rates, abandon
from tests.simulation.loop import Died, Process, SimulatedLoop, current_process
from tests.simulation.queue_laws import QueueLaws, check_enqueued, check_rates
from tests.simulation.queue_load import declared
from tests.simulation.schedule_laws import ScheduleLaws, add_schedules
from tests.simulation.workload import Outside, ScriptHandlers

_BEGAN_AT: Final = 1_767_225_600_000
_CALM_SECONDS: Final = 1000.0
"""Virtual seconds after the last fault in which everything must end."""
_QUIET_SECONDS: Final = 3
_MEMORY: Final = Path("/dev/shm")
"""Where a file costs no disk, if the machine has such a place: what is simulated need not outlive this process."""
_TICK_SECONDS: Final = 1.0
_LOOK_SECONDS: Final = 0.1
"""Virtual seconds between two looks."""


class SimulationFailed(AssertionError):
    """A law was broken; says how to see it again."""

    def __init__(self, seed: int, what: str, trace: list[str]) -> None:
        self.seed = seed
        tail = "\n".join(trace[-60:])
        super().__init__(f"seed {seed}: {what}\nAgain with: make simulate FROM={seed} SEEDS=1\nThe end of its trace:\n{tail}")


class Simulated(NamedTuple):
    """What a simulation came to."""

    trace: list[str]
    """What happened, in order."""
    turns: int
    picks: int
    """A fingerprint of who had which turn."""
    executions: int
    events: int


class SimulatedClock:
    """The wall clock of all processes. The simulation may set it."""

    virtual = False  # time passes by itself, as far as an engine can tell

    def __init__(self, loop: SimulatedLoop) -> None:
        self._loop = loop
        self._offset = 0
        self.was_set_back = False

    @property
    def offset(self) -> int:
        """How far the clock is from the loop's time."""
        return self._offset

    @offset.setter
    def offset(self, ms: int) -> None:
        self.was_set_back |= ms < self._offset
        self._offset = ms

    def now(self) -> int:
        """Milliseconds, of this simulation's year."""
        return _BEGAN_AT + int(self._loop.time() * 1000) + self.offset

    def skip_to(self, at: int) -> None:
        """Time is the loop's."""


class _LoopWatch:
    """A watch without a thread: it looks at odd intervals, as a busy machine would let it."""

    def __init__(self, looks: Iterator[None], seconds: float, chance: Random) -> None:
        self._looks = looks
        self._seconds = seconds
        self._chance = chance
        self._ended = False
        self._look()

    def end(self) -> None:
        """Stop observing."""
        self._ended = True

    def _look(self) -> None:
        if not self._ended:
            next(self._looks)
            asyncio.get_running_loop().call_later(self._seconds * self._chance.uniform(1, 15), self._look)


class Member(NamedTuple):
    """A process with its engine."""

    process: Process
    engine: Engine
    host: InlineHost
    store: SqliteStore


class World:
    """Everything of one simulation."""

    def __init__(self, seed: int, folder: Path, opened: Callable[[str, str], SqliteStore]) -> None:
        self.seed = seed
        self.chance = Random(f"story {seed}")
        self.loop = SimulatedLoop(Random(f"turns {seed}"))
        self.clock = SimulatedClock(self.loop)
        self.rates = Rates()
        self.trace: list[str] = []
        self.outside = Outside(self.tell)
        self.players = ScriptHandlers(self.outside)
        self.known = Acknowledged()
        self.members: list[Member] = []
        self.troubles: list[str] = []
        self._where = str(folder / "store")
        self._opened = opened
        self._count = 0
        self.loop.set_exception_handler(self._unhandled)
        self.reader = self._store("reader")
        """The eye of the simulation; nothing goes wrong with it."""
        self.queues = declared(Random(f"queues {seed}"))
        self._laws = QueueLaws(self.reader)
        add_schedules(self.reader, Random(f"schedules {seed}"), self.clock.now())
        self.schedules = ScheduleLaws(self.reader)

    def tell(self, line: str) -> None:
        """One line of the trace."""
        self.trace.append(f"{self.loop.time():.4f} {current_process().name} {line}")

    def _look(self) -> None:
        """After every commit: the laws of queues and of schedules hold."""
        try:
            self._laws.check()
            self.schedules.check()
        except AssertionError as broken:
            self.troubles.append(str(broken))

    def _unhandled(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not isinstance(error, Died):
            self.troubles.append(f"not caught: {context.get('message')} {error!r}")

    def _store(self, member: str) -> SqliteStore:
        store = self._opened(self._where, member)
        store._writer.execute("PRAGMA synchronous = OFF")  # the machine does not die here, only processes do
        return store

    # --- processes

    def open(self) -> Member:
        """A new process with an engine."""
        self._count += 1
        process = Process(f"p{self._count}")
        ids = Ids(Random(f"ids {self.seed} {self._count}"))
        runner = ids(self.clock.now())
        inner = self._store(runner)
        capacity = Capacity(self.chance.choice([1, 3, 1000]))
        functions = self.players.functions
        host = InlineHost(functions, clock=self.clock, threads=1, resting=self.chance.choice([0, 1, 1000]))
        chance = Random(f"chance {self.seed} {self._count}")
        engine = Engine(
            FaultyStore(inner, process, self.rates, chance, self.tell, self._look),
            [Function(name=f.name, version=f.version, terms=f.terms, capacity=capacity, kind=f.kind) for f in functions],
            host,
            clock=self.clock,
            ids=ids,
            chance=chance,
            runner=runner,
            poller=lambda looks, seconds: _LoopWatch(looks, seconds, chance),
            queues=self.queues,
        )

        def on_death() -> None:
            self.tell(f"{process.name} is dead")
            abandon(inner)
            self.members = [member for member in self.members if member.process is not process]

        process.on_death = on_death
        member = Member(process, engine, host, inner)
        self.members.append(member)
        self.loop.spawn(process, engine.open())
        self.tell(f"{process.name} opens")
        return member

    async def close(self, member: Member) -> None:
        """End a process in good order, if it lives that long; to be run inside it."""
        try:
            await member.engine.close()
        finally:
            member.host.close()
        self.tell("closed in good order")
        member.process.die()

    # --- the end

    def open_executions(self) -> list[Execution]:
        """What is not over."""
        return [header for header in self.reader.list(Filter(limit=10_000)) if header.state is not State.CLOSED]


def simulate(seed: int, *, opened: Callable[[str, str], SqliteStore] = SqliteStore) -> Simulated:
    """Tell the story of a seed and hold it against the laws; `opened` opens a process's store."""
    with TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as folder:
        world = World(seed, Path(folder), opened)
        loop = world.loop
        try:
            with measured_by(loop.time), _listening(world.troubles):
                events = _told(world)
        finally:
            for member in world.members:
                member.process.on_death = lambda store=member.store: abandon(store)  # type: ignore[misc]
                member.process.die()
            loop.bury()
            loop.close()
            world.reader.close()
    executions = len(world.known.checked)
    return Simulated(world.trace, loop.turns, loop.picks, executions, events)


def _told(world: World) -> int:
    try:
        world.loop.run_until_complete(_story(world))
        if world.troubles:
            raise AssertionError("; ".join(world.troubles[:3]))
        events = check_all(world.reader, world.known, world.outside)
        executions = world.reader.list(Filter(limit=10_000))
        check_enqueued(world.reader, executions)
        world.schedules.check_started(executions)
        if not world.clock.was_set_back:
            check_rates(world.reader, executions)
        return events
    except (AssertionError, RuntimeError) as broken:
        first = world.troubles[0] if world.troubles else str(broken)  # what does not end may be what a law has seen before
        raise SimulationFailed(world.seed, first, world.trace) from broken


def check_room(engine: Engine) -> None:
    """When everything is over, no room is taken, no child is expected, and no parent waits for one."""
    parents = engine._reservations._parents
    left = [engine._reservations._expected, parents._children, parents._waiting]
    assert engine.registry.is_unused(), f"{engine.runner} has not all its room back"
    assert not any(left), f"{engine.runner} waits for what is over: {left}"


async def _story(world: World) -> None:
    chaos = Chaos(world)
    await chaos.rage()
    chaos.cease()
    deadline = world.loop.time() + _CALM_SECONDS
    quiet = 0
    while quiet < _QUIET_SECONDS:
        left = world.open_executions()
        schedules = world.schedules.left()
        quiet = 0 if left or schedules else quiet + 1  # a caller may still be on its way
        if world.loop.time() > deadline:
            stuck = [f"{header.name} ({header.function}, {header.state}, runner {header.runner})" for header in left]
            raise AssertionError(f"does not end: {stuck or schedules}")
        chaos.help()
        await asyncio.sleep(_TICK_SECONDS)
    for member in world.members:
        if member.engine._open:
            check_room(member.engine)
            world.loop.spawn(member.process, world.close(member))
    while world.members:
        if world.loop.time() > deadline + _CALM_SECONDS:
            raise AssertionError(f"does not close: {[member.process.name for member in world.members]}")
        await asyncio.sleep(_LOOK_SECONDS)


class _Listener(logging.Handler):
    """Hears what the engine logs: an error that it did not expect is trouble."""

    def __init__(self, troubles: list[str]) -> None:
        super().__init__()
        self._troubles = troubles

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and not isinstance(error, Died | HoldfastError):
            self._troubles.append(f"{record.getMessage()} {error!r}")


@contextmanager
def _listening(troubles: list[str]) -> Iterator[None]:
    logger = logging.getLogger("holdfast")
    listener, before = _Listener(troubles), logger.propagate
    logger.addHandler(listener)
    logger.propagate = False
    try:
        yield
    finally:
        logger.propagate = before
        with suppress(ValueError):
            logger.removeHandler(listener)

"""Chaos: what the world does to a simulation. Callers come and go, processes die or sleep, clocks are set, disks fail. Then calm."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context
from functools import partial
from random import Random
from typing import Any, Final, Protocol

from holdfast.engine.engine import Engine
from holdfast.engine.enqueues import enqueue_of
from holdfast.model import codec
from holdfast.model.errors import CallbackClosed, HoldfastError
from holdfast.model.execution import Execution, State
from holdfast.model.operations import Failure
from holdfast.model.queues import Mode
from holdfast.store.seam import Filter, Store
from tests.simulation.checks import Acknowledged
from tests.simulation.faults import Rates
from tests.simulation.loop import Process, SimulatedLoop
from tests.simulation.queue_load import asked, open_all, set_by_chance
from tests.simulation.workload import Outside, ScriptMaker

_DEEDS: Final = {
    "start": 8,
    "start_again": 3,
    "enqueue": 7,
    "enqueue_again": 3,
    "set_queue": 1,
    "answer": 8,
    "stop": 1,
    "wait": 2,
    "kill": 2,
    "pause": 2,
    "shut": 1,
    "set_clock": 1,
    "trouble": 2,
    "open": 3,
}
_PROCESSES: Final = 3


class _Settable(Protocol):
    offset: int


class _Member(Protocol):
    @property
    def process(self) -> Process: ...
    @property
    def engine(self) -> Engine: ...


class _World(Protocol):
    """The simulation, as far as a chaos needs it."""

    chance: Random
    rates: Rates
    outside: Outside
    known: Acknowledged

    @property
    def loop(self) -> SimulatedLoop: ...
    @property
    def clock(self) -> _Settable: ...
    @property
    def reader(self) -> Store: ...
    @property
    def members(self) -> Any: ...
    def open(self) -> Any: ...
    async def close(self, member: Any) -> None: ...
    def open_executions(self) -> list[Execution]: ...
    def tell(self, line: str) -> None: ...


class Chaos:
    """Everything that happens to the engines from outside."""

    def __init__(self, world: _World) -> None:
        self._world = world
        self._chance = world.chance
        self._script_maker = ScriptMaker(world.chance)
        self._known = world.known
        self._answered = 0
        self._starts_left = self._chance.randint(2, 10)

    async def rage(self) -> None:
        """The time in which anything may happen."""
        world, chance = self._world, self._chance
        for _ in range(chance.randint(1, _PROCESSES)):
            world.open()
        world.outside.on_asked = self._asked
        self.trouble()
        self.start()
        until = chance.uniform(5, 60)
        pace = chance.choice([0.002, 0.02, 0.3, 2.0])
        deeds, weights = list(_DEEDS), list(_DEEDS.values())
        for _ in range(chance.randint(10, 80)):
            await asyncio.sleep(chance.expovariate(1 / pace) if chance.random() < 0.8 else 0)
            if world.loop.time() > until:
                return
            getattr(self, chance.choices(deeds, weights)[0])()

    def cease(self) -> None:
        """No more faults: living processes go on, and at least one lives."""
        world = self._world
        world.tell("calm")
        world.rates.cease()
        for member in world.members:
            member.process.turns_left = None
            member.process.paused_until = 0.0

    def help(self) -> None:
        """What people must do so that every execution can end: answer callbacks, and release quarantined executions."""
        world = self._world
        if not world.members:
            world.open()
        member = self._member()
        if member is None:
            return
        for callback in world.outside.callbacks[self._answered :]:
            self._spawn(member, partial(self._answer, member.engine, callback))
        self._answered = len(world.outside.callbacks)
        if any(row.mode is not Mode.OPEN for row in world.reader.queues()):
            self._spawn(member, partial(self._open_queues, member.engine))
        for header in world.open_executions():
            if header.state is State.QUARANTINED:
                self._spawn(member, partial(member.engine.release, header.id))

    # --- callers

    def _spawn(self, member: _Member, call: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        async def told() -> None:
            try:
                await call()
            except HoldfastError as refused:
                self._world.tell(f"refused: {type(refused).__name__}")

        self._world.loop.spawn(member.process, told())

    def _member(self) -> _Member | None:
        found: list[_Member] = [member for member in self._world.members if member.engine._open]
        return self._chance.choice(found) if found else None

    def start(self) -> None:
        """A new name."""
        if self._starts_left:
            self._starts_left -= 1
            name = f"script-{len(self._known.scripts)}"
            self._known.scripts[name] = [self._script_maker.script()]
            self._start(name, 0)

    def start_again(self) -> None:
        """A name that is taken, mostly with its own script."""
        if self._known.scripts:
            name = self._chance.choice(list(self._known.scripts))
            scripts = self._known.scripts[name]
            if self._chance.random() < 0.2:
                scripts.append(self._script_maker.script())
            self._start(name, self._chance.randrange(len(scripts)))

    def _start(self, name: str, which: int) -> None:
        member = self._member() or self._world.open()

        async def start() -> None:
            header = await member.engine.start("script", codec.dumps(self._known.scripts[name][which]), name=name)
            self._known.started.setdefault(name, set()).add((which, header.id))
            self._world.tell(f"acknowledged {name}")

        if member.engine._open:
            self._spawn(member, start)

    def enqueue(self) -> None:
        """A new name, in a queue."""
        if self._starts_left:
            self._starts_left -= 1
            name = f"job-{len(self._known.scripts)}"
            self._known.scripts[name] = [self._script_maker.script(1)]
            self._enqueue(name, 0, "existing")

    def enqueue_again(self) -> None:
        """A name that is in a queue already: to find it, to replace it, or to be refused."""
        jobs = [name for name in self._known.scripts if name.startswith("job-")]
        if jobs:
            name, same = self._chance.choice(jobs), self._chance.choice(["existing", "replace", "refuse"])
            if same == "replace":
                self._known.scripts[name].append(self._script_maker.script(1))
                self._known.replaced.add(name)
            self._enqueue(name, len(self._known.scripts[name]) - 1, same)

    def _enqueue(self, name: str, which: int, same: str) -> None:
        member, how = self._member() or self._world.open(), asked(Random(f"{name} is always enqueued so"))

        async def enqueue() -> None:
            script = codec.dumps(self._known.scripts[name][which])
            tenant = how.pop("tenant")
            header = await member.engine.enqueue("script", script, enqueue_of(same=same, **how), name=name, tenant=tenant)
            self._known.enqueued[header.id] = (name, which)
            self._world.tell(f"acknowledged {name} in {how['queue']}: {header.state}")

        if member.engine._open:
            self._spawn(member, enqueue)

    def set_queue(self) -> None:
        """An operator pauses, opens or drains a queue, or sets another limit."""
        member = self._member()
        if member is not None:
            self._spawn(member, partial(self._set_queue, member.engine))

    async def _set_queue(self, engine: Engine) -> None:
        self._world.tell(set_by_chance(engine.store, self._chance))
        engine.look_for_work()

    async def _open_queues(self, engine: Engine) -> None:
        open_all(engine.store)
        engine.look_for_work()

    def answer(self) -> None:
        """Any callback that the world was told of, also one that was answered before."""
        if self._world.outside.callbacks:
            self._answer_now(self._chance.choice(self._world.outside.callbacks))

    def _asked(self, callback: str) -> None:
        """A quick answer: it may arrive before the execution waits for it, or at the same moment."""
        delay = self._chance.choice([0, 0.0005, 0.001, 0.002, 0.005, 1, None, None])
        if delay is not None:
            self._world.loop.call_later(delay, self._answer_now, callback, context=Context())

    def _answer_now(self, callback: str) -> None:
        member = self._member()
        if member is not None:
            self._spawn(member, partial(self._answer, member.engine, callback))

    async def _answer(self, engine: Engine, callback: str) -> None:
        text = f"yes {len(self._known.sent)}"
        self._known.sent.add(text)
        good = self._chance.random() < 0.8
        try:
            await engine.answer(callback, text if good else None, None if good else Failure(text, "No"))
        except CallbackClosed:
            return
        self._known.answers.setdefault(callback, []).append(text)
        self._world.tell(f"acknowledged {text}")

    def stop(self) -> None:
        """Any execution, also a child or one that is over."""
        headers, member = self._world.reader.list(Filter(limit=1000)), self._member()
        if headers and member is not None:
            header = self._chance.choice(headers)
            cascade = self._chance.random() < 0.8

            async def stop() -> None:
                await member.engine.stop(header.id, Failure("enough", "Chaos"), cascade=cascade)
                self._known.stopped.add(header.id)
                self._world.tell(f"acknowledged stop {header.id[-4:]}")

            self._spawn(member, stop)

    def wait(self) -> None:
        """A client waits for a result."""
        headers, member = self._world.reader.list(Filter(limit=1000)), self._member()
        if headers and member is not None:
            header = self._chance.choice(headers)

            async def wait() -> None:
                ending = await member.engine.ending(header.id)
                self._known.ended.append((ending.header, ending.payload))
                self._world.tell(f"told the end of {header.id[-4:]}")

            self._spawn(member, wait)

    # --- faults

    def kill(self) -> None:
        """A process dies within its next turns, wherever it is then."""
        if self._world.members:
            self._chance.choice(self._world.members).process.turns_left = self._chance.randrange(60)

    def pause(self) -> None:
        """A process is stopped for a while, often for longer than its lease."""
        if self._world.members:
            member = self._chance.choice(self._world.members)
            member.process.paused_until = self._world.loop.time() + self._chance.choice([0.01, 1, 9, 15, 40])
            self._world.tell(f"{member.process.name} is paused until {member.process.paused_until:.2f}")

    def shut(self) -> None:
        """A process ends in good order."""
        member = self._member()
        if member is not None:
            self._world.loop.spawn(member.process, self._world.close(member))

    def open(self) -> None:
        """A process comes."""
        if len(self._world.members) < _PROCESSES:
            self._world.open()

    def set_clock(self) -> None:
        """An operator sets the clock, or the machine slept."""
        self._world.clock.offset += self._chance.choice([-20_000, -500, 700, 6_000, 15_000, 100_000])
        self._world.tell(f"the clock is set: {self._world.clock.offset}")

    def trouble(self) -> None:
        """The disk has a bad time, or a good one again."""
        rates, chance = self._world.rates, self._chance
        rates.cease()
        if chance.random() < 0.6:
            rates.busy = chance.choice([0.0, 0.05, 0.2])
            rates.broken = chance.choice([0.0, 0.0, 0.05])
            rates.dies = chance.choice([0.0, 0.01, 0.04])
            rates.disk = chance.choice([0.0, 0.0, 0.1, 0.7])
            rates.lost = chance.choice([0.0, 0.0, 0.03])
            rates.read = chance.choice([0.0, 0.02, 0.1])
        self._world.tell(f"rates {vars(rates)}")

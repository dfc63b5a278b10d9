"""One engine with any host, driven by a script: who answers which callback, and when time passes.

Time stands still unless the driver moves it, and the driver moves it only when the execution waits for nothing but time. So every
timestamp of a history is decided by the case, and two histories can be compared to the letter.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from holdfast.descriptions.history import wire_history
from holdfast.durable.execution import DurableFunction
from holdfast.engine.engine import Engine
from holdfast.engine.registry import Capacity, Function
from holdfast.hosts.inline import InlineHost
from holdfast.model.clock import VirtualClock, monotonic
from holdfast.model.execution import Execution, ExecutionStatus, Outcome, State
from holdfast.model.ids import id_at
from holdfast.model.operations import Failure, Operation, Status, Type
from holdfast.model.ports import Host, Invocation, Port
from holdfast.store.backends import open_store
from holdfast.store.seam import Filter
from tests.flow.official.host import Handler, OfficialHost

PATIENCE_SECONDS = 20.0


class ClosableHost(Host, Protocol):
    """A host as a test has it."""

    def close(self) -> None: ...


class NoChance(random.Random):
    """Chance without chance: the backoff of a failed invocation is the same in every engine."""

    def random(self) -> float:
        return 0.5


MakeHost = Callable[[VirtualClock], ClosableHost]


class Answer(msgspec.Struct, frozen=True):
    """Succeed a callback."""

    text: str | None = None


class Fail(msgspec.Struct, frozen=True):
    """Fail a callback."""

    error: Failure = Failure()


class Beat(msgspec.Struct, frozen=True):
    """Let so many seconds pass, then send a heartbeat."""

    after_seconds: int


Deed = Answer | Fail | Beat
Script = Mapping[str, Sequence[Deed]]
"""What happens to a callback of this name once the execution waits for it."""


class Ending(msgspec.Struct, frozen=True):
    """How an execution ended and what it left."""

    status: ExecutionStatus
    payload: str | None
    history: list[dict[str, Any]]


class Running:
    """An open engine and its one function."""

    def __init__(self, engine: Engine, clock: VirtualClock) -> None:
        self.engine = engine
        self.clock = clock

    async def start(self, event: object = None) -> str:
        """Start the case's execution."""
        payload = msgspec.json.encode(event).decode()
        return (await self.engine.start("handler", payload, name="case")).id

    def header(self, execution: str) -> Execution:
        """Where it stands."""
        found = self.engine.store.find(execution)
        assert found is not None
        return found

    def open_callbacks(self, execution: str) -> dict[str, Operation]:
        """Callbacks that wait for an answer, by name."""
        operations = self.engine.store.operations(execution)
        return {op.name or "": op for op in operations if op.type is Type.CALLBACK and op.status is Status.STARTED}

    async def until(self, fact: Callable[[], bool], what: str) -> None:
        """Wait for a fact; no fact in good time is a failure."""
        deadline = monotonic() + PATIENCE_SECONDS
        never = asyncio.Event()
        while not fact():
            assert monotonic() < deadline, f"waited {PATIENCE_SECONDS} s for: {what}"
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(never.wait(), 0.001)

    def open(self) -> list[Execution]:
        """The execution and all that it invoked, as far as they are not closed."""
        return [header for header in self.engine.store.list(Filter()) if header.state is not State.CLOSED]

    async def rested(self, execution: str) -> Execution:
        """Wait until no runner holds it or the executions it invoked: suspended, waiting for a retry of the invocation, or closed."""

        def at_rest() -> bool:
            now = self.clock.now()
            return all(
                header.state in (State.SUSPENDED, State.QUARANTINED) or (header.state is State.READY and header.ready_at > now)
                for header in self.open()
            )

        await self.until(at_rest, "the execution to rest")
        return self.header(execution)

    async def drive(self, execution: str, script: dict[str, list[Deed]], *, stops_at: int | None = None) -> Execution:
        """Follow the script until the execution is closed, or until it has rested so many times."""
        rests = 0
        while True:
            header = await self.rested(execution)
            rests += 1
            if header.state in (State.CLOSED, State.QUARANTINED) or rests == stops_at:
                return header
            await self._go_on(header, script)

    async def _go_on(self, root: Execution, script: dict[str, list[Deed]]) -> None:
        for name, callback in self.open_callbacks(root.id).items():
            if script.get(name):
                await self.do(script[name].pop(0), callback)
                return
        times = [((x.ready_at if x.state is State.READY else x.due_at) or x.deadline, x) for x in self.open()]
        at, header = min(times, key=lambda found: found[0])
        assert at < header.deadline, f"nothing more will happen: {header}, open: {list(self.open_callbacks(header.id))}"
        self.clock.move_to(at)
        self.engine.look_for_work()
        await self.until(lambda: self.header(header.id).revision > header.revision, "the timer to act")

    async def do(self, deed: Deed, callback: Operation) -> None:
        """Do what the script says to a callback."""
        assert callback.callback_id is not None
        if isinstance(deed, Answer):
            await self.engine.answer(callback.callback_id, deed.text)
        elif isinstance(deed, Fail):
            await self.engine.answer(callback.callback_id, error=deed.error)
        else:
            self.clock.move_to(self.clock.now() + deed.after_seconds * 1000)
            await self.engine.heartbeat(callback.callback_id)

    def ending(self, execution: str) -> Ending:
        """What it came to."""
        header = self.header(execution)
        return Ending(header.status, self.engine.store.result(header), self.history(execution))

    def history(self, execution: str) -> list[dict[str, Any]]:
        """Its events, with what differs between any two executions taken out: the random ids."""
        return [self._plain(event, execution) for event in wire_history(self.engine.store, self.header(execution))]

    def _plain(self, event: dict[str, Any], execution: str) -> dict[str, Any]:
        event = dict(event)
        if event.get("Id") == execution:
            event["Id"] = "the execution"
        details = event[f"{event['EventType']}Details"] = dict(event[f"{event['EventType']}Details"])
        if "RequestId" in details:
            details["RequestId"] = "an invocation"
        if "DurableExecutionArn" in details:
            details["DurableExecutionArn"] = details["DurableExecutionArn"].partition("/")[0]
        if "CallbackId" in details:
            owner, operation = self.engine.store.seal.callback_target(details["CallbackId"])
            assert owner == execution
            details["CallbackId"] = f"of {operation}"
        return event


class Two:
    """A host for the case's own function, and one for what it invokes."""

    def __init__(self, first: ClosableHost, others: ClosableHost) -> None:
        self._hosts = (first, others)

    def invoke(self, invocation: Invocation, port: Port, done: Callable[[Outcome, int], None]) -> None:
        self._hosts[invocation.header.function != "handler"].invoke(invocation, port, done)

    def cancel(self, execution: str) -> None:
        for host in self._hosts:
            host.cancel(execution)

    def learn(self, header: Execution, operations: Collection[Operation]) -> None:
        for host in self._hosts:
            host.learn(header, operations)

    def recheck(self, execution: str) -> None:
        for host in self._hosts:
            host.recheck(execution)

    def idle(self) -> bool:
        return all(host.idle() for host in self._hosts)

    def close(self) -> None:
        for host in self._hosts:
            host.close()


@contextlib.asynccontextmanager
async def opened(
    make_host: MakeHost, *, others: Sequence[DurableFunction] = (), where: str = ":memory:", clock: VirtualClock | None = None
) -> AsyncIterator[Running]:
    """An engine over a store, running one function named `handler` on this host, and what it invokes on one of ours."""
    clock = clock or VirtualClock(skipping=False)
    host = Two(make_host(clock), InlineHost(others, clock=clock, threads=4, resting=100))
    runner = id_at(clock.now())
    functions = [
        Function(name="handler", capacity=Capacity(4)),
        *(Function(name=f.name, capacity=Capacity(4), terms=f.terms) for f in others),
    ]
    store = open_store(where, runner)
    engine = Engine(store, functions, host, clock=clock, ids=id_at, chance=NoChance(), runner=runner)
    await engine.open()
    try:
        yield Running(engine, clock)
    finally:
        await engine.close()
        host.close()
        store.close()


def ours(function: DurableFunction, *, resting: int = 100) -> MakeHost:
    """A host for one function of ours."""
    return lambda clock: InlineHost([function], clock=clock, threads=4, resting=resting)


def official(handler: Handler, *, page: int = 1000) -> MakeHost:
    """A host for one function of the official SDK's."""
    return lambda clock: OfficialHost({"handler": handler}, page=page)

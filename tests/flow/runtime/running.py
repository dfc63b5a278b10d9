"""An engine, a runtime host and the real HTTP API, wired as a server wires them."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

from holdfast.descriptions.history import wire_history
from holdfast.engine.engine import Engine
from holdfast.engine.registry import Capacity, Function
from holdfast.lambda_api.operations.api import LambdaApi
from holdfast.lambda_api.routes.app import make_app
from holdfast.lambda_api.runtime.process_output import OutputLine
from holdfast.lambda_api.runtime.runtime_description import PoolLimits, Runtime
from holdfast.lambda_api.runtime.runtime_host import RuntimeHost
from holdfast.model.clock import Clock, SystemClock
from holdfast.model.execution import Terms
from holdfast.model.ids import id_at
from holdfast.store.backends import open_store

FUNCTIONS = Path(__file__).with_name("functions")
PATIENCE_SECONDS = 60.0
TERMS = Terms(timeout_seconds=3600)


def plain(handler: str, /, **members: Any) -> Runtime:
    """A function of functions/plain.py, named like its handler."""
    wanted: dict[str, Any] = {"function": handler, "folder": str(FUNCTIONS), "handler": f"plain.{handler}", "timeout_seconds": 30}
    return Runtime(**wanted | {"durable": False} | members)


def durable(handler: str, /, **members: Any) -> Runtime:
    """A function of functions/workflows.py, named like its handler."""
    wanted: dict[str, Any] = {"function": handler, "folder": str(FUNCTIONS), "handler": f"workflows.{handler}", "timeout_seconds": 60}
    return Runtime(**wanted | members)


@contextlib.asynccontextmanager
async def hosting(*runtimes: Runtime, **limits: Any) -> AsyncIterator[tuple[RuntimeHost, list[OutputLine]]]:
    """A host without an engine, for functions that are not durable, and what they print."""
    lines: list[OutputLine] = []
    host = RuntimeHost(runtimes, token=str, log=lines.extend, limits=PoolLimits(**limits))
    try:
        yield host, lines
    finally:
        await host.close()


class Service:
    """What a test asks of an open engine."""

    def __init__(self, engine: Engine, host: RuntimeHost, lines: list[OutputLine]) -> None:
        self.engine = engine
        self.host = host
        self.lines = lines
        self.loop = asyncio.get_running_loop()

    async def start(self, function: str, payload: str = "null", name: str | None = None) -> str:
        """Start an execution; answers its id."""
        return (await self.engine.start(function, payload, name=name)).id

    async def ending(self, execution: str) -> tuple[str, str | None]:
        """Wait for its end: its status and its payload."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            header, payload = await self.engine.ending(execution)
        return header.status.value, payload

    def history(self, execution: str) -> list[dict[str, Any]]:
        """Its events."""
        header = self.engine.store.find(execution)
        assert header is not None
        return wire_history(self.engine.store, header)


@contextlib.asynccontextmanager
async def serving(
    *runtimes: Runtime,
    where: str | Path = ":memory:",
    clock: Clock | None = None,
    slots: int = 8,
    terms: Terms = TERMS,
    **limits: Any,
) -> AsyncIterator[Service]:
    """An engine whose functions run in processes."""
    clock = clock or SystemClock()
    runner = id_at(clock.now())
    store = open_store(str(where), runner)
    lines: list[OutputLine] = []
    host = RuntimeHost(runtimes, token=store.seal.token, log=lines.extend, limits=PoolLimits(**limits))
    room = Capacity(slots)
    known = [Function(name=r.function, version=r.version, terms=terms, capacity=room) for r in runtimes]
    engine = Engine(store, known, host, clock=clock, ids=id_at, chance=random.Random(1), runner=runner)
    await engine.open()
    host.api = make_app(LambdaApi(engine))
    try:
        yield Service(engine, host, lines)
    finally:
        await engine.close()
        await host.close()
        store.close()


async def until(fact: Callable[[], Any], what: str, seconds: float = PATIENCE_SECONDS) -> Any:
    """Wait for a fact that has no event of its own."""
    never = asyncio.Event()
    try:
        async with asyncio.timeout(seconds):
            while not (found := fact()):
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(never.wait(), 0.01)
            return found
    except TimeoutError:
        raise AssertionError(f"waited {seconds} s for: {what}") from None


def alive(pids: Sequence[int]) -> list[int]:
    """Which of these processes still live; a zombie does not."""
    return [pid for pid in pids if _state(pid) not in ("", "Z", "X")]


def parent_of(pid: int) -> int:
    """Who started a process."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""

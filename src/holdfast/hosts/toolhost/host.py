"""The tool host: a bounded set of warm processes. A call takes a process of its tool, and gives it back or has it killed.

    take (warm, else a new one) → send the call → answer → give back
                                         └ deadline, crash, cancel → kill the group

What is known of a call: before it was sent nothing can have happened; after that only an answer says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any
from weakref import WeakValueDictionary

from msgspec import Struct

from holdfast.hosts.toolhost.frames import Frame
from holdfast.hosts.toolhost.process import Died, Hosted, Log, ToolProcess
from holdfast.model.clock import monotonic


class HostLimits(Struct, frozen=True, kw_only=True):
    """How many processes, and how much they may answer."""

    processes: int = 32
    tenant_processes: int = 8
    """Of one tenant at once: slow calls of one leave room for the others."""
    warm_processes: int = 8
    """Kept for the next call, of all tools together."""
    idle_seconds: float = 300.0
    max_result_bytes: int = 1024 * 1024


class Asked(Struct, frozen=True, kw_only=True):
    """One call for a process."""

    op: str
    """`call` or `reconcile`."""
    call: Mapping[str, Any]
    """The fields of ToolCall."""
    arguments: Mapping[str, Any]
    secrets: Mapping[str, str]
    deadline: float
    redact: Callable[[str], str] = str


class Answered(Struct, frozen=True):
    """It came back."""

    frame: Frame


class Late(Struct, frozen=True):
    """It was killed at its deadline; `sent` says whether it had begun."""

    sent: bool


class Crashed(Struct, frozen=True):
    """Its process ended; `sent` says whether the call had begun."""

    reason: str
    sent: bool


class Full(Struct, frozen=True):
    """No process was free in time."""


Ended = Answered | Late | Crashed | Full


class ToolHost:
    """Runs tools."""

    def __init__(self, limits: HostLimits | None = None, log: Log | None = None) -> None:
        self._limits = limits or HostLimits()
        self._log = log
        self._idle: list[tuple[float, ToolProcess]] = []
        self._live: set[ToolProcess] = set()
        self._starting = 0
        self._slots = asyncio.Semaphore(self._limits.processes)
        self._shares: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._closed = False

    async def ask(self, hosted: Hosted, asked: Asked) -> Ended:
        """Make one call. Whatever happens, nothing of it runs on after this returns."""
        share = self._shares.setdefault(str(asked.call.get("tenant")), asyncio.Semaphore(self._limits.tenant_processes))
        async with AsyncExitStack() as held:
            try:
                async with asyncio.timeout(max(asked.deadline - monotonic(), 0.0)):
                    await held.enter_async_context(share)
                    await held.enter_async_context(self._slots)
            except TimeoutError:
                return Full()
            return await self._in_a_slot(hosted, asked)

    async def _in_a_slot(self, hosted: Hosted, asked: Asked) -> Ended:
        process: ToolProcess | None = None
        sent = whole = False
        try:
            async with asyncio.timeout(max(asked.deadline - monotonic(), 0.0)):
                process = await self._taken(hosted)
                process.redact = asked.redact
                sent = True
                frame = await process.ask(self._frame(asked))
                whole = True
                return Answered(frame)
        except TimeoutError:
            return Late(sent)
        except Died as died:
            return Crashed(str(died), sent)
        finally:
            if process is not None:
                await asyncio.shield(self._returned(process, whole))

    def _frame(self, asked: Asked) -> Frame:
        seconds = max(asked.deadline - monotonic(), 0.0)
        return {
            "op": asked.op,
            "call": dict(asked.call),
            "arguments": dict(asked.arguments),
            "secrets": dict(asked.secrets),
            "seconds": seconds,
        }

    async def _taken(self, hosted: Hosted) -> ToolProcess:
        await self._tend()
        for at in range(len(self._idle) - 1, -1, -1):
            if self._idle[at][1].hosted == hosted:
                process = self._idle.pop(at)[1]
                if process.alive:
                    return process
                await self._end(process)
                return await self._taken(hosted)
        self._starting += 1
        try:
            if self._idle and len(self._live) + self._starting > self._limits.processes:
                await self._end(self._idle.pop(0)[1])
            process = await ToolProcess.start(hosted, max_result_bytes=self._limits.max_result_bytes, log=self._log)
        finally:
            self._starting -= 1
        self._live.add(process)
        return process

    async def _returned(self, process: ToolProcess, whole: bool) -> None:
        if whole and process.alive and not self._closed:
            self._idle.append((monotonic(), process))
            if len(self._idle) > self._limits.warm_processes:
                await self._end(self._idle.pop(0)[1])
        else:
            await self._end(process)

    async def _tend(self) -> None:
        """End what nobody has asked for a while."""
        oldest = monotonic() - self._limits.idle_seconds
        stale = [process for since, process in self._idle if since < oldest]
        self._idle = [(since, process) for since, process in self._idle if since >= oldest]
        for process in stale:
            await self._end(process)

    async def _end(self, process: ToolProcess) -> None:
        self._live.discard(process)
        await process.kill()

    @property
    def pids(self) -> list[int]:
        """The processes that live."""
        return [process.pid for process in self._live]

    async def close(self) -> None:
        """End all of them."""
        self._closed = True
        self._idle.clear()
        for process in list(self._live):
            await self._end(process)

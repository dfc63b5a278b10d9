"""ToolHost: a limited number of warm processes. A call takes a process of its tool. After an answer the process is kept for later calls; if
too many processes are kept, the one that has been idle longest is killed. A process that gave no answer is killed. A process that has been
idle for `idle_seconds` is killed when the next call, of any tool, takes a process.

    take (warm, else a new one) → send the call → answer → give back
                                         └ deadline, crash, cancel → kill the group

A call has certainly not happened if it was not sent, or if its process died before it had received the whole call. Any other call that was
sent may have happened, unless its answer says otherwise.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any
from weakref import WeakValueDictionary

from msgspec import Struct

from holdfast.hosts.toolhost.tool_frames import FrameBroken, ToolFrame
from holdfast.hosts.toolhost.tool_process import HostedTool, ToolLog, ToolProcess, ToolProcessDied
from holdfast.model.clock import monotonic


class HostLimits(Struct, frozen=True, kw_only=True):
    """The limits of the processes and of their answers."""

    processes: int = 32
    tenant_processes: int = 8
    """One tenant may use at most this many processes at one time, so that its slow calls leave processes for other tenants."""
    warm_processes: int = 8
    """At most this many idle processes are kept for later calls, of all tools together."""
    idle_seconds: float = 300.0
    max_result_bytes: int = 1024 * 1024


class ToolRequest(Struct, frozen=True, kw_only=True):
    """A request to a tool's process: to make one call of the tool, or to ask the tool's reconcile function about a lost call."""

    op: str
    """`call` or `reconcile`."""
    call: Mapping[str, Any]
    """The fields of the ToolCall object that the tool gets, by name."""
    arguments: Mapping[str, Any]
    secrets: Mapping[str, str]
    deadline: float
    redact: Callable[[str], str] = str


class CallAnswered(Struct, frozen=True):
    """The process answered the call."""

    frame: ToolFrame


class CallLate(Struct, frozen=True):
    """The deadline passed before an answer. If the call had a process, it was killed. If `sent` is False, the process certainly did not
    begin the call."""

    sent: bool


class CallCrashed(Struct, frozen=True):
    """The process ended without an answer, sent bytes that are not a frame, or could not import the tool's file. `sent` says whether the
    process may have begun the call."""

    reason: str
    sent: bool


class CallNotSent(Struct, frozen=True):
    """The call was sent to no process. `passing` is True if no process can be started now, so that a later try may succeed; False if the
    call is too large to send."""

    reason: str
    passing: bool


class NoProcessFree(Struct, frozen=True):
    """No process was free before the call's deadline."""


CallEnd = CallAnswered | CallLate | CallCrashed | CallNotSent | NoProcessFree


class _NotStarted(Exception):
    """The system could not start a process."""


class ToolHost:
    """Makes calls of tools in a limited number of processes."""

    def __init__(self, limits: HostLimits | None = None, log: ToolLog | None = None) -> None:
        self._limits = limits or HostLimits()
        self._log = log
        self._idle: list[tuple[float, ToolProcess]] = []
        self._live: set[ToolProcess] = set()
        self._starting = 0
        self._free = asyncio.Semaphore(self._limits.processes)
        self._shares: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._closed = False

    async def ask(self, hosted: HostedTool, asked: ToolRequest) -> CallEnd:
        """Make one call, and return how it ended. If it was sent and ended without an answer, its process is dead when this returns."""
        share = self._shares.setdefault(str(asked.call.get("tenant")), asyncio.Semaphore(self._limits.tenant_processes))
        async with AsyncExitStack() as held:
            try:
                async with asyncio.timeout(max(asked.deadline - monotonic(), 0.0)):
                    await held.enter_async_context(share)
                    await held.enter_async_context(self._free)
            except TimeoutError:
                return NoProcessFree()
            return await self._called(hosted, asked)

    async def _called(self, hosted: HostedTool, asked: ToolRequest) -> CallEnd:
        process: ToolProcess | None = None
        sent = whole = False
        try:
            async with asyncio.timeout(max(asked.deadline - monotonic(), 0.0)):
                while True:
                    process, is_warm = await self._taken(hosted)
                    process.redact, sent = asked.redact, True
                    try:
                        frame = await process.ask(self._frame(asked))
                    except ToolProcessDied as died:
                        sent = died.begun
                        if sent or not is_warm:
                            raise
                        await self._end(process)  # an idle process that died before it had the call: the next one gets it
                        process = None
                    else:
                        whole = True
                        return CallAnswered(frame)
        except TimeoutError:
            return CallLate(sent)
        except ToolProcessDied as died:
            return CallCrashed(str(died), sent)
        except FrameBroken as large:
            whole = True
            return CallNotSent(str(large), passing=False)
        except _NotStarted as error:
            return CallNotSent(f"its process cannot be started: {error}", passing=True)
        finally:
            if process is not None:
                await asyncio.shield(self._returned(process, whole))

    def _frame(self, asked: ToolRequest) -> ToolFrame:
        seconds = max(asked.deadline - monotonic(), 0.0)
        return {
            "op": asked.op,
            "call": dict(asked.call),
            "arguments": dict(asked.arguments),
            "secrets": dict(asked.secrets),
            "seconds": seconds,
        }

    async def _taken(self, hosted: HostedTool) -> tuple[ToolProcess, bool]:
        """A process for a call of this tool; and True if it is a warm process, False if it was started now because there is no warm one."""
        await self._end_stale()
        for at in range(len(self._idle) - 1, -1, -1):
            if self._idle[at][1].hosted == hosted:
                process = self._idle.pop(at)[1]
                if process.alive:
                    return process, True
                await self._end(process)
                return await self._taken(hosted)
        if self._closed:
            raise _NotStarted("the tool host is closed")
        self._starting += 1
        try:
            if self._idle and len(self._live) + self._starting > self._limits.processes:
                await self._end(self._idle.pop(0)[1])
            process = await ToolProcess.start(hosted, max_result_bytes=self._limits.max_result_bytes, log=self._log)
        except OSError as error:
            raise _NotStarted(f"{error.strerror or error}") from None
        finally:
            self._starting -= 1
        self._live.add(process)
        return process, False

    async def _returned(self, process: ToolProcess, whole: bool) -> None:
        if whole and process.alive and not self._closed:
            self._idle.append((monotonic(), process))
            if len(self._idle) > self._limits.warm_processes:
                await self._end(self._idle.pop(0)[1])
        else:
            await self._end(process)

    async def _end_stale(self) -> None:
        """End the processes that have been idle for longer than `idle_seconds`. Called when a call takes a process."""
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
        """The pids of the processes that this host started and did not kill. One of them may have died by itself."""
        return [process.pid for process in self._live]

    async def close(self) -> None:
        """Kill all processes, also those that are at work on a call: such a call ends without an answer."""
        self._closed = True
        self._idle.clear()
        for process in list(self._live):
            await self._end(process)

"""All bodies of one server together: each keeps its own limits, and many of them could still take the whole machine.

The keepers tell what their bodies have. When the sum is above the cap, spares go first; then the largest body of the worker that has the
most, so that a worker of many small bodies does not have its neighbours ended. A new body waits until there is room for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import deque
from pathlib import Path
from typing import Final, Protocol

from holdfast.contract.refusals import Overloaded
from holdfast.hosts.sandbox.description import Code
from holdfast.hosts.sandbox.inside.means import cgroup_v2
from holdfast.hosts.sandbox.inside.plan import PERIOD_MS
from holdfast.model.clock import monotonic

DEFAULT_PROCESSES: Final = 512
_NEW_KB: Final = 16 * 1024
"""A body counts as so much until its keeper has looked at it."""
_LIMITS: Final = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


class Member(Protocol):
    """A body, as far as it is counted here."""

    def stop(self, code: Code, detail: str) -> None: ...


class _Part:
    """What one body has of the whole."""

    def __init__(self, worker: object) -> None:
        self.worker = worker
        self.kilobytes = _NEW_KB
        self.processes = 1
        self.spare = True
        self.leaving = False


class Together:
    """One for all sandboxes of a server; everything happens on its loop."""

    def __init__(self, memory_mb: int | None = None, processes: int = DEFAULT_PROCESSES) -> None:
        self.memory_mb = machine_memory_mb() // 2 if memory_mb is None else memory_mb
        self.processes = processes
        self._parts: dict[Member, _Part] = {}
        self._waiting: deque[asyncio.Future[None]] = deque()

    def told(self) -> str:
        """How limits are kept here, for the operator."""
        cgroup = "cgroup v2 is here and not used" if cgroup_v2() else "there is no cgroup v2"
        caps = f"all bodies together may have {self.memory_mb:,} MB and {self.processes:,} processes"
        return f"{caps}; limits are watched every {PERIOD_MS} ms ({cgroup})"

    # --- who is there

    def joins(self, member: Member, worker: object) -> None:
        """A body is made; it is a spare until it begins."""
        self._parts[member] = _Part(worker)
        self._admit()

    def begins(self, member: Member) -> None:
        """A spare is a spare no more."""
        if member in self._parts:
            self._parts[member].spare = False

    def leaves(self, member: Member) -> None:
        """Nothing of a body is left."""
        if self._parts.pop(member, None) is not None:
            self._admit()

    def uses(self, member: Member, kilobytes: int, processes: int) -> None:
        """What a body has now; this may be too much for all."""
        part = self._parts.get(member)
        if part is None:
            return
        part.kilobytes, part.processes = kilobytes, processes
        while (kilobytes := self._kilobytes()) > self.memory_mb * 1024:
            told = f"all bodies of this server together have {kilobytes // 1024} MB of memory; allowed are {self.memory_mb}"
            if not self._end_one("memory_exceeded", f"{told} (policy.bodies_memory_mb), and this one has the most"):
                break
        while (count := self._processes()) > self.processes:
            told = f"all bodies of this server together have {count} processes; allowed are {self.processes}"
            if not self._end_one("process_limit", f"{told} (policy.bodies_processes), and this one has the most"):
                break
        self._admit()

    # --- room for another

    def has_room(self) -> bool:
        """Whether one more body may be made. The only one always may: a cap below its size is met by ending it."""
        return self._processes() == 0 or (self._kilobytes() + _NEW_KB <= self.memory_mb * 1024 and self._processes() < self.processes)

    async def room(self, seconds: float) -> None:
        """Wait until there is room, in order. Spares are ended to make room; Overloaded when no other body makes room in time."""
        until = monotonic() + seconds
        if not self._waiting and self._made_room():
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        self._admit()
        try:
            await asyncio.wait_for(turn, max(0.0, until - monotonic()))
        except TimeoutError:  # its turn is cancelled, and passed over
            told = f"{self._kilobytes() // 1024} of {self.memory_mb} MB and {self._processes()} of {self.processes} processes are taken"
            raise Overloaded(f"All bodies of this server together left no room for another within {seconds:g} s: {told}.") from None
        except asyncio.CancelledError:  # it may have been let in just now: then it is the next one's turn
            turn.cancel()
            self._admit()
            raise

    def _made_room(self) -> bool:
        while not self.has_room():
            spare = next((member for member, part in self._parts.items() if part.spare and not part.leaving), None)
            if spare is None:
                return False
            self._end(spare, "cancelled", "a spare made room for another body")
        return True

    def _admit(self) -> None:
        """Admit one waiter at a time: the waiter's body counts only when it is made, and the next waiter is admitted after that."""
        while self._waiting and self._waiting[0].done():
            del self._waiting[0]
        if self._waiting and self._made_room():
            turn = self._waiting.popleft()
            turn.set_result(None)

    # --- the sum, and who has to go

    def _kilobytes(self) -> int:
        return sum(part.kilobytes for part in self._parts.values() if not part.leaving)

    def _processes(self) -> int:
        return sum(part.processes for part in self._parts.values() if not part.leaving)

    def _end_one(self, code: Code, detail: str) -> bool:
        """End a spare, else the largest body of the worker that has the most. False when no body is left to end."""
        staying = [(member, part) for member, part in self._parts.items() if not part.leaving]
        spares = [member for member, part in staying if part.spare]
        if not staying:
            return False
        if spares and len(spares) < len(staying):
            self._end(spares[0], "cancelled", "a spare made room for bodies at work")
            return True
        by_worker: dict[object, int] = {}
        for _, part in staying:
            by_worker[part.worker] = by_worker.get(part.worker, 0) + _size(part, code)
        worker = max(by_worker, key=lambda each: by_worker[each])
        member = max((pair for pair in staying if pair[1].worker is worker), key=lambda pair: _size(pair[1], code))[0]
        self._end(member, code, detail)
        return True

    def _end(self, member: Member, code: Code, detail: str) -> None:
        self._parts[member].leaving = True
        member.stop(code, detail)


def _size(part: _Part, code: Code) -> int:
    return part.kilobytes if code == "memory_exceeded" else part.processes


def machine_memory_mb() -> int:
    """What this machine has, or the container it is in."""
    found = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for path in _LIMITS:
        with contextlib.suppress(OSError, ValueError):
            found = min(found, int(Path(path).read_bytes()))
    return found // (1 << 20)

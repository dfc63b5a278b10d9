"""Limits for all bodies of one server together: each body keeps its own limits, but many bodies could still use up the machine.

The keepers report the usage of their bodies. When the sum is above the limit, spares are ended first, then the largest body of the worker
that uses the most. So a worker with many small bodies does not cause the end of another worker's attempts. A new body waits until there is
capacity for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import deque
from pathlib import Path
from typing import Final, Protocol
from weakref import WeakValueDictionary

from holdfast.contract.refusals import Overloaded
from holdfast.hosts.cpu_shares import CpuShares
from holdfast.hosts.sandbox.inside.jail_plan import NICE, NICE_OF_BUSY, PERIOD_MS
from holdfast.hosts.sandbox.inside.kernel_features import cgroup_v2
from holdfast.hosts.sandbox.jail import EndCode
from holdfast.model.clock import monotonic

DEFAULT_PROCESSES: Final = 512
_NEW_KB: Final = 16 * 1024
"""A new body is counted with this much memory until its keeper has measured it."""
_LIMITS: Final = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


_LOOK_SECONDS: Final = 0.25
"""An attempt that waits for its turn checks at least this often whether it may start, because the other tenants may have become idle."""


class LimitedBody(Protocol):
    """A body that these limits may end."""

    def stop(self, code: EndCode, detail: str) -> None: ...


class _Part:
    """The memory and the processes that one body uses now, and whether it is a spare or is being ended."""

    def __init__(self, worker: object, spare: bool) -> None:
        self.worker = worker
        self.kilobytes = _NEW_KB
        self.processes = 1
        self.spare = spare
        self.leaving = False


class ServerLimits:
    """The limits that all sandboxes of a server share. All methods run on the server's event loop. If `memory_mb` is None, all bodies
    together may have half of the machine's memory."""

    def __init__(self, memory_mb: int | None = None, processes: int = DEFAULT_PROCESSES, shares: CpuShares | None = None) -> None:
        self.memory_mb = machine_memory_mb() // 2 if memory_mb is None else memory_mb
        self.processes = processes
        self.shares = shares or CpuShares()
        self._parts: dict[LimitedBody, _Part] = {}
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def described(self) -> str:
        """The limits and how they are enforced, as a line of text for the operator."""
        cgroup = "cgroup v2 is here and not used" if cgroup_v2() else "there is no cgroup v2"
        caps = f"all bodies together may have {self.memory_mb:,} MB and {self.processes:,} processes"
        return f"{caps}; limits are watched every {PERIOD_MS} ms ({cgroup})"

    # --- the bodies

    def add_body(self, member: LimitedBody, worker: object, *, spare: bool = True) -> None:
        """Count a new body. `worker` is its sandbox: the usage of bodies with the same `worker` is added up. With `spare`, the body may be
        ended to make room for another body, until its attempt begins (`body_began`). A body that was made for an attempt is not ended to
        make room."""
        self._parts[member] = _Part(worker, spare)
        self._admit()

    def body_began(self, member: LimitedBody) -> None:
        """Note that a spare begins its attempt, so that it is no spare any more."""
        if member in self._parts:
            self._parts[member].spare = False

    def remove_body(self, member: LimitedBody) -> None:
        """Remove a body from the count, because no process of it is left."""
        if self._parts.pop(member, None) is not None:
            self._admit()

    def body_uses(self, member: LimitedBody, kilobytes: int, processes: int) -> None:
        """Note the memory and the number of processes of a body. If all bodies together are above a limit, end bodies until they are
        not."""
        part = self._parts.get(member)
        if part is None:
            return
        part.kilobytes, part.processes = kilobytes, processes
        while (kilobytes := self._kilobytes()) > self.memory_mb * 1024:
            told = f"all bodies of this server together have {kilobytes // 1024} MB of memory; at most {self.memory_mb} MB are allowed"
            if not self._end_one("memory_exceeded", f"{told} (policy.bodies_memory_mb), and the worker of this body uses the most"):
                break
        while (count := self._processes()) > self.processes:
            told = f"all bodies of this server together have {count} processes; at most {self.processes} are allowed"
            if not self._end_one("process_limit", f"{told} (policy.bodies_processes), and the worker of this body has the most"):
                break
        self._admit()

    def body_used(self, member: LimitedBody, tenant: str, charged: float, cpu_seconds: float) -> None:
        """Charge the tenant of a body that has ended with the CPU seconds that the body used, minus `charged`: the CPU seconds that the
        tenant was charged for this body until now."""
        part = self._parts.get(member)
        if part is not None:
            self.shares.end(tenant, part.worker, charged, cpu_seconds, monotonic())

    def nice(self, tenant: str) -> int:
        """The nice value that a new body of this tenant gets: a higher one if the tenant is greedy (`CpuShares.greedy`)."""
        return NICE_OF_BUSY if self.shares.greedy(tenant, monotonic()) else NICE

    # --- capacity for another body

    async def turn(self, tenant: str, seconds: float) -> None:
        """Wait while this tenant has used more than its share of the CPU. Raises Overloaded if that takes longer than `seconds`.

        The attempts of one tenant get their turns in the order in which they arrived; tenants do not wait for each other. The caller makes
        its body right after this returns. Making the body charges the tenant for it, so that the tenant's next attempt sees the charge.
        """
        if tenant not in self._turns and self.shares.rest(tenant, monotonic()) <= 0:
            return
        turns = self._turns.setdefault(tenant, asyncio.Lock())
        try:
            async with asyncio.timeout(seconds), turns:
                rest = self.shares.rest(tenant, monotonic())
                while rest > 0:
                    await asyncio.sleep(min(rest, _LOOK_SECONDS))
                    rest = self.shares.rest(tenant, monotonic())
        except TimeoutError:
            told = "used more than its share of the CPU while others needed it"
            raise Overloaded(f"This tenant {told}, so no body could start within {seconds:g} s. Try again later.") from None

    def has_room(self) -> bool:
        """Whether one more body may be made now. While there are no bodies, always: if the new body alone goes above a limit, it is ended
        then."""
        return self._processes() == 0 or (self._kilobytes() + _NEW_KB <= self.memory_mb * 1024 and self._processes() < self.processes)

    async def room(self, seconds: float) -> None:
        """Wait until there is capacity for one more body. Callers are admitted in the order in which they began to wait. Spares are ended
        to free capacity. Raises Overloaded if there is no capacity within `seconds`."""
        until = monotonic() + seconds
        if not self._waiting and self._made_room():
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        self._admit()
        try:
            await asyncio.wait_for(turn, max(0.0, until - monotonic()))
        except TimeoutError:  # the waiter's place in the queue is cancelled, and will be skipped
            told = f"{self._kilobytes() // 1024} of {self.memory_mb} MB and {self._processes()} of {self.processes} processes are taken"
            raise Overloaded(f"All bodies of this server together left no room for another within {seconds:g} s: {told}.") from None
        except asyncio.CancelledError:  # this waiter may have been admitted just now: then admit the next one
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
        """Admit the first waiter of the queue, if there is capacity for its body. Only one is admitted, because its body is counted only
        when it is made; `add_body` then admits the next waiter."""
        while self._waiting and self._waiting[0].done():
            del self._waiting[0]
        if self._waiting and self._made_room():
            turn = self._waiting.popleft()
            turn.set_result(None)

    # --- the sum, and which body is ended

    def _kilobytes(self) -> int:
        return sum(part.kilobytes for part in self._parts.values() if not part.leaving)

    def _processes(self) -> int:
        return sum(part.processes for part in self._parts.values() if not part.leaving)

    def _end_one(self, code: EndCode, detail: str) -> bool:
        """End one body. If there are spares and also bodies at work, end a spare. If all bodies are spares, or no body is a spare, end the
        largest body of the worker that uses the most. Size means memory if `code` is `memory_exceeded`, else the number of processes.
        Returns False if there is no body to end."""
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

    def _end(self, member: LimitedBody, code: EndCode, detail: str) -> None:
        self._parts[member].leaving = True
        member.stop(code, detail)


def _size(part: _Part, code: EndCode) -> int:
    return part.kilobytes if code == "memory_exceeded" else part.processes


def machine_memory_mb() -> int:
    """The memory of this machine, or of the container in which this process runs, in megabytes."""
    found = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for path in _LIMITS:
        with contextlib.suppress(OSError, ValueError):
            found = min(found, int(Path(path).read_bytes()))
    return found // (1 << 20)

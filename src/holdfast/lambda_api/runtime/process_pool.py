"""The pool of warm processes, by function version: which process gets the next job, when a process is started, and which
process is ended."""

from __future__ import annotations

import asyncio
import functools
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator

from holdfast.lambda_api.runtime.jobs import Job
from holdfast.lambda_api.runtime.runtime_description import Runtime
from holdfast.lambda_api.runtime.runtime_process import ProcessSetup, RuntimeProcess, Stage
from holdfast.model.clock import monotonic
from holdfast.model.errors import EngineClosed
from holdfast.model.operations import Failure

_COMING = (Stage.STARTING, Stage.RETURNING)
_LAST_TURNS = 4
"""How many turns of the event loop `close` waits at its end, so that connections that came late are closed."""


class VersionProcesses:
    """The processes of one function version, and the jobs that wait for them."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.processes: set[RuntimeProcess] = set()
        self.idle: list[RuntimeProcess] = []
        """Idle processes. The process that became idle last is the last in the list and gets the next job. So the others stay idle until
        they are ended."""
        self.waiting: deque[Job] = deque()
        self.retired = False
        """True after the version was dropped or its code was replaced. Then the version gets no new jobs, and its processes end when no job
        waits for them."""

    def free(self) -> RuntimeProcess | None:
        """Take the process that became idle last from the list; None if no process is idle. A process that has just died may still be in
        the list; it is removed and not returned."""
        while self.idle:
            process = self.idle.pop()
            if process.stage is Stage.IDLE:
                return process
        return None

    def working(self) -> int:
        """How many processes count against the limits: all but those that wait for a function that they invoked."""
        return sum(not process.invoking for process in self.processes)

    def coming(self) -> int:
        """How many processes will ask for a job soon, because they are starting or have just answered a job."""
        return sum(process.stage in _COMING for process in self.processes)


class Pool:
    """All processes of a host. `name` makes a name for each new process."""

    def __init__(self, around: ProcessSetup, name: Callable[[], str]) -> None:
        self._around = around
        self._limits = around.limits
        self._name = name
        self._groups: dict[tuple[str, str], VersionProcesses] = {}
        self._retired: set[VersionProcesses] = set()
        self._count = 0
        """The number of all processes, including those that wait for another function or are being killed."""
        self._empty: asyncio.Event | None = None
        self._sweeper: asyncio.TimerHandle | None = None
        self._closed = False

    # --- functions

    def put(self, runtime: Runtime) -> None:
        """Host a function version. Processes of an earlier runtime with the same name and version still do the jobs that they have and that
        wait for them, and then end."""
        self.drop(runtime.function, runtime.version)
        self._groups[runtime.function, runtime.version] = VersionProcesses(runtime)

    def drop(self, function: str, version: str) -> None:
        """Stop hosting a function version. Jobs that run or wait are still done."""
        group = self._groups.pop((function, version), None)
        if group is None:
            return
        group.retired = True
        if group.processes or group.waiting:
            self._retired.add(group)
        for process in list(group.idle):
            self._end(group, process)

    def runtime(self, function: str, version: str) -> Runtime | None:
        """The runtime that is hosted under this name and version; None if there is none."""
        group = self._groups.get((function, version))
        return None if group is None else group.runtime

    def folders(self) -> set[str]:
        """The folders of the code of all hosted versions, and of older versions that still have processes or jobs."""
        return {group.runtime.folder for group in self._all()}

    # --- jobs

    @property
    def waiting(self) -> int:
        """How many jobs wait for a process."""
        return sum(len(group.waiting) for group in self._all())

    def is_idle(self) -> bool:
        """Whether no job waits or runs."""
        return not any(group.waiting or any(process.job for process in group.processes) for group in self._all())

    def submit(self, runtime: Runtime, job: Job) -> None:
        """Queue a job; a process takes it as soon as one is free."""
        group = self._groups[runtime.function, runtime.version]
        group.waiting.append(job)
        self._serve(group)

    def cancel(self, job: Job) -> None:
        """Cancel a job: it no longer waits, or the process that runs it is killed. The job gets no result."""
        for group in self._all():
            if job in group.waiting:
                group.waiting.remove(job)
            for process in group.processes:
                if process.job is job:
                    process.abandon()
            self._forget(group)

    def _forget(self, group: VersionProcesses) -> None:
        if group.retired and not group.processes and not group.waiting:
            self._retired.discard(group)

    def _serve(self, group: VersionProcesses) -> None:
        while group.waiting and (process := group.free()) is not None:
            job = group.waiting.popleft()
            try:
                payload = job.payload()
            except Exception as error:
                group.idle.append(process)
                job.finished(error)
                continue
            process.take(job, payload)
        missing = len(group.waiting) - group.coming()
        while missing > 0 and not self._closed and self._room(group):
            ready, gone = functools.partial(self._ready, group), functools.partial(self._gone, group)
            group.processes.add(RuntimeProcess(group.runtime, self._name(), self._around, ready, gone))
            self._count += 1
            missing -= 1

    def _room(self, group: VersionProcesses) -> bool:
        if group.working() >= self._limits.per_function:
            return False
        if self._working() < self._limits.processes:
            return True
        if not _dying(self._all_processes()):
            self._evict()
        return False  # when a process ends, the pool tries again

    def _working(self) -> int:
        return sum(group.working() for group in self._all())

    def may_invoke(self, process: RuntimeProcess) -> bool:
        """Whether a process may invoke another function and wait for it. True if it already waits for another function. Else False if too
        many other processes wait for functions."""
        return bool(process.invoking) or sum(bool(other.invoking) for other in self._all_processes()) < self._limits.nested

    def _evict(self) -> None:
        """End the process that has been idle the longest, of all versions; nothing happens if none is idle."""
        idle = [(process.idle_since, group, process) for group in self._all() for process in group.idle]
        if idle:
            _, group, process = min(idle, key=lambda found: found[0])
            self._end(group, process)

    def _end(self, group: VersionProcesses, process: RuntimeProcess) -> None:
        if process in group.idle:
            group.idle.remove(process)
        process.kill()

    # --- events of processes

    def _ready(self, group: VersionProcesses, process: RuntimeProcess) -> None:
        """Called when a process asks for a job. The process gets a job, becomes idle, or is ended."""
        over = process.served >= self._limits.invocations or self._closed or (group.retired and not group.waiting)
        if over or self._is_above(group) or self._starves_another(group):
            asyncio.get_running_loop().call_soon(process.kill)  # not now: the process's request for a job must be read first
            return
        group.idle.append(process)
        self._serve(group)
        if group.idle:
            self._serve_others()  # an idle process may be ended for other versions
            self._expect_old_age()

    def _gone(self, group: VersionProcesses, process: RuntimeProcess, failure: Failure | None) -> None:
        """Called when a process has ended. `failure` says why the process ended before it asked for its first job: one waiting job, if
        there is one, fails with it. If `failure` is None, no job fails here."""
        group.processes.discard(process)
        self._count -= 1
        if process in group.idle:
            group.idle.remove(process)
        if failure is not None and group.waiting:
            group.waiting.popleft().failed(failure, process.tail)
        self._forget(group)
        if self._closed:
            if self._empty is not None and not any(found.processes for found in self._all()):
                self._empty.set()
            return
        self._serve_others()

    def _is_above(self, group: VersionProcesses) -> bool:
        """Whether this version has more processes than `per_function`, or the whole pool has more than `processes`. Processes that are
        being killed, or that wait for another function, are not counted."""
        if len(group.processes) <= self._limits.per_function and self._count <= self._limits.processes:
            return False
        staying = {found: sum(_stays(process) for process in found.processes) for found in self._all()}
        return staying[group] > self._limits.per_function or sum(staying.values()) > self._limits.processes

    def _serve_others(self) -> None:
        """Serve all versions whose jobs wait; the version whose first job has waited longest is served first."""
        for group in sorted((found for found in self._all() if found.waiting), key=lambda found: found.waiting[0].since):
            self._serve(group)

    def _starves_another(self, group: VersionProcesses) -> bool:
        """Whether a process of this version must end for another version: the pool is full, no process is being killed, and a job of
        another version, which has no process at all, has waited longer than the jobs of this version."""
        if self._count < self._limits.processes or self._working() < self._limits.processes or _dying(self._all_processes()):
            return False
        since = group.waiting[0].since if group.waiting else math.inf
        return any(other.waiting and not other.processes and other.waiting[0].since < since for other in self._all())

    def _all_processes(self) -> list[RuntimeProcess]:
        return [process for group in self._all() for process in group.processes]

    def _expect_old_age(self) -> None:
        if self._sweeper is None:
            self._sweeper = asyncio.get_running_loop().call_later(self._limits.idle_seconds, self._sweep)

    def _sweep(self) -> None:
        """End the processes that were idle for `idle_seconds`."""
        self._sweeper = None
        now = monotonic()
        for group in self._all():
            for process in [found for found in group.idle if now - found.idle_since >= self._limits.idle_seconds]:
                self._end(group, process)
        ages = [now - process.idle_since for group in self._all() for process in group.idle]
        if ages:
            left = self._limits.idle_seconds - max(ages)
            self._sweeper = asyncio.get_running_loop().call_later(max(left, 0), self._sweep)

    # --- the end

    async def close(self) -> None:
        """Kill all processes, and end all jobs that wait or run with EngineClosed. When this returns, no process is left, except a daemon
        whose guard another process has killed."""
        self._closed = True
        if self._sweeper is not None:
            self._sweeper.cancel()
        self._empty = asyncio.Event()
        processes = self._all_processes()
        left = [job for group in self._all() for job in group.waiting] + [process.job for process in processes if process.job is not None]
        for group in self._all():
            group.waiting.clear()
        for process in processes:
            process.abandon()
        for job in left:
            job.finished(EngineClosed())
        if processes:
            try:
                async with asyncio.timeout(2 * self._limits.kill_seconds):
                    await self._empty.wait()
            except TimeoutError:
                for process in processes:
                    process.close_now()
            for _ in range(_LAST_TURNS):
                await asyncio.sleep(0)

    def _all(self) -> Iterator[VersionProcesses]:
        yield from list(self._groups.values())
        yield from list(self._retired)


def _stays(process: RuntimeProcess) -> bool:
    return not process.invoking and process.stage is not Stage.DYING


def _dying(processes: Iterable[RuntimeProcess]) -> bool:
    return any(process.stage is Stage.DYING for process in processes)

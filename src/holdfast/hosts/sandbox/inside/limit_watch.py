"""LimitWatch: measures the usage of a body from outside, and finds the limit that it passes."""

from __future__ import annotations

import contextlib
import itertools
import os
import stat
from collections.abc import Iterator
from typing import Final, NamedTuple

from holdfast.hosts import processes
from holdfast.hosts.sandbox.inside import kernel, kernel_limits
from holdfast.hosts.sandbox.inside.jail_plan import BUSY_SECONDS, NICE_OF_BUSY, TASKS, JailPlan
from holdfast.hosts.sandbox.inside.kernel_memory import MOST_LOCKS, KernelMemory

_MB: Final = 1 << 20
_BLOCK: Final = 512
_FILES_PER_MB: Final = 256
_REWRITES: Final = 8
"""A body with a scratch on disk may write this many times the size of its scratch in all. This limits files whose descriptors are in flight
between sockets, because no other count sees such files."""


class Breach(NamedTuple):
    """A limit that was passed."""

    code: str
    detail: str


class LimitWatch:
    """Watches one body, from the keeper: the trusted process that starts the body. `scratch`, the place for the files of the body, is a
    descriptor of its own tmpfs, or the path of a folder on a shared disk. With `whole_tree`, all descendants of the keeper are measured,
    because orphans of the body become children of the keeper. `own_network`: the body has a network namespace of its own."""

    def __init__(self, body: int, plan: JailPlan, scratch: int | str, whole_tree: bool, own_network: bool) -> None:
        self._body = body
        self._plan = plan
        self._cpu_seconds = plan.cpu_seconds
        self._scratch = scratch
        self._orphans_come_here = whole_tree
        self._busy = False
        self.memory_mb = plan.memory_mb
        """The memory limit that holds now: the jail's, or the tighter one of the attempt."""
        self.cpu = 0.0
        """The CPU seconds that the body had used at the last check, counted from the start of its process (with the import)."""
        self.cpu_before = 0.0
        """The CPU seconds that the body used before the attempt began: for its start, and in a spare for its import."""
        self.kilobytes = 0
        """The body's memory at the last check, with the kernel memory of its sockets."""
        self.processes = 1
        self.most_data = 0
        """The most writable kilobytes of the body at any check."""
        self._wrote: int | None = None
        if kernel.LINUX:
            self._kernel = KernelMemory(body, own_network)
            if processes.uses(body) is None:  # our child exists, so this means that processes are hidden (hidepid)
                raise processes.Unreadable("the kernel hides processes from the user who runs the server (mount option hidepid of /proc)")
            self._wrote = _written(body)

    def begin(self, memory_mb: int | None, cpu_seconds: float | None, nice: int) -> None:
        """Note that the attempt begins. CPU seconds that the body used before this call do not count against the limit of the attempt; an
        import after it counts. `memory_mb` and `cpu_seconds` are the limits of the attempt if they are below the jail's; None means the
        jail's limit. `nice` is the body's nice value from now on, if it is higher than before."""
        with contextlib.suppress(processes.Unreadable):  # the next check reports that the usage cannot be read
            if kernel.LINUX:
                self._check_processes()
        self.cpu_before = self.cpu
        if nice > self._plan.nice:
            processes.give_way(self._body, nice)
        self.memory_mb = min(self.memory_mb, memory_mb or self.memory_mb)
        self._cpu_seconds = min(self._cpu_seconds, cpu_seconds or self._cpu_seconds)
        if kernel.LINUX and (self.memory_mb, self._cpu_seconds) != (self._plan.memory_mb, self._plan.cpu_seconds):
            with contextlib.suppress(
                OSError
            ):  # the body is dead; or the kernel keeps the jail's limits, and this watch uses the tighter ones
                kernel_limits.tighten(self._body, self.memory_mb, self.cpu_before + self._cpu_seconds)

    @property
    def cpu_limit(self) -> float:
        """If a body was killed and had used more CPU seconds than this, counted from the start of its process (with the import), the keeper
        assumes that the kernel's CPU limit killed it."""
        return self.cpu_before + self._cpu_seconds

    def check(self) -> Breach | None:
        """The limit that the body passes now; None if it passes none. If the usage of a living body cannot be read, that is a breach too.
        On systems other than Linux only the scratch is checked."""
        if not kernel.LINUX:
            return self._check_scratch()
        try:
            return self._check_processes() or self._check_scratch()
        except processes.Unreadable as unknown:
            return Breach("limits_unreadable", f"what the body uses cannot be read: {unknown}")

    def _check_processes(self) -> Breach | None:
        most = self._plan.most_processes()
        tree = list(itertools.islice(self._tree(), most + 1))  # do not count a fork bomb to its end: each check would cost more
        self.processes = len(tree)
        if len(tree) > most:
            return Breach("process_limit", f"more than {most} processes")
        resident, tasks, data, cpu, seen = 0, 0, 0, 0.0, list[int]()
        for pid in tree:
            found, took = processes.uses(pid), processes.cpu_seconds(pid)
            if found is None or took is None:
                if pid == self._body:  # only this keeper can reap the body, so it is not dead
                    raise processes.Unreadable("the kernel hides the process of the body")
                continue  # a child that has ended
            resident, tasks, data, cpu = resident + found.kilobytes, tasks + found.threads, data + found.data_kilobytes, cpu + took
            seen.append(pid)
        self.cpu, self.most_data = max(self.cpu, cpu), max(self.most_data, data)
        if not self._busy and self.cpu - self.cpu_before > BUSY_SECONDS:
            self._busy = True
            for pid in tree:
                processes.give_way(pid, NICE_OF_BUSY)
        allowed = self.memory_mb * 1024
        in_kernel = self._kernel.of_sockets()
        if resident + in_kernel > allowed and len(seen) > 1:
            # When a process ends, its shared memory is counted for another one, and may be counted twice; but not in two rounds.
            resident = sum(map(processes.share, seen))
            if resident + in_kernel > allowed:
                resident = min(resident, sum(map(processes.share, seen)))
        self.kilobytes = resident + in_kernel
        if tasks > TASKS:
            return Breach("process_limit", f"{tasks} threads; at most {TASKS} are allowed")
        if self.kilobytes > allowed:
            of_it = f" ({in_kernel // 1024} MB of it for its sockets in the kernel)" if in_kernel > resident else ""
            return Breach("memory_exceeded", f"{self.kilobytes // 1024} MB of memory{of_it}; at most {self.memory_mb} MB are allowed")
        if self._kernel.too_many_locks(seen):
            return Breach("memory_exceeded", f"more than {MOST_LOCKS} locks on files, each of which is memory of the kernel")
        if self.cpu - self.cpu_before > self._cpu_seconds:
            return Breach("cpu_exceeded", f"{self.cpu - self.cpu_before:.2f} s of CPU; at most {self._cpu_seconds:g} s are allowed")
        return None

    def _tree(self) -> Iterator[int]:
        """The pids of the body and its descendants; the body alone if it may have no children. If orphans of the body become children of
        the keeper, all descendants of the keeper instead."""
        if not self._plan.allow_children and not self._orphans_come_here:
            yield self._body
            return
        todo = processes.children(os.getpid()) if self._orphans_come_here else [self._body]
        while todo:
            pid = todo.pop()
            yield pid
            todo += processes.children(pid)

    def _check_scratch(self) -> Breach | None:
        allowed = self._plan.scratch_mb
        if isinstance(self._scratch, int):
            left = os.fstatvfs(self._scratch)
            full = left.f_bfree == 0 or left.f_ffree == 0
        else:
            full = self._used(self._scratch) > allowed * _MB
        return Breach("disk_exceeded", f"the scratch of {allowed} MB is full") if full else None

    def _used(self, folder: str) -> int:
        """The larger of two numbers: the bytes that the files of the scratch have on disk, with deleted files that are still open; and an
        eighth of all bytes that the body ever wrote. If there are more files than a scratch of this size may have, or they cannot be
        counted, a number above the size limit."""
        too_much = (self._plan.scratch_mb + 1) * _MB
        total, count, todo = 0, 0, [folder]
        while todo:
            try:
                with os.scandir(todo.pop()) as entries:
                    for entry in entries:
                        count += 1
                        total += entry.stat(follow_symlinks=False).st_blocks * _BLOCK
                        if entry.is_dir(follow_symlinks=False):
                            todo.append(entry.path)
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError:  # too deep for a path
                return too_much
            if count > self._plan.scratch_mb * _FILES_PER_MB + 64:
                return too_much
        return max(total + self._nameless(), self._written() // _REWRITES)

    def _nameless(self) -> int:
        """The bytes on disk of files that the body has open and has deleted. A file counts once, also if the body opened it twice."""
        found = {(one.st_dev, one.st_ino): one for one in processes.open_files(self._body) if stat.S_ISREG(one.st_mode)}
        return sum(one.st_blocks * _BLOCK for one in found.values() if one.st_nlink == 0)

    def _written(self) -> int:
        if self._wrote is None:  # this kernel does not count written bytes, or it is not Linux
            return 0
        found = _written(self._body)
        if found is None:
            left = processes.uses(self._body)
            if left is not None and left.kilobytes:  # a process without memory is ending, and its files in /proc belong to root
                raise processes.Unreadable("the kernel no longer tells how much the body wrote")
            return self._wrote
        self._wrote = found
        return found


def _written(pid: int) -> int | None:
    """The bytes that a process wrote to disk; None if they cannot be read."""
    with contextlib.suppress(OSError, ValueError, KeyError):
        rows = dict(line.split(b": ") for line in processes.read(f"/proc/{pid}/io").split(b"\n") if line)
        return int(rows[b"write_bytes"]) - int(rows[b"cancelled_write_bytes"])
    return None

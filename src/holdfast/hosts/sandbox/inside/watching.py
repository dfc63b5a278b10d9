"""Watching a body from outside: what it uses, and whether that is too much."""

from __future__ import annotations

import contextlib
import itertools
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from holdfast.hosts.sandbox.inside import kernel
from holdfast.hosts.sandbox.inside.plan import TASKS, Plan

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_MB: Final = 1 << 20
_BLOCK: Final = 512
_FILES_PER_MB: Final = 256
_REWRITES: Final = 8
"""How often its whole scratch may be written anew: what is on its way between sockets is seen by no other count."""


class Breach(NamedTuple):
    """A limit that was passed."""

    code: str
    detail: str


class Watch:
    """One body. `scratch` is a descriptor of its own tmpfs, or the path of a folder on a shared disk."""

    def __init__(self, body: int, plan: Plan, scratch: int | str, whole_tree: bool) -> None:
        self._body = body
        self._plan = plan
        self._scratch = scratch
        self._orphans_come_here = whole_tree
        self._cpu = 0.0
        self._cpu_before = 0.0
        if kernel.LINUX:
            _status(body)  # where processes are hidden from us (hidepid), nothing could be watched: say so now

    def begin(self) -> None:
        """The import is over and the attempt begins: it may use as much CPU again."""
        self._look_at_processes()
        self._cpu_before = self._cpu

    @property
    def cpu_before(self) -> float:
        """What was used before the attempt began."""
        return self._cpu_before

    def look(self) -> Breach | None:
        """What is too much now, if anything."""
        if not kernel.LINUX:
            return self._look_at_scratch()
        return self._look_at_processes() or self._look_at_scratch()

    def _look_at_processes(self) -> Breach | None:
        plan = self._plan
        most = plan.most_processes()
        tree = list(itertools.islice(self._tree(), most + 1))  # a bomb is not counted to its end: every look would cost more
        if len(tree) > most:
            return Breach("process_limit", f"more than {most} processes")
        resident, tasks, cpu, seen = 0, 0, 0.0, list[int]()
        for pid in tree:
            with contextlib.suppress(OSError, ValueError, IndexError):
                kilobytes, threads = _status(pid)
                cpu += _cpu_seconds(pid)
                resident, tasks = resident + kilobytes, tasks + threads
                seen.append(pid)
        self._cpu = max(self._cpu, cpu)
        if tasks > TASKS:
            return Breach("process_limit", f"{tasks} threads; allowed are {TASKS}")
        if resident > plan.memory_mb * 1024 and len(seen) > 1:
            resident = sum(map(_share, seen))
        if resident > plan.memory_mb * 1024:
            return Breach("memory_exceeded", f"{resident // 1024} MB of memory; allowed are {plan.memory_mb}")
        if self._cpu - self._cpu_before > plan.cpu_seconds:
            return Breach("cpu_exceeded", f"{self._cpu - self._cpu_before:.2f} s of CPU; allowed are {plan.cpu_seconds:g}")
        return None

    def _tree(self) -> Iterator[int]:
        """The body and all below it; where orphans come to us, all below us."""
        if not self._plan.allow_children and not self._orphans_come_here:
            yield self._body
            return
        todo = below(os.getpid()) if self._orphans_come_here else [self._body]
        while todo:
            pid = todo.pop()
            yield pid
            todo += below(pid)

    def _look_at_scratch(self) -> Breach | None:
        allowed = self._plan.scratch_mb
        if isinstance(self._scratch, int):
            left = os.fstatvfs(self._scratch)
            full = left.f_bfree == 0 or left.f_ffree == 0
        else:
            full = self._used(self._scratch) > allowed * _MB
        return Breach("disk_exceeded", f"the scratch of {allowed} MB is full") if full else None

    def _used(self, folder: str) -> int:
        """Bytes on disk, also of files that have no name any more. More than allowed when it cannot be told."""
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
        total = 0
        with contextlib.suppress(OSError):
            for name in os.listdir(f"/proc/{self._body}/fd"):
                with contextlib.suppress(OSError):
                    found = os.stat(f"/proc/{self._body}/fd/{name}")
                    if stat.S_ISREG(found.st_mode) and found.st_nlink == 0:
                        total += found.st_blocks * _BLOCK
        return total

    def _written(self) -> int:
        with contextlib.suppress(OSError, ValueError):
            lines = dict(line.split(": ") for line in Path(f"/proc/{self._body}/io").read_text().splitlines())
            return int(lines["write_bytes"]) - int(lines["cancelled_write_bytes"])
        return 0


def below(pid: int) -> list[int]:
    """The children of a process, from whichever list the kernel keeps."""
    found: list[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            found += map(int, Path(f"/proc/{pid}/task/{task}/children").read_text().split())
    except FileNotFoundError:
        return _scanned(pid) if os.path.exists(f"/proc/{pid}") else found
    except OSError:
        pass
    return found


def _scanned(parent: int) -> list[int]:
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError):
                if int(_stat(int(name))[1]) == parent:
                    found.append(int(name))
    return found


def _status(pid: int) -> tuple[int, int]:
    """Kilobytes of memory of its own, and threads."""
    kilobytes = threads = 0
    for line in Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines():
        name, _, value = line.partition(":")
        if name in ("RssAnon", "RssShmem"):
            kilobytes += int(value.split()[0])
        elif name == "Threads":
            threads = int(value)
    return kilobytes, threads


def _share(pid: int) -> int:
    """Kilobytes of memory, where a page that several processes share counts once. Costs the kernel a walk, so it is asked last."""
    with contextlib.suppress(OSError, ValueError):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith(("Pss_Anon:", "Pss_Shmem:")))
    with contextlib.suppress(OSError, ValueError):
        return _status(pid)[0]
    return 0


def _cpu_seconds(pid: int) -> float:
    """Its own, and of the children that it took leave of."""
    return sum(map(int, _stat(pid)[11:15])) / _TICKS


def _stat(pid: int) -> list[bytes]:
    """The fields after the name, which may hold anything."""
    return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()

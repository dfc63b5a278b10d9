"""JailPlan: the jail that the runner asked the stub for. KernelFeatures: what the kernel allows."""

from __future__ import annotations

import os
import sys
from typing import Any, Final, NamedTuple

BODY_FD: Final = 3
"""The descriptor of the body's end of the channel."""
UNPRIVILEGED: Final = 65534
"""The id of the user that a body in namespaces becomes when root runs the server. This user owns no files, and RLIMIT_NPROC applies to
it."""
PERIOD_MS: Final = 50
"""The keeper measures the usage of a body at work once in this many milliseconds. It measures a spare less often."""
NICE: Final = 2
"""The usual nice value of a body, from its start on. It is higher than that of the runner and the keepers, so that they get the CPU before
the body."""
NICE_OF_BUSY: Final = 10
"""The nice value of a body that used more CPU than most runs need, and of bodies of a tenant that used far more than others."""
BUSY_SECONDS: Final = 0.05
"""A body that used more CPU seconds than this is busy."""
TASKS: Final = 256
"""A body and its processes together may have at most this many threads."""
EXITS: Final = {81: "memory_exceeded", 82: "disk_exceeded", 83: "process_limit"}
"""Exit codes by which the launcher names the limit that caused an exception. A body can exit with such a code itself; then its attempt ends
with the name of this limit."""


class JailPlan(NamedTuple):
    """A jail, as the runner sends it to the stub."""

    package: str
    entry: str
    arguments: list[str]
    path: list[str]
    readable: list[str]
    preload: list[str]
    memory_mb: int
    cpu_seconds: float
    scratch_mb: int
    open_files: int
    allow_children: bool
    processes: int
    isolation: str
    nice: int = NICE
    """The nice value of the attempt's body. The runner sends it with each attempt."""

    @classmethod
    def of(cls, data: dict[str, Any]) -> JailPlan:
        """Read a plan from the runner's message."""
        return cls(**{name: data[name] for name in cls._fields if name in data})

    def seen(self) -> list[str]:
        """The paths of the plan that the body may read."""
        return [*self.readable, *self.path, self.package]

    def most_processes(self) -> int:
        """How many processes the body may have at one time, itself included; 1 if it may start none."""
        return self.processes if self.allow_children else 1


class KernelFeatures(NamedTuple):
    """The kernel features that can be used."""

    machine: str
    namespaces: bool
    landlock: int
    seccomp: bool
    why: str = ""
    """Why there are no namespaces; empty if there are."""
    cgroup_v2: bool = False
    """Whether the kernel has cgroup v2. It is only reported; nothing uses it yet."""

    def jails(self, plan: JailPlan) -> bool:
        """Whether the plan asks for a jail and the kernel can provide it."""
        return plan.isolation == "all" and not self.missing(plan)

    def missing(self, plan: JailPlan) -> str:
        """The features that isolation `all` needs and the kernel lacks, as a text for people; empty if none is missing, and for isolation
        `process`."""
        if plan.isolation != "all":
            return ""
        if not self.seccomp:
            return f"seccomp filters (system {sys.platform}, machine {self.machine})"
        if not self.namespaces and not self.landlock:
            return f"user namespaces ({self.why}) and Landlock"
        if not self.namespaces and plan.allow_children:
            return f"user namespaces ({self.why}), without which child processes cannot be kept together"
        return ""

    def owner(self) -> int:
        """The body's user id, seen from inside the jail."""
        return UNPRIVILEGED if self.namespaces and os.getuid() == 0 else os.getuid()

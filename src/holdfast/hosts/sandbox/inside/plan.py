"""What the stub was told to do, and what the kernel lets it do."""

from __future__ import annotations

import os
import sys
from typing import Any, Final, NamedTuple

BODY_FD: Final = 3
"""The body's end of the channel."""
NOBODY: Final = 65534
"""Whom a body is when root runs us: a user that owns nothing, so that RLIMIT_NPROC binds it."""
PERIOD_MS: Final = 50
"""How often the keeper looks at what a body uses."""
TASKS: Final = 256
"""How many threads a body may have."""
EXITS: Final = {81: "memory_exceeded", 82: "disk_exceeded", 83: "process_limit"}
"""How the launcher says which limit an exception was about. A body may say so itself; it only ends sooner."""


class Plan(NamedTuple):
    """A jail, as it comes over the line."""

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

    @classmethod
    def of(cls, data: dict[str, Any]) -> Plan:
        """From the runner's message."""
        return cls(**{name: data[name] for name in cls._fields})

    def seen(self) -> list[str]:
        """Every path that the body may read."""
        return [*self.readable, *self.path, self.package]

    def most_processes(self) -> int:
        """How many it may have, itself included."""
        return self.processes if self.allow_children else 1


class Means(NamedTuple):
    """What this kernel gives us."""

    machine: str
    namespaces: bool
    landlock: int
    seccomp: bool
    why: str = ""
    """Why there are no namespaces."""
    cgroup_v2: bool = False
    """Whether the kernel's own control of groups is here. It is only told: nothing uses it yet."""

    def jails(self, plan: Plan) -> bool:
        """Should and can the body be locked in?"""
        return plan.isolation == "all" and not self.missing(plan)

    def missing(self, plan: Plan) -> str:
        """What `all` would need and is not here; nothing for `process`."""
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
        """Whom the body is, seen from inside."""
        return NOBODY if self.namespaces and os.getuid() == 0 else os.getuid()

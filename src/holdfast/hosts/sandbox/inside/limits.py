"""Limits that the kernel keeps by itself. The keeper watches the same things more closely; these hold when it looks away."""

from __future__ import annotations

import math
import resource
from pathlib import Path
from typing import Final

from holdfast.hosts.sandbox.inside import kernel
from holdfast.hosts.sandbox.inside.plan import TASKS, Plan

_MB: Final = 1 << 20
_SLACK_MB: Final = 64
_ADDRESSES_MB: Final = 512
_SIGNALS: Final = 256
_SPARE_TASKS: Final = 32
"""Beyond what is watched for, so that whoever goes there is seen and stopped by name."""


def apply(plan: Plan) -> dict[str, int]:
    """Set them, and say which."""
    limits = {
        "cpu_seconds": (resource.RLIMIT_CPU, math.ceil(plan.cpu_seconds * 2) + 2),  # once for the import, once for the attempt
        "file_bytes": (resource.RLIMIT_FSIZE, plan.scratch_mb * _MB),
        "open_files": (resource.RLIMIT_NOFILE, plan.open_files),
        "core_bytes": (resource.RLIMIT_CORE, 1),  # not 0: a host's own program that takes core dumps would still be fed with this one
        "locked_bytes": (resource.RLIMIT_MEMLOCK, 0),
    }
    if kernel.LINUX:
        # Written memory is what the limit is about. Some more is let through, so that whoever lives there is seen and stopped by name.
        limits["data_bytes"] = (resource.RLIMIT_DATA, (plan.memory_mb * 5 // 4 + _SLACK_MB) * _MB)
        # Shared memory can be hidden from the count of resident pages, but not from this.
        limits["address_bytes"] = (resource.RLIMIT_AS, _mapped() + (plan.memory_mb * 2 + _ADDRESSES_MB) * _MB)
        limits["message_queue_bytes"] = (resource.RLIMIT_MSGQUEUE, 0)
        limits["pending_signals"] = (resource.RLIMIT_SIGPENDING, _SIGNALS)
    set_limits = {}
    for name, (kind, value) in limits.items():
        _, hard = resource.getrlimit(kind)
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (value, value))
        set_limits[name] = value
    return set_limits


def bind_tasks(plan: Plan) -> int:
    """Threads and processes together, in a user namespace, which counts no others. The fewer a bomb can make, the sooner they are gone."""
    most = plan.processes + _SPARE_TASKS if plan.allow_children else TASKS + _SPARE_TASKS
    resource.setrlimit(resource.RLIMIT_NPROC, (most, most))
    return most


def _mapped() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return pages * resource.getpagesize()

"""Limits that the kernel keeps by itself. The keeper watches the same things more closely; these hold when it looks away."""

from __future__ import annotations

import math
import resource
from typing import Final

from holdfast.hosts import processes
from holdfast.hosts.sandbox.inside import kernel
from holdfast.hosts.sandbox.inside.plan import TASKS, Plan

_MB: Final = 1 << 20
_SLACK_MB: Final = 64
_ADDRESSES_MB: Final = 512
_SIGNALS: Final = 256
_SPARE_TASKS: Final = 32
"""Beyond what is watched for, so that whoever goes there is seen and stopped by name."""


def apply(plan: Plan) -> dict[str, int]:
    """Set all but those of tasks and open files, and say which."""
    limits = {
        "cpu_seconds": (resource.RLIMIT_CPU, math.ceil(plan.cpu_seconds * 2) + 2),  # once for the import, once for the attempt
        "file_bytes": (resource.RLIMIT_FSIZE, plan.scratch_mb * _MB),
        "core_bytes": (resource.RLIMIT_CORE, 1),  # not 0: a host's own program that takes core dumps would still be fed with this one
        "locked_bytes": (resource.RLIMIT_MEMLOCK, 0),
    }
    if kernel.LINUX:
        # Written memory is what the limit is about. Some more is let through, so that whoever lives there is seen and stopped by name.
        limits["data_bytes"] = (resource.RLIMIT_DATA, data_bytes(plan.memory_mb))
        # Shared memory can be hidden from the count of resident pages, but not from this.
        limits["address_bytes"] = (resource.RLIMIT_AS, _mapped() + _address_bytes(plan.memory_mb))
        limits["message_queue_bytes"] = (resource.RLIMIT_MSGQUEUE, 0)
        limits["pending_signals"] = (resource.RLIMIT_SIGPENDING, _SIGNALS)
    return {name: _set(kind, value) for name, (kind, value) in limits.items()}


def _set(kind: int, value: int) -> int:
    _, hard = resource.getrlimit(kind)
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (value, value))
    return value


def tighten(body: int, memory_mb: int, cpu_seconds: float) -> None:
    """Lower those of a body that waits already: one attempt may have tighter limits than its jail. None can be raised."""
    wanted = {
        resource.RLIMIT_DATA: data_bytes(memory_mb),
        resource.RLIMIT_AS: _mapped(body) + _address_bytes(memory_mb),
        resource.RLIMIT_CPU: math.ceil(cpu_seconds) + 2,
    }
    for kind, value in wanted.items():
        _, hard = resource.prlimit(body, kind)
        if hard == resource.RLIM_INFINITY or value < hard:
            resource.prlimit(body, kind, (value, value))


def data_bytes(memory_mb: int) -> int:
    """What the kernel lets a body write to."""
    return (memory_mb * 5 // 4 + _SLACK_MB) * _MB


def _address_bytes(memory_mb: int) -> int:
    return (memory_mb * 2 + _ADDRESSES_MB) * _MB


def bind_files(plan: Plan) -> int:
    """Open files. Bound by it, a process may send no descriptor while its user has more of them on their way than this."""
    return _set(resource.RLIMIT_NOFILE, plan.open_files)


def bind_tasks(plan: Plan) -> int:
    """Threads and processes together, in a user namespace, which counts no others. The fewer a bomb can make, the sooner they are gone."""
    most = plan.processes + _SPARE_TASKS if plan.allow_children else TASKS + _SPARE_TASKS
    resource.setrlimit(resource.RLIMIT_NPROC, (most, most))
    return most


def _mapped(pid: int | str = "self") -> int:
    pages = int(processes.read(f"/proc/{pid}/statm").split()[0])
    return pages * resource.getpagesize()

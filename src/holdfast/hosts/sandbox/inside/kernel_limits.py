"""Resource limits that the kernel enforces. The keeper watches the same resources more closely; these limits hold between its looks."""

from __future__ import annotations

import math
import resource
from typing import Final

from holdfast.hosts import processes
from holdfast.hosts.sandbox.inside import kernel
from holdfast.hosts.sandbox.inside.jail_plan import TASKS, JailPlan

_MB: Final = 1 << 20
_SLACK_MB: Final = 64
_ADDRESSES_MB: Final = 512
_SIGNALS: Final = 256
_SPARE_TASKS: Final = 32
"""The kernel allows this many tasks more than the keeper. So a body that passes the keeper's limit is seen by the keeper, which can name
the limit, before the kernel refuses a task."""


def apply(plan: JailPlan) -> dict[str, int]:
    """Set all limits of this process except those of tasks and open files. Returns the values that were set, by name."""
    limits = {
        "cpu_seconds": (resource.RLIMIT_CPU, math.ceil(plan.cpu_seconds * 2) + 2),  # once for the import, once for the attempt
        "file_bytes": (resource.RLIMIT_FSIZE, plan.scratch_mb * _MB),
        "core_bytes": (resource.RLIMIT_CORE, 1),  # not 0: with 0 the kernel would still pass a core dump to the host's core dump program
        "locked_bytes": (resource.RLIMIT_MEMLOCK, 0),
    }
    if kernel.LINUX:
        # The limit is for writable memory. The kernel allows a little more, so that the keeper sees a body above the limit and can name it.
        limits["data_bytes"] = (resource.RLIMIT_DATA, data_bytes(plan.memory_mb))
        # A body can hide shared memory from the count of resident pages, but not from this limit.
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
    """Lower the kernel's limits of a body whose attempt has tighter limits than its jail. `body` is its pid; `cpu_seconds` are counted from
    the start of its process. A limit of the kernel that is lower already stays."""
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
    """The limit for writable memory that the kernel gets, in bytes. It is somewhat above `memory_mb`, the limit that the keeper
    enforces."""
    return (memory_mb * 5 // 4 + _SLACK_MB) * _MB


def _address_bytes(memory_mb: int) -> int:
    return (memory_mb * 2 + _ADDRESSES_MB) * _MB


def bind_files(plan: JailPlan) -> int:
    """Limit open files, and return the limit. This limit has a second effect: while the user of the process has more descriptors than this
    in flight (sent, and not yet received), the process can send no descriptor."""
    return _set(resource.RLIMIT_NOFILE, plan.open_files)


def bind_tasks(plan: JailPlan) -> int:
    """Limit the threads and processes of the user namespace, and return the limit. A smaller limit makes a fork bomb faster to end."""
    most = plan.processes + _SPARE_TASKS if plan.allow_children else TASKS + _SPARE_TASKS
    resource.setrlimit(resource.RLIMIT_NPROC, (most, most))
    return most


def _mapped(pid: int | str = "self") -> int:
    pages = int(processes.read(f"/proc/{pid}/statm").split()[0])
    return pages * resource.getpagesize()

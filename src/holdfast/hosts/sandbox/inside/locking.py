"""Locking a process in: what it may see and do is taken away, step by step, before any code of the author is loaded."""

from __future__ import annotations

import os
import signal
import socket
from typing import Any, Final

from holdfast.hosts.sandbox.inside import filters, kernel, landlock, limits, mounts, namespaces, wire
from holdfast.hosts.sandbox.inside.plan import PERIOD_MS, Means, Plan

_FILTERED: Final = 2
_PR_GET_NO_NEW_PRIVS: Final = 39
_HOST_NAME: Final = "sandbox"


def lock(plan: Plan, means: Means, root: str, scratch: str, keeper: socket.socket) -> dict[str, Any]:
    """Lock this process in, as far as is asked. Says what holds; raises when something that should does not."""
    os.setsid()
    jailed = means.jails(plan)
    apart = jailed and means.namespaces
    held: dict[str, Any] = {"isolation": "all" if jailed else "process"}
    held |= dict.fromkeys(("user_namespace", "pid_namespace", "network_namespace", "mount_namespace", "ipc_namespace"), apart)
    held |= {"cgroup_v2": "here, not used" if means.cgroup_v2 else "absent", "watched_every_ms": PERIOD_MS if kernel.LINUX else None}
    held["rlimits"] = limits.apply(plan)
    if apart:
        socket.sethostname(_HOST_NAME)
        mounts.enter(root, plan.seen(), plan.scratch_mb, means.owner(), means.machine)
        _hand_over(scratch, keeper)
        held["rlimits"]["tasks"] = limits.bind_tasks(plan)
    else:
        os.chdir(scratch)
    held["rlimits"]["open_files"] = limits.bind_files(plan)
    if jailed:
        kernel.bound_capabilities()
        if apart and os.getuid() == 0:
            namespaces.become_nobody()
        kernel.drop_capabilities()
        kernel.prctl(kernel.PR_SET_DUMPABLE, 1)  # a change of user took it; the keeper could not count its memory exactly
    if kernel.LINUX:
        _die_with(keeper)
        kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    held |= _fenced(plan, means, apart, scratch) if jailed else {"landlock": 0, "seccomp": False}
    return held | {"capabilities": _capabilities(), "no_new_privileges": kernel.LINUX, "user": os.getuid()}


def prepare(plan: Plan, means: Means) -> None:
    """Find out what is the same for all, in the stub: then no attempt has to."""
    if means.jails(plan) and means.namespaces:
        mounts.survey(tuple(plan.seen()))
        mounts.survey(mounts.DEVICES)
        for children in {plan.allow_children, False}:
            filters.program(means.machine, _held(plan._replace(allow_children=children), means, True))


def _held(plan: Plan, means: Means, apart: bool) -> filters.Held:
    return filters.Held(plan.allow_children, None if apart else os.getpid(), apart, means.landlock)


def _fenced(plan: Plan, means: Means, apart: bool, scratch: str) -> dict[str, Any]:
    if means.landlock:
        devices = [(device, landlock.DEVICE) for device in mounts.DEVICES]
        folders = [(path, landlock.READ) for path in plan.seen()]
        landlock.restrict(means.landlock, [*folders, *devices, (scratch, landlock.SCRATCH)])
    filters.install(filters.program(means.machine, _held(plan, means, apart)))
    if kernel.prctl(kernel.PR_GET_SECCOMP) != _FILTERED or kernel.prctl(_PR_GET_NO_NEW_PRIVS) != 1 or kernel.has_capabilities():
        raise PermissionError("the kernel took the locks and does not hold them")
    return {"landlock": means.landlock, "seccomp": True}


def _capabilities() -> str:
    return "unknown" if not kernel.LINUX else "some" if kernel.has_capabilities() else "none"


def _hand_over(scratch: str, keeper: socket.socket) -> None:
    """Give the keeper a descriptor of the scratch, while this process has neither the body's user nor the body's limit of open files.

    The kernel counts the descriptors on their way for all processes of a user together. So a hostile body could keep as many on their way
    as one process may have open, and no other body would begin.
    """
    at = os.open(scratch, os.O_RDONLY | os.O_DIRECTORY)
    keeper.sendmsg([wire.SCRATCH], wire.rights(at))
    os.close(at)


def _die_with(keeper: socket.socket) -> None:
    """Asked for late, for a change of user takes it back. If the keeper is gone by now, nobody would tell us: so ask it."""
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    keeper.sendall(wire.ARE_YOU_THERE)
    if keeper.recv(1) != wire.I_AM:
        os._exit(1)

"""Lockdown: a process gives up its rights step by step, before any code of the author is loaded."""

from __future__ import annotations

import os
import signal
import socket
from typing import Any, Final

from holdfast.hosts import processes
from holdfast.hosts.sandbox.inside import body_channel, filters, kernel, kernel_limits, landlock, mounts, namespaces
from holdfast.hosts.sandbox.inside.jail_plan import PERIOD_MS, JailPlan, KernelFeatures

_FILTERED: Final = 2
_PR_GET_NO_NEW_PRIVS: Final = 39
_HOST_NAME: Final = "sandbox"


def lock(plan: JailPlan, features: KernelFeatures, root: str, scratch: str, keeper: socket.socket) -> dict[str, Any]:
    """Lock this process in, as the plan says. `root` is an empty folder, which becomes the root of this process if it is in namespaces.
    `scratch` is the path of its scratch, and `keeper` its socket to the keeper. Returns the locks that are in force, for the report. Raises
    an OSError if a required lock cannot be set."""
    os.setsid()
    processes.give_way(0, plan.nice)  # again: a new session is a new group
    jailed = features.jails(plan)
    apart = jailed and features.namespaces
    held: dict[str, Any] = {"isolation": "all" if jailed else "process"}
    held |= dict.fromkeys(("user_namespace", "pid_namespace", "network_namespace", "mount_namespace", "ipc_namespace"), apart)
    held |= {"cgroup_v2": "here, not used" if features.cgroup_v2 else "absent", "watched_every_ms": PERIOD_MS if kernel.LINUX else None}
    held["rlimits"] = kernel_limits.apply(plan)
    if apart:
        socket.sethostname(_HOST_NAME)
        mounts.enter(root, plan.seen(), plan.scratch_mb, features.owner(), features.machine)
        _hand_over(scratch, keeper)
        held["rlimits"]["tasks"] = kernel_limits.bind_tasks(plan)
    else:
        os.chdir(scratch)
    held["rlimits"]["open_files"] = kernel_limits.bind_files(plan)
    if jailed:
        kernel.bound_capabilities()
        if apart and os.getuid() == 0:
            namespaces.become_nobody()
        kernel.drop_capabilities()
        kernel.prctl(kernel.PR_SET_DUMPABLE, 1)  # the change of user cleared it, and without it the keeper cannot count the memory exactly
    if kernel.LINUX:
        _die_with(keeper)
        kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    held |= _fenced(plan, features, apart, scratch) if jailed else {"landlock": 0, "seccomp": False}
    return held | {"capabilities": _capabilities(), "no_new_privileges": kernel.LINUX, "user": os.getuid()}


def prepare(plan: JailPlan, features: KernelFeatures) -> None:
    """Compute in the stub what is the same for all attempts, so that no attempt must compute it. Without namespaces there is nothing to
    compute."""
    if features.jails(plan) and features.namespaces:
        mounts.survey(tuple(plan.seen()))
        mounts.survey(mounts.DEVICES)
        for children in {plan.allow_children, False}:
            filters.program(features.machine, _held(plan._replace(allow_children=children), features, True))


def _held(plan: JailPlan, features: KernelFeatures, apart: bool) -> filters.OtherLocks:
    return filters.OtherLocks(plan.allow_children, None if apart else os.getpid(), apart, features.landlock)


def _fenced(plan: JailPlan, features: KernelFeatures, apart: bool, scratch: str) -> dict[str, Any]:
    if features.landlock:
        devices = [(device, landlock.DEVICE) for device in mounts.DEVICES]
        folders = [(path, landlock.READ) for path in plan.seen()]
        landlock.restrict(features.landlock, [*folders, *devices, (scratch, landlock.SCRATCH)])
    filters.install(filters.program(features.machine, _held(plan, features, apart)))
    if kernel.prctl(kernel.PR_GET_SECCOMP) != _FILTERED or kernel.prctl(_PR_GET_NO_NEW_PRIVS) != 1 or kernel.has_capabilities():
        raise PermissionError("the kernel accepted the locks, but they are not in force")
    return {"landlock": features.landlock, "seccomp": True}


def _capabilities() -> str:
    return "unknown" if not kernel.LINUX else "some" if kernel.has_capabilities() else "none"


def _hand_over(scratch: str, keeper: socket.socket) -> None:
    """Send the keeper a descriptor of the scratch, before this process gets the body's user and the body's limit of open files.

    The kernel counts descriptors in flight per user. So a hostile body could keep the largest allowed number in flight, and no other body
    of that user could begin.
    """
    at = os.open(scratch, os.O_RDONLY | os.O_DIRECTORY)
    keeper.sendmsg([body_channel.SCRATCH], body_channel.rights(at))
    os.close(at)


def _die_with(keeper: socket.socket) -> None:
    """Ask the kernel to kill this process when the keeper, the process that started it, dies. This must be called after the change of user,
    because a change of user cancels the request. The keeper may have died before this call. So this process sends the keeper a question,
    and exits if no answer arrives."""
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    keeper.sendall(body_channel.ARE_YOU_THERE)
    if keeper.recv(1) != body_channel.I_AM:
        os._exit(1)

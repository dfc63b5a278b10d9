"""Finds the kernel features for the jail by trying them: versions and settings have too many exceptions to rely on."""

from __future__ import annotations

import os
import platform
import socket
from typing import Final

from holdfast.hosts.sandbox.inside import filters, kernel, landlock, mounts, namespaces
from holdfast.hosts.sandbox.inside.jail_plan import JailPlan, KernelFeatures

_CGROUP: Final = "/sys/fs/cgroup/cgroup.controllers"


def find(plan: JailPlan, folder: str) -> KernelFeatures:
    """The kernel features that can be used for this plan. For isolation `all` on Linux, this function also makes a folder below `folder`
    that becomes the body's root."""
    machine = platform.machine()
    if plan.isolation != "all" or not kernel.LINUX:
        return KernelFeatures(machine, False, 0, False, "not asked for" if kernel.LINUX else "not Linux", cgroup_v2())
    root = f"{folder}/root"
    os.mkdir(root, 0o700)
    why = _namespaces(root, machine)
    return KernelFeatures(machine, not why, landlock.version(), _seccomp(machine), why, cgroup_v2())


def cgroup_v2() -> bool:
    """Whether the kernel has cgroup v2, which could limit a whole group of processes."""
    return os.path.exists(_CGROUP)


def _namespaces(root: str, machine: str) -> str:
    """Empty if namespaces work, else the reason why not."""
    stays, goes = socket.socketpair()
    heard, says = os.pipe()
    child = os.fork()
    if not child:
        _try(root, machine, goes, says)
    goes.close()
    os.close(says)
    with stays:
        namespaces.map_users(child, stays)
    with os.fdopen(heard) as answer:
        why = answer.read()
    os.waitpid(child, 0)
    return why


def _try(root: str, machine: str, mapper: socket.socket, says: int) -> None:
    doing = "new namespaces"
    try:
        namespaces.enter(mapper)
        doing = "a process in them"
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            os._exit(0)
        doing = "mounts"
        mounts.enter(root, [], 1, KernelFeatures(machine, True, 0, True).owner(), machine)
    except BaseException as error:
        os.write(says, f"{doing}: {error}".encode())
    finally:
        os._exit(0)


def _seccomp(machine: str) -> bool:
    """Whether the kernel accepts the filter on this machine. Tried in a child process, because a filter cannot be removed."""
    child = os.fork()
    if not child:
        done = 1
        try:
            kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
            filters.install(filters.program(machine, filters.OtherLocks(False, os.getpid(), False, 0)))
            done = 0
        finally:
            os._exit(done)
    return os.waitpid(child, 0)[1] == 0

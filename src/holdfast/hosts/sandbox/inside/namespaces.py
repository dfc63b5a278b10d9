"""Namespaces: own users, processes, network, IPC and host name for one attempt.

Whoever enters a user namespace has all capabilities in it and none outside. An ordinary user may map only itself. For root the stub, which
stays outside, maps two users: root, which builds the mounts, and nobody, which the body becomes.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Final

from holdfast.hosts.sandbox.inside import kernel
from holdfast.hosts.sandbox.inside.plan import NOBODY

_NEW: Final = 0x10000000 | 0x20000000 | 0x40000000 | 0x08000000 | 0x04000000 | 0x02000000  # users, PIDs, network, IPC, host name, cgroups
_ENTERED, _MAPPED = b"e", b"m"


def enter(mapper: socket.socket) -> None:
    """Into new namespaces; processes that are forked from here on are in the new PID namespace."""
    user, group = os.getuid(), os.getgid()
    kernel.unshare(_NEW)
    if user == 0:
        mapper.sendall(_ENTERED)
        if mapper.recv(1) != _MAPPED:
            raise PermissionError("the users of the namespace could not be mapped")
        return
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")


def map_users(child: int, mapper: socket.socket) -> None:
    """The stub's half, for root."""
    if os.getuid() != 0 or mapper.recv(1) != _ENTERED:
        return
    lines = f"0 0 1\n{NOBODY} {NOBODY} 1\n"
    try:
        Path(f"/proc/{child}/uid_map").write_text(lines)
        Path(f"/proc/{child}/gid_map").write_text(lines)
    except OSError:
        return  # closing the line tells it
    mapper.sendall(_MAPPED)


def become_nobody() -> None:
    """From the namespace's root to a user that owns nothing."""
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)

"""Namespaces: separate users, processes, network, IPC and host name for one attempt.

A process that enters a user namespace has all capabilities inside and none outside. An ordinary user may map only itself. If root runs the
server, the stub, which stays outside, maps two users: `root`, which builds the mounts, and the Unix user `nobody`, which the body becomes.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Final

from holdfast.hosts.sandbox.inside import kernel
from holdfast.hosts.sandbox.inside.jail_plan import UNPRIVILEGED

_NEW: Final = 0x10000000 | 0x20000000 | 0x40000000 | 0x08000000 | 0x04000000 | 0x02000000  # users, PIDs, network, IPC, host name, cgroups
_ENTERED, _MAPPED = b"e", b"m"


def enter(mapper: socket.socket) -> None:
    """Enter new namespaces. Processes that are forked from now on are in the new PID namespace. If root runs this process, wait until the
    stub, at the other end of `mapper`, has mapped the users. Raises an OSError if the kernel does not allow it."""
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
    """If root runs this server, map the users of a keeper's new namespace; the keeper waits for that at the other end of `mapper`. If
    another user runs the server, do nothing. `child` is the pid of the keeper."""
    if os.getuid() != 0 or mapper.recv(1) != _ENTERED:
        return
    lines = f"0 0 1\n{UNPRIVILEGED} {UNPRIVILEGED} 1\n"
    try:
        Path(f"/proc/{child}/uid_map").write_text(lines)
        Path(f"/proc/{child}/gid_map").write_text(lines)
    except OSError:
        return  # the keeper sees that the socket is closed
    mapper.sendall(_MAPPED)


def become_nobody() -> None:
    """Change from the namespace's root to a user that owns no files."""
    os.setgroups([])
    os.setresgid(UNPRIVILEGED, UNPRIVILEGED, UNPRIVILEGED)
    os.setresuid(UNPRIVILEGED, UNPRIVILEGED, UNPRIVILEGED)

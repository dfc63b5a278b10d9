"""The settings a sandbox meets: who runs it, and what the kernel lets that user do. Applied to a process of its own, for good."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import stat
import struct
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from holdfast.hosts.sandbox.inside import filters, kernel, syscalls

ROOT: Final = "root"
USER: Final = "user"
USER_BARE: Final = "user without namespaces"
ROOT_BARE: Final = "root without namespaces"
NOTHING: Final = "user without namespaces and Landlock"
MOUNTLESS: Final = "user without mounts"
SETTINGS: Final = (ROOT, USER, USER_BARE, ROOT_BARE)
JAILED_APART: Final = (ROOT, USER)

_SOMEBODY: Final = 12345
# As Docker's own profile answers, and Ubuntu's, each in its way.
_NAMESPACE_CALLS: Final = ("unshare", "setns", "mount")


def has_namespaces(setting: str) -> bool:
    """Whether the kernel lets a process of this setting make them."""
    return "without namespaces" not in setting


def possible(setting: str) -> str:
    """Why a setting cannot be had here; nothing if it can."""
    if sys.platform != "linux":
        return "the jail is made of Linux's parts"
    if setting.startswith("root") and os.getuid() != 0:
        return "the tests do not run as root"
    return ""


def become(setting: str, needed: Iterable[Path]) -> None:
    """Turn this process into one of that setting; `needed` it must be able to reach afterwards."""
    if setting.startswith("user") and os.getuid() == 0:
        _open_ways(needed)
        os.setgroups([])
        os.setresgid(_SOMEBODY, _SOMEBODY, _SOMEBODY)
        os.setresuid(_SOMEBODY, _SOMEBODY, _SOMEBODY)
        kernel.prctl(kernel.PR_SET_DUMPABLE, 1)  # as a process that was started by this user
    if setting == MOUNTLESS:
        _refuse(["mount"])
    if not has_namespaces(setting):
        _refuse([*_NAMESPACE_CALLS, *(["landlock_create_ruleset"] if setting == NOTHING else [])])


def _refuse(names: Iterable[str]) -> None:
    """A filter that lets everything through but these."""
    numbers = syscalls.numbers(platform.machine())
    code: list[filters.Instruction] = [(0x20, 0, 0, 0)]
    for name in names:
        code += [(0x15, 0, 1, numbers[name]), (0x06, 0, 0, filters.refuse(errno.EPERM))]
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    filters.install(b"".join(struct.pack("=HBBI", *part) for part in [*code, (0x06, 0, 0, filters.ALLOW)]))


def _open_ways(needed: Iterable[Path]) -> None:
    """Folders on the way that only root may enter (an interpreter in root's home) are replaced, for this process alone."""
    kernel.unshare(0x00020000)
    kernel.mount(None, "/", None, (1 << 14) | (1 << 18))
    kept: dict[Path, list[Path]] = {}
    for path in needed:
        real = path.resolve()
        for above in reversed(real.parents):
            if not above.stat().st_mode & stat.S_IXOTH:
                kept.setdefault(above, []).append(real)
                break
    for closed, paths in kept.items():
        handles = [(path, os.open(path, os.O_PATH)) for path in dict.fromkeys(paths)]
        kernel.mount("tmpfs", str(closed), "tmpfs", 0, "mode=755")
        for path, handle in sorted(handles):
            if not path.exists():
                path.mkdir(parents=True)
                kernel.mount(f"/proc/self/fd/{handle}", str(path), None, (1 << 12) | (1 << 14))
            os.close(handle)


def landlock_here() -> int:
    """The kernel's version of Landlock."""
    return ctypes.CDLL(None).syscall(444, None, 0, 1) if sys.platform == "linux" else 0

"""A root of its own: the few folders that a body may read, read-only at their own places, and a scratch of a fixed size."""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from holdfast.hosts.sandbox.inside import kernel

SCRATCH: Final = "/sandbox"
"""Not `/tmp`: there, what the body reads may lie."""
DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")

_NEW_MOUNTS: Final = 0x00020000
_RDONLY, _NOSUID, _NODEV, _NOEXEC = 1, 2, 4, 8
_REMOUNT, _BIND, _REC, _PRIVATE = 1 << 5, 1 << 12, 1 << 14, 1 << 18
_PIVOT_ROOT: Final = {"x86_64": 155, "aarch64": 41}
_MOUNT_SETATTR: Final = 442
_HERE, _RECURSIVE = -100, 0x8000
_LINKS: Final = 40
_PAGE: Final = 4096
_FILES_PER_MB: Final = 256


class _Attributes(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "namespace"))


def enter(root: str, readable: Iterable[str], scratch_mb: int, owner: int, machine: str) -> None:
    """Build the root at this empty folder, go there, and let go of everything else."""
    kernel.unshare(_NEW_MOUNTS)
    kernel.mount(None, "/", None, _REC | _PRIVATE)
    kernel.mount("tmpfs", root, "tmpfs", _NOSUID | _NODEV, "mode=755,size=1m,nr_inodes=4k")
    bound: set[str] = set()
    for path in sorted(readable):
        _mirror(root, path, bound, _NODEV)
    for device in DEVICES:
        _mirror(root, device, bound, 0)
    os.makedirs(root + SCRATCH, exist_ok=True)
    if not os.path.lexists(root + "/tmp"):
        os.symlink(SCRATCH, root + "/tmp")
    # One page more than allowed: when nothing is free, the limit was passed.
    size = (scratch_mb << 20) + _PAGE
    options = f"mode=700,size={size},nr_inodes={scratch_mb * _FILES_PER_MB + 64},uid={owner},gid={owner}"
    kernel.mount("tmpfs", root + SCRATCH, "tmpfs", _NOSUID | _NODEV | _NOEXEC, options)
    kernel.mount(None, root, None, _REMOUNT | _BIND | _RDONLY | _NOSUID | _NODEV)
    os.chdir(root)
    kernel.call(_PIVOT_ROOT[machine], b".", b".")
    kernel.detach(".")
    os.chdir(SCRATCH)


def _mirror(root: str, path: str, bound: set[str], flags: int) -> None:
    """The path as it is outside: links stay links, and what they point to is there too."""
    todo, at, links = [part for part in path.split("/") if part], "", 0
    while todo:
        part = todo.pop(0)
        if part in (".", ".."):
            at = os.path.dirname(at) if part == ".." else at
            continue
        step = f"{at}/{part}"
        if _covered(step, bound):
            if not os.path.islink(step):
                at = step
                continue
        elif not os.path.lexists(step):
            return
        elif not todo and not os.path.islink(step):
            _bind(root, step, flags)
            bound.add(step)
            return
        if os.path.islink(step):
            links += 1
            if links > _LINKS:
                return
            target = os.readlink(step)
            if not _covered(step, bound) and not os.path.lexists(root + step):
                os.symlink(target, root + step)
            todo = [piece for piece in target.split("/") if piece] + todo
            at = "" if target.startswith("/") else at
        else:
            os.makedirs(root + step, mode=0o755, exist_ok=True)
            at = step


def _covered(path: str, bound: set[str]) -> bool:
    return path in bound or any(str(parent) in bound for parent in Path(path).parents)


def _bind(root: str, path: str, flags: int) -> None:
    inside = root + path
    if stat.S_ISDIR(os.stat(path).st_mode):
        os.makedirs(inside, mode=0o755, exist_ok=True)
    else:
        os.close(os.open(inside, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))
    kernel.mount(path, inside, None, _BIND | _REC)
    # With everything that is mounted below it, which a remount would leave writable.
    kernel.call(_MOUNT_SETATTR, _HERE, os.fsencode(inside), _RECURSIVE, _Attributes(_RDONLY | _NOSUID | flags, 0, 0, 0), 32)

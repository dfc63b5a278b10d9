"""The body's own root folder: the folders that it may read, mounted read-only at their usual paths, and a scratch of a fixed size."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
from collections.abc import Iterable
from typing import Final, Literal, NamedTuple

from holdfast.hosts.sandbox.inside import kernel

SCRATCH: Final = "/sandbox"
"""The path of the scratch in the body's root. It is not `/tmp`, because files that the body must read may be in `/tmp`."""
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


class MountStep(NamedTuple):
    """One entry to make in the new root: a folder, a link, or a read-only mount of something in the old root."""

    kind: Literal["folder", "link", "bound folder", "bound file"]
    path: str
    target: str = ""


def enter(root: str, readable: Iterable[str], scratch_mb: int, owner: int, machine: str) -> None:
    """Build a new root in the empty folder `root`, make it the root of this process, and detach the old root. `readable`: the paths that
    the new root shows. `scratch_mb`: the size of the scratch. `owner`: the user id that owns the scratch. `machine`: the machine's
    architecture, such as `x86_64`."""
    kernel.unshare(_NEW_MOUNTS)
    kernel.mount(None, "/", None, _REC | _PRIVATE)
    kernel.mount("tmpfs", root, "tmpfs", _NOSUID | _NODEV, "mode=755,size=1m,nr_inodes=4k")
    for paths, flags in ((tuple(readable), _NODEV), (DEVICES, 0)):
        for step in survey(paths):
            _make(root, step, flags)
    os.makedirs(root + SCRATCH, exist_ok=True)
    if not os.path.lexists(root + "/tmp"):
        os.symlink(SCRATCH, root + "/tmp")
    # One page more than allowed: if no page is free, the body passed the limit.
    size = (scratch_mb << 20) + _PAGE
    options = f"mode=700,size={size},nr_inodes={scratch_mb * _FILES_PER_MB + 64},uid={owner},gid={owner}"
    kernel.mount("tmpfs", root + SCRATCH, "tmpfs", _NOSUID | _NODEV | _NOEXEC, options)
    kernel.mount(None, root, None, _REMOUNT | _BIND | _RDONLY | _NOSUID | _NODEV)
    os.chdir(root)
    kernel.call(_PIVOT_ROOT[machine], b".", b".")
    kernel.detach(".")
    os.chdir(SCRATCH)


@functools.lru_cache
def survey(paths: tuple[str, ...]) -> tuple[MountStep, ...]:
    """The links, folders and mounts that the new root needs, so that each path leads to the same file inside and outside. The stub computes
    them once; its forks inherit the result."""
    steps: dict[str, MountStep] = {}
    for path in sorted(paths):
        _follow(path, steps)
    return tuple(
        step for step in steps.values() if not _shown(step.path.rpartition("/")[0], steps)
    )  # skip entries inside a folder that is mounted whole


def _follow(path: str, steps: dict[str, MountStep]) -> None:
    """Add to `steps` the entries that this path needs in the new root. A link in the path stays a link, and the entries of its target are
    added too."""
    todo, at, links = [part for part in path.split("/") if part], "", 0
    while todo:
        part = todo.pop(0)
        if part in (".", ".."):
            at = os.path.dirname(at) if part == ".." else at
            continue
        step = f"{at}/{part}"
        shown = _shown(step, steps)
        if os.path.islink(step):
            target = os.readlink(step)
            if not shown:
                steps[step] = MountStep("link", step, target)
            links += 1
            if links > _LINKS:
                return
            todo = [piece for piece in target.split("/") if piece] + todo
            at = "" if target.startswith("/") else at
            continue
        if not os.path.lexists(step):
            return
        if not shown and not todo:
            for below in [other for other in steps if other.startswith(f"{step}/")]:
                del steps[below]  # this entry is inside the mounted folder
            steps[step] = MountStep("bound folder" if os.path.isdir(step) else "bound file", step)
        elif not shown:
            steps.setdefault(step, MountStep("folder", step))
        at = step


def _shown(path: str, steps: dict[str, MountStep]) -> bool:
    """Whether one of the steps already mounts this path or a folder that contains it."""
    while path:
        if path in steps and steps[path].kind.startswith("bound"):
            return True
        path = path.rpartition("/")[0]
    return False


def _make(root: str, step: MountStep, flags: int) -> None:
    inside = root + step.path
    if step.kind == "link":
        if not os.path.lexists(inside):
            os.symlink(step.target, inside)
        return
    if step.kind == "bound file":
        os.close(os.open(inside, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))
    else:
        with contextlib.suppress(FileExistsError):
            os.mkdir(inside, 0o755)
    if step.kind != "folder":
        kernel.mount(step.path, inside, None, _BIND | _REC)
        # This covers the mounts below it too, which a remount would leave writable.
        kernel.call(_MOUNT_SETATTR, _HERE, os.fsencode(inside), _RECURSIVE, _Attributes(_RDONLY | _NOSUID | flags, 0, 0, 0), 32)

"""Removes a folder with everything in it. A symbolic link is never followed, even if another process puts one there meanwhile.

Each folder is opened by its name below the descriptor of the folder around it, with `O_NOFOLLOW`, and only the opened folder is emptied. A
hostile program may have nested folders very deep, or taken away its own rights on them. So the folders inside a folder are moved up into
the top folder, until no folder contains another one.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import stat
from typing import Final

_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NO_FOLDER: Final = frozenset({errno.ENOTDIR, errno.ELOOP, errno.EMLINK})


def remove(path: str | os.PathLike[str]) -> None:
    """Remove a file, a link, or a folder with everything in it. Does nothing if nothing has this name. Raises OSError if something cannot
    be removed, for example because another file system is mounted inside the folder."""
    try:
        at = _opened(os.fspath(path))
    except FileNotFoundError:
        return
    except OSError as error:
        if error.errno not in _NO_FOLDER:
            raise
        os.unlink(path)
        return
    try:
        empty(at)
    finally:
        os.close(at)
    with contextlib.suppress(FileNotFoundError):
        os.rmdir(path)


def empty(top: int) -> None:
    """Remove everything in a folder, but not the folder itself. `top` is the descriptor of the folder. Raises OSError if something cannot
    be removed, for example because another file system is mounted inside the folder."""
    _allow(top)
    disk, names = os.fstat(top).st_dev, itertools.count()
    while found := _entries(top):
        for name, is_folder in found:
            if not is_folder or not _lift(top, name, disk, names):
                os.unlink(name, dir_fd=top)


def _lift(top: int, name: str, disk: int, names: itertools.count[int]) -> bool:
    """Remove the folder `name`, which lies in the top folder: move the folders inside it up into the top folder, remove its files, then
    remove it. The moved folders get new names with numbers from `names`. Returns False, and removes nothing, if `name` is not a folder any
    more. Raises OSError if it is not on the file system `disk`."""
    try:
        at = _opened(name, top)
    except OSError as error:
        if error.errno in _NO_FOLDER:
            return False
        raise
    try:
        if os.fstat(at).st_dev != disk:
            raise OSError(errno.EXDEV, "another file system is mounted in a folder that is to be removed", name)
        _allow(at)
        for below, is_folder in _entries(at):
            if is_folder:
                with contextlib.suppress(OSError):
                    os.close(_opened(below, at))  # a folder without rights for its owner could not be moved
                os.rename(below, f".{os.getpid()}-{next(names)}", src_dir_fd=at, dst_dir_fd=top)
            else:
                os.unlink(below, dir_fd=at)
    finally:
        os.close(at)
    os.rmdir(name, dir_fd=top)
    return True


def _entries(at: int) -> list[tuple[str, bool]]:
    with os.scandir(at) as entries:
        return [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]


def _opened(name: str, within: int | None = None) -> int:
    """Open a folder, and give its owner all rights on it; return its descriptor. Works also if the owner's rights were taken away. `within`
    is the descriptor of the folder in which `name` lies; None: `name` is a path."""
    try:
        at = os.open(name, _FLAGS, dir_fd=within)
    except PermissionError:
        _allow_closed(name, within)
        at = os.open(name, _FLAGS, dir_fd=within)
    _allow(at)
    return at


def _allow(at: int) -> None:
    if os.fstat(at).st_mode & stat.S_IRWXU != stat.S_IRWXU:
        with contextlib.suppress(OSError):
            os.fchmod(at, stat.S_IRWXU)


def _allow_closed(name: str, within: int | None) -> None:
    """Give the owner all rights on a folder that cannot be opened without them. The rights are changed through a handle that was opened
    without following a link, because a link may have taken the folder's name meanwhile. `within` is the descriptor of the folder in which
    `name` lies; None: `name` is a path."""
    if not hasattr(os, "O_PATH"):
        os.chmod(name, stat.S_IRWXU, dir_fd=within, follow_symlinks=False)
        return
    handle = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=within)
    try:
        os.chmod(f"/proc/self/fd/{handle}", stat.S_IRWXU)
    finally:
        os.close(handle)

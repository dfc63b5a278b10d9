"""Removes a folder with everything in it, by descriptors: a symbolic link is never followed, even if another process puts one there
meanwhile.

A name is opened with `O_NOFOLLOW` below the descriptor of its folder, and only the opened folder is emptied. A hostile program can nest
folders very deep, and take away its own rights on them. So the folders inside a folder are moved up into the top folder until no folder is
nested any more.
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


def remove(path: str | os.PathLike[str], *, dir_fd: int | None = None) -> None:
    """Remove a file, a link or a folder with everything in it. Does nothing if there is nothing with this name."""
    try:
        at = _opened(os.fspath(path), dir_fd)
    except FileNotFoundError:
        return
    except OSError as error:
        if error.errno not in _NO_FOLDER:
            raise
        os.unlink(path, dir_fd=dir_fd)
        return
    try:
        empty(at)
    finally:
        os.close(at)
    with contextlib.suppress(FileNotFoundError):
        os.rmdir(path, dir_fd=dir_fd)


def empty(top: int) -> None:
    """Remove everything in the folder of this descriptor, but not the folder itself."""
    _allow(top)
    disk, names = os.fstat(top).st_dev, itertools.count()
    while found := _entries(top):
        for name, is_folder in found:
            if not is_folder or not _lift(top, name, disk, names):
                os.unlink(name, dir_fd=top)


def _lift(top: int, name: str, disk: int, names: itertools.count[int]) -> bool:
    """Move the folders inside one folder up into the top folder, remove its files, and then remove it. Returns False if it is not a folder
    any more."""
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


def _opened(name: str, within: int | None) -> int:
    """The descriptor of a folder, on which its owner has all rights now. Works also if the owner had taken away these rights."""
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
    """Give the owner all rights on a folder that cannot be opened. A handle on the folder is used, because its name may lead elsewhere by
    now."""
    if not hasattr(os, "O_PATH"):
        os.chmod(name, stat.S_IRWXU, dir_fd=within, follow_symlinks=False)
        return
    handle = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=within)
    try:
        os.chmod(f"/proc/self/fd/{handle}", stat.S_IRWXU)
    finally:
        os.close(handle)

"""Clearing away: processes that slipped out of their group, and folders that somebody made hard to remove."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import select
import signal
import stat
import tempfile
from typing import Final

from holdfast.hosts.sandbox.inside.watching import below

_PREFIX: Final = "holdfast-sandbox-"
_YOUNG_SECONDS: Final = 60


def make_folder() -> str:
    """A folder that is ours as long as this process or one that it forks lives: the kernel keeps a lock on it for just that long."""
    folder = tempfile.mkdtemp(prefix=_PREFIX)
    fcntl.flock(os.open(folder, os.O_RDONLY), fcntl.LOCK_EX)
    return folder


def sweep(own: str) -> None:
    """Remove what others left, who were killed and could not. A young one may be about to be locked."""
    made_at = os.stat(own).st_mtime
    with os.scandir(os.path.dirname(own)) as entries:
        left = [entry.path for entry in entries if entry.name.startswith(_PREFIX) and entry.is_dir(follow_symlinks=False)]
    for folder in left:
        with contextlib.suppress(OSError):
            found = os.stat(folder)
            if found.st_uid == os.getuid() and made_at - found.st_mtime > _YOUNG_SECONDS:
                at = os.open(folder, os.O_RDONLY)
                try:
                    fcntl.flock(at, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    clear(folder)
                finally:
                    os.close(at)


def kill_below() -> None:
    """Everything below us, until nothing is left. What forks while it is killed comes to us as an orphan, and is met in the next round."""
    while True:
        todo = below(os.getpid())
        while todo:
            pid = todo.pop()
            todo += below(pid)
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        select.select([], [], [], 0.001)


def clear(folder: str) -> None:
    """Remove a folder however deep it is: what is below a folder is moved up until nothing is deep any more."""
    names = itertools.count()
    with contextlib.suppress(OSError):
        while entries := list(os.scandir(folder)):
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    _lift(folder, entry.path, names)
                else:
                    os.unlink(entry.path)
        os.rmdir(folder)


def _lift(top: str, folder: str, names: itertools.count[int]) -> None:
    """Empty one folder into the top, and remove it."""
    with contextlib.suppress(OSError):
        os.chmod(folder, stat.S_IRWXU)
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                with contextlib.suppress(OSError):
                    os.chmod(entry.path, stat.S_IRWXU)
                os.rename(entry.path, f"{top}/.{os.getpid()}-{next(names)}")
            else:
                os.unlink(entry.path)
    os.rmdir(folder)

"""Clearing away: processes that slipped out of their group, and folders that somebody made hard to remove."""

from __future__ import annotations

import contextlib
import itertools
import os
import select
import signal
import stat

from holdfast.hosts.sandbox.inside.watching import below


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

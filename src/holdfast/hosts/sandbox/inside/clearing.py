"""Clearing away: processes that slipped out of their group, and folders that somebody made hard to remove."""

from __future__ import annotations

import contextlib
import os
import select
import signal

from holdfast.files import passing
from holdfast.files.removing import remove
from holdfast.hosts import processes


def make_folder() -> str:
    """A folder that is ours as long as this process or one that it forks lives: the kernel keeps a lock on it for just that long."""
    folder = passing.make("sandbox-")
    passing.lock(folder)
    return folder


def sweep(own: str) -> None:
    """Remove what stubs left that were killed and could not."""
    with contextlib.suppress(OSError):
        passing.sweep(own)


def kill_below() -> None:
    """Everything below us, until nothing is left. What forks while it is killed comes to us as an orphan, and is met in the next round."""
    while True:
        todo = processes.children(os.getpid())
        while todo:
            pid = todo.pop()
            with contextlib.suppress(processes.Unreadable):  # when the process is dead, its children become ours
                todo += processes.children(pid)
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        select.select([], [], [], 0.001)


def clear(folder: str) -> None:
    """Remove a folder, whatever a body has made of it."""
    with contextlib.suppress(OSError):
        remove(folder)

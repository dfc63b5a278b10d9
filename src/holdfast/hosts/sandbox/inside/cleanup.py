"""Cleanup: kills processes that left their process group, and removes folders that a body made hard to remove."""

from __future__ import annotations

import contextlib
import os
import select
import signal

from holdfast.files import process_folders
from holdfast.files.removal import remove
from holdfast.hosts import processes


def make_folder() -> str:
    """Make a folder with a kernel lock on it. The lock lasts as long as this process or one of its forks lives."""
    folder = process_folders.make("sandbox-")
    process_folders.lock(folder)
    return folder


def sweep(own: str) -> None:
    """Remove the folders of stubs that were killed. `own` is the folder of this stub; it stays, and so do the folders of living stubs.
    Errors are ignored."""
    with contextlib.suppress(OSError):
        process_folders.sweep(own)


def kill_below() -> None:
    """Kill all descendants of this process until none is left. A process that forks while it is killed leaves an orphan; the next round
    kills it."""
    while True:
        todo = processes.children(os.getpid())
        while todo:
            pid = todo.pop()
            with contextlib.suppress(processes.Unreadable):  # when that process is dead, its children become ours
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
    """Remove a folder, also if a body changed its modes or nested it deeply. Errors are ignored."""
    with contextlib.suppress(OSError):
        remove(folder)

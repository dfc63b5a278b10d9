"""The home of a process: a folder of its own, which no other user of the machine can look into or put anything in.

A home that others may write to runs their code: interpreters and package managers read settings and modules from there before they read
the function. The guard of the process holds the folder and removes it; one that a killed guard left is removed by a later runner.
"""

from __future__ import annotations

import contextlib
import os
import threading

from holdfast.files import passing, private

TEMPORARY = "tmp"
"""Its folder for temporary files, inside."""
_swept = threading.Event()


def make_home() -> str:
    """A new home, empty but for its folder for temporary files."""
    home = passing.make("home-")
    private.own_folder(os.path.join(home, TEMPORARY))
    _sweep_once(home)
    return home


def _sweep_once(home: str) -> None:
    """With the first home of this process. What other processes left may be large, so a thread removes it and no caller waits."""
    if not _swept.is_set():
        _swept.set()
        threading.Thread(target=_sweep, args=(home,), name="holdfast-homes", daemon=True).start()


def _sweep(home: str) -> None:
    with contextlib.suppress(OSError):
        passing.sweep(home)

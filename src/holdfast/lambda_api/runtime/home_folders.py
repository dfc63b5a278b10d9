"""The home folder of a process: no other user of the machine can read it or write to it.

If another user could write to a home, that user's code would run in the process: interpreters and package managers read settings and
modules from the home before they read the function. The guard of the process locks the folder and removes it at the end. If a guard was
killed, a later server removes its folder.
"""

from __future__ import annotations

import contextlib
import os
import threading

from holdfast.files import private, process_folders

TEMPORARY = "tmp"
"""The name of the folder for temporary files inside a home."""
_swept = threading.Event()


def make_home() -> str:
    """Make a new home that contains only its folder for temporary files, and return its path."""
    home = process_folders.make("home-")
    private.own_folder(os.path.join(home, TEMPORARY))
    _sweep_once(home)
    return home


def _sweep_once(home: str) -> None:
    """Remove the homes that killed guards left, once in the life of this server. They may be large, so a thread removes them, and the
    caller does not wait. `home` is the new home, which stays: the others are beside it."""
    if not _swept.is_set():
        _swept.set()
        threading.Thread(target=_sweep, args=(home,), name="holdfast-homes", daemon=True).start()


def _sweep(home: str) -> None:
    with contextlib.suppress(OSError):
        process_folders.sweep(home)

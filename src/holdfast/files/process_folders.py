"""Folders that exist as long as a process. The process locks its folder. If a process was killed, its folder is left, and a later process
removes it.

All these folders of one user lie in one folder of mode 0700, in the machine's folder for temporary files, so no other user can put anything
there. If that one folder cannot be used, for example because another user has taken its name, a new folder is made beside it, and no later
process removes the new folder. The kernel releases a lock when the last process that has it ends, for any reason.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from typing import Final

from holdfast.files.private import FOLDER_FLAGS, open_folder, refuse_shared
from holdfast.files.removal import empty
from holdfast.model.errors import NotPrivate

_YOUNG_SECONDS: Final = 60


def make(prefix: str) -> str:
    """Make a new folder, with `prefix` in its name, and return its path. The caller must `lock` it within a minute, or another process may
    remove it. Raises NotPrivate if other users can replace files in the machine's folder for temporary files."""
    temporary = tempfile.gettempdir()
    refuse_shared(temporary)
    place = f"{temporary}/holdfast-{os.geteuid()}"
    try:
        os.close(open_folder(place))
    except (NotPrivate, OSError):  # another user made it first; then the folder lies beside it, and is never swept
        return tempfile.mkdtemp(prefix=f"holdfast-{prefix}", dir=temporary)
    return tempfile.mkdtemp(prefix=prefix, dir=place)


def lock(folder: str) -> int:
    """Lock a folder, and return its descriptor. While another process has the lock, this waits. `sweep` does not remove the folder as long
    as this process, or a process that it forked, has this descriptor open."""
    at = os.open(folder, FOLDER_FLAGS)
    fcntl.flock(at, fcntl.LOCK_EX)
    return at


def sweep(own: str) -> None:
    """Remove those folders beside `own` that no process has locked: their processes were killed. A folder stays if it was changed less than
    a minute before `own`, or later, because its process may not have locked it yet. A folder that cannot be removed stays, too, and no
    error is raised. Does nothing if the folder around them is not private."""
    made_at = os.stat(own).st_mtime
    parent = os.open(os.path.dirname(own), FOLDER_FLAGS)
    try:
        told = os.fstat(parent)
        if told.st_uid != os.geteuid() or told.st_mode & 0o077:
            return
        for name in os.listdir(parent):
            if name != os.path.basename(own):
                with contextlib.suppress(OSError):
                    _removed(parent, name, made_at)
    finally:
        os.close(parent)


def _removed(parent: int, name: str, made_at: float) -> None:
    at = os.open(name, FOLDER_FLAGS, dir_fd=parent)
    try:
        found = os.fstat(at)
        if found.st_uid == os.geteuid() and made_at - found.st_mtime > _YOUNG_SECONDS:
            fcntl.flock(at, fcntl.LOCK_EX | fcntl.LOCK_NB)
            empty(at)
            os.rmdir(name, dir_fd=parent)
    finally:
        os.close(at)

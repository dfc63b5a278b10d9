"""Where tests put their files: in memory, if the machine lets them.

A store syncs its file at every commit, and a disk makes that most of what a short test costs. The tests of tests/crash stay on the disk:
what they are about lies there.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest

SHARED_MEMORY = Path("/dev/shm")
ENOUGH_BYTES = 4 << 30

_disk = Path(tempfile.gettempdir())
_root: Path | None = None


def disk() -> Path:
    """The folder for temporary files that lies on the disk."""
    return _disk


def for_after_the_run() -> Path | None:
    """The folder for what is still in use when the folder of this run is removed; None for the usual one."""
    return _root


def choose(config: pytest.Config) -> None:
    """Unless the caller of pytest has said where the files of tests go.

    The folder is one that only this run knows. A folder by pytest's own rule is shared with every pytest that begins later, also with one
    that a test starts: each closes it to other users, also while a Postgres of another user works in it.
    """
    if config.option.basetemp:
        return
    own = _in_memory() or Path(tempfile.mkdtemp(prefix="tests-"))
    config.option.basetemp = str(own / "tests")
    config.add_cleanup(lambda: shutil.rmtree(own, ignore_errors=True))


def _in_memory() -> Path | None:
    """A folder in memory, which is that of all temporary files from now on. None if the caller, or an outer run, has said where they go."""
    global _root
    root = SHARED_MEMORY / f"tests-{os.getuid()}"
    if "TMPDIR" in os.environ or not _has_room():
        return None
    with suppress(FileExistsError):
        root.mkdir()
    found = root.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        return None
    root.chmod(0o1777)  # as /tmp: some processes run as other users
    for left in root.iterdir():
        if left.name.isdecimal() and not Path("/proc", left.name).exists():
            shutil.rmtree(left, ignore_errors=True)  # of a run that was killed
    own = root / str(os.getpid())
    own.mkdir()
    own.chmod(0o1777)
    os.environ["TMPDIR"] = str(own)
    tempfile.tempdir = None
    _root = root
    return own


def _has_room() -> bool:
    try:
        found = os.statvfs(SHARED_MEMORY)
    except OSError:
        return False
    return found.f_bavail * found.f_frsize >= ENOUGH_BYTES and not found.f_flag & os.ST_NOEXEC and os.access(SHARED_MEMORY, os.W_OK)

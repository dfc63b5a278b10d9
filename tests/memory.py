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


def disk() -> Path:
    """The folder for temporary files that lies on the disk."""
    return _disk


def choose(config: pytest.Config) -> None:
    """Unless the caller of pytest, or an outer run, has said where files go."""
    if config.option.basetemp or not {"TMPDIR", "PYTEST_DEBUG_TEMPROOT"}.isdisjoint(os.environ) or not _has_room():
        return
    root = SHARED_MEMORY / f"tests-{os.getuid()}"
    with suppress(FileExistsError):
        root.mkdir()
    found = root.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        return
    root.chmod(0o1777)  # as /tmp: some processes run as other users
    for left in root.iterdir():
        if left.name.isdecimal() and not Path("/proc", left.name).exists():
            shutil.rmtree(left, ignore_errors=True)  # of a run that was killed
    own = root / str(os.getpid())
    own.mkdir()
    own.chmod(0o1777)
    os.environ.update(TMPDIR=str(own), PYTEST_DEBUG_TEMPROOT=str(root))
    tempfile.tempdir = None
    config.add_cleanup(lambda: shutil.rmtree(own, ignore_errors=True))


def _has_room() -> bool:
    try:
        found = os.statvfs(SHARED_MEMORY)
    except OSError:
        return False
    return found.f_bavail * found.f_frsize >= ENOUGH_BYTES and not found.f_flag & os.ST_NOEXEC and os.access(SHARED_MEMORY, os.W_OK)

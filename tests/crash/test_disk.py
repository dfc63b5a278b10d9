"""A full disk and a failing one pause the engine: nothing fails, nothing is lost, nothing runs twice, and it goes on by itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.crash.ailing import SECONDS, FailingDisk, outages
from tests.crash.scene import Scene

SMALL = "24m"
ON_SMALL_DISK = 'mount -t tmpfs -o size="$1" none "$2" && shift 2 && exec "$@"'
"""A file system that only these processes see, and that ends with them."""


def in_own_mounts() -> list[str]:
    """The prefix that runs a command with the right to mount, as root or as another user."""
    return ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--mount"]


@pytest.fixture
def small_disk(tmp_path: Path) -> list[str]:
    """The beginning of a command that runs with a small disk at `disk`."""
    (tmp_path / "disk").mkdir()
    begin = [*in_own_mounts(), "sh", "-c", ON_SMALL_DISK, "sh", SMALL, str(tmp_path / "disk")]
    try:
        tried = subprocess.run([*begin, "true"], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("a disk that fills up needs `unshare` (util-linux), which is not on this machine")
    if tried.returncode:
        pytest.skip(f"a disk that fills up needs the right to mount one, as root or in a user namespace: {tried.stderr.strip()}")
    return begin


@pytest.mark.timeout(SECONDS + 60)
def test_a_full_disk_pauses_the_engine_and_costs_nothing_but_time(small_disk: list[str], tmp_path: Path) -> None:
    command = [*small_disk, sys.executable, "-m", "tests.crash.ailing", str(tmp_path), str(tmp_path / "disk")]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    print(ended.stdout)


@pytest.mark.long
@pytest.mark.timeout(SECONDS + 60)
def test_a_failing_disk_pauses_the_engine_and_costs_nothing_but_time(scene: Scene) -> None:
    outages(scene, FailingDisk())

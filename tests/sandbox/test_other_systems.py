"""What the watch of a body does on a system that is not Linux, where the kernel has no table of processes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.hosts.sandbox.inside import kernel
from holdfast.hosts.sandbox.inside.jail_plan import JailPlan
from holdfast.hosts.sandbox.inside.limit_watch import LimitWatch

NO_PROCESS = 2**22 + 1
"""No process of Linux has this id, so there is nothing about it in /proc, as on other systems."""


def test_only_the_scratch_is_watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "LINUX", False)
    plan = JailPlan("", "", [], [], [], [], 64, 1.0, 1, 64, False, 1, "none")
    watch = LimitWatch(NO_PROCESS, plan, str(tmp_path), whole_tree=False, own_network=False)
    assert watch.check() is None
    (tmp_path / "large").write_bytes(os.urandom(2 << 20))
    breach = watch.check()
    assert (breach and breach.code) == "disk_exceeded"

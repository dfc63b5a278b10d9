"""A power cut at any moment loses nothing that was acknowledged: no word leaves the process before the disk has what it tells of."""

from __future__ import annotations

import contextlib
import os
import platform
import random
import sqlite3
import struct
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from holdfast.model.errors import HoldfastError
from holdfast.model.execution import ExecutionStatus, State
from holdfast.model.operations import Status
from holdfast.service.client import Client
from tests.conftest import ROOT
from tests.crash.power import Disk, deeds_in, heard
from tests.crash.recorder import CALLS, Deed
from tests.crash.storm import SEED

CUTS = 60
HEADER, FRAME = 32, 24

pytestmark = pytest.mark.skipif(
    platform.system() != "Linux" or platform.machine() not in CALLS, reason="the recorder knows the system calls of Linux on x86_64 and aarch64"
)


class Story(NamedTuple):
    """What a process did until it was cut off, and the files it left."""

    deeds: Sequence[Deed]
    store: Path

    @property
    def said(self) -> list[dict[str, Any]]:
        """All that was acknowledged."""
        return [heard(deed) for deed in self.deeds if deed.kind == "say"]


def told_by(folder: Path, how: str) -> Story:
    """Run a process of the kind asked for, and record it."""
    store = folder / "disk" / "store.db"
    store.parent.mkdir()
    command = [sys.executable, "-m", "tests.crash.acking", str(store), how]
    recorder = [sys.executable, "-m", "tests.crash.recorder", str(store.parent), str(folder / "record")]
    ended = subprocess.run([*recorder, *command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, f"A container without ptrace? It is needed to see the order of writes and syncs.\n{ended.stderr}"
    return Story(list(deeds_in(folder / "record", str(store.resolve()))), store)


def lost(files: Mapping[str, bytes], said: Iterable[dict[str, Any]], folder: Path) -> list[str]:
    """What is missing of all that was said, when a machine comes up with these files."""
    said = list(said)
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    if not said and "store.db" not in files:
        return []
    try:
        with contextlib.closing(Client.open(str(folder / "store.db"), create=not said)) as client:
            missing = _missing(client, said)
    except HoldfastError as trouble:
        return [f"{trouble.code}: {trouble}"]
    with contextlib.closing(sqlite3.connect(folder / "store.db")) as rows:
        (sound,) = rows.execute("PRAGMA integrity_check").fetchall()
    return missing if sound == ("ok",) else [*missing, str(sound)]


def _missing(client: Client, said: Iterable[dict[str, Any]]) -> list[str]:
    by_execution: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for word in said:
        by_execution[word["x"]].append(word)
    missing = []
    for x, words in by_execution.items():
        try:
            there = client.describe(x)
        except HoldfastError:
            missing += [str(word) for word in words]
            continue
        done = {op.name: op for op in client.operations(x) if op.status is Status.SUCCEEDED}
        for word in words:
            name = word.get("step") or word.get("answered")
            if name is not None and name not in done:
                missing.append(str(word))
            elif "value" in word and done[str(name)].result != _stored(word["value"]):
                missing.append(f"{word} is {done[str(name)].result}")
            elif "result" in word and (there.status, there.state, there.result) != (
                ExecutionStatus.SUCCEEDED,
                State.CLOSED,
                word["result"],
            ):
                missing.append(str(word))
    return missing

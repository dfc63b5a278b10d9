"""A power cut at any moment loses nothing that was acknowledged: no word leaves the process before the disk has what it tells of."""

from __future__ import annotations

import contextlib
import json
import platform
import random
import sqlite3
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from holdfast.descriptions.executions import Description
from holdfast.model.errors import ExecutionNotFound, HoldfastError
from holdfast.model.execution import ExecutionStatus
from holdfast.model.operations import Status
from holdfast.service.client import Client
from tests.conftest import ROOT
from tests.crash.chaos import SEED
from tests.crash.power import Disk, deeds_in, heard
from tests.crash.recorder import CALLS, Deed
from tests.crash.wal import FRAME, frames_of

CUTS = 60

pytestmark = pytest.mark.skipif(
    platform.system() != "Linux" or platform.machine() not in CALLS,
    reason="the recorder knows the system calls of Linux on x86_64 and aarch64",
)


class Story(NamedTuple):
    """What a process did until it was cut off, and the files it left."""

    how: str
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
    return Story(how, list(deeds_in(folder / "record", str(store.resolve()))), store)


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
        except ExecutionNotFound:
            missing += [str(word) for word in words]
            continue
        done = {op.name: op.result for op in client.operations(x) if op.status is Status.SUCCEEDED}
        missing += [str(word) for word in words if not _holds(word, there, done)]
    return missing


def _holds(word: dict[str, Any], there: Description, done: Mapping[str | None, str | None]) -> bool:
    match word:
        case {"step": name, "value": value}:
            return done.get(name) == json.dumps(value)
        case {"answered": name}:
            return name in done
        case {"result": value}:
            return (there.status, there.result) == (ExecutionStatus.SUCCEEDED, value)
        case {"started": function}:
            return there.function == str(function)
        case _:
            raise AssertionError(word)


# --- the order of things -----------------------------------------------------------------------------------------------------


@pytest.fixture(
    scope="module", params=["plain", pytest.param("carrying", marks=pytest.mark.long), pytest.param("handing", marks=pytest.mark.long)]
)
def story(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Story:
    return told_by(tmp_path_factory.mktemp("power"), request.param)


def test_the_record_is_whole(story: Story) -> None:
    """Played to its end it gives the very files that the process left, so nothing that touched them was missed."""
    disk = Disk()
    for deed in story.deeds:
        disk.do(deed)
    for name in ("store.db", "store.db-wal"):
        assert disk.content(name) == (story.store.parent / name).read_bytes()
    assert len(story.said) > 100


def test_the_record_has_what_it_shall_show(story: Story) -> None:
    """One of them carries its WAL over and begins it anew, again and again, while words are said; the others never."""
    first = next(place for place, deed in enumerate(story.deeds) if deed.kind == "say")
    writes = [(Path(deed.path).name, deed.offset) for deed in story.deeds[first:] if deed.kind == "write"]
    carried = [name for name, _ in writes if name == "store.db"]
    assert (len(carried) > 100, writes.count(("store.db-wal", 0)) > 2) == (story.how == "carrying",) * 2


def test_no_acknowledgement_leaves_before_the_disk_has_what_it_tells_of(story: Story, tmp_path: Path) -> None:
    """The power goes at the very moment each word is said, and takes along everything that was not synced."""
    disk, said = Disk(), []
    for place, deed in enumerate(story.deeds):
        disk.do(deed)
        if deed.kind == "say":
            said.append(heard(deed))
            assert lost(disk.after_cut(), said, tmp_path / str(place)) == []


def test_a_power_cut_at_any_moment_leaves_a_store_that_opens_and_holds_all_that_was_acknowledged(story: Story, tmp_path: Path) -> None:
    """Also in the middle of a write, of a sync, and while the WAL is carried over; of what was not synced any sectors are there."""
    chance = random.Random(SEED)
    moments = set(chance.sample(range(len(story.deeds)), CUTS))
    disk, said = Disk(), []
    for place, deed in enumerate(story.deeds):
        disk.do(deed)
        if deed.kind == "say":
            said.append(heard(deed))
        if place in moments:
            assert lost(disk.after_cut(chance), said, tmp_path / str(place)) == [], deed[:5]


def test_a_store_that_does_not_sync_is_found_out(tmp_path: Path) -> None:
    """The same proof, of a process that acknowledges too early: it must fail."""
    disk, said, missing = Disk(), [], []
    for place, deed in enumerate(told_by(tmp_path, "unsynced").deeds):
        disk.do(deed)
        if deed.kind == "say":
            said.append(heard(deed))
            missing += lost(disk.after_cut(), said, tmp_path / str(place))
            if missing:
                return
    pytest.fail("nothing was lost, although nothing was synced")


# --- the WAL, frame by frame -------------------------------------------------------------------------------------------------


def test_a_wal_cut_anywhere_after_the_last_acknowledgement_holds_every_acknowledged_step(tmp_path: Path) -> None:
    """At every boundary between frames, inside a frame's header and inside its page."""
    story = told_by(tmp_path, "plain")
    disk = Disk()
    last = max(place for place, deed in enumerate(story.deeds) if deed.kind == "say")
    for deed in story.deeds[: last + 1]:
        disk.do(deed)
    synced = frames_of(disk.after_cut()["store.db-wal"])[-1].ends
    files = {name: (story.store.parent / name).read_bytes() for name in ("store.db", "store.db-wal")}
    frames = frames_of(files["store.db-wal"])
    assert [frame.commits for frame in frames if frame.ends == synced] == [True], "the last word was said at the end of a commit"
    later = [frame for frame in frames if frame.begins >= synced]
    assert sum(frame.commits for frame in later) >= 3, "too little was written after the last word"
    for number, frame in enumerate(later):
        for place, cut in enumerate((frame.begins, frame.begins + FRAME // 2, (frame.begins + frame.ends) // 2)):
            left = files | {"store.db-wal": files["store.db-wal"][:cut]}
            assert lost(left, story.said, tmp_path / f"{number}.{place}") == [], (frame, cut)
    spoilt = bytearray(files["store.db-wal"])
    spoilt[later[0].begins + FRAME + 7] ^= 1
    assert lost(files | {"store.db-wal": bytes(spoilt)}, story.said, tmp_path / "spoilt") == []
    shorter = files | {"store.db-wal": files["store.db-wal"][: synced - 1]}
    assert lost(shorter, story.said, tmp_path / "shorter"), "a cut before the last word must be noticed"

"""Attacks on what is removed: a link swapped in at any moment leads nowhere."""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
from pathlib import Path

import pytest

from holdfast.files import process_folders
from holdfast.files.removal import remove

_TRIES = 150
_LONG_AGO = 1_000_000_000


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A folder of ours that must not be emptied."""
    folder = tmp_path / "victim"
    (folder / "below").mkdir(parents=True)
    for name in ("precious", "below/more"):
        (folder / name).write_text("precious")
    folder.chmod(0o755)
    return folder


def whole(victim: Path) -> bool:
    return sorted(path.name for path in victim.rglob("*")) == ["below", "more", "precious"] and victim.stat().st_mode & 0o777 == 0o755


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "tmp"
    folder.mkdir()
    folder.chmod(0o1777)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def old(path: Path) -> Path:
    os.utime(path, (_LONG_AGO, _LONG_AGO), follow_symlinks=False)
    return path


def test_sweeping_removes_what_was_left_and_spares_what_is_held_or_young(temporary: Path) -> None:
    own = process_folders.make("sandbox-")
    parent = Path(own).parent
    left, held, young = (Path(process_folders.make(f"sandbox-{name}-")) for name in ("left", "held", "young"))
    (left / "root" / "deep").mkdir(parents=True)
    for folder in (left, held):
        old(folder)
    lock = process_folders.lock(str(held))
    process_folders.sweep(own)
    os.close(lock)
    assert sorted(path.name for path in parent.iterdir()) == sorted(path.name for path in (Path(own), held, young))


def test_sweeping_follows_no_link_that_was_swapped_in_before(temporary: Path, victim: Path) -> None:
    own = process_folders.make("sandbox-")
    old(victim)
    (Path(own).parent / "sandbox-swapped").symlink_to(victim)
    inside = Path(process_folders.make("sandbox-"))
    (inside / "swapped").symlink_to(victim)
    old(inside)
    process_folders.sweep(own)
    assert whole(victim)
    assert not inside.exists()


def test_sweeping_follows_no_link_that_is_swapped_in_meanwhile(temporary: Path, victim: Path) -> None:
    own = process_folders.make("sandbox-")
    parent = Path(own).parent
    link, name = parent / "link", parent / "sandbox-raced"
    aside = parent / "aside"
    over = threading.Event()

    def swap() -> None:
        while not over.is_set():
            with contextlib.suppress(OSError):
                aside.mkdir(exist_ok=True)
                (aside / "file").touch()
                os.utime(aside, (_LONG_AGO, _LONG_AGO))
                os.rename(aside, name)
            with contextlib.suppress(OSError):
                os.symlink(victim, link)
            with contextlib.suppress(OSError):
                os.rename(name, parent / "gone")
                os.rename(link, name)
            for left in (name, parent / "gone", link):
                with contextlib.suppress(OSError):
                    remove(left)

    swapping = threading.Thread(target=swap)
    swapping.start()
    try:
        for _ in range(_TRIES):
            old(victim)
            process_folders.sweep(own)
    finally:
        over.set()
        swapping.join()
    assert whole(victim)


def test_removing_follows_no_link_that_is_swapped_in_meanwhile(tmp_path: Path, victim: Path) -> None:
    over, top, link = threading.Event(), tmp_path / "top", tmp_path / "link"

    def swap() -> None:
        while not over.is_set():
            with contextlib.suppress(OSError):
                link.symlink_to(victim)
            with contextlib.suppress(OSError):
                os.rename(top / "a" / "b", tmp_path / "aside")
                os.rename(link, top / "a" / "b")
            with contextlib.suppress(OSError):
                remove(tmp_path / "aside")

    swapping = threading.Thread(target=swap)
    swapping.start()
    try:
        for number in range(_TRIES):
            (tmp_path / f"new-{number}" / "a" / "b" / "c").mkdir(parents=True)
            with contextlib.suppress(OSError):
                os.rename(tmp_path / f"new-{number}", top)
            with contextlib.suppress(OSError):
                remove(top)
    finally:
        over.set()
        swapping.join()
    assert whole(victim)


def test_a_link_is_removed_and_not_what_it_leads_to(tmp_path: Path, victim: Path) -> None:
    (tmp_path / "link").symlink_to(victim)
    remove(tmp_path / "link")
    remove(tmp_path / "nothing")
    assert whole(victim)
    assert not (tmp_path / "link").is_symlink()


def test_a_folder_is_removed_however_deep_and_closed_it_is(tmp_path: Path) -> None:
    top = tmp_path / "top"
    top.mkdir()
    at = os.open(top, os.O_RDONLY)
    for _ in range(300):  # deeper than a path can be long
        os.mkdir("deeper-than-a-path", dir_fd=at)
        below = os.open("deeper-than-a-path", os.O_RDONLY, dir_fd=at)
        os.fchmod(at, 0)
        os.close(at)
        at = below
    os.close(at)
    remove(top)
    assert not top.exists()


def test_another_users_folder_of_that_name_is_not_used(temporary: Path, victim: Path) -> None:
    (temporary / f"holdfast-{os.geteuid()}").symlink_to(victim)
    made = Path(process_folders.make("sandbox-"))
    process_folders.sweep(str(made))
    assert made.parent == temporary
    assert made.stat().st_mode & 0o777 == 0o700
    assert whole(victim)

"""What we keep is ours alone: made private whatever the umask, narrowed when it is wider, refused when it is another's."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.files import private
from holdfast.model.errors import NotPrivate
from holdfast.store.backends import open_store

UNPRIVILEGED = 65534


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.fixture(params=[0o000, 0o022, 0o077, 0o277], ids="umask {:03o}".format)
def umask(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def test_what_is_made_is_private_whatever_the_umask(umask: int, tmp_path: Path) -> None:
    private.own_folder(tmp_path / "own")
    private.given_folder(tmp_path / "own" / "a" / "b")
    os.close(private.open_file(tmp_path / "own" / "lock"))
    private.write_new(tmp_path / "own" / "new", b"x")
    os.close(private.new_file(tmp_path / "own" / "program", executable=True))
    private.reserve(tmp_path / "own" / "store.db")
    assert [mode(tmp_path / "own" / name) for name in (".", "a", "a/b", "program")] == [0o700] * 4
    assert [mode(tmp_path / "own" / name) for name in ("lock", "new", "store.db")] == [0o600] * 3


def test_a_store_and_what_lies_beside_it_are_private_whatever_the_umask(umask: int, tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "holdfast.db"), "here")
    try:
        found = {path.name: mode(path) for path in [*tmp_path.iterdir(), *(tmp_path / "holdfast.db-holdfast").iterdir()]}
    finally:
        store.close()
    assert {"holdfast.db", "holdfast.db-wal", "holdfast.db-shm", "holdfast.db-holdfast", "here.alive", "next", "turn"} <= found.keys()
    assert {name: held for name, held in found.items() if held not in (0o600, 0o700)} == {}
    assert found["holdfast.db-holdfast"] == 0o700


def test_a_wider_store_of_ours_is_narrowed_with_one_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    where = tmp_path / "holdfast.db"
    open_store(str(where), "first").close()
    where.chmod(0o644)
    (tmp_path / "holdfast.db-holdfast").chmod(0o755)
    caplog.set_level(logging.WARNING, "holdfast.files")
    open_store(str(where), "second").close()
    assert [mode(where), mode(tmp_path / "holdfast.db-holdfast")] == [0o600, 0o700]
    assert [record.getMessage().count("holdfast.db (was 0644)") for record in caplog.records].count(1) == 1
    caplog.clear()
    open_store(str(where), "third").close()
    assert caplog.records == []


def test_narrowing_a_store_that_is_open_does_not_take_its_locks(tmp_path: Path) -> None:
    """A thread that closes a descriptor of a locked file takes the locks of the whole process away."""
    where = tmp_path / "holdfast.db"
    first = open_store(str(where), "first")
    try:
        where.chmod(0o644)
        held = Path("/proc/locks").read_text().count(f":{where.stat().st_ino} ")
        second = open_store(str(where), "second")
        second.close()
        assert mode(where) == 0o600
        assert Path("/proc/locks").read_text().count(f":{where.stat().st_ino} ") >= held > 0
    finally:
        first.close()


def test_a_folder_that_is_not_ours_keeps_its_mode(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    theirs.chmod(0o755)
    private.given_folder(theirs / "new")
    open_store(str(theirs / "holdfast.db"), "here").close()
    assert [mode(theirs), mode(theirs / "new")] == [0o755, 0o700]


def test_a_link_in_the_place_of_a_file_or_folder_is_refused_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "victims").mkdir(mode=0o755)
    (tmp_path / "file").symlink_to(tmp_path / "victim")
    (tmp_path / "folder").symlink_to(tmp_path / "victims")
    (tmp_path / "new.db").symlink_to(tmp_path / "nowhere.db")
    attempts: list[Callable[[], object]] = [
        lambda: private.open_file(tmp_path / "file"),
        lambda: private.own_folder(tmp_path / "folder"),
        lambda: private.reserve(tmp_path / "new.db"),
        lambda: private.narrow([tmp_path / "file"]),
        lambda: open_store(str(tmp_path / "new.db"), "here"),
    ]
    for attempt in attempts:
        with pytest.raises(NotPrivate, match="is a symbolic link"):
            attempt()
    with pytest.raises(FileExistsError):
        private.new_file(tmp_path / "file")
    assert (tmp_path / "victim").read_text() == "precious"
    assert mode(tmp_path / "victims") == 0o755
    assert not (tmp_path / "nowhere.db").exists()


def test_a_pipe_in_the_place_of_a_file_is_refused_and_keeps_nobody_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "lock")
    with pytest.raises((NotPrivate, OSError)):
        private.open_file(tmp_path / "lock", os.O_WRONLY)
    with pytest.raises(NotPrivate, match="neither a file nor a folder"):
        private.open_file(tmp_path / "lock")


def test_a_folder_in_which_others_may_replace_files_is_refused_with_the_command_that_mends_it(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    for attempt in (lambda: open_store(str(shared / "holdfast.db"), "here"), lambda: private.given_folder(shared / "artifacts")):
        with pytest.raises(NotPrivate, match=rf"Run `chmod o-w {shared}`"):
            attempt()
    assert list(shared.iterdir()) == []
    shared.chmod(0o1777)
    open_store(str(shared / "holdfast.db"), "here").close()


def test_a_folder_of_a_group_is_refused_when_others_are_in_the_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o770)
    monkeypatch.setattr(private, "_others_in", lambda group: "")
    private.refuse_shared(tmp_path)
    monkeypatch.setattr(private, "_others_in", lambda group: "eve")
    with pytest.raises(NotPrivate, match=r"user eve may replace.*chmod g-w"):
        private.refuse_shared(tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a file of another user")
def test_a_store_of_another_user_is_refused_for_root_too_and_left_as_it_is(tmp_path: Path) -> None:
    where = tmp_path / "holdfast.db"
    open_store(str(where), "first").close()
    where.chmod(0o644)
    os.chown(where, UNPRIVILEGED, UNPRIVILEGED)
    before = where.read_bytes()
    with pytest.raises(NotPrivate, match=rf"belongs to the user \S+, and this process runs as root.*sudo chown -R root {where}"):
        open_store(str(where), "second")
    assert (where.read_bytes(), mode(where), sorted(path.name for path in tmp_path.iterdir())) == (
        before, 0o644, ["holdfast.db", "holdfast.db-holdfast"],
    )  # fmt: skip


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a folder of another user")
def test_a_folder_of_another_user_in_the_place_of_ours_is_refused(tmp_path: Path) -> None:
    (tmp_path / "holdfast.db-holdfast").mkdir(mode=0o777)
    os.chown(tmp_path / "holdfast.db-holdfast", UNPRIVILEGED, UNPRIVILEGED)
    with pytest.raises(NotPrivate, match="belongs to the user"):
        open_store(str(tmp_path / "holdfast.db"), "here")


def test_another_programs_database_is_refused_before_its_mode_is_changed(tmp_path: Path) -> None:
    import sqlite3

    where = tmp_path / "other.db"
    other = sqlite3.connect(where)
    other.execute("CREATE TABLE mine (x)")
    other.close()
    where.chmod(0o644)
    with pytest.raises(Exception, match="not a Holdfast store"):
        open_store(str(where), "here")
    assert mode(where) == 0o644

"""A store that another user made up, or that is damaged where it speaks of itself, is refused in words; no link beside it is followed."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
from pathlib import Path

import pytest

from holdfast.model.errors import NotPrivate, StoreBroken, StoreUnsuitable
from holdfast.store.backends import open_maintenance, open_store
from holdfast.store.schema_migrations import number

UNPRIVILEGED = 65534


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "holdfast.db"
    open_store(str(path), "maker").close()
    return path


def plant(file: Path, key: str, value: object) -> None:
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("UPDATE meta SET value = ? WHERE key = ?", (value, key))


@pytest.mark.parametrize("least", [b"\xff\xfe", b"", "many", "9" * 5000, -5, 1.5, "١"])
def test_a_number_of_a_schema_that_is_none_is_damage(file: Path, least: object) -> None:
    plant(file, "least", least)
    with pytest.raises(StoreBroken, match="is not a valid number of a schema"):
        open_store(str(file), "reader")


def test_code_that_is_older_than_the_least_is_refused_whatever_the_version_says(file: Path) -> None:
    plant(file, "least", 999)
    with pytest.raises(StoreUnsuitable, match="may be used by code of version 999 or newer"):
        open_store(str(file), "reader")


@pytest.mark.parametrize("seal", ["a text", 5, b"", b"short"])
def test_a_store_without_its_seal_is_damaged(file: Path, seal: object) -> None:
    plant(file, "seal", seal)
    with pytest.raises(StoreBroken, match="it has no valid seal"):
        open_store(str(file), "reader")


@pytest.mark.parametrize("beside", ["-wal", "-shm", "-journal"])
def test_a_link_in_the_place_of_a_file_beside_the_store_is_refused_and_not_followed(file: Path, tmp_path: Path, beside: str) -> None:
    precious = tmp_path / "precious"
    precious.write_text("precious")
    link = Path(f"{file}{beside}")
    link.unlink(missing_ok=True)
    link.symlink_to(precious)
    with pytest.raises(NotPrivate, match="is a symbolic link"):
        open_store(str(file), "reader")
    assert precious.read_text() == "precious"


def forged(file: Path, folder: Path) -> bytes:
    """A write-ahead log that SQLite takes for the newest part of a store: its seal is known to the user who wrote the log."""
    folder.mkdir()
    copy = folder / "copy.db"
    shutil.copy(file, copy)
    with contextlib.closing(sqlite3.connect(copy, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("UPDATE meta SET value = zeroblob(32) WHERE key = 'seal'")
        return Path(f"{copy}-wal").read_bytes()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a file to another user")
def test_a_log_of_another_user_beside_the_store_is_never_read_as_part_of_it(tmp_path: Path) -> None:
    """In a folder such as /tmp every user may make a file that is not there. SQLite, run by root, took it over and kept its pages."""
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o1777)
    file = folder / "holdfast.db"
    open_store(str(file), "maker").close()
    before, log = file.read_bytes(), Path(f"{file}-wal")
    log.write_bytes(forged(file, tmp_path / "forge"))
    os.chown(log, UNPRIVILEGED, UNPRIVILEGED)
    with pytest.raises(NotPrivate, match=r"holdfast\.db-wal was made by the user \w+.* Remove it"):
        open_store(str(file), "reader")
    assert file.read_bytes() == before
    assert log.stat().st_uid == UNPRIVILEGED, "and left as it is"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a file to another user")
def test_a_log_of_another_user_beside_a_copy_is_not_restored(file: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    keeping = open_maintenance(str(file), "keeper")
    keeping.backup(copy, replace=False)
    log = Path(f"{copy}-wal")
    log.write_bytes(forged(copy, tmp_path / "forge"))
    os.chown(log, UNPRIVILEGED, UNPRIVILEGED)
    before = file.read_bytes()
    with pytest.raises(NotPrivate, match=r"copy\.db-wal was made by the user \w+"):
        keeping.restore(copy)
    assert file.read_bytes() == before


def test_a_file_with_a_second_name_beside_the_store_is_refused(file: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_bytes(b"")
    os.link(other, f"{file}-journal")
    with pytest.raises(NotPrivate, match="has a second name"):
        open_store(str(file), "reader")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a folder to another user")
@pytest.mark.parametrize("mode", [0o755, 0o1777])
def test_a_store_in_a_folder_of_another_user_is_refused(tmp_path: Path, mode: int) -> None:
    """Who owns a folder may replace what is in it, also where it is sticky."""
    folder = tmp_path / "theirs"
    folder.mkdir()
    os.chown(folder, UNPRIVILEGED, UNPRIVILEGED)
    folder.chmod(mode)
    with pytest.raises(NotPrivate, match=r"belongs to the user \w+, who may replace files in it"):
        open_store(str(folder / "holdfast.db"), "maker")
    assert list(folder.iterdir()) == []


def test_a_copy_is_not_made_where_others_may_replace_files(file: Path, tmp_path: Path) -> None:
    """SQLite writes it by its name: who put a link in its place would have read all of the store."""
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(NotPrivate, match="chmod o-w"):
        open_maintenance(str(file), "keeper").backup(folder / "copy.db", replace=False)
    assert list(folder.iterdir()) == []


def test_numbers_are_numbers() -> None:
    assert (number(8), number("8")) == (8, 8)

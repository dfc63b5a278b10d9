"""A store that another user made up, or that is damaged where it speaks of itself, is refused in words; no link beside it is followed."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import pytest

from holdfast.model.errors import NotPrivate, StoreBroken, StoreUnsuitable
from holdfast.store.migrating import number
from holdfast.store.opening import open_store


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
    with pytest.raises(StoreBroken, match="is no number of a schema"):
        open_store(str(file), "reader")


def test_code_that_is_older_than_the_least_is_refused_whatever_the_version_says(file: Path) -> None:
    plant(file, "least", 999)
    with pytest.raises(StoreUnsuitable, match="may be used by code of version 999 or newer"):
        open_store(str(file), "reader")


@pytest.mark.parametrize("seal", ["a text", 5, b"", b"short"])
def test_a_store_without_its_seal_is_damaged(file: Path, seal: object) -> None:
    plant(file, "seal", seal)
    with pytest.raises(StoreBroken, match="it has no seal"):
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


def test_numbers_are_numbers() -> None:
    assert (number(8), number("8")) == (8, 8)

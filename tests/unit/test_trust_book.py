"""The record of trusted folders: by real path, one folder at a time, private, and refused when another user could write it."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from holdfast.operator.trust import TrustBook, TrustRefused, configuration_folder


@pytest.fixture
def book(tmp_path: Path) -> TrustBook:
    return TrustBook(tmp_path / "configuration" / "holdfast")


def made(tmp_path: Path, name: str) -> Path:
    folder = tmp_path / name
    folder.mkdir(parents=True)
    return folder


def test_the_users_folder_is_where_the_desktop_standard_says() -> None:
    assert configuration_folder({"XDG_CONFIG_HOME": "/x", "HOME": "/h"}) == Path("/x/holdfast")
    assert configuration_folder({"XDG_CONFIG_HOME": "not/absolute", "HOME": "/h"}) == Path("/h/.config/holdfast")
    assert configuration_folder({"HOME": "/h"}) == Path("/h/.config/holdfast")


def test_a_folder_is_trusted_by_its_real_path_and_until_it_is_removed(book: TrustBook, tmp_path: Path) -> None:
    folder = made(tmp_path, "worker")
    (tmp_path / "way").symlink_to(folder)
    assert not book.trusts(folder)
    assert book.add(tmp_path / "way") == folder
    assert book.trusts(folder)
    assert book.folders() == [folder]
    assert book.remove(folder)
    assert not book.remove(folder)
    assert book.folders() == []


def test_folders_in_a_trusted_folder_are_not_trusted_with_it_nor_is_the_one_above(book: TrustBook, tmp_path: Path) -> None:
    inner = made(tmp_path, "home/downloads")
    book.add(tmp_path / "home")
    assert [book.trusts(inner), book.trusts(tmp_path)] == [False, False]


def test_a_link_that_leads_elsewhere_later_is_not_trusted(book: TrustBook, tmp_path: Path) -> None:
    first, second = made(tmp_path, "first"), made(tmp_path, "second")
    link = tmp_path / "current"
    link.symlink_to(first)
    book.add(link)
    link.unlink()
    link.symlink_to(second)
    assert not book.trusts(link)


def test_the_record_is_for_its_owner_alone(book: TrustBook, tmp_path: Path) -> None:
    folder = made(tmp_path, "worker")
    before = os.umask(0)
    try:
        book.add(folder)
    finally:
        os.umask(before)
    assert [stat.S_IMODE(path.stat().st_mode) for path in (book.file.parent, book.file)] == [0o700, 0o600]
    assert [path.name for path in book.file.parent.iterdir()] == ["trusted.json"]


def test_two_at_once_are_both_recorded(book: TrustBook, tmp_path: Path) -> None:
    folders = [made(tmp_path, f"worker-{number}") for number in range(8)]
    threads = [threading.Thread(target=TrustBook(book.file.parent).add, args=(folder,)) for folder in folders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert book.folders() == folders


def test_a_folder_that_others_could_change_is_not_recorded(book: TrustBook, tmp_path: Path) -> None:
    folder = made(tmp_path, "open")
    folder.chmod(0o777)
    with pytest.raises(TrustRefused, match="is writable by all users"):
        book.add(folder)
    assert not book.trusts(folder)


def test_a_record_that_others_could_write_trusts_nothing(book: TrustBook, tmp_path: Path) -> None:
    folder = made(tmp_path, "worker")
    book.add(folder)
    book.file.chmod(0o666)
    with pytest.raises(TrustRefused, match="Another user could change the record"):
        book.trusts(folder)


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"format": "holdfast-trust/2", "folders": []}', '{"format": "holdfast-trust/1", "folders": [1]}']
)
def test_a_damaged_record_is_told_and_trusts_nothing(book: TrustBook, tmp_path: Path, text: str) -> None:
    folder = made(tmp_path, "worker")
    book.add(folder)
    book.file.write_text(text)
    with pytest.raises(TrustRefused, match="is damaged"):
        book.trusts(folder)

"""Snapshots: what a body gets to see of a worker's folder."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from holdfast.hosts.sandbox.snapshot import gather, intact, snapshot
from holdfast.model.errors import InvalidParameter


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "shop" / "deep").mkdir(parents=True)
    (folder / ".hidden").mkdir()
    (folder / "notes").mkdir()
    files = {
        "refund.py": "import shop", "beside.py": "", "refund-worker.md": "# page", ".env": "KEY=1", "holdfast.db": "store",
        "notes/todo.py": "", "shop/__init__.py": "", "shop/prices.py": "", "shop/deep/__init__.py": "", "shop/deep/more.py": "",
        "shop/rates.csv": "1", ".hidden/x.py": "",
    }  # fmt: skip
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


def test_a_module_brings_its_neighbours_and_nothing_that_is_not_code(project: Path) -> None:
    found = gather(project / "refund.py", page=project / "refund-worker.md")
    code = ["beside.py", "refund.py", "shop/__init__.py", "shop/deep/__init__.py", "shop/deep/more.py", "shop/prices.py"]
    assert sorted(found) == sorted([*code, "refund-worker.md"])


def test_a_module_of_a_package_brings_the_package(project: Path) -> None:
    assert sorted(gather(project / "shop" / "deep" / "more.py")) == [
        "shop/__init__.py", "shop/deep/__init__.py", "shop/deep/more.py", "shop/prices.py",
    ]  # fmt: skip


def test_tests_stay_behind(project: Path) -> None:
    before = set(gather(project / "refund.py"))
    for name in ("test_refund.py", "refund_test.py", "conftest.py"):
        (project / name).write_text("")
    assert set(gather(project / "refund.py")) == before
    assert set(gather(project / "test_refund.py")) == before | {"test_refund.py"}


def test_more_files_come_by_name(project: Path) -> None:
    assert "shop/rates.csv" in gather(project / "refund.py", include=["shop/*.csv"])


@pytest.mark.parametrize("pattern", ["../*", "/etc/passwd", "none-*"])
def test_what_is_included_lies_in_the_folder(project: Path, pattern: str) -> None:
    with pytest.raises(InvalidParameter, match="include"):
        gather(project / "refund.py", include=[pattern])


def test_a_link_does_not_lead_out(project: Path, tmp_path: Path) -> None:
    (tmp_path / "outside.py").write_text("secret")
    (project / "way.py").symlink_to(tmp_path / "outside.py")
    with pytest.raises(InvalidParameter, match="link"):
        gather(project / "refund.py")


def test_the_same_code_is_the_same_folder_and_other_code_another(project: Path, tmp_path: Path) -> None:
    first = snapshot(gather(project / "refund.py"), tmp_path / "kept")
    assert snapshot(gather(project / "refund.py"), tmp_path / "kept") == first
    (project / "beside.py").write_text("changed")
    second = snapshot(gather(project / "refund.py"), tmp_path / "kept")
    assert second != first
    assert (first / "beside.py").read_text() == ""
    assert [len(path.name) for path in (tmp_path / "kept").iterdir()] == [64, 64]


def test_a_snapshot_is_read_only(project: Path, tmp_path: Path) -> None:
    made = snapshot(gather(project / "refund.py"), tmp_path / "kept")
    modes = {stat.S_IMODE(path.stat().st_mode) for path in [made, *made.rglob("*")]}
    assert modes == {0o444, 0o555}


def test_a_snapshot_that_somebody_changed_is_made_anew(project: Path, tmp_path: Path) -> None:
    made = snapshot(gather(project / "refund.py"), tmp_path / "kept")
    os.chmod(made, 0o755)
    (made / "extra.py").write_text("hostile")
    assert snapshot(gather(project / "refund.py"), tmp_path / "kept") == made
    assert not (made / "extra.py").exists()
    assert (made / "refund.py").read_text() == "import shop"


def test_names_and_contents_cannot_be_confused(tmp_path: Path) -> None:
    for name, text in (("one", "bc"), ("other", "c")):
        (tmp_path / name).write_text(text)
    assert snapshot({"a": tmp_path / "one"}, tmp_path / "kept") != snapshot({"ab": tmp_path / "other"}, tmp_path / "kept")


def test_a_link_in_the_place_of_a_snapshot_changes_nothing_of_the_folder_it_leads_to(tmp_path: Path) -> None:
    """The author of a worker's folder knows the hash of its code, and may have left such a link beside it."""
    module, elsewhere, into = tmp_path / "shop.py", tmp_path / "elsewhere", tmp_path / "packages"
    module.write_text("price = 1\n")
    (elsewhere / "__pycache__").mkdir(parents=True)
    elsewhere.chmod(0o755)
    into.mkdir()
    hashed = snapshot(gather(module), tmp_path / "first").name
    (into / hashed).symlink_to(elsewhere)
    kept = snapshot(gather(module), into)
    assert (elsewhere.stat().st_mode & 0o777, (elsewhere / "__pycache__").is_dir()) == (0o755, True)
    assert not kept.is_symlink()
    assert intact(kept)


def test_a_snapshot_with_a_link_or_a_pipe_in_it_is_not_what_was_made(tmp_path: Path) -> None:
    module, elsewhere = tmp_path / "shop.py", tmp_path / "elsewhere"
    module.write_text("price = 1\n")
    (elsewhere / "__pycache__").mkdir(parents=True)
    kept = snapshot(gather(module), tmp_path / "packages")
    assert intact(kept)
    kept.chmod(0o700)
    (kept / "more").symlink_to(elsewhere)  # a folder that no hash speaks of
    assert not intact(kept)
    (kept / "more").unlink()
    os.mkfifo(kept / "pipe")
    assert not intact(kept)
    (kept / "pipe").unlink()
    assert intact(kept)
    aside = tmp_path / "packages" / "aside"
    kept.rename(aside)
    kept.symlink_to(aside)
    assert not intact(kept)


def test_a_pipe_or_a_folder_that_is_named_like_a_module_is_none(tmp_path: Path) -> None:
    package = tmp_path / "shop"
    (package / "folder.py").mkdir(parents=True)
    for name in ("__init__.py", "work.py"):
        (package / name).write_text("")
    os.mkfifo(package / "pipe.py")
    assert sorted(gather(package / "work.py")) == ["shop/__init__.py", "shop/work.py"]


@pytest.mark.parametrize("swapped", ["data/rates.csv", "data"])
def test_a_link_that_is_put_in_place_after_the_look_brings_nothing_from_elsewhere(tmp_path: Path, swapped: str) -> None:
    folder, private = tmp_path / "shop", tmp_path / "private"
    for each in (folder / "data", private):
        each.mkdir(parents=True)
        (each / "rates.csv").write_text(each.name)
    (folder / "work.py").write_text("")
    found = gather(folder / "work.py", include=["data/*.csv"])
    (folder / swapped).rename(tmp_path / "aside")
    (folder / swapped).symlink_to(private / swapped.removeprefix("data").removeprefix("/"))
    with pytest.raises((OSError, InvalidParameter)):
        snapshot(found, tmp_path / "packages")

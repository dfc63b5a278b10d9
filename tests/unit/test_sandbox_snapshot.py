"""Snapshots: what a body gets to see of a worker's folder."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from holdfast.hosts.sandbox.snapshot import gather, snapshot
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

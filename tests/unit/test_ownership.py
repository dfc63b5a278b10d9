"""Whether another user could change what runs from a folder. Where root runs the tests, files really belong to a second user."""

from __future__ import annotations

import grp
import os
import pwd
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.operator import folder_ownership
from holdfast.operator.folder_ownership import faults_of

ANOTHER = 54321


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "above" / "worker"
    made.mkdir(parents=True)
    (made / "worker.py").write_text("")
    return made


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Gives a path to another user: really where root runs the tests, else by what `stat` says of it."""
    taken: set[Path] = set()
    plain = Path.stat

    def told(path: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        found = plain(path, follow_symlinks=follow_symlinks)
        return os.stat_result((*found[:4], ANOTHER, *found[5:])) if path in taken else found

    def give(path: Path) -> None:
        if os.geteuid() == 0:
            os.chown(path, ANOTHER, -1)
        else:
            taken.add(path)
            monkeypatch.setattr(Path, "stat", told)

    return give


def test_a_folder_of_ones_own_is_fit(folder: Path) -> None:
    assert faults_of(folder, [folder / "worker.py"]) == []


@pytest.mark.parametrize("name", ["", "worker.py", ".."])
def test_what_everybody_may_write_is_named_with_its_cure(folder: Path, name: str) -> None:
    path = (folder / name).resolve()
    path.chmod(path.stat().st_mode | stat.S_IWOTH)
    assert faults_of(folder, [folder / "worker.py"]) == [f"{path} is writable by all users (chmod o-w {path})"]


@pytest.mark.parametrize("name", ["", "worker.py", ".."])
def test_what_belongs_to_another_user_is_named(folder: Path, given: Callable[[Path], None], name: str) -> None:
    path = (folder / name).resolve()
    given(path)
    (fault,) = faults_of(folder, [folder / "worker.py"])
    assert fault.startswith(f"{path} belongs to ")


def test_a_sticky_folder_above_will_do_since_others_cannot_rename_what_is_in_it(folder: Path) -> None:
    folder.parent.chmod(0o1777)
    assert faults_of(folder) == []
    folder.chmod(0o1777)  # in the folder itself others could add a module
    assert len(faults_of(folder)) == 1


def test_a_group_may_write_only_where_the_user_is_alone_in_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.chmod(0o775)
    monkeypatch.setattr(folder_ownership, "_group_of_one", lambda path, gid: False)
    assert faults_of(folder) == [f"{folder} is writable by its group (chmod g-w {folder})"]
    monkeypatch.setattr(folder_ownership, "_group_of_one", lambda path, gid: True)
    assert faults_of(folder) == []


def test_a_group_with_another_member_or_another_name_is_not_the_users_own(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    user = pwd.getpwuid(os.geteuid())

    class Group:
        gr_name, gr_mem = user.pw_name, [user.pw_name]

    monkeypatch.setattr(grp, "getgrgid", lambda gid: Group)
    assert folder_ownership._group_of_one(folder, user.pw_gid)
    assert not folder_ownership._group_of_one(folder, user.pw_gid + 1)
    Group.gr_mem = [user.pw_name, "eve"]
    assert not folder_ownership._group_of_one(folder, user.pw_gid)
    Group.gr_mem, Group.gr_name = [], "staff"
    assert not folder_ownership._group_of_one(folder, user.pw_gid)


def test_a_list_of_further_users_on_a_file_makes_its_group_bits_say_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    user = pwd.getpwuid(os.geteuid())

    class Group:
        gr_name, gr_mem = user.pw_name, [user.pw_name]

    monkeypatch.setattr(grp, "getgrgid", lambda gid: Group)
    monkeypatch.setattr(os, "listxattr", lambda path: ["system.posix_acl_access"], raising=False)
    assert not folder_ownership._group_of_one(folder, user.pw_gid)


def test_a_link_is_judged_by_where_it_leads(folder: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "shared.py").write_text("")
    outside.chmod(0o777)
    (folder / "shared.py").symlink_to(outside / "shared.py")
    assert faults_of(folder, [folder / "shared.py"]) == [f"{outside} is writable by all users (chmod o-w {outside})"]

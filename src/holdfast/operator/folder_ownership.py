"""Ownership: whether another user of this machine, besides root, could change the code in a folder.

All folders above it are checked too, because a user who can rename one of them can put another folder in its place. The check is repeated
at every use. After a folder has passed the check, only this user and root can change it.
"""

from __future__ import annotations

import grp
import os
import pwd
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

_ACCESS_LIST: Final = "system.posix_acl_access"


def faults_of(folder: Path, files: Iterable[Path] = ()) -> list[str]:
    """The reasons why another user could change this folder or these files, each with a remedy, if there is one; empty if no other user
    can."""
    folder = folder.resolve()
    inside = {folder}
    real = sorted({file.resolve() for file in files})
    for file in real:
        inside |= {above for above in file.parents if above.is_relative_to(folder)} if file.is_relative_to(folder) else {file.parent}
    above = {parent for each in inside for parent in each.parents} - inside
    faults = [fault for path in sorted(above) for fault in _faults(path, sticky_will_do=True)]
    faults += [fault for path in (*sorted(inside), *real) for fault in _faults(path, sticky_will_do=False)]
    return faults


def _faults(path: Path, *, sticky_will_do: bool) -> Iterator[str]:
    try:
        found = path.stat()
    except OSError as error:
        yield f"{path} cannot be read: {error.strerror}"
        return
    if found.st_uid not in (0, os.geteuid()):
        yield f"{path} belongs to {_user(found.st_uid)} (chown it, or copy it to a folder of your own)"
    # In a sticky folder, such as /tmp, a user may add entries but cannot rename or remove those of another user.
    if sticky_will_do and found.st_mode & stat.S_ISVTX:
        return
    if found.st_mode & stat.S_IWOTH:
        yield f"{path} is writable by all users (chmod o-w {path})"
    elif found.st_mode & stat.S_IWGRP and not _group_of_one(path, found.st_gid):
        yield f"{path} is writable by its group (chmod g-w {path})"


def _group_of_one(path: Path, gid: int) -> bool:
    """Whether the group of a file is the private group of this user. On many systems each user has a private group, and new files are
    writable by it.

    Returns False for a file with an access control list: its group bits then count for all users of the list, not only for the group.
    """
    try:
        user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(gid)
    except KeyError:
        return False
    alone = gid == user.pw_gid and group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}
    return alone and not _has_access_list(path)


def _has_access_list(path: Path) -> bool:
    if not hasattr(os, "listxattr"):
        return False
    try:
        return _ACCESS_LIST in os.listxattr(path)
    except OSError:
        return False


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"the user {uid}"

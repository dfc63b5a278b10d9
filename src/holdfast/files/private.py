"""Makes and opens private files and folders: files of mode 0600, folders of mode 0700, with any umask.

The rules. A new file is private from its first moment: it gets its mode when it is created, not later. If other users have rights on an
existing file of this user, these rights are removed, and a line in the log says so. Refused are a file of another user, a symbolic link,
and a folder in which other users can replace files; the error says what to do. A folder that the operator named is not changed if it
exists.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import logging
import os
import stat
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from holdfast.model.errors import NotPrivate

log = logging.getLogger("holdfast.files")

FILE: Final = 0o600
FOLDER: Final = 0o700
PROGRAM: Final = 0o700
"""The mode of a private file that its owner may execute."""
FOLDER_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE_FLAGS: Final = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
"""The flags with which files are opened. O_NONBLOCK: if a named pipe has taken the place of a file, opening it must not wait for ever."""
_LINKED: Final = frozenset({errno.ELOOP, errno.EMLINK, errno.ENOTDIR})
_ROOT: Final = 0
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_LINUX: Final = sys.platform == "linux"
_AS_GIVEN: Final = ("/dev/", "/proc/self/fd/")
_IN_MEMORY: Final = "/dev/shm/"
"""A folder below /dev/ whose files are ordinary files, not devices."""

Where = str | os.PathLike[str]


# --- files


def new_file(path: Where, *, executable: bool = False) -> int:
    """Create a private file. Returns its descriptor, open for reading and writing. Raises FileExistsError if something has this path
    already. `executable`: whether the owner may execute it."""
    mode = PROGRAM if executable else FILE
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    _widen(fd, mode)
    return fd


def write_new(path: Where, data: bytes) -> None:
    """Create a private file with this content, and sync it to disk. Raises FileExistsError if something has this path already."""
    with os.fdopen(new_file(path), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def open_file(path: Where, flags: int = os.O_RDWR) -> int:
    """Open a private file by its path, with these flags of `os.open`, and return its descriptor. A missing file is made. If other users
    have rights on the file, these rights are removed. Raises NotPrivate if it is a link, a pipe or a device, if it belongs to another user,
    or if these rights cannot be removed. Raises OSError instead if the system refuses to open it, for example a file that only another user
    may open."""
    fd = _made_or_opened(path, flags | _FILE_FLAGS)
    try:
        _refuse_foreign(os.fstat(fd), path)
        _narrow(fd, path)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _made_or_opened(path: Where, flags: int) -> int:
    while True:
        try:
            fd = os.open(path, flags | os.O_CREAT | os.O_EXCL, FILE)
        except FileExistsError:
            pass
        else:
            _widen(fd, FILE)
            return fd
        try:
            return os.open(path, flags)
        except FileNotFoundError:
            continue  # another process removed it meanwhile
        except OSError as error:
            raise _explained(error, path) from None


def read_file(path: Where) -> bytes | None:
    """The content of a private file; None if nothing has this path. If other users have rights on the file, these rights are removed first.
    Raises NotPrivate if it is a link, a pipe or a device, if it belongs to another user, or if these rights cannot be removed. Raises
    OSError instead if the system refuses to open it, for example a file that only another user may open."""
    try:
        fd = os.open(path, os.O_RDONLY | _FILE_FLAGS)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _explained(error, path) from None
    with os.fdopen(fd, "rb") as file:
        _refuse_foreign(os.fstat(fd), path)
        _narrow(fd, path)
        return file.read()


def open_given(path: Where, flags: int) -> int:
    """Open a file whose path the operator gave; return its descriptor. Two kinds are opened without any check, and their rights are not
    changed: a path below /dev/ or /proc/self/fd/ (but not below /dev/shm/), and a named pipe of this user (the call may wait until another
    process opens the pipe, too). Any other file is opened with `open_file`."""
    name = os.fspath(path)
    if (name.startswith(_AS_GIVEN) and not name.startswith(_IN_MEMORY)) or _is_our_pipe(path):
        return os.open(path, flags | os.O_CLOEXEC)
    return open_file(path, flags)


def _is_our_pipe(path: Where) -> bool:
    try:
        told = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISFIFO(told.st_mode) and told.st_uid == os.geteuid()


# --- a store's files, which only SQLite opens: a process that closes another descriptor of such a file loses SQLite's locks on it


def reserve(path: Where) -> None:
    """Make a private file, if nothing has this path, before SQLite opens it by its path. Raises NotPrivate if the path is a link, a pipe, a
    device or another user's file, or if other users can replace files in its folder.

    An existing file is not changed, because it is not known yet whether it is a store. If the file cannot be made, nothing is raised here:
    SQLite will report why.
    """
    folder = os.path.dirname(os.path.abspath(path))
    if os.path.isdir(folder):
        refuse_shared(folder)
    try:
        _make_unopened(path)
    except FileExistsError:
        told = os.lstat(path)
        if not stat.S_ISDIR(told.st_mode):
            _refuse_foreign(told, path)
    except OSError:
        return


def reserve_beside(paths: Iterable[Where]) -> list[Where]:
    """Make the files that SQLite uses beside a store, before SQLite opens the store. Returns the paths that were made. If one cannot be
    made, those after it are not made either. Raises NotPrivate if such a file exists and is not a plain file of this user with only one
    name.

    In a folder such as /tmp every user may make a file that does not exist yet. SQLite would read a log of another user as the newest part
    of the store. If root runs SQLite, SQLite changes the owner of such a file to root, so that nothing shows afterwards who made it. SQLite
    also writes through a link.
    """
    made: list[Where] = []
    for path in paths:
        try:
            _make_unopened(path)
            made.append(path)
        except FileExistsError:
            with contextlib.suppress(FileNotFoundError):  # another process closed the store and removed it
                refuse_foreign(path)
        except OSError:
            break  # the file cannot be made here; SQLite will say why
    return made


def remove_empty(paths: Iterable[Where]) -> None:
    """Remove those of these files that are empty. Errors are ignored."""
    for path in paths:
        with contextlib.suppress(OSError):
            if os.lstat(path).st_size == 0:
                os.unlink(path)


def refuse_foreign(path: Where, owner: int | None = None) -> None:
    """Raise NotPrivate unless the path is a plain file with only one name that belongs to the user with the id `owner` (None: to this
    user). Raises FileNotFoundError if nothing has this path."""
    told, name = os.lstat(path), os.fspath(path)
    if stat.S_ISLNK(told.st_mode):
        raise _link(path)
    if not stat.S_ISREG(told.st_mode):
        raise NotPrivate(f"{name} is not a regular file. SQLite would read it as a part of the store. Remove it.")
    if told.st_uid != (os.geteuid() if owner is None else owner):
        raise NotPrivate(
            f"{name} was made by the user {_named(told.st_uid)}, who is not the owner of the store. "
            "SQLite would read it as the newest part of the store. Remove it."
        )
    if told.st_nlink > 1:
        raise NotPrivate(f"{name} has a second name (a hard link), so it may be a part of something else. Remove it.")


def _make_unopened(path: Where) -> None:
    if not _LINUX:
        os.close(new_file(path))
        return
    os.mknod(path, FILE | stat.S_IFREG)
    _change_unopened(path, FILE)  # a umask may take the owner's rights away, too


def narrow(paths: Iterable[Where]) -> None:
    """Remove the rights of other users from these files. A missing file is skipped. Raises NotPrivate if a path is a link, a pipe or a
    device, if its file belongs to another user, or if the rights cannot be removed."""
    wide = []
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            told = os.lstat(path)
            _refuse_foreign(told, path)
            mode = stat.S_IMODE(told.st_mode)
            if mode & _OTHERS:
                _change_unopened(path, mode & stat.S_IRWXU)
                _check_narrow(os.lstat(path), path)
                wide.append(f"{os.fspath(path)} (was {mode:04o})")
    _tell(wide)


def _change_unopened(path: Where, mode: int) -> None:
    """Change the mode of a private file without opening it. If a link has replaced the file meanwhile, the link is not followed."""
    if not _LINUX:
        os.chmod(path, mode, follow_symlinks=False)
        return
    handle = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        _refuse_foreign(os.fstat(handle), path)
        os.chmod(f"/proc/self/fd/{handle}", mode)
    finally:
        os.close(handle)


# --- folders


def own_folder(path: Where) -> None:
    """Make sure that a folder exists whose name Holdfast chose, and that only this user has rights on it. Raises the errors of
    `open_folder`."""
    os.close(open_folder(path))


def open_folder(path: Where) -> int:
    """Make sure that a folder exists whose name Holdfast chose, and that only this user has rights on it; return its descriptor, which
    stays that of this folder even if the folder is renamed. Raises NotPrivate if it is a link, if it belongs to another user, if the rights
    of other users cannot be removed, or if other users can replace files in the folder above it. Raises OSError if it cannot be made or
    opened, for example because it is a file, or a folder that only another user may open."""
    refuse_shared(os.path.dirname(os.path.abspath(path)))
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, FOLDER)
    try:
        fd = os.open(path, FOLDER_FLAGS)
    except OSError as error:
        raise _explained(error, path) from None
    try:
        _refuse_foreign(os.fstat(fd), path)
        _widen(fd, FOLDER)
        _narrow(fd, path)
    except BaseException:
        os.close(fd)
        raise
    return fd


def given_folder(path: Where) -> None:
    """Make sure that a folder exists whose path the operator gave. If it is missing, it is made private, and so is every missing folder
    above it. An existing folder is not changed. Raises NotPrivate if other users can replace files in the deepest folder of the path that
    existed before. Raises NotADirectoryError if a part of the path is a file."""
    place = Path(path)
    missing = []
    while not place.exists():
        missing.append(place)
        place = place.parent
    if not place.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(place))
    refuse_shared(place)
    for folder in reversed(missing):
        own_folder(folder)


def refuse_shared(folder: Where) -> None:
    """Raise NotPrivate if other users (except root) can replace files of this user in this folder. In a folder such as /tmp (with the
    sticky bit) they cannot."""
    told = os.stat(folder)
    if told.st_uid not in (os.geteuid(), _ROOT):
        theirs, ours = _named(told.st_uid), _named(os.geteuid())
        raise NotPrivate(
            f"The folder {os.fspath(folder)} belongs to the user {theirs}, who may replace files in it, and this process runs as {ours}. "
            f"Run this as that user (`sudo -u {theirs} …`), or use a folder of your own."
        )
    if told.st_mode & stat.S_ISVTX:
        return  # in a sticky folder a user can replace only files of that user
    if told.st_mode & stat.S_IWOTH:
        raise NotPrivate(
            f"Every user may replace files in {os.fspath(folder)}. Run `chmod o-w {os.fspath(folder)}`, or use another folder."
        )
    if told.st_mode & stat.S_IWGRP and (others := _others_in(told.st_gid)):
        raise NotPrivate(
            f"The user {others} may replace files in {os.fspath(folder)}, through its group. "
            f"Run `chmod g-w {os.fspath(folder)}`, or use another folder."
        )


@functools.lru_cache
def _others_in(group: int) -> str:
    """The name of one user in this group who is neither this user nor root; empty if there is no such user, so that the group's rights give
    other users nothing."""
    import grp
    import pwd

    us = {os.geteuid(), _ROOT}
    others = {user.pw_name for user in pwd.getpwall() if user.pw_gid == group and user.pw_uid not in us}
    try:
        members = grp.getgrgid(group).gr_mem
    except KeyError:
        members = []
    ours = {user.pw_name for user in pwd.getpwall() if user.pw_uid in us}
    return min(others | (set(members) - ours), default="")


# --- what they share


def _refuse_foreign(told: os.stat_result, path: Where) -> None:
    name = os.fspath(path)
    if stat.S_ISLNK(told.st_mode):
        raise _link(path)
    if not stat.S_ISREG(told.st_mode) and not stat.S_ISDIR(told.st_mode):
        raise NotPrivate(f"{name} is neither a file nor a folder. Remove it, or use another path.")
    if told.st_uid != os.geteuid():
        theirs, ours = _named(told.st_uid), _named(os.geteuid())
        raise NotPrivate(
            f"{name} belongs to the user {theirs}, and this process runs as {ours}. Only one user of the machine may use it. "
            f"Run this as that user (`sudo -u {theirs} …`), or change its owner with `sudo chown -R {ours} {name}*`."
        )


def _named(user: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"#{user}"


def _link(path: Where) -> NotPrivate:
    name = os.fspath(path)
    return NotPrivate(
        f"{name} is a symbolic link, and links are not followed here. Name {os.path.realpath(name)} itself, or remove the link."
    )


def _explained(error: OSError, path: Where) -> Exception:
    return _link(path) if error.errno in _LINKED and os.path.islink(path) else error


def _narrow(fd: int, path: Where) -> None:
    """Remove the rights of all users but the owner; the owner's rights stay as they are. `path` is for the messages."""
    mode = stat.S_IMODE(os.fstat(fd).st_mode)
    if mode & _OTHERS:
        os.fchmod(fd, mode & stat.S_IRWXU)
        _check_narrow(os.fstat(fd), path)
        _tell([f"{os.fspath(path)} (was {mode:04o})"])


def _check_narrow(told: os.stat_result, path: Where) -> None:
    if told.st_mode & _OTHERS:
        raise NotPrivate(f"{os.fspath(path)} cannot be kept from other users: its file system does not keep permissions. Use another disk.")


def _tell(wide: list[str]) -> None:
    if wide:
        log.warning("other users could read or write %s; from now on only the user that runs Holdfast can", ", ".join(wide))


def _widen(fd: int, mode: int) -> None:
    """If the owner lacks a right in `mode`, set the mode to `mode`: a umask may have taken rights away when the file was made."""
    found = stat.S_IMODE(os.fstat(fd).st_mode)
    if found & mode != mode:
        os.fchmod(fd, mode)

"""Makes and opens private files and folders: files of mode 0600, folders of mode 0700, with any umask.

The rules. A new file is private from its first moment: it gets its mode at creation, not later. If other users have rights on a file of
this user, these rights are removed, with one line in the log. A file that belongs to another user or is a symbolic link is refused. So is a
folder in which other users can replace files. The error says what to do. A folder that the operator named is not changed if it exists.
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
"""The mode of a file that can be executed."""
FOLDER_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE_FLAGS: Final = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
"""O_NONBLOCK is among these flags, because without it the opening of a named pipe in the place of a file would block for ever."""
_LINKED: Final = frozenset({errno.ELOOP, errno.EMLINK, errno.ENOTDIR})
_ROOT: Final = 0
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_LINUX: Final = sys.platform == "linux"
_AS_GIVEN: Final = ("/dev/", "/proc/self/fd/")
_IN_MEMORY: Final = "/dev/shm/"
"""Files here are ordinary files, not devices."""

Where = str | os.PathLike[str]


# --- files


def new_file(path: Where, *, executable: bool = False, dir_fd: int | None = None) -> int:
    """Create a file. Returns its descriptor, open for reading and writing. Raises FileExistsError if there is something with this name."""
    mode = PROGRAM if executable else FILE
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=dir_fd)
    _widen(fd, mode)
    return fd


def write_new(path: Where, data: bytes, *, dir_fd: int | None = None) -> None:
    """Create a file with this content, and sync it to disk. Raises FileExistsError if there is something with this name."""
    with os.fdopen(new_file(path, dir_fd=dir_fd), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def open_file(path: Where, flags: int = os.O_RDWR) -> int:
    """Open a private file by its name, and return its descriptor. A missing file is made. If other users have rights on the file, these are
    removed. Raises NotPrivate if it is a link, a pipe or a device, or belongs to another user."""
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
    """The content of a private file; None if there is no such file. If other users have rights on the file, these are removed. Raises
    NotPrivate if it is a link, a pipe or a device, or belongs to another user."""
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
    """Open a file that the operator named, as `open_file` does. A path below /dev/ or /proc/self/fd/ (but not /dev/shm/), and a named pipe
    of this user, is opened without the checks of `open_file`, and its rights are not changed."""
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
    """Make a private file, if it does not exist, before SQLite opens it by its name. Raises NotPrivate for a link, for another user's file,
    and for a folder in which other users can replace files.

    An existing file is not changed, because it is not known yet whether it is a store. If the file cannot be made, nothing is raised here:
    SQLite reports why.
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
    """Make the files that SQLite uses beside a store, before SQLite opens the store. Returns the paths that were made. Raises NotPrivate if
    such a file exists and is not a plain file of this user.

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
    """Raise NotPrivate unless this is a plain file of this user (or of the user id `owner`) with only one name."""
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
    """Remove the rights of other users from these files. A missing file is skipped. Raises NotPrivate for a link and for another user's
    file."""
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
    """Change the mode of a private file without opening it, and without following a link that may have replaced it."""
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
    """Make sure that a folder exists whose name Holdfast chose, and that only this user has rights on it. Raises NotPrivate for a link, for
    another user's folder, and if other users can replace files in the folder above it."""
    os.close(open_folder(path))


def open_folder(path: Where) -> int:
    """As `own_folder`; returns the folder's descriptor. Everything that uses this descriptor happens in this folder, even if its name
    changes."""
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
    """Make sure that a folder exists that the operator named. Missing folders are made private, with all missing folders above. An existing
    folder is not changed. Raises NotPrivate if other users can replace files in the lowest folder of the path that exists. Raises
    NotADirectoryError if a part of the path is a file."""
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
    """Raise NotPrivate for a folder in which other users can replace files."""
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
    """The name of a user in this group besides this user and root; empty if there is none. A group without other users is as private as its
    only user."""
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
    """Remove the rights of other users; the owner's rights stay as they are."""
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
    """Give the owner the rights in `mode`, which a umask may have taken away."""
    found = stat.S_IMODE(os.fstat(fd).st_mode)
    if found & mode != mode:
        os.fchmod(fd, mode)

"""The processes that share one file: a sign of life that ends with its process, and whether this process is alone.

Each store that a process has open holds a `flock` on a file of its own. The kernel frees the lock when the process ends for any reason, so
a restart need not wait until a lease runs out.

A process may have the store open more than once: `holdfast serve` opens it for its runner and for its console. The stores of one process
take turns with locks in memory. A process that is alone takes no lock file before a write.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from holdfast.files import private
from holdfast.store.sqlite.turnstile import FileGate, MemoryGate, Turnstile

_ALIVE: Final = ".alive"
_COMING: Final = ".coming"

_open_files: weakref.WeakSet[Presence] = weakref.WeakSet()
_registry = threading.RLock()
"""Held while a thread reads or changes `_open_files`: another thread may open or close a store at the same moment."""


class _Process:
    """What the stores of this process that have the same file open share."""

    def __init__(self) -> None:
        self.turnstile = Turnstile(MemoryGate(), MemoryGate())
        self.is_alone = False
        self.folder_changed_at = 0
        """The time of the folder before `is_alone` was found out; 0: it must be found out again."""


class Presence:
    """A store's sign of life, and its turns to write."""

    def __init__(self, folder: Path, member: str) -> None:
        private.own_folder(folder)
        self._folder = folder
        self._place = os.path.realpath(folder)  # used before every write, where a Path would be slow
        self.member = member
        self._mine = self._locked(member)
        self._gates = FileGate(folder / "next"), FileGate(folder / "turn")
        self._turnstile = Turnstile(*self._gates)
        with _registry:
            beside = self._of_this_process()
            self._process: _Process = beside[0]._process if beside else _Process()
            _open_files.add(self)

    @property
    def alone(self) -> bool:
        """Whether no other process had the file open when this process last looked."""
        return self._process.is_alone

    def _locked(self, member: str) -> int:
        """Create this process's file under a temporary name, lock it, and then rename it, so that it never looks like the file of a dead
        process. Returns its file descriptor."""
        passing = self._folder / f"{member}{_COMING}"
        while True:
            fd = private.open_file(passing)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                passing.rename(self._folder / f"{member}{_ALIVE}")
            except (BlockingIOError, FileNotFoundError):
                os.close(fd)  # another process found the file before it was locked, and removes it
            else:
                return fd

    def living(self) -> set[str]:
        """The members that have the store open now. This call also removes the files of processes that have ended, and finds out whether
        this process is alone."""
        changed_at, living = os.stat(self._place).st_mtime_ns, set()
        own = {presence.member for presence in self._of_this_process()}
        for entry in self._folder.iterdir():
            if entry.suffix not in (_ALIVE, _COMING):
                continue
            if entry.stem not in own and not self._is_held(entry):
                entry.unlink(missing_ok=True)
            elif entry.suffix == _ALIVE:
                living.add(entry.stem)
        with _registry:
            self._process.is_alone, self._process.folder_changed_at = living <= own, changed_at
        return living

    def doubt(self) -> None:
        """Look for other processes again before the next write: another store has written, and the time of the folder may be too coarse to
        show that its process is new."""
        self._process.folder_changed_at = 0

    def _of_this_process(self) -> list[Presence]:
        with _registry:
            return [presence for presence in _open_files if presence._place == self._place]

    @staticmethod
    def _is_held(path: Path) -> bool:
        try:
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        else:
            return False
        finally:
            os.close(fd)

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for this store's turn to write: first among the stores of this process, and then, unless this process is alone, among the
        processes. A process that was alone looks again if another file has appeared in the folder."""
        with self._process.turnstile.passed():
            if self.alone and os.stat(self._place).st_mtime_ns != self._process.folder_changed_at:
                self.living()
            if self.alone:
                yield
            else:
                with self._turnstile.passed():
                    yield

    def close(self) -> None:
        """Remove this process's file and release the locks. Does nothing at the second call, and in a forked child."""
        if self not in _open_files:
            return
        (self._folder / f"{self.member}{_ALIVE}").unlink(missing_ok=True)
        self._forget()

    def _forget(self) -> None:
        for fd in (self._mine, *(gate.fd for gate in self._gates)):
            with contextlib.suppress(OSError):
                os.close(fd)
        with _registry:
            _open_files.discard(self)


def holders(folder: Path) -> dict[str, int | None]:
    """The members that have the store open, by name, each with its process id; None if the system does not tell the id. The caller must not
    have a sign of life of its own in this folder: it would be among them."""
    found: dict[str, int | None] = {}
    for entry in sorted(folder.glob(f"*{_ALIVE}")):
        if Presence._is_held(entry):
            found[entry.stem] = _process_of(entry)
    return found


def _process_of(path: Path) -> int | None:
    """The id of the process that has locked a file, by /proc/locks; None if that is not known."""
    try:
        info, locks = os.stat(path), Path("/proc/locks").read_bytes().split(b"\n")
    except OSError:
        return None
    file = f"{os.major(info.st_dev):02x}:{os.minor(info.st_dev):02x}:{info.st_ino}".encode()
    for line in locks:
        words = line.split()
        if len(words) > 5 and words[1] == b"FLOCK" and words[5] == file and words[4].isdigit():
            return int(words[4]) or None
    return None


def _close_in_child() -> None:
    # Otherwise a forked child (the subprocess of a step, for example) would keep the locks of its parent after the parent has ended.
    for presence in list(_open_files):
        presence._forget()
    _registry.release()


os.register_at_fork(before=_registry.acquire, after_in_parent=_registry.release, after_in_child=_close_in_child)

"""The processes that share one file: fair turns to write, and a sign of life that ends with its process.

SQLite's own locks keep the file correct, but they are not fair. Two lock files make a turnstile: a process takes `next`, takes `turn`, and
drops `next`. A process that waits for its turn holds `next`, so a process that has just written must wait behind it. A process waits at
most a quarter of a second for each lock, and then writes without it: so a process that is stopped while it holds a lock (SIGSTOP, a
debugger) does not block the others. In that case the turns are not fair, but the file stays correct.

A process that is alone takes neither lock file. It may have the store open more than once: `holdfast serve` opens the store for its runner
and for its console. Then the stores of the process share a turnstile of two locks in memory.

Each process that has the store open holds a `flock` on a file of its own. The kernel frees the lock when the process ends for any reason,
so a restart need not wait until a lease runs out.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from holdfast.files import private
from holdfast.model.clock import monotonic

_PATIENCE_SECONDS: Final = 0.25
_PAUSE_SECONDS: Final = 0.0005
"""While a process waits for the lock, it tries to take it again after this many seconds. The pauses do not grow: otherwise the process that
has waited longest would try least often, and might never get a turn."""

_ALIVE: Final = ".alive"
_COMING: Final = ".coming"

_open_files: weakref.WeakSet[Presence] = weakref.WeakSet()
_registry = threading.RLock()
"""Held while a thread reads or changes `_open_files`: another thread may open or close a store at the same moment."""


class _Gate:
    """A lock file for which a process waits, but only for a short time."""

    def __init__(self, path: Path) -> None:
        self.fd = private.open_file(path)
        self._stuck = False
        """Whether the last wait ended without the lock. Then this process does not wait here again until it has found the lock free
        once."""

    def enter(self) -> bool:
        """Take the lock. Waits at most a quarter of a second for it; does not wait if the last wait was in vain. Returns whether this
        process has the lock now."""
        if self._taken():
            self._stuck = False
            return True
        if self._stuck:
            return False
        until = monotonic() + _PATIENCE_SECONDS
        while monotonic() < until:
            select.select((), (), (), _PAUSE_SECONDS)
            if self._taken():
                return True
        self._stuck = True
        return False

    def _taken(self) -> bool:
        try:
            fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def leave(self) -> None:
        """Release the lock. Does nothing if this process does not have it."""
        fcntl.flock(self.fd, fcntl.LOCK_UN)


class _TurnInProcess:
    """A context manager that gives the stores of one process fair turns to write. A thread may enter it again."""

    def __init__(self) -> None:
        self._next, self._turn = threading.RLock(), threading.RLock()

    def __enter__(self) -> None:
        with self._next:
            self._turn.acquire()

    def __exit__(self, *failure: object) -> None:
        self._turn.release()


class Presence:
    """A store's sign of life, and the two lock files that give the processes fair turns to write."""

    def __init__(self, folder: Path, member: str) -> None:
        private.own_folder(folder)
        self._folder = folder
        self._place = os.path.realpath(folder)  # used before every write, where a Path would be slow
        self.member = member
        self._mine = self._locked(member)
        self._next = _Gate(folder / "next")
        self._turn = _Gate(folder / "turn")
        self.alone = False
        self._folder_changed_at = 0
        with _registry:
            beside = self._of_this_process()
            self._turn_in_process: _TurnInProcess = beside[0]._turn_in_process if beside else _TurnInProcess()
            _open_files.add(self)

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
        """The members that have the store open now. This call also removes the files of processes that have ended. It sets `alone` to
        whether all members are of this process."""
        living = set()
        self._folder_changed_at = os.stat(self._place).st_mtime_ns
        for entry in self._folder.iterdir():
            if entry.suffix not in (_ALIVE, _COMING):
                continue
            if entry.stem != self.member and not self._is_held(entry):
                entry.unlink(missing_ok=True)
            elif entry.suffix == _ALIVE:
                living.add(entry.stem)
        self.alone = living == {presence.member for presence in self._of_this_process()}
        return living

    def doubt(self) -> None:
        """Look for other processes again before the next write: another store has written, and the time of the folder may be too coarse to
        show that its process is new."""
        self._folder_changed_at = 0

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

    def turn(self) -> contextlib.AbstractContextManager[None]:
        """A context manager that waits for this store's turn to write. A process that is alone waits only for its own stores, until another
        file appears in the folder."""
        if self.alone and os.stat(self._place).st_mtime_ns != self._folder_changed_at:
            self.living()
        return self._turn_in_process if self.alone else self._awaited_turn()

    @contextlib.contextmanager
    def _awaited_turn(self) -> Iterator[None]:
        """Wait at most a quarter of a second for the lock `next`, and then as long for the lock `turn`. During the `with` block the process
        holds `turn` alone, or, if it did not get `turn`, the lock `next` or none."""
        waiting = self._next.enter()
        try:
            # A process that got only one of the two locks keeps it while it writes: then that lock is the turnstile.
            if self._turn.enter() and waiting:
                self._next.leave()
                waiting = False
            yield
        finally:
            self._turn.leave()
            if waiting:
                self._next.leave()

    def close(self) -> None:
        """Remove this process's file and release the locks. Does nothing at the second call, and in a forked child."""
        if self not in _open_files:
            return
        (self._folder / f"{self.member}{_ALIVE}").unlink(missing_ok=True)
        self._forget()

    def _forget(self) -> None:
        for fd in (self._mine, self._next.fd, self._turn.fd):
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

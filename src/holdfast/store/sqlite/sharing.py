"""Sharing one file between processes: fair turns, and a sign of life that the kernel takes away at death.

SQLite's own locks keep the file right; they do not keep it fair. Two lock files make a turnstile: take `next`, take `turn`, drop
`next`. Whoever waits holds `next`, so the one that just wrote queues behind it. A process that is alone skips all of it.

Each process that has the store open holds a `flock` on a file of its own. The kernel frees it when the process ends, however it
ends, so a restart need not wait for a lease to run out.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import weakref
from collections.abc import Iterator
from pathlib import Path

_open_files: weakref.WeakSet[Presence] = weakref.WeakSet()


class Presence:
    """This process among those that have the store open."""

    def __init__(self, folder: Path, member: str) -> None:
        folder.mkdir(exist_ok=True)
        self._folder = folder
        self.member = member
        self._mine = self._locked(member)
        self._next = os.open(folder / "next", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._turn = os.open(folder / "turn", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self.alone = False
        self._folder_changed_at = 0
        _open_files.add(self)

    def _locked(self, member: str) -> int:
        """Create the file under a passing name and lock it before it can be seen, so that nobody takes it for a dead one."""
        passing = self._folder / f".{member}"
        fd = os.open(passing, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        passing.rename(self._folder / f"{member}.alive")
        return fd

    def living(self) -> set[str]:
        """Everybody who has the store open now; files that the dead left are removed. Also learns whether we are alone."""
        living = set()
        self._folder_changed_at = self._folder.stat().st_mtime_ns
        for entry in self._folder.glob("*.alive"):
            if entry.stem == self.member or self._is_held(entry):
                living.add(entry.stem)
            else:
                entry.unlink(missing_ok=True)
        self.alone = living == {self.member}
        return living

    @staticmethod
    def _is_held(path: Path) -> bool:
        try:
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
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
        """Wait for our turn to write, and let the next one in afterwards. Who is alone need not wait, until a file appears here."""
        if self.alone and self._folder.stat().st_mtime_ns != self._folder_changed_at:
            self.living()
        if self.alone:
            yield
            return
        fcntl.flock(self._next, fcntl.LOCK_EX)
        try:
            fcntl.flock(self._turn, fcntl.LOCK_EX)
        finally:
            fcntl.flock(self._next, fcntl.LOCK_UN)
        try:
            yield
        finally:
            fcntl.flock(self._turn, fcntl.LOCK_UN)

    def close(self) -> None:
        """Go, and take our file along. Only once: the numbers of closed files are given to others, and a forked child has no part in it."""
        if self not in _open_files:
            return
        (self._folder / f"{self.member}.alive").unlink(missing_ok=True)
        self._forget()

    def _forget(self) -> None:
        for fd in (self._mine, self._next, self._turn):
            with contextlib.suppress(OSError):
                os.close(fd)
        _open_files.discard(self)


def _close_in_child() -> None:
    # A forked child (a step body's subprocess, say) would keep its parent's locks alive after the parent's death.
    for presence in list(_open_files):
        presence._forget()


os.register_at_fork(after_in_child=_close_in_child)

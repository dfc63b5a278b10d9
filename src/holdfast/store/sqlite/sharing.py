"""Sharing one file between processes: fair turns, and a sign of life that the kernel takes away at death.

SQLite's own locks keep the file right; they do not keep it fair. Two lock files make a turnstile: take `next`, take `turn`, drop
`next`. Whoever waits holds `next`, so the one that just wrote queues behind it. A process that is alone skips all of it. Nobody waits
for long: a process may be stopped in the turnstile (SIGSTOP, a debugger), and then the others go around it. That costs fairness and
nothing else.

Each process that has the store open holds a `flock` on a file of its own. The kernel frees it when the process ends, however it
ends, so a restart need not wait for a lease to run out.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from holdfast.files import private
from holdfast.model.clock import monotonic

_PATIENCE_SECONDS: Final = 0.25
_PAUSE_SECONDS: Final = 0.0005
"""Always the same, so that whoever came last is not served first: pauses that grow would starve the one that has waited longest."""

_ALIVE: Final = ".alive"
_COMING: Final = ".coming"

_open_files: weakref.WeakSet[Presence] = weakref.WeakSet()


class _Gate:
    """A lock file that is waited for, but not for ever."""

    def __init__(self, path: Path) -> None:
        self.fd = private.open_file(path)
        self._stuck = False
        """Waited for in vain: nobody waits here again before it was seen free once."""

    def enter(self) -> bool:
        """Whether we have it now."""
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
        """Let somebody else in; without effect for one who has it not."""
        fcntl.flock(self.fd, fcntl.LOCK_UN)


class Presence:
    """This process among those that have the store open."""

    def __init__(self, folder: Path, member: str) -> None:
        private.own_folder(folder)
        self._folder = folder
        self._place = str(folder)  # asked about before every write, and a Path would take its time
        self.member = member
        self._mine = self._locked(member)
        self._next = _Gate(folder / "next")
        self._turn = _Gate(folder / "turn")
        self.alone = False
        self._folder_changed_at = 0
        _open_files.add(self)

    def _locked(self, member: str) -> int:
        """Create the file under a passing name and lock it before it counts, so that nobody takes it for a dead one."""
        passing = self._folder / f"{member}{_COMING}"
        while True:
            fd = private.open_file(passing)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                passing.rename(self._folder / f"{member}{_ALIVE}")
            except (BlockingIOError, FileNotFoundError):
                os.close(fd)  # somebody saw it before it was locked, and is removing it
            else:
                return fd

    def living(self) -> set[str]:
        """Everybody who has the store open now; files that the dead left are removed. Also learns whether we are alone."""
        living = set()
        self._folder_changed_at = os.stat(self._place).st_mtime_ns
        for entry in self._folder.iterdir():
            if entry.suffix not in (_ALIVE, _COMING):
                continue
            if entry.stem != self.member and not self._is_held(entry):
                entry.unlink(missing_ok=True)
            elif entry.suffix == _ALIVE:
                living.add(entry.stem)
        self.alone = living == {self.member}
        return living

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
        """Wait for our turn to write, and let the next one in afterwards. Who is alone need not wait, until a file appears here."""
        if self.alone and os.stat(self._place).st_mtime_ns != self._folder_changed_at:
            self.living()
        if self.alone:
            yield
            return
        waiting = self._next.enter()
        try:
            # Who has only one of the two keeps it while it writes: then that one is the turnstile.
            if self._turn.enter() and waiting:
                self._next.leave()
                waiting = False
            yield
        finally:
            self._turn.leave()
            if waiting:
                self._next.leave()

    def close(self) -> None:
        """Go, and take our file along. Only once: the numbers of closed files are given to others, and a forked child has no part in it."""
        if self not in _open_files:
            return
        (self._folder / f"{self.member}{_ALIVE}").unlink(missing_ok=True)
        self._forget()

    def _forget(self) -> None:
        for fd in (self._mine, self._next.fd, self._turn.fd):
            with contextlib.suppress(OSError):
                os.close(fd)
        _open_files.discard(self)


def holders(folder: Path) -> dict[str, int | None]:
    """The holders that have the store open now, each with its process id where the system tells it. The caller must not have it open."""
    found: dict[str, int | None] = {}
    for entry in sorted(folder.glob(f"*{_ALIVE}")):
        if Presence._is_held(entry):
            found[entry.stem] = _process_of(entry)
    return found


def _process_of(path: Path) -> int | None:
    """Who holds the lock of a file, if the system tells."""
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
    # A forked child (a step body's subprocess, say) would keep its parent's locks alive after the parent's death.
    for presence in list(_open_files):
        presence._forget()


os.register_at_fork(after_in_child=_close_in_child)

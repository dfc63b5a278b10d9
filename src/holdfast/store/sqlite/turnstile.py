"""The turnstile: fair turns to write one file. SQLite's own locks keep the file correct, but they are not fair.

A turnstile has two gates. A writer takes `next`, takes `turn`, and drops `next`. A writer that waits for its turn holds `next`, so a writer
that has just written must wait behind it. A writer waits at most a quarter of a second for each gate, and then writes without it: so a
process that is stopped while it holds a gate (SIGSTOP, a debugger) does not block the others. In that case the turns are not fair, but the
file stays correct.

The processes that use a file have lock files as gates, and the stores of one process have locks in memory.
"""

from __future__ import annotations

import contextlib
import fcntl
import select
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Protocol

from holdfast.files import private
from holdfast.model.clock import monotonic

_PATIENCE_SECONDS: Final = 0.25
_PAUSE_SECONDS: Final = 0.0005
"""While a process waits for the lock, it tries to take it again after this many seconds. The pauses do not grow: otherwise the process that
has waited longest would try least often, and might never get a turn."""


class WriterGate(Protocol):
    """A lock for which a writer waits, but only for a short time."""

    def enter(self) -> bool:
        """Take the lock, and wait at most a quarter of a second for it. Returns whether the caller has the lock now."""
        ...

    def leave(self) -> None:
        """Release the lock, which the caller has."""
        ...


class FileGate:
    """A lock file, for which processes wait. A process that has waited in vain does not wait again until it has found the lock free."""

    def __init__(self, path: Path) -> None:
        self.fd = private.open_file(path)
        self._stuck = False
        """Whether the last wait ended without the lock."""

    def enter(self) -> bool:
        """Take the lock, and wait at most a quarter of a second for it. Returns whether this process has the lock now."""
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
        """Release the lock, which this process has."""
        fcntl.flock(self.fd, fcntl.LOCK_UN)


class MemoryGate:
    """A lock in memory, for which the threads of one process wait."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def enter(self) -> bool:
        """Take the lock, and wait at most a quarter of a second for it. Returns whether this thread has the lock now."""
        return self._lock.acquire(timeout=_PATIENCE_SECONDS)

    def leave(self) -> None:
        """Release the lock, which this thread has."""
        self._lock.release()


class Turnstile:
    """Two gates that give writers fair turns."""

    def __init__(self, next: WriterGate, turn: WriterGate) -> None:
        self.next, self.turn = next, turn

    @contextlib.contextmanager
    def passed(self) -> Iterator[None]:
        """Wait at most a quarter of a second for `next`, and then as long for `turn`. During the `with` block the caller has `turn`, or, if
        it did not get `turn`, the gate `next` or none."""
        waits, has_turn = self.next.enter(), False
        try:
            has_turn = self.turn.enter()
            # A writer that got only one of the two gates keeps it while it writes: then that gate is the turnstile.
            if has_turn and waits:
                self.next.leave()
                waits = False
            yield
        finally:
            if has_turn:
                self.turn.leave()
            if waits:
                self.next.leave()

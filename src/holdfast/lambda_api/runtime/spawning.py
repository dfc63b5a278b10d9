"""One operating-system process with its guard: started, listened to, ended."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

from holdfast.files.removing import remove
from holdfast.hosts import processes
from holdfast.lambda_api.runtime import memory

_GUARD: Final = str(Path(__file__).with_name("guard.py"))
_CHUNK: Final = 64 * 1024
_REAP_SECONDS: Final = 0.005
_LAST_READS: Final = 4
_FRAMES_VARIABLE: Final = "_LAMBDA_TELEMETRY_LOG_FD"
"""Tells a runtime client, and the guard, where frames are written to."""


class Watcher(Protocol):
    """Who hears of a process."""

    def printed(self, data: bytes) -> None: ...
    def logged(self, framed: bytes) -> None:
        """Some bytes of the frames that its runtime client writes."""
        ...

    def exited(self, code: int) -> None:
        """The runtime ended by itself; what it left is being cleared away."""
        ...

    def gone(self) -> None:
        """Nothing of it is left."""
        ...


class Spawned:
    """A running command. Everything happens on the loop that made it."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], folder: str, home: str, watcher: Watcher, kill_seconds: float
    ) -> None:
        """Start it in this folder; its home goes with it."""
        self._loop = asyncio.get_running_loop()
        self._watcher = watcher
        self._kill_seconds = kill_seconds
        self._said = b""
        self._killer: asyncio.TimerHandle | None = None
        self._gone = False
        self._most_kb = 0
        self.pid: int | None = None
        self._control, theirs = socket.socketpair()
        self._output, printing = os.pipe()
        self._frames, framing = os.pipe()
        try:
            guard = [sys.executable, "-I", "-S", _GUARD, str(os.getpid()), home, *command]
            self._guard = subprocess.Popen(
                guard,
                stdin=theirs.fileno(),
                stdout=printing,
                stderr=printing,
                pass_fds=(framing,),
                env={**environment, _FRAMES_VARIABLE: str(framing)},
                cwd=folder,
                start_new_session=True,
            )
        except BaseException:
            self._control.close()
            self._close_pipes()
            remove(home)
            raise
        finally:
            theirs.close()
            os.close(printing)
            os.close(framing)
        self._control.setblocking(False)
        self._loop.add_reader(self._control.fileno(), self._hear)
        for pipe in (self._output, self._frames):
            os.set_blocking(pipe, False)
            self._loop.add_reader(pipe, self.drain)

    @property
    def guard(self) -> int:
        """The process that everything of the command is below."""
        return self._guard.pid

    def drain(self) -> None:
        """Take what was printed and logged until now: no more than a pipe holds, so a busy printer cannot keep us."""
        if not self._gone:
            self._read()

    def _read(self) -> bool:
        """Whether there was something. What was printed comes first: a runtime client logs an error after all that led to it."""
        was_there = False
        for pipe, tell in ((self._output, self._watcher.printed), (self._frames, self._watcher.logged)):
            with contextlib.suppress(BlockingIOError):
                if data := os.read(pipe, _CHUNK):
                    was_there = True
                    tell(data)
                else:
                    self._loop.remove_reader(pipe)
        return was_there

    def _close_pipes(self) -> None:
        for pipe in (self._output, self._frames):
            os.close(pipe)

    def _hear(self) -> None:
        try:
            data = self._control.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        *lines, self._said = (self._said + data).split(b"\n")
        for line in lines:
            word, _, number = line.partition(b" ")
            if word == b"pid":
                self.pid = int(number)
            elif word == b"memory":
                self._most_kb = int(number)
            elif word == b"exit":
                self._watcher.exited(int(number))
        if not data:
            self._loop.remove_reader(self._control.fileno())
            self._reap()

    def kill(self) -> None:
        """End it with all it started; `gone` tells when."""
        if self._killer is None and not self._gone:
            self._most_kb = self._high_kb()  # afterwards nobody can tell
            with contextlib.suppress(OSError):
                self._control.shutdown(socket.SHUT_WR)
            self._killer = self._loop.call_later(self._kill_seconds, self._guard.kill)

    def _reap(self) -> None:
        if self._guard.poll() is None:  # its socket is closed, so it is about to be over
            self._loop.call_later(_REAP_SECONDS, self._reap)
            return
        if self._killer is not None:
            self._killer.cancel()
        if self._guard.returncode < 0 and self.pid is not None:  # somebody killed the guard
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
        for _ in range(_LAST_READS):
            if not self._read():
                break
        self._gone = True
        self._leave_pipes()
        self._control.close()
        self._watcher.gone()

    def _leave_pipes(self) -> None:
        for pipe in (self._output, self._frames):
            self._loop.remove_reader(pipe)
        self._close_pipes()

    def close_now(self) -> None:
        """The loop ends: let everything go. The guard notices and ends the process."""
        if not self._gone:
            self._gone = True
            self._loop.remove_reader(self._control.fileno())
            self._control.close()
            self._leave_pipes()
            try:
                self._guard.wait(self._kill_seconds)
            except subprocess.TimeoutExpired:
                self._guard.kill()
                self._guard.wait()

    def exceeds(self, memory_mb: int) -> bool:
        """Whether it has more in memory than it may, with all it started."""
        return not self._gone and memory.exceeds(self._guard.pid, memory_mb)

    def memory_mb(self) -> int:
        """The most it ever had in memory; 0 where nobody can tell."""
        return -(-self._high_kb() // 1024)

    def _high_kb(self) -> int:
        try:
            found = None if self.pid is None else processes.uses(self.pid)
        except processes.Unreadable:
            found = None
        return self._most_kb if found is None or not found.peak_kilobytes else found.peak_kilobytes

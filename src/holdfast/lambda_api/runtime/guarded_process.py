"""GuardedProcess: one operating-system process and its guard. It starts both, reads their output, and ends them."""

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

from holdfast.files.removal import remove
from holdfast.hosts import processes
from holdfast.lambda_api.runtime import process_memory

_GUARD: Final = str(Path(__file__).with_name("guard.py"))
_CHUNK: Final = 64 * 1024
_REAP_SECONDS: Final = 0.005
_LAST_READS: Final = 4
_FRAMES_VARIABLE: Final = "_LAMBDA_TELEMETRY_LOG_FD"
"""The variable that tells a runtime client, and the guard, the descriptor for frames."""


class ProcessWatcher(Protocol):
    """Receives the events of a process."""

    def printed(self, data: bytes) -> None: ...
    def logged(self, framed: bytes) -> None:
        """The runtime client wrote some bytes of frames."""
        ...

    def exited(self, code: int) -> None:
        """The runtime ended by itself. The guard removes what it left."""
        ...

    def gone(self) -> None:
        """No process of it is left."""
        ...


class GuardedProcess:
    """A running command. All methods run on the event loop that made it."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], folder: str, home: str, watcher: ProcessWatcher, kill_seconds: float
    ) -> None:
        """Start the command in this folder. Its home is removed when it ends."""
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
        """The pid of the guard, which is the ancestor of all processes of the command."""
        return self._guard.pid

    def drain(self) -> None:
        """Read what was printed and logged until now: at most one pipe's content, so that a busy process cannot keep us here."""
        if not self._gone:
            self._read()

    def _read(self) -> bool:
        """Read once; returns whether there was data. Output is read before frames: a client logs an error after the lines that led
        to it."""
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
        """Kill the command and every process that it started. `gone` is called when none is left."""
        if self._killer is None and not self._gone:
            self._most_kb = self._high_kb()  # cannot be read after the kill
            with contextlib.suppress(OSError):
                self._control.shutdown(socket.SHUT_WR)
            self._killer = self._loop.call_later(self._kill_seconds, self._guard.kill)

    def _reap(self) -> None:
        if self._guard.poll() is None:  # its socket is closed, so it will end soon
            self._loop.call_later(_REAP_SECONDS, self._reap)
            return
        if self._killer is not None:
            self._killer.cancel()
        if self._guard.returncode < 0 and self.pid is not None:  # the guard itself was killed
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
        """Close all descriptors because the loop ends. The guard notices that and ends the process."""
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
        """Whether the command and all processes that it started use more memory than this."""
        return not self._gone and process_memory.exceeds(self._guard.pid, memory_mb)

    def memory_mb(self) -> int:
        """The peak memory of the command; 0 where the system does not tell."""
        return -(-self._high_kb() // 1024)

    def _high_kb(self) -> int:
        try:
            found = None if self.pid is None else processes.uses(self.pid)
        except processes.Unreadable:
            found = None
        return self._most_kb if found is None or not found.peak_kilobytes else found.peak_kilobytes

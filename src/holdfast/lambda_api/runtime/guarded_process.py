"""GuardedProcess: a command and its guard. The guard is a second process: it starts the command, and kills it together with all processes
that the command started. GuardedProcess starts the guard, reads the output of both, and ends them."""

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
_KILL_ROUNDS: Final = 20
_FRAMES_VARIABLE: Final = "_LAMBDA_TELEMETRY_LOG_FD"
"""The environment variable with the number of the descriptor for telemetry frames. The guard and the runtime client read it."""


class ProcessWatcher(Protocol):
    """Receives the events of a process."""

    def printed(self, data: bytes) -> None:
        """Read bytes that the process wrote to its standard output or standard error."""
        ...

    def logged(self, framed: bytes) -> None:
        """Read bytes of telemetry frames that the runtime client wrote."""
        ...

    def exited(self, code: int) -> None:
        """The runtime ended by itself, with this exit code (negative: the number of the signal). The guard kills the processes that the
        runtime started."""
        ...

    def gone(self) -> None:
        """The runtime, its guard and all processes that the runtime started have ended. (If another process killed the guard, a process
        that left the runtime's process group may still run.) This is the last call."""
        ...


class GuardedProcess:
    """A running command and its guard. Call its methods only on the event loop on which it was made."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], folder: str, home: str, watcher: ProcessWatcher, kill_seconds: float
    ) -> None:
        """Start the command in `folder`. The guard removes the home folder `home` when the command has ended. `watcher` is told what
        happens to it. A guard that takes longer than `kill_seconds` to end the command is killed, with all processes below it. Raises
        OSError if the guard cannot be started."""
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
        """Pass on what the process has printed and logged until now: at most 64 KB of each, so that a process that prints without end does
        not block the event loop."""
        if not self._gone:
            self._read()

    def _read(self) -> bool:
        """Read each pipe once. Returns whether there was data. The output is read before the frames, because a client logs an error after
        the lines that were printed before it."""
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
        """Begin to kill the command and every process that it started. Returns at once. The watcher's `gone` is called when none is
        left."""
        if self._killer is None and not self._gone:
            self._most_kb = self._high_kb()  # cannot be read after the kill
            with contextlib.suppress(OSError):
                self._control.shutdown(socket.SHUT_WR)
            self._killer = self._loop.call_later(self._kill_seconds, self._kill_guard)

    def _kill_guard(self) -> None:
        """Kill a guard that does not end the command in time, and before it all processes below it: as long as it lives, none of them can
        leave it (on Linux)."""
        killed: set[int] = set()
        for _ in range(_KILL_ROUNDS):  # more than one, because a process may start another one before it is killed
            found = set(process_memory.below(self._guard.pid)) - killed
            for pid in found:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            killed |= found
            if not found:
                break
        self._guard.kill()

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
        """End the command without the help of the event loop. All descriptors are closed; the guard notices that and kills the command.
        Blocks until the guard has ended. The watcher is told nothing."""
        if not self._gone:
            self._gone = True
            self._loop.remove_reader(self._control.fileno())
            self._control.close()
            self._leave_pipes()
            try:
                self._guard.wait(self._kill_seconds)
            except subprocess.TimeoutExpired:
                self._kill_guard()
                self._guard.wait()

    def exceeds(self, memory_mb: int) -> bool:
        """Whether the command and all processes that it started together use more memory than this. False if they have ended, or on a
        system without `/proc`."""
        return not self._gone and process_memory.exceeds(self._guard.pid, memory_mb)

    def memory_mb(self) -> int:
        """The peak memory of the command in MB, rounded up; 0 if it is not known."""
        return -(-self._high_kb() // 1024)

    def _high_kb(self) -> int:
        try:
            found = None if self.pid is None else processes.uses(self.pid)
        except processes.Unreadable:
            found = None
        return self._most_kb if found is None or not found.peak_kilobytes else found.peak_kilobytes

"""Kills a process at the very moment it would send something: the system call has begun, and never happens.

A debugger's view, as tests/crash/recorder.py has it, but of one thread only and from when it is asked for: the event loop's, which is
the main one, sends all answers.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import signal
import struct
import threading
from collections.abc import Iterator

from tests.crash.recorder import _ALL_THREADS, _GET_SYSCALL_INFO, _SYSCALL, _SYSCALL_STOP, Recorder, _ptrace

_SEIZE, _INTERRUPT, _SYSGOOD = 0x4206, 0x4207, 0x1
_ENTRY = 1
SENDING: dict[str, dict[int, str]] = {
    "x86_64": {1: "write", 44: "sendto", 20: "writev", 46: "sendmsg"},
    "aarch64": {64: "write", 206: "sendto", 66: "writev", 211: "sendmsg"},
}
"""The system calls that send, by their numbers."""


class Cut(threading.Thread):
    """Follows a child of this process until it is about to send what has `wanted` in it."""

    def __init__(self, process: int, wanted: bytes) -> None:
        super().__init__(name="cut")
        self._process = process
        self._wanted = wanted
        self._buffer = ctypes.create_string_buffer(88)
        self._watching = threading.Event()
        self._failed: BaseException | None = None
        self.unsent = b""
        """What it was about to send."""

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Watch from here on; the process is dead when the block has ended."""
        self.start()
        self._watching.wait()
        yield
        self.join()
        if self._failed is not None:
            raise self._failed

    def run(self) -> None:
        """Let it go on from call to call."""
        try:
            _ptrace(_SEIZE, self._process, None, _SYSGOOD)
            _ptrace(_INTERRUPT, self._process)
            while not self._about_to_send():
                self._watching.set()
            os.kill(self._process, signal.SIGKILL)
        except BaseException as error:
            self._failed = error
        finally:
            self._watching.set()

    def _about_to_send(self) -> bool:
        """Look at where it stands still; unless it is there, let it go on to its next call."""
        _, status = os.waitpid(self._process, _ALL_THREADS)
        assert os.WIFSTOPPED(status), "it ended without having sent that"
        what = os.WSTOPSIG(status)
        if what == _SYSCALL_STOP:
            self._look()
        if not self.unsent:
            stopped_by_us = what == _SYSCALL_STOP or status >> 16
            _ptrace(_SYSCALL, self._process, None, 0 if stopped_by_us else what)
        return bool(self.unsent)

    def _look(self) -> None:
        size = _ptrace(_GET_SYSCALL_INFO, self._process, len(self._buffer), ctypes.cast(self._buffer, ctypes.c_void_p))
        raw = self._buffer.raw[:size]
        if raw[0] != _ENTRY:
            return
        number, *arguments = struct.unpack_from("=7Q", raw, 24)
        name = SENDING[platform.machine()].get(number)
        if name is not None:
            data = self._sent(name, arguments)
            if self._wanted in data:
                self.unsent = data

    def _sent(self, name: str, arguments: list[int]) -> bytes:
        if name in ("write", "sendto"):
            return self._memory(arguments[1], arguments[2])
        where, count = arguments[1], arguments[2]
        if name == "sendmsg":
            where, count = struct.unpack_from("=2Q", self._memory(where, 56), 16)
        parts = struct.iter_unpack("=2Q", self._memory(where, 16 * count))
        return b"".join(self._memory(address, size) for address, size in parts)

    def _memory(self, address: int, size: int) -> bytes:
        return Recorder._memory(self._process, address, size)

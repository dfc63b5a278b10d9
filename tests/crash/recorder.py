"""Runs a command and records everything it does to the files of one folder, and everything it says, in the order it happened.

    python -m tests.crash.recorder FOLDER RECORD COMMAND...

A debugger's view (ptrace, as strace has it): each system call of each thread stops twice, when it begins and when it has ended, so
the order is the kernel's own, and nothing the command does can hide. It needs no tool that a machine may lack: only the kernel's
permission to trace one's own children. RECORD gets one pickled `Deed` after the other.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import platform
import signal
import struct
import sys
from typing import Any, BinaryIO, NamedTuple

_TRACEME, _SYSCALL, _SETOPTIONS, _GET_SYSCALL_INFO = 0, 24, 0x4200, 0x420E
_SYSGOOD, _FORK, _VFORK, _CLONE, _EXEC, _EXITKILL = 0x1, 0x2, 0x4, 0x8, 0x10, 0x100000
_ALL_THREADS = 0x40000000
_SYSCALL_STOP = signal.SIGTRAP | 0x80
_ENTRY, _EXIT = 1, 2
_AT_CREATE = os.O_CREAT

CALLS: dict[str, dict[int, str]] = {
    "x86_64": {
        1: "write", 18: "pwrite", 20: "writev", 74: "sync", 75: "sync", 76: "truncate", 77: "ftruncate", 82: "rename", 87: "unlink",
        257: "open", 2: "open_old", 263: "unlinkat", 264: "renameat", 316: "renameat", 285: "fallocate", 296: "pwritev",
    },
    "aarch64": {
        64: "write", 68: "pwrite", 66: "writev", 82: "sync", 83: "sync", 45: "truncate", 46: "ftruncate", 56: "open", 35: "unlinkat",
        38: "renameat", 276: "renameat", 47: "fallocate", 70: "pwritev",
    },
}  # fmt: skip
"""The system calls that change files or make changes last, by their numbers."""


class Deed(NamedTuple):
    """One thing that was done: `write`, `truncate`, `sync`, `make`, `remove`, or `say`."""

    kind: str
    path: str
    begun: int
    """Its place in the order of all beginnings and ends."""
    done: int
    offset: int = 0
    data: bytes = b""


class NotTraced(Exception):
    """The kernel does not let a process trace its own child."""


_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_libc.ptrace.restype = ctypes.c_long


def _ptrace(request: int, thread: int, address: Any = None, data: Any = None) -> int:
    answer = int(_libc.ptrace(request, thread, address, data))
    if answer == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return answer


class Recorder:
    """Follows one process and all its threads and children."""

    def __init__(self, folder: str, record: BinaryIO) -> None:
        self._folder = folder
        self._record = record
        self._calls = CALLS[platform.machine()]
        self._clock = 0
        self._begun: dict[int, tuple[str, int, tuple[int, ...], Deed | None]] = {}
        self._known: set[int] = set()
        self._buffer = ctypes.create_string_buffer(88)

    def run(self, command: list[str]) -> int:
        """Run it to its end; its exit status as `wait` tells it."""
        child = os.fork()
        if not child:
            try:
                _ptrace(_TRACEME, 0)
                os.kill(os.getpid(), signal.SIGSTOP)
                os.execvp(command[0], command)
            finally:
                os._exit(127)
        _, status = os.waitpid(child, _ALL_THREADS)
        if not os.WIFSTOPPED(status):
            raise NotTraced
        self._known.add(child)
        _ptrace(_SETOPTIONS, child, None, _SYSGOOD | _FORK | _VFORK | _CLONE | _EXEC | _EXITKILL)
        _ptrace(_SYSCALL, child)
        ended = 0
        while True:
            try:
                thread, status = os.waitpid(-1, _ALL_THREADS)
            except ChildProcessError:
                return ended
            if not os.WIFSTOPPED(status):
                self._begun.pop(thread, None)
                ended = status if thread == child else ended
                continue
            try:
                _ptrace(_SYSCALL, thread, None, self._stopped(thread, status))
            except ProcessLookupError:  # killed while it stood still
                continue

    def _stopped(self, thread: int, status: int) -> int:
        """Look at a thread that stands still; the signal that it shall get when it goes on."""
        what = os.WSTOPSIG(status)
        if what == _SYSCALL_STOP:
            self._call(thread)
            return 0
        new = thread not in self._known
        self._known.add(thread)
        if what == signal.SIGTRAP or (what == signal.SIGSTOP and new):  # an event of ours, or how a new thread begins
            return 0
        return what

    def _call(self, thread: int) -> None:
        size = _ptrace(_GET_SYSCALL_INFO, thread, len(self._buffer), ctypes.cast(self._buffer, ctypes.c_void_p))
        raw = self._buffer.raw[:size]
        self._clock += 1
        if raw[0] == _ENTRY:
            number, *arguments = struct.unpack_from("=7Q", raw, 24)
            name = self._calls.get(number)
            if name is not None:
                self._enter(thread, name, tuple(arguments))
        elif raw[0] == _EXIT and thread in self._begun:
            (answer,) = struct.unpack_from("=q", raw, 24)
            name, begun, arguments_then, deed = self._begun.pop(thread)
            self._leave(thread, name, begun, arguments_then, deed, answer)

    def _enter(self, thread: int, name: str, arguments: tuple[int, ...]) -> None:
        """Remember what begins. What is said is told at once: from here on it may be heard."""
        begun, deed = self._clock, None
        if name in ("write", "pwrite", "sync", "ftruncate", "writev", "pwritev", "fallocate"):
            path = self._path(thread, arguments[0])
            if name == "write" and arguments[0] == 1:
                self._tell(Deed("say", "", begun, begun, data=self._memory(thread, arguments[1], arguments[2])))
            elif path == self._folder or path.startswith(self._folder + "/"):
                deed = self._deed(thread, name, path, arguments)
        self._begun[thread] = (name, begun, arguments, deed)

    def _deed(self, thread: int, name: str, path: str, arguments: tuple[int, ...]) -> Deed:
        if name == "sync":
            return Deed("sync", path, self._clock, 0)
        if name == "ftruncate":
            return Deed("truncate", path, self._clock, 0, arguments[1])
        if name in ("write", "pwrite"):
            offset = arguments[3] if name == "pwrite" else self._position(thread, arguments[0])
            return Deed("write", path, self._clock, 0, offset, self._memory(thread, arguments[1], arguments[2]))
        raise AssertionError(f"{path} was written by {name}, which this recorder does not understand")

    def _leave(self, thread: int, name: str, begun: int, arguments: tuple[int, ...], deed: Deed | None, answer: int) -> None:
        if answer < 0:
            return
        if deed is not None:
            data = deed.data[:answer] if deed.kind == "write" else deed.data
            self._tell(deed._replace(done=self._clock, data=data))
        elif name in ("open", "open_old"):
            path = self._path(thread, answer)
            flags = arguments[2] if name == "open" else arguments[1]
            if path.startswith(self._folder + "/") and flags & _AT_CREATE:
                self._tell(Deed("make", path, begun, self._clock))
        elif name in ("unlink", "unlinkat"):
            path = self._text(thread, arguments[0] if name == "unlink" else arguments[1])
            if path.startswith(self._folder + "/"):
                self._tell(Deed("remove", path, begun, self._clock))

    def _tell(self, deed: Deed) -> None:
        pickle.dump(tuple(deed), self._record)

    @staticmethod
    def _path(thread: int, descriptor: int) -> str:
        try:
            return os.readlink(f"/proc/{thread}/fd/{descriptor}")
        except OSError:
            return ""

    @staticmethod
    def _position(thread: int, descriptor: int) -> int:
        with open(f"/proc/{thread}/fdinfo/{descriptor}", encoding="ascii") as info:
            return int(info.readline().split()[1])

    @staticmethod
    def _memory(thread: int, address: int, size: int) -> bytes:
        with open(f"/proc/{thread}/mem", "rb", buffering=0) as memory:
            memory.seek(address)
            return memory.read(size)

    def _text(self, thread: int, address: int) -> str:
        text = b""
        while b"\0" not in text:  # page by page: the next one may not be there
            text += self._memory(thread, address + len(text), 4096 - (address + len(text)) % 4096)
        return text.partition(b"\0")[0].decode()


def main() -> None:
    folder, record, *command = sys.argv[1:]
    with open(record, "wb") as file:
        status = Recorder(os.path.realpath(folder), file).run(command)
    sys.exit(0 if os.WIFSIGNALED(status) else os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main()

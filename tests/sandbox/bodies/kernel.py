"""Reaching for the kernel: calls that a body has no business with."""

import ctypes
import mmap
import os
import platform
import signal
import socket

import line

_libc = ctypes.CDLL(None, use_errno=True)
_X86 = platform.machine() == "x86_64"


def _call(number, *arguments):
    got = _libc.syscall(ctypes.c_long(number), *(ctypes.c_long(value) if isinstance(value, int) else value for value in arguments))
    if got == -1:
        raise OSError(ctypes.get_errno(), "refused")
    return got


def calls(fd, *pairs):
    """Each given as name=number."""
    buffer = ctypes.create_string_buffer(4096)
    given = dict(pair.split("=") for pair in pairs)
    line.tell(fd, {name: lambda number=int(number): _call(number, 0, buffer, 0, 0, 0) for name, number in given.items()})


def namespaces(fd):
    flags = {"user": 0x10000000, "pid": 0x20000000, "net": 0x40000000, "ipc": 0x08000000, "uts": 0x04000000, "mnt": 0x20000, "time": 0x80}
    clone = 56 if _X86 else 220
    trials = {f"unshare {name}": lambda flag=flag: _call(272 if _X86 else 97, flag) for name, flag in flags.items()}
    trials |= {f"clone {name}": lambda flag=flag: _cloned(clone, flag) for name, flag in flags.items() if name != "time"}
    trials["clone3"] = lambda: _call(435, ctypes.create_string_buffer(88), 88)
    trials["mount"] = lambda: _call(165 if _X86 else 40, b"tmpfs", b".", b"tmpfs", 0, 0)
    line.tell(fd, trials)


def thread_alone(fd):
    """A thread that shares memory and not descriptors. Without a stack of its own it could not run: it must not be made."""
    flags = 0x100 | 0x200 | 0x800 | 0x10000  # memory, folders, handlers, thread
    line.tell(fd, {"clone": lambda: _call(56 if _X86 else 220, flags, 0, 0, 0, 0)})


def _cloned(number, flag):
    child = _call(number, flag | signal.SIGCHLD, 0, 0, 0, 0)
    if child == 0:
        os._exit(0)
    return child


def others(fd, runner, stub):
    """Other processes: looked at, stopped, limited."""
    runner, stub = int(runner), int(stub)
    buffer = ctypes.create_string_buffer(64)
    trials = {}
    for who, pid in (("runner", runner), ("stub", stub), ("first", 1 if os.getpid() != 1 else runner)):
        trials |= {
            f"{who}: kill": lambda pid=pid: os.kill(pid, signal.SIGKILL),
            f"{who}: group": lambda pid=pid: os.killpg(pid, signal.SIGKILL),
            f"{who}: queue": lambda pid=pid: _call(129 if _X86 else 138, pid, signal.SIGKILL, buffer),
            f"{who}: tkill": lambda pid=pid: _call(200 if _X86 else 130, pid, signal.SIGKILL),
            f"{who}: ptrace": lambda pid=pid: _call(101 if _X86 else 117, 16, pid, 0, 0),
            f"{who}: memory": lambda pid=pid: _call(310 if _X86 else 270, pid, buffer, 1, buffer, 1, 0),
            f"{who}: pidfd": lambda pid=pid: _call(434, pid, 0),
            f"{who}: limit": lambda pid=pid: _call(302 if _X86 else 261, pid, 0, ctypes.create_string_buffer(16), 0),
            f"{who}: priority": lambda pid=pid: os.setpriority(os.PRIO_PROCESS, pid, 19),
            f"{who}: affinity": lambda pid=pid: os.sched_setaffinity(pid, {0}),
            f"{who}: readiness": lambda pid=pid: _readiness(pid),
            f"{who}: environment": lambda pid=pid: open(f"/proc/{pid}/environ").read(),
            f"{who}: mem": lambda pid=pid: open(f"/proc/{pid}/mem", "rb").read(1),
            f"{who}: root": lambda pid=pid: os.listdir(f"/proc/{pid}/root"),
        }
    if os.getpid() != 1:  # the first process of a PID namespace has no other process to hit
        trials["everybody"] = lambda: os.kill(-1, signal.SIGKILL)
    trials["own death"] = lambda: _call(157 if _X86 else 167, 1, 0)
    line.tell(fd, trials)


def _readiness(pid):
    """A descriptor that kills another process when it becomes readable."""
    import fcntl

    ours, theirs = socket.socketpair()
    fcntl.fcntl(ours, 10, signal.SIGKILL)
    fcntl.fcntl(ours, fcntl.F_SETOWN, pid)
    fcntl.fcntl(ours, fcntl.F_SETFL, os.O_ASYNC)
    theirs.send(b"x")


def foreign(fd, how):
    """A call through another machine's door, which a filter by number would misread."""
    line.begun(fd)
    if how == "x32":
        _libc.syscall(ctypes.c_long(0x40000000 | 39))
    else:
        code = bytes.fromhex("b814000000cd80c3")  # getpid as i386 has it
        page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        page.write(code)
        ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
    os._exit(0)

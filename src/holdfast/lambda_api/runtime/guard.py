"""The guard: a process that starts a runtime process. At the end it kills every process of the runtime, and removes the runtime's home.

Run as `python -I -S guard.py PARENT HOME COMMAND…`, with a socket as standard input. On the socket the guard writes `pid N`, later
`memory KB` (the runtime's peak, on Linux) and `exit N` (negative: ended by a signal). When the socket is closed, when the server process
dies, or when the runtime exits, the guard kills every process that the runtime started, daemons too: on Linux the guard is a subreaper,
so orphans become its children. On other systems it kills the process group. It locks the runtime's home and removes it at the end.
"""

import contextlib
import fcntl
import os
import select
import signal
import sys

_PDEATHSIG, _SUBREAPER = 1, 36
_CONTROL = 0
_LINUX = sys.platform == "linux"
_FRAMES_VARIABLE = "_LAMBDA_TELEMETRY_LOG_FD"


def main() -> None:
    """Start one command, wait until it ends or must be ended, and clean up after it."""
    home = os.open(sys.argv[2], os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    fcntl.flock(home, fcntl.LOCK_EX)
    try:
        _guard()
    finally:
        _remove_home()


def _guard() -> None:
    if _LINUX:
        _prctl(_SUBREAPER, 1)
        _prctl(_PDEATHSIG, signal.SIGTERM)
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(wake)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    if os.getppid() != int(sys.argv[1]):  # the server died before the guard could ask for the death signal
        return
    child = _started(sys.argv[3:])
    _say(f"pid {child}")
    code = _watched(child, woken)
    if code is not None:
        if _LINUX:
            _say(f"memory {_most_kb()}")
        _say(f"exit {code}")
    _kill_all(child)


def _started(command: list[str]) -> int:
    guard = os.getpid()
    child = os.fork()
    if child:
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 1)  # so that the output pipe ends when the runtime ends
        os.dup2(nothing, 2)
        os.close(nothing)
        if frames := os.environ.get(_FRAMES_VARIABLE):
            os.close(int(frames))
        return child
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        os.umask(0o077)  # files that the runtime writes, bytecode too, are not for other users
        if _LINUX:
            _prctl(_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != guard:
                os._exit(1)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, _CONTROL)
        os.close(nothing)
        os.execvpe(command[0], command, os.environ)
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode())
    finally:
        os._exit(127)


def _watched(child: int, woken: int) -> int | None:
    """Wait until the runtime ends, and return its exit code. Returns None earlier if the guard must kill the runtime, because the server
    closed the socket or died."""
    poll = select.poll()
    poll.register(_CONTROL, select.POLLIN)
    poll.register(woken, select.POLLIN)
    while True:
        for fd, _ in poll.poll():
            if fd == _CONTROL:
                return None
        told = os.read(woken, 4096)
        if signal.SIGTERM in told:
            return None
        code = _reaped(child)
        if code is not None:
            return code


def _reaped(child: int) -> int | None:
    """Reap all children that have ended, orphans too. Returns the exit code of the runtime if it is one of them, else None."""
    found = None
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            if pid == child:
                found = os.waitstatus_to_exitcode(status)
    return found


def _kill_all(child: int) -> None:
    """Kill all descendants until none is left. A process that forks while it is killed leaves an orphan; the next round of the loop kills
    it."""
    pause = 0.001
    while True:
        _signal(-child)
        for pid in _descendants():
            _signal(pid)
        try:
            while True:
                pid, _ = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    select.select([], [], [], pause)
                    pause = min(2 * pause, 0.1)  # do not spin for a process that cannot be killed
                    break
        except ChildProcessError:
            return


def _signal(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def _descendants() -> list[int]:
    """All descendants of the guard, from the kernel's table of processes; none on a system other than Linux."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc") if _LINUX else ():
        if name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{name}/stat", "rb") as stat:
                parent = int(stat.read().rpartition(b")")[2].split()[1])  # a name may contain any character, so count from its end
                children.setdefault(parent, []).append(int(name))
    found: list[int] = []
    todo = [os.getpid()]
    while todo:
        below = children.get(todo.pop(), [])
        found += below
        todo += below
    return found


def _remove_home() -> None:
    """Remove the home folder of the runtime. Most homes contain only an empty `tmp`, and two calls of rmdir suffice."""
    with contextlib.suppress(OSError):
        for folder in (os.path.join(sys.argv[2], "tmp"), sys.argv[2]):
            os.rmdir(folder)
        return
    root = __file__
    for _ in range(4):
        root = os.path.dirname(root)
    sys.path.append(root)
    from holdfast.files.removal import remove

    with contextlib.suppress(OSError):
        remove(sys.argv[2])


def _most_kb() -> int:
    import resource

    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss


def _say(line: str) -> None:
    with contextlib.suppress(OSError):
        os.write(_CONTROL, f"{line}\n".encode())


def _prctl(option: int, value: int) -> None:
    import ctypes

    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    main()

"""A warm `holdfast`: a process that has loaded the program once and forks for every command.

A short command spends nine tenths of its time on loading, and there are hundreds of them in these tests. What is forked is a process as
any other, with its own folder, environment, arguments and pipes; only the loading is shared. How the program starts is tested cold.

    python -m tests.surface.warm SOCKET      serves until its standard input ends
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

from holdfast.cli.main import main, program
from holdfast.model.errors import HoldfastError
from tests import costs

ROOT: Final = Path(__file__).resolve().parents[2]
_MOST: Final = 1 << 20
_INTERPRETERS_OWN: Final = ("PYTHON", "LC_", "LANG", "LD_", "MALLOC_")
"""Read when an interpreter starts: who changes them needs a cold one."""


# --- the side of the tests


def suits(environment: Mapping[str, str]) -> bool:
    """Whether a warm process can have this environment."""
    names = {name for name in {*environment, *os.environ} if name.startswith(_INTERPRETERS_OWN)}
    return all(environment.get(name) == os.environ.get(name) for name in names)


def run(words: Sequence[str], *, folder: Path, environment: Mapping[str, str], given: str, seconds: float) -> tuple[int, str, str]:
    """Run a command to its end: its exit code, what it printed, and what it said to people."""
    with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        stdin.write(given.encode())
        stdin.seek(0)
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(seconds)
            connection.connect(_server())
            order = json.dumps({"words": words, "folder": str(folder), "environment": dict(environment)}).encode() + b"\n"
            sent = socket.send_fds(connection, [order], [stdin.fileno(), stdout.fileno(), stderr.fileno()])
            connection.sendall(order[sent:])
            with connection.makefile("rb") as answers:
                pid = int(answers.readline())
                try:
                    code, used = answers.readline().split()
                except TimeoutError:
                    os.kill(pid, signal.SIGKILL)
                    raise subprocess.TimeoutExpired(["holdfast", *words], seconds) from None
        printed = []
        for file in (stdout, stderr):
            file.seek(0)
            printed.append(file.read().decode().replace("\r\n", "\n"))
        costs.spent_elsewhere(float(used))
        return int(code), printed[0], printed[1]


@functools.cache
def _server() -> str:
    """The address of this process's own, started when the first test asks for it; it ends with this process, however that ends."""
    place = tempfile.mkdtemp(prefix="holdfast-warm-")
    address = f"{place}/socket"
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.surface.warm", address], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"warm\n"
    atexit.register(_end, process, place)
    return address


def _end(process: subprocess.Popen[bytes], place: str) -> None:
    process.communicate()
    with contextlib.suppress(OSError):
        os.unlink(f"{place}/socket")
        os.rmdir(place)


# --- the warm process


class Warm:
    """Takes orders, forks, and tells how each ended."""

    def __init__(self, address: str) -> None:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(address)
        self._listener.listen(64)
        self._ended, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._running: dict[int, socket.socket] = {}
        self._events = selectors.DefaultSelector()
        for watched in (self._listener, self._ended, 0):
            self._events.register(watched, selectors.EVENT_READ)

    def serve(self) -> dict[str, Any] | None:
        """None when nobody needs it any more; in a forked process, what that one has to do."""
        os.write(1, b"warm\n")
        while True:
            for key, _ in self._events.select():
                if key.fileobj == 0:
                    return None
                if key.fileobj == self._ended:
                    os.read(self._ended, 4096)
                    self._bury()
                elif (order := self._forked()) is not None:
                    return order

    def _forked(self) -> dict[str, Any] | None:
        connection, _ = self._listener.accept()
        data, files, _, _ = socket.recv_fds(connection, _MOST, 3)
        while not data.endswith(b"\n"):
            data += connection.recv(_MOST)
        pid = os.fork()
        if pid == 0:
            for number, file in enumerate(files):
                os.dup2(file, number)
                os.close(file)
            connection.close()
            self._forget()
            return dict(json.loads(data))
        for file in files:
            os.close(file)
        self._running[pid] = connection
        connection.sendall(b"%d\n" % pid)
        return None

    def _bury(self) -> None:
        while True:
            try:
                pid, status, used = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            with contextlib.suppress(OSError), self._running.pop(pid) as connection:
                connection.sendall(b"%d %f\n" % (os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime))

    def _forget(self) -> None:
        """A forked process has nothing of this."""
        os.close(signal.set_wakeup_fd(-1))
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._events.close()
        self._listener.close()
        os.close(self._ended)
        for connection in self._running.values():
            connection.close()


def _become(order: dict[str, Any]) -> None:
    """What an interpreter does when it starts, as far as a program can notice."""
    os.chdir(order["folder"])
    os.environ.clear()
    os.environ.update(order["environment"])
    sys.argv = [str(ROOT / "src" / "holdfast" / "cli" / "__main__.py"), *order["words"]]
    sys.path[0] = order["folder"]
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 (theirs until the process ends)
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 (theirs until the process ends)
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115 (theirs until the process ends)


def _ended(program: Callable[[], NoReturn]) -> NoReturn:
    """What an interpreter does when it ends. Only its memory is not given back piece by piece: most of the time would go there."""
    try:
        program()
    except SystemExit as end:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(int(str(end.code)))


def _load() -> None:
    """What commands load, with what they load only when they come to it."""
    for name in (
        "holdfast.durable",
        "holdfast.service.engines",
        "holdfast.service.worker_runtime",
        "holdfast.store.sqlite.store",
        "holdfast.workers.tools.declaring",
    ):
        importlib.import_module(name)
    with contextlib.suppress(HoldfastError):  # typer loads most of what it needs with the first command
        program()(["executions", "show", "nothing", "--store", "nowhere.db"])
    assert threading.active_count() == 1, "a fork takes one thread along: whatever the others hold would be held for ever"
    gc.collect()
    gc.freeze()  # so that a collection in a command does not copy every page that they share


if __name__ == "__main__":
    _load()
    if (told := Warm(sys.argv[1]).serve()) is not None:
        _become(told)
        _ended(main)

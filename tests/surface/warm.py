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
import select
import selectors
import shutil
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
from tests import costs, shared

ROOT: Final = Path(__file__).resolve().parents[2]
_MOST: Final = 1 << 20
_INTERPRETERS_OWN: Final = ("PYTHON", "LC_", "LANG", "LD_", "MALLOC_")
"""Read when an interpreter starts: who changes them needs a cold one."""
_UNBUFFERED: Final = "PYTHONUNBUFFERED"
"""The one of them that a warm process can obey."""


# --- the side of the tests


def suits(environment: Mapping[str, str]) -> bool:
    """Whether a warm process can have this environment."""
    names = {name for name in {*environment, *os.environ} if name.startswith(_INTERPRETERS_OWN)} - {_UNBUFFERED}
    return all(environment.get(name) == os.environ.get(name) for name in names)


class Begun:
    """A command that runs in a process of its own; what `subprocess.Popen` says of one, as far as tests ask."""

    def __init__(self, words: Sequence[str], folder: Path, environment: Mapping[str, str], *, stdin: int, stdout: int, stderr: int) -> None:
        self.args = ["holdfast", *words]
        self.returncode: int | None = None
        self._connection = socket.socket(socket.AF_UNIX)
        self._connection.connect(_server())
        order = json.dumps({"words": words, "folder": str(folder), "environment": dict(environment)}).encode() + b"\n"
        sent = socket.send_fds(self._connection, [order], [stdin, stdout, stderr])
        self._connection.sendall(order[sent:])
        self._answers = self._connection.makefile("rb", buffering=0)
        self.pid = int(self._answers.readline())

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, once it has ended."""
        if self.returncode is None:
            if not select.select([self._connection], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
            code, used = self._answers.readline().split()
            self._answers.close()
            self._connection.close()
            costs.spent_elsewhere(float(used))
            self.returncode = int(code)
        return self.returncode

    def poll(self) -> int | None:
        """Its exit code, if it has ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Unless it has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it."""
        self.send_signal(signal.SIGKILL)


class Talking(Begun):
    """A command that runs, with pipes to hear it."""

    def __init__(self, words: Sequence[str], folder: Path, environment: Mapping[str, str]) -> None:
        self._said = "", ""
        (hear, out), (listen, err) = os.pipe(), os.pipe()
        self.stdout = open(hear, encoding="utf-8")  # noqa: SIM115 (the owner of the command closes it, as with Popen)
        self.stderr = open(listen, encoding="utf-8")  # noqa: SIM115
        nothing = os.open(os.devnull, os.O_RDONLY)
        try:
            super().__init__(words, folder, environment, stdin=nothing, stdout=out, stderr=err)
        finally:
            for end in (nothing, out, err):
                os.close(end)

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """All that it said and was not read, once it has ended. It says little: no pipe of it fills."""
        self.wait(timeout)
        if not self.stdout.closed:
            with self.stdout, self.stderr:
                self._said = self.stdout.read(), self.stderr.read()
        return self._said


def run(words: Sequence[str], *, folder: Path, environment: Mapping[str, str], given: str, seconds: float) -> tuple[int, str, str]:
    """Run a command to its end: its exit code, what it printed, and what it said to people."""
    with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        stdin.write(given.encode())
        stdin.seek(0)
        begun = Begun(words, folder, environment, stdin=stdin.fileno(), stdout=stdout.fileno(), stderr=stderr.fileno())
        try:
            code = begun.wait(seconds)
        except subprocess.TimeoutExpired:
            begun.kill()
            begun.wait()
            raise
        printed = []
        for file in (stdout, stderr):
            file.seek(0)
            printed.append(file.read().decode().replace("\r\n", "\n"))
        return code, printed[0], printed[1]


@functools.cache
def _server() -> str:
    """The address of the run's own."""
    return shared.once("warm", _start)


def _start(stdin: int) -> str:
    address = tempfile.mkdtemp(prefix="holdfast-warm-") + "/socket"
    process = subprocess.Popen([sys.executable, "-m", "tests.surface.warm", address], cwd=ROOT, stdin=stdin, stdout=subprocess.PIPE)
    _processes.append(process)
    assert process.stdout is not None
    assert process.stdout.readline() == b"warm\n"
    return address


_processes: list[subprocess.Popen[bytes]] = []


# --- the warm process


class Warm:
    """Takes orders, forks, and tells how each ended."""

    def __init__(self, address: str) -> None:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(address)
        self._listener.listen(64)
        self._ended, self._wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(self._wake)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._running: dict[int, socket.socket] = {}
        self._events = selectors.DefaultSelector()
        for watched in (self._listener, self._ended, 0):
            self._events.register(watched, selectors.EVENT_READ)

    def serve(self) -> dict[str, Any] | None:
        """None when the process is no longer needed; in a forked process, the work of that process."""
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
        signal.set_wakeup_fd(-1)
        os.close(self._wake)
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
    if order["environment"].get(_UNBUFFERED):
        sys.stdout.reconfigure(write_through=True)
    sys.stderr = open(2, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115 (theirs until the process ends)


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
    """The modules that commands load, also those that they load late."""
    for name in (
        "holdfast.durable",
        "holdfast.lambda_api.routes.app",
        "holdfast.lambda_api.routes.deploy",
        "holdfast.lambda_api.routes.logs",
        "holdfast.lambda_api.serving",
        "holdfast.lambda_api.templates.file_watch",
        "holdfast.lambda_api.templates.targets",
        "holdfast.server.metrics",
        "holdfast.server.subscribers",
        "holdfast.service.engines",
        "holdfast.service.runtimes.function_signals",
        "holdfast.service.runtimes.worker_runtime",
        "holdfast.store.sqlite.store",
        "holdfast.workers.tools.declarations",
        "httptools",
        "prometheus_client",
        "rich._emoji_codes",
        "uvicorn",
        "uvicorn.lifespan.off",
        "uvicorn.protocols.http.httptools_impl",
        "uvloop",
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
    shutil.rmtree(os.path.dirname(sys.argv[1]), ignore_errors=True)

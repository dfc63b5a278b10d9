"""One evaluator: a process, asked one check at a time by one thread, and killed when it takes too long."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Final

import msgspec

from holdfast.hosts.evaluator.frames import Check, Checked, packed, received

_CHILD: Final = Path(__file__).with_name("child.py")
_ROOT: Final = Path(__file__).parents[3]
"""Where this very code lies: the process runs no other version of it."""
_KEPT_OF_ENVIRONMENT: Final = ("PATH", "LANG", "LC_ALL", "TMPDIR")
_START_SECONDS: Final = 30.0


class Late(Exception):
    """The check took too long, and its process is dead."""


class Died(Exception):
    """The process ended without an answer: it took too much memory, say."""


class Evaluator:
    """A process, started with the first check."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._sock: socket.socket | None = None

    def check(self, check: Check) -> Checked:
        """Make one check; raises Late or Died, and then nothing of it runs on."""
        sock = self._started() if self._sock is None else self._sock
        try:
            sock.settimeout(self._seconds)
            sock.sendall(packed(check))
            answer = received(sock)
        except TimeoutError:
            self.end()
            raise Late from None
        except OSError:
            answer = None
        if answer is None:
            self.end()
            raise Died
        return msgspec.json.decode(answer, type=Checked)

    @property
    def pid(self) -> int | None:
        """Of its process, if there is one."""
        return None if self._process is None else self._process.pid

    def _started(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                self._process = subprocess.Popen(
                    [sys.executable, "-I", str(_CHILD), str(theirs.fileno()), str(_ROOT), str(self._seconds)],
                    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()], start_new_session=True,
                    env={name: os.environ[name] for name in _KEPT_OF_ENVIRONMENT if name in os.environ},
                )  # fmt: skip
            except OSError:
                ours.close()
                raise Died from None
        self._sock = ours
        ours.settimeout(_START_SECONDS)
        try:
            ready = received(ours)
        except TimeoutError:
            ready = None
        if ready is None:
            self.end()
            raise Died
        return ours

    def end(self) -> None:
        """Kill it; it is dead when this returns."""
        if self._sock is not None:
            self._sock.close()
            self._sock = None
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            self._process.wait()
            self._process = None

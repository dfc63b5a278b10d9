"""Evaluator: one process that makes one check at a time for one thread. It is killed when a check takes too long."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Final

from holdfast.hosts.evaluator.check_frames import Check, CheckResult, packed, received
from holdfast.model import json_structs

_CHILD: Final = Path(__file__).with_name("evaluator_main.py")
_ROOT: Final = Path(__file__).parents[3]
"""The folder of Holdfast's own code, so that the process runs the same version."""
_KEPT_OF_ENVIRONMENT: Final = ("PATH", "LANG", "LC_ALL", "TMPDIR")
_START_SECONDS: Final = 30.0


class EvaluatorLate(Exception):
    """The check took too long, and its process was killed."""


class EvaluatorDied(Exception):
    """The process could not be started, or ended without an answer, for example because it used too much memory."""


class Evaluator:
    """A process for checks. It is started with the first check. If it was ended, the next check starts a new one. If it died between two
    checks, the next check raises EvaluatorDied, and the one after it starts a new process."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._sock: socket.socket | None = None

    def check(self, check: Check) -> CheckResult:
        """Make one check in the process, and block until the process answers. Raises EvaluatorLate if the check takes too long. Raises
        EvaluatorDied if the process cannot be started, or ends without an answer. After each of these errors the process is dead."""
        sock = self._started() if self._sock is None else self._sock
        try:
            sock.settimeout(self._seconds)
            sock.sendall(packed(check))
            answer = received(sock)
        except TimeoutError:
            self.end()
            raise EvaluatorLate from None
        except OSError:
            answer = None
        if answer is None:
            self.end()
            raise EvaluatorDied
        return json_structs.decoded(answer, CheckResult)

    @property
    def pid(self) -> int | None:
        """The pid of the process that was started last, which may have died; None if none was started, or after `end`."""
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
                raise EvaluatorDied from None
        self._sock = ours
        ours.settimeout(_START_SECONDS)
        try:
            ready = received(ours)
        except TimeoutError:
            ready = None
        if ready is None:
            self.end()
            raise EvaluatorDied
        return ours

    def end(self) -> None:
        """Kill the process. It is dead when this returns."""
        if self._sock is not None:
            self._sock.close()
            self._sock = None
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            self._process.wait()
            self._process = None

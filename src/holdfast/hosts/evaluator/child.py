"""What runs in an evaluator's process: a schema and a value come, the places where the value does not fit go back.

Started as `python -I child.py FD ROOT SECONDS`. It knows no secret and opens nothing; an alarm ends it when a check takes too long, also
when the runner is gone by then.
"""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":  # isolated mode knows only site-packages: the runner says where its own code lies
    os.nice(10)  # a check that takes long is a stranger's: everybody else comes first
    sys.path.insert(next((at for at, path in enumerate(sys.path) if "-packages" in path), len(sys.path)), sys.argv[2])

import json
import resource
import signal
import socket

import msgspec

from holdfast.contract.checking import checker_of
from holdfast.contract.costs import SchemaInvalid
from holdfast.hosts.evaluator.frames import Check, Checked, Refused, packed, received

_MEMORY = 1024 * 1024 * 1024
_GRACE_SECONDS = 1.0


def main(fd: int, seconds: float) -> None:
    """Serve one runner until it is gone."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    sock = socket.socket(fileno=fd)
    sock.setblocking(True)
    sock.sendall(packed(Checked()))
    while (frame := received(sock)) is not None:
        signal.setitimer(signal.ITIMER_REAL, seconds + _GRACE_SECONDS)
        answer = _answer(frame)
        signal.setitimer(signal.ITIMER_REAL, 0)
        sock.sendall(packed(answer))


def _answer(frame: bytes) -> Checked:
    check = msgspec.json.decode(frame, type=Check)
    try:
        checker = checker_of(msgspec.json.decode(check.schema))
    except SchemaInvalid as wrong:
        return Checked(refused=Refused(wrong.path, wrong.reason, wrong.code))
    found = (problem for value in check.values for problem in checker.problems(json.loads(bytes(value)), patient=True))
    return Checked(problems=tuple(found))


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[3]))

"""The program of an evaluator's process: it receives a schema and a value, and returns the places where the value does not fit.

Started as `python -I evaluator_main.py FD ROOT SECONDS`. It has no secret, and a check opens no file. An alarm ends it when a check takes
too long, also after the runner has died.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":  # in isolated mode Python finds only site-packages, so the runner passes the folder of its own code
    sys.path.insert(next((at for at, path in enumerate(sys.path) if "-packages" in path), len(sys.path)), sys.argv[2])

import json
import resource
import signal
import socket

import msgspec

from holdfast.contract.checking import checker_of
from holdfast.contract.costs import SchemaInvalid
from holdfast.hosts import processes
from holdfast.hosts.evaluator.check_frames import Check, CheckRefused, CheckResult, packed, received
from holdfast.model import json_structs

_MEMORY = 1024 * 1024 * 1024
_GRACE_SECONDS = 1.0
_NICE = 10
"""The nice value of this process. A stranger chose the check, and it may take long, so every other process gets the CPU first."""


def main(fd: int, seconds: float) -> None:
    """Make the checks that the runner sends, until it closes the socket. The process is killed if a check takes a second longer than
    `seconds`."""
    processes.give_way(0, _NICE)
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    sock = socket.socket(fileno=fd)
    sock.setblocking(True)
    sock.sendall(packed(CheckResult()))
    while (frame := received(sock)) is not None:
        signal.setitimer(signal.ITIMER_REAL, seconds + _GRACE_SECONDS)
        answer = _answer(frame)
        signal.setitimer(signal.ITIMER_REAL, 0)
        sock.sendall(packed(answer))


def _answer(frame: bytes) -> CheckResult:
    before = _used()
    return msgspec.structs.replace(_checked(frame), cpu_seconds=round(_used() - before, 6))


def _used() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def _checked(frame: bytes) -> CheckResult:
    check = json_structs.decoded(frame, Check)
    try:
        checker = checker_of(msgspec.json.decode(check.schema))
    except SchemaInvalid as wrong:
        return CheckResult(refused=CheckRefused(wrong.path, wrong.reason, wrong.code))
    found = (problem for value in check.values for problem in checker.problems(json.loads(bytes(value)), patient=True))
    return CheckResult(problems=tuple(found))


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[3]))

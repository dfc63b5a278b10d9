"""The doctor's checks of the machine: user, sandbox, memory, port, clock and time zones."""

from __future__ import annotations

import asyncio
import http.client
import os
import shlex
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from holdfast.cli.diagnoses import Diagnosis, Question, ok, problem, sentence, warning
from holdfast.hosts.sandbox.inside.jail_plan import PERIOD_MS
from holdfast.hosts.sandbox.inside.kernel_features import cgroup_v2
from holdfast.hosts.sandbox.jail import Jail, SandboxUnavailable
from holdfast.hosts.sandbox.sandbox import find_kernel_features
from holdfast.hosts.sandbox.server_limits import machine_memory_mb
from holdfast.model.clock import SystemClock, monotonic

_SWITCHES: Final = (
    ("kernel.apparmor_restrict_unprivileged_userns", "1", "0"),
    ("kernel.unprivileged_userns_clone", "0", "1"),
    ("user.max_user_namespaces", "0", "15000"),
)
"""Settings of Linux that forbid user namespaces: the name, the value that forbids, the value that allows."""
_WITHOUT_JAIL: Final = "holdfast run FILE --isolation process"
_BODY_MB: Final = Jail(package=Path(), entry="").memory_mb
_DRIFT_MS: Final = 250
_SANE_MS: Final = 1_735_689_600_000
"""The first moment of 2025, in milliseconds since 1970. This code is newer, so a clock that shows an earlier time is wrong."""
_ZONES: Final = ("Europe/Berlin", "America/New_York", "Asia/Kolkata")
_ANSWER_SECONDS: Final = 2.0


def user(question: Question) -> Iterator[Diagnosis]:
    """Warn if the command runs as root: a fault in code that Holdfast runs could then change anything on the machine."""
    if os.geteuid() == 0:
        yield warning(
            "user", "This runs as root: a fault in what it runs could change anything on the machine.", "sudo -u USER holdfast doctor"
        )
    else:
        yield ok("user", f"This runs as the ordinary user with the number {os.geteuid()}.")


def sandbox(question: Question) -> Iterator[Diagnosis]:
    """Report whether the kernel has what the jail of a worker needs. The check starts the process that makes the jail of a worker, and asks
    it which features it found."""
    with tempfile.TemporaryDirectory(prefix="holdfast-doctor-") as folder:
        try:
            features = asyncio.run(find_kernel_features(Path(folder)))
        except SandboxUnavailable as error:
            said = f"Workers cannot be jailed on this machine: {sentence(str(error))}"
            yield (problem if sys.platform == "linux" else warning)("sandbox", said, _mend_of_namespaces())
            return
    yield _featured(features)


def _featured(features: dict[str, Any]) -> Diagnosis:
    landlock = f"Landlock version {features['landlock']}" if features["landlock"] else "no Landlock"
    if not features["namespaces"]:
        said = f"Workers are jailed by seccomp and {landlock}, without namespaces ({features['why']})"
        return warning("sandbox", f"{said}: a worker that needs child processes cannot run.", _mend_of_namespaces())
    return ok("sandbox", f"Workers are jailed by namespaces, seccomp and {landlock} ({features['machine']}).")


def _mend_of_namespaces() -> str:
    """The command that allows user namespaces, if a setting of this machine forbids them; else a command that runs a worker without a
    jail."""
    for name, forbids, allows in _SWITCHES:
        try:
            value = Path("/proc/sys", *name.split(".")).read_text().strip()
        except OSError:
            continue
        if value == forbids:
            return shlex.join(["sudo", "sysctl", "-w", f"{name}={allows}"])
    return _WITHOUT_JAIL


def cgroups(question: Question) -> Iterator[Diagnosis]:
    """Report how the limits of workers are enforced. Report also whether half of the memory of the machine (or its container), which all
    bodies share, is enough for one body."""
    group = "cgroup v2 is here and not used" if cgroup_v2() else "there is no cgroup v2, and none is needed"
    yield ok("cgroups", f"The limits of workers are checked every {PERIOD_MS} ms; {group}.")
    memory = machine_memory_mb()
    if memory // 2 < _BODY_MB:
        said = f"The machine or its container has {memory:,} MB, so all workers together may use {memory // 2:,} MB, and one may ask for"
        yield warning("memory", f"{said} {_BODY_MB:,} MB.", "docker update --memory 2g CONTAINER")
    else:
        yield ok("memory", f"The machine or its container has {memory:,} MB; all workers together may use half of it.")


def port(question: Question) -> Iterator[Diagnosis]:
    """Report whether a server can listen on the host and port of the question. A server of Holdfast that already listens there is no
    problem."""
    place = f"{question.host}:{question.port}"
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(question.host, question.port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            tried.bind(address)
            tried.listen(1)
    except OSError as error:
        if _is_ours(question):
            yield ok("port", f"A Holdfast server answers on {place}.")
        else:
            yield problem(
                "port", f"A server cannot listen on {place}: {sentence(error.strerror or str(error))}", "holdfast serve --port 0 TARGET"
            )
    else:
        yield ok("port", f"{place} is free for a server.")


def _is_ours(question: Question) -> bool:
    """Whether the program that listens on the host and port of the question is a server of Holdfast."""
    connection = http.client.HTTPConnection(question.host, question.port, timeout=_ANSWER_SECONDS)
    try:
        connection.request("GET", "/health")
        answer = connection.getresponse()
        return answer.status == 200 and b'"healthy"' in answer.read(200)
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def clock(question: Question) -> Iterator[Diagnosis]:
    """Report the first fault of the wall clock: it shows a time before 2025, it jumped while the command ran, or the store's file was
    written more than a minute later than now. If there is no fault, report how well the wall clock agrees with the monotonic clock."""
    now = SystemClock().now()
    passed = round((monotonic() - question.began_monotonic) * 1000)
    drift = abs((now - question.began_wall) - passed)
    newest = _newest(question)
    set_it = "sudo timedatectl set-ntp true"
    if now < _SANE_MS:
        yield problem("clock", "The wall clock is years behind: timers and schedules fire at wrong times.", set_it)
    elif drift > _DRIFT_MS:
        yield warning("clock", f"The wall clock jumped by {drift} ms while this command ran.", set_it)
    elif newest > now + 60_000:
        yield warning("clock", f"The store was written {(newest - now) // 60_000} min in the future: the wall clock went back.", set_it)
    else:
        yield ok("clock", f"The wall clock and the monotonic clock agree to {drift} ms over {passed} ms.")


def _newest(question: Question) -> int:
    """When the store's file was last written, in milliseconds since 1970; 0 if there is no such file, and for a database."""
    try:
        return os.stat(question.where).st_mtime_ns // 1_000_000 if question.is_file else 0
    except OSError:
        return 0


def zones(question: Question) -> Iterator[Diagnosis]:
    """Report whether Python knows time zones, which schedules need. Three zones are tried."""
    import zoneinfo

    try:
        for name in _ZONES:
            zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, OSError, ValueError) as error:
        yield problem("time zones", f"Schedules cannot use time zones: {sentence(str(error))}", "pip install --upgrade tzdata")
        return
    yield ok("time zones", f"{len(zoneinfo.available_timezones()):,} time zones are known.")

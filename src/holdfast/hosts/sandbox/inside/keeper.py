"""The keeper of one attempt: it makes the namespaces, forks the body, watches it, ends it, and reports when no process is left.

The keeper is trusted and stays outside the jail. The runner talks to it over a control socket: `begin` starts the attempt's clock. If the
runner closes the socket, the keeper kills the body. The keeper first sends `locked` (with a descriptor of the body's process), or `unable`
if the body could not be locked in. Then it sends `uses` when the usage of the body has changed, and `ended` at the end.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import resource
import select
import signal
import socket
import time
import traceback
from typing import Any, Final, NamedTuple, NoReturn

from holdfast.hosts.sandbox.inside import body_channel, kernel, launch, lockdown, mounts, namespaces
from holdfast.hosts.sandbox.inside.cleanup import clear, kill_below
from holdfast.hosts.sandbox.inside.jail_plan import BODY_FD, EXITS, PERIOD_MS, JailPlan, KernelFeatures
from holdfast.hosts.sandbox.inside.limit_watch import Breach, LimitWatch

_SPARE_PERIOD_MS: Final = 200
_NEARLY: Final = 0.9
_WORTH_TELLING_KB: Final = 1024
"""The keeper reports the body's memory to the runner when it has changed by this many kilobytes since the last report. The runner adds up
the memory of all bodies."""
_WORTH_TELLING_CPU_SECONDS: Final = 0.1
"""The keeper reports the body's CPU time to the runner when it has grown by this many seconds since the last report. The runner charges the
body's tenant for it."""


class KeeperSockets(NamedTuple):
    """The descriptors that the runner passed for one attempt."""

    channel: socket.socket
    output: int
    control: socket.socket


class DiskPlace(NamedTuple):
    """Folders on the disk. `root` is an empty folder, which becomes the root of a body in namespaces. `scratch` is the scratch of a body
    without namespaces."""

    root: str
    scratch: str


def keep(plan: JailPlan, features: KernelFeatures, place: DiskPlace, lines: KeeperSockets, mapper: socket.socket) -> NoReturn:
    """Run one attempt, from its namespaces to its end, then exit this process. An error is reported to the runner as `unable`. `mapper` is
    the socket over which the stub maps the users (namespaces.py)."""
    try:
        _kept(plan, features, place, lines, mapper)
    except BaseException as error:
        with contextlib.suppress(OSError):
            _say(lines.control, {"unable": "".join(traceback.format_exception(error)[-1:]).strip()})
    finally:
        os._exit(0)


def _kept(plan: JailPlan, features: KernelFeatures, place: DiskPlace, lines: KeeperSockets, mapper: socket.socket) -> None:
    apart = features.jails(plan) and features.namespaces
    tree = not features.jails(plan) and kernel.LINUX
    woken, _ = woken_by_signals()
    if apart:
        namespaces.enter(mapper)
    else:
        os.mkdir(place.scratch, 0o700)
    mapper.close()
    if kernel.LINUX:
        kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGTERM)
        if tree:
            kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
    ours, theirs = socket.socketpair()
    body = os.fork()
    if not body:
        ours.close()
        _body(plan, features, place, lines, theirs, mounts.SCRATCH if apart else place.scratch)
    theirs.close()
    lines.channel.close()
    os.close(lines.output)
    try:
        held, scratch = _locked(ours)
        if held is None:
            _say(lines.control, {"unable": scratch})
            return
        pidfd = os.pidfd_open(body) if kernel.LINUX else None
        watch = LimitWatch(body, plan, place.scratch if scratch is None else scratch, whole_tree=tree, own_network=apart)
        _say(lines.control, {"locked": {"pid": body, "isolation": held}}, pidfd)
        breach, end = _watched(body, watch, lines.control, woken)
    finally:
        usage = _ended(body, tree)
        if not apart:
            clear(place.scratch)
    _say(lines.control, {"ended": _account(watch, breach, end or usage)})


def _body(
    plan: JailPlan, features: KernelFeatures, place: DiskPlace, lines: KeeperSockets, keeper: socket.socket, scratch: str
) -> NoReturn:
    """Become the body: lock this process in, report that to the keeper, and launch the entry."""
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        channel, output = (os.dup(fd) for fd in (lines.channel.fileno(), lines.output))
        held = lockdown.lock(plan, features, place.root, scratch, keeper)
        keeper.sendall(json.dumps(held).encode() + b"\n")
        nothing = os.open(os.devnull, os.O_RDWR)
        for fd, to in ((nothing, 0), (output, 1), (output, 2), (channel, BODY_FD)):
            os.dup2(fd, to)  # not inheritable, so a child process gets the channel only if the body passes it on
        os.set_inheritable(BODY_FD, False)
        os.closerange(BODY_FD + 1, 1 << 16)
    except BaseException as error:
        with contextlib.suppress(OSError):
            keeper.sendall(json.dumps({"unable": f"{type(error).__name__}: {error}"}).encode() + b"\n")
        os._exit(1)
    launch.launch(plan, scratch)


def _locked(body: socket.socket) -> tuple[dict[str, Any], int | None] | tuple[None, str]:
    """Wait for the body's report. Returns two values: the locks that are in force, and a descriptor of the body's scratch (None if the body
    sent none). If the body could not be locked in, the two values are None and the reason. Until the report, the body's process runs only
    Holdfast's code."""
    text, fds = b"", []
    while not text.endswith(b"\n"):
        data, ancillary, _, _ = body.recvmsg(64 * 1024, socket.CMSG_SPACE(4))
        if not data:
            return None, "the process ended before it was locked"
        fds += body_channel.received(ancillary)
        data = data.removeprefix(body_channel.SCRATCH)
        if data.startswith(body_channel.ARE_YOU_THERE):
            body.sendall(body_channel.I_AM)
            data = data.removeprefix(body_channel.ARE_YOU_THERE)
        text += data
    body.close()
    told = json.loads(text)
    return (told, fds[0] if fds else None) if "unable" not in told else (None, str(told["unable"]))


def _watched(body: int, watch: LimitWatch, control: socket.socket, woken: int) -> tuple[Breach | None, Any]:
    """Watch the body until it ends, passes a limit (its time limit too), or must be ended because the runner closed the control socket or
    this process got a SIGTERM. Returns two values: the limit that the body passed, else None; and the result of `wait4` if the body ended
    by itself, else None. `woken` becomes readable when a signal arrives."""
    poll = select.poll()
    poll.register(control, select.POLLIN)
    poll.register(woken, select.POLLIN)
    deadline: float | None = None
    seconds, told_kilobytes, told_processes, told_cpu = 0.0, 0, 1, 0.0
    while True:
        period = _SPARE_PERIOD_MS if deadline is None else min(PERIOD_MS, max(0, (deadline - time.monotonic()) * 1000))
        for fd, _ in poll.poll(period):
            if fd == woken:
                if signal.SIGTERM in os.read(woken, 4096):
                    return None, None
                continue
            told = control.recv(4096)
            if not told:
                return None, None
            for order in map(json.loads, told.splitlines()):
                if "begin" in order:
                    seconds = order["begin"]
                    watch.begin(order["memory_mb"], order["cpu_seconds"], order["nice"])
                deadline = math.inf if order["left"] is None else time.monotonic() + order["left"]  # None: its clock is stopped
        end = os.wait4(body, os.WNOHANG)
        if end[0]:
            return None, end
        if deadline is not None and time.monotonic() >= deadline:
            return Breach("timeout", f"not done after {seconds:g} s"), None
        breach = watch.check()
        if breach is not None:
            return breach, None
        changed = abs(watch.kilobytes - told_kilobytes) >= _WORTH_TELLING_KB or watch.processes != told_processes
        if changed or watch.cpu - told_cpu >= _WORTH_TELLING_CPU_SECONDS:
            uses = {"kilobytes": watch.kilobytes, "processes": watch.processes, "cpu_seconds": watch.cpu}
            if _tell(control, {"uses": uses}):
                told_kilobytes, told_processes, told_cpu = watch.kilobytes, watch.processes, watch.cpu


def _ended(body: int, tree: bool) -> Any:
    """Kill the body, wait until it is dead, and return the result of `wait4`, or None if it was reaped before. If the body is the first
    process of a PID namespace, all processes that it started die with it. `tree`: the body has no such namespace, so all other descendants
    of this keeper are killed too."""
    end: Any = None
    with contextlib.suppress(ProcessLookupError):
        os.kill(body, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        end = os.wait4(body, 0)
    if tree:
        kill_below()
    elif not kernel.LINUX:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(body, signal.SIGKILL)
    return end


def _account(watch: LimitWatch, breach: Breach | None, end: Any) -> dict[str, Any]:
    status, used = (end[1], end[2]) if end is not None else (0, resource.getrusage(resource.RUSAGE_CHILDREN))
    kilobytes = used.ru_maxrss if kernel.LINUX else used.ru_maxrss // 1024
    cpu = max(0.0, used.ru_utime + used.ru_stime - watch.cpu_before)
    code, detail = breach or _judged(watch, os.waitstatus_to_exitcode(status), kilobytes / 1024, used.ru_utime + used.ru_stime)
    own = resource.getrusage(resource.RUSAGE_SELF)
    in_all = used.ru_utime + used.ru_stime + own.ru_utime + own.ru_stime
    account = {"cpu_seconds": round(cpu, 4), "cpu_seconds_in_all": round(in_all, 4), "max_rss_mb": round(kilobytes / 1024, 1)}
    return {"code": code, "detail": detail, **account}


def _judged(watch: LimitWatch, exit_code: int, rss_mb: float, cpu: float) -> tuple[str | None, str]:
    if exit_code == 0:
        return None, ""
    if exit_code > 0:
        return EXITS.get(exit_code, "worker_crashed"), f"the body exited with code {exit_code}"
    number = -exit_code
    detail = f"the body was ended by {_signal_name(number)}"
    if number == signal.SIGXCPU or (number == signal.SIGKILL and cpu > watch.cpu_limit):
        return "cpu_exceeded", detail
    if number == signal.SIGXFSZ:
        return "disk_exceeded", detail
    # An allocation failed in code that cannot handle it: the body had reserved nearly all its memory.
    if max(rss_mb, watch.most_data / 1024) > watch.memory_mb * _NEARLY:
        return "memory_exceeded", detail
    return "worker_crashed", detail


def _signal_name(number: int) -> str:
    """The name of a signal, or `signal N` for a signal that has no name in Python, such as most real-time signals."""
    return signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"


def woken_by_signals() -> tuple[int, int]:
    """Two ends of a pipe. The first becomes readable when a SIGCHLD or a SIGTERM arrives, which does nothing else from now on."""
    woken, wake = os.pipe()
    for end in (woken, wake):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(wake)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    return woken, wake


def _tell(control: socket.socket, message: dict[str, Any]) -> bool:
    """Send a report of the body's usage to the runner without waiting, and return True. If it cannot be sent (the socket is full), the
    report is lost, and False is returned. That is harmless: a later report, or the message `ended`, has newer numbers."""
    with contextlib.suppress(OSError):
        control.send(json.dumps(message).encode() + b"\n", socket.MSG_DONTWAIT)
        return True
    return False


def _say(control: socket.socket, message: dict[str, Any], fd: int | None = None) -> None:
    text = json.dumps(message).encode() + b"\n"
    control.sendmsg([text], [] if fd is None else body_channel.rights(fd))
    if fd is not None:
        os.close(fd)

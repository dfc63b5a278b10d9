"""The stub of one worker version: a small trusted process that forks a keeper for each attempt.

Run as `python -I -S -u stub.py PARENT`, with a socket as standard input. The runner sends a jail as JSON, then for each attempt two bytes
with three descriptors: the body's channel, its output, and the keeper's control socket. The stub is never forked from the runner, and it is
started with an environment of its own, so that a body inherits no data of the runner, not even in memory. It ends when its socket closes.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    _ROOT = str(Path(__file__).resolve().parents[4])
    sys.path.append(_ROOT)

from holdfast.hosts import processes
from holdfast.hosts.sandbox.inside import body_channel, keeper, kernel, lockdown, namespaces
from holdfast.hosts.sandbox.inside.cleanup import clear, make_folder, sweep
from holdfast.hosts.sandbox.inside.jail_plan import JailPlan, KernelFeatures
from holdfast.hosts.sandbox.inside.kernel_features import find

_keepers: set[int] = set()


def main() -> None:
    """Read the jail from the runner, then fork a keeper for each attempt, until the runner closes the socket. An error is reported to the
    runner, and ends the stub."""
    control = socket.socket(fileno=0)
    if kernel.LINUX:
        kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGTERM)
        kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)  # the stub adopts the orphans of a killed keeper
        if os.getppid() != int(sys.argv[1]):
            return
    folder = make_folder()
    try:
        plan = JailPlan.of(_told(control))
        sys.path[:] = [*(path for path in sys.path if path != _ROOT), *plan.path]
        for module in plan.preload:
            importlib.import_module(module)
        features = find(plan, folder)
        lockdown.prepare(plan, features)
        _say(control, {"features": features._asdict(), "missing": features.missing(plan)})
        sweep(folder)
        gc.collect()
        gc.freeze()  # so that a collection in a child does not copy every page that they share
        _serve(control, plan, features, folder)
    except Exception as error:
        with contextlib.suppress(OSError):
            _say(control, {"error": f"{type(error).__name__}: {error}"})
    finally:
        control.close()
        while _keepers:  # their sockets are closed too, so they end
            _reap(os.wait()[0])
        clear(folder)


def _serve(control: socket.socket, plan: JailPlan, features: KernelFeatures, folder: str) -> None:
    woken, wake = keeper.woken_by_signals()
    poll = select.poll()
    poll.register(control, select.POLLIN)
    poll.register(woken, select.POLLIN)
    count = 0
    while True:
        for fd, _ in poll.poll():
            if fd == woken:
                if signal.SIGTERM in os.read(woken, 4096):
                    return
                with contextlib.suppress(ChildProcessError):
                    while ended := os.waitpid(-1, os.WNOHANG)[0]:
                        _reap(ended)
                continue
            data, ancillary, _, _ = control.recvmsg(2, socket.CMSG_SPACE(3 * 4))
            if not data:
                return
            count += 1
            wanted = plan._replace(nice=data[1], allow_children=plan.allow_children and data[:1] != body_channel.WITHOUT_CHILDREN)
            _fork(wanted, features, f"{folder}/{count}", folder, body_channel.received(ancillary), (control, woken, wake))


def _fork(
    plan: JailPlan, features: KernelFeatures, scratch: str, folder: str, fds: list[int], ours: tuple[socket.socket, int, int]
) -> None:
    try:
        stays, goes = socket.socketpair()
        child = os.fork()
    except OSError:  # no process can be made: only this attempt fails
        for fd in fds:
            os.close(fd)
        return
    if child:
        _keepers.add(child)
        for fd in fds:
            os.close(fd)
        goes.close()
        with stays, contextlib.suppress(OSError):  # the keeper died meanwhile: the runner sees that its socket is closed
            if features.jails(plan) and features.namespaces:
                namespaces.map_users(child, stays)
        return
    try:
        signal.set_wakeup_fd(-1)
        stays.close()
        control, woken, wake = ours
        control.detach()
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 0)
        for fd in (nothing, woken, wake):
            os.close(fd)
        lines = keeper.KeeperSockets(socket.socket(fileno=fds[0]), fds[1], socket.socket(fileno=fds[2]))
        keeper.keep(plan, features, keeper.DiskPlace(f"{folder}/root", scratch), lines, goes)
    finally:
        os._exit(1)


def _reap(ended: int) -> None:
    """Note that a child process of the stub has ended. A keeper that ends by itself leaves no process. If a keeper was killed, its
    processes became children of the stub, and the stub kills them."""
    if ended in _keepers:
        _keepers.discard(ended)
        for orphan in processes.children(os.getpid()) if kernel.LINUX else ():
            if orphan not in _keepers:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(orphan, signal.SIGKILL)


def _told(control: socket.socket) -> dict[str, Any]:
    text = b""
    while not text.endswith(b"\n"):
        data = control.recv(64 * 1024)
        if not data:
            raise EOFError("the runner is gone")
        text += data
    told: dict[str, Any] = json.loads(text)
    return told


def _say(control: socket.socket, message: dict[str, Any]) -> None:
    control.sendall(json.dumps(message).encode() + b"\n")


if __name__ == "__main__":
    main()

"""What the keeper tells the runner while a body runs."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from typing import Any, cast

from holdfast.hosts.sandbox.inside.keeper import _watched
from holdfast.hosts.sandbox.inside.limit_watch import Breach, LimitWatch


class Watch:
    """A body that uses the same all the time. The runner reads nothing before the third look, and stops the body at the sixth."""

    kilobytes, processes, cpu = 50_000, 1, 0.0

    def __init__(self, runner: socket.socket) -> None:
        self._runner = runner
        self._looks = 0
        self.heard = b""

    def check(self) -> Breach | None:
        self._looks += 1
        if self._looks >= 3:
            while True:
                try:
                    self.heard += self._runner.recv(1 << 20)
                except BlockingIOError:
                    break
        return Breach("timeout", "") if self._looks == 6 else None


def test_a_message_that_found_the_socket_full_is_sent_again() -> None:
    runner, keeper = socket.socketpair()
    body = subprocess.Popen(["sleep", "600"])
    woken, wake = os.pipe()
    runner.setblocking(False)
    try:
        while True:
            try:
                keeper.send(b"\n" * 1024, socket.MSG_DONTWAIT)
            except BlockingIOError:
                break
        watch = Watch(runner)
        breach, _ = _watched(body.pid, cast("LimitWatch", cast("Any", watch)), keeper, woken)
    finally:
        body.kill()
        body.wait()
        runner.close()
        keeper.close()
        os.close(woken)
        os.close(wake)
    assert breach is not None
    (told,) = [json.loads(line) for line in watch.heard.split(b"\n") if line]
    assert told == {"uses": {"kilobytes": 50_000, "processes": 1, "cpu_seconds": 0.0}}

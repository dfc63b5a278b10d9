"""One attempt of a body in its jail, seen from the runner: frames in and out, a clock, an end that is told when nothing of it is left.

made → locked → ready (a spare) → begun → killed or over → dead → Ended
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from collections import deque
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from holdfast.hosts.sandbox import frames
from holdfast.hosts.sandbox.description import Code, Ended, Frame, Jail, Tighter, Usage
from holdfast.hosts.sandbox.inside import wire
from holdfast.hosts.sandbox.output import Output
from holdfast.hosts.sandbox.together import Together
from holdfast.model.clock import monotonic

_CHUNK: Final = 64 * 1024
_QUEUE: Final = 64
_FDS: Final = 8
_READY: Final = {"op": "ready"}


class JailedBody:
    """A body in its jail. Everything happens on the loop that made it."""

    def __init__(self, jail: Jail, together: Together) -> None:
        self._loop = asyncio.get_running_loop()
        self._jail = jail
        self._together = together
        self.isolation: dict[str, Any] = {}
        """What holds it, as it was confirmed from inside."""
        self.pid: int | None = None
        self.unable: str | None = None
        """Set when it could not be locked in, and so never ran."""
        self._pidfd: int | None = None
        self._heard = b""
        self._account: dict[str, Any] | None = None
        self._verdict: tuple[Code, str] | None = None
        self._queue: deque[Frame] = deque()
        self._ended: Ended | None = None
        self._news = asyncio.Event()
        self._settled = asyncio.Event()  # ready, or over
        self._full = False
        self._ready = False
        self._sending = asyncio.Lock()
        self._blocked: asyncio.Future[None] | None = None
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._idle_seconds = 0.0
        self._last_at = 0.0
        self._working = 0
        self._reader = frames.Reader(jail.frame_bytes, jail.frames_per_second, monotonic())
        self._channel, theirs = socket.socketpair()
        self._control, keepers = socket.socketpair()
        printed, printing = os.pipe()
        self._output = Output(printed, jail.stdout_bytes, self._loop)
        self._given = (theirs, keepers, printing)
        for line, hear in ((self._channel, self._hear), (self._control, self._hear_keeper)):
            line.setblocking(False)
            self._loop.add_reader(line.fileno(), hear)

    # --- for the sandbox

    def hand_over(self, stub: socket.socket, *, children: bool) -> None:
        """Give the other ends to the stub, which makes the keeper."""
        theirs, keepers, printing = self._given
        try:
            stub.sendmsg(
                [wire.AS_THE_JAIL_SAYS if children else wire.WITHOUT_CHILDREN], wire.rights(theirs.fileno(), printing, keepers.fileno())
            )
        finally:
            theirs.close()
            keepers.close()
            os.close(printing)

    def begin(self, timeout: float, left: float, idle_timeout: float | None, tighter: Tighter) -> None:
        """Its clock starts, with what is left of its time."""
        self._together.begins(self)
        order = {"begin": timeout, "left": left, "memory_mb": tighter.memory_mb, "cpu_seconds": tighter.cpu_seconds}
        with contextlib.suppress(OSError):
            self._control.send(msgspec.json.encode(order) + b"\n")
        self._timers["timeout"] = self._loop.call_later(left, self.stop, "timeout", f"not done after {timeout:g} s")
        if idle_timeout is not None:
            self._idle_seconds, self._last_at = idle_timeout, monotonic()
            self._timers["idle"] = self._loop.call_later(idle_timeout, self._idle)

    def stop(self, code: Code, detail: str) -> None:
        """Begin to end it, now; the first reason counts."""
        if self._ended is not None:
            return
        self._verdict = self._verdict or (code, detail)
        self._signal()
        with contextlib.suppress(OSError):
            self._control.shutdown(socket.SHUT_WR)

    async def settled(self) -> None:
        """Wait until it is ready or over."""
        await self._settled.wait()

    @property
    def stopped(self) -> bool:
        """Is it being ended, or over?"""
        return self._verdict is not None or self.over

    @property
    def over(self) -> bool:
        """Is nothing of it left?"""
        return self._ended is not None or self.unable is not None

    # --- for the runner

    @property
    def stdout(self) -> bytes:
        """What it printed (both streams), up to the limit."""
        return self._output.kept()

    @property
    def stdout_cut(self) -> bool:
        """Did it print more than was kept?"""
        return self._output.cut

    async def send(self, frame: dict[str, Any], fd: int | None = None) -> None:
        """One frame to the body, in order; waits while it does not read. Nothing happens when it is gone: `receive` tells."""
        data = memoryview(frames.encoded(frame))
        async with self._sending:
            while data and self._ended is None:
                try:
                    sent = self._channel.sendmsg([data], [] if fd is None else wire.rights(fd))
                except BlockingIOError:
                    await self._writable()
                except OSError:
                    return
                else:
                    data, fd = data[sent:], None

    async def receive(self) -> Frame | Ended:
        """The next frame, or how it ended (again and again)."""
        while True:
            if self._queue:
                if self._full and self._ended is None:
                    self._full = False
                    self._listen("rest" not in self._timers)
                return self._queue.popleft()
            if self._ended is not None:
                return self._ended
            self._news.clear()
            await self._news.wait()

    async def kill(self, code: Code = "cancelled", detail: str = "") -> Ended:
        """End it now, all of it. Returns when nothing is left. What it said and nobody received is dropped; the first reason counts."""
        self.stop(code, detail)
        while self._ended is None:
            self._news.clear()
            await self._news.wait()
        self._drop()
        return self._ended

    async def close(self) -> None:
        """End it if it is not over, and let go of what was never received."""
        if not self.over:
            await self.kill()
        self._drop()

    def __del__(self) -> None:
        self._drop()

    def _drop(self) -> None:
        while self._queue:
            for fd in self._queue.popleft().fds:
                os.close(fd)

    @contextlib.contextmanager
    def working(self) -> Iterator[None]:
        """While the runner works for the body, the body is not idle."""
        self._working += 1
        try:
            yield
        finally:
            self._working -= 1
            self._last_at = monotonic()

    # --- its frames

    def _listen(self, on: bool) -> None:
        if on:
            self._loop.add_reader(self._channel.fileno(), self._hear)
        else:
            self._loop.remove_reader(self._channel.fileno())

    def _hear(self) -> bool:
        """One read. False when there is nothing more."""
        try:
            data, ancillary, flags, _ = self._channel.recvmsg(_CHUNK, socket.CMSG_SPACE(_FDS * 4), getattr(socket, "MSG_CMSG_CLOEXEC", 0))
        except BlockingIOError:
            return False
        except OSError:
            data, ancillary, flags = b"", [], 0
        if not data:
            self._listen(False)
            return False
        fds = wire.received(ancillary)
        try:
            if flags & socket.MSG_CTRUNC:
                for fd in fds:
                    os.close(fd)
                raise frames.Malformed("more descriptors than a message may carry")
            fresh = self._reader.take(data, fds, monotonic())
        except frames.Malformed as broken:
            self._listen(False)
            self.stop("worker_crashed", str(broken))
            return False
        if fresh:  # a piece of a frame is no sign of life: a body could send one byte at a time for ever
            self._last_at = monotonic()
        self._take(fresh)
        if self._reader.rest and self._ended is None:
            self._listen(False)
            self._timers["rest"] = self._loop.call_later(self._reader.rest, self._rested)
        return True

    def _rested(self) -> None:
        del self._timers["rest"]
        self._last_at = monotonic()
        if not self._full and self._ended is None:
            self._listen(True)

    def _take(self, fresh: list[Frame]) -> None:
        if fresh and not self._ready:
            first = fresh.pop(0)
            if first.data != _READY or first.fds:
                for fd in first.fds:
                    os.close(fd)
                self.stop("worker_crashed", "its first frame was not `ready`")
                return
            self._ready = True
            self._settle()
        self._queue += fresh
        if fresh:
            self._news.set()
        if len(self._queue) >= _QUEUE:
            self._full = True
            self._listen(False)

    def _settle(self) -> None:
        """It begins only when its keeper has confirmed what holds it, which may come after the body's own word."""
        if self._ready and self.pid is not None:
            self._settled.set()

    async def _writable(self) -> None:
        fd = self._channel.fileno()
        self._blocked = self._loop.create_future()
        self._loop.add_writer(fd, _done, self._blocked)
        try:
            await self._blocked
        finally:
            if self._channel.fileno() == fd:
                self._loop.remove_writer(fd)

    # --- its keeper, its end

    def _hear_keeper(self) -> None:
        try:
            data, ancillary, _, _ = self._control.recvmsg(_CHUNK, socket.CMSG_SPACE(_FDS * 4), getattr(socket, "MSG_CMSG_CLOEXEC", 0))
        except BlockingIOError:
            return
        except OSError:
            data, ancillary = b"", []
        for fd in wire.received(ancillary):
            self._pidfd = fd
        *lines, self._heard = (self._heard + data).split(b"\n")
        for line in lines:
            self._told(msgspec.json.decode(line))
        if not data:
            self._loop.remove_reader(self._control.fileno())
            self._keeper_gone()

    def _told(self, message: dict[str, Any]) -> None:
        if "locked" in message:
            self.pid, self.isolation = message["locked"]["pid"], message["locked"]["isolation"]
            if self._verdict is not None:
                self._signal()
            self._settle()
        elif "uses" in message:
            self._together.uses(self, message["uses"]["kilobytes"], message["uses"]["processes"])
        elif "unable" in message:
            self.unable = message["unable"]
        else:
            self._account = message["ended"]

    def _keeper_gone(self) -> None:
        """It leaves last. If somebody killed it, its body dies with it, which the kernel tells us through the body's descriptor."""
        if self._account is None and self.unable is None and self._pidfd is not None:
            self._signal()
            self._loop.add_reader(self._pidfd, self._over)
        else:
            self._over()

    def _signal(self) -> None:
        if self._pidfd is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def _idle(self) -> None:
        left = self._last_at + self._idle_seconds - monotonic()
        if self._working or self._full or not self._ready:  # while it is imported, only the timeout counts
            left = self._idle_seconds
        if left <= 0:
            self.stop("idle_timeout", f"no frame for {self._idle_seconds:g} s")
        else:
            self._timers["idle"] = self._loop.call_later(left, self._idle)

    def _over(self) -> None:
        """All of it is dead: what it said before still counts, then the end."""
        for timer in self._timers.values():
            timer.cancel()
        if self._verdict is None or self._verdict[0] != "worker_crashed":
            while self._hear():
                continue
        self._listen(False)
        self._output.close()
        if self._pidfd is not None:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None
        self._reader.close()
        self._loop.remove_writer(self._channel.fileno())
        if self._blocked is not None:  # somebody may hold the other end open, and never read
            _done(self._blocked)
        self._channel.close()
        self._control.close()
        account = self._account or {"code": "worker_crashed", "detail": self.unable or "its keeper was killed"}
        code, detail = self._verdict or (account["code"], account["detail"])
        self._together.leaves(self)
        self._ended = Ended(code, detail, Usage(account.get("cpu_seconds", 0.0), account.get("max_rss_mb", 0.0)))
        self._news.set()
        self._settled.set()


def _done(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)

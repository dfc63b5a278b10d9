"""JailedBody: one attempt of a body in its jail, seen from the runner: frames, timeouts, and the end of the attempt, which is
reported after the body's death.

made → locked → ready (a spare) → begun → killed, or ended by itself → dead → BodyEnd

A body that is made when no spare is there is begun before it is locked and ready.
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

from holdfast.hosts.sandbox import body_frames
from holdfast.hosts.sandbox.body_output import BodyOutput
from holdfast.hosts.sandbox.inside import body_channel
from holdfast.hosts.sandbox.jail import BodyEnd, BodyUsage, EndCode, Frame, Jail, TighterLimits
from holdfast.hosts.sandbox.server_limits import ServerLimits
from holdfast.model.clock import monotonic

_CHUNK: Final = 64 * 1024
_QUEUE: Final = 64
_FDS: Final = 8
_READY: Final = {"op": "ready"}


class JailedBody:
    """A body in its jail. All methods run on the event loop that made it."""

    def __init__(self, jail: Jail, server_limits: ServerLimits) -> None:
        self._loop = asyncio.get_running_loop()
        self._jail = jail
        self._server_limits = server_limits
        self.isolation: dict[str, Any] = {}
        """The locks that hold the body, as its process reported them from inside."""
        self.pid: int | None = None
        self.tenant: str | None = None
        """The tenant whose run it works on; the CPU that it uses is charged to this tenant. None for a spare."""
        self.charged = 0.0
        """How many CPU seconds its tenant has been charged for it until now."""
        self.unable: str | None = None
        """Why the body could not be locked in: then it never ran. None if it was locked in."""
        self._pidfd: int | None = None
        self._heard = b""
        self._account: dict[str, Any] | None = None
        self._verdict: tuple[EndCode, str] | None = None
        self._queue: deque[Frame] = deque()
        self._ended: BodyEnd | None = None
        self._news = asyncio.Event()
        self._settled = asyncio.Event()  # ready, or over
        self._full = False
        self._ready = False
        self._sending = asyncio.Lock()
        self._blocked: asyncio.Future[None] | None = None
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._idle_seconds = 0.0
        self._late = ""
        self._time_left: float | None = None
        """How many seconds of its time the body has left, while its clock is stopped; None if its clock runs."""
        self._last_at = 0.0
        self._working = 0
        self._reader = body_frames.FrameReader(jail.frame_bytes, jail.frames_per_second, monotonic())
        self._channel, theirs = socket.socketpair()
        self._control, keepers = socket.socketpair()
        printed, printing = os.pipe()
        self._output = BodyOutput(printed, jail.stdout_bytes, self._loop)
        self._given = (theirs, keepers, printing)
        for line, hear in ((self._channel, self._hear), (self._control, self._hear_keeper)):
            line.setblocking(False)
            self._loop.add_reader(line.fileno(), hear)

    # --- for the sandbox

    def hand_over(self, stub: socket.socket, nice: int, *, children: bool) -> None:
        """Ask the stub, the process that starts bodies, to start this body: pass it the other ends of the channel, the output pipe and the
        control socket. `nice` is the nice value of the body. With `children=False` the body may start no processes. Raises OSError if the
        stub cannot be reached."""
        theirs, keepers, printing = self._given
        try:
            asked = (body_channel.AS_THE_JAIL_SAYS if children else body_channel.WITHOUT_CHILDREN) + bytes([nice])
            stub.sendmsg([asked], body_channel.rights(theirs.fileno(), printing, keepers.fileno()))
        finally:
            theirs.close()
            keepers.close()
            os.close(printing)

    def begin(self, timeout: float, left: float, idle_timeout: float | None, tighter: TighterLimits) -> None:
        """Begin the attempt. `timeout` is its time limit in seconds, of which `left` seconds remain from now on. The body is ended after
        `idle_timeout` seconds without a frame from the body, not counting its import and the time in which the runner works for the body
        (`working`); None: there is no such limit. `tighter`: limits of this attempt that are lower than those of the jail."""
        self._server_limits.body_began(self)
        nice = self._server_limits.nice(self.tenant or "")
        order = {"begin": timeout, "left": left, "memory_mb": tighter.memory_mb, "cpu_seconds": tighter.cpu_seconds, "nice": nice}
        self._order(order)
        self._late = f"not done after {timeout:g} s"
        self._timers["timeout"] = self._loop.call_later(left, self.stop, "timeout", self._late)
        if idle_timeout is not None:
            self._idle_seconds, self._last_at = idle_timeout, monotonic()
            self._timers["idle"] = self._loop.call_later(idle_timeout, self._idle)

    def _order(self, order: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):
            self._control.send(msgspec.json.encode(order) + b"\n")

    def stop(self, code: EndCode, detail: str) -> None:
        """Kill the body, without waiting for its death. `code` and `detail` become those of the BodyEnd; if this is called several times,
        those of the first call. Does nothing if the body is dead."""
        if self._ended is not None:
            return
        self._verdict = self._verdict or (code, detail)
        self._signal()
        with contextlib.suppress(OSError):
            self._control.shutdown(socket.SHUT_WR)

    async def settled(self) -> None:
        """Wait until the body is ready (locked in, and its code imported), or no process of it is left."""
        await self._settled.wait()

    @property
    def stopped(self) -> bool:
        """Whether the body has been told to end, or is dead."""
        return self._verdict is not None or self.over

    @property
    def over(self) -> bool:
        """Whether the body has ended with all its processes, or could not be locked in. False before it has started."""
        return self._ended is not None or self.unable is not None

    # --- for the runner

    @property
    def stdout(self) -> bytes:
        """The beginning of the body's output (standard output and standard error), at most `Jail.stdout_bytes`."""
        return self._output.kept()

    async def send(self, frame: dict[str, Any], fd: int | None = None) -> None:
        """Send one frame to the body, with the descriptor `fd` if it is given. Frames arrive in the order of the calls. Waits while the
        body does not read. Does nothing after the end of the body; the caller learns of the end from `receive`."""
        data = memoryview(body_frames.encoded(frame))
        async with self._sending:
            while data and self._ended is None:
                try:
                    sent = self._channel.sendmsg([data], [] if fd is None else body_channel.rights(fd))
                except BlockingIOError:
                    await self._writable()
                except OSError:
                    return
                else:
                    data, fd = data[sent:], None

    async def receive(self) -> Frame | BodyEnd:
        """Wait for the next frame, and return it. When the body has ended and no frame is left, every call returns the end."""
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

    async def kill(self, code: EndCode = "cancelled", detail: str = "") -> BodyEnd:
        """End the body with all its processes, and return when none is left. Frames that were not received yet are dropped. `code` and
        `detail` become those of the BodyEnd; if the body was told to end before, those of the first time stay."""
        self.stop(code, detail)
        while self._ended is None:
            self._news.clear()
            await self._news.wait()
        self._drop()
        return self._ended

    async def close(self) -> None:
        """End the body if it lives, and close the descriptors of unread frames."""
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
        """While the caller is inside this block, the idle timeout does not run: the runner works for the body, and the body waits. After
        the block the idle timeout starts again from 0."""
        self._working += 1
        try:
            yield
        finally:
            self._working -= 1
            self._last_at = monotonic()

    def stop_time(self) -> None:
        """Stop the clock of the body's time limit, here and at its keeper."""
        if (timer := self._timers.pop("timeout", None)) is not None:
            self._time_left = timer.when() - self._loop.time()
            timer.cancel()
            self._order({"left": None})

    def go_on(self) -> None:
        """Start the clock of the body's time limit again, with the time that was left at `stop_time`."""
        left, self._time_left = self._time_left, None
        if left is not None and not self.over:
            self._order({"left": left})
            self._timers["timeout"] = self._loop.call_later(left, self.stop, "timeout", self._late)

    # --- its frames

    def _listen(self, on: bool) -> None:
        if on:
            self._loop.add_reader(self._channel.fileno(), self._hear)
        else:
            self._loop.remove_reader(self._channel.fileno())

    def _hear(self) -> bool:
        """Read once what the body sent. Returns True if bytes were read. Returns False if there are none at the moment, if the channel is
        closed, or if the body broke a rule. The time that the reading takes is charged to the body's tenant."""
        began = monotonic()
        more = self._read()
        if self.tenant is not None:
            self._server_limits.shares.add(self.tenant, monotonic() - began, began)
        return more

    def _read(self) -> bool:
        try:
            data, ancillary, flags, _ = self._channel.recvmsg(_CHUNK, socket.CMSG_SPACE(_FDS * 4), getattr(socket, "MSG_CMSG_CLOEXEC", 0))
        except BlockingIOError:
            return False
        except OSError:
            data, ancillary, flags = b"", [], 0
        if not data:
            self._listen(False)
            return False
        fds = body_channel.received(ancillary)
        try:
            if flags & socket.MSG_CTRUNC:
                for fd in fds:
                    os.close(fd)
                raise body_frames.Malformed("more descriptors than a message may carry")
            fresh = self._reader.take(data, fds, monotonic())
        except body_frames.Malformed as broken:
            self._listen(False)
            self.stop("worker_crashed", str(broken))
            return False
        if fresh:  # only a whole frame counts as activity: else a body could send one byte at a time for ever
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
        """Mark the body as ready when both its keeper has confirmed the locks and the body has said `ready`, in any order."""
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
        for fd in body_channel.received(ancillary):
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
            uses = message["uses"]
            self._server_limits.body_uses(self, uses["kilobytes"], uses["processes"])
            if self.tenant is not None and uses["cpu_seconds"] > self.charged:
                self._server_limits.shares.add(self.tenant, uses["cpu_seconds"] - self.charged, monotonic())
                self.charged = uses["cpu_seconds"]
        elif "unable" in message:
            self.unable = message["unable"]
        else:
            self._account = message["ended"]
            if self.tenant is not None:
                self._server_limits.body_used(self, self.tenant, self.charged, message["ended"]["cpu_seconds_in_all"])

    def _keeper_gone(self) -> None:
        """Called when the keeper has closed its socket. Normally the keeper ends only after its body has ended. If the keeper was killed
        first, its body is killed too, and the descriptor of the body's process shows when it is dead."""
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
        if self._working or self._full or not self._ready:  # during the import, only the timeout counts
            left = self._idle_seconds
        if left <= 0:
            self.stop("idle_timeout", f"no frame for {self._idle_seconds:g} s")
        else:
            self._timers["idle"] = self._loop.call_later(left, self._idle)

    def _over(self) -> None:
        """Called when all processes of the body are dead. Queues the frames that the body sent before its death (none if the body broke a
        rule of the channel), then the end, for `receive`."""
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
        if self._blocked is not None:  # another process may hold the other end open, and never read
            _done(self._blocked)
        self._channel.close()
        self._control.close()
        account = self._account or {"code": "worker_crashed", "detail": self.unable or "its keeper was killed"}
        code, detail = self._verdict or (account["code"], account["detail"])
        self._server_limits.remove_body(self)
        self._ended = BodyEnd(code, detail, BodyUsage(account.get("cpu_seconds", 0.0), account.get("max_rss_mb", 0.0)))
        self._news.set()
        self._settled.set()


def _done(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)

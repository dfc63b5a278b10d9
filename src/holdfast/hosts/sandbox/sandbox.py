"""A sandbox: the stub of one worker version and one spare, which waits locked in and with its code imported. No process serves twice."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Final

import msgspec

from holdfast.hosts.sandbox.description import Jail, SandboxUnavailable, Tighter
from holdfast.hosts.sandbox.jailed_body import JailedBody
from holdfast.hosts.sandbox.together import Together
from holdfast.model.clock import monotonic
from holdfast.model.threads import Purpose, in_thread

_STUB: Final = str(Path(__file__).parent / "inside" / "stub.py")
_START_SECONDS: Final = 30.0
_END_SECONDS: Final = 10.0
_STUBS: Final = 3
_REFILL_SECONDS: Final = 0.01
"""The attempt goes first: on a small machine the making of its successor would slow its start."""
# Nothing of ours. One heap for all threads: each further one reserves addresses that count against the limit.
_ENVIRONMENT: Final = {"LANG": "C.UTF-8", "MALLOC_ARENA_MAX": "1"}
_AS_THE_JAIL_SAYS: Final = Tighter()
_ADVICE: Final = "`--isolation process` runs it without a jail, as an ordinary process with limits"


class Sandbox:
    """Attempts of one worker version, each in a jail of its own. Everything happens on the loop that starts it.

    `together` is what all sandboxes of a server share: a cap on what their bodies have in all.
    """

    def __init__(self, jail: Jail, together: Together | None = None) -> None:
        self._jail = jail
        self._together = together or Together()
        self._stub: _Stub | None = None
        self._starting = asyncio.Lock()
        self._spare: JailedBody | None = None
        self._attempts: set[JailedBody] = set()
        self._closed = False

    async def start(self) -> dict[str, Any]:
        """Start the stub and the first spare, unless they run. Returns what this machine offers.

        Raises SandboxUnavailable when that is not enough, naming what is missing.
        """
        async with self._starting:
            if self._stub is None or self._stub.dead:
                if self._stub is not None:
                    await self._stub.close()
                self._stub, self._spare = await _Stub.started(self._jail), None
            if self._spare is None and not self._closed and self._together.has_room():
                self._spare = self._made(self._stub)
            return self._stub.means

    async def attempt(self, timeout: float, idle_timeout: float | None = None, tighter: Tighter = _AS_THE_JAIL_SAYS) -> JailedBody:
        """A body that has imported its code and waits, within the time; or one that is over, which `receive` tells.

        The time counts from here: what the sandbox needs to start is part of it, and so is the wait for room (Overloaded).
        """
        began = monotonic()
        if self._closed:
            raise SandboxUnavailable("the sandbox is closed")
        attempt = await self._next(timeout, children=not tighter.no_children)
        attempt.begin(timeout, max(0.001, timeout - (monotonic() - began)), idle_timeout, tighter)
        try:
            await attempt.settled()
        except asyncio.CancelledError:
            attempt.stop("cancelled", "nobody waits for it any more")
            raise
        if attempt.unable is not None:
            raise SandboxUnavailable(f"the worker could not be locked in: {attempt.unable}; {_ADVICE}")
        return attempt

    async def rest(self) -> None:
        """Let the stub and the spare go, unless an attempt is under way; the next attempt starts them again."""
        async with self._starting:
            stub, spare = self._stub, self._spare
            if stub is None or self._closed or any(not each.over and each is not spare for each in self._attempts):
                return
            self._stub = self._spare = None
            if spare is not None:
                await spare.close()
            await stub.close()

    async def close(self) -> None:
        """End every attempt and the stub, and wait until they are gone."""
        self._closed = True
        await asyncio.gather(*(attempt.close() for attempt in list(self._attempts)))
        self._attempts.clear()
        if self._stub is not None:
            await self._stub.close()

    async def _next(self, seconds: float, *, children: bool) -> JailedBody:
        for _ in range(_STUBS):
            with contextlib.suppress(OSError):  # the stub died while we asked: there will be another
                await self.start()
                if children or not self._jail.allow_children:
                    spare = self._taken()
                    if spare is not None:
                        return spare
                await self._together.room(seconds)
                if self._stub is not None:
                    return self._made(self._stub, children=children)
        raise SandboxUnavailable("the stub dies as soon as it is started")

    @property
    def idle(self) -> bool:
        """Is nobody at work in it?"""
        return not self._starting.locked() and all(attempt.over or attempt is self._spare for attempt in self._attempts)

    def _taken(self) -> JailedBody | None:
        """The spare, if it lives; the next one is made while this one works."""
        spare, self._spare = self._spare, None
        asyncio.get_running_loop().call_later(_REFILL_SECONDS, self._refill)
        return None if spare is None or spare.over or spare.stopped else spare

    def _refill(self) -> None:
        if self._spare is None and not self._closed and self._stub is not None and self._together.has_room():
            with contextlib.suppress(OSError):  # the stub died: the next attempt starts another
                self._spare = self._made(self._stub)

    def _made(self, stub: _Stub, *, children: bool = True) -> JailedBody:
        attempt = JailedBody(self._jail, self._together)
        self._attempts = {other for other in self._attempts if not other.over} | {attempt}
        self._together.joins(attempt, self)
        stub.make(attempt, children=children)
        return attempt


class _Stub:
    """The process that forks keepers."""

    def __init__(self, jail: Jail) -> None:
        self.means: dict[str, Any] = {}
        self._broken = False
        self._control, theirs = socket.socketpair()
        command = [str(jail.python), "-I", "-S", "-u", _STUB, str(os.getpid())]
        quiet = subprocess.DEVNULL
        environment = {**_ENVIRONMENT, "TMPDIR": tempfile.gettempdir()}
        try:
            with theirs:  # on the loop's own thread: when the thread that started it ends, the kernel ends the stub
                self._process = subprocess.Popen(
                    command, stdin=theirs.fileno(), stdout=quiet, stderr=quiet, env=environment, cwd="/", start_new_session=True
                )
        except OSError as error:
            self._control.close()
            raise SandboxUnavailable(f"the interpreter {jail.python} could not be started: {error.strerror}") from None
        self._control.setblocking(False)

    @classmethod
    async def started(cls, jail: Jail) -> _Stub:
        """Start it, tell it its jail, and hear what it can do."""
        stub = cls(jail)
        try:
            await stub._greet(jail)
        except BaseException:
            await stub.close()
            raise
        return stub

    @property
    def dead(self) -> bool:
        """Did it end?"""
        return self._broken or self._process.poll() is not None

    def make(self, attempt: JailedBody, *, children: bool) -> None:
        """Have a keeper made for this one; without children when it may have none, whatever the jail says."""
        try:
            attempt.hand_over(self._control, children=children)
        except OSError:
            self._broken = True
            raise

    async def close(self) -> None:
        """Let it go; it takes leave of its keepers first."""
        self._control.close()
        try:
            await in_thread(Purpose.HOUSE, self._process.wait, _END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            await in_thread(Purpose.HOUSE, self._process.wait)

    async def _greet(self, jail: Jail) -> None:
        loop = asyncio.get_running_loop()
        text = b""
        try:
            async with asyncio.timeout(_START_SECONDS):
                await loop.sock_sendall(self._control, msgspec.json.encode(msgspec.to_builtins(jail, enc_hook=str)) + b"\n")
                while not text.endswith(b"\n"):
                    data = await loop.sock_recv(self._control, 64 * 1024)
                    if not data:
                        raise ConnectionResetError
                    text += data
        except ConnectionError:
            raise SandboxUnavailable(f"the stub ended at once ({jail.python} -I -S); is this interpreter whole?") from None
        except TimeoutError:
            raise SandboxUnavailable(f"the stub did not start within {_START_SECONDS:g} s") from None
        answer = msgspec.json.decode(text)
        if "error" in answer:
            raise SandboxUnavailable(f"the stub failed: {answer['error']}")
        if answer["missing"]:
            raise SandboxUnavailable(f"isolation `all` needs {answer['missing']}; {_ADVICE}")
        self.means = answer["means"]

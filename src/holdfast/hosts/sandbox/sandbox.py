"""Sandbox: the stub of one worker version and at most one spare body, which waits in its jail with its code imported. No body is used
twice."""

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

from holdfast.hosts.sandbox.jail import Jail, SandboxUnavailable, TighterLimits
from holdfast.hosts.sandbox.jailed_body import JailedBody
from holdfast.hosts.sandbox.server_limits import ServerLimits
from holdfast.model.clock import monotonic
from holdfast.model.threads import Purpose, in_thread

_STUB: Final = str(Path(__file__).parent / "inside" / "stub.py")
_START_SECONDS: Final = 30.0
_END_SECONDS: Final = 10.0
_STUBS: Final = 3
_REFILL_SECONDS: Final = 0.01
"""The seconds from the start of an attempt until the next spare is made: on a small machine, making it at once would slow down the
attempt."""
# The stub inherits no variable of ours. One malloc arena for all threads: each arena reserves addresses, which count against the limit.
_ENVIRONMENT: Final = {"LANG": "C.UTF-8", "MALLOC_ARENA_MAX": "1"}
_AS_THE_JAIL_SAYS: Final = TighterLimits()
_ADVICE: Final = "`--isolation process` runs the worker without a jail, as an ordinary process with limits"


class Sandbox:
    """Makes attempts of one worker version, each in a jail of its own. All methods run on the event loop that starts it.

    All sandboxes of a server share `server_limits`: the limits for all their bodies together.
    """

    def __init__(self, jail: Jail, server_limits: ServerLimits | None = None) -> None:
        self._jail = jail
        self._server_limits = server_limits or ServerLimits()
        self._stub: _Stub | None = None
        self._starting = asyncio.Lock()
        self._spare: JailedBody | None = None
        self._attempts: set[JailedBody] = set()
        self._closed = False

    async def start(self) -> dict[str, Any]:
        """Start the stub if it does not run. Make a spare if there is none and there is capacity for one. Returns the kernel features of
        this machine.

        Raises SandboxUnavailable if the stub cannot be started, or if kernel features are missing; the error names them.
        """
        async with self._starting:
            if self._stub is None or self._stub.dead:
                if self._stub is not None:
                    await self._stub.close()
                self._stub, self._spare = await _Stub.started(self._jail), None
            if self._spare is None and not self._closed and self._server_limits.has_room():
                self._spare = self._made(self._stub)
            return self._stub.features

    async def turn(self, tenant: str, seconds: float) -> None:
        """Wait until this tenant may start another body. Raises Overloaded if that takes longer than `seconds` (`ServerLimits.turn`). Call
        `attempt` right after this."""
        await self._server_limits.turn(tenant, seconds)

    async def attempt(
        self, timeout: float, idle_timeout: float | None = None, tighter: TighterLimits = _AS_THE_JAIL_SAYS, *, tenant: str = ""
    ) -> JailedBody:
        """A body that has imported its code and waits for frames. If the body ended before it was ready, it is returned too, and its
        `receive` returns the end. The body is ended after `idle_timeout` seconds without a frame from the body, not counting its import and
        the time in which the runner works for it; None: there is no such limit. `tighter`: limits of this attempt that are lower than those
        of the jail.

        The timeout starts now: it includes the start of the sandbox and the wait for free capacity. The CPU that the body uses is charged
        to the tenant. Raises Overloaded if no capacity is free within the timeout. Raises SandboxUnavailable if the sandbox is closed or
        cannot be started, or if the body cannot be locked in.
        """
        began = monotonic()
        if self._closed:
            raise SandboxUnavailable("the sandbox is closed")
        charged = self._server_limits.shares.begin(tenant, self, began)
        try:
            attempt = await self._next(began + timeout, tenant, children=not tighter.no_children)
        except BaseException:  # no body uses what was charged for it
            self._server_limits.shares.add(tenant, -charged, monotonic())
            raise
        attempt.tenant, attempt.charged = tenant, charged
        attempt.begin(timeout, max(0.001, timeout - (monotonic() - began)), idle_timeout, tighter)
        try:
            await attempt.settled()
        except asyncio.CancelledError:
            attempt.stop("cancelled", "the caller no longer waits for it")
            raise
        if attempt.unable is not None:
            raise SandboxUnavailable(f"the sandbox for the worker could not be made: {attempt.unable}; {_ADVICE}")
        return attempt

    async def rest(self) -> None:
        """End the stub and the spare, unless an attempt runs or the sandbox is closed. The next attempt starts them again."""
        async with self._starting:
            stub, spare = self._stub, self._spare
            if stub is None or self._closed or any(not each.over and each is not spare for each in self._attempts):
                return
            self._stub = self._spare = None
            if spare is not None:
                await spare.close()
            await stub.close()

    async def close(self) -> None:
        """End every attempt and the stub, and wait until they are dead."""
        self._closed = True
        await asyncio.gather(*(attempt.close() for attempt in list(self._attempts)))
        self._attempts.clear()
        if self._stub is not None:
            await self._stub.close()

    async def _next(self, until: float, tenant: str, *, children: bool) -> JailedBody:
        for _ in range(_STUBS):
            with contextlib.suppress(OSError):  # the stub died meanwhile: the loop starts another one
                await self.start()
                if children or not self._jail.allow_children:
                    spare = self._taken(tenant)
                    if spare is not None:
                        return spare
                await self._server_limits.room(max(0.0, until - monotonic()))
                if self._stub is not None:
                    return self._made(self._stub, tenant, spare=False, children=children)
        raise SandboxUnavailable(f"the stub, the process that starts the worker's bodies, ended {_STUBS} times as soon as it was started")

    @property
    def idle(self) -> bool:
        """Whether no attempt runs, and the stub is not being started or ended. An attempt that waits for capacity does not count."""
        return not self._starting.locked() and all(attempt.over or attempt is self._spare for attempt in self._attempts)

    def _taken(self, tenant: str) -> JailedBody | None:
        """Take the spare, a body that waits with its code imported; None if there is none, or if it is dead or being ended. Whether a spare
        was taken or not, the next one is made a moment later, if there is capacity for it. `tenant` decides the nice value of that next
        spare."""
        spare, self._spare = self._spare, None
        asyncio.get_running_loop().call_later(_REFILL_SECONDS, self._refill, tenant)
        return None if spare is None or spare.over or spare.stopped else spare

    def _refill(self, tenant: str) -> None:
        if self._spare is None and not self._closed and self._stub is not None and self._server_limits.has_room():
            with contextlib.suppress(OSError):  # the stub died: the next attempt starts another
                self._spare = self._made(self._stub, tenant)

    def _made(self, stub: _Stub, tenant: str = "", *, spare: bool = True, children: bool = True) -> JailedBody:
        attempt = JailedBody(self._jail, self._server_limits)
        self._attempts = {other for other in self._attempts if not other.over} | {attempt}
        self._server_limits.add_body(attempt, self, spare=spare)
        stub.make(attempt, self._server_limits.nice(tenant), children=children)
        return attempt


async def find_kernel_features(folder: Path) -> dict[str, Any]:
    """The kernel features of this machine for a sandbox. To find them, a stub, the process that starts bodies, is started for a worker with
    its package in this folder, and ended; no body is started.

    Raises SandboxUnavailable if the stub cannot be started, or if features for isolation `all` are missing; the error names them.
    """
    stub = await _Stub.started(Jail(package=folder, entry="none:none"))
    await stub.close()
    return stub.features


class _Stub:
    """The process that starts a worker's bodies. For each body it forks a keeper, which starts the body and watches it."""

    def __init__(self, jail: Jail) -> None:
        self.features: dict[str, Any] = {}
        self._broken = False
        self._control, theirs = socket.socketpair()
        command = [str(jail.python), "-I", "-S", "-u", _STUB, str(os.getpid())]
        quiet = subprocess.DEVNULL
        environment = {**_ENVIRONMENT, "TMPDIR": tempfile.gettempdir()}
        try:
            with theirs:  # start it on the loop's own thread: the kernel ends the stub when the thread that started it ends
                self._process = subprocess.Popen(
                    command, stdin=theirs.fileno(), stdout=quiet, stderr=quiet, env=environment, cwd="/", start_new_session=True
                )
        except OSError as error:
            self._control.close()
            raise SandboxUnavailable(f"the interpreter {jail.python} could not be started: {error.strerror}") from None
        self._control.setblocking(False)

    @classmethod
    async def started(cls, jail: Jail) -> _Stub:
        """Start the stub: the process that starts the bodies of workers. Send it the jail: what these bodies may see and use. Read the
        kernel features that the stub found. Raises SandboxUnavailable if the stub cannot be started, or if kernel features are missing."""
        stub = cls(jail)
        try:
            await stub._greet(jail)
        except BaseException:
            await stub.close()
            raise
        return stub

    @property
    def dead(self) -> bool:
        """Whether the stub has ended, or a message could not be sent to it."""
        return self._broken or self._process.poll() is not None

    def make(self, attempt: JailedBody, nice: int, *, children: bool) -> None:
        """Ask the stub for a keeper for this attempt. `nice` is the nice value of its body. `children=False` forbids child processes, also
        if the jail allows them. Raises OSError if the stub cannot be reached; it then counts as dead."""
        try:
            attempt.hand_over(self._control, nice, children=children)
        except OSError:
            self._broken = True
            raise

    async def close(self) -> None:
        """End the stub, and wait until it is dead. The stub first waits until its keepers have ended. A stub that takes longer than 10
        seconds is killed."""
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
            raise SandboxUnavailable(f"the stub ended at once ({jail.python} -I -S); is this Python installation complete?") from None
        except TimeoutError:
            raise SandboxUnavailable(f"the stub did not start within {_START_SECONDS:g} s") from None
        answer = msgspec.json.decode(text)
        if "error" in answer:
            raise SandboxUnavailable(f"the stub, the process that starts the worker's bodies, failed: {answer['error']}")
        if answer["missing"]:
            raise SandboxUnavailable(f"isolation `all` needs a kernel with {answer['missing']}; {_ADVICE}")
        self.features = answer["features"]

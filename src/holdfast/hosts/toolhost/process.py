"""One warm process of one tool: started, told its file, then one call at a time; killed with its whole group.

The process belongs to one tool, so no other tool's secrets were ever in its memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from holdfast.hosts.toolhost.frames import Frame, FrameBroken, packed, read_frame

_KEPT_OF_ENVIRONMENT: Final = ("PATH", "LANG", "LC_ALL", "TZ", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR")
_CHILD: Final = Path(__file__).with_name("child.py")
_ROOT: Final = Path(__file__).parents[3]
"""Where this very code lies: the process runs no other version of it."""
# -B: compiled code does not go beside the source, which is the snapshot that runs are pinned to.
_LONGEST_LINE: Final = 8 * 1024
_MOST_OUTPUT: Final = 1024 * 1024

Log = Callable[[str, str], None]
"""Hears each line a tool printed: the tool's name and the line."""


class Hosted(Struct, frozen=True):
    """A tool: the file that declares it, and its name."""

    file: Path
    tool: str
    paths: tuple[str, ...] = ()
    """Where the file's own imports are found, after its folder."""


class Died(Exception):
    """The process ended without an answer."""


class ToolProcess:
    """A running process of one tool."""

    def __init__(
        self, hosted: Hosted, process: asyncio.subprocess.Process, streams: tuple[asyncio.StreamReader, asyncio.StreamWriter]
    ) -> None:
        self.hosted = hosted
        self.redact: Callable[[str], str] = str
        """What it prints during a call loses the call's secrets first."""
        self._process = process
        self._reader, self._writer = streams
        self._printing: asyncio.Task[None] | None = None

    @classmethod
    async def start(cls, hosted: Hosted, *, max_result_bytes: int, log: Log | None) -> ToolProcess:
        """Start one and have it import the file; raises Died with the reason when that fails."""
        ours, theirs = socket.socketpair()
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-I", "-B", "-u", str(_CHILD), str(theirs.fileno()), str(_ROOT),
                stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
                pass_fds=[theirs.fileno()], start_new_session=True, limit=_LONGEST_LINE,
                env={name: os.environ[name] for name in _KEPT_OF_ENVIRONMENT if name in os.environ},
            )  # fmt: skip
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        ours.setblocking(False)
        self = cls(hosted, process, await asyncio.open_connection(sock=ours, limit=1 << 20))
        self._printing = asyncio.create_task(self._print(log))
        try:
            begin = {"op": "begin", "file": str(hosted.file), "tool": hosted.tool, "paths": list(hosted.paths)}
            first = await self._ask({**begin, "max_result_bytes": max_result_bytes})
        except BaseException:
            await self.kill()
            raise
        if first["op"] != "ready":
            await self.kill()
            raise Died(str(first.get("message", "it could not be imported")))
        return self

    @property
    def alive(self) -> bool:
        """Whether it can take another call."""
        return self._process.returncode is None and not self._reader.at_eof()

    @property
    def pid(self) -> int:
        """Its process id, which is also its group's."""
        return self._process.pid

    async def ask(self, frame: Mapping[str, Any]) -> Frame:
        """One call and its answer; raises Died."""
        return await self._ask(frame)

    async def _ask(self, frame: Mapping[str, Any]) -> Frame:
        try:
            self._writer.write(packed(dict(frame)))
            await self._writer.drain()
            answer = await read_frame(self._reader)
        except (ConnectionError, FrameBroken) as error:
            raise Died(str(error)) from None
        if answer is None:
            raise Died(await self._how_it_ended())
        return answer

    async def _how_it_ended(self) -> str:
        try:
            code = await asyncio.wait_for(self._process.wait(), 1.0)
        except TimeoutError:
            return "its process closed the line"
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"  # those for real time have no names
        return f"its process was killed by {name}" if code < 0 else f"its process exited with {code}"

    async def kill(self) -> None:
        """End it and everything it started; it is dead when this returns."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._writer.close()
        await self._process.wait()
        if self._printing is not None:
            self._printing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._printing

    async def _print(self, log: Log | None) -> None:
        """Whatever it prints is read, so that it never blocks; a bounded part of it is passed on."""
        assert self._process.stdout is not None
        passed = 0
        while True:
            try:
                line = await self._process.stdout.readuntil(b"\n")
            except asyncio.IncompleteReadError as end:
                line = end.partial
                if not line:
                    return
            except asyncio.LimitOverrunError as over:
                line = await self._process.stdout.readexactly(over.consumed)
            passed += len(line)
            if log is not None and passed <= _MOST_OUTPUT:
                log(self.hosted.tool, self.redact(line.decode("utf-8", errors="replace").rstrip("\n")))

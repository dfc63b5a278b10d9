"""ToolProcess: one warm process of one tool. It imports the tool's file, makes one call at a time, and is killed with its whole group.

A process belongs to one tool, so its memory never held another tool's secrets.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import select
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from holdfast.hosts.toolhost.tool_frames import FrameBroken, ToolFrame, packed, read_frame

_KEPT_OF_ENVIRONMENT: Final = ("PATH", "LANG", "LC_ALL", "TZ", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR")
_CHILD: Final = Path(__file__).with_name("tool_main.py")
_ROOT: Final = Path(__file__).parents[3]
"""The folder of Holdfast's own code, so that the process runs the same version."""
# -B: Python writes no bytecode beside the source, which is a snapshot that must not change.
_LONGEST_LINE: Final = 8 * 1024
_MOST_OUTPUT: Final = 1024 * 1024
_LAST_LINES_SECONDS: Final = 0.5
"""After a process is killed, its last printed lines are read for at most this many seconds."""

ToolLog = Callable[[str, str], None]
"""Called for each line that a tool prints, with the tool's name and the line."""


class HostedTool(Struct, frozen=True):
    """A tool: the file that declares it, and its name."""

    file: Path
    tool: str
    paths: tuple[str, ...] = ()
    """Folders in which the file's imports are searched, after its own folder."""


class ToolProcessDied(Exception):
    """Raised if the process ended without an answer, sent bytes that are not a frame, or could not import the tool's file."""

    def __init__(self, reason: str, *, begun: bool = True) -> None:
        super().__init__(reason)
        self.begun = begun
        """Whether the process may have begun the call. False only if it certainly never received the whole call. It means nothing if
        `start` raised the error."""


class ToolProcess:
    """A running process of one tool."""

    def __init__(
        self, hosted: HostedTool, process: asyncio.subprocess.Process, streams: tuple[asyncio.StreamReader, asyncio.StreamWriter]
    ) -> None:
        self.hosted = hosted
        self.redact: Callable[[str], str] = str
        """Removes the secrets of the current call from what the process prints."""
        self._process = process
        self._reader, self._writer = streams
        self._printed: asyncio.ReadTransport | None = None
        self._printing: asyncio.Task[None] | None = None

    @classmethod
    async def start(cls, hosted: HostedTool, *, max_result_bytes: int, log: ToolLog | None) -> ToolProcess:
        """Start a process, and wait until it has imported the file. Raises ToolProcessDied with the reason if the file cannot be imported
        or the process ends, and OSError if the process cannot be started."""
        ours, theirs = socket.socketpair()
        # A pipe of our own: if asyncio made it, `wait` would also wait for processes that left the group and still have the pipe.
        try:
            printed, printing = os.pipe()
        except OSError:
            ours.close()
            theirs.close()
            raise
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-I", "-B", "-u", str(_CHILD), str(theirs.fileno()), str(_ROOT),
                stdin=asyncio.subprocess.DEVNULL, stdout=printing, stderr=asyncio.subprocess.STDOUT,
                pass_fds=[theirs.fileno()], start_new_session=True,
                env={name: os.environ[name] for name in _KEPT_OF_ENVIRONMENT if name in os.environ},
            )  # fmt: skip
        except BaseException:
            ours.close()
            os.close(printed)
            raise
        finally:
            theirs.close()
            os.close(printing)
        ours.setblocking(False)
        self = cls(hosted, process, await asyncio.open_connection(sock=ours, limit=1 << 20))
        lines = asyncio.StreamReader(limit=_LONGEST_LINE)
        pipe = os.fdopen(printed, "rb", buffering=0)
        self._printed, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), pipe)
        self._printing = asyncio.create_task(self._print(lines, log))
        try:
            begin = {"op": "begin", "file": str(hosted.file), "tool": hosted.tool, "paths": list(hosted.paths)}
            first = await self.ask({**begin, "max_result_bytes": max_result_bytes})
        except BaseException:
            await self.kill()
            raise
        if first["op"] != "ready":
            await self.kill()
            raise ToolProcessDied(str(first.get("message", "it could not be imported")))
        return self

    @property
    def alive(self) -> bool:
        """Whether the process lives and can get another call. This asks the kernel, because the event loop may not know yet that the
        process has ended."""
        if self._process.returncode is not None or self._reader.at_eof():
            return False
        line = select.poll()
        line.register(self._writer.get_extra_info("socket").fileno(), select.POLLIN)
        return not line.poll(0)  # a process that is not asked anything says nothing

    @property
    def pid(self) -> int:
        """The id of the process, which is also the id of its process group."""
        return self._process.pid

    async def ask(self, frame: Mapping[str, Any]) -> ToolFrame:
        """Make one call and return its answer. Raises FrameBroken if the call is too large: then nothing was sent. Raises ToolProcessDied
        if the process ends without an answer, or if the answer is not a valid frame."""
        data = packed(dict(frame))
        try:
            self._writer.write(data)
            await self._writer.drain()
            answer = await read_frame(self._reader)
        except FrameBroken as error:
            raise ToolProcessDied(str(error)) from None
        except ConnectionError:
            answer = None
        if answer is None:
            raise ToolProcessDied(await self._how_it_ended(), begun=not _left_bytes(self._reader.exception()))
        return answer

    async def _how_it_ended(self) -> str:
        try:
            code = await asyncio.wait_for(self._process.wait(), 1.0)
        except TimeoutError:
            return "its process closed the line"
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"  # real-time signals have no names
        return f"its process was killed by {name}" if code < 0 else f"its process exited with {code}"

    async def kill(self) -> None:
        """Kill the process and all processes of its group. The process is dead when this returns. A process that the tool put into another
        group lives on."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._writer.close()
        await self._process.wait()
        if self._printing is not None:
            await asyncio.wait([self._printing], timeout=_LAST_LINES_SECONDS)
            self._printing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._printing
        if self._printed is not None:
            self._printed.close()

    async def _print(self, lines: asyncio.StreamReader, log: ToolLog | None) -> None:
        """Read all output of the process, so that it never blocks on a full pipe. At most a megabyte of it goes to `log`."""
        passed = 0
        while True:
            try:
                line = await lines.readuntil(b"\n")
            except asyncio.IncompleteReadError as end:
                line = end.partial
                if not line:
                    return
            except asyncio.LimitOverrunError as over:
                line = await lines.readexactly(over.consumed)
            passed += len(line)
            if log is not None and passed <= _MOST_OUTPUT:
                log(self.hosted.tool, self.redact(line.decode("utf-8", errors="replace").rstrip("\n")))


def _left_bytes(error: BaseException | None) -> bool:
    """Whether the tool process ended the connection before it had read every byte of a frame: then it never had the whole frame. `error`:
    with which error the connection ended; None: without one.

    A byte could not be written (EPIPE), or Linux says that the other end was closed with unread bytes in it (ECONNRESET).
    """
    return isinstance(error, OSError) and (error.errno == errno.EPIPE or (error.errno == errno.ECONNRESET and sys.platform == "linux"))

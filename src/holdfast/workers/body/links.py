"""Links: how a body talks to its runner. One question, one answer, matched by number; in two colours.

Frames are JSON objects with a length before them. A file descriptor may ride along: large data crosses as an open file.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from holdfast.hosts.sandbox.inside.wire import sent_along
from holdfast.model import codec
from holdfast.model.errors import PayloadTooLarge
from holdfast.workers.body.errors import ToolError

_LENGTH = struct.Struct(">I")
_READ = 1 << 16
_MOST_DESCRIPTORS = 4

MOST_ENCODED = 8 << 20
"""What is larger than this is not even encoded: that takes as much memory again, and dies where there is none. Frames have a megabyte."""

Frame = dict[str, Any]
Received = tuple[Frame, int | None]


class Link(Protocol):
    """The way to the runner. Only one of the two askers is of use in a colour."""

    def send(self, frame: Frame, fd: int | None = None) -> None: ...
    def receive(self) -> Received:
        """The next frame, with the descriptor that came along; blocks."""
        ...


class SocketLink:
    """Frames over a UNIX socket."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._buffer = bytearray()
        self._descriptors: deque[int] = deque()

    def send(self, frame: Frame, fd: int | None = None) -> None:
        """Send one frame whole."""
        if at_least(frame, MOST_ENCODED) > MOST_ENCODED:
            raise PayloadTooLarge("What the body says to its runner has more than a megabyte: keep what is large with ctx.artifact.")
        data = codec.dumps(frame, sort=False).encode()
        packed = memoryview(_LENGTH.pack(len(data)) + data)
        sent = sent_along(self.sock, packed, fd) if fd is not None else 0
        self.sock.sendall(packed[sent:])

    def receive(self) -> Received:
        """The next frame; ConnectionError when the runner is gone."""
        while True:
            found = self.buffered()
            if found is not None:
                return found
            self.fill()

    def fill(self) -> None:
        """Take in what has come."""
        data, descriptors, _, _ = socket.recv_fds(self.sock, _READ, _MOST_DESCRIPTORS)
        self._descriptors.extend(descriptors)
        if not data:
            raise ConnectionError("the runner is gone")
        self._buffer += data

    def buffered(self) -> Received | None:
        """A frame that is there already."""
        if len(self._buffer) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._buffer)
        end = _LENGTH.size + length
        if len(self._buffer) < end:
            return None
        frame: Frame = msgspec.json.decode(self._buffer[_LENGTH.size : end])
        del self._buffer[:end]
        return frame, self._descriptors.popleft() if frame.get("fd") else None


class Asking:
    """Questions in a `def` body: one at a time, the thread waits."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._count = 0
        self.now = 0

    def tell(self, frame: Frame) -> None:
        """Say something that has no answer."""
        self._link.send(frame)

    def ask(self, frame: Frame, fd: int | None = None) -> Received:
        """Ask, and wait for the answer."""
        self._count += 1
        return self._asked({**frame, "id": self._count}, fd)

    def again(self, frame: Frame) -> Received:
        """Go on with a question that was asked before, under its number."""
        return self._asked(frame, None)

    def _asked(self, frame: Frame, fd: int | None) -> Received:
        self._link.send(frame, fd)
        answer, given = self._link.receive()
        self.now = max(self.now, answer.get("now", 0))
        return checked(answer), given


class AsyncAsking:
    """Questions in an `async def` body: any number at once."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._count = 0
        self._open: dict[int, asyncio.Future[Received]] = {}
        self.now = 0

    def tell(self, frame: Frame) -> None:
        """Say something that has no answer."""
        self._link.send(frame)

    def ask(self, frame: Frame, fd: int | None = None) -> asyncio.Future[Received]:
        """Ask. The question is numbered and sent at once, so that questions have the order of the code."""
        self._count += 1
        return self._asked({**frame, "id": self._count}, fd)

    def again(self, frame: Frame) -> asyncio.Future[Received]:
        """Go on with a question that was asked before, under its number."""
        return self._asked(frame, None)

    def _asked(self, frame: Frame, fd: int | None) -> asyncio.Future[Received]:
        future: asyncio.Future[Received] = asyncio.get_running_loop().create_future()
        self._link.send(frame, fd)
        self._open[frame["id"]] = future
        return future

    def answered(self, answer: Frame, fd: int | None) -> None:
        """An answer has come; on the body's loop."""
        self.now = max(self.now, answer.get("now", 0))
        future = self._open.pop(answer["id"], None)
        if future is None or future.done():
            if fd is not None:
                os.close(fd)
            return
        try:
            future.set_result((checked(answer), fd))
        except ToolError as refused:
            future.set_exception(refused)


def checked(answer: Frame) -> Frame:
    """The answer, unless it is an error."""
    error = answer.get("error")
    if error is None:
        return answer
    raise ToolError(
        error["error_code"],
        error.get("message"),
        retryable=error.get("retryable"),
        needs_human=error.get("needs_human", False),
        partial=error.get("partial"),
        retry_after_seconds=error.get("retry_after_seconds"),
        details=error.get("details"),
    )


@contextlib.contextmanager
def reading(link: SocketLink, received: Callable[[Frame, int | None], None], lost: Callable[[], None]) -> Any:
    """Hand every frame that comes to `received`, on the running loop."""
    loop = asyncio.get_running_loop()

    def readable() -> None:
        try:
            link.fill()
        except ConnectionError:
            loop.remove_reader(link.sock)
            lost()
            return
        while (found := link.buffered()) is not None:
            received(*found)

    loop.add_reader(link.sock, readable)
    try:
        while (found := link.buffered()) is not None:
            received(*found)
        yield
    finally:
        loop.remove_reader(link.sock)


def at_least(value: Any, most: int) -> int:
    """How many characters a value has as JSON, at the least. Nothing is looked at beyond `most`, and nothing is encoded for it."""
    total, todo = 0, [value]
    while todo and total <= most:
        one = todo.pop()
        total += 1
        if isinstance(one, str | bytes):
            total += len(one)
        elif isinstance(one, list | tuple | dict):
            total += len(one)
            if total <= most:
                todo += one
                todo += one.values() if isinstance(one, dict) else ()
    return total

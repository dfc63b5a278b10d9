"""Links: how a body talks to its runner. Each request has one answer with the same number, for `def` and for `async def` bodies.

Frames are JSON objects with a length before them. A frame may carry a file descriptor, so that large data crosses as an open file.
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

from holdfast.hosts.sandbox.inside.body_channel import sent_along
from holdfast.model import codec
from holdfast.model.clock import monotonic
from holdfast.model.errors import PayloadTooLarge
from holdfast.workers.body.errors import ToolError

_LENGTH = struct.Struct(">I")
_READ = 1 << 16
_MOST_DESCRIPTORS = 4

MOST_ENCODED = 8 << 20
"""A larger value is not encoded at all, because encoding needs as much memory again. A frame has at most a megabyte."""

Frame = dict[str, Any]
Received = tuple[Frame, int | None]


class Link(Protocol):
    """The connection to the runner."""

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
        if codec.at_least(frame, MOST_ENCODED) > MOST_ENCODED:
            raise PayloadTooLarge("What the body sends to its runner has more than a megabyte: store large values with ctx.artifact.")
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
        """Read the bytes that have arrived."""
        data, descriptors, _, _ = socket.recv_fds(self.sock, _READ, _MOST_DESCRIPTORS)
        self._descriptors.extend(descriptors)
        if not data:
            raise ConnectionError("the runner is gone")
        self._buffer += data

    def buffered(self) -> Received | None:
        """A complete frame, if one has arrived."""
        if len(self._buffer) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._buffer)
        end = _LENGTH.size + length
        if len(self._buffer) < end:
            return None
        frame: Frame = msgspec.json.decode(self._buffer[_LENGTH.size : end])
        del self._buffer[:end]
        return frame, self._descriptors.popleft() if frame.get("fd") else None


class Told:
    """What the runner's answers carry in addition to their results."""

    now = 0
    """The service's time at the latest answer."""
    ends_at = 0.0
    """When the attempt's time is over, as `monotonic` counts."""

    def take(self, answer: Frame) -> None:
        """Read an answer."""
        self.now = max(self.now, answer.get("now", 0))
        if "left" in answer:  # a call had to wait, and the time stood still
            self.ends_at = monotonic() + answer["left"]


class Asking(Told):
    """Requests of a `def` body: one at a time, the thread waits."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._count = 0

    def tell(self, frame: Frame) -> None:
        """Send a frame that has no answer."""
        self._link.send(frame)

    def ask(self, frame: Frame, fd: int | None = None) -> Received:
        """Ask, and wait for the answer."""
        self._count += 1
        return self._asked({**frame, "id": self._count}, fd)

    def again(self, frame: Frame) -> Received:
        """Send a further frame of an earlier request, under its number."""
        return self._asked(frame, None)

    def _asked(self, frame: Frame, fd: int | None) -> Received:
        self._link.send(frame, fd)
        answer, given = self._link.receive()
        self.take(answer)
        return checked(answer), given


class AsyncAsking(Told):
    """Requests of an `async def` body: any number at once."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._count = 0
        self._open: dict[int, asyncio.Future[Received]] = {}

    def tell(self, frame: Frame) -> None:
        """Send a frame that has no answer."""
        self._link.send(frame)

    def ask(self, frame: Frame, fd: int | None = None) -> asyncio.Future[Received]:
        """Send a request. It gets its number at once, so that requests have the order of the code."""
        self._count += 1
        return self._asked({**frame, "id": self._count}, fd)

    def again(self, frame: Frame) -> asyncio.Future[Received]:
        """Send a further frame of an earlier request, under its number."""
        return self._asked(frame, None)

    def _asked(self, frame: Frame, fd: int | None) -> asyncio.Future[Received]:
        future: asyncio.Future[Received] = asyncio.get_running_loop().create_future()
        self._link.send(frame, fd)
        self._open[frame["id"]] = future
        return future

    def answered(self, answer: Frame, fd: int | None) -> None:
        """Take an answer that has arrived, and give it to the coroutine that waits for it. Must be called on the body's loop."""
        self.take(answer)
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
    """Call `received` with every frame that arrives, on the running loop."""
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

"""The connection between a body and its runner. Each request of the body gets one answer with the same number.

A frame is a JSON object; on the socket its length in bytes precedes it. A frame may carry a file descriptor: large data crosses as an open
file.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

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
"""The most bytes of JSON that the body encodes. A larger value is refused before it is encoded, because encoding needs as much memory
again."""
MOST_FRAME = 1 << 20
"""The most bytes of a frame that the runner accepts from a body (`Jail.frame_bytes`). A larger frame is refused before it is sent, because
the runner would end the attempt."""

BodyFrame = dict[str, Any]
Received = tuple[BodyFrame, int | None]
_Answer = TypeVar("_Answer")


class RunnerConnection(Protocol):
    """The body's connection to its runner."""

    def send(self, frame: BodyFrame, fd: int | None = None) -> None: ...
    def receive(self) -> Received:
        """Wait for the next frame; blocks the thread. Returns the frame, and the file descriptor that it carried or None."""
        ...


class SocketLink:
    """Frames over a UNIX socket."""

    def __init__(self, sock: socket.socket, most_frame: int = MOST_FRAME) -> None:
        self.sock = sock
        self._most_frame = most_frame
        self._buffer = bytearray()
        self._descriptors: deque[int] = deque()

    def send(self, frame: BodyFrame, fd: int | None = None) -> None:
        """Send one frame, with the file descriptor `fd` if one is given. Blocks until all of it is sent. Raises PayloadTooLarge if the
        frame is larger than the runner accepts, and PayloadNotJson if it is not JSON; then nothing is sent."""
        if codec.at_least(frame, MOST_ENCODED) > MOST_ENCODED:
            raise self._too_large(f"more than {MOST_ENCODED:,}")
        data = codec.dumps(frame, sort=False).encode()
        if len(data) > self._most_frame:
            raise self._too_large(f"{len(data):,}")
        packed = memoryview(_LENGTH.pack(len(data)) + data)
        sent = sent_along(self.sock, packed, fd) if fd is not None else 0
        self.sock.sendall(packed[sent:])

    def _too_large(self, size: str) -> PayloadTooLarge:
        told = f"The body's message to its runner has {size} bytes as JSON, and at most {self._most_frame:,} are allowed."
        return PayloadTooLarge(f"{told} Store large values with ctx.artifact, and pass their references.")

    def receive(self) -> Received:
        """Wait for the next frame. Returns the frame, and the file descriptor that it carried or None. Raises ConnectionError if the runner
        has closed the socket."""
        while True:
            found = self.buffered()
            if found is not None:
                return found
            self.fill()

    def fill(self) -> None:
        """Read bytes from the socket into the buffer; blocks until some arrive. Raises ConnectionError if the runner has closed the
        socket."""
        data, descriptors, _, _ = socket.recv_fds(self.sock, _READ, _MOST_DESCRIPTORS)
        self._descriptors.extend(descriptors)
        if not data:
            raise ConnectionError("the runner has closed the connection")
        self._buffer += data

    def buffered(self) -> Received | None:
        """Take the first complete frame out of the buffer, with its file descriptor; None if no frame is complete yet."""
        if len(self._buffer) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._buffer)
        end = _LENGTH.size + length
        if len(self._buffer) < end:
            return None
        frame: BodyFrame = msgspec.json.decode(self._buffer[_LENGTH.size : end])
        del self._buffer[:end]
        return frame, self._descriptors.popleft() if frame.get("fd") else None


class Requests(Generic[_Answer]):
    """The requests of a body, and the times that the runner's answers contain in addition to their results."""

    now = 0
    """The runner's time when it recorded its latest answer, in milliseconds since 1970."""
    ends_at = 0.0
    """When the attempt's time limit ends, in seconds of `monotonic`."""

    def __init__(self, link: RunnerConnection) -> None:
        self._link = link
        self._count = 0

    def tell(self, frame: BodyFrame) -> None:
        """Send a frame that has no answer."""
        self._link.send(frame)

    def ask(self, frame: BodyFrame, fd: int | None = None) -> _Answer:
        """Send a request now, under a new number, and return its answer. The numbers follow the order of the calls. Raises ToolError if the
        answer is an error. (For an `async def` body the answer is a future, and the future raises ToolError.)"""
        self._count += 1
        return self._asked({**frame, "id": self._count}, fd)

    def again(self, frame: BodyFrame) -> _Answer:
        """Send one more frame for an earlier request (`frame` has its number), and return the answer as `ask` does."""
        return self._asked(frame, None)

    def _asked(self, frame: BodyFrame, fd: int | None) -> _Answer:
        raise NotImplementedError

    def take(self, answer: BodyFrame) -> None:
        """Remember the times that an answer contains, if it contains any."""
        self.now = max(self.now, answer.get("now", 0))
        if "left" in answer:  # the attempt's time was stopped while a call waited, so it ends later
            self.ends_at = monotonic() + answer["left"]


class Asking(Requests[Received]):
    """The requests of a `def` body. The body makes one request at a time, and its thread waits for the answer."""

    def _asked(self, frame: BodyFrame, fd: int | None) -> Received:
        self._link.send(frame, fd)
        answer, given = self._link.receive()
        self.take(answer)
        return checked(answer), given


class AsyncAsking(Requests[asyncio.Future[Received]]):
    """The requests of an `async def` body. Several may wait for their answers at once."""

    def __init__(self, link: RunnerConnection) -> None:
        super().__init__(link)
        self._open: dict[int, asyncio.Future[Received]] = {}

    def _asked(self, frame: BodyFrame, fd: int | None) -> asyncio.Future[Received]:
        future: asyncio.Future[Received] = asyncio.get_running_loop().create_future()
        self._link.send(frame, fd)
        self._open[frame["id"]] = future
        return future

    def answered(self, answer: BodyFrame, fd: int | None) -> None:
        """Give an answer that has arrived to the future of its request. If no future waits for the answer, it is dropped. Must be called on
        the body's event loop."""
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


def checked(answer: BodyFrame) -> BodyFrame:
    """Return the answer unchanged. Raises ToolError if the answer is an error."""
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
def reading(link: SocketLink, received: Callable[[BodyFrame, int | None], None], lost: Callable[[], None]) -> Any:
    """Inside this block, call `received` with each frame that arrives, and `lost` if the runner has closed the socket. Both are called on
    the running event loop."""
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

"""A body that runs in the runner's own process, for tests and for trusted workers. Limits of memory, CPU time, disk and idle time are not
enforced for it. The time limit ends the attempt, but a `def` body cannot be killed: its thread continues, and its next request to the
runner fails."""

from __future__ import annotations

import asyncio
import inspect
import os
import queue
import threading
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any

import msgspec

from holdfast.hosts.sandbox.jail import BodyEnd, BodyUsage, EndCode, Frame
from holdfast.model import codec
from holdfast.workers.body.main import answered, awaited
from holdfast.workers.body.runner_connection import AsyncAsking, BodyFrame, Received


class InlineBody:
    """One call of the author's function: an `async def` on this event loop, a `def` in a thread of its own."""

    def __init__(self, function: Callable[..., Any], timeout: float) -> None:
        self.isolation = {"isolation": "none"}
        self.over = False
        """Whether the body has sent its last frame."""
        self._function = function
        self._loop = asyncio.get_running_loop()
        self._said: deque[Frame | BodyEnd] = deque()
        self._listener: asyncio.Future[None] | None = None
        self._answer: Callable[[BodyFrame, int | None], None] | None = None
        """Gives an answer to the body; None before the body has its order."""
        self._task: asyncio.Task[None] | None = None
        self._ended: BodyEnd | None = None
        self._late: tuple[EndCode, str] = ("timeout", f"The attempt took longer than {timeout:g} s.")
        self._timer = self._loop.call_later(timeout, self._end, *self._late)

    async def send(self, frame: BodyFrame, fd: int | None = None) -> None:
        """Send a frame to the body. The first frame is the order, which starts the body; all later frames are answers."""
        if self._answer is None:
            self._begin({**frame, "inputs": _copied(frame["inputs"])})
        else:
            self._answer(_copied(frame), None if fd is None else os.dup(fd))

    def _begin(self, order: BodyFrame) -> None:
        if inspect.iscoroutinefunction(self._function):
            asking = AsyncAsking(_Near(self._say))
            self._answer = asking.answered
            self._task = self._loop.create_task(self._awaited(asking, order))
        else:
            link = _Far(lambda frame, fd: self._loop.call_soon_threadsafe(self._say, frame, fd))
            self._answer = link.answered
            # Not a thread of a pool: a body may wait for another body, and a body that never ends must not delay the end of the process.
            threading.Thread(target=self._answered, args=(link, order), daemon=True, name="holdfast-body").start()

    async def _awaited(self, asking: AsyncAsking, order: BodyFrame) -> None:
        self._over(await awaited(asking, self._function, order))

    def _answered(self, link: _Far, order: BodyFrame) -> None:
        frame = answered(link, self._function, order)
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._over, frame)

    def _over(self, frame: BodyFrame) -> None:
        self.over = True
        self._answer = _unheard
        self._timer.cancel()
        self._say(frame)

    def _say(self, frame: BodyFrame, fd: int | None = None) -> None:
        if self._ended is None:
            self._tell(Frame(frame, () if fd is None else (fd,)))
        elif fd is not None:
            os.close(fd)

    def _tell(self, said: Frame | BodyEnd) -> None:
        self._said.append(said)
        if self._listener is not None and not self._listener.done():
            self._listener.set_result(None)

    def _end(self, code: EndCode, detail: str) -> None:
        """End the body. A coroutine is cancelled. A thread cannot be cancelled: its later frames are ignored, and its requests get an
        error."""
        self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
        elif self._answer is not None:
            self._answer({"id": 0, "error": {"error_code": code, "message": "the attempt is over"}}, None)
        if self._ended is None:
            self._ended = BodyEnd(code, detail, BodyUsage())
            self._tell(self._ended)

    async def receive(self) -> Frame | BodyEnd:
        """Wait for the next frame of the body, and return it. If the body was ended and no frame is left, return the BodyEnd, in every
        further call too."""
        while not self._said:
            if self._ended is not None:
                return self._ended
            self._listener = self._loop.create_future()
            await self._listener
        return self._said.popleft()

    async def kill(self, code: EndCode = "cancelled", detail: str = "") -> BodyEnd:
        """End the body, without waiting for its thread, and return its end. If the body was ended before, the earlier end is returned."""
        self._end(code, detail)
        assert self._ended is not None
        return self._ended

    def working(self) -> AbstractContextManager[None]:
        """Do nothing: an inline body has no idle time limit."""
        return nullcontext()

    def stop_time(self) -> None:
        self._time_left = self._timer.when() - self._loop.time()
        self._timer.cancel()

    def go_on(self) -> None:
        if self._ended is None and not self.over:
            self._timer = self._loop.call_later(self._time_left, self._end, *self._late)


def _unheard(frame: BodyFrame, fd: int | None) -> None:
    """Drop an answer that no body will read, and close its file descriptor."""
    if fd is not None:
        os.close(fd)


def _copied(value: Any) -> Any:
    """A copy of a frame or of a value, made through JSON, so that the other side gets what it would get from a socket. Raises
    PayloadNotJson if it is not JSON."""
    return msgspec.json.decode(codec.dumps(value, sort=False))


class _Near:
    """The link of an `async def` body, on the same event loop as the runner."""

    def __init__(self, say: Callable[[BodyFrame, int | None], None]) -> None:
        self._say = say

    def send(self, frame: BodyFrame, fd: int | None = None) -> None:
        self._say(_copied(frame), None if fd is None else os.dup(fd))

    def receive(self) -> Received:
        raise AssertionError("an async body gets its answers from AsyncAsking.answered")


class _Far:
    """The link of a `def` body in its thread."""

    def __init__(self, say: Callable[[BodyFrame, int | None], object]) -> None:
        self._say = say
        self._answers: queue.SimpleQueue[Received] = queue.SimpleQueue()

    def answered(self, frame: BodyFrame, fd: int | None) -> None:
        """Give an answer to the thread that waits for it. This method is called on the event loop."""
        self._answers.put((frame, fd))

    def send(self, frame: BodyFrame, fd: int | None = None) -> None:
        self._say(_copied(frame), None if fd is None else os.dup(fd))

    def receive(self) -> Received:
        answer = self._answers.get()
        if answer[0].get("id") == 0:  # the body was ended; if it asks again, it gets this answer again
            self._answers.put(answer)
        return answer

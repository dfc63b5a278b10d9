"""A body in the runner's own process: for tests and for workers one trusts. It cannot be killed, so its limits are requests."""

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

from holdfast.hosts.sandbox.description import Code, Ended, Usage
from holdfast.hosts.sandbox.description import Frame as Said
from holdfast.model import codec
from holdfast.workers.body.links import AsyncAsking, Frame, Received
from holdfast.workers.body.main import answered, awaited


class InlineBody:
    """One call of the author's function, on this loop or in a thread."""

    def __init__(self, function: Callable[..., Any], timeout: float) -> None:
        self.isolation = {"isolation": "none"}
        self.over = False
        """It said its last word: nothing of it is left."""
        self._function = function
        self._loop = asyncio.get_running_loop()
        self._said: deque[Said | Ended] = deque()
        self._listener: asyncio.Future[None] | None = None
        self._answer: Callable[[Frame, int | None], None] | None = None
        """Where answers go; None before it has its order."""
        self._task: asyncio.Task[None] | None = None
        self._ended: Ended | None = None
        self._timer = self._loop.call_later(timeout, self._end, "timeout", f"The attempt took longer than {timeout:g} s.")

    async def send(self, frame: Frame, fd: int | None = None) -> None:
        """The order, then the answers."""
        if self._answer is None:
            self._begin({**frame, "inputs": _copied(frame["inputs"])})
        else:
            self._answer(_copied(frame), None if fd is None else os.dup(fd))

    def _begin(self, order: Frame) -> None:
        if inspect.iscoroutinefunction(self._function):
            asking = AsyncAsking(_Near(self._say))
            self._answer = asking.answered
            self._task = self._loop.create_task(self._awaited(asking, order))
        else:
            link = _Far(lambda frame, fd: self._loop.call_soon_threadsafe(self._say, frame, fd))
            self._answer = link.answered
            # A thread of its own: bodies wait for each other's answers, and one that never ends must not hold up the process.
            threading.Thread(target=self._answered, args=(link, order), daemon=True, name="holdfast-body").start()

    async def _awaited(self, asking: AsyncAsking, order: Frame) -> None:
        self._over(await awaited(asking, self._function, order))

    def _answered(self, link: _Far, order: Frame) -> None:
        frame = answered(link, self._function, order)
        with suppress(RuntimeError):  # the loop is over
            self._loop.call_soon_threadsafe(self._over, frame)

    def _over(self, frame: Frame) -> None:
        self.over = True
        self._answer = _unheard
        self._timer.cancel()
        self._say(frame)

    def _say(self, frame: Frame, fd: int | None = None) -> None:
        if self._ended is None:
            self._tell(Said(frame, () if fd is None else (fd,)))
        elif fd is not None:
            os.close(fd)

    def _tell(self, said: Said | Ended) -> None:
        self._said.append(said)
        if self._listener is not None and not self._listener.done():
            self._listener.set_result(None)

    def _end(self, code: Code, detail: str) -> None:
        """Give it up. A coroutine is cancelled; a thread cannot be, and what it says is not heard any more."""
        self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
        elif self._answer is not None:
            self._answer({"id": 0, "error": {"error_code": code, "message": "the attempt is over"}}, None)
        if self._ended is None:
            self._ended = Ended(code, detail, Usage())
            self._tell(self._ended)

    async def receive(self) -> Said | Ended:
        """What it says next, or how it ended, again and again."""
        while not self._said:
            if self._ended is not None:
                return self._ended
            self._listener = self._loop.create_future()
            await self._listener
        return self._said.popleft()

    async def kill(self, code: Code = "cancelled", detail: str = "") -> Ended:
        """Give it up; the first reason counts."""
        self._end(code, detail)
        assert self._ended is not None
        return self._ended

    def working(self) -> AbstractContextManager[None]:
        """It is never idle."""
        return nullcontext()


def _unheard(frame: Frame, fd: int | None) -> None:
    """An answer for somebody who is gone."""
    if fd is not None:
        os.close(fd)


def _copied(value: Any) -> Any:
    """As it comes out on the other side of a socket: what is no JSON is refused, and nothing is shared."""
    return msgspec.json.decode(codec.dumps(value, sort=False))


class _Near:
    """The link of a coroutine on the same loop."""

    def __init__(self, say: Callable[[Frame, int | None], None]) -> None:
        self._say = say

    def send(self, frame: Frame, fd: int | None = None) -> None:
        self._say(_copied(frame), None if fd is None else os.dup(fd))

    def receive(self) -> Received:
        raise AssertionError("a coroutine is told its answers")


class _Far:
    """The link of a thread."""

    def __init__(self, say: Callable[[Frame, int | None], object]) -> None:
        self._say = say
        self._answers: queue.SimpleQueue[Received] = queue.SimpleQueue()

    def answered(self, frame: Frame, fd: int | None) -> None:
        """An answer for the thread; from the loop."""
        self._answers.put((frame, fd))

    def send(self, frame: Frame, fd: int | None = None) -> None:
        self._say(_copied(frame), None if fd is None else os.dup(fd))

    def receive(self) -> Received:
        answer = self._answers.get()
        if answer[0].get("id") == 0:  # it is over, however often it asks
            self._answers.put(answer)
        return answer

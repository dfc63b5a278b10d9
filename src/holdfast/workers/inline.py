"""A body in the runner's own process: for tests and for workers one trusts. It cannot be killed, so its limits are requests."""

from __future__ import annotations

import asyncio
import inspect
import os
import queue
import threading
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
        self._function = function
        self._loop = asyncio.get_running_loop()
        self._out: asyncio.Queue[Said | Ended] = asyncio.Queue()
        self._in: queue.SimpleQueue[Received] = queue.SimpleQueue()
        self._asking: AsyncAsking | None = None
        self._ended: Ended | None = None
        self._work: asyncio.Future[Frame] | None = None
        self._timer = self._loop.call_later(timeout, self._end, "timeout", f"The attempt took longer than {timeout:g} s.")

    async def send(self, frame: Frame, fd: int | None = None) -> None:
        """The order, then the answers."""
        descriptor = None if fd is None else os.dup(fd)
        frame = {**_copied({name: value for name, value in frame.items() if name != "contract"}), "contract": frame.get("contract")}
        if self._work is None:
            self._begin(frame)
        elif self._asking is not None:
            self._asking.answered(frame, descriptor)
        else:
            self._in.put((frame, descriptor))

    def _begin(self, run: Frame) -> None:
        if inspect.iscoroutinefunction(self._function):
            self._asking = AsyncAsking(_Near(self._say))
            self._work = asyncio.ensure_future(awaited(self._asking, self._function, run))
        else:
            link = _Far(lambda frame, fd: self._loop.call_soon_threadsafe(self._say, frame, fd), self._in)
            self._work = self._in_thread(lambda: answered(link, self._function, run))
        self._work.add_done_callback(self._over)

    def _in_thread(self, work: Callable[[], Frame]) -> asyncio.Future[Frame]:
        """A thread of its own: bodies wait for each other's answers, and one that never ends must not hold up the process."""
        done: asyncio.Future[Frame] = self._loop.create_future()

        def run() -> None:
            frame = work()
            with suppress(RuntimeError):  # the loop is over
                self._loop.call_soon_threadsafe(_tell, done, frame)

        threading.Thread(target=run, daemon=True, name="holdfast-body").start()
        return done

    def _say(self, frame: Frame, fd: int | None = None) -> None:
        self._out.put_nowait(Said(frame, () if fd is None else (fd,)))

    def _over(self, work: asyncio.Future[Frame]) -> None:
        self._timer.cancel()
        if not work.cancelled():
            self._out.put_nowait(Said(work.result()))

    def _end(self, code: Code, detail: str) -> None:
        self._ended = self._ended or Ended(code, detail, Usage())
        self._out.put_nowait(self._ended)
        if self._work is not None and self._asking is not None:
            self._work.cancel()

    async def receive(self) -> Said | Ended:
        """What it says next, or how it ended, again and again."""
        if self._ended is not None and self._out.empty():
            return self._ended
        return await self._out.get()

    async def kill(self, code: Code = "cancelled", detail: str = "") -> Ended:
        """Give it up. A coroutine is cancelled; a thread cannot be, and what it says is not heard any more."""
        self._timer.cancel()
        if self._work is not None and not self._work.done():
            self._in.put(({"id": 0, "error": {"error_code": code, "message": "the attempt is over"}}, None))
            self._work.cancel()
        if self._ended is None:
            self._ended = Ended(code, detail, Usage())
            self._out.put_nowait(self._ended)
        return self._ended

    def working(self) -> AbstractContextManager[None]:
        """It is never idle."""
        return nullcontext()


def _tell(waiting: asyncio.Future[Frame], frame: Frame) -> None:
    if not waiting.done():
        waiting.set_result(frame)


def _copied(frame: Frame) -> Frame:
    """As it comes out on the other side of a socket: what is no JSON is refused, and nothing is shared."""
    copy: Frame = msgspec.json.decode(codec.dumps(frame, sort=False))
    return copy


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

    def __init__(self, say: Callable[[Frame, int | None], object], answers: queue.SimpleQueue[Received]) -> None:
        self._say = say
        self._answers = answers

    def send(self, frame: Frame, fd: int | None = None) -> None:
        self._say(_copied(frame), None if fd is None else os.dup(fd))

    def receive(self) -> Received:
        answer = self._answers.get()
        if answer[0].get("id") == 0:  # it is over, however often it asks
            self._answers.put(answer)
        return answer

"""One attempt: a body at work, its frames served, until it is done, gave up, was ended, or must wait for a person."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable
from contextlib import AbstractContextManager
from typing import Any, Protocol

import msgspec

from holdfast.contract.protocol import ArtifactRef
from holdfast.durable.identifier import Identity
from holdfast.hosts.sandbox.description import Code, Ended, Frame
from holdfast.model import codec
from holdfast.model.clock import monotonic
from holdfast.model.operations import OPEN, Action, Failure, Operation, Status, Type
from holdfast.workers.approvals import ApprovalPlace
from holdfast.workers.artifacts import ArtifactMissing, Artifacts
from holdfast.workers.frames import (
    ArtifactGiven,
    Asked,
    BodyError,
    Done,
    Failed,
    FrameInvalid,
    Logged,
    OpenAsked,
    Progress,
    Ready,
    StepBegun,
    StepEnded,
    ToolAsked,
    frame_of,
)
from holdfast.workers.gateway import Answer, Gateway, Parked
from holdfast.workers.handing import HandedFiles
from holdfast.workers.journal import STEP, Journal, begun, ended, place
from holdfast.workers.lines import Lines, Watcher
from holdfast.workers.policy import Most
from holdfast.workers.storing.seam import ArtifactsUnreachable
from holdfast.workers.tools.seam import ToolFailed

_dying: set[asyncio.Future[Ended]] = set()
"""Bodies that have done their work and are being ended."""
_MOST = Most()
_MOST_OPEN = 256
"""Questions a body may have open at once."""


class Body(Protocol):
    """A body in its host."""

    @property
    def isolation(self) -> dict[str, Any]: ...
    @property
    def over(self) -> bool:
        """Whether nothing of it is left."""
        ...

    async def send(self, frame: dict[str, Any], fd: int | None = None) -> None: ...
    async def receive(self) -> Frame | Ended: ...
    async def kill(self, code: Code = "cancelled", detail: str = "") -> Ended:
        """End it and all it started; comes back when that is certain. The first reason counts."""
        ...

    def working(self) -> AbstractContextManager[None]:
        """While the runner works for the body, the body is not idle."""
        ...


class AttemptResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an attempt came to."""

    outputs: Any = None
    error: BodyError | None = None
    artifacts: tuple[ArtifactRef, ...] = ()
    logs: tuple[dict[str, Any], ...] = ()
    isolation: str | None = None
    duration_ms: int = 0


class StepFailed(Exception):
    """A step of the body's came to nothing, in its author's words."""

    def __init__(self, error: BodyError) -> None:
        super().__init__(error.message)
        self.error = error


class Passed(Exception):
    """A body made more of something than the operator allows: its attempt ends with this code."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Attempt:
    """The service of one body. Each question is a task of its own; the answers go back in the order they are ready."""

    def __init__(
        self,
        number: int,
        at: Identity,
        tenant: str,
        gateway: Gateway,
        journal: Journal,
        artifacts: Artifacts,
        watcher: Watcher,
        most: Most = _MOST,
    ) -> None:
        self._number = number
        self._at = at
        self._gateway = gateway
        self._journal = journal
        self._watcher = watcher
        self._most = most
        self._tasks: set[asyncio.Task[None]] = set()
        self._steps: dict[int, asyncio.Future[StepEnded]] = {}
        self._step_count = self._last_id = self._questions = self._progressed = 0
        self._ending: asyncio.Future[Ended] | None = None
        self._waits_for: ApprovalPlace | None = None
        self._broken: BaseException | None = None
        self._files = HandedFiles(artifacts, tenant, most.artifacts)
        self._lines = Lines(number, watcher, most.log_lines)
        self.dying: asyncio.Future[Ended] | None = None
        """Over when nothing of the body is left."""

    async def run(self, body: Body, order: dict[str, Any], grace: float) -> AttemptResult | ApprovalPlace:
        """Serve a body until its end; a Place is what it waits for."""
        began, outcome = monotonic(), None
        self._body = body
        self._journal.when_cancelled(self._cancelled)
        try:
            await body.send(order)
            outcome = await self._frames()
            for step in self._steps.values():  # nobody is left to run them
                step.cancel()
            if self._tasks and self._broken is None:
                await self._drain(grace)
            if self._broken is not None:
                raise self._broken
            if self._waits_for is None and outcome.error is not None and (self._ending is None or self._gateway.cancelled):
                self._waits_for = await self._gateway.lost()
            if self._waits_for is not None:  # also when the body has ended: what became of a call in flight only a person can say
                return self._waits_for
        finally:
            self._journal.when_cancelled(None)
            for task in self._tasks:
                task.cancel()
            if self._tasks:
                await asyncio.gather(*self._tasks, return_exceptions=True)
            await self._dead(body, outcome)
        return msgspec.structs.replace(
            outcome,
            artifacts=tuple(self._files.kept.values()),
            logs=self._lines.kept(),
            isolation=str(body.isolation.get("isolation", "none")),
            duration_ms=int((monotonic() - began) * 1000),
        )

    async def _dead(self, body: Body, outcome: AttemptResult | None) -> None:
        """Whatever comes after a failure must find it dead, all of it; after a success nothing comes."""
        if body.over:
            return
        dying = self.dying = asyncio.ensure_future(body.kill())
        if outcome is None or outcome.error is not None or self._waits_for is not None:
            await dying
        else:
            _dying.add(dying)
            dying.add_done_callback(_dying.discard)

    def _cancelled(self) -> None:
        self._gateway.cancelled = True
        self._end("Somebody cancelled the run.")

    def _end(self, why: str) -> None:
        """End the body from our side; its frames come to their end by that."""
        if self._ending is None:
            self._ending = asyncio.ensure_future(self._body.kill("cancelled", why))

    async def _drain(self, grace: float) -> None:
        """Let calls in flight record what they did; a call that is cancelled is one whose outcome nobody knows."""
        _, late = await asyncio.wait(self._tasks, timeout=grace)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    async def _frames(self) -> AttemptResult:
        while True:
            received = await self._body.receive()
            if isinstance(received, Ended):
                return _failed(received.code or "worker_crashed", received.detail or "The body's process ended without an answer.")
            try:
                frame = frame_of(received.data)
                last = None
                if isinstance(frame, Logged):
                    await self._lines.said(frame.level, frame.message, frame.fields)
                elif isinstance(frame, Progress):
                    await self._progress(frame)
                else:
                    last = self._taken(frame, received.fds)
            except FrameInvalid as wrong:
                await self._body.kill("worker_crashed")
                return _failed("worker_crashed", str(wrong))
            except Passed as limit:
                await self._body.kill("cancelled", str(limit))
                return _failed(limit.code, str(limit))
            finally:
                for fd in received.fds:
                    os.close(fd)
            if last is not None:
                return last

    def _taken(self, frame: Any, fds: tuple[int, ...]) -> AttemptResult | None:
        """Serve one frame; the last one is what it came to."""
        if isinstance(frame, Done):
            return AttemptResult(outputs=frame.outputs)
        if isinstance(frame, Failed):
            return AttemptResult(error=frame.error)
        if isinstance(frame, StepEnded):
            waiting = self._steps.pop(frame.id, None)
            if waiting is None:
                raise FrameInvalid(f"No step {frame.id} is running.")
            waiting.set_result(frame)
        elif not isinstance(frame, Ready):
            self._serve(frame, fds)
        return None

    def _serve(self, frame: Any, fds: tuple[int, ...]) -> None:
        if len(self._tasks) >= _MOST_OPEN:
            raise FrameInvalid(f"More than {_MOST_OPEN} questions are open at once.")
        if frame.id <= self._last_id:
            raise FrameInvalid(f"The question {frame.id} comes after {self._last_id}: each needs a higher number than the last.")
        self._last_id = frame.id
        if isinstance(frame, ToolAsked):
            serving = self._answer(frame.id, self._noted(frame.tool, self._gateway.call(frame)))
        elif isinstance(frame, Asked):
            self._questions += 1
            serving = self._answer(frame.id, self._noted("ask", self._ask(frame, self._questions)))
        elif isinstance(frame, StepBegun):
            self._step_count += 1
            if self._step_count > self._most.steps:
                raise Passed("step_limit", f"The body began more than {self._most.steps} steps in one attempt (policy.most.steps).")
            serving = self._answer(frame.id, self._step(frame, self._step_count), theirs=True)
        elif isinstance(frame, ArtifactGiven):
            serving = self._answer(frame.id, self._keep(frame, _first(fds)))
        else:
            serving = self._open(frame)
        task = asyncio.ensure_future(serving)
        self._tasks.add(task)
        task.add_done_callback(self._served)

    def _served(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and self._broken is None:
            self._broken = error  # nothing can be written any more, say: the attempt is over here
            self._end("The runner cannot go on.")

    async def _answer(self, id: int, serving: Awaitable[Answer], *, theirs: bool = False) -> None:
        """Serve a question; `theirs` is work that the body does itself, in which it may be idle."""
        try:
            with contextlib.nullcontext() if theirs else self._body.working():
                answer = await serving
        except Parked as parked:
            self._waits_for = self._waits_for or parked.at
            self._end("It waits for a person.")
            return
        except ToolFailed as failed:
            await self._refuse(id, failed)
            return
        except StepFailed as failed:
            await self._send({"op": "answer", "id": id, "error": msgspec.to_builtins(failed.error)})
            return
        written = {"now": answer.at} if answer.at else {}
        await self._send({"op": "answer", "id": id, "result": answer.result, **written})

    async def _noted(self, tool: str, serving: Awaitable[Answer]) -> Answer:
        """What is refused is in the log, whatever the body makes of it; so is what a call took beyond its reservation."""
        try:
            answer = await serving
        except ToolFailed as failed:
            if not failed.recorded:
                self._lines.add("warning", failed.message, {"event": "tool_refused", "tool": tool[:200], "error_code": failed.code})
            raise
        if answer.beyond:
            told = f"{tool} took {answer.beyond} tokens more than could be reserved for it."
            self._lines.add("warning", told, {"event": "overshoot", "tool": tool, "tokens": answer.beyond})
        return answer

    async def _refuse(self, id: int, failed: ToolFailed) -> None:
        error = {
            "error_code": failed.code,
            "message": failed.message,
            "retry_after_seconds": failed.retry_after_seconds,
            "details": failed.details,
        }
        await self._send({"op": "answer", "id": id, "error": {key: value for key, value in error.items() if value is not None}})

    async def _send(self, frame: dict[str, Any], fd: int | None = None) -> None:
        with contextlib.suppress(ConnectionError, OSError):  # a body that is gone is told of by `receive`
            await self._body.send(frame, fd)

    # --- steps

    async def _step(self, frame: StepBegun, count: int) -> Answer:
        """A step of the body's own: its result is on disk before the body hears of it."""
        at = place(Type.STEP, STEP, frame.name, self._number, count, parent=self._at)
        known = self._journal.find(at)
        if known is None or known.status in OPEN:
            if known is None:
                self._journal.write_later(begun(at))
            told = self._steps[frame.id] = asyncio.get_running_loop().create_future()
            await self._send({"op": "step_run", "id": frame.id})
            end = await told
            await self._journal.write(_step_end(at, end))
            known = self._journal.find(at)
        assert known is not None
        return _step_answer(known)

    # --- artifacts

    async def _keep(self, frame: ArtifactGiven, fd: int) -> Answer:
        try:
            return Answer(msgspec.to_builtins(await self._files.keep(frame.name, frame.media_type, fd)), 0)
        finally:
            os.close(fd)

    async def _open(self, frame: OpenAsked) -> None:
        try:
            fd = await self._files.open(frame.artifact_id)
        except (ArtifactMissing, ArtifactsUnreachable) as missing:
            await self._refuse(frame.id, ToolFailed(missing.code, str(missing)))
            return
        except ToolFailed as refused:
            await self._refuse(frame.id, refused)
            return
        try:
            await self._send({"op": "answer", "id": frame.id, "fd": True}, fd)
        finally:
            os.close(fd)

    # --- what it says

    async def _ask(self, frame: Asked, count: int) -> Answer:
        if count > self._most.questions:
            raise ToolFailed("budget_exceeded", f"An attempt may put {self._most.questions} questions to people (policy.most.questions).")
        return await self._gateway.ask(frame)

    async def _progress(self, frame: Progress) -> None:
        self._progressed += 1
        if self._progressed <= self._most.progress:
            clean = await self._watcher.hidden({"progress": frame.data})
            self._watcher.progressed(clean["progress"])
        elif self._progressed == self._most.progress + 1:
            told = f"More than {self._most.progress} notes of progress (policy.most.progress): the rest are dropped."
            self._lines.add("warning", told, {})


def _first(fds: tuple[int, ...]) -> int:
    if not fds:
        raise FrameInvalid("An artifact came without its file.")
    return os.dup(fds[0])


def _step_end(at: Identity, end: StepEnded) -> Any:
    if end.error is not None:
        return at.update(Action.FAIL, error=Failure(end.error.message, end.error.error_code, msgspec.json.encode(end.error).decode()))
    return ended(at, codec.dumps(end.result))


def _step_answer(known: Operation) -> Answer:
    if known.status is Status.FAILED:
        assert known.error is not None
        raise StepFailed(msgspec.json.decode(known.error.data or "", type=BodyError))
    return Answer(codec.loads(known.result or "null"), known.ended_at or 0)


def _failed(code: str, message: str) -> AttemptResult:
    return AttemptResult(error=BodyError(error_code=code, message=message))

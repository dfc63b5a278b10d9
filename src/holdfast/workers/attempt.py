"""One attempt: a body runs, and the runner serves its messages (frames) until it returns, fails, is killed, or must wait for a person."""

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
from holdfast.durable.journal import Journal, identity_of, started, succeeded
from holdfast.hosts.sandbox.jail import BodyEnd, EndCode, Frame
from holdfast.model import codec, json_structs
from holdfast.model.clock import monotonic
from holdfast.model.operations import OPEN, Action, Failure, Operation, Status, Type
from holdfast.workers.approvals import ApprovalPlace
from holdfast.workers.artifacts import ArtifactMissing, Artifacts
from holdfast.workers.asked_persons import WaitsForPerson
from holdfast.workers.attempt_files import AttemptFiles
from holdfast.workers.attempt_log import AttemptLog
from holdfast.workers.attempt_state import AttemptState
from holdfast.workers.attempt_time import StoppableBody
from holdfast.workers.calls import CallAnswer
from holdfast.workers.frames import (
    ArtifactGiven,
    BodyError,
    DoneFrame,
    FailureFrame,
    FrameInvalid,
    Logged,
    OpenAsked,
    Progress,
    QuestionFrame,
    Ready,
    StepBegun,
    StepEnded,
    ToolAsked,
    frame_of,
)
from holdfast.workers.gateway import Gateway
from holdfast.workers.policy import Most
from holdfast.workers.run_operations import CANCEL_AT, STEP
from holdfast.workers.run_reporters import RunReporter
from holdfast.workers.storage.seam import ArtifactsUnreachable
from holdfast.workers.tools.seam import ToolFailed

_dying: set[asyncio.Future[BodyEnd]] = set()
"""For each body that returned its outputs and is being ended: the future of its end."""
_MOST_OPEN = 256
"""The most requests of one body that may wait for an answer at once."""


class Body(StoppableBody, Protocol):
    """One body, as its attempt uses it: in a jail, or in the runner's own process."""

    @property
    def isolation(self) -> dict[str, Any]: ...
    @property
    def over(self) -> bool:
        """Whether no process of the body is left; for an inline body, whether it has sent its last frame."""
        ...

    async def send(self, frame: dict[str, Any], fd: int | None = None) -> None: ...
    async def receive(self) -> Frame | BodyEnd: ...
    async def kill(self, code: EndCode = "cancelled", detail: str = "") -> BodyEnd:
        """End the body and every process that it started, and wait until all are dead. An inline body is not waited for: its thread cannot
        be ended. A second call does not change the code."""
        ...

    def working(self) -> AbstractContextManager[None]:
        """Inside this block the body does not count as idle, because the runner works for it."""
        ...


class AttemptResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of an attempt: outputs or an error, and what the body logged and stored."""

    outputs: Any = None
    error: BodyError | None = None
    artifacts: tuple[ArtifactRef, ...] = ()
    logs: tuple[dict[str, Any], ...] = ()
    isolation: str | None = None
    duration_ms: int = 0


class StepFailed(Exception):
    """A step of the body failed. `error` is what the author's function raised."""

    def __init__(self, error: BodyError) -> None:
        super().__init__(error.message)
        self.error = error


class LimitPassed(Exception):
    """A body has exceeded a limit of the operator. Its attempt ends with the error code `code`."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Attempt:
    """Serves one body. Each request of the body is served by a task of its own, so answers go back in the order in which they are ready."""

    def __init__(
        self,
        state: AttemptState,
        at: Identity,
        tenant: str,
        gateway: Gateway,
        journal: Journal,
        artifacts: Artifacts,
        reporter: RunReporter,
        most: Most,
    ) -> None:
        self._state = state
        self._at = at
        self._gateway = gateway
        self._journal = journal
        self._reporter = reporter
        self._most = most
        self._tasks: set[asyncio.Task[None]] = set()
        self._steps: dict[int, asyncio.Future[StepEnded]] = {}
        self._step_count = self._last_id = self._questions = self._progressed = 0
        self._ending: asyncio.Future[BodyEnd] | None = None
        self._waits_for: ApprovalPlace | None = None
        self._broken: BaseException | None = None
        self._files = AttemptFiles(artifacts, tenant, most.artifacts)
        self._log = AttemptLog(state.number, reporter, most.log_lines)
        self.dying: asyncio.Future[BodyEnd] | None = None
        """Done when every process of the body has ended; None if the attempt did not have to end the body."""

    async def run(self, body: Body, order: dict[str, Any], grace: float) -> AttemptResult | ApprovalPlace:
        """Run a body; `order` is its first frame. Returns its result, or the approval to wait for. Its calls get `grace` seconds to end."""
        began, outcome = monotonic(), None
        self._body = self._state.time.body = body
        self._journal.when_closed(CANCEL_AT, self._cancelled)
        try:
            await body.send(order)
            outcome = await self._frames()
            for step in self._steps.values():  # the body is gone and runs no more steps
                step.cancel()
            if self._tasks and self._broken is None:
                await self._drain(grace)
            if self._broken is not None:
                raise self._broken
            if self._waits_for is None and outcome.error is not None and (self._ending is None or self._state.cancelled):
                self._waits_for = await self._gateway.settle_lost_writes()
            if self._waits_for is not None:  # also after the body's end, because only a person can say what happened to a call in flight
                return self._waits_for
        finally:
            self._journal.when_closed(CANCEL_AT, None)
            for task in self._tasks:
                task.cancel()
            if self._tasks:
                await asyncio.gather(*self._tasks, return_exceptions=True)
            await self._dead(body, outcome)
        return msgspec.structs.replace(
            outcome,
            artifacts=tuple(self._files.kept.values()),
            logs=self._log.kept(),
            isolation=str(body.isolation.get("isolation", "none")),
            duration_ms=int((monotonic() - began - self._state.time.stopped) * 1000),
        )

    async def _dead(self, body: Body, outcome: AttemptResult | None) -> None:
        """End the body. If the attempt did not succeed, wait until all processes of the body have ended: another body may follow."""
        if body.over:
            return
        dying = self.dying = asyncio.ensure_future(body.kill())
        if outcome is None or outcome.error is not None or self._waits_for is not None:
            await dying
        else:
            _dying.add(dying)
            dying.add_done_callback(_dying.discard)

    def _cancelled(self) -> None:
        self._state.cancelled = True
        self._end("The run was cancelled.")

    def _end(self, why: str) -> None:
        """Begin to end the body, without waiting. When the body has ended, its method `receive` returns a BodyEnd."""
        if self._ending is None:
            self._ending = asyncio.ensure_future(self._body.kill("cancelled", why))

    async def _drain(self, grace: float) -> None:
        """Give calls in flight `grace` seconds to record their outcome, then cancel them. The outcome of a cancelled call is unknown."""
        _, late = await asyncio.wait(self._tasks, timeout=grace)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    async def _frames(self) -> AttemptResult:
        while True:
            received = await self._body.receive()
            if isinstance(received, BodyEnd):
                return _failed(received.code or "worker_crashed", received.detail or "The body's process ended without an answer.")
            try:
                frame = frame_of(received.data)
                last = None
                if isinstance(frame, Logged):
                    await self._log.add_from_body(frame.level, frame.message, frame.fields)
                elif isinstance(frame, Progress):
                    await self._progress(frame)
                else:
                    last = self._taken(frame, received.fds)
            except FrameInvalid as wrong:
                await self._body.kill("worker_crashed")
                return _failed("worker_crashed", str(wrong))
            except LimitPassed as limit:
                await self._body.kill("cancelled", str(limit))
                return _failed(limit.code, str(limit))
            finally:
                for fd in received.fds:
                    os.close(fd)
            if last is not None:
                return last

    def _taken(self, frame: Any, fds: tuple[int, ...]) -> AttemptResult | None:
        """Serve one frame. Returns the result of the attempt if this is the last frame of the body, else None."""
        if isinstance(frame, DoneFrame):
            return AttemptResult(outputs=frame.outputs)
        if isinstance(frame, FailureFrame):
            return AttemptResult(error=frame.error)
        if isinstance(frame, StepEnded):
            waiting = self._steps.pop(frame.id, None)
            if waiting is None:
                raise FrameInvalid(f"The body ended the step {frame.id}, which is not running.")
            waiting.set_result(frame)
        elif not isinstance(frame, Ready):
            self._serve(frame, fds)
        return None

    def _serve(self, frame: Any, fds: tuple[int, ...]) -> None:
        if len(self._tasks) >= _MOST_OPEN:
            raise FrameInvalid(f"The body has more than {_MOST_OPEN} requests without an answer at once.")
        if frame.id <= self._last_id:
            raise FrameInvalid(f"The request {frame.id} came after {self._last_id}: each request needs a higher number than the last.")
        self._last_id = frame.id
        if isinstance(frame, ToolAsked):
            serving = self._answer(frame.id, self._noted(frame.tool, self._gateway.call(frame)))
        elif isinstance(frame, QuestionFrame):
            self._questions += 1
            serving = self._answer(frame.id, self._noted("ask", self._ask(frame, self._questions)))
        elif isinstance(frame, StepBegun):
            self._step_count += 1
            if self._step_count > self._most.steps:
                raise LimitPassed("step_limit", f"The body began more than {self._most.steps} steps in one attempt (policy.most.steps).")
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
            self._broken = error  # for example a write that failed: the attempt cannot go on in this process
            self._end("The runner failed while it served the body.")

    async def _answer(self, id: int, serving: Awaitable[CallAnswer], *, theirs: bool = False) -> None:
        """Answer one request of the body. Meanwhile the body's idle timeout runs only if the body itself does the work (`theirs`)."""
        try:
            with contextlib.nullcontext() if theirs else self._body.working():
                answer = await serving
        except WaitsForPerson as wait:
            self._waits_for = self._waits_for or wait.at
            self._end("The run waits for a person.")
            return
        except ToolFailed as failed:
            await self._refuse(id, failed)
            return
        except StepFailed as failed:
            await self._send({"op": "answer", "id": id, "error": msgspec.to_builtins(failed.error)})
            return
        written = {"now": answer.at} if answer.at else {}
        await self._send({"op": "answer", "id": id, "result": answer.result, **written, **self._left()})

    async def _noted(self, tool: str, serving: Awaitable[CallAnswer]) -> CallAnswer:
        """Await and return the answer. Logs a refusal, and what a call used beyond its reservation, because the body may ignore both."""
        try:
            answer = await serving
        except ToolFailed as failed:
            if not failed.recorded:
                self._log.add("warning", failed.message, {"event": "tool_refused", "tool": tool[:200], "error_code": failed.code})
            self._log.add_overshoot(tool, failed.beyond)
            raise
        self._log.add_overshoot(tool, answer.beyond)
        return answer

    async def _refuse(self, id: int, failed: ToolFailed) -> None:
        error = {
            "error_code": failed.code,
            "message": failed.message,
            "retry_after_seconds": failed.retry_after_seconds,
            "details": failed.details,
        }
        told = {key: value for key, value in error.items() if value is not None}
        await self._send({"op": "answer", "id": id, "error": told, **self._left()})

    def _left(self) -> dict[str, float]:
        """The member `left` of an answer: how many seconds the attempt has left. Empty if its clock never stopped: the body's is right."""
        return {"left": self._state.time.left} if self._state.time.stopped else {}

    async def _send(self, frame: dict[str, Any], fd: int | None = None) -> None:
        with contextlib.suppress(ConnectionError, OSError):  # the body has ended: `receive` returns its end
            await self._body.send(frame, fd)

    # --- steps

    async def _step(self, frame: StepBegun, count: int) -> CallAnswer:
        """Answer a step with its recorded end. Without one, the body runs the step, and the end is recorded before the body is answered."""
        at = identity_of(Type.STEP, STEP, frame.name, self._state.number, count, parent=self._at)
        known = self._journal.find(at)
        if known is None or known.status in OPEN:
            if known is None:
                self._journal.write_later(started(at))
            told = self._steps[frame.id] = asyncio.get_running_loop().create_future()
            await self._send({"op": "step_run", "id": frame.id})
            end = await told
            await self._journal.write(_step_end(at, end))
            known = self._journal.find(at)
        assert known is not None
        return _step_answer(known)

    # --- artifacts

    async def _keep(self, frame: ArtifactGiven, fd: int) -> CallAnswer:
        try:
            return CallAnswer(msgspec.to_builtins(await self._files.keep(frame.name, frame.media_type, fd)), 0)
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

    # --- questions and progress

    async def _ask(self, frame: QuestionFrame, count: int) -> CallAnswer:
        if count > self._most.questions:
            raise ToolFailed("budget_exceeded", f"An attempt may ask at most {self._most.questions} questions (policy.most.questions).")
        return await self._gateway.ask(frame)

    async def _progress(self, frame: Progress) -> None:
        self._progressed += 1
        if self._progressed <= self._most.progress:
            clean = await self._reporter.without_secrets({"progress": frame.data})
            self._reporter.progressed(clean["progress"])
        elif self._progressed == self._most.progress + 1:
            told = f"The body reported progress more than {self._most.progress} times (policy.most.progress): later reports are dropped."
            self._log.add("warning", told, {})


def _first(fds: tuple[int, ...]) -> int:
    if not fds:
        raise FrameInvalid("The body sent an artifact without its file descriptor.")
    return os.dup(fds[0])


def _step_end(at: Identity, end: StepEnded) -> Any:
    if end.error is not None:
        return at.update(Action.FAIL, error=Failure(end.error.message, end.error.error_code, msgspec.json.encode(end.error).decode()))
    return succeeded(at, codec.dumps(end.result))


def _step_answer(known: Operation) -> CallAnswer:
    if known.status is Status.FAILED:
        assert known.error is not None
        raise StepFailed(json_structs.decoded(known.error.data or "", BodyError))
    return CallAnswer(codec.loads(known.result or "null"), known.ended_at or 0)


def _failed(code: str, message: str) -> AttemptResult:
    return AttemptResult(error=BodyError(error_code=code, message=message))

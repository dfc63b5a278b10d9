"""An author's tool: declared in a worker's file, and run in a process of its own, outside the sandbox.

- If the function returned, the call has its result, with secrets replaced. If the result is not JSON or too large, the call fails instead;
  then the outcome of a write counts as unknown.
- If the function raised, the call has its error. The outcome is unknown after a timeout, a lost connection, or an HTTP status 5xx.
- If the process was killed at the deadline or crashed, the call fails. The outcome is unknown if the call had been sent to the process.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from holdfast.contract.checking import problems_of
from holdfast.hosts.toolhost.tool_frames import ToolFrame
from holdfast.hosts.toolhost.tool_host import (
    CallAnswered,
    CallCrashed,
    CallEnd,
    CallLate,
    CallNotSent,
    NoProcessFree,
    ToolHost,
    ToolRequest,
)
from holdfast.hosts.toolhost.tool_process import HostedTool
from holdfast.model.clock import monotonic
from holdfast.model.threads import Purpose, in_thread
from holdfast.workers.tools.declarations import Declared
from holdfast.workers.tools.retry_after import USUAL_SECONDS, retry_after
from holdfast.workers.tools.seam import (
    Call,
    CallResult,
    CallVerdict,
    DidNotHappen,
    Effect,
    Happened,
    Remaining,
    Reservation,
    ToolFailed,
    Unknown,
)
from holdfast.workers.tools.secrets import Redactor, Secrets

_MORE_LOOKS: Final = 2
"""If the process of a reconcile function dies, the function is called again, at most this many times."""


class AuthorTool:
    """One `@tool` of a worker's file."""

    def __init__(self, declared: Declared, file: Path, host: ToolHost, secrets: Secrets, paths: tuple[str, ...] = ()) -> None:
        self.declared = declared
        self.arguments_schema: Mapping[str, Any] | None = declared.arguments_schema
        self._hosted = HostedTool(file, declared.name, paths)
        self._host = host
        self._secrets = secrets

    @property
    def name(self) -> str:
        """The name by which workers call it."""
        return self.declared.name

    @property
    def effect(self) -> Effect:
        return self.declared.effect

    def reserve(self, arguments: Mapping[str, Any], remaining: Remaining) -> Reservation:
        """An empty reservation: an author's tool uses no tokens of the run. Raises ToolFailed if the arguments do not fit the tool's
        signature, before the intent is written."""
        problems = problems_of(dict(arguments), self.declared.arguments_schema)
        if problems:
            at = "; ".join(f"{problem.path or 'arguments'}: {problem.reason}" for problem in problems[:5])
            raise ToolFailed("tool_failed", f"The arguments of {self.name} do not fit its signature: {at}", details={"reason": "arguments"})
        return Reservation()

    async def call(self, call: Call, arguments: Mapping[str, Any], reservation: Reservation) -> CallResult:
        """Run the tool in its process. Returns its result, with secrets replaced. Raises ToolFailed if the call fails."""
        ended, redactor = await self._ask("call", call, arguments)
        try:
            return CallResult(await redactor.cleaned(self._result(ended, call)["result"]))
        except ToolFailed as failed:
            raise redactor.failure(failed) from None

    async def reconcile(self, call: Call, arguments: Mapping[str, Any]) -> CallVerdict:
        """Ask the tool's reconcile function whether a call took place. Returns Unknown if the tool has no such function, if the function
        cannot be called or fails, or if it cannot tell.

        If its process dies, the function is called again, because it only reads. (What killed the process of the call may also have killed
        the idle process that the function got.)
        """
        if not self.declared.reconciles:
            return Unknown()
        try:
            ended, redactor = await self._ask("reconcile", call, arguments)
            for _ in range(_MORE_LOOKS):
                if isinstance(ended, CallCrashed):
                    ended, redactor = await self._ask("reconcile", call, arguments)
            frame = self._result(ended, call)
        except ToolFailed:
            return Unknown()
        match frame.get("verdict"):
            case "happened":
                return Happened(await redactor.cleaned(frame["result"]))
            case "did_not_happen":
                return DidNotHappen()
            case _:
                return Unknown()

    async def _ask(self, op: str, call: Call, arguments: Mapping[str, Any]) -> tuple[CallEnd, Redactor]:
        names = self.declared.secrets
        secrets = await in_thread(Purpose.SECRETS, self._secrets.resolve, names, self.name) if names else {}
        redactor = Redactor(secrets)
        deadline = call.deadline
        if self.declared.timeout_seconds is not None:
            deadline = min(deadline, monotonic() + self.declared.timeout_seconds)
        about = {
            "run_id": call.run_id,
            "tool": self.name,
            "idempotency_key": call.idempotency_key,
            "attempt": call.attempt,
            "tenant": call.tenant,
            "traceparent": call.traceparent,
        }
        asked = ToolRequest(op=op, call=about, arguments=arguments, secrets=secrets, deadline=deadline, redact=redactor.text)
        return await self._host.ask(self._hosted, asked), redactor

    def _result(self, ended: CallEnd, call: Call) -> ToolFrame:
        match ended:
            case CallAnswered(frame) if frame["op"] == "done":
                return frame
            case CallAnswered(frame) if frame["op"] == "unfit":
                raise ToolFailed("tool_failed", f"{self.name}: {frame.get('message')}", known=self.effect is not Effect.WRITE)
            case CallAnswered(frame):
                raise self._told(frame, call)
            case CallLate(sent):
                raise ToolFailed("tool_timeout", f"{self.name} was killed at its deadline.", known=not sent)
            case CallCrashed(reason, sent) if sent:
                raise ToolFailed("tool_unavailable", f"{self.name} crashed in the middle of the call: {reason}.", known=False)
            case CallCrashed(reason):
                raise ToolFailed("tool_failed", f"{self.name} could not be started: {reason}")
            case CallNotSent(reason, passing):
                raise ToolFailed("tool_unavailable" if passing else "tool_failed", f"{self.name} was not called: {reason}")
            case NoProcessFree():
                raise ToolFailed("overloaded", f"No process was free for {self.name} in time.")

    def _told(self, frame: ToolFrame, call: Call) -> ToolFailed:
        code, known = str(frame.get("code", "tool_failed")), bool(frame.get("known", True))
        wait = frame.get("retry_after_seconds")
        if wait is None and code == "rate_limited":
            wait = retry_after(frame.get("retry_after"), call.now)
            wait = USUAL_SECONDS if wait is None else wait
        where = f" ({frame['where']})" if frame.get("where") else ""
        return ToolFailed(
            code,
            f"{self.name} raised {frame.get('type')}: {frame.get('message')}{where}",
            retry_after_seconds=wait,
            closes=f"tool:{self.name}" if code == "rate_limited" else None,
            known=known,
            details={"type": frame.get("type")},
        )

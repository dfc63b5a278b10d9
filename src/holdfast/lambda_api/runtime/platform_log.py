"""The platform's own log records about a process and its requests: text lines, or JSON events for functions that log JSON.

The levels are Lambda's: the start and the report of a request are INFO, its end is DEBUG. If the request failed, its end and its report are
WARN; an event that says why the platform ended it is ERROR.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from holdfast.lambda_api.runtime import jobs
from holdfast.lambda_api.runtime.jobs import InvocationRequest
from holdfast.lambda_api.runtime.runtime_description import Runtime
from holdfast.model.operations import Failure

_ON_DEMAND: Final = {"initializationType": "on-demand", "phase": "init"}


class PlatformEvent(msgspec.Struct, frozen=True):
    """One event of the platform. `text` is its line for functions that log text; `kind` and `record` are its JSON."""

    text: str
    kind: str
    record: Any
    level: str = "INFO"

    def json(self, at: int) -> str:
        """The event as JSON, for functions that log JSON. `at` is its time in milliseconds since 1970."""
        time = datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return msgspec.json.encode({"time": time, "type": f"platform.{self.kind}", "record": self.record}).decode()


class EndedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The result, the duration and the memory of one request."""

    request: InvocationRequest
    failure: Failure | None
    kind: str | None
    """The name of the failure in the log; None if there is no failure or it has no name."""
    took_ms: float
    memory_mb: int
    used_mb: int
    init_ms: float | None = None
    """How long the process took to start, if this was its first request; else None."""

    @property
    def _status(self) -> dict[str, str]:
        if self.failure is None:
            return {"status": "success"}
        if self.failure.type == jobs.TIMED_OUT:
            return {"status": "timeout"}
        return {"status": "error"} | ({"errorType": self.kind} if self.kind else {})

    def done(self) -> PlatformEvent:
        """The event that the request has ended, with or without a failure."""
        record = {"requestId": self.request.id, **self._status, "metrics": {"durationMs": round(self.took_ms, 3)}}
        return PlatformEvent(f"END RequestId: {self.request.id}", "runtimeDone", record, "DEBUG" if self.failure is None else "WARN")

    def report(self) -> PlatformEvent:
        """The event with the duration of the request, the memory that the function may use, and the most that its process has used."""
        metrics: dict[str, float] = {
            "durationMs": round(self.took_ms, 3),
            "billedDurationMs": math.ceil(self.took_ms),
            "memorySizeMB": self.memory_mb,
            "maxMemoryUsedMB": self.used_mb,
        }
        if self.init_ms is not None:
            metrics["initDurationMs"] = round(self.init_ms, 3)
        record = {"requestId": self.request.id, "metrics": metrics, **self._status}
        return PlatformEvent(self._line(), "report", record, "INFO" if self.failure is None else "WARN")

    def _line(self) -> str:
        parts = [
            f"REPORT RequestId: {self.request.id}",
            f"Duration: {self.took_ms:.2f} ms",
            f"Billed Duration: {math.ceil(self.took_ms)} ms",
            f"Memory Size: {self.memory_mb} MB",
            f"Max Memory Used: {self.used_mb} MB",
        ]
        if self.init_ms is not None:
            parts.append(f"Init Duration: {self.init_ms:.2f} ms")
        if self.failure is not None and jobs.is_platforms(self.failure):
            is_late = self.failure.type == jobs.TIMED_OUT
            parts.append("Status: timeout" if is_late else f"Status: error\tError Type: {self.kind}")
        return "\t".join(parts) + "\t"


def beginning(runtime: Runtime) -> PlatformEvent:
    """The event that a process will be started."""
    about = {"runtimeVersion": runtime.runtime, "functionName": runtime.function, "functionVersion": runtime.version}
    return PlatformEvent(f"INIT_START Runtime Version: {runtime.runtime}", "initStart", {**_ON_DEMAND, **about})


def not_begun(took_ms: float, kind: str | None) -> PlatformEvent:
    """The event that a process ended before it asked for its first job. `took_ms` is how long it ran; `kind` is the name of the failure."""
    text = f"INIT_REPORT Init Duration: {took_ms:.2f} ms\tPhase: init\tStatus: error\tError Type: {kind}"
    record = {**_ON_DEMAND, "status": "error", "errorType": kind, "metrics": {"durationMs": round(took_ms, 3)}}
    return PlatformEvent(text, "initReport", record, "WARN")


def started(request: InvocationRequest, version: str) -> PlatformEvent:
    """The event that a process got a request."""
    return PlatformEvent(f"START RequestId: {request.id} Version: {version}", "start", {"requestId": request.id, "version": version})


def fault(request: InvocationRequest, failure: Failure) -> PlatformEvent:
    """The event that a request failed without an answer of the function, such as a timeout, with the reason."""
    message = jobs.addressed(failure, request.id).message
    return PlatformEvent(f"{message}\r{failure.type}", "fault", f"{message} {failure.type}", "ERROR")

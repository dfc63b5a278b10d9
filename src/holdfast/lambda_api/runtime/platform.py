"""What the platform says of a process and its requests: lines of text, or the events that Lambda writes for functions that log JSON.

The level of an event is Lambda's own: a start and a report are INFO, how a runtime ended DEBUG, and whatever went wrong WARN or more.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from holdfast.lambda_api.runtime import jobs
from holdfast.lambda_api.runtime.description import Runtime
from holdfast.lambda_api.runtime.jobs import InvocationRequest
from holdfast.model.operations import Failure

_ON_DEMAND: Final = {"initializationType": "on-demand", "phase": "init"}


class Event(msgspec.Struct, frozen=True):
    """One thing that happened, in both forms."""

    text: str
    kind: str
    record: Any
    level: str = "INFO"

    def json(self, at: int) -> str:
        """The event, as it is written for functions that log JSON."""
        time = datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return msgspec.json.encode({"time": time, "type": f"platform.{self.kind}", "record": self.record}).decode()


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """How a request went."""

    request: InvocationRequest
    failure: Failure | None
    kind: str | None
    """What the log calls the failure."""
    took_ms: float
    memory_mb: int
    used_mb: int
    init_ms: float | None = None
    """How long the process took to begin, if this was its first request."""

    @property
    def _status(self) -> dict[str, str]:
        if self.failure is None:
            return {"status": "success"}
        if self.failure.type == jobs.TIMED_OUT:
            return {"status": "timeout"}
        return {"status": "error"} | ({"errorType": self.kind} if self.kind else {})

    def done(self) -> Event:
        """The runtime is done with it."""
        record = {"requestId": self.request.id, **self._status, "metrics": {"durationMs": round(self.took_ms, 3)}}
        return Event(f"END RequestId: {self.request.id}", "runtimeDone", record, "DEBUG" if self.failure is None else "WARN")

    def report(self) -> Event:
        """What it took."""
        metrics: dict[str, float] = {
            "durationMs": round(self.took_ms, 3),
            "billedDurationMs": math.ceil(self.took_ms),
            "memorySizeMB": self.memory_mb,
            "maxMemoryUsedMB": self.used_mb,
        }
        if self.init_ms is not None:
            metrics["initDurationMs"] = round(self.init_ms, 3)
        record = {"requestId": self.request.id, "metrics": metrics, **self._status}
        return Event(self._line(), "report", record, "INFO" if self.failure is None else "WARN")

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


def beginning(runtime: Runtime) -> Event:
    """A process is about to be started."""
    about = {"runtimeVersion": runtime.runtime, "functionName": runtime.function, "functionVersion": runtime.version}
    return Event(f"INIT_START Runtime Version: {runtime.runtime}", "initStart", {**_ON_DEMAND, **about})


def not_begun(took_ms: float, kind: str | None) -> Event:
    """A process ended before it asked for work."""
    text = f"INIT_REPORT Init Duration: {took_ms:.2f} ms\tPhase: init\tStatus: error\tError Type: {kind}"
    record = {**_ON_DEMAND, "status": "error", "errorType": kind, "metrics": {"durationMs": round(took_ms, 3)}}
    return Event(text, "initReport", record, "WARN")


def started(request: InvocationRequest, version: str) -> Event:
    """A process got a request."""
    return Event(f"START RequestId: {request.id} Version: {version}", "start", {"requestId": request.id, "version": version})


def fault(request: InvocationRequest, failure: Failure) -> Event:
    """The platform ended a request, and says why."""
    message = jobs.addressed(failure, request.id).message
    return Event(f"{message}\r{failure.type}", "fault", f"{message} {failure.type}", "ERROR")

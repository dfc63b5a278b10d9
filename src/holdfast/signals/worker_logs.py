"""The log of workers: one JSON object in each line, on stderr or in a file.

Programs may rely on the names of the fields: they do not change. Every line of a run has `worker_id, attempt, duration_ms, status,
error_code` and `trace_id, span_id, parent_span_id, upstream_request_id`; a field without a value is null. The fields that a body logs are
in the object `fields`, so that a reader does not take them for values of the runtime. A thread writes the lines, and the caller does not
wait for it. If too many lines wait to be written, further lines are dropped, and a later line says how many.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections import deque
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from holdfast.files import private
from holdfast.model.clock import Clock
from holdfast.model.errors import InvalidParameter, NotPrivate
from holdfast.signals.observers import AttemptSeen, EndSeen, NodeSeen, PersonWaitSeen, RefusalSeen, RunObserver, RunSeen, ToolSeen

log = logging.getLogger("holdfast.signals")
_STDERR: Final = 2
_MOST_LINES: Final = 10_000
_MOST_BYTES: Final = 16 * 1024 * 1024
_LEVELS: Final = frozenset({"debug", "info", "warning", "error", "critical"})


class LineWriter:
    """Appends lines to a file, or to stderr, from a thread of its own. `where` is the file's path, or `stderr`. If the file is moved or
    removed while the process runs, the next line goes into a new file with the old name. Lines that cannot be written are lost, and a
    warning in the log of Holdfast says so."""

    def __init__(self, where: str, *, most_lines: int = _MOST_LINES, most_bytes: int = _MOST_BYTES) -> None:
        self._where = where
        self._most_lines, self._most_bytes = most_lines, most_bytes
        self._lines: deque[bytes] = deque()
        self._bytes = 0
        self._dropped = 0
        self._news = threading.Condition()
        self._closed = False
        self._broken = False
        self._thread: threading.Thread | None = None
        if where != "stderr":
            self._check()

    def _check(self) -> None:
        """Open the file once; a missing file is made. Raises InvalidParameter if the file cannot be opened for writing, and NotPrivate if
        it cannot be kept private to this user, for example a regular file of another user."""
        try:
            os.close(self._opened())
        except OSError as error:
            raise InvalidParameter(f"[signals] log: {self._where} cannot be written: {error.strerror}.") from None

    def write(self, line: bytes) -> None:
        """Give a line to the writing thread, and return at once. Any thread may call this. The line is dropped if too many lines or too
        many bytes wait, or if `close` was called."""
        with self._news:
            if self._closed or len(self._lines) >= self._most_lines or self._bytes + len(line) > self._most_bytes:
                self._dropped += 1
                return
            self._lines.append(line)
            self._bytes += len(line)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="holdfast-log", daemon=True)
                self._thread.start()
            self._news.notify()

    def close(self, seconds: float = 2.0) -> None:
        """Accept no more lines, and write those that still wait. Returns after at most `seconds`, also if some lines are not written."""
        with self._news:
            self._closed = True
            self._news.notify()
        if self._thread is not None:
            self._thread.join(seconds)

    def _run(self) -> None:
        while True:
            with self._news:
                while not self._lines and not self._closed:
                    self._news.wait()
                lines, dropped = list(self._lines), self._dropped
                self._lines.clear()
                self._bytes = self._dropped = 0
                closed = self._closed
            if dropped:
                told = {"level": "warning", "event": "log_dropped", "message": "Lines came faster than they could be written."}
                lines.append(msgspec.json.encode(told | {"dropped": dropped}) + b"\n")
            if lines:
                self._append(b"".join(lines))
            if closed:
                return

    def _append(self, text: bytes) -> None:
        try:
            file = _STDERR if self._where == "stderr" else self._opened()
            try:
                while text:
                    text = text[os.write(file, text) :]
            finally:
                if file != _STDERR:
                    os.close(file)
            self._broken = False
        except (OSError, NotPrivate) as error:
            if not self._broken:
                self._broken = True
                log.warning("the log of workers cannot be written: %s", error.strerror if isinstance(error, OSError) else error)

    def _opened(self) -> int:
        return private.open_given(self._where, os.O_WRONLY | os.O_APPEND)


class WorkerLog(RunObserver):
    """An observer of runs. It writes the log of workers."""

    def __init__(self, writer: LineWriter, clock: Clock) -> None:
        self._writer = writer
        self._clock = clock

    def close(self) -> None:
        """Write the lines that still wait, and accept no more lines. Returns after at most 2 seconds, also if some lines are not
        written."""
        self._writer.close()

    def refused(self, refusal: RefusalSeen) -> None:
        """Write a line about a request that started no run."""
        who = {"worker_id": refusal.worker_id, "version": refusal.version, "tenant": refusal.tenant, "run_id": None}
        ended = {"attempt": 0, "duration_ms": refusal.at - refusal.began_at, "status": refusal.status, "error_code": refusal.error_code}
        self._line("warning", "refused", refusal.message, refusal.at, {**who, **ended, **_trace(refusal.trace)})

    def accepted(self, run: RunSeen, at: int) -> None:
        """Write a line about a run that was accepted."""
        self._line("info", "accepted", "accepted", at, _of(run))

    def attempt_began(self, run: RunSeen, number: int, at: int) -> None:
        """Write a line about an attempt that begins."""
        self._line("info", "attempt_began", f"attempt {number} begins", at, _of(run, attempt=number))

    def attempt_ended(self, run: RunSeen, attempt: AttemptSeen) -> None:
        """Write a line about an attempt that ended, with its status."""
        told = _of(
            run,
            attempt=attempt.number,
            duration_ms=attempt.duration_ms,
            status=attempt.status,
            error_code=attempt.error_code,
            span_id=attempt.span_id,
            parent_span_id=run.span_id,
        )
        self._line(_level(attempt.error_code), "attempt_ended", attempt.message or attempt.status, attempt.ended_at, told)

    def tool_ended(self, run: RunSeen, tool: ToolSeen) -> None:
        """Write a line about a call of a tool that has ended. Its event is `tool_reused` if the tool was not called, because the receipt of
        an earlier call had the answer; else it is `tool_ended`."""
        told = _of(
            run,
            attempt=tool.attempt,
            duration_ms=round(tool.duration_ms, 3),
            error_code=tool.error_code,
            span_id=tool.span_id,
            parent_span_id=tool.parent_span_id,
        )
        told |= {"tool": tool.tool, "effect": tool.effect, "reused": tool.reused, "lost": tool.lost}
        told |= {"tokens": {"input": tool.input_tokens, "output": tool.output_tokens}, "cost_usd": float(tool.cost_usd)}
        event = "tool_reused" if tool.reused else "tool_ended"
        at = self._clock.now() if tool.reused else round(tool.began_at + tool.duration_ms)
        self._line("info" if tool.reused else _level(tool.error_code), event, tool.message or f"{tool.tool} answered", at, told)

    def waits_for_person(self, run: RunSeen, wait: PersonWaitSeen) -> None:
        """Write a line about a run that begins to wait for a person."""
        told = _of(run, attempt=wait.attempt) | {"tool": wait.tool, "kind": wait.kind, "approval_id": wait.approval_id}
        self._line("info", "waits_for_person", f"a person must decide: {wait.tool}", self._clock.now(), told)

    def logged(self, run: RunSeen, record: Mapping[str, Any]) -> None:
        """Write a line that the body logged, or that the runner added. Its event is `tool_refused` if it is about a call that the gateway
        refused; else it is `log`."""
        own = {name: value for name, value in record.items() if name not in ("level", "message", "attempt", "event")}
        level = str(record.get("level", "info")).lower()
        told = _of(run, attempt=record.get("attempt")) | {"fields": own}
        event = "tool_refused" if record.get("event") == "tool_refused" else "log"
        if event == "tool_refused":
            told |= {"error_code": own.get("error_code"), "tool": own.get("tool")}
        self._line(level if level in _LEVELS else "info", event, str(record.get("message", "")), self._clock.now(), told)

    def node_ended(self, run: RunSeen, node: NodeSeen) -> None:
        """Write a line about a node of a pipeline that ended. This line, and every line of a child run that the node started, has the
        fields `pipeline` and `node`."""
        told = _of(run, duration_ms=node.ended_at - node.began_at, error_code=node.error_code, span_id=node.span_id)
        told |= {"parent_span_id": run.span_id, "pipeline": run.worker_id, "node": node.node, "round": node.round, "state": node.state}
        self._line(_level(node.error_code), "node_ended", node.message or f"{node.node} is {node.state}", node.ended_at, told)

    def ended(self, run: RunSeen, end: EndSeen) -> None:
        """Write the last line of a run: how it ended, what it used, and the log fields that its contract names."""
        told = _of(run, attempt=end.attempt, duration_ms=end.duration_ms, status=end.status, error_code=end.error_code)
        told |= {"partial": end.partial, "isolation": end.isolation, "tool_calls": end.tool_calls}
        told |= {"tokens": {"input": end.input_tokens, "output": end.output_tokens}, "cost_usd": float(end.cost_usd)}
        self._line(_level(end.error_code, "error"), "ended", end.message or end.status, end.ended_at, {**end.log_fields, **told})

    def _line(self, level: str, event: str, message: str, at: int, fields: Mapping[str, Any]) -> None:
        moment = datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        head = {"time": moment, "level": level, "event": event, "message": message}
        with contextlib.suppress(TypeError, ValueError, RecursionError):  # a value cannot be written as JSON: then no line is written
            self._writer.write(msgspec.json.encode({**head, **fields, **head}) + b"\n")


def _of(run: RunSeen, **known: Any) -> dict[str, Any]:
    ended = {"attempt": None, "duration_ms": None, "status": None, "error_code": None}
    who = {"worker_id": run.worker_id, "version": run.version, "tenant": run.tenant, "run_id": run.run_id}
    asked_by = {} if run.pipeline is None else {"pipeline": run.pipeline, "node": run.node}
    return {**who, **asked_by, **ended, **run.trace, **known}


def _trace(trace: Mapping[str, Any]) -> dict[str, Any]:
    return {name: trace.get(name) for name in ("trace_id", "span_id", "parent_span_id", "upstream_request_id")}


def _level(error_code: str | None, bad: str = "warning") -> str:
    return "info" if error_code is None else bad

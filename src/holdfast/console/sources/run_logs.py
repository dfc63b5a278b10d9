"""What the steps of a function and the attempts of a worker logged, for each operation.

The server keeps what functions log; a console without a server shows none of it. What a worker logs is in the result of its attempt. When
its run has ended, it is in the response of the run.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from holdfast.console.sources.run_secrets import Veil
from holdfast.console.sources.timeline_words import attempt_in
from holdfast.console.sources.viewer import Viewer
from holdfast.model.execution import Execution, ExecutionStatus
from holdfast.model.operations import Operation
from holdfast.workers.attempt import AttemptResult
from holdfast.workers.run_lookup import accepted_in, response_of
from holdfast.workers.run_operations import ATTEMPT

LogEntry: TypeAlias = Mapping[str, Any]
"""One logged line: a record with `level` and `message`."""
_MOST_LINES: Final = 10_000
"""At most this many lines of a function's execution, or of the response of a run, are read."""


def logs_of(viewer: Viewer, header: Execution, operations: Iterable[Operation], veil: Veil) -> dict[str, list[LogEntry]]:
    """The lines that were logged, without secrets, by the id of the operation that logged them. An operation that logged nothing is left
    out. The lines of a function that belong to no operation are under the key `"None"`. Empty for a function if the console has no server,
    and for a run of a worker that ended without a response."""
    found: dict[str, list[LogEntry]] = {}
    accepted = accepted_in(viewer.store, header)
    if accepted is None:
        for line in () if viewer.served is None else _shown(veil, viewer.served.logs(header)[:_MOST_LINES]):
            found.setdefault(str(line.get("operationId")), []).append(line)
    elif header.status is ExecutionStatus.RUNNING:
        for op in operations:
            ended = attempt_result(op)
            if ended is not None and ended.logs:
                found[op.id] = _shown(veil, ended.logs)
    elif header.status is ExecutionStatus.SUCCEEDED:
        by_number = {(op.name or "").removeprefix("attempt-"): op.id for op in operations if op.sub_type == ATTEMPT}
        for line in _shown(veil, response_of(viewer.store, header, accepted).logs[:_MOST_LINES]):
            attempt = by_number.get(str(line.get("attempt", "1")))
            if attempt is not None:
                found.setdefault(attempt, []).append(line)
    return found


def _shown(veil: Veil, lines: Sequence[LogEntry]) -> list[LogEntry]:
    """The lines without secrets. Empty if there are too many runs or secrets to look through: then no line is shown."""
    cleaned = veil.value(list(lines))
    return cleaned if isinstance(cleaned, list) else []


def attempt_result(op: Operation) -> AttemptResult | None:
    """The result of an attempt of a worker. None if the operation is no such attempt, has not ended, or has a result that cannot be
    read."""
    with contextlib.suppress(msgspec.MsgspecError, ValueError):
        return attempt_in(op) if op.sub_type == ATTEMPT else None
    return None

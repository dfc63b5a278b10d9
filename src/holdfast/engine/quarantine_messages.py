"""The messages about quarantined executions. Callers that wait for the end of such an execution get an error at once, because a person must
act first. model/life.py puts an execution into quarantine."""

from __future__ import annotations

from datetime import UTC, datetime

from holdfast.model import codec
from holdfast.model.errors import ExecutionQuarantined, HoldfastError
from holdfast.model.execution import Execution, Quarantine
from holdfast.model.life import next_try, reason_of
from holdfast.store.seam import ExecutionStore

_CAUSES = {
    Quarantine.RUNNER_DIED: "its runner died {deaths} times in a row, also in the further tries.",
    Quarantine.PAYLOAD_UNREADABLE: "its payloads could not be read or written.",
    Quarantine.REPLAY_MISMATCH: "the code does not match its history.",
}
_MENDS = {
    Quarantine.RUNNER_DIED: "Release it when the cause is mended",
    Quarantine.PAYLOAD_UNREADABLE: "Release it when the cause is removed (for example, when the payload codec has the keys that it needs)",
    Quarantine.REPLAY_MISMATCH: "Release it when the code is mended or rolled back",
}


def quarantined(store: ExecutionStore, header: Execution) -> ExecutionQuarantined:
    """The error for callers that wait for the end of a quarantined execution."""
    who = f"{header.function}/{header.name}"
    reason = reason_of(header)
    told = f"{who} is quarantined ({reason}): {why(store, header)}: holdfast executions release {who}"
    return ExecutionQuarantined(told, None if reason is None else reason.value)


def why(store: ExecutionStore, header: Execution) -> str:
    """Why an execution is quarantined, and what a person must do. If an error was the reason and its message can be read, the text includes
    the message."""
    reason = reason_of(header) or Quarantine.RUNNER_DIED
    cause = _CAUSES[reason].format(deaths=header.deaths)
    told = None if reason is Quarantine.RUNNER_DIED else _message(store, header)
    if told is not None:
        cause = told if reason is Quarantine.REPLAY_MISMATCH else f"{cause} {told}"
    return f"{cause} {_MENDS[reason]}"


def waits(header: Execution) -> str | None:
    """The message about an execution that was put aside and will be tried again later without a person; None for any other execution."""
    at = next_try(header)
    if at is None:
        return None
    when = datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return f"Its runner died {header.deaths} times in a row. It is tried again by itself at {when}, alone on a runner if one becomes free."


def _message(store: ExecutionStore, header: Execution) -> str | None:
    """The message of the error because of which the execution is quarantined; None if no error was the reason, or if its message cannot be
    read."""
    if header.quarantine_event is None:
        return None
    try:
        lines = store.history(header.id, header.quarantine_event - 1, 1)
    except HoldfastError:
        return None
    payload = lines[0].event.payload if lines else None
    return codec.failure_from(payload).message if payload is not None else None

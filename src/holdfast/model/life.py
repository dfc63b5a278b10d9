"""The life of an execution: how it is claimed, how its timers fire, how an invocation ends, how it closes.

Pure functions over a draft; verbs.py puts them into the writes that a store commits.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from holdfast.model import codec
from holdfast.model.draft import Draft
from holdfast.model.execution import DAY_SECONDS, Birth, Change, Execution, ExecutionStatus, Quarantine, State, View, new_execution
from holdfast.model.history import BY_OUTCOME, PLACE, Event, EventType
from holdfast.model.ids import Arn
from holdfast.model.operations import Failure, Operation, Status, Type
from holdfast.model.transitions import TIMERS

MAX_FAILURES: Final = 9
"""Failed invocations in a row after which the execution fails."""
MAX_DEATHS: Final = 3
"""Runners that may die in a row, without progress, before the execution is put aside for a while."""
TRIES_MS: Final = (60_000, 600_000, 3_600_000)
"""How long it is put aside before each further try, alone on its runner. When all have killed their runners it is quarantined."""
SUSPECT_DEATHS: Final = MAX_DEATHS - 1
"""Deaths after which an execution is claimed alone: the next one is then its own doing. queries.sql and schema.sql say 2 as well."""
_BACKOFF_MS, _BACKOFF_LIMIT_MS = 1_000, 60_000

NOTHING_PENDING: Final = Failure(message="Cannot return PENDING status with no pending operations.", type="InvalidParameterValueException")
RUNNER_DIED: Final = Failure(message="The runner's process ended before the invocation did.", type="Runtime.ExitError")

_TERMINAL: Final = {
    ExecutionStatus.SUCCEEDED: EventType.EXECUTION_SUCCEEDED,
    ExecutionStatus.FAILED: EventType.EXECUTION_FAILED,
    ExecutionStatus.TIMED_OUT: EventType.EXECUTION_TIMED_OUT,
    ExecutionStatus.STOPPED: EventType.EXECUTION_STOPPED,
}


class Claimant(msgspec.Struct, frozen=True, gc=False):
    """Who takes an execution, and the id its new invocation will have."""

    runner: str
    invocation: str


def claimed(header: Execution, by: Claimant, now: int) -> Execution:
    """The header under a new invocation: a new epoch, so that every older token is dead."""
    return msgspec.structs.replace(
        header,
        state=State.RUNNING,
        epoch=header.epoch + 1,
        sequence=0,
        runner=by.runner,
        invocation=by.invocation,
        invoked_at=max(now, header.touched_at),
    )


def may_claim(header: Execution, now: int, *, alone: bool = False) -> bool:
    """Whether a runner may take it now. A suspect must be alone there; its time counts only where it was put aside for a while."""
    if header.state is not State.READY:
        return False
    if header.deaths >= SUSPECT_DEATHS:
        return alone and (header.deaths < MAX_DEATHS or header.ready_at <= now)
    return header.ready_at <= now


def next_try(header: Execution) -> int | None:
    """When an execution that was put aside, because its runners died, is tried again by itself; None for any other."""
    return header.ready_at if header.state is State.READY and header.deaths >= MAX_DEATHS else None


def backoff_ms(failures: int, jitter: float) -> int:
    """How long to wait after so many failed invocations in a row; `jitter` is between 0 and 1."""
    delay = min(_BACKOFF_MS * 2 ** (failures - 1), _BACKOFF_LIMIT_MS)
    return int(delay * (0.5 + jitter / 2))


def fire(draft: Draft, view: View, now: int) -> bool:
    """Let every timer that is due act; says whether any operation changed."""
    fired = False
    for operation in view.due(now):
        if operation.id in draft.operations:
            continue
        after = _fired(draft, operation)
        if after is not None:
            draft.put(after, operation)
            fired = True
    again = next_try(draft.header)
    nexts = [view.next_due(now), draft.header.deadline, *(op.due_at for op in draft.operations.values())]
    nexts.append(again if again is not None and again > now else None)
    draft.due_at = min(at for at in nexts if at is not None)
    return fired


def _fired(draft: Draft, operation: Operation) -> Operation | None:
    status = TIMERS.get((operation.type, operation.status))
    if status is None or operation.due_at is None:
        return None
    if status is Status.READY:
        # Nothing is written in history: the next attempt tells of itself when it starts.
        return msgspec.structs.replace(operation, status=status, due_at=None, revision=draft.revision)
    if operation.type is Type.WAIT:
        draft.log(EventType.WAIT_SUCCEEDED, operation.id, None, {"Duration": (operation.due_at - operation.started_at) // 1000})
        return msgspec.structs.replace(operation, status=status, due_at=None, ended_at=draft.at, revision=draft.revision)
    over = operation.timeout_at is not None and operation.timeout_at <= operation.due_at
    error = (
        Failure(message="Callback timed out", type="Callback.Timeout")
        if over
        else Failure(message="Callback timed out on heartbeat", type="Callback.Heartbeat")
    )
    return answered(draft, operation, status, None, error)


def answered(draft: Draft, operation: Operation, status: Status, result: str | None, error: Failure | None) -> Operation:
    """A callback closed by an answer or by its timer, an invoke by its child."""
    payload = result if error is None else codec.failure_text(error)
    number = draft.log(BY_OUTCOME[operation.type, status], operation.id, payload)
    return msgspec.structs.replace(
        operation,
        status=status,
        ended_at=draft.at,
        due_at=None,
        result=result,
        error=error,
        payload_event=number,
        revision=draft.revision,
    )


def complete_invocation(draft: Draft, error: Failure | None = None, place: str | None = None) -> None:
    """Tell that the live invocation ended; of one that failed, with the author's line if that is known."""
    payload = None if error is None else codec.failure_text(error)
    detail = _invocation_detail(draft.header, draft.at)
    if place is not None:
        detail[PLACE] = place
    draft.log(EventType.INVOCATION_COMPLETED, None, payload, detail)


def _invocation_detail(header: Execution, ended_at: int) -> dict[str, Any]:
    began_at = header.invoked_at or header.started_at
    return {
        "StartTimestamp": began_at / 1000,
        "EndTimestamp": max(ended_at, began_at) / 1000,  # the clock may have been set back meanwhile
        "RequestId": header.invocation or "",
    }


def close(draft: Draft, status: ExecutionStatus, payload: str | None) -> Change:
    """End the execution for good: the terminal event, a new epoch, nobody's any more."""
    number = draft.log(_TERMINAL[status], None, payload)
    return draft.done(**_closed_fields(draft, status, number), state=State.CLOSED, runner=None, invocation=None, client=None)


def continue_as(draft: Draft, successor: str, payload: str) -> Change:
    """End the execution and begin another one that goes on for it: same function, same terms, same parent, an empty history."""
    header = draft.header
    who = {"tenant": header.tenant, "trace": header.trace}
    heir = new_execution(successor, None, header.function, header.version, payload=payload, now=draft.at, terms=header.terms, **who)
    heir = msgspec.structs.replace(heir, parent=header.parent, parent_operation=header.parent_operation, cascade=header.cascade)
    draft.births.append(Birth(heir, payload))
    told = codec.dumps({"ContinuedAs": str(Arn(heir.function, heir.version, heir.name, heir.id))})
    change = close(draft, ExecutionStatus.SUCCEEDED, told)
    return msgspec.structs.replace(change, header=msgspec.structs.replace(change.header, continued_as=successor))


def close_early(draft: Draft, status: ExecutionStatus, payload: str | None) -> Change:
    """Close the status while the invocation still runs.

    The terminal event comes after that invocation's InvocationCompleted, so its row is stored now under the number after that
    one, beyond `events`, where no reader looks yet. Nothing else can be written in between: the epoch is new and timers are off.
    """
    number = draft.next_event + 1
    count = draft.next_event - 1
    draft.events.append(Event(number, _TERMINAL[status], draft.at, None, payload))
    return draft.done(**_closed_fields(draft, status, number), state=State.CLOSING, events=count)


def finish_closing(draft: Draft, error: Failure | None = None) -> Change:
    """The invocation that closed its execution early has ended: number its completion and uncover the terminal event."""
    header = draft.header
    ended_at = header.ended_at or draft.at
    payload = None if error is None else codec.failure_text(error)
    # Its event time is that of the closing, because the terminal event after it already carries that time.
    draft.events.append(
        Event(header.events + 1, EventType.INVOCATION_COMPLETED, ended_at, None, payload, _invocation_detail(header, draft.at))
    )
    return draft.done(state=State.CLOSED, events=header.events + 2, runner=None, invocation=None, touched_at=ended_at)


def _closed_fields(draft: Draft, status: ExecutionStatus, number: int) -> dict[str, Any]:
    return {
        "status": status,
        "epoch": draft.header.epoch + 1,
        "ended_at": draft.at,
        "result_event": number,
        "due_at": None,
        "pending": 0,
        "expires_at": draft.at + draft.header.terms.retention_days * DAY_SECONDS * 1000,
    }


def reason_of(header: Execution) -> Quarantine | None:
    """Why an execution was put aside, if it was. Older code wrote no reason; the deaths it counted tell it."""
    if header.state is not State.QUARANTINED or header.quarantine is not None:
        return header.quarantine if header.state is State.QUARANTINED else None
    return Quarantine.RUNNER_DIED if header.deaths >= MAX_DEATHS else Quarantine.PAYLOAD_UNREADABLE


def quarantine(draft: Draft, why: Quarantine, **header: Any) -> Change:
    """Put it aside until a person releases it. Nothing is lost. The end of its invocation, if this draft tells it, tells the error."""
    told = [event.number for event in draft.events if event.type is EventType.INVOCATION_COMPLETED and event.payload is not None]
    aside: dict[str, Any] = {"state": State.QUARANTINED, "runner": None, "invocation": None, "failures": 0}
    aside |= {"epoch": draft.header.epoch + 1, "quarantine": why, "quarantine_event": told[-1] if told else None}
    return draft.done(**aside | header)


def quarantine_unread(draft: Draft) -> Change:
    """Its payloads cannot be read here, those of its timers included. A person mends the codec and releases it."""
    header = draft.header
    if header.state is State.QUARANTINED:
        return draft.done(due_at=header.deadline)
    return quarantine(draft, Quarantine.PAYLOAD_UNREADABLE, due_at=header.deadline)


def put_aside(draft: Draft, deaths: int) -> Change:
    """Its runners died too often: it is tried again later, alone; after the last such try only a person can let it go on."""
    tried = deaths - MAX_DEATHS
    if tried >= len(TRIES_MS):
        return quarantine(draft, Quarantine.RUNNER_DIED, deaths=deaths)
    ready_at = draft.at + TRIES_MS[tried]
    due_at = ready_at if draft.due_at is None else min(draft.due_at, ready_at)
    free = {"state": State.READY, "runner": None, "invocation": None, "epoch": draft.header.epoch + 1}
    return draft.done(**free, deaths=deaths, ready_at=ready_at, due_at=due_at)


def woken(draft: Draft) -> Change:
    """The finished change, which makes a suspended execution ready."""
    if draft.header.state is State.SUSPENDED:
        return draft.done(state=State.READY, ready_at=draft.at)
    return draft.done()


def time_out(draft: Draft) -> Change:
    """End the execution because its time is over."""
    seconds = draft.header.terms.timeout_seconds
    error = Failure(message=f"Execution timed out after {seconds} seconds.")
    return close(draft, ExecutionStatus.TIMED_OUT, codec.failure_text(error))


def claimed_now(change: Change, by: Claimant | None, now: int) -> tuple[Change, Execution]:
    """Take what just became ready in the same change, where a runner is free: one commit instead of two."""
    header = change.header
    if by is not None and may_claim(header, max(now, header.touched_at)):
        header = claimed(header, by, now)
        change = msgspec.structs.replace(change, header=header)
    return change, header

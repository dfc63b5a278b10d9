"""The life of an execution: how it begins, how it is claimed, how its timers fire, how an invocation ends, how it closes.

Most of these functions complete a WriteDraft, which is a write that is being put together; verbs.py and outside.py use them in the writes
that a store commits.
"""

from __future__ import annotations

from typing import Any, Final, assert_never

import msgspec

from holdfast.model import admission, codec
from holdfast.model.draft import WriteDraft
from holdfast.model.errors import InvalidParameter
from holdfast.model.execution import DAY_SECONDS, Birth, Change, Execution, ExecutionStatus, Quarantine, State, Terms, View
from holdfast.model.execution import Claimant as Claimant
from holdfast.model.history import BY_OUTCOME, PLACE, Event, EventType
from holdfast.model.ids import Arn, checked_name
from holdfast.model.operations import Failure, Operation, Status, Type
from holdfast.model.places import NEVER
from holdfast.model.summary import STOPPED, TIMED_OUT, UNTYPED, Summary, begun, ended, error_word, pipeline_of
from holdfast.model.transitions import TIMERS

MAX_FAILURES: Final = 9
"""After this many failed invocations in a row, the execution fails. If the last of them failed because stored data could not be read or
written, the execution is quarantined instead."""
MAX_DEATHS: Final = 3
"""After this many runners died in a row without progress, the execution is put aside for a while."""
TRIES_MS: Final = (60_000, 600_000, 3_600_000)
"""After MAX_DEATHS deaths there are three further tries. These are the milliseconds for which the execution is put aside before each of
them. In these tries the execution is a suspect (SUSPECT_DEATHS). If the runner dies in all three, the execution is quarantined."""
SUSPECT_DEATHS: Final = MAX_DEATHS - 1
"""After this many deaths of its runners in a row, the execution is a suspect: a runner claims it apart from others (engine/suspects.py). If
that runner dies too, the execution is held to be the cause. queries.sql and schema.sql contain this number too: change it in all three
places."""
_BACKOFF_MS, _BACKOFF_LIMIT_MS = 1_000, 60_000

NOTHING_PENDING: Final = Failure(message="Cannot return PENDING status with no pending operations.", type="InvalidParameterValueException")
RUNNER_DIED: Final = Failure(message="The runner's process ended before the invocation did.", type="Runtime.ExitError")

_TERMINAL: Final = {
    ExecutionStatus.SUCCEEDED: EventType.EXECUTION_SUCCEEDED,
    ExecutionStatus.FAILED: EventType.EXECUTION_FAILED,
    ExecutionStatus.TIMED_OUT: EventType.EXECUTION_TIMED_OUT,
    ExecutionStatus.STOPPED: EventType.EXECUTION_STOPPED,
}


def new_execution(
    identity: str,
    name: str | None,
    function: str,
    version: str,
    *,
    payload: str,
    now: int,
    terms: Terms,
    tenant: str | None = None,
    trace: str | None = None,
    same: str | None = None,
) -> Execution:
    """The header of an execution that a start asks for. `identity` is its id, and also its name if `name` is None. `same` is the text whose
    hash is kept to recognise a second start of the name; None: the hash of `payload`, the input, is kept. Raises InvalidParameter or
    PayloadTooLarge if a value is not allowed."""
    codec.fitting(codec.storable(payload), "Execution input")
    texts: dict[str, object] = {"tenant": tenant, "trace header": trace}
    for what, text in texts.items():
        if text is not None and not (isinstance(text, str) and text.isprintable()):
            raise InvalidParameter(f"A {what} must be a text of printable characters only: {text!r:.100}.")
    return Execution(
        id=identity,
        function=function,
        version=version,
        name=identity if name is None else checked_name(name),
        input_hash=codec.payload_hash(payload if same is None else same),
        terms=terms,
        started_at=now,
        deadline=0,
        tenant=tenant,
        trace=trace,
    )


def claimed(header: Execution, by: Claimant, now: int) -> Execution:
    """The header after the runner in `by` has claimed the execution for a new invocation. The epoch increases, so that the checkpoint
    tokens of all earlier invocations are refused."""
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
    """Whether a runner may claim the execution now. `alone`: whether the runner keeps others away (`Claim.alone`). The execution must be
    READY. With fewer than SUSPECT_DEATHS deaths, the time `ready_at` must have come. With SUSPECT_DEATHS deaths or more, `alone` must be
    True; then `ready_at` must have come only if there are MAX_DEATHS deaths or more, and is not checked if there are fewer."""
    if header.state is not State.READY:
        return False
    if header.deaths >= SUSPECT_DEATHS:
        return alone and (header.deaths < MAX_DEATHS or header.ready_at <= now)
    return header.ready_at <= now


def next_try(header: Execution) -> int | None:
    """When the engine tries again to run an execution that was put aside because its runners died; None if it was not put aside."""
    return header.ready_at if header.state is State.READY and header.deaths >= MAX_DEATHS else None


def backoff_ms(failures: int, jitter: float) -> int:
    """How many milliseconds to wait before the next invocation, after `failures` failed ones in a row. `jitter` is a random number between
    0 and 1. With 1, the wait is 1 s after the first failure and doubles with each further one, up to 60 s; with 0 it is half as long."""
    delay = min(_BACKOFF_MS * 2 ** (failures - 1), _BACKOFF_LIMIT_MS)
    return int(delay * (0.5 + jitter / 2))


def fire(draft: WriteDraft, view: View, now: int) -> bool:
    """Fire every timer that is due at `now`: end waits, make steps ready for their next attempt, time out callbacks. Also sets the draft's
    `due_at` to the next due time. Returns whether an operation changed."""
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


def _fired(draft: WriteDraft, operation: Operation) -> Operation | None:
    status = TIMERS.get((operation.type, operation.status))
    if status is None or operation.due_at is None:
        return None
    if status is Status.READY:
        # No event is written: the next attempt writes its own when it starts.
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


def answered(draft: WriteDraft, operation: Operation, status: Status, result: str | None, error: Failure | None) -> Operation:
    """The operation after it was closed from outside the handler: a callback by an answer or a timeout, an invoke by the end of its child.
    `result` and `error` are what it ends with; None if there is none. Adds the event of the close to the draft."""
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


def complete_invocation(draft: WriteDraft, error: Failure | None = None, place: str | None = None) -> None:
    """Add the event that the live invocation ended. `error` is its error; None if it did not fail. `place` is the line of the author's code
    that failed; None if it is not known."""
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


def close(draft: WriteDraft, status: ExecutionStatus, payload: str | None) -> Change:
    """End the execution for good: write the terminal event, begin a new epoch, and take the execution from its runner. `payload` is the
    result, or the JSON of the error; None if there is no result."""
    number = draft.log(_TERMINAL[status], None, payload)
    return draft.done(**_closed_fields(draft, status, number, payload), state=State.CLOSED, runner=None, invocation=None, client=None)


def parks(header: Execution, status: ExecutionStatus, *, failed: bool = False) -> bool:
    """Whether an execution that ends with this status is parked. It is if it failed or timed out, and came from a queue that parks failed
    executions. With `failed`, it counts as failed whatever its status is."""
    place = header.place
    return place is not None and place.parks and (failed or status in (ExecutionStatus.FAILED, ExecutionStatus.TIMED_OUT))


def continue_as(draft: WriteDraft, successor: str, payload: str, *, settled: bool = False) -> Change:
    """End the execution and start a successor with the id `successor` and the input `payload`. The successor has the same function, terms,
    parent and graph, an empty history, and the same slot in the queue. `settled`: whether the caller, in the same write, corrects the
    estimated tokens of models to the used ones, in the rates of the execution's lanes. Then the successor has an estimate of 0, so that the
    same tokens are not corrected twice."""
    header, place = draft.header, draft.header.place
    if settled and place is not None:
        place = msgspec.structs.replace(place, units=0)
    who = {"tenant": header.tenant, "trace": header.trace}
    heir = new_execution(successor, None, header.function, header.version, payload=payload, now=draft.at, terms=header.terms, **who)
    from_parent = {"parent": header.parent, "parent_operation": header.parent_operation, "cascade": header.cascade}
    heir = msgspec.structs.replace(heir, **from_parent, graph=header.graph, place=place, summary=begun(pipeline_of(header.summary)))
    draft.births.append(Birth(heir, payload))
    told = codec.dumps({"ContinuedAs": str(Arn(heir.function, heir.version, heir.name, heir.id))})
    change = close(draft, ExecutionStatus.SUCCEEDED, told)
    return msgspec.structs.replace(change, header=msgspec.structs.replace(change.header, continued_as=successor))


def close_early(draft: WriteDraft, status: ExecutionStatus, payload: str | None) -> Change:
    """Give the execution its final status while its invocation still runs. `payload` is its result, or the JSON of its error.

    In the history, the InvocationCompleted event of that invocation comes before the terminal event. So the terminal event is stored now
    with the number after next. Readers do not see it yet, because its number is greater than `events`. No other event can get the number
    in between: the epoch is new, and no timer fires.
    """
    number = draft.next_event + 1
    count = draft.next_event - 1
    draft.events.append(Event(number, _TERMINAL[status], draft.at, None, payload))
    return draft.done(**_closed_fields(draft, status, number, payload), state=State.CLOSING, events=count)


def finish_closing(draft: WriteDraft, error: Failure | None = None) -> Change:
    """Finish an execution that `close_early` closed, after its invocation has ended: add the InvocationCompleted event, and increase
    `events`, so that readers see the terminal event. `error` is the error of the invocation; None if it did not fail."""
    header = draft.header
    ended_at = header.ended_at or draft.at
    payload = None if error is None else codec.failure_text(error)
    # The event has the time of the early close: the terminal event after it has that time already, and times never decrease.
    draft.events.append(
        Event(header.events + 1, EventType.INVOCATION_COMPLETED, ended_at, None, payload, _invocation_detail(header, draft.at))
    )
    return draft.done(state=State.CLOSED, events=header.events + 2, runner=None, invocation=None, touched_at=ended_at)


def _closed_fields(draft: WriteDraft, status: ExecutionStatus, number: int, payload: str | None) -> dict[str, Any]:
    return {
        "status": status,
        "epoch": draft.header.epoch + 1,
        "ended_at": draft.at,
        "result_event": number,
        "due_at": None,
        "pending": 0,
        "expires_at": draft.at + draft.header.terms.retention_days * DAY_SECONDS * 1000,
        "parked": parks(draft.header, status),
        "summary": _summary(draft.header, status, payload),
    }


def _summary(header: Execution, status: ExecutionStatus, payload: str | None) -> Summary | None:
    """The summary of an execution that ends with this status and this payload. If it succeeded, the summary (or None) does not change here:
    verbs.Settle takes the facts from the outcome."""
    match status:
        case ExecutionStatus.SUCCEEDED | ExecutionStatus.RUNNING:
            return header.summary
        case ExecutionStatus.TIMED_OUT:
            return ended(header.summary, Summary(error_code=TIMED_OUT))
        case ExecutionStatus.STOPPED:
            return ended(header.summary, Summary(error_code=STOPPED))
        case ExecutionStatus.FAILED:
            error = codec.failure_from(payload or "{}")
            return ended(header.summary, Summary(error_code=error_word(error.type) or UNTYPED))
        case _:
            assert_never(status)


def reason_of(header: Execution) -> Quarantine | None:
    """Why an execution is in quarantine; None if it is not in quarantine. Older releases stored no reason: for their executions the reason
    is found from the number of deaths."""
    if header.state is not State.QUARANTINED or header.quarantine is not None:
        return header.quarantine if header.state is State.QUARANTINED else None
    return Quarantine.RUNNER_DIED if header.deaths >= MAX_DEATHS else Quarantine.PAYLOAD_UNREADABLE


def quarantine(draft: WriteDraft, why: Quarantine, **header: Any) -> Change:
    """Put the execution into quarantine until a person releases it. No data is lost. If this draft has an InvocationCompleted event with an
    error, `quarantine_event` names it. `header` has further members of the header to set."""
    told = [event.number for event in draft.events if event.type is EventType.INVOCATION_COMPLETED and event.payload is not None]
    aside: dict[str, Any] = {"state": State.QUARANTINED, "runner": None, "invocation": None, "failures": 0}
    aside |= {"epoch": draft.header.epoch + 1, "quarantine": why, "quarantine_event": told[-1] if told else None}
    return draft.done(**aside | header)


def quarantine_unread(draft: WriteDraft) -> Change:
    """Put the execution into quarantine because its payloads cannot be read. A person must repair the codec or its keys, and then release
    the execution. If it is in quarantine already, only its `due_at` changes."""
    header = draft.header
    if header.state is State.QUARANTINED:
        return draft.done(due_at=header.deadline)
    return quarantine(draft, Quarantine.PAYLOAD_UNREADABLE, due_at=header.deadline)


def put_aside(draft: WriteDraft, deaths: int) -> Change:
    """Put the execution aside because its runners died too often: `deaths` times in a row. It is tried again later. If no further try is
    left (TRIES_MS), it is quarantined."""
    tried = deaths - MAX_DEATHS
    if tried >= len(TRIES_MS):
        return quarantine(draft, Quarantine.RUNNER_DIED, deaths=deaths)
    ready_at = draft.at + TRIES_MS[tried]
    due_at = ready_at if draft.due_at is None else min(draft.due_at, ready_at)
    free = {"state": State.READY, "runner": None, "invocation": None, "epoch": draft.header.epoch + 1}
    return draft.done(**free, deaths=deaths, ready_at=ready_at, due_at=due_at)


def woken(draft: WriteDraft) -> Change:
    """The finished change of a draft. If the execution is suspended, it becomes ready (or queued, if it must wait for a slot); in any other
    state it keeps its state."""
    if draft.header.state is State.SUSPENDED:
        return draft.done(state=State.READY, ready_at=draft.at)
    return draft.done()


def entered(draft: WriteDraft) -> Change:
    """Put an execution whose delay has ended into its lane: it is queued."""
    deadline = draft.header.deadline
    return draft.done(state=State.QUEUED, due_at=None if deadline == NEVER else deadline)


def time_out(draft: WriteDraft) -> Change:
    """End the execution because its deadline has passed. It times out; but if it was never admitted from its queue, it is stopped as
    expired."""
    if admission.is_unadmitted(draft.header):
        error = Failure("The execution waited in its queue until its time to live was over.", admission.EXPIRED)
        return close(draft, ExecutionStatus.STOPPED, codec.failure_text(error))
    seconds = draft.header.terms.timeout_seconds
    error = Failure(message=f"Execution timed out after {seconds} seconds.")
    return close(draft, ExecutionStatus.TIMED_OUT, codec.failure_text(error))


def claimed_now(change: Change, by: Claimant | None, now: int) -> tuple[Change, Execution]:
    """The change and its header. If any runner may claim the execution after the change (`may_claim` without `alone`), the returned change
    also has the claim of the runner `by`, so that one commit is enough. If `by` is None, no runner claims it, and the change is returned
    unchanged."""
    header = change.header
    if by is not None and may_claim(header, max(now, header.touched_at)):
        header = claimed(header, by, now)
        change = msgspec.structs.replace(change, header=header)
    return change, header

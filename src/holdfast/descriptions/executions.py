"""Descriptions of executions for users: the data, the history, the failures, and why an execution waits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import msgspec

from holdfast.descriptions.failure_path import failed_in
from holdfast.engine.quarantine_messages import waits
from holdfast.engine.quarantine_messages import why as why_quarantined
from holdfast.model import codec
from holdfast.model.draft import is_pending
from holdfast.model.error_text import one_line, place_of
from holdfast.model.errors import (
    ExecutionFailed,
    ExecutionNotFound,
    ExecutionStopped,
    ExecutionTimedOut,
    InvalidParameter,
    Unsuccessful,
)
from holdfast.model.execution import Execution, ExecutionStatus, State
from holdfast.model.history import PLACE, EventType
from holdfast.model.ids import Arn
from holdfast.model.life import next_try, reason_of
from holdfast.model.operations import RUN, Failure, Operation, Status, Type
from holdfast.model.schedules import Occurrence, occurrence_in
from holdfast.model.serialization_advice import with_advice
from holdfast.model.starts import restart_in
from holdfast.queues.places import QueuePlace, queue_place, why_it_waits
from holdfast.store.seam import ExecutionStore, Filter, QueueStore

_PAGE = 200
_LATEST_EVENTS = 50
"""The latest failure is searched among this many events at the end of the history. That is enough, because there are only few other events
(answers, timers) between two failed invocations."""

_MOST_RUNS = 20
"""If an execution waits for many runs, the approvals of at most this many of them are looked up."""

_ENDINGS: dict[ExecutionStatus, type[Unsuccessful]] = {
    ExecutionStatus.FAILED: ExecutionFailed,
    ExecutionStatus.TIMED_OUT: ExecutionTimedOut,
    ExecutionStatus.STOPPED: ExecutionStopped,
}


class Pending(msgspec.Struct, frozen=True, kw_only=True):
    """One operation that an execution waits for."""

    operation: str
    """The id of the operation."""
    name: str | None
    kind: str
    """The sub-type of the operation, such as `Wait`; its type if it has no sub-type."""
    due_at: int | None
    """When its timer is due, in milliseconds since 1970-01-01 UTC; None if it has no timer."""
    woken_by: str
    """What ends the wait, in words."""
    callback_id: str | None = None
    attempt: int = 0
    """How many attempts of a step have finished."""
    last_error: str | None = None
    """The message of its last failed attempt; None if none failed."""
    last_error_type: str | None = None
    approvals: tuple[str, ...] = ()
    """The ids of the approvals that its run waits for."""
    quarantined: str | None = None
    """The execution that this operation invoked, as `function/name`, if that execution is quarantined: the operation cannot succeed before
    a person releases that execution. Else None."""


class Trouble(msgspec.Struct, frozen=True, kw_only=True):
    """The failed invocations of an execution that the engine tries again."""

    failures: int
    """How many invocations failed in a row."""
    error: str
    """The error of the latest invocation that failed, on one line."""
    place: str | None
    """The line of the author's code that failed; None if it is not known."""
    next_try_at: int | None
    """When the next try may begin, in milliseconds since 1970-01-01 UTC; None if no try waits to begin, for example while one runs."""


class Description(msgspec.Struct, frozen=True, kw_only=True):
    """The present state of an execution. Times are in milliseconds since 1970-01-01 UTC."""

    arn: str
    function: str
    version: str
    name: str
    status: ExecutionStatus
    state: State
    started_at: int
    ended_at: int | None
    input: Any
    """The input as a JSON value."""
    result: Any
    """The result as a JSON value; None if the execution has not succeeded."""
    error: Failure | None
    """The error of the execution, if it ended without success; else None."""
    waits_for: tuple[Pending, ...]
    """Its pending operations (`model.draft.is_pending`), for which its handler may wait; empty if it is closed."""
    why: str
    """Why it is in its present state, as a sentence."""
    parent: str | None = None
    """The id of the execution that invoked it; None if none did."""
    continued_as: str | None = None
    """The id of the execution that continues it; None if none does."""
    failed_in: str | None = None
    """The operation that caused the failure, and the contexts around it; None if there was no failure, or the operation is not known."""
    trouble: Trouble | None = None
    """The failures of its latest invocations; None if the latest invocation did not fail, or the execution is closed."""
    superseded_by: str | None = None
    """The id of the execution that took over its name; None if it still has its name."""
    restarts: str | None = None
    """The id of the execution that this one restarts; None if it is not a restart."""
    restarted_from: str | None = None
    """The operation of the restarted execution before which the history was cut; None if nothing was copied."""
    quarantine: str | None = None
    """Why it is quarantined: runner_died, payload_unreadable or replay_mismatch; None if it is not."""
    next_try: int | None = None
    """When the engine tries it again, in milliseconds since 1970-01-01 UTC, if it waits because its runners died; else None."""
    place: QueuePlace | None = None
    """Its place in a queue; None if it was not enqueued."""
    occurrence: Occurrence | None = None
    """The occurrence of a schedule that started it; None if no schedule did."""


class DescriptionStore(ExecutionStore, QueueStore, Protocol):
    """The part of a store that says in which state an execution is, and why."""


def arn_of(header: Execution) -> str:
    """The ARN of an execution."""
    return str(Arn(header.function, header.version, header.name, header.id))


def failure_of(store: ExecutionStore, header: Execution, payload: str | None) -> Unsuccessful:
    """The error for a caller that waits for the result of a closed execution which did not succeed: ExecutionFailed, ExecutionTimedOut or
    ExecutionStopped. `payload` is the stored error. ExecutionFailed names the operation that failed, if that operation
    is known and has a name."""
    failure = codec.failure_from(payload or "{}")
    where = failed_in(store, header, failure)
    message = with_advice(failure.message)
    return _ENDINGS[header.status](message if where is None else f"{message} (in {where})", failure.type, failure.data)


def check_will_end(store: ExecutionStore, header: Execution) -> None:
    """Raise an error if an execution cannot end in this store: InvalidParameter for an imported copy that was not closed, and
    ExecutionNotFound if an execution that continues it is not in this store."""
    if header.state is State.IMPORTED and header.status is ExecutionStatus.RUNNING:
        raise InvalidParameter(f"Execution {header.name!r} is an imported copy: nothing runs it, so it will not end here.")
    found: Execution | None = header
    while found is not None and found.continued_as is not None:
        heir = found.continued_as
        found = store.find(heir)
        if found is None:
            raise ExecutionNotFound(f"Execution {header.name!r} went on as {heir}, which is not in this store.")


def quarantined_of(store: ExecutionStore, function: str) -> Iterator[Execution]:
    """All quarantined executions of a function, the oldest first."""
    beyond = None
    while page := store.list(Filter(function=function, statuses=(ExecutionStatus.RUNNING,), oldest_first=True, beyond=beyond)):
        yield from (header for header in page if header.state is State.QUARANTINED)
        beyond = page[-1].id


def listed(store: ExecutionStore, wanted: Filter | None) -> Iterator[Execution]:
    """The executions that match the filter, at most `wanted.limit`; None: the newest ones, up to the default limit. They are read page by
    page while the caller iterates, so a large limit needs little memory."""
    wanted = wanted or Filter()
    left, beyond = wanted.limit, wanted.beyond
    while left > 0:
        size = min(left, _PAGE)
        page = store.list(msgspec.structs.replace(wanted, beyond=beyond, limit=size))
        yield from page
        if len(page) < size:
            return
        left -= size
        beyond = page[-1].id


def describe(store: DescriptionStore, header: Execution, hosted: bool | None = None) -> Description:
    """The description of one execution. `hosted` says whether a runner in this process has its function; None: it is not known."""
    closed = header.status is not ExecutionStatus.RUNNING
    payload = store.result(header) if closed else None
    succeeded = header.status is ExecutionStatus.SUCCEEDED
    error = codec.failure_from(payload) if closed and not succeeded and payload else None
    pending = () if closed else _all_pending(store, header)
    if header.state is State.IMPORTED:
        pending = tuple(msgspec.structs.replace(p, woken_by="nothing: this is a copy", due_at=None, callback_id=None) for p in pending)
    given = store.input(header.id)
    detail = next((line.event.detail for line in store.history(header.id, 0, 1)), None)
    occurrence, (restarts, cut) = occurrence_in(detail), restart_in(detail) or (None, None)
    trouble = trouble_of(store, header)
    place = queue_place(store, header)
    return Description(
        arn=arn_of(header),
        function=header.function,
        version=header.version,
        name=header.name,
        status=header.status,
        state=header.state,
        started_at=header.started_at,
        ended_at=header.ended_at,
        input=None if given is None else codec.loads(given),
        result=codec.loads(payload) if succeeded and payload else None,
        error=error,
        waits_for=pending,
        why=_why(store, header, pending, hosted, trouble) if place is None else _why_queued(store, header, pending, hosted, trouble, place),
        parent=header.parent,
        occurrence=occurrence,
        continued_as=header.continued_as,
        failed_in=None if error is None else failed_in(store, header, error),
        trouble=trouble,
        superseded_by=header.superseded_by,
        restarts=restarts,
        restarted_from=cut,
        quarantine=reason_of(header),
        next_try=next_try(header),
        place=place,
    )


def trouble_of(store: ExecutionStore, header: Execution) -> Trouble | None:
    """How many invocations of the execution failed in a row, and the latest error. None if none did, or if it is quarantined or closed. A
    checkpoint with updates, or a suspension, begins the count anew."""
    if not header.failures or header.status is not ExecutionStatus.RUNNING:
        return None
    latest = store.history(header.id, max(0, header.events - _LATEST_EVENTS))
    completed = (line.event for line in reversed(latest) if line.event.type is EventType.INVOCATION_COMPLETED)
    failed = next((event for event in completed if event.payload is not None), None)
    error = codec.failure_from((failed and failed.payload) or "{}")
    place = ((failed and failed.detail) or {}).get(PLACE) or place_of(error)
    waits = header.state is State.READY
    return Trouble(failures=header.failures, error=one_line(error), place=place, next_try_at=header.ready_at if waits else None)


def why_of(store: DescriptionStore, header: Execution, trouble: Trouble | None) -> str:
    """Why an execution is in its present state, as a sentence. The sentence does not name the operations that it waits for."""
    place = queue_place(store, header)
    return _why(store, header, (), None, trouble) if place is None else _why_queued(store, header, (), None, trouble, place)


def _all_pending(store: ExecutionStore, header: Execution) -> tuple[Pending, ...]:
    found = [op for op in store.operations(header.id) if is_pending(op)]
    children: dict[str | None, Execution] = {}
    if any(op.type is Type.CHAINED_INVOKE for op in found):
        invoked = store.list(Filter(parent=header.id, statuses=(ExecutionStatus.RUNNING,), limit=len(found)))
        children = {child.parent_operation: child for child in invoked}
    runs = [children[op.id] for op in found if op.sub_type == RUN and op.id in children]
    approvals = {run.parent_operation: _approvals(store, run) for run in runs[:_MOST_RUNS]}
    return tuple(_pending(op, children.get(op.id), approvals.get(op.id, ())) for op in found)


def _approvals(store: ExecutionStore, run: Execution) -> tuple[str, ...]:
    """The ids of the approvals that a run waits for."""
    from holdfast.workers.approvals import waiting  # a program without workers does not load their modules

    return tuple(approval.approval_id for approval in waiting(run, store.operations(run.id)))


def _pending(op: Operation, child: Execution | None, approvals: tuple[str, ...]) -> Pending:
    return Pending(
        operation=op.id,
        name=op.name,
        kind=op.sub_type or op.type.value,
        due_at=op.due_at,
        woken_by=_woken_by(op, child, approvals),
        callback_id=op.callback_id,
        attempt=op.attempt,
        last_error=op.error.message if op.error else None,
        last_error_type=op.error.type if op.error else None,
        approvals=approvals,
        quarantined=None if child is None or reason_of(child) is None else f"{child.function}/{child.name}",
    )


def _woken_by(op: Operation, child: Execution | None, approvals: tuple[str, ...]) -> str:
    if op.type is Type.WAIT:
        return "the clock"
    if op.type is Type.CALLBACK:
        return "an answer to its callback" + (", or its timeout" if op.due_at is not None else "")
    if approvals and child is not None:
        return f"{' and '.join(f'approval {approval}' for approval in approvals)} of run {child.id}"
    if op.type is Type.CHAINED_INVOKE:
        reason = None if child is None else reason_of(child)
        aside = "" if reason is None else f", which is quarantined ({reason})"
        return f"the end of {child.function}/{child.name}{aside}" if child else "the end of the invoked function"
    return "a free runner" if op.status is Status.READY else "the clock (next attempt)"


def _why(store: ExecutionStore, header: Execution, pending: tuple[Pending, ...], hosted: bool | None, trouble: Trouble | None) -> str:
    if header.status is not ExecutionStatus.RUNNING:
        over = f"It is over: {header.status.value}." if header.continued_as is None else f"It goes on as {header.continued_as}."
        return over if header.superseded_by is None else f"{over} Its name was started again: {header.superseded_by}."
    if header.state is State.IMPORTED:
        return "It is an imported copy, to be looked at: nothing runs it here."
    if header.state is State.QUARANTINED:
        return f"Quarantined ({reason_of(header)}): {why_quarantined(store, header)}."
    if header.state is State.RUNNING:
        again = "" if trouble is None else f" It is tried again: {_failed(trouble)}"
        return f"It is running, on {header.runner}.{again}"
    if header.state is State.READY:
        if (aside := waits(header)) is not None:
            return aside
        if trouble is not None:
            return f"{_failed(trouble)} The engine tries again when the delay is over."
        if hosted is False:
            return f"It is ready, but no runner here has function {header.function!r} in version {header.version}."
        return "It is ready and waits for a free runner that has its function."
    names = ", ".join(_waited_for(p) for p in pending)
    return f"It waits for {names}." if names else "It is suspended."


def _why_queued(
    store: ExecutionStore,
    header: Execution,
    pending: tuple[Pending, ...],
    hosted: bool | None,
    trouble: Trouble | None,
    place: QueuePlace,
) -> str:
    """Why an enqueued execution is in its present state, as a sentence. While it waits in its queue, the sentence names its place; if it is
    parked, the sentence says so."""
    if header.state in (State.QUEUED, State.DELAYED):
        return why_it_waits(place, header)
    told = _why(store, header, pending, hosted, trouble)
    return f"{told} It is parked: a person may start it again." if place.parked else told


def _waited_for(pending: Pending) -> str:
    told = f"{pending.kind} {pending.name!r}" if pending.name else pending.kind
    return f"{told} ({pending.woken_by})" if pending.approvals else told


def _failed(trouble: Trouble) -> str:
    where = "" if trouble.place is None else f", at {trouble.place}"
    which = "Its last invocation failed" if trouble.failures == 1 else f"Its last {trouble.failures} invocations failed, the latest"
    return f"{which} with {trouble.error}{where}."

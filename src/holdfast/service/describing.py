"""What people want to know of an execution: its data, its history, and why it waits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from holdfast.engine.quarantines import waits
from holdfast.engine.quarantines import why as why_quarantined
from holdfast.model import codec
from holdfast.model.cures import with_cure
from holdfast.model.errors import (
    ExecutionFailed,
    ExecutionNotFound,
    ExecutionStopped,
    ExecutionTimedOut,
    InvalidParameter,
    Unsuccessful,
)
from holdfast.model.execution import Execution, ExecutionStatus, State
from holdfast.model.history import PLACE, EventType, event_to_wire
from holdfast.model.ids import Arn
from holdfast.model.life import next_try, reason_of
from holdfast.model.operations import Operation, Status, Type, is_pending
from holdfast.model.saying import place_of, said
from holdfast.service.placing import failed_in
from holdfast.store.seam import Filter, Store

_LATEST_EVENTS = 50
"""Events after a failed invocation, before the next one: answers and timers, which are few."""

_ENDINGS: dict[ExecutionStatus, type[Unsuccessful]] = {
    ExecutionStatus.FAILED: ExecutionFailed,
    ExecutionStatus.TIMED_OUT: ExecutionTimedOut,
    ExecutionStatus.STOPPED: ExecutionStopped,
}


class Pending(msgspec.Struct, frozen=True, kw_only=True):
    """Something an execution waits for."""

    operation: str
    name: str | None
    kind: str
    due_at: int | None
    woken_by: str
    callback_id: str | None = None
    attempt: int = 0
    last_error: str | None = None
    last_error_type: str | None = None
    quarantined: str | None = None
    """The invoked execution, if that was put aside: this one waits until a person has released it."""


class Trouble(msgspec.Struct, frozen=True, kw_only=True):
    """Invocations of an execution that failed, one after the other; the execution is tried again."""

    failures: int
    """How many in a row."""
    error: str
    """What the latest one failed with, on one line."""
    place: str | None
    """Where in the author's code, if that is known."""
    next_try_at: int | None
    """None while a try is under way."""


class Description(msgspec.Struct, frozen=True, kw_only=True):
    """An execution as it stands."""

    arn: str
    function: str
    version: str
    name: str
    status: str
    state: str
    started_at: int
    ended_at: int | None
    input: Any
    result: Any
    error: dict[str, Any] | None
    waits_for: tuple[Pending, ...]
    why: str
    parent: str | None = None
    """The id of the execution that invoked it."""
    continued_as: str | None = None
    """The id of the execution that goes on for it."""
    failed_in: str | None = None
    """The operation whose error it failed with, and the contexts around it."""
    trouble: Trouble | None = None
    """That its latest invocations failed."""
    superseded_by: str | None = None
    """The id of the execution that has its name now."""
    quarantine: str | None = None
    """Why it was put aside, if it was: runner_died, payload_unreadable or replay_mismatch."""
    next_try: int | None = None
    """When it is tried again by itself, after its runners died."""


def arn_of(header: Execution) -> str:
    """The ARN of an execution."""
    return str(Arn(header.function, header.version, header.name, header.id))


def result_of(store: Store, header: Execution, payload: str | None) -> Any:
    """The value a closed execution came to, or its ending raised; a failure says in which operation."""
    if header.status is ExecutionStatus.SUCCEEDED:
        return None if payload is None else codec.loads(payload)
    failure = codec.failure_from(payload or "{}")
    where = failed_in(store, header, failure)
    message = with_cure(failure.message)
    raise _ENDINGS[header.status](message if where is None else f"{message} (in {where})", failure.type, failure.data)


def check_will_end(store: Store, header: Execution) -> None:
    """Refuse to wait for what cannot end here: a copy that does not run, or one that went on as an execution which is not in this store."""
    if header.state is State.IMPORTED and header.status is ExecutionStatus.RUNNING:
        raise InvalidParameter(f"Execution {header.name!r} is an imported copy: nothing runs it, so it will not end here.")
    found: Execution | None = header
    while found is not None and found.continued_as is not None:
        heir = found.continued_as
        found = store.find(heir)
        if found is None:
            raise ExecutionNotFound(f"Execution {header.name!r} went on as {heir}, which is not in this store.")


def quarantined_of(store: Store, function: str) -> Iterator[Execution]:
    """All quarantined executions of a function, oldest first."""
    beyond = None
    while page := store.list(Filter(function=function, statuses=(ExecutionStatus.RUNNING,), oldest_first=True, beyond=beyond)):
        yield from (header for header in page if header.state is State.QUARANTINED)
        beyond = page[-1].id


def history_of(store: Store, header: Execution, *, include_data: bool = True) -> list[dict[str, Any]]:
    """All events, as the history API shows them."""
    events: list[dict[str, Any]] = []
    while page := store.history(header.id, len(events)):
        who = (header.id, header.name)
        events += [event_to_wire(line.event, who, line.operation, include_data=include_data) for line in page]
    return events


def describe(store: Store, header: Execution, hosted: bool | None = None) -> Description:
    """Everything about one execution; `hosted` says whether a runner here has its function."""
    closed = header.status is not ExecutionStatus.RUNNING
    payload = store.result(header) if closed else None
    succeeded = header.status is ExecutionStatus.SUCCEEDED
    pending = () if closed else _all_pending(store, header)
    if header.state is State.IMPORTED:
        pending = tuple(msgspec.structs.replace(p, woken_by="nobody: this is a copy", due_at=None, callback_id=None) for p in pending)
    given = store.input(header.id)
    trouble = trouble_of(store, header)
    return Description(
        arn=arn_of(header),
        function=header.function,
        version=header.version,
        name=header.name,
        status=header.status.value,
        state=header.state.value,
        started_at=header.started_at,
        ended_at=header.ended_at,
        input=None if given is None else codec.loads(given),
        result=codec.loads(payload) if succeeded and payload else None,
        error=codec.loads(payload) if closed and not succeeded and payload else None,
        waits_for=pending,
        why=_why(store, header, pending, hosted, trouble),
        parent=header.parent,
        continued_as=header.continued_as,
        failed_in=None if payload is None or succeeded else failed_in(store, header, codec.failure_from(payload)),
        trouble=trouble,
        superseded_by=header.superseded_by,
        quarantine=reason_of(header),
        next_try=next_try(header),
    )


def trouble_of(store: Store, header: Execution) -> Trouble | None:
    """That the latest invocations of an execution failed, and what the last of them failed with; None if they did not."""
    if not header.failures or header.status is not ExecutionStatus.RUNNING:
        return None
    latest = store.history(header.id, max(0, header.events - _LATEST_EVENTS))
    completed = (line.event for line in reversed(latest) if line.event.type is EventType.INVOCATION_COMPLETED)
    failed = next((event for event in completed if event.payload is not None), None)
    error = codec.failure_from((failed and failed.payload) or "{}")
    place = ((failed and failed.detail) or {}).get(PLACE) or place_of(error)
    waits = header.state is State.READY
    return Trouble(failures=header.failures, error=said(error), place=place, next_try_at=header.ready_at if waits else None)


def _all_pending(store: Store, header: Execution) -> tuple[Pending, ...]:
    found = [op for op in store.operations(header.id) if is_pending(op)]
    children: dict[str | None, Execution] = {}
    if any(op.type is Type.CHAINED_INVOKE for op in found):
        invoked = store.list(Filter(parent=header.id, statuses=(ExecutionStatus.RUNNING,), limit=len(found)))
        children = {child.parent_operation: child for child in invoked}
    return tuple(_pending(op, children.get(op.id)) for op in found)


def _pending(op: Operation, child: Execution | None) -> Pending:
    return Pending(
        operation=op.id,
        name=op.name,
        kind=op.sub_type or op.type.value,
        due_at=op.due_at,
        woken_by=_woken_by(op, child),
        callback_id=op.callback_id,
        attempt=op.attempt,
        last_error=op.error.message if op.error else None,
        last_error_type=op.error.type if op.error else None,
        quarantined=None if child is None or reason_of(child) is None else f"{child.function}/{child.name}",
    )


def _woken_by(op: Operation, child: Execution | None) -> str:
    if op.type is Type.WAIT:
        return "the clock"
    if op.type is Type.CALLBACK:
        return "an answer to its callback" + (", or its timeout" if op.due_at is not None else "")
    if op.type is Type.CHAINED_INVOKE:
        reason = None if child is None else reason_of(child)
        aside = "" if reason is None else f", which is quarantined ({reason})"
        return f"the end of {child.function}/{child.name}{aside}" if child else "the end of the invoked function"
    return "a free runner" if op.status is Status.READY else "the clock (next attempt)"


def _why(store: Store, header: Execution, pending: tuple[Pending, ...], hosted: bool | None, trouble: Trouble | None) -> str:
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
            return f"{_failed(trouble)} The next try comes by the clock."
        if hosted is False:
            return f"It is ready, but no runner here has function {header.function!r} in version {header.version}."
        return "It is ready and waits for a free runner that has its function."
    names = ", ".join(f"{p.kind} {p.name!r}" if p.name else p.kind for p in pending)
    return f"It waits for {names}." if names else "It is suspended."


def _failed(trouble: Trouble) -> str:
    where = "" if trouble.place is None else f", at {trouble.place}"
    which = "Its last invocation failed" if trouble.failures == 1 else f"Its last {trouble.failures} invocations failed, the latest"
    return f"{which} with {trouble.error}{where}."

"""Why an execution is in its present state, in one sentence, and the one action that helps. It reads little from the store, so that a list
can show the sentence in each row."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

import msgspec

from holdfast.descriptions.executions import DescriptionStore, trouble_of, why_of
from holdfast.model.draft import is_pending
from holdfast.model.error_text import brief_class
from holdfast.model.execution import FAILED_STATUSES, Execution, ExecutionStatus, State
from holdfast.model.life import next_try
from holdfast.model.operations import APPROVAL, CANCEL, RUN, Operation, SubType, Type
from holdfast.model.queues import Mode
from holdfast.model.summary import CANCELLED, PARTIAL, STOPPED, TIMED_OUT
from holdfast.store.seam import ExecutionStore

MOST_OPERATIONS: Final = 5_000
"""If an execution has more operations than this, they are not read to say what it waits for, unless the caller gives another limit."""
_TIME_LIMIT: Final = "time-limit"
"""The name of the timer that limits how long a pipeline's run may take. The run does not wait for this timer, so the sentence does not name
it."""
_MOST_TOLD: Final = 3
_ORDER: Final = (Type.CALLBACK, Type.CHAINED_INVOKE, Type.STEP, Type.CONTEXT, Type.EXECUTION, Type.WAIT)


class Why(msgspec.Struct, frozen=True, kw_only=True):
    """The sentence, and the action that helps. The sentence is empty if there is nothing to explain: the execution succeeded."""

    sentence: str
    cure: str | None = None
    """release, redrive, restart, decide, answer or resume; None if no action helps."""
    subject: str | None = None
    """The id of the operation, or the name of the queue, that the action is for; None if it is for the execution itself."""


def why(store: DescriptionStore, header: Execution, most: int = MOST_OPERATIONS) -> Why:
    """Why an execution is in its present state, and the action that helps. If the execution has more than `most` operations, the sentence
    does not say what it waits for."""
    if header.status is not ExecutionStatus.RUNNING:
        return _over(header)
    pending = _pending(store, header, most)
    sentence = _waits_for(pending) if pending else why_of(store, header, trouble_of(store, header))
    if header.state is State.QUARANTINED or next_try(header) is not None:
        return Why(sentence=sentence, cure="release")
    queue = store.queue(header.place.queue) if header.state is State.QUEUED and header.place is not None else None
    if queue is not None and queue.mode is Mode.PAUSED:
        return Why(sentence=sentence, cure="resume", subject=queue.name)
    asked = next((op for op in pending if op.type is Type.CALLBACK and op.sub_type != CANCEL), None)
    if header.state is State.SUSPENDED and asked is not None:
        return Why(sentence=sentence, cure="decide" if asked.sub_type == APPROVAL else "answer", subject=asked.id)
    return Why(sentence=sentence)


def _over(header: Execution) -> Why:
    if header.continued_as is not None:
        return Why(sentence=f"It goes on as {header.continued_as}.")
    summary = header.summary
    code = None if summary is None else summary.error_code
    ended = _ended(header.status, code)
    if header.superseded_by is not None:
        return Why(sentence=f"{ended or 'It is over.'} Its name was started again: {header.superseded_by}.")
    if header.parked:
        return Why(sentence=f"{(ended or 'It failed.')[:-1]} and is parked: a person may start it again.", cure="redrive")
    cure = "restart" if header.parent is None else None  # what another one invoked is restarted with that one
    if header.status not in FAILED_STATUSES and summary is not None and summary.outcome == PARTIAL:
        return Why(
            sentence=f"{ended[:-1]}, but it has a part of its results." if ended else "It has only a part of its results.", cure=cure
        )
    return Why(sentence=ended, cure=cure if ended else None)


def _ended(status: ExecutionStatus, code: str | None) -> str:
    """How an execution ended, as a sentence; empty if it succeeded without an error code."""
    told = "" if code is None else f" with {brief_class(code)}"
    if status is ExecutionStatus.STOPPED:
        return "It was stopped." if code in (None, STOPPED) else f"It was stopped{told}."
    if status is ExecutionStatus.TIMED_OUT:
        return "It timed out." if code in (None, TIMED_OUT) else f"It timed out{told}."
    if code == CANCELLED:
        return "It was cancelled."
    return f"It failed{told}." if status in FAILED_STATUSES or code is not None else ""


def _pending(store: ExecutionStore, header: Execution, most: int) -> list[Operation]:
    """The operations that a suspended execution waits for; empty for any other execution, and if it has more than `most` operations. A
    callback inside `wait_for_callback` gets the name of that call."""
    if header.state is not State.SUSPENDED or header.operations > most:
        return []
    known = {op.id: op for op in store.outline(header.id)}
    found = []
    for op in known.values():
        if is_pending(op) and op.sub_type != CANCEL and op.name != _TIME_LIMIT:
            around = known.get(op.parent_id or "")
            named = around is not None and around.sub_type == SubType.WAIT_FOR_CALLBACK
            found.append(msgspec.structs.replace(op, name=around.name) if around is not None and named else op)
    return found


def _waits_for(pending: list[Operation]) -> str:
    """The sentence that lists what an execution waits for: decisions of persons first, then callbacks and invokes, then steps, and timers
    last. It names at most three."""
    told = [_waited_for(op) for op in sorted(pending, key=lambda op: (op.sub_type != APPROVAL, _ORDER.index(op.type)))[:_MOST_TOLD]]
    more = f" and {len(pending) - _MOST_TOLD:,} more" if len(pending) > _MOST_TOLD else ""
    return f"It waits for {', '.join(told)}{more}."


def _waited_for(op: Operation) -> str:
    name = "" if op.name is None else f" {op.name!r}"
    due = "" if op.due_at is None else f" until {_moment(op.due_at)}"
    match op.type:
        case Type.WAIT:
            return f"its timer{name}{due}"
        case Type.CALLBACK if op.sub_type == APPROVAL:
            return f"a person's decision{name}{due}"
        case Type.CALLBACK:
            return f"an answer to its callback{name}{due}"
        case Type.CHAINED_INVOKE:
            return f"the end of {'the run' if op.sub_type == RUN else 'what it invoked'}{name}"
        case _:
            return f"attempt {op.attempt + 1} of {(op.sub_type or op.type.value).lower()}{name}{due}"


def _moment(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")

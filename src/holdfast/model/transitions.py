"""What an update may do: the table of allowed changes of status, and the functions that check a batch of updates and apply it.

A batch is applied as a whole, or an error is raised and nothing is applied. docs/internals/states.md is made from `MOVES` and `TIMERS`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from holdfast.model import codec
from holdfast.model.draft import WriteDraft
from holdfast.model.errors import InvalidParameter
from holdfast.model.execution import Birth
from holdfast.model.history import BY_ACTION, FRAMES, EventType
from holdfast.model.ids import Arn
from holdfast.model.operations import OPEN, Action, Failure, Operation, Status, Type, Update
from holdfast.model.seal import Seal

MAX_WAIT_SECONDS = 31_622_400
MAX_CALLBACK_SECONDS = 99_999_999
MAX_ID = 64
MAX_NAME = 256
SHORT = codec.MAX_PAYLOAD_BYTES // 4
"""A text of at most this many characters fits into a payload, whatever characters it has: a character has at most four bytes."""

_PLAIN: Final = frozenset({str, type(None)})
ABSENT: Final = None
STARTED, PENDING, READY = Status.STARTED, Status.PENDING, Status.READY
SUCCEEDED, FAILED, CANCELLED, TIMED_OUT = Status.SUCCEEDED, Status.FAILED, Status.CANCELLED, Status.TIMED_OUT

MOVES: Final[Mapping[tuple[Type, Action], Mapping[Status | None, Status]]] = {
    (Type.CONTEXT, Action.START): {ABSENT: STARTED},
    (Type.CONTEXT, Action.SUCCEED): {ABSENT: SUCCEEDED, STARTED: SUCCEEDED},
    (Type.CONTEXT, Action.FAIL): {ABSENT: FAILED, STARTED: FAILED},
    (Type.STEP, Action.START): {ABSENT: STARTED, READY: STARTED},
    (Type.STEP, Action.SUCCEED): {ABSENT: SUCCEEDED, STARTED: SUCCEEDED, READY: SUCCEEDED},
    (Type.STEP, Action.FAIL): {ABSENT: FAILED, STARTED: FAILED, READY: FAILED},
    (Type.STEP, Action.RETRY): {ABSENT: PENDING, STARTED: PENDING, READY: PENDING},
    (Type.WAIT, Action.START): {ABSENT: STARTED},
    (Type.WAIT, Action.CANCEL): {STARTED: CANCELLED},
    (Type.CALLBACK, Action.START): {ABSENT: STARTED},
    (Type.CHAINED_INVOKE, Action.START): {ABSENT: STARTED},
    (Type.EXECUTION, Action.SUCCEED): {STARTED: SUCCEEDED},
    (Type.EXECUTION, Action.FAIL): {STARTED: FAILED},
}
"""For each type of operation and each action: which status an operation may have before the update (None: there is no operation yet), and
which status it has afterwards. Any other update is refused; only an update with `if_open`, for an operation that has ended, is ignored."""

TIMERS: Final[Mapping[tuple[Type, Status], Status]] = {
    (Type.STEP, PENDING): READY,
    (Type.WAIT, STARTED): SUCCEEDED,
    (Type.CALLBACK, STARTED): TIMED_OUT,
}
"""For each type and status of an operation: the status that it gets when its timer is due."""

_WRONG_STATE: Final[Mapping[tuple[Type, Action], str]] = {
    (Type.STEP, Action.START): "Invalid current STEP state to start.",
    (Type.STEP, Action.SUCCEED): "Invalid current STEP state to close.",
    (Type.STEP, Action.FAIL): "Invalid current STEP state to close.",
    (Type.STEP, Action.RETRY): "Invalid current STEP state to re-attempt.",
    (Type.CONTEXT, Action.START): "Cannot start a CONTEXT that already exist.",
    (Type.CONTEXT, Action.SUCCEED): "Invalid current CONTEXT state to close.",
    (Type.CONTEXT, Action.FAIL): "Invalid current CONTEXT state to close.",
    (Type.WAIT, Action.START): "Cannot start a WAIT that already exist.",
    (Type.WAIT, Action.CANCEL): "Cannot cancel a WAIT that does not exist or has already completed.",
    (Type.CALLBACK, Action.START): "Cannot start a CALLBACK that already exist.",
    (Type.CHAINED_INVOKE, Action.START): "Cannot start a CHAINED_INVOKE operation that already exists.",
}

Children = Mapping[str, Birth | Failure]
"""For each chained invoke and each enqueue of a checkpoint, by operation id: the execution to start (Birth), or why it cannot be started
(Failure)."""
NO_CHILDREN: Final[Children] = {}


def apply(draft: WriteDraft, updates: Sequence[Update], seal: Seal, children: Children = NO_CHILDREN) -> Update | None:
    """Apply the updates of a checkpoint to the draft, in order. Returns the update that closes the whole execution (its type is EXECUTION);
    None if there is none. `children` are the executions to start. Raises InvalidParameter or PayloadTooLarge if an update is not allowed;
    then the draft must be thrown away."""
    seen: dict[str, Update] = {}
    closing: Update | None = None
    for update in updates:
        if closing is not None:
            raise InvalidParameter(
                "Cannot checkpoint multiple EXECUTION updates."
                if update.type is Type.EXECUTION
                else "EXECUTION checkpoint must be the last update."
            )
        _check_values(update)
        if update.type is Type.EXECUTION:
            if (update.type, update.action) not in MOVES:
                raise InvalidParameter("Invalid action for the given operation type.")
            closing = update
            continue
        earlier = seen.get(update.id)
        if earlier is not None and not _may_follow(earlier, update):
            raise InvalidParameter("Cannot checkpoint multiple operations with the same ID.")
        seen[update.id] = update
        _move(draft, update, seal, children)
    return closing


def _may_follow(earlier: Update, later: Update) -> bool:
    return earlier.action is Action.START and later.action is not Action.START and later.type in (Type.STEP, Type.CONTEXT)


def _check_types(update: Update) -> None:
    """Raise InvalidParameter if a member that must be a text is not a str. Updates from the wire and from durable calls were checked
    before; this check is for updates that other code makes."""
    texts: dict[str, object] = {"id": update.id, "name": update.name, "subtype": update.sub_type, "parent id": update.parent_id}
    for what, text in (*texts.items(), ("payload", update.payload)):
        if not isinstance(text, str) and (text is not None or what == "id"):
            raise InvalidParameter(f"Operation {what} is of type {type(text).__name__}; it must be a str.")


def _check_values(update: Update) -> None:
    if not (
        type(update.id) is str
        and type(update.name) in _PLAIN
        and type(update.sub_type) in _PLAIN
        and type(update.parent_id) in _PLAIN
        and type(update.payload) in _PLAIN
    ):
        _check_types(update)
    if not update.id or len(update.id) > MAX_ID:
        raise InvalidParameter(f"Operation id must have 1 to {MAX_ID} characters.")
    if update.name is not None and len(update.name) > MAX_NAME:
        raise InvalidParameter(f"Operation name must have at most {MAX_NAME} characters.")
    payload, error, action = update.payload, update.error, update.action
    for text in (update.id, update.name, update.sub_type):
        if text is not None and not text.isascii():
            codec.storable(text)
    if payload is not None:
        if not payload.isascii():
            codec.storable(payload)
        if action is Action.FAIL:
            raise InvalidParameter("Cannot provide a Payload for FAIL action.")
        if action is Action.RETRY and error is not None:
            raise InvalidParameter("Cannot provide both error and payload to RETRY a STEP.")
        if len(payload) > SHORT:
            codec.fitting(payload, "Execution output" if update.type is Type.EXECUTION else f"{update.type} output")
    if error is not None and action is Action.SUCCEED:
        raise InvalidParameter("Cannot provide an Error for SUCCEED action.")


def _move(draft: WriteDraft, update: Update, seal: Seal, children: Children) -> None:
    before = draft.operations.get(update.id) or draft.before(update.id)  # `draft.get`, without a call for each update
    key = (update.type, update.action)
    if update.if_open and before is not None and before.status not in OPEN:
        return
    if before is None:
        parent_id = update.parent_id
        if parent_id is not None:
            parent = draft.get(parent_id)
            if parent is None or parent.type is not Type.CONTEXT:
                raise InvalidParameter("Invalid parent operation id.")
    else:
        _check_same(update, before)
    moves = MOVES.get(key)
    if moves is None:
        raise InvalidParameter("Invalid action for the given operation type.")
    status = moves.get(before.status if before is not None else ABSENT)
    if status is None:
        raise InvalidParameter(_WRONG_STATE[key])
    if update.order is not None and update.order.queued is not None:
        after = _enqueued(draft, update, before, children.get(update.id))
    elif update.type is Type.CHAINED_INVOKE:
        after = _invoked(draft, update, children.get(update.id))
    elif update.action is Action.START:
        after = _started(draft, update, before, seal)
    elif update.action is Action.RETRY:
        after = _retried(draft, update, before)
    else:
        after = _closed(draft, update, before, status)
    draft.put(after, before)


def _check_same(update: Update, before: Operation) -> None:
    if update.type is not before.type:
        raise InvalidParameter("Inconsistent operation type.")
    if update.sub_type and update.sub_type != before.sub_type:
        raise InvalidParameter("Inconsistent operation subtype.")
    if update.name and update.name != before.name:
        raise InvalidParameter("Inconsistent operation name.")
    if update.parent_id and update.parent_id != before.parent_id:
        raise InvalidParameter("Inconsistent parent operation id.")


def _born(draft: WriteDraft, update: Update, place: int) -> Operation:
    return Operation(
        id=update.id,
        type=update.type,
        status=STARTED,
        started_at=draft.at,
        sub_type=update.sub_type,
        name=update.name,
        parent_id=update.parent_id,
        place=place,
        revision=draft.revision,
    )


def _started(draft: WriteDraft, update: Update, before: Operation | None, seal: Seal) -> Operation:
    if before is not None:
        # The next attempt of a step. The handler still sees the number of attempts, and the last state or error.
        draft.log(EventType.STEP_STARTED, update.id)
        return msgspec.structs.replace(before, status=STARTED, due_at=None, revision=draft.revision)
    if update.type is Type.WAIT:
        return _wait_started(draft, update)
    if update.type is Type.CALLBACK:
        return _callback_started(draft, update, seal)
    place = draft.log(BY_ACTION[update.type, Action.START], update.id)
    return _born(draft, update, place)


def _wait_started(draft: WriteDraft, update: Update) -> Operation:
    seconds = update.wait_seconds
    if type(seconds) is not int or not 1 <= seconds <= MAX_WAIT_SECONDS:
        raise InvalidParameter(f"WaitSeconds must be between 1 and {MAX_WAIT_SECONDS}.")
    due_at = draft.at + seconds * 1000
    place = draft.log(EventType.WAIT_STARTED, update.id, None, {"Duration": seconds, "ScheduledEndTimestamp": due_at / 1000})
    return msgspec.structs.replace(_born(draft, update, place), due_at=due_at)


def _callback_started(draft: WriteDraft, update: Update, seal: Seal) -> Operation:
    timeout, heartbeat = update.timeout_seconds, update.heartbeat_seconds
    if not all(type(seconds) is int and 0 <= seconds <= MAX_CALLBACK_SECONDS for seconds in (timeout, heartbeat)):
        raise InvalidParameter(f"Callback timeouts must be between 0 and {MAX_CALLBACK_SECONDS} seconds.")
    callback_id = seal.callback(draft.header.id, update.id)
    detail = {"CallbackId": callback_id, "Timeout": timeout, "HeartbeatTimeout": heartbeat}
    place = draft.log(EventType.CALLBACK_STARTED, update.id, None, {key: value for key, value in detail.items() if value})
    timeout_at = draft.at + timeout * 1000 if timeout else None
    heartbeat_ms = heartbeat * 1000
    return msgspec.structs.replace(
        _born(draft, update, place),
        callback_id=callback_id,
        timeout_at=timeout_at,
        heartbeat_ms=heartbeat_ms,
        due_at=callback_due(draft.at, timeout_at, heartbeat_ms),
    )


def _invoked(draft: WriteDraft, update: Update, child: Birth | Failure | None) -> Operation:
    """The operation of a chained invoke. The execution `child` starts in the same write. If `child` is a Failure or None, there is nothing
    to start: the operation fails at once, and the handler gets the error."""
    name = update.function_name or ""
    parent = draft.header
    detail = {"FunctionName": name}
    if tenant := update.tenant_id or parent.tenant:
        detail["TenantId"] = tenant
    if isinstance(child, Birth):
        of = child.header
        if parent.tenant or parent.trace:  # inherited, unless the update names others
            of = msgspec.structs.replace(of, tenant=of.tenant or parent.tenant, trace=of.trace or parent.trace)
            child = msgspec.structs.replace(child, header=of)
        detail |= {"ExecutedVersion": of.version, "DurableExecutionArn": str(Arn(of.function, of.version, of.name, of.id))}
    place = draft.log(EventType.CHAINED_INVOKE_STARTED, update.id, update.payload, detail)
    born = _born(draft, update, place)
    if isinstance(child, Birth):
        draft.births.append(child)
        return born
    error = child or Failure(message=f"Function not found: {name}", type="ResourceNotFoundException")
    number = draft.log(EventType.CHAINED_INVOKE_FAILED, update.id, codec.failure_text(error))
    return msgspec.structs.replace(born, status=FAILED, ended_at=draft.at, error=error, payload_event=number)


def _enqueued(draft: WriteDraft, update: Update, before: Operation | None, child: Birth | Failure | None) -> Operation:
    """The step that enqueues the execution `child` in the same write. The step's result is the id of that execution. If `child` is a
    Failure or None, there is nothing to enqueue, and the step fails. `before` is the step before this write; None if it is new."""
    if isinstance(child, Birth):
        parent = draft.header
        of = msgspec.structs.replace(child.header, tenant=child.header.tenant or parent.tenant, trace=child.header.trace or parent.trace)
        draft.births.append(msgspec.structs.replace(child, header=of))
        return _closed(draft, msgspec.structs.replace(update, payload=codec.dumps(of.id)), before, SUCCEEDED)
    error = child or Failure(message=f"Function not found: {update.function_name}", type="ResourceNotFoundException")
    return _closed(draft, msgspec.structs.replace(update, action=Action.FAIL, payload=None, error=error), before, FAILED)


def callback_due(now: int, timeout_at: int | None, heartbeat_ms: int) -> int | None:
    """When an open callback times out if it gets no answer and no heartbeat from `now` on; None: never. `timeout_at` None: it has no
    timeout; `heartbeat_ms` 0: it needs no heartbeats."""
    beats_at = now + heartbeat_ms if heartbeat_ms else None
    if timeout_at is None or beats_at is None:
        return timeout_at if beats_at is None else beats_at
    return min(timeout_at, beats_at)


def _retried(draft: WriteDraft, update: Update, before: Operation | None) -> Operation:
    delay = update.delay_seconds
    if delay is None:
        raise InvalidParameter("Invalid StepOptions for the given action.")
    if type(delay) is not int or not 1 <= delay <= MAX_WAIT_SECONDS:
        raise InvalidParameter(f"NextAttemptDelaySeconds must be between 1 and {MAX_WAIT_SECONDS}.")
    attempt = (before.attempt if before is not None else 0) + 1
    retry = {"RetryDetails": {"CurrentAttempt": attempt, "NextAttemptDelaySeconds": delay}}
    # A retry without an error is a successful check of `wait_for_condition`: its event is StepSucceeded, and the operation continues.
    error = None if update.error is None else codec.readable(update.error)
    if error is not None:
        number = draft.log(EventType.STEP_FAILED, update.id, codec.failure_text(error), _with_frames(retry, update))
    else:
        number = draft.log(EventType.STEP_SUCCEEDED, update.id, update.payload, retry)
    return msgspec.structs.replace(
        before if before is not None else _born(draft, update, number),
        status=PENDING,
        attempt=attempt,
        due_at=draft.at + delay * 1000,
        result=update.payload,
        error=error,
        payload_event=number,
        revision=draft.revision,
    )


def _with_frames(detail: dict[str, Any] | None, update: Update) -> dict[str, Any] | None:
    return detail if not update.frames else {**(detail or {}), FRAMES: list(update.frames)}


def _closed(draft: WriteDraft, update: Update, before: Operation | None, status: Status) -> Operation:
    attempt = before.attempt if before is not None else 0
    detail = None
    if update.type is Type.STEP:
        attempt += 1
        detail = {"RetryDetails": {"CurrentAttempt": attempt}}
    error = None if update.error is None else codec.readable(update.error)
    if status is FAILED and error is None:
        error = Failure()
    result = update.payload if status is SUCCEEDED else None
    payload = result if error is None else codec.failure_text(error)
    number = draft.log(BY_ACTION[update.type, update.action], update.id, payload, _with_frames(detail, update))
    born = before if before is not None else _born(draft, update, number)
    ended_at = draft.at if update.ended_at is None else update.ended_at
    return Operation(
        id=born.id,
        type=born.type,
        status=status,
        started_at=min(born.started_at, ended_at),  # the START may be in the same write
        sub_type=born.sub_type,
        name=born.name,
        parent_id=born.parent_id,
        ended_at=ended_at,
        attempt=attempt,
        replay_children=update.replay_children,
        result=result,
        error=error,
        place=born.place,
        payload_event=number,
        revision=draft.revision,
    )

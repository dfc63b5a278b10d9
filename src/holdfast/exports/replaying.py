"""Replays: runs today's code on the records of an exported execution, without a store, an engine or writes, and without step bodies.

Each strand of the handler runs as far as its records go. The strand is suspended at a wait that had not ended, or before new work. If the
code ends without some of the records, it does not match them, and the result names these records.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import msgspec

from holdfast.descriptions.executions import arn_of
from holdfast.descriptions.failure_path import described
from holdfast.durable import plain
from holdfast.durable.async_state import AsyncState
from holdfast.durable.blocking_driver import BlockingState
from holdfast.durable.context import AsyncDurableContext, DurableContext
from holdfast.durable.exceptions import NonDeterministicExecutionError, SuspendExecution
from holdfast.durable.execution import DurableFunction
from holdfast.durable.hooks.resting_hooks import RestingHooks
from holdfast.durable.identifier import PATCH, Identity
from holdfast.durable.invocation_outcome import failed
from holdfast.durable.plan import Plan, Suspend
from holdfast.durable.scope import Scope
from holdfast.durable.stragglers import Deferring
from holdfast.exports.importing import ExportSource, read
from holdfast.model import codec
from holdfast.model.clock import Clock, VirtualClock
from holdfast.model.error_text import class_of
from holdfast.model.errors import ExportInvalid, InvalidParameter
from holdfast.model.execution import ExecutionStatus, Outcome, OutcomeStatus
from holdfast.model.ids import Position
from holdfast.model.operations import Failure, Operation, Update, unpruned
from holdfast.model.ports import Invocation, OnAnswer
from holdfast.model.verbs import Checkpointed
from holdfast.store.seam import Snapshot

T = TypeVar("T")
_OURS = str(Path(__file__).parents[2])
_LOOP = str(Path(asyncio.__file__).parent)
_MOST_SHOWN = 200
_FROM_OUTSIDE = frozenset({ExecutionStatus.STOPPED, ExecutionStatus.TIMED_OUT})


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    """Whether today's code follows the records of an execution, and what it does after them."""

    matches: bool
    """False if the code ended without some of the records, or if the execution ended and the code does not end in the same way; else
    True."""
    why: str
    """The result of the comparison, in one sentence."""
    status: OutcomeStatus
    """The code's outcome: PENDING if it waits or would do new work."""
    result: Any = None
    """What the code returned, as a JSON value; for code that continues as new, the new input. Else None."""
    error: Failure | None = None
    """The error that the code raised; None if it raised none."""
    waits: tuple[str, ...] = ()
    """The recorded operations that the code waits for, in words."""
    goes_on: tuple[str, ...] = ()
    """The new work that the code would do next, in words, with its line in the code if that is known."""
    unused: tuple[str, ...] = ()
    """In words: the recorded operations outside of child contexts that the code had not used when it ended. Empty if the code has not
    ended."""


def replay(document: ExportSource, function: DurableFunction) -> Replayed:
    """Run a function on the records of an exported execution, and return whether its calls match the records. `document` is the exported
    document, or the path of its file.

    Nothing is written, and no body of a step runs; the code outside of steps runs, as at every replay. Raises
    `NonDeterministicExecutionError` if the code calls another operation than the recorded one, `ExportInvalid` if the document is not an
    export, or was exported without data, and `InvalidParameter` if the function is not a durable function, or is a plain function."""
    _check_durable(function)
    imported = read(document)
    if not imported.data:
        raise ExportInvalid("The document was exported without data, so it cannot be replayed. Export the execution with its data.")
    return replay_snapshot(imported.snapshot, function)


def replay_snapshot(snapshot: Snapshot, function: DurableFunction) -> Replayed:
    """Run a function on the records of an execution, or of a part of one, that was read from a store, and return whether its calls match
    the records. Raises `NonDeterministicExecutionError` if the code calls another operation than the recorded one, and `InvalidParameter`
    if the function is not a durable function, or is a plain function."""
    _check_durable(function)
    run = _Run(snapshot)
    outcome = _awaited(lambda: run.awaiting(function)) if function.is_async else run.blocking(function)
    return _told(snapshot, run.hooks, outcome)


def _check_durable(function: DurableFunction) -> None:
    if not isinstance(function, DurableFunction):
        raise InvalidParameter(f"{function!r} is not a durable function. Decorate it with @durable_execution.")
    if getattr(function.handler, "__globals__", None) is vars(plain):
        raise InvalidParameter(f"{function.name!r} is a plain function: all of it would run again, so it cannot be replayed.")


def _awaited(make: Callable[[], Coroutine[Any, Any, Outcome]]) -> Outcome:
    """Run a coroutine to its end, and return its result. Blocks, also if the caller's thread has a running event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(make())
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: asyncio.run(make())).result()


class _NewWork(SuspendExecution):
    """Raised in a strand where its records end: before the strand would write a new record, or run the body of a step that has a recorded
    start and no end."""


class _RecordUse(RestingHooks):
    """Used in place of plugins: notes which records the code uses, and stops each strand before new work."""

    def __init__(self) -> None:
        self.looked_at: set[str] = set()
        self.waits: dict[str, None] = {}
        self.goes_on: dict[str, None] = {}
        self.in_body = False
        """Whether a strand stopped at a step whose start is recorded, but not its end: the result of its body is not known."""

    def recording(self, update: Update) -> None:
        """Stop the strand: the code would write a new record."""
        self._stop(update.type.value, update.sub_type, update.name)

    def watched(self, func: Callable[..., Any], at: Identity, attempt: int) -> Callable[..., Any]:
        """Stop the strand: the body of a step would run now. The start of this step is recorded, but not its end."""
        self.in_body = True
        self._stop(at.type.value, at.sub_type, at.name)

    def _stop(self, kind: str, sub_type: str | None, name: str | None) -> NoReturn:
        self.goes_on[f"{_titled(sub_type or kind, name)}{_user_line()}"] = None
        raise _NewWork("The recorded path ends here.")

    def looked(self, operation: Operation) -> None:
        """Note that the code used a record."""
        self.looked_at.add(operation.id)

    def met_again(self, operation: Operation) -> None:
        """Note that the code used a record. This hook is called before the recorded call is answered."""
        self.looked_at.add(operation.id)

    def met_open(self, operation: Operation) -> None:
        """Do nothing: no plugin listens."""

    def running(self, at: Identity, plan: Plan[T], seen: Operation | None) -> Plan[T]:
        """Let the body of a context run unchanged: its durable calls are replayed too."""
        return plan

    def context_ended(self, *_: object, **__: object) -> None:
        """Do nothing: no plugin listens."""

    def spawned(self, *_: object) -> None:
        """Do nothing: no plugin listens."""

    def trace_id(self, at: Identity, function_name: str) -> str | None:
        """Always None: a new invoke is stopped before it needs a trace id."""
        return None


class _Refusing:
    """Used in place of the port and of the thread pool in a replay: it returns the recorded state, refuses every write, and runs no
    step."""

    def __init__(self, operations: Sequence[Operation], given: str | None) -> None:
        self._operations = operations
        self._given = given

    def state(self, token: Position, newer_than: int = 0) -> Sequence[Operation]:
        return self._operations

    def input(self, token: Position) -> str | None:
        return self._given

    def checkpoint(self, token: Position, updates: Sequence[Update], client_token: str | None = None) -> Checkpointed:
        raise InvalidParameter("A replay writes nothing.")

    def checkpoint_soon(self, token: Position, updates: Sequence[Update], on_answer: OnAnswer) -> None:
        on_answer(InvalidParameter("A replay writes nothing."))

    def add(self, state: Deferring) -> None:
        raise InvalidParameter("A replay writes nothing.")

    def submit(self, call: Callable[[], T], /) -> Future[T]:
        raise InvalidParameter("A replay runs no step.")


class _BlockingReplay(BlockingState):
    hooks: _RecordUse

    def suspension(self, effect: Suspend) -> SuspendExecution:
        for operation_id in (effect.operation_id, *(other.id for other in effect.others)):
            self.hooks.waits[described(self.operations[operation_id])] = None
        return super().suspension(effect)


class _AsyncReplay(AsyncState):
    hooks: _RecordUse

    async def rest(self, suspend: Suspend) -> None:
        for operation_id in (suspend.operation_id, *(other.id for other in suspend.others)):
            self.hooks.waits[described(self.operations[operation_id])] = None
        await super().rest(suspend)


class _Run:
    """Runs one replay."""

    def __init__(self, snapshot: Snapshot) -> None:
        header, operations = snapshot.header, unpruned(snapshot.operations)
        self.hooks = _RecordUse()
        self._given = snapshot.events[0].payload
        self._port = _Refusing(operations, self._given)
        self._clock: Clock = VirtualClock(header.touched_at)
        token = Position(header.id, header.epoch, header.sequence, header.revision)
        self._invocation = Invocation(arn_of(header), header, token, not operations, self._given)

    def blocking(self, function: DurableFunction) -> Outcome:
        state = _BlockingReplay(self._invocation, self._port, self._clock, self._port, lend=lambda _: False)
        state.hooks = self.hooks
        scope = Scope(state, DurableContext, replaying=state.has_history)
        try:
            result = function.handler(function.read(self._given), DurableContext(scope))
        except BaseException as error:
            return _failed(state, error)
        return _returned(state, scope, result, function)

    async def awaiting(self, function: DurableFunction) -> Outcome:
        state = _AsyncReplay(self._invocation, self._port, self._clock, self._port, threads=self._port, quiet=lambda: state.evict())
        state.hooks = self.hooks
        scope = Scope(state, AsyncDurableContext, replaying=state.has_history)
        try:
            result = await function.handler(function.read(self._given), AsyncDurableContext(scope))
        except BaseException as error:
            return _failed(state, error)
        else:
            return _returned(state, scope, result, function)
        finally:
            scope.leave()


def _returned(state: BlockingState | AsyncState, scope: Scope, result: Any, function: DurableFunction) -> Outcome:
    """The outcome of code that returned. If the code caught a mismatch with the records, raises it again."""
    if state.mismatch is not None:
        raise state.mismatch
    return function.succeeded(state, scope, result)


def _failed(state: BlockingState | AsyncState, error: BaseException) -> Outcome:
    """The outcome of code that raised `error`. If `error` is a mismatch with the records or a KeyboardInterrupt, it is raised instead. If
    the code had caught a mismatch before, that mismatch is raised."""
    if isinstance(error, NonDeterministicExecutionError | KeyboardInterrupt):
        raise error
    if state.mismatch is not None:
        raise state.mismatch from error
    return failed(state, error)


def _told(snapshot: Snapshot, seen: _RecordUse, outcome: Outcome) -> Replayed:
    is_over = outcome.status is not OutcomeStatus.PENDING
    records = [op for op in unpruned(snapshot.operations) if op.parent_id is None] if is_over else []
    # The record of `context.patched` may stay unused, because its author has removed the old code together with this call.
    unused = tuple(described(op) for op in records if op.id not in seen.looked_at and op.sub_type != PATCH)
    came_to = _came_to(outcome, tuple(seen.waits), tuple(seen.goes_on))
    matches, why = True, f"The code follows the records, and then {came_to}."
    if unused:
        matches, why = False, f"The code {came_to} without the recorded {', '.join(unused)}."
    elif not _same_end(snapshot, outcome, in_body=seen.in_body):
        matches, why = False, f"The execution ended as {_ending(snapshot)}, but the code {came_to}."
    return Replayed(
        matches=matches,
        why=why,
        status=outcome.status,
        result=codec.loads(outcome.result) if outcome.result is not None else None,
        error=outcome.error,
        waits=tuple(seen.waits),
        goes_on=tuple(seen.goes_on),
        unused=unused,
    )


def _same_end(snapshot: Snapshot, outcome: Outcome, *, in_body: bool) -> bool:
    """Whether the code's outcome is the same as the recorded end. Always True if the execution has not ended, was stopped or timed out. If
    it continued as another one, the new inputs are not compared. With `in_body`, a strand stopped at a step that had begun and not ended:
    then a recorded error is not compared, because it may come from that step."""
    header, payload = snapshot.header, snapshot.events[-1].payload
    if header.status is ExecutionStatus.RUNNING or header.status in _FROM_OUTSIDE:
        return True
    if header.continued_as is not None:
        return outcome.status is OutcomeStatus.CONTINUED
    if header.status is ExecutionStatus.SUCCEEDED:
        same = codec.loads(payload or "null") == codec.loads(outcome.result or "null")
        return outcome.status is OutcomeStatus.SUCCEEDED and same
    if in_body:
        return True  # the recorded error may come from the body that was interrupted
    recorded = codec.failure_from(payload or "{}")
    error = outcome.error or Failure()
    return outcome.error is not None and (error.type, error.message) == (recorded.type, recorded.message)


def _ending(snapshot: Snapshot) -> str:
    header, payload = snapshot.header, snapshot.events[-1].payload
    if payload is None:
        return header.status.value
    if header.status in (ExecutionStatus.SUCCEEDED, ExecutionStatus.RUNNING) or header.continued_as is not None:
        return f"{header.status} with {_shortened(payload)}"
    failure = codec.failure_from(payload)
    return f"{header.status} with {class_of(failure.type or '')}: {_shortened(failure.message)}"


def _came_to(outcome: Outcome, waits: tuple[str, ...], goes_on: tuple[str, ...]) -> str:
    if outcome.status is OutcomeStatus.PENDING:
        found = [f"waits for {each}" for each in waits] + [f"goes on with new work: {each}" for each in goes_on]
        return "; ".join(found) or "is suspended"
    if outcome.error is not None:
        return f"fails with {class_of(outcome.error.type or '')}: {_shortened(outcome.error.message)}"
    if outcome.status is OutcomeStatus.CONTINUED:
        return f"continues as new with {_shortened(outcome.result)}"
    return f"returns {_shortened(outcome.result)}"


def _shortened(text: str | None) -> str:
    text = text or ""
    return text if len(text) <= _MOST_SHOWN else f"{text[: _MOST_SHOWN - 3]}..."


def _titled(kind: str, name: str | None) -> str:
    return f"{kind} {name!r}" if name else kind


def _user_line() -> str:
    """The line of the user's code that makes the call, as ` at FILE:LINE`: the innermost frame that is not Holdfast's. Empty for a branch
    in its own asyncio task."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OURS):
        frame = frame.f_back
    name = frame.f_code.co_filename
    return "" if name.startswith(_LOOP) else f" at {name}:{frame.f_lineno}"

"""Replays: today's code over an exported execution. No store, no engine, no writes, and no body of a step: only the recorded path.

Every strand of the handler goes as far as its records carry it, and is suspended where it waits for something that had not happened, or
where it would do something new. Records that the code does not meet again are an error that says where.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import msgspec

from holdfast.durable import plain
from holdfast.durable.awaiting import AsyncState
from holdfast.durable.blocking import BlockingState
from holdfast.durable.context import AsyncDurableContext, DurableContext
from holdfast.durable.exceptions import NonDeterministicExecutionError, SuspendExecution
from holdfast.durable.execution import DurableFunction
from holdfast.durable.hooks.resting import RestingHooks
from holdfast.durable.identifier import PATCH, Identity
from holdfast.durable.outcomes import failed, succeeded
from holdfast.durable.plan import Plan, Suspend
from holdfast.durable.scope import Scope
from holdfast.durable.stragglers import Riding
from holdfast.model import codec
from holdfast.model.clock import Clock, VirtualClock
from holdfast.model.errors import ExportInvalid, HoldfastError, InvalidParameter
from holdfast.model.execution import ExecutionStatus, Outcome, OutcomeStatus
from holdfast.model.ids import Position
from holdfast.model.operations import Failure, Operation, Update, unpruned
from holdfast.model.ports import Invocation
from holdfast.model.saying import class_of
from holdfast.model.verbs import Checkpointed
from holdfast.service.describing import arn_of
from holdfast.service.importing import Source, read
from holdfast.store.seam import Snapshot

T = TypeVar("T")
_OURS = str(Path(__file__).parents[1])
_LOOP = str(Path(asyncio.__file__).parent)
_FROM_OUTSIDE = frozenset({ExecutionStatus.STOPPED, ExecutionStatus.TIMED_OUT})


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    """How far the recorded path carried today's code."""

    matches: bool
    """The code came as far as the records do, and to the same end if they have one."""
    why: str
    """The same in a sentence."""
    status: OutcomeStatus
    """What the code came to: PENDING when it waits or would do something new."""
    result: Any = None
    error: Failure | None = None
    waits: tuple[str, ...] = ()
    """The recorded operations that it waits for."""
    goes_on: tuple[str, ...] = ()
    """The new work that it would do next, and where in the code."""
    unused: tuple[str, ...] = ()
    """Recorded operations that it ended without."""


def replay(document: Source, function: DurableFunction) -> Replayed:
    """Run a function over an exported execution, a document or the path of one, and tell how far its records carry.

    Nothing is written and no step's body runs; the code outside of steps does, as at every replay. Code that asks for another operation
    than the recorded one raises NonDeterministicExecutionError.
    """
    if not isinstance(function, DurableFunction):
        raise InvalidParameter(f"{function!r} is not a durable function. Decorate it with @durable_execution.")
    if getattr(function.handler, "__globals__", None) is vars(plain):
        raise InvalidParameter(f"{function.name!r} is a plain function: all of it would run again, so it cannot be replayed.")
    imported = read(document)
    if not imported.data:
        raise ExportInvalid("The document was exported without data: it can be looked at, but not replayed.")
    run = _Run(imported.snapshot)
    outcome = _awaited(lambda: run.awaiting(function)) if function.is_async else run.blocking(function)
    return _told(imported.snapshot, run.hooks, outcome)


def _awaited(make: Callable[[], Coroutine[Any, Any, Outcome]]) -> Outcome:
    """Run a coroutine to its end, also for a caller that has a loop of its own."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(make())
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: asyncio.run(make())).result()


class _NewWork(SuspendExecution):
    """The records end here for this strand."""


class _Watch(RestingHooks):
    """Stands where plugins would: sees what the code looks at, and lets nothing new happen."""

    def __init__(self) -> None:
        self.looked_at: set[str] = set()
        self.waits: dict[str, None] = {}
        self.goes_on: dict[str, None] = {}
        self.in_body = False
        """A strand stopped before a body that had begun: what came of it there is not known here."""

    def recording(self, update: Update) -> None:
        """Something new is about to be written."""
        self._stop(update.type.value, update.sub_type, update.name)

    def watched(self, func: Callable[..., Any], at: Identity, attempt: int) -> Callable[..., Any]:
        """A step's body is about to run. Its beginning is on record, its end is not."""
        self.in_body = True
        self._stop(at.type.value, at.sub_type, at.name)

    def _stop(self, kind: str, sub_type: str | None, name: str | None) -> NoReturn:
        self.goes_on[f"{_titled(sub_type or kind, name)}{_user_line()}"] = None
        raise _NewWork("The recorded path ends here.")

    def looked(self, operation: Operation) -> None:
        """The code met a record."""
        self.looked_at.add(operation.id)

    def met_again(self, operation: Operation) -> None:
        """The same, before the call."""
        self.looked_at.add(operation.id)

    def met_open(self, operation: Operation) -> None:
        """The same, of a branch."""

    def running(self, at: Identity, plan: Plan[T], seen: Operation | None) -> Plan[T]:
        """A context's body makes durable calls, so it runs."""
        return plan

    def context_ended(self, *_: object, **__: object) -> None:
        """Nothing to tell."""

    def spawned(self, *_: object) -> None:
        """Nothing to remember."""

    def trace_id(self, at: Identity, function_name: str) -> str | None:
        """None: the invoke is new work."""
        return None


class _Refusing:
    """The port, the stragglers and the threads of a replay: recorded state comes out, nothing goes in."""

    def __init__(self, operations: Sequence[Operation], given: str | None) -> None:
        self._operations = operations
        self._given = given

    def state(self, token: Position, newer_than: int = 0) -> Sequence[Operation]:
        return self._operations

    def input(self, token: Position) -> str | None:
        return self._given

    def checkpoint(self, token: Position, updates: Sequence[Update], client_token: str | None = None) -> Checkpointed:
        raise InvalidParameter("A replay writes nothing.")

    def checkpoint_soon(self, token: Position, updates: Sequence[Update], landed: Callable[[Checkpointed | HoldfastError], None]) -> None:
        landed(InvalidParameter("A replay writes nothing."))

    def add(self, state: Riding) -> None:
        raise InvalidParameter("A replay writes nothing.")

    def submit(self, call: Callable[[], T], /) -> Future[T]:
        raise InvalidParameter("A replay runs no step.")


class _BlockingReplay(BlockingState):
    hooks: _Watch

    def suspension(self, effect: Suspend) -> SuspendExecution:
        for operation_id in (effect.operation_id, *(other.id for other in effect.others)):
            self.hooks.waits[_described(self.operations[operation_id])] = None
        return super().suspension(effect)


class _AsyncReplay(AsyncState):
    hooks: _Watch

    async def rest(self, suspend: Suspend) -> None:
        for operation_id in (suspend.operation_id, *(other.id for other in suspend.others)):
            self.hooks.waits[_described(self.operations[operation_id])] = None
        await super().rest(suspend)


class _Run:
    """One replay."""

    def __init__(self, snapshot: Snapshot) -> None:
        header, operations = snapshot.header, unpruned(snapshot.operations)
        self.hooks = _Watch()
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
    """What the code ended with by itself; a mismatch that it caught is a mismatch all the same."""
    if state.mismatch is not None:
        raise state.mismatch
    return succeeded(state, scope, result, function.write)


def _failed(state: BlockingState | AsyncState, error: BaseException) -> Outcome:
    """What the code's error comes to; that it does not match, and somebody's Ctrl-C, are the caller's to hear."""
    if isinstance(error, NonDeterministicExecutionError | KeyboardInterrupt):
        raise error
    if state.mismatch is not None:
        raise state.mismatch from error
    return failed(state, error)


def _told(snapshot: Snapshot, seen: _Watch, outcome: Outcome) -> Replayed:
    is_over = outcome.status is not OutcomeStatus.PENDING
    records = [op for op in unpruned(snapshot.operations) if op.parent_id is None] if is_over else []
    # A marker may stay behind when the code from before a change is gone, and with it the question.
    unused = tuple(_described(op) for op in records if op.id not in seen.looked_at and op.sub_type != PATCH)
    came_to = _came_to(outcome, tuple(seen.waits), tuple(seen.goes_on))
    matches, why = True, f"The records carry the code to where it {came_to}."
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
    """Whether the code came to the recorded end. One that is open has none, and a stop or a timeout came from outside."""
    header, payload = snapshot.header, snapshot.events[-1].payload
    if header.status is ExecutionStatus.RUNNING or header.status in _FROM_OUTSIDE:
        return True
    if header.continued_as is not None:
        return outcome.status is OutcomeStatus.CONTINUED
    if header.status is ExecutionStatus.SUCCEEDED:
        same = codec.loads(payload or "null") == codec.loads(outcome.result or "null")
        return outcome.status is OutcomeStatus.SUCCEEDED and same
    if in_body:
        return True  # it may well have failed in there
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


def _shortened(text: str | None, limit: int = 200) -> str:
    text = text or ""
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


def _described(operation: Operation) -> str:
    return _titled(operation.sub_type or operation.type.value, operation.name)


def _titled(kind: str, name: str | None) -> str:
    return f"{kind} {name!r}" if name else kind


def _user_line() -> str:
    """Where the user's code makes the call: the innermost frame that is not ours. A branch that is a task of its own has none."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OURS):
        frame = frame.f_back
    name = frame.f_code.co_filename
    return "" if name.startswith(_LOOP) else f" at {name}:{frame.f_lineno}"

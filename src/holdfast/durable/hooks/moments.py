"""Hooks: call the plugins of an execution, at the same moments as AWS's SDK does.

If an execution has no plugins, its state has no Hooks object; callers check that first. A plugin object is used for one invocation. A Hooks
object is used as long as the state of the execution is in memory, which may be several invocations.
"""

from __future__ import annotations

import functools
import inspect
import json
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec

from holdfast.durable.exceptions import BackgroundThreadError, SuspendExecution
from holdfast.durable.hooks.plugin_calls import Info, Plugins
from holdfast.durable.identifier import Identity
from holdfast.durable.lambda_service import ErrorObject
from holdfast.durable.plan import Plan
from holdfast.durable.plugin import (
    DurableInstrumentationPluginFactory,
    InvocationEndInfo,
    InvocationStartInfo,
    OperationChangeInfo,
    OperationEndInfo,
    OperationInfo,
    OperationStartInfo,
    PropagationInput,
    UserFunctionEndInfo,
    UserFunctionOutcome,
    UserFunctionStartInfo,
)
from holdfast.model.clock import Clock
from holdfast.model.execution import Outcome, OutcomeStatus
from holdfast.model.operations import OPEN, SERVED, Action, Operation, Status, Type, Update, served_since
from holdfast.model.ports import Invocation

T = TypeVar("T")
LEFT = SuspendExecution("The invocation is over.")
"""Passed to `_leave` in place of an error, for a function that is still under way when the invocation ends: its end is reported as
INCOMPLETE."""


class RunningBody(msgspec.Struct, eq=False):
    """One call of a user's function, as it is reported to plugins. `over`: whether its end was reported."""

    began: UserFunctionStartInfo
    over: bool = False


class Open(msgspec.Struct):
    """What the hooks keep about an operation that the code has reached and that has not ended."""

    strand: Any = None
    """The asyncio task of the strand that runs the operation. None in a `def` handler: its strands do not rest between two invocations."""
    body: RunningBody | None = None
    """If the operation is a context whose function has begun: the call of that function. Else None."""


class Hooks:
    """Calls the plugins of one execution in this process. The drivers call a method at the moment that its docstring describes."""

    def __init__(self, factories: Sequence[DurableInstrumentationPluginFactory], operations: Mapping[str, Operation], clock: Clock) -> None:
        self._factories = factories
        self._operations = operations
        self._clock = clock
        self._lock = threading.Lock()
        """Protects the fields below, because branches of a `def` handler are threads. No plugin is called while it is held."""
        self._plugins: Plugins | None = None
        self._start: InvocationStartInfo | None = None
        self._forget()
        self._open: dict[str, Open] = {}
        """The open operations by id, in the order in which the code reached them."""
        self._hidden: set[str] = set()
        """The ids of operations that are in memory but are not shown to plugins. They are inside contexts that have ended, so a replay does
        not need them."""
        self._bodies: dict[int, RunningBody] = {}
        """The functions under way, in the order in which they began."""

    # --- invocations

    def begin(self, invocation: Invocation, payload: str | None) -> None:
        """An invocation begins: make its plugins, and report the start to them. `payload` is the input as text. The plugins get a copy of
        the event, so that they cannot change the handler's event."""
        header = invocation.header
        self._invocation = invocation
        known = self._told()
        updated = served_since(self._operations.values(), header.seen) if invocation.updated is None else invocation.updated
        self._forget(frozenset(updated))
        self._start = InvocationStartInfo(
            request_id=header.invocation,
            execution_arn=invocation.arn,
            is_first_invocation=not self._operations,
            execution_start_time=instant(header.started_at),
            execution_input=_event(payload),
            operations=known,
            updated_operations={operation_id: known[operation_id] for operation_id in updated if operation_id in known},
        )
        self._plugins = Plugins(self._factories, self._start)
        self._plugins.begin(self._start)

    def _forget(self, updated: frozenset[str] = frozenset()) -> None:
        """Forget what was reported to the plugins of the invocation that ended, because the next one has new plugins. `updated` are the ids
        of the operations that the service changed between the two."""
        self._updated = updated
        self._met_again: set[str] = set()
        self._ends: dict[str, Operation] = {}
        """The operations that have ended, by id, as far as no hook has reported their end yet."""
        self._ended: set[str] = set()
        self._changed: dict[str, None] = {}
        self._telling_changes = False

    def end(self, outcome: Outcome) -> Outcome:
        """An invocation has ended: report what was not reported yet, then the end. Returns `outcome`, or a CRASHED outcome if a plugin
        stopped the invocation: then the handler is invoked again."""
        plugins, start = self._plugins, self._start
        if plugins is None or start is None:
            return outcome
        try:
            try:
                self._tell_rest()
            finally:
                self._plugins = None
                plugins.end(InvocationEndInfo.from_durable_execution_invocation_output(start, outcome, self._told()))
        except BaseException as stop:
            return outcome if outcome.status is OutcomeStatus.CRASHED else stopped(stop)
        return outcome

    def _tell_rest(self) -> None:
        ends = [functools.partial(self._tell_end, operation_id) for operation_id in list(self._ends)]
        rest: list[Callable[[], None]] = [self._leave_all, *ends, self._tell_changes]
        stop: BaseException | None = None
        for tell in rest:
            try:
                tell()
            except BaseException as said:
                stop = stop or said
        if stop is not None:
            raise stop

    # --- operations

    def met_again(self, operation: Operation) -> None:
        """A replay reaches an operation. If the service changed the operation since the invocation before this one: report its end, if it
        is closed, and report nothing, if it is open. If the service did not change it: report its start, if it is open and not READY
        (`met_open`)."""
        if operation.id not in self._updated:
            self.met_open(operation)
        elif operation.status not in OPEN:
            with self._lock:
                if operation.id not in self._ended:
                    self._ends.setdefault(operation.id, operation)
            self._tell_end(operation.id)
        else:
            self._opened(operation.id)

    def met_open(self, operation: Operation) -> None:
        """A replay reaches an operation: report its start, if it is open. The start of a READY operation is not reported here, but when its
        next attempt begins."""
        if operation.status not in OPEN:
            return
        self._opened(operation.id)
        with self._lock:
            if operation.status is Status.READY or operation.id in self._met_again:
                return
            self._met_again.add(operation.id)
        op, began_at = operation, instant(operation.started_at)
        self._tell(OperationStartInfo(op.id, op.type, op.sub_type, op.name, op.parent_id, began_at, True, op.status))

    def recording(self, update: Update) -> None:
        """An update is about to be written: if the update starts its operation, or the next attempt of a step, report that start."""
        if update.action is not Action.START:
            return
        self._opened(update.id)
        again = update.id in self._operations
        self._tell(OperationStartInfo(update.id, update.type, update.sub_type, update.name, update.parent_id, None, again, Status.STARTED))

    def recorded(self, update: Update) -> None:
        """An update is on disk, and the code waited for that: report the end of its operation, if the operation has ended, and then what
        checkpoints changed."""
        self._tell_end(update.id)
        self._tell_changes()

    def looked(self, operation: Operation) -> None:
        """The code looks at the present state of an operation: report its end, if it has ended and its end was not reported yet."""
        if operation.status not in OPEN:
            self._tell_end(operation.id)

    def learning(self, operations: Iterable[Operation], learn: Callable[[Iterable[Operation]], None]) -> None:
        """The service changed these operations, or answered a checkpoint with them: note which have a new status and which have ended, then
        call `learn` with them. The ends are noted before the code can see them, so that they are reported before the code continues."""
        changed: dict[str, None] = {}
        with self._lock:
            for operation in operations:
                self._hidden.discard(operation.id)
                before = self._operations.get(operation.id)
                if before is None or before.status is not operation.status:
                    changed[operation.id] = None
                if operation.status not in OPEN and operation.id not in self._ended:
                    self._ends[operation.id] = operation
        learn(operations)
        if self._plugins is not None and self._plugins.want_changes:
            with self._lock:
                self._changed |= changed

    def context_ended(self, at: Identity, *, error: ErrorObject | None = None, is_replayed: bool = False) -> None:
        """A context has ended without a new record of its end, because it is virtual or the history has its end already: report its end.
        `error` is None if the context succeeded. `is_replayed`: whether the history has its end already."""
        status = Status.SUCCEEDED if error is None else Status.FAILED
        now = instant(self._clock.now())
        self._tell(
            OperationEndInfo(
                at.operation_id, at.type, at.sub_type, at.name, at.parent_id, None, is_replayed, status, end_time=now, error=error
            )
        )

    def _tell_end(self, operation_id: str) -> None:
        """Report the end of an operation, if its end is noted and not reported yet. Before that, report the noted ends of the waits,
        callbacks and invokes directly inside it: no code has read their results."""
        with self._lock:
            if operation_id not in self._ends:
                return
            inside = [op.id for op in self._ends.values() if op.parent_id == operation_id and op.type in SERVED]
            over = [self._ends.pop(each) for each in (*reversed(inside), operation_id)]
            self._ended.update(operation.id for operation in over)
        for operation in over:
            self._open.pop(operation.id, None)
            self._tell(OperationEndInfo(**vars(OperationInfo.from_operation(operation))))

    def _tell_changes(self) -> None:
        """Report which operations checkpoints have changed. If several threads call this, one of them reports for all, so that plugins
        never get an older state after a newer one."""
        while self._changed:
            with self._lock:
                if self._telling_changes or not self._changed:
                    return
                changed, self._changed = self._changed, {}
                self._telling_changes = True
            try:
                known = self._told()
                if self._plugins is not None:
                    updated = {each: known[each] for each in changed}
                    self._plugins.tell_change(OperationChangeInfo(self._invocation.arn, updated, known))
            finally:
                self._telling_changes = False

    # --- functions

    def watched(self, func: Callable[..., Any], at: Identity, attempt: int) -> Callable[..., Any]:
        """Wrap `func`, the function of a step or the check of a condition. Returns a function that calls it and reports the start and the
        end of each call, with the number `attempt`."""

        def call(*arguments: Any) -> Any:
            body = self._enter(at, attempt)
            try:
                value = func(*arguments)
            except BaseException as error:
                self._leave(body, error)
                raise
            if inspect.iscoroutine(value):
                return finish(value, body)
            self._leave(body, None)
            return value

        async def finish(coroutine: Coroutine[Any, Any, Any], body: RunningBody) -> Any:
            try:
                value = await coroutine
            except BaseException as error:
                self._leave(body, error)
                raise
            self._leave(body, None)
            return value

        call._original = getattr(func, "_original", func)  # type: ignore[attr-defined]
        return call

    def running(self, at: Identity, plan: Plan[T], seen: Operation | None) -> Plan[T]:
        """Wrap `plan`, the body of a context. Returns a plan that runs it, and reports its start and its end. If the body rests between two
        invocations, an end is reported to the plugins of the first invocation, and a start to those of the second. `seen` is the recorded
        context; None if the context is new."""
        opened = self._opened(at.operation_id)
        opened.body = body = self._enter(at, 1 if seen is None else None, again=seen is not None and seen.replay_children)
        try:
            value = yield from plan
        except BaseException as error:
            self._leave(body, error)
            raise
        finally:
            self._open.pop(at.operation_id, None)
        self._leave(body, None)
        return value

    def _enter(self, at: Identity, attempt: int | None, *, again: bool = False) -> RunningBody:
        now = instant(self._clock.now())
        began = UserFunctionStartInfo(
            at.operation_id, at.type, at.sub_type, at.name, at.parent_id, now, False, Status.STARTED, again, attempt=attempt
        )
        return self._begin_body(RunningBody(began))

    def _begin_body(self, body: RunningBody) -> RunningBody:
        body.over = False
        self._bodies[id(body)] = body
        self._tell(body.began)
        return body

    def _leave(self, body: RunningBody, error: BaseException | None) -> None:
        """Report once that a function has ended: SUCCEEDED if `error` is None, FAILED after an Exception, INCOMPLETE after another
        BaseException such as a suspension."""
        with self._lock:
            if body.over:
                return
            body.over = True
            del self._bodies[id(body)]
        failed = ErrorObject.from_exception(error) if isinstance(error, Exception) else None
        outcome = UserFunctionOutcome.from_error(failed) if error is None or failed else UserFunctionOutcome.INCOMPLETE
        self._tell(UserFunctionEndInfo.from_start_info(body.began, failed, outcome=outcome, clock=self._clock))

    def _leave_all(self) -> None:
        """Report the end of every function that is still under way when the invocation ends. Such a function rests in memory, or is in a
        branch that its batch did not wait for."""
        for body in reversed(list(self._bodies.values())):
            self._leave(body, LEFT)

    # --- chained invokes

    def trace_id(self, at: Identity, function_name: str) -> str | None:
        """The trace id that a plugin gives for a `context.invoke` of this function; None if no plugin gives one."""
        if self._plugins is None:
            return None
        with _until_stopped():
            return self._plugins.trace_id(PropagationInput(self._invocation.arn, at.operation_id, function_name, at.parent_id))

    # --- calling the plugins

    def _tell(self, info: Info) -> None:
        if self._plugins is not None:  # a branch that continues after its invocation has no plugins
            with _until_stopped():
                self._plugins.tell(info)

    def _opened(self, operation_id: str) -> Open:
        return self._open.setdefault(operation_id, Open())

    def _told(self) -> dict[str, OperationInfo]:
        """All operations that plugins may see, in their present state, by id. The first one stands for the execution itself."""
        header = self._invocation.header
        execution = Operation(id=header.id, type=Type.EXECUTION, status=Status.STARTED, started_at=header.started_at, name=header.name)
        known = [execution, *self._operations.values()]
        return {op.id: OperationInfo.from_operation(op) for op in known if op.id not in self._hidden}


@contextmanager
def _until_stopped() -> Iterator[None]:
    """A context manager around calls of plugins. If a plugin raises an exit such as SystemExit, the context manager raises
    BackgroundThreadError in its place: that ends the invocation, but not the event loop, which other executions share."""
    try:
        yield
    except BaseException as stop:
        raise BackgroundThreadError("A plugin stopped this invocation.", stop) from None  # type: ignore[arg-type]


def stopped(stop: BaseException) -> Outcome:
    """The outcome of an invocation that a plugin stopped by raising `stop`: the handler is invoked again."""
    if isinstance(stop, BackgroundThreadError):
        stop = stop.source_exception
    return Outcome(OutcomeStatus.CRASHED, error=ErrorObject.from_exception(stop).to_failure())


def _event(payload: str | None) -> Any:
    try:
        return json.loads(payload) if payload and payload.strip() else {}
    except ValueError:  # the handler itself reports a payload that is not JSON
        return None


def instant(at: int) -> datetime:
    """The datetime, in UTC, of a time in milliseconds since the epoch."""
    return datetime.fromtimestamp(at / 1000, UTC)

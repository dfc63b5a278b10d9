"""Hooks: the moments of an execution that its plugins are told of, the same as the official SDK's.

A state without plugins has no hooks: everybody asks for that first, and nothing here is reached. The plugins are one invocation's;
the hooks stay as long as the state does.
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
from holdfast.durable.hooks.calls import Info, Plugins
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
"""Why a function ends that nothing was raised in."""


class Body(msgspec.Struct, eq=False):
    """One run of a user's function."""

    began: UserFunctionStartInfo
    over: bool = False


class Open(msgspec.Struct):
    """An operation that the code has come to and that is not over."""

    strand: Any = None
    """Where it runs, if that can rest between two invocations."""
    body: Body | None = None
    """Of a context."""


class Hooks:
    """Tells the plugins of one execution, in this process, what happens to it."""

    def __init__(self, factories: Sequence[DurableInstrumentationPluginFactory], operations: Mapping[str, Operation], clock: Clock) -> None:
        self._factories = factories
        self._operations = operations
        self._clock = clock
        self._lock = threading.Lock()
        """Branches of a `def` handler are threads. No plugin is called under it."""
        self._plugins: Plugins | None = None
        self._start: InvocationStartInfo | None = None
        self._forget()
        self._open: dict[str, Open] = {}
        """In the order of the code."""
        self._hidden: set[str] = set()
        """Operations that are still at hand, though the service would not send them any more."""
        self._bodies: dict[int, Body] = {}
        """The runs under way, in the order they began."""

    # --- invocations

    def begin(self, invocation: Invocation, payload: str | None) -> None:
        """An invocation begins. From its input the plugins get an event of their own, so that none of them can change the handler's."""
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
        """What was told is one invocation's."""
        self._updated = updated
        self._met_again: set[str] = set()
        self._ends: dict[str, Operation] = {}
        """Told by a checkpoint, and not yet by a hook."""
        self._ended: set[str] = set()
        self._changed: dict[str, None] = {}
        self._telling_changes = False

    def end(self, outcome: Outcome) -> Outcome:
        """An invocation is over: all that was not told yet, then the end. If a plugin says stop, the invocation is tried again."""
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
        """A replay comes to an operation: told as over if the service closed it meanwhile, as begun if it is open."""
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
        """A replay comes to an operation that is open. One that is ready is about to begin again, and is told then."""
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
        """An update is about to be written."""
        if update.action is not Action.START:
            return
        self._opened(update.id)
        again = update.id in self._operations
        self._tell(OperationStartInfo(update.id, update.type, update.sub_type, update.name, update.parent_id, None, again, Status.STARTED))

    def recorded(self, update: Update) -> None:
        """An update is on disk, and somebody waited for it."""
        self._tell_end(update.id)
        self._tell_changes()

    def looked(self, operation: Operation) -> None:
        """Somebody acts on an operation as it stands."""
        if operation.status not in OPEN:
            self._tell_end(operation.id)

    def learning(self, operations: Iterable[Operation], learn: Callable[[Iterable[Operation]], None]) -> None:
        """A checkpoint was answered. Its ends are kept before anybody can see them, so that whoever does tells them first."""
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
        """A context without an end of its own in the history is over."""
        status = Status.SUCCEEDED if error is None else Status.FAILED
        now = instant(self._clock.now())
        self._tell(
            OperationEndInfo(
                at.operation_id, at.type, at.sub_type, at.name, at.parent_id, None, is_replayed, status, end_time=now, error=error
            )
        )

    def _tell_end(self, operation_id: str) -> None:
        """Tell an end that is not told yet. What the service closed inside of it, and nobody asked for, comes first."""
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
        """Tell what checkpoints changed. One thread at a time does it, for all the others too, so that no state comes after a newer one."""
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
        """A step's function that tells of itself wherever it runs: on the loop, or on a thread."""

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

        async def finish(coroutine: Coroutine[Any, Any, Any], body: Body) -> Any:
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
        """A context's body that tells of itself. While it rests between two invocations its run is over, and begins again with the next."""
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

    def _enter(self, at: Identity, attempt: int | None, *, again: bool = False) -> Body:
        now = instant(self._clock.now())
        began = UserFunctionStartInfo(
            at.operation_id, at.type, at.sub_type, at.name, at.parent_id, now, False, Status.STARTED, again, attempt=attempt
        )
        return self._begin_body(Body(began))

    def _begin_body(self, body: Body) -> Body:
        body.over = False
        self._bodies[id(body)] = body
        self._tell(body.began)
        return body

    def _leave(self, body: Body, error: BaseException | None) -> None:
        """A run is over, once. What is no Exception is a suspension, or an end from outside: the function was left in the middle."""
        with self._lock:
            if body.over:
                return
            body.over = True
            del self._bodies[id(body)]
        failed = ErrorObject.from_exception(error) if isinstance(error, Exception) else None
        outcome = UserFunctionOutcome.from_error(failed) if error is None or failed else UserFunctionOutcome.INCOMPLETE
        self._tell(UserFunctionEndInfo.from_start_info(body.began, failed, outcome=outcome, clock=self._clock))

    def _leave_all(self) -> None:
        """The invocation ends around functions that have not: branches that wait, or that their batch did not wait for."""
        for body in reversed(list(self._bodies.values())):
            self._leave(body, LEFT)

    # --- chained invokes

    def trace_id(self, at: Identity, function_name: str) -> str | None:
        """The trace id that a chained invoke carries on."""
        if self._plugins is None:
            return None
        with _until_stopped():
            return self._plugins.trace_id(PropagationInput(self._invocation.arn, at.operation_id, function_name, at.parent_id))

    # --- telling

    def _tell(self, info: Info) -> None:
        if self._plugins is not None:  # a branch that goes on after its invocation is nobody's
            with _until_stopped():
                self._plugins.tell(info)

    def _opened(self, operation_id: str) -> Open:
        return self._open.setdefault(operation_id, Open())

    def _told(self) -> dict[str, OperationInfo]:
        """All operations as they stand, the execution first."""
        header = self._invocation.header
        execution = Operation(id=header.id, type=Type.EXECUTION, status=Status.STARTED, started_at=header.started_at, name=header.name)
        known = [execution, *self._operations.values()]
        return {op.id: OperationInfo.from_operation(op) for op in known if op.id not in self._hidden}


@contextmanager
def _until_stopped() -> Iterator[None]:
    """A plugin that says stop ends the invocation, and not the loop it runs on, which other executions share."""
    try:
        yield
    except BaseException as stop:
        raise BackgroundThreadError("A plugin stopped this invocation.", stop) from None  # type: ignore[arg-type]


def stopped(stop: BaseException) -> Outcome:
    """What an invocation comes to that a plugin says stop to."""
    if isinstance(stop, BackgroundThreadError):
        stop = stop.source_exception
    return Outcome(OutcomeStatus.CRASHED, error=ErrorObject.from_exception(stop).to_failure())


def _event(payload: str | None) -> Any:
    try:
        return json.loads(payload) if payload and payload.strip() else {}
    except ValueError:  # the handler's to complain about
        return None


def instant(at: int) -> datetime:
    """A time as plugins get it."""
    return datetime.fromtimestamp(at / 1000, UTC)

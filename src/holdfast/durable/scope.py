"""A scope: the part of the execution that belongs to one context. It counts the calls of the context, knows whether the context replays,
and computes the context's time, ids and random numbers.

The contexts of `def` and of `async def` handlers use it. Only one strand (the handler, or one branch) uses a scope at a time: with two
strands the order of the ids could differ from replay to replay.
"""

from __future__ import annotations

import contextlib
import logging
import uuid
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Any, NamedTuple

from holdfast.durable.author_lines import calling_frame
from holdfast.durable.concurrency.unread import is_unread
from holdfast.durable.exceptions import ExecutionError, NonDeterministicExecutionError, SuspendExecution
from holdfast.durable.identifier import PATCH, Identity, described, operation_id, patch_id
from holdfast.durable.logger import Logger, LogInfo
from holdfast.durable.plan import Plan
from holdfast.durable.protocols import LoggerInterface
from holdfast.durable.state import ExecutionState
from holdfast.durable.unawaited import Unstarted, Unstarteds, let_go, not_awaited
from holdfast.model.operations import OPEN, Action, Operation, SubType, Type

log = logging.getLogger("holdfast.durable")

_BUSY = (
    "This context is already busy with a durable call. A context makes one call at a time, so that its calls have the same order in "
    "every replay. For concurrent work use `context.parallel`, which gives each branch a context of its own. Inside a step or a child "
    "context use the context that the function gets as its argument, not the context around it."
)
_SWALLOWED = (
    "A suspension was swallowed: a durable call raised SuspendExecution to leave the function until it is invoked again, and an "
    "`except:` or `except BaseException:` around the call caught it. Around durable calls catch `Exception` or a named error, never "
    "everything, and do not return from a `finally`."
)

_NOT_CONTINUED = (
    "continue_as_new was swallowed: it raises ContinueAsNew to leave the function, and an `except:` or `except BaseException:` around it "
    "caught that. Catch `Exception` or a named error, never everything."
)


_NOT_LOOKED_AT = (
    "%s/%s: in %s %d of %d branches failed, and the code never looked at that. Call throw_if_error() on the result to raise the first "
    "error, or failed() to get the failed branches. If failures are expected, use a CompletionConfig that tolerates them"
)


class Unread(NamedTuple):
    """The result of a `map` or `parallel` in which branches failed, with its call, the number of failed branches and the number of all
    branches."""

    at: Identity
    result: object
    failed: int
    total: int

    def described(self) -> str:
        """The `map` or `parallel` as log messages name it, such as `Map 'orders'`; without a name, `unnamed Map`."""
        return described(self.at.type, self.at.sub_type, self.at.name)


class Scope:
    """The state of one context: the number of its calls, whether it replays, and what Holdfast must check when its code ends."""

    __slots__ = (
        "_beginnings",
        "_busy",
        "_chances",
        "_count",
        "_log_to",
        "_logger",
        "_patches",
        "_seen_at",
        "_upcoming",
        "_uuids",
        "continuing",
        "make_context",
        "parent_id",
        "prefix",
        "replaying",
        "state",
        "suspended",
        "unread",
        "unstarted",
    )

    def __init__(
        self,
        state: ExecutionState,
        make_context: Callable[[Scope], Any],
        *,
        parent_id: str | None = None,
        prefix: str | None = None,
        replaying: bool,
        log_to: LoggerInterface | None = None,
    ) -> None:
        self.state = state
        self.make_context = make_context
        """Makes the context that user code gets: for a `def` or an `async def` handler."""
        self.parent_id = parent_id
        self.prefix = prefix if prefix is not None else parent_id
        self.replaying = replaying
        self.suspended = False
        """Whether a suspension passed through this context. Then its further calls are refused. If its code returns, the code has caught
        the suspension."""
        self.continuing = False
        """Whether the handler called continue_as_new. If the handler returns after that, it has caught the exception."""
        self.unstarted: Unstarteds | None = None
        """Calls that were made and have not begun. None if there are none, to save memory: ten thousand contexts may wait."""
        self.unread: tuple[Unread, ...] = ()
        """Results of map and parallel that have failures which their completion config does not tolerate. When the code of this context has
        ended, a warning is logged for those that the code has not read."""
        self._count = 0
        self._upcoming: str | None = None
        """The id of the next call, if it is known already: a replay looks one call ahead."""
        self._busy = False
        self._seen_at = state.header.started_at
        self._beginnings: set[str] | None = None
        """The ids of callbacks and timers whose creating call has not returned yet. None if there are none, to save memory."""
        self._uuids = 0
        self._chances = 0
        self._patches: dict[str, bool] | None = None
        self._log_to = log_to
        self._logger: Logger | None = None

    @property
    def logger(self) -> Logger:
        """A logger that adds this context's fields to each line. It is made at the first use: most contexts log nothing, and many wait in
        memory."""
        if self._logger is None:
            self._logger = Logger.from_log_info(self._logs_to(), LogInfo(self.state, self.parent_id), self.is_replaying)
        return self._logger

    def log_to(self, logger: LoggerInterface) -> None:
        """Use this logger for the lines of this scope, and of the scopes that it makes later."""
        self._log_to, self._logger = logger, None

    def logger_in(self, identity: Identity, attempt: int) -> Logger:
        """A logger that adds the fields of one attempt of an operation to each line."""
        place = (identity.parent_id, identity.operation_id, identity.name, attempt)
        return Logger.where(self._logs_to(), lambda: LogInfo(self.state, *place), self.is_replaying)

    def _logs_to(self) -> LoggerInterface:
        return self._log_to if self._log_to is not None else logging.getLogger()

    def is_replaying(self) -> bool:
        return self.replaying

    def next_identity(self, kind: Type, sub_type: str, name: str | None) -> Identity:
        """The identity of the next call, with this type, sub-type and name. A durable call takes its identity when the code calls the
        method, not when it awaits the result, so that the ids follow the order of the code."""
        self._count += 1
        id, self._upcoming = self._upcoming or operation_id(self.prefix, self._count), None
        return Identity(id, kind, sub_type, self.parent_id, name)

    def child(self, identity: Identity, *, virtual: bool = False) -> Scope:
        """The scope of the calls inside the operation `identity`. With `virtual`, the scope has no operation of its own in the history, so
        the parent of its calls is the operation around it."""
        made = Scope(
            self.state,
            self.make_context,
            parent_id=self.parent_id if virtual else identity.operation_id,
            prefix=identity.operation_id,
            replaying=self.replaying,
            log_to=self._log_to,
        )
        made._seen_at = self._seen_at
        return made

    def branch(self, identity: Identity, index: int, sub_type: SubType, name: str) -> Identity:
        """The identity of a branch. `identity` is the identity of the branch's batch. The branch's id depends only on the batch and on
        `index`, not on the order in which branches run."""
        return Identity(operation_id(identity.operation_id, index), Type.CONTEXT, sub_type.value, identity.operation_id, name)

    def call(self, identity: Identity) -> _Call:
        """A context manager around one durable call: it calls `began` at the start and `ended` at the end, and notes a suspension that
        passes through it."""
        return _Call(self, identity)

    def began(self, identity: Identity) -> bool:
        """Note that a durable call begins. Returns True if this context replays, and the replay ends when this call returns, because the
        operation of the call is still open. Raises ExecutionError if another call of this context is under way, SuspendExecution if this
        context is suspended."""
        self._check_free()
        self._busy = True
        return self._begin_call(identity) if self.replaying else False

    def _check_free(self) -> None:
        if self.suspended:
            raise SuspendExecution("This execution is suspended: durable calls are refused. Do not make them in a `finally`.")
        if self._busy:
            raise ExecutionError(_BUSY)

    def ended(self, identity: Identity, *, resumed: bool) -> None:
        """Note that a durable call returns to user code, with a result, an error or a suspension. `resumed` is what `began` returned for
        this call. The replay ends now if `resumed` is True, or if the history does not have the next call."""
        self._busy = False
        operations = self.state.operations
        done = operations.get(identity.operation_id)
        if done is not None and self._beginnings is not None and identity.operation_id in self._beginnings:
            self._beginnings = self._beginnings - {identity.operation_id} or None
            self._seen_at = max(self._seen_at, done.started_at)
        elif done is not None:
            self.passed(done)
        if self.replaying:
            self._upcoming = operation_id(self.prefix, self._count + 1)
            self.replaying = not resumed and self._upcoming in operations

    def only_begins(self, identity: Identity) -> Identity:
        """Note that the next durable call with this identity only begins its operation, and returns before the operation has ended. In a
        replay the operation may have ended already, and `now` must not show that: when that durable call returns, `now` moves to the time
        at which the operation began, not to the time at which it ended. Returns `identity`."""
        self._beginnings = {*(self._beginnings or ()), identity.operation_id}
        return identity

    def ends_now(self) -> int:
        """The present time in milliseconds since the epoch: a child context ends now, although its end is written later. From now on `now`
        returns this time or a later one."""
        ended_at = self.state.clock.now()
        self._seen_at = max(self._seen_at, ended_at)
        return ended_at

    def passed(self, done: Operation) -> None:
        """Note when the operation `done` ended (if it is open: when it began), so that `now` returns that time or a later one. `done` is
        the last operation that the current call used."""
        self._seen_at = max(self._seen_at, done.ended_at or done.started_at)

    def check_not_swallowed(self) -> None:
        """Raise ExecutionError if the code of the context returned although it caught a suspension, caught a `continue_as_new`, or
        made a durable call that it never awaited."""
        if self.suspended:
            raise ExecutionError(_SWALLOWED)
        if self.continuing:
            raise ExecutionError(_NOT_CONTINUED)
        if self.unstarted and (forgotten := let_go(self.unstarted)):
            raise not_awaited(forgotten)

    def asked(self, plan: Plan[Any], coroutine: Coroutine[Any, Any, Any], identity: Identity | None) -> None:
        """Note that the code of an `async def` handler made a call. The call has not begun: it begins when it is awaited. `identity` is
        None for a `with_retry` without a child context."""
        frame = calling_frame(3)  # the author's code called a method of the context, which called `_drive`, which called this
        call = Unstarted(coroutine, identity, frame.f_code, frame.f_lasti)
        if self.unstarted is None:
            self.unstarted = {plan: call}
        else:
            self.unstarted[plan] = call

    def awaited(self, plan: Plan[Any]) -> None:
        """Note that a call begins: the code awaits it, or a task runs it."""
        if self.unstarted is not None:
            self.unstarted.pop(plan, None)
            if not self.unstarted:
                self.unstarted = None

    def tell_unread(self) -> None:
        """Log a warning for each result in `unread` whose failures the code never read. Called when the code of the context has
        returned."""
        header = self.state.header
        for batch in self.unread:
            if is_unread(batch.result):
                log.warning(_NOT_LOOKED_AT, header.function, header.name, batch.described(), batch.failed, batch.total)
        self.unread = ()

    def leave(self) -> None:
        """Close the coroutines of calls that were never awaited, so that Python does not warn about them. Called when the context's code
        has ended, with a result or an error."""
        if self.unstarted:
            let_go(self.unstarted)

    def _begin_call(self, identity: Identity) -> bool:
        """Called at the start of a call while this context replays. If the history does not have the call, or has it as a step that has not
        ended, the replay ends now, and False is returned. Otherwise returns whether the operation of the call is still open: in that case
        the replay ends when the call returns."""
        found: Operation | None = self.state.operations.get(identity.operation_id)
        if found is not None and self.state.hooks is not None:
            with contextlib.suppress(NonDeterministicExecutionError):  # the call itself raises if it is another operation
                identity.check(found)
                self.state.hooks.met_again(found)
        if found is None or (found.type is Type.STEP and found.status in OPEN):
            self.replaying = False
            return False
        return found.status in OPEN

    # --- changed code

    def patched(self, name: str) -> bool:
        """What `context.patched` returns: whether the changed code runs. The first call with this name in this context decides for all
        later ones, so that a loop always gets the same answer."""
        self._check_free()
        known = self._patches = self._patches if self._patches is not None else {}
        if name not in known:
            at = Identity(patch_id(self.prefix, name), Type.STEP, PATCH, self.parent_id, name)
            try:
                known[name] = self.state.lookup(at) is not None or (not self._goes_on() and self._mark(at))
            except NonDeterministicExecutionError as error:
                self.state.raised(error)
                raise
        return known[name]

    def _goes_on(self) -> bool:
        """Whether the history shows that an earlier invocation passed this point of the code: the history has the next call of this
        context, or the end of this context (for a virtual context: of the context around it)."""
        operations = self.state.operations
        around = [operations[id] for id in {self.prefix, self.parent_id} if id is not None and id in operations]
        return operation_id(self.prefix, self._count + 1) in operations or any(op.status not in OPEN for op in around)

    def _mark(self, at: Identity) -> bool:
        """Record the marker of `patched`, and return True. The marker goes into the next write, so no later call of this context is on disk
        without it."""
        update = at.update(Action.SUCCEED)
        if self.state.hooks is not None:
            self.state.hooks.recording(update)
        self.state.record_later(update)
        return True

    # --- the same on every replay, without a checkpoint

    def now(self) -> datetime:
        return datetime.fromtimestamp(self._seen_at / 1000, UTC)

    def uuid(self) -> uuid.UUID:
        self._uuids += 1
        return uuid.UUID(bytes=self._derived("uuid", self._uuids)[:16], version=4)

    def random(self) -> float:
        self._chances += 1
        return int.from_bytes(self._derived("random", self._chances)[:7], "big") / (1 << 56)

    def remaining(self) -> timedelta:
        state = self.state
        return timedelta(milliseconds=max(0, state.header.deadline - state.clock.now()))

    def _derived(self, kind: str, count: int) -> bytes:
        return blake2b(f"{self.state.header.id}/{self.prefix or ''}/{kind}/{count}".encode()).digest()


class _Call:
    """One durable call of a scope, as a context manager."""

    __slots__ = ("_identity", "_resumed", "_scope")

    def __init__(self, scope: Scope, identity: Identity) -> None:
        self._scope = scope
        self._identity = identity

    def __enter__(self) -> None:
        self._resumed = self._scope.began(self._identity)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self._scope.ended(self._identity, resumed=self._resumed)
        if kind is not None and issubclass(kind, SuspendExecution):
            self._scope.suspended = True

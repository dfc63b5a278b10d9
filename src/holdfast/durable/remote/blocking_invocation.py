"""One invocation of a `def` handler in another process than its service.

The service does not tell this process about changes. A branch that must wait gives its thread back. As long as another branch runs, the
answers to the writes of that branch bring changes; and when a wait of a waiting branch is due, this module asks the service. If an
operation that a branch waits for has changed, the branch runs again from its start. When all branches wait, the invocation ends as PENDING.
"""

from __future__ import annotations

import contextvars
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from holdfast.durable.blocking_driver import BlockingState, Lend, drive
from holdfast.durable.context import DurableContext
from holdfast.durable.exceptions import BackgroundThreadError, SuspendExecution
from holdfast.durable.hooks.moments import Hooks
from holdfast.durable.invocation_outcome import PENDING, failed
from holdfast.durable.plan import Done, Plan, Spawn, Suspend
from holdfast.durable.remote.invocation import SELDOM_MS, SOON_MS, Ended, InvocationThreads, RemoteFunction
from holdfast.durable.remote.port import RemotePort
from holdfast.durable.scope import Scope
from holdfast.durable.stragglers import Stragglers, ThreadStragglers
from holdfast.model.execution import OutcomeStatus
from holdfast.model.operations import Operation
from holdfast.model.ports import Invocation


class Resting(SuspendExecution):
    """A suspension that says which operations the suspended strand waits for."""

    def __init__(self, operations: Mapping[str, int], due_at: int | None) -> None:
        super().__init__(f"Waiting for {', '.join(operations)}.")
        self.operations = operations
        """The ids of the operations that the strand waits for, each with the revision that the strand saw."""
        self.due_at = due_at
        """When the first of them is due, in milliseconds since the epoch; None if none of them ends at a known time."""
        self.pause_ms = SOON_MS


class BlockingRemoteState(BlockingState):
    """The state of an execution outside of the runner: it must ask the service for changes."""

    def __init__(self, invocation: Invocation, port: RemotePort, stragglers: Stragglers, *, lend: Lend) -> None:
        super().__init__(invocation, port, port.clock, stragglers, lend=lend)
        self.changed = threading.Condition()
        """Notified when operations changed, or when a branch ended."""

    def learn(self, operations: Iterable[Operation]) -> None:
        super().learn(operations)
        with self.changed:
            self.changed.notify_all()

    def refresh(self) -> None:
        """Ask the service for changes, with a checkpoint that may have no updates, and wait for the answer."""
        self.flush(even_if_empty=True)

    def suspension(self, effect: Suspend) -> SuspendExecution:
        """The exception that frees the thread of a strand that must wait. It says which operations the strand waits for, so that the strand
        can run again when one of them changes."""
        waits = [effect.operation_id, *(other.id for other in effect.others)]
        due = [at for operation_id in waits if (at := self.operations[operation_id].due_at) is not None]
        return Resting({operation_id: self._blocked[operation_id] for operation_id in waits}, min(due, default=None))

    def has_news_for(self, waits: Resting) -> bool:
        """Whether one of the operations in `waits` has changed since the strand saw it."""
        return any(self.operations[at].revision > then for at, then in waits.operations.items())

    def unblock(self, waits: Resting) -> None:
        """Forget what a strand waited for, because it runs again."""
        for operation_id in waits.operations:
            self._blocked.pop(operation_id, None)

    @property
    def has_news(self) -> bool:
        """Whether an operation that a strand waits for has changed, and the strand has not run again after the change."""
        return self.acted_on < self.revision

    def strands(self) -> _Strands:
        return _Strands(self)


class _Strands:
    """Runs the branches of one `map` or `parallel`. A branch that waits for an operation is run again, from its beginning, when that
    operation has changed."""

    def __init__(self, state: BlockingRemoteState) -> None:
        self._state = state
        self._changed = state.changed
        self._here: deque[Callable[[], None]] = deque()
        """Branches for which no thread was free."""
        self._elsewhere = 0
        self._resting: dict[int, tuple[Spawn, Resting]] = {}
        self._done: deque[Done] = deque()
        self._fatal: BaseException | None = None

    def spawn(self, spawn: Spawn) -> None:
        self._begin(spawn, spawn.plan)

    def next_done(self) -> Done:
        while True:
            with self._changed:
                if self._fatal is not None:
                    raise self._fatal
                if self._done:
                    return self._done.popleft()
                woken = self._woken()
                due = not woken and not self._here and self._wait()
            for spawn, plan in woken:
                self._begin(spawn, plan)
            if self._here:
                self._here.popleft()()
            elif due:
                self._look()

    def _begin(self, spawn: Spawn, plan: Plan[Any]) -> None:
        context = contextvars.copy_context()
        with self._changed:
            self._elsewhere += 1
        if not self._state.lend(lambda: context.run(self._work_elsewhere, spawn, plan)):
            with self._changed:
                self._elsewhere -= 1
            self._here.append(lambda: context.run(self._work, spawn, plan))

    def _work_elsewhere(self, spawn: Spawn, plan: Plan[Any]) -> None:
        try:
            self._work(spawn, plan)
        finally:
            with self._changed:
                self._elsewhere -= 1
                self._changed.notify_all()

    def _work(self, spawn: Spawn, plan: Plan[Any]) -> None:
        try:
            ended: Done | BaseException = Done(spawn.key, drive(plan, self._state))
        except Exception as error:
            ended = Done(spawn.key, None, error)
        except BaseException as raised:
            ended = raised
        with self._changed:
            if isinstance(ended, Done):
                self._done.append(ended)
            elif isinstance(ended, Resting):
                self._resting[spawn.key] = spawn, ended
            elif not isinstance(ended, SuspendExecution):  # refused, because the invocation is about to end
                self._fatal = ended
            self._changed.notify_all()

    def _woken(self) -> list[tuple[Spawn, Plan[Any]]]:
        """The waiting branches whose operations have changed, each with a new plan. They do not count as waiting any more."""
        woken = []
        for key, (spawn, waits) in list(self._resting.items()):
            if spawn.again is not None and self._state.has_news_for(waits):
                del self._resting[key]
                self._state.unblock(waits)
                woken.append((spawn, spawn.again()))
        return woken

    def _wait(self) -> bool:
        """Wait until an operation changes, a branch ends, or a waiting branch is due. Returns True only in the last case. Raises
        SuspendExecution if no branch runs."""
        due_at = min((waits.due_at for _, waits in self._resting.values() if waits.due_at is not None), default=None)
        if self._elsewhere == 0:
            operations = {at: then for _, waits in self._resting.values() for at, then in waits.operations.items()}
            raise Resting(operations, due_at)
        if due_at is None:
            self._changed.wait()
            return False
        return not self._changed.wait(max(0, due_at - self._state.clock.now()) / 1000)

    def _look(self) -> None:
        """Ask the service for changes. A waiting branch that is due, but whose operations have not changed, becomes due again a little
        later."""
        self._state.refresh()
        now = self._state.clock.now()
        with self._changed:
            for _, waits in self._resting.values():
                if waits.due_at is not None and waits.due_at <= now and not self._state.has_news_for(waits):
                    waits.due_at = now + waits.pause_ms
                    waits.pause_ms = min(2 * waits.pause_ms, SELDOM_MS)


def run(function: RemoteFunction, port: RemotePort, lambda_context: Any) -> Ended:
    """Run the handler until it ends or can only wait, and return how it ended. If it can only wait, the outcome is PENDING, unless a write
    failed.

    If an operation that the handler waits for has changed meanwhile, the invocation must not end as PENDING, because the service would not
    invoke the function again for that change. In this case the handler runs again from its start in the same invocation (replay).
    """
    while True:
        ended, again = _run(function, port, lambda_context)
        if not again:
            return ended


def _run(function: RemoteFunction, port: RemotePort, lambda_context: Any) -> tuple[Ended, bool]:
    invocation = port.invocation(function.terms, getattr(lambda_context, "aws_request_id", None))
    threads, stragglers = InvocationThreads(), ThreadStragglers()
    state = BlockingRemoteState(invocation, port, stragglers, lend=threads.lend)
    if function.plugins:
        state.hooks = Hooks(function.plugins, state.operations, port.clock)
    scope = Scope(state, lambda scope: DurableContext(scope, lambda_context), replaying=state.has_history)
    try:
        if state.hooks is not None:
            state.hooks.begin(invocation, invocation.input)
        result = function.handler(function.read(invocation.input), DurableContext(scope, lambda_context))
        state.flush()
    except BaseException as error:
        ended = Ended(failed(state, error), error)
    else:
        ended = Ended(function.succeeded(state, scope, result))
    state.suspended = True  # branches that their batch did not wait for end at their next durable call
    threads.close()
    stragglers.close(wait=True)
    if ended.outcome.status is not OutcomeStatus.SUCCEEDED:  # so that plugins get the end of everything that began
        try:
            state.flush()
        except BackgroundThreadError as error:
            ended = Ended(failed(state, error), error) if ended.outcome is PENDING else ended
    if state.hooks is not None:
        ended = Ended(state.hooks.end(PENDING if port.revoked else ended.outcome), ended.error)
    return ended, ended.outcome is PENDING and not port.revoked and state.has_news

"""The inline host: handlers run in this process, `async def` on the engine's event loop, `def` on a bounded pool of threads.

A coroutine that waits may rest in memory after its invocation has ended. The next invocation then continues the coroutine instead of
replaying. Nothing depends on that: every wake is an invocation with an epoch, a token and an event of its own, and a resting coroutine can
be evicted at any time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from typing import Self

from holdfast.durable.blocking_driver import BlockingState
from holdfast.durable.context import DurableContext
from holdfast.durable.exceptions import BackgroundThreadError
from holdfast.durable.execution import DurableFunction
from holdfast.durable.hooks.moments import Hooks
from holdfast.durable.invocation_outcome import PENDING, crashed, failed, given, succeeded
from holdfast.durable.scope import Scope
from holdfast.durable.stragglers import LoopStragglers, ThreadStragglers, Unhurried
from holdfast.hosts.coroutine import Coroutine, Coroutines, Report
from holdfast.hosts.threads import Threads
from holdfast.model.clock import Clock
from holdfast.model.execution import Execution, Outcome, OutcomeStatus
from holdfast.model.operations import Operation
from holdfast.model.ports import Invocation, Port


class InlineHost:
    """Runs handlers in this process."""

    def __init__(self, functions: Iterable[DurableFunction], *, clock: Clock, threads: int, resting: int) -> None:
        self._clock = clock
        self._threads = Threads(threads)
        self._loop_stragglers: LoopStragglers | Unhurried = LoopStragglers()
        self._thread_stragglers: ThreadStragglers | Unhurried = ThreadStragglers()
        self._functions = {(f.name, f.version): f for f in functions}
        self._coroutines = Coroutines(resting)

    def unhurried(self) -> Self:
        """For tests: make this host do the same number of writes, however busy the machine is. Call this before the first invocation.
        Returns this host."""
        self._loop_stragglers = self._thread_stragglers = Unhurried()
        return self

    def invoke(self, invocation: Invocation, port: Port, done: Report) -> None:
        """Begin an invocation, or continue the coroutine that rests in memory for it, and return at once. When the invocation ends, `done`
        is called with the outcome and the last revision that the invocation saw. It is not called for a cancelled coroutine."""
        function = self._functions[invocation.header.function, invocation.header.version]
        if not function.is_async:
            future = self._threads.submit(lambda: self._block(function, invocation, port))
            asyncio.wrap_future(future).add_done_callback(lambda ended: _report(ended, invocation, done))
        elif (rested := self._coroutines.rested_for(invocation)) is not None:
            self._coroutines.run(rested)
            try:
                rested.resume(invocation, done)
            except BaseException:
                self.cancel(invocation.header.id)  # the next invocation replays
                raise
        else:
            self._coroutines.run(
                Coroutine(
                    self._coroutines,
                    function,
                    invocation,
                    port,
                    done,
                    clock=self._clock,
                    threads=self._threads,
                    stragglers=self._loop_stragglers,
                )
            )

    def hosts(self, function: str, version: str) -> bool:
        """Whether this host runs this version of the function."""
        return (function, version) in self._functions

    def cancel(self, execution: str) -> None:
        """Cancel the coroutine of an execution, because this process may not write to the execution any more. A handler on a thread cannot
        be ended: it continues until its next durable call, which is refused."""
        self._coroutines.cancel(execution)

    def learn(self, header: Execution, operations: Collection[Operation]) -> None:
        """Tell the live invocation of an execution that a write which it did not make has changed `operations`; if empty, the invocation
        reads what changed. A handler on a thread is not told."""
        running = self._coroutines.running(header.id)
        if running is not None:
            running.learn(header, operations)

    def look(self, execution: str) -> None:
        """Let the live invocation of an execution ask again whether it may stay live, if its code only waits."""
        running = self._coroutines.running(execution)
        if running is not None:
            running.look()

    def idle(self) -> bool:
        """Whether no invocation runs in this host, and no call waits for a thread."""
        return self._coroutines.idle and not self._threads.busy

    def close(self) -> None:
        """Cancel all coroutines, those that run and those that rest, and start no more calls on the threads. Calls that run on a thread
        continue."""
        self._coroutines.cancel_all()
        self._thread_stragglers.close()
        self._threads.close()

    def _block(self, function: DurableFunction, invocation: Invocation, port: Port) -> tuple[Outcome, int]:
        threads = self._threads
        state = BlockingState(invocation, port, self._clock, self._thread_stragglers, lend=threads.lend, crowded=threads.crowded)
        state.quarantines = function.on_mismatch == "quarantine"
        if function.plugins:
            state.hooks = Hooks(function.plugins, state.operations, self._clock)
        scope = Scope(state, DurableContext, replaying=state.has_history)
        payload = given(invocation, port)
        try:
            if state.hooks is not None:
                state.hooks.begin(invocation, payload)
            result = function.handler(function.read(payload), DurableContext(scope))
            state.flush()
        except BaseException as error:
            outcome = failed(state, error)
        else:
            outcome = succeeded(state, scope, result, function.write)
        if outcome.status is not OutcomeStatus.SUCCEEDED:  # updates that it had not yet written are written in any case
            try:
                state.flush()
            except BackgroundThreadError as error:
                outcome = failed(state, error) if outcome is PENDING else outcome
        if state.hooks is not None:
            outcome = state.hooks.end(outcome)
        return outcome, state.acted_on if outcome is PENDING else state.revision


def _report(ended: asyncio.Future[tuple[Outcome, int]], invocation: Invocation, done: Report) -> None:
    if ended.cancelled():
        return
    error = ended.exception()
    if error is None:
        done(*ended.result())
    else:  # Holdfast's own code failed around the handler: the invocation crashed, and the host continues
        done(crashed(error), invocation.header.revision)

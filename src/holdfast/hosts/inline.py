"""The inline host: handlers run in this very process, `async def` on the engine's loop, `def` on a bounded pool of threads.

A coroutine that waits may stay in memory ("parked") after its invocation has ended; the next invocation goes on with it instead of
replaying. Nothing depends on that: every wake is an invocation with an epoch, a token and an event of its own, and a parked coroutine
can be evicted at any time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Self

from holdfast.durable.blocking import BlockingState
from holdfast.durable.context import DurableContext
from holdfast.durable.exceptions import BackgroundThreadError
from holdfast.durable.execution import DurableFunction
from holdfast.durable.hooks.moments import Hooks
from holdfast.durable.outcomes import PENDING, crashed, failed, given, succeeded
from holdfast.durable.scope import Scope
from holdfast.durable.stragglers import LoopStragglers, ThreadStragglers, Unhurried
from holdfast.hosts.coroutine import Coroutine, Report
from holdfast.hosts.threads import Threads
from holdfast.model.clock import Clock
from holdfast.model.execution import Outcome, OutcomeStatus
from holdfast.model.ports import Invocation, Port


class InlineHost:
    """Runs handlers here."""

    def __init__(self, functions: Iterable[DurableFunction], *, clock: Clock, threads: int, park: int) -> None:
        self.clock = clock
        self.threads = Threads(threads)
        self.loop_stragglers: LoopStragglers | Unhurried = LoopStragglers()
        self._thread_stragglers: ThreadStragglers | Unhurried = ThreadStragglers()
        self._functions = {(f.name, f.version): f for f in functions}
        self._room = park
        self._running: dict[str, Coroutine] = {}
        self._parked: dict[str, Coroutine] = {}

    def unhurried(self) -> Self:
        """Call this before the first invocation: the number of writes then does not depend on how busy the machine is."""
        self.loop_stragglers = self._thread_stragglers = Unhurried()
        return self

    def invoke(self, invocation: Invocation, port: Port, done: Report) -> None:
        """Begin an invocation, or go on with the coroutine that waits for it."""
        execution = invocation.header.id
        function = self._functions[invocation.header.function, invocation.header.version]
        parked = self._parked.pop(execution, None)
        if parked is not None and not parked.precedes(invocation):
            parked.evict()
            parked = None
        if parked is not None:
            self._running[execution] = parked
            try:
                parked.resume(invocation, done)
            except BaseException:
                self.cancel(execution)  # the next invocation replays
                raise
        elif function.is_async:
            self._running[execution] = Coroutine(self, function, invocation, port, done)
        else:
            future = self.threads.submit(lambda: self._block(function, invocation, port))
            asyncio.wrap_future(future).add_done_callback(lambda ended: _report(ended, invocation, done))

    def hosts(self, function: str, version: str) -> bool:
        """Whether this function runs here."""
        return (function, version) in self._functions

    def park(self, coroutine: Coroutine) -> bool:
        """Keep a resting coroutine; the one that has rested longest makes room."""
        if not self._room:
            return False
        self._running.pop(coroutine.execution, None)
        self._parked[coroutine.execution] = coroutine
        if len(self._parked) > self._room:
            self._parked.pop(next(iter(self._parked))).evict()
        return True

    def forget(self, coroutine: Coroutine) -> None:
        """A coroutine is over."""
        for known in (self._running, self._parked):
            if known.get(coroutine.execution) is coroutine:
                del known[coroutine.execution]

    def cancel(self, execution: str) -> None:
        """End an invocation that may not write any more. A thread cannot be ended: its next durable call will be refused."""
        for known in (self._running, self._parked):
            found = known.pop(execution, None)
            if found is not None:
                found.cancel()

    def nudge(self, execution: str) -> None:
        """Something changed that a live invocation may be waiting for."""
        running = self._running.get(execution)
        if running is not None:
            running.refresh()

    def idle(self) -> bool:
        """Whether nothing runs here."""
        return not self._running and not self.threads.busy

    def close(self) -> None:
        """Drop what is in memory and let the threads go."""
        for execution in [*self._parked, *self._running]:
            self.cancel(execution)
        self._thread_stragglers.close()
        self.threads.close()

    def _block(self, function: DurableFunction, invocation: Invocation, port: Port) -> tuple[Outcome, int]:
        threads = self.threads
        state = BlockingState(invocation, port, self.clock, self._thread_stragglers, lend=threads.lend, crowded=threads.crowded)
        state.quarantines = function.on_mismatch == "quarantine"
        if function.plugins:
            state.hooks = Hooks(function.plugins, state.operations, self.clock)
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
        if outcome.status is not OutcomeStatus.SUCCEEDED:  # what began is told, however it ended
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
    else:  # our own code failed around the handler: the invocation crashed, the host goes on
        done(crashed(error), invocation.header.revision)

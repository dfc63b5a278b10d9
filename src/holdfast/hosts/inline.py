"""The inline host: handlers run in this process, `async def` on the engine's event loop, `def` on a bounded pool of threads
(handler_thread.py).

A coroutine of an `async def` handler lives through one or more invocations:

runs           its code runs, in an invocation.
 ├─▶ ends      the invocation ends with the handler's outcome.
 ├─▶ stays     it waits for an execution that it invoked and that is live in this process. The invocation goes on, and the code runs again
 │             when it learns of a change.
 └─▶ rests     it waits for anything else. The invocation ends as PENDING, and the coroutine is kept in memory. The next invocation
               resumes it instead of replaying, and its code runs again.
A coroutine that stays live begins to rest as soon as no execution that it waits for is live here, or another execution needs its room.
A coroutine of a function with plugins never stays live. A resting coroutine is evicted if too many rest, or if another process ran an
invocation of its execution: then the next invocation replays. Nothing depends on resting: every wake is an invocation with an epoch, a
token and an event of its own, and a resting coroutine can be evicted at any time.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Collection, Iterable
from typing import Self

from holdfast.durable.async_state import AsyncState
from holdfast.durable.context import AsyncDurableContext
from holdfast.durable.exceptions import BackgroundThreadError
from holdfast.durable.execution import DurableFunction
from holdfast.durable.hooks.resting_hooks import RestingHooks
from holdfast.durable.invocation_outcome import PENDING, crashed, failed, given
from holdfast.durable.scope import Scope
from holdfast.durable.stragglers import LoopStragglers, Stragglers, ThreadStragglers, Unhurried
from holdfast.hosts.handler_thread import Report, begin_on_thread
from holdfast.hosts.threads import Threads
from holdfast.model.clock import Clock
from holdfast.model.execution import Execution, Outcome
from holdfast.model.operations import Operation
from holdfast.model.ports import Invocation, Port

log = logging.getLogger("holdfast.hosts")


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
        """Begin an invocation, or continue the coroutine that rests in memory for it, and do not wait for its end. When the invocation
        ends, perhaps before this method returns, `done` is called with the outcome and the last revision that the invocation saw. `done` is
        not called for a cancelled coroutine. Raises the error if the invocation cannot begin."""
        function = self._functions[invocation.header.function, invocation.header.version]
        if not function.is_async:
            begin_on_thread(function, invocation, port, done, clock=self._clock, threads=self._threads, stragglers=self._thread_stragglers)
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
        be ended: it continues until its next checkpoint, which is refused."""
        self._coroutines.cancel(execution)

    def learn(self, header: Execution, operations: Collection[Operation]) -> None:
        """Tell the live invocation of an execution that a write which it did not make has changed `operations`; if `operations` is empty,
        the invocation reads what changed. A handler on a thread is not told."""
        running = self._coroutines.running(header.id)
        if running is not None:
            running.learn(header, operations)

    def recheck(self, execution: str) -> None:
        """Let the live invocation of an execution ask again whether it may stay live, if its code only waits. Does nothing for a handler on
        a thread."""
        running = self._coroutines.running(execution)
        if running is not None:
            running.recheck()

    def idle(self) -> bool:
        """Whether no invocation runs in this host, and no call runs on a thread or waits for one."""
        return self._coroutines.idle and not self._threads.busy

    def close(self) -> None:
        """Cancel all coroutines, those that run and those that rest, and start no more calls on the threads. Calls that run on a thread
        continue."""
        self._coroutines.cancel_all()
        self._thread_stragglers.close()
        self._threads.close()


class Coroutines:
    """The coroutines of one host: those that run, and those that rest in memory."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        """How many coroutines may rest in memory; 0: none."""
        self._running: dict[str, Coroutine] = {}
        self._resting: dict[str, Coroutine] = {}

    @property
    def idle(self) -> bool:
        """Whether no coroutine runs."""
        return not self._running

    def run(self, coroutine: Coroutine) -> None:
        """Note that a coroutine runs from now on."""
        self._running[coroutine.execution] = coroutine

    def running(self, execution: str) -> Coroutine | None:
        """The coroutine of this execution, if it runs now; None if there is none, or if it rests."""
        return self._running.get(execution)

    def rest(self, coroutine: Coroutine) -> bool:
        """Keep in memory a coroutine that only waits, and return True. If more coroutines rest than the host allows, the one that has
        rested longest is evicted. Returns False, and keeps nothing, if the host lets no coroutine rest."""
        if not self._capacity:
            return False
        self._running.pop(coroutine.execution, None)
        self._resting[coroutine.execution] = coroutine
        if len(self._resting) > self._capacity:
            self._resting.pop(next(iter(self._resting))).evict()
        return True

    def rested_for(self, invocation: Invocation) -> Coroutine | None:
        """Remove the resting coroutine of the invocation's execution, and return it. Returns None if there is none, or if it is out of date
        (`Coroutine.precedes`): then it is evicted."""
        resting = self._resting.pop(invocation.header.id, None)
        if resting is not None and not resting.precedes(invocation):
            resting.evict()
            return None
        return resting

    def forget(self, coroutine: Coroutine) -> None:
        """Remove a coroutine that has ended."""
        for known in (self._running, self._resting):
            if known.get(coroutine.execution) is coroutine:
                del known[coroutine.execution]

    def cancel(self, execution: str) -> None:
        """Cancel the coroutine of an execution, if it runs or rests here. No outcome is reported."""
        for known in (self._running, self._resting):
            found = known.pop(execution, None)
            if found is not None:
                found.cancel()

    def cancel_all(self) -> None:
        """Cancel all coroutines: those that run, and those that rest. No outcomes are reported."""
        for execution in [*self._resting, *self._running]:
            self.cancel(execution)


class Coroutine:
    """A handler's coroutine, over as many invocations as it lives through."""

    __slots__ = ("_all", "_input", "_report", "_scope", "_state", "_stays", "_task", "execution")

    def __init__(
        self,
        coroutines: Coroutines,
        function: DurableFunction,
        invocation: Invocation,
        port: Port,
        report: Report,
        *,
        clock: Clock,
        threads: Threads,
        stragglers: Stragglers,
    ) -> None:
        self.execution = invocation.header.id
        self._all = coroutines
        self._report: Report | None = report
        self._stays = invocation.stays
        self._state = AsyncState(invocation, port, clock, stragglers, threads=threads, quiet=self._quiet)
        self._state.quarantines = function.on_mismatch == "quarantine"
        self._scope = Scope(self._state, AsyncDurableContext, replaying=self._state.has_history)
        self._input = given(invocation, port)
        loop = asyncio.get_running_loop()
        if function.plugins:
            context = contextvars.copy_context()
            hooks = self._state.hooks = RestingHooks(function.plugins, self._state.operations, clock)
            self._task = hooks.main = loop.create_task(self._run(function, invocation), context=context)
            hooks.spawned(self._task, context)
        else:
            self._task = loop.create_task(self._run(function), name=function.name)

    async def _run(self, function: DurableFunction, told: Invocation | None = None) -> None:
        """Call the handler, and report what it returns or raises as an outcome. `told` is the invocation; the plugins are told of its start
        before the handler is called. None if the function has no plugins. This runs as a task."""
        state = self._state
        try:
            if state.hooks is not None and told is not None:
                state.hooks.begin(told, self._input)
            try:
                event = function.read(self._input)
                self._input = None  # the text is not kept while the handler waits
                result = await function.handler(event, AsyncDurableContext(self._scope))
                if state.unwritten:
                    await state.flush()
            except BaseException as error:
                if state.cancelled and isinstance(error, asyncio.CancelledError):
                    raise
                outcome = await self._failed(error)
            else:
                outcome = function.succeeded(state, self._scope, result)
        except BaseException as error:  # the engine cancelled it, a plugin stopped it, or Holdfast has a fault
            outcome = crashed(error)
        self._ended(outcome)

    async def _failed(self, error: BaseException) -> Outcome:
        """The outcome of a handler that raised `error`. Before this returns, updates that the handler had not yet written are written,
        unless the coroutine is being closed. If this write fails, the outcome is that failure instead of PENDING; any other outcome
        stays."""
        state = self._state
        outcome = failed(state, error)
        if state.unwritten and not isinstance(error, GeneratorExit):  # a coroutine that is being closed can wait for nothing
            try:
                await state.flush()
            except BackgroundThreadError as refused:
                outcome = failed(state, refused) if outcome is PENDING else outcome
        return outcome

    def _ended(self, outcome: Outcome) -> None:
        if self._state.hooks is not None:
            try:
                outcome = self._state.hooks.end(outcome)
            except BaseException as error:
                outcome = crashed(error)
        self._all.forget(self)
        self._scope.leave()
        if self._state.cancelled:
            return
        report, self._report = self._report, None
        if report is not None:
            report(outcome, self._state.revision)
        elif outcome is not PENDING:
            log.warning("%s went on after its suspension; what it did after that is ignored", self._state.durable_execution_arn)

    def _quiet(self) -> None:
        """Called when every strand rests: the handler, and every branch that it has begun. Ends the invocation as PENDING when its last
        write is on disk. The invocation does not end, but stays live, if it waits for an execution that is live in this process. If a write
        failed, or a replay mismatch must quarantine the execution, the invocation ends with that failure, and the handler is cancelled.

        A handler with plugins does not stay live: plugins are made for each invocation, and must see the same invocations as on AWS.
        """
        state = self._state
        if self._report is None or state.is_writing:
            return  # the write under way calls this again
        lost = state.broken or (state.mismatch if state.quarantines else None)
        if lost is not None:
            self._rest(failed(state, lost))
            self.cancel()
        elif self._stays is not None and state.hooks is None and self._stays(self.execution, state.awaited):
            pass  # an execution that it waits for runs here; what is not written yet goes with the next write
        elif state.unwritten:
            state.write_deferred()
        else:
            self._pend()

    def _pend(self) -> None:
        if self._all.rest(self):
            self._rest(PENDING)
        else:
            # The code unwinds first; its end is this invocation's end.
            self._state.evict()

    def _rest(self, outcome: Outcome) -> None:
        """Report that the invocation has ended, with this outcome. The coroutine itself does not end here."""
        if self._state.hooks is not None:
            outcome = self._state.hooks.rest(outcome)
        report, self._report = self._report, None
        assert report is not None
        report(outcome, self._state.revision)

    def precedes(self, invocation: Invocation) -> bool:
        """Whether `invocation` comes directly after the last invocation of this coroutine. If not, the epoch has moved in between, for
        example because another process ran an invocation, and the coroutine is out of date."""
        return invocation.header.epoch == self._state.header.epoch + 1

    def resume(self, invocation: Invocation, report: Report) -> None:
        """Continue the coroutine in the next invocation. `report` is called when that invocation ends, perhaps before this method
        returns."""
        self._report = report
        self._stays = invocation.stays
        self._state.resume(invocation)
        if self._state.hooks is not None:
            self._state.hooks.resume(invocation, given(invocation, self._state.port))
        if self._state.is_quiet:
            self._quiet()

    def learn(self, header: Execution, operations: Collection[Operation]) -> None:
        """Tell the invocation that a write which it did not make has changed these operations, and that the header is now this one. If
        `operations` is empty, the invocation begins to read what changed. If the invocation has ended, nothing happens: the next invocation
        reads the change."""
        if self._report is not None and header.epoch == self._state.header.epoch:
            self._state.hear(header.revision, operations)

    def recheck(self) -> None:
        """End the invocation if every strand rests, unless it stays live for an execution that it waits for (`_quiet`)."""
        if self._report is not None and self._state.is_quiet:
            self._quiet()

    def evict(self) -> None:
        """Remove the coroutine from memory: the handler's code gets a SuspendExecution where it waits. The next invocation replays."""
        self._state.evict()

    def cancel(self) -> None:
        """Cancel the handler's task. No outcome is reported."""
        self._state.cancelled = True
        self._report = None
        self._task.cancel()

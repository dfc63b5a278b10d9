"""One `async def` handler at work: running, resting in memory between two invocations, or on its way out."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Callable
from typing import Protocol

from holdfast.durable.awaiting import AsyncState
from holdfast.durable.context import AsyncDurableContext
from holdfast.durable.exceptions import BackgroundThreadError
from holdfast.durable.execution import DurableFunction
from holdfast.durable.hooks.resting import RestingHooks
from holdfast.durable.outcomes import PENDING, crashed, failed, given, outcome_of, succeeded
from holdfast.durable.scope import Scope
from holdfast.durable.stragglers import Stragglers
from holdfast.hosts.threads import Threads
from holdfast.model.clock import Clock
from holdfast.model.execution import Outcome
from holdfast.model.ports import Invocation, Port

log = logging.getLogger("holdfast.hosts")

Report = Callable[[Outcome, int], None]


class CoroutineHost(Protocol):
    """The host, as its coroutines know it."""

    @property
    def clock(self) -> Clock: ...
    @property
    def threads(self) -> Threads: ...
    @property
    def loop_stragglers(self) -> Stragglers: ...

    def park(self, coroutine: Coroutine) -> bool:
        """Keep a resting coroutine in memory; False when there is no room."""
        ...

    def forget(self, coroutine: Coroutine) -> None: ...


class Coroutine:
    """A handler's coroutine, over as many invocations as it lives through."""

    __slots__ = ("_host", "_report", "_scope", "_state", "_task", "execution")

    def __init__(self, host: CoroutineHost, function: DurableFunction, invocation: Invocation, port: Port, report: Report) -> None:
        self.execution = invocation.header.id
        self._host = host
        self._report: Report | None = report
        self._state = AsyncState(invocation, port, host.clock, host.loop_stragglers, threads=host.threads, quiet=self._quiet)
        self._state.quarantines = function.on_mismatch == "quarantine"
        self._scope = Scope(self._state, AsyncDurableContext, replaying=self._state.has_history)
        payload = given(invocation, port)
        if function.plugins:
            self._task = self._watched(function, invocation, payload)
        else:
            self._task = asyncio.get_running_loop().create_task(self._run(function, payload), name=function.name)
        self._task.add_done_callback(self._ended)

    def _watched(self, function: DurableFunction, invocation: Invocation, payload: str | None) -> asyncio.Task[Outcome]:
        """The handler with its plugins, whose hooks are called inside its task."""
        hooks = self._state.hooks = RestingHooks(function.plugins, self._state.operations, self._host.clock)

        async def run() -> Outcome:
            try:
                hooks.begin(invocation, payload)
                outcome = await self._run(function, payload)
            except BaseException as error:  # cancelled, or a plugin said stop
                outcome = hooks.end(crashed(error))
                if self._state.cancelled:
                    raise
                return outcome
            return hooks.end(outcome)

        context = contextvars.copy_context()
        hooks.main = asyncio.get_running_loop().create_task(run(), context=context)
        hooks.spawned(hooks.main, context)
        return hooks.main

    async def _run(self, function: DurableFunction, payload: str | None) -> Outcome:
        state = self._state
        try:
            event, payload = function.read(payload), None  # its text is not kept while the handler waits
            result = await function.handler(event, AsyncDurableContext(self._scope))
            if state.unwritten:
                await state.flush()
        except asyncio.CancelledError as error:
            if state.cancelled:
                raise
            return await self._failed(error)
        except BaseException as error:
            return await self._failed(error)
        return succeeded(state, self._scope, result, function.write)

    async def _failed(self, error: BaseException) -> Outcome:
        """What an error comes to, after what began is told."""
        state = self._state
        outcome = failed(state, error)
        if state.unwritten:
            try:
                await state.flush()
            except BackgroundThreadError as refused:
                outcome = failed(state, refused) if outcome is PENDING else outcome
        return outcome

    def _ended(self, task: asyncio.Task[Outcome]) -> None:
        self._host.forget(self)
        self._scope.leave()
        if task.cancelled() or self._state.cancelled:
            return
        outcome = outcome_of(task.result)
        report, self._report = self._report, None
        if report is not None:
            report(outcome, self._state.revision)
        elif outcome is not PENDING:
            log.warning("%s went on after its suspension; what it did then does not count", self._state.durable_execution_arn)

    def _quiet(self) -> None:
        """Every strand rests: this invocation has nothing more to do, once what it wrote has landed."""
        state = self._state
        if self._report is None or state.flying:
            return  # a write that lands looks here again
        lost = state.broken or (state.mismatch if state.quarantines else None)
        if lost is not None:
            self._rest(failed(state, lost))
            self.cancel()
        elif state.unwritten:
            state.write_riders()
        else:
            self._pend()

    def _pend(self) -> None:
        if self._host.park(self):
            self._rest(PENDING)
        else:
            # The code unwinds first; its end is this invocation's end.
            self._state.evict()

    def _rest(self, outcome: Outcome) -> None:
        """The invocation is over, and its strands are where they are."""
        if self._state.hooks is not None:
            outcome = self._state.hooks.rest(outcome)
        report, self._report = self._report, None
        assert report is not None
        report(outcome, self._state.revision)

    def precedes(self, invocation: Invocation) -> bool:
        """Whether nobody else has invoked the execution since it rests here: else its strands stand where the story has moved on from."""
        return invocation.header.epoch == self._state.header.epoch + 1

    def resume(self, invocation: Invocation, report: Report) -> None:
        """Go on under a new invocation."""
        self._report = report
        self._state.resume(invocation)
        if self._state.hooks is not None:
            self._state.hooks.resume(invocation, given(invocation, self._state.port))
        if self._state.is_quiet:
            self._quiet()

    def refresh(self) -> None:
        """Learn what changed while it runs."""
        self._state.refresh()

    def evict(self) -> None:
        """Leave memory; the next invocation replays."""
        self._state.evict()

    def cancel(self) -> None:
        """End it without a report."""
        self._state.cancelled = True
        self._report = None
        self._task.cancel()

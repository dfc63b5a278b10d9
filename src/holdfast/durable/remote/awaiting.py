"""One invocation of an `async def` handler away from its service: on a loop of its own, its requests made in a thread.

Nobody tells this process that something has changed. So while one strand works, the others are looked after by timers: when the time of
something they wait for has come, the service is asked. When all rest, the invocation ends as PENDING.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Sequence
from typing import Any

from holdfast.durable.awaiting import AsyncState
from holdfast.durable.context import AsyncDurableContext
from holdfast.durable.exceptions import BackgroundThreadError
from holdfast.durable.hooks.resting import RestingHooks
from holdfast.durable.outcomes import PENDING, failed, succeeded
from holdfast.durable.plan import Suspend
from holdfast.durable.plugin import DurableInstrumentationPluginFactory
from holdfast.durable.remote.port import RemotePort
from holdfast.durable.remote.running import SELDOM_MS, SOON_MS, Ended, Function, Threads
from holdfast.durable.scope import Scope
from holdfast.durable.stragglers import LoopStragglers
from holdfast.model.ports import Invocation


class RemoteState(AsyncState):
    """An execution's state that has to ask for news."""

    def __init__(self, invocation: Invocation, port: RemotePort, threads: Threads) -> None:
        super().__init__(invocation, port, port.clock, LoopStragglers(), threads=threads, quiet=self.settle)

    def watch(self, factories: Sequence[DurableInstrumentationPluginFactory], context: contextvars.Context) -> None:
        """Tell plugins what happens, from this task on, which runs in this context."""
        self.hooks = RestingHooks(factories, self.operations, self.clock)
        main = asyncio.current_task()
        assert main is not None
        self.hooks.main = main
        self.hooks.spawned(main, context)

    async def rest(self, suspend: Suspend) -> None:
        """Rest until an operation changes; ask for news when it is due."""
        for operation_id in (suspend.operation_id, *(other.id for other in suspend.others)):
            due_at = self.operations[operation_id].due_at
            if due_at is not None:
                self._loop.call_later(max(0, due_at - self.clock.now()) / 1000, self._look, operation_id, SOON_MS)
        await super().rest(suspend)

    def _look(self, operation_id: str, pause_ms: int) -> None:
        if operation_id in self._on_change and not self.suspended:
            self.refresh()
            self._loop.call_later(pause_ms / 1000, self._look, operation_id, min(2 * pause_ms, SELDOM_MS))

    def settle(self) -> None:
        """All strands rest: write what is left to write, then let them go."""
        if self.flying or self.suspended:
            return  # a write that lands looks here again
        if self.unwritten and self.broken is None:
            self.write_riders()
        else:
            self.evict()


def run(function: Function, port: RemotePort, lambda_context: Any) -> Ended:
    """Run the handler to its end."""
    threads, context = Threads(), contextvars.copy_context()
    try:
        with asyncio.Runner() as runner:
            return runner.run(_run(function, port, lambda_context, threads, context), context=context)
    finally:
        threads.close()


async def _run(function: Function, port: RemotePort, lambda_context: Any, threads: Threads, context: contextvars.Context) -> Ended:
    invocation = port.invocation(function.terms, getattr(lambda_context, "aws_request_id", None))
    state = RemoteState(invocation, port, threads)
    if function.plugins:
        state.watch(function.plugins, context)
    scope = Scope(state, lambda scope: AsyncDurableContext(scope, lambda_context), replaying=state.has_history)
    try:
        if state.hooks is not None:
            state.hooks.begin(invocation, invocation.input)
        result = await function.handler(function.read(invocation.input), AsyncDurableContext(scope, lambda_context))
        if state.unwritten or state.broken is not None:
            await state.flush()
    except BaseException as error:
        ended = await _failed(state, error)
    else:
        ended = Ended(succeeded(state, scope, result, function.write))
    scope.leave()
    state.suspended = True
    port.close()
    if state.hooks is not None:
        ended = Ended(state.hooks.end(PENDING if port.revoked else ended.outcome), ended.error)
    return ended


async def _failed(state: RemoteState, error: BaseException) -> Ended:
    """What an error comes to, after what began is told."""
    ended = Ended(failed(state, error), error)
    try:
        if state.broken is not None:
            raise state.broken
        if state.unwritten:
            await state.flush()
    except BackgroundThreadError as refused:
        ended = Ended(failed(state, refused), refused) if ended.outcome is PENDING else ended
    return ended

"""One invocation of an `async def` handler in another process than its service. The handler runs on an event loop of its own; a thread
makes the requests to the service.

The service does not tell this process about changes. So while at least one strand runs and others rest, this process asks the service for
changes as soon as a wait of a resting strand is due. When all strands rest, the invocation ends as PENDING.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Sequence
from typing import Any

from holdfast.durable.async_state import AsyncState
from holdfast.durable.context import AsyncDurableContext
from holdfast.durable.exceptions import BackgroundThreadError
from holdfast.durable.hooks.resting_hooks import RestingHooks
from holdfast.durable.invocation_outcome import PENDING, failed
from holdfast.durable.plan import Suspend
from holdfast.durable.plugin import DurableInstrumentationPluginFactory
from holdfast.durable.remote.invocation import SELDOM_MS, SOON_MS, Ended, InvocationThreads, RemoteFunction
from holdfast.durable.remote.port import RemotePort
from holdfast.durable.scope import Scope
from holdfast.durable.stragglers import LoopStragglers
from holdfast.model.ports import Invocation


class AsyncRemoteState(AsyncState):
    """The state of an execution outside of the runner: it must ask the service for changes."""

    def __init__(self, invocation: Invocation, port: RemotePort, threads: InvocationThreads) -> None:
        super().__init__(invocation, port, port.clock, LoopStragglers(), threads=threads, quiet=self.settle)

    @property
    def has_service_clock(self) -> bool:
        return False

    def watch(self, factories: Sequence[DurableInstrumentationPluginFactory], context: contextvars.Context) -> None:
        """From now on, call the plugins that these factories make. Hooks that report on the current asyncio task, which runs the handler,
        run in `context`."""
        self.hooks = RestingHooks(factories, self.operations, self.clock)
        main = asyncio.current_task()
        assert main is not None
        self.hooks.main = main
        self.hooks.spawned(main, context)

    async def rest(self, suspend: Suspend) -> None:
        """Rest until one of the operations that `suspend` names changes. When one of them is due, this state asks the service for changes,
        again and again until the operation has changed."""
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
        """Called when all strands rest. Begins to write the updates that are not written yet; after that write this method is called again.
        If nothing is left to write, or if an earlier write failed, it raises a suspension in all strands, which ends them."""
        if self.is_writing or self.suspended:
            return  # the end of the write calls this again
        if self.unwritten and self.broken is None:
            self.write_deferred()
        else:
            self.evict()


def run(function: RemoteFunction, port: RemotePort, lambda_context: Any) -> Ended:
    """Run the handler until it ends or all its strands rest, and return how it ended. If all strands rest, the outcome is PENDING, unless a
    write failed."""
    threads, context = InvocationThreads(), contextvars.copy_context()
    try:
        with asyncio.Runner() as runner:
            return runner.run(_run(function, port, lambda_context, threads, context), context=context)
    finally:
        threads.close()


async def _run(
    function: RemoteFunction, port: RemotePort, lambda_context: Any, threads: InvocationThreads, context: contextvars.Context
) -> Ended:
    invocation = port.invocation(function.terms, getattr(lambda_context, "aws_request_id", None))
    state = AsyncRemoteState(invocation, port, threads)
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
        ended = Ended(function.succeeded(state, scope, result))
    scope.leave()
    state.suspended = True
    port.close()
    if state.hooks is not None:
        ended = Ended(state.hooks.end(PENDING if port.revoked else ended.outcome), ended.error)
    return ended


async def _failed(state: AsyncRemoteState, error: BaseException) -> Ended:
    """How a handler ended that raised `error`. Updates that are not written yet are written before this returns. If a write failed, now or
    earlier, and `error` is only a suspension, the error of that write counts in place of `error`."""
    ended = Ended(failed(state, error), error)
    try:
        if state.broken is not None:
            raise state.broken
        if state.unwritten:
            await state.flush()
    except BackgroundThreadError as refused:
        ended = Ended(failed(state, refused), refused) if ended.outcome is PENDING else ended
    return ended

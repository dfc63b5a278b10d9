"""One `def` handler on a thread: the invocation blocks the thread from its beginning to its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from holdfast.durable.blocking_driver import BlockingState
from holdfast.durable.context import DurableContext
from holdfast.durable.exceptions import BackgroundThreadError
from holdfast.durable.execution import DurableFunction
from holdfast.durable.hooks.moments import Hooks
from holdfast.durable.invocation_outcome import PENDING, crashed, failed, given
from holdfast.durable.scope import Scope
from holdfast.durable.stragglers import Stragglers
from holdfast.hosts.threads import Threads
from holdfast.model.clock import Clock
from holdfast.model.execution import Outcome, OutcomeStatus
from holdfast.model.ports import Invocation, Port

Report = Callable[[Outcome, int], None]
"""Called with the outcome of an invocation, and with the last revision that the invocation saw."""


def begin_on_thread(
    function: DurableFunction, invocation: Invocation, port: Port, report: Report, *, clock: Clock, threads: Threads, stragglers: Stragglers
) -> None:
    """Begin an invocation on a free thread, or as soon as one is free, and return at once. `report` is called on the event loop when the
    invocation has ended. It is not called if the host was closed before the invocation had a thread."""

    def ended(future: asyncio.Future[tuple[Outcome, int]]) -> None:
        if future.cancelled():
            return
        error = future.exception()
        if error is None:
            report(*future.result())
        else:  # Holdfast's own code failed around the handler: the invocation crashed, and the host continues
            report(crashed(error), invocation.header.revision)

    future = threads.submit(lambda: _run(function, invocation, port, clock, threads, stragglers))
    asyncio.wrap_future(future).add_done_callback(ended)


def _run(
    function: DurableFunction, invocation: Invocation, port: Port, clock: Clock, threads: Threads, stragglers: Stragglers
) -> tuple[Outcome, int]:
    state = BlockingState(invocation, port, clock, stragglers, lend=threads.lend, crowded=threads.crowded)
    state.quarantines = function.on_mismatch == "quarantine"
    if function.plugins:
        state.hooks = Hooks(function.plugins, state.operations, clock)
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
        outcome = function.succeeded(state, scope, result)
    if outcome.status is not OutcomeStatus.SUCCEEDED:  # updates that it had not yet written are written in any case
        try:
            state.flush()
        except BackgroundThreadError as error:
            outcome = failed(state, error) if outcome is PENDING else outcome
    if state.hooks is not None:
        outcome = state.hooks.end(outcome)
    return outcome, state.acted_on if outcome is PENDING else state.revision

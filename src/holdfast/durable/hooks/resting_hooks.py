"""Hooks of a coroutine that may rest in memory between two invocations.

Plugins must not notice the rest. When the coroutine begins to rest, its functions are reported as ended (INCOMPLETE), as after a
suspension. When it continues, the plugins of the new invocation get the same reports as in a replay. One thing differs: functions that
ended earlier do not run again, so they are not reported again.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from holdfast.durable.exceptions import BackgroundThreadError
from holdfast.durable.hooks.moments import LEFT, Hooks, Open, instant, stopped
from holdfast.model.execution import Outcome
from holdfast.model.operations import OPEN, Operation, unpruned
from holdfast.model.ports import Invocation

P = ParamSpec("P")
T = TypeVar("T")
Strand = asyncio.Task[Any]


class RestingHooks(Hooks):
    """Calls the plugins of an `async def` handler."""

    main: Strand
    """The handler's own strand."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._contexts: WeakKeyDictionary[Strand, contextvars.Context] = WeakKeyDictionary()

    def spawned(self, strand: Strand, context: contextvars.Context) -> None:
        """Note the contextvars context in which a strand runs. Hooks that report on this strand are called in this context, also while the
        strand rests."""
        self._contexts[strand] = context

    def rest(self, outcome: Outcome) -> Outcome:
        """The invocation has ended, and its strands rest in memory: report its end. Returns `outcome`, or a CRASHED outcome if a plugin
        stopped the invocation."""
        try:
            self._leave_all()
        except BackgroundThreadError as stop:
            outcome = stopped(stop)
        return self._within(self.main, self.end, outcome)

    def resume(self, invocation: Invocation, payload: str | None) -> None:
        """The next invocation begins: report its start to its new plugins, then the open operations and the functions that have not ended.
        `payload` is the input as text. Raises RuntimeError if a plugin stops the invocation."""
        self._hidden = self._operations.keys() - {operation.id for operation in unpruned(self._operations.values())}
        try:
            self._within(self.main, self.begin, invocation, payload)
            for operation_id, held in list(self._open.items()):
                self._within(held.strand, self._meet_again, operation_id, held)
        except BaseException as stop:
            self.rest(stopped(stop))
            raise RuntimeError("A plugin stopped the invocation before it began.") from stop

    def _meet_again(self, operation_id: str, held: Open) -> None:
        operation = self._operations.get(operation_id)
        if operation is not None and self._is_reached(operation):
            self.met_again(operation)
        if held.body is not None:
            attempt = 1 if operation is None else None
            held.body.began = replace(held.body.began, start_time=instant(self._clock.now()), attempt=attempt)
            self._begin_body(held.body)

    def _is_reached(self, operation: Operation) -> bool:
        """Whether a replay would reach this operation. It would not, if a context around the operation has ended."""
        parent = self._operations.get(operation.parent_id or "")
        return parent is None or (parent.status in OPEN and self._is_reached(parent))

    def _leave_all(self) -> None:
        for body in reversed(list(self._bodies.values())):
            held = self._open.get(body.began.operation_id)
            self._within(held.strand if held is not None else None, self._leave, body, LEFT)

    def _opened(self, operation_id: str) -> Open:
        return self._open.get(operation_id) or self._open.setdefault(operation_id, Open(strand=asyncio.current_task()))

    def _within(self, strand: Strand | None, call: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Call `call` in the contextvars context of this strand, and return its result. If `strand` is None, or no context is known for it,
        `call` runs in a copy of the present context."""
        if strand is not None and strand is asyncio.current_task():
            return call(*arguments, **named)
        context = self._contexts.get(strand) if strand is not None else None
        return (contextvars.copy_context() if context is None else context).run(call, *arguments, **named)

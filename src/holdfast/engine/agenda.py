"""The agenda: when the runner looks for work next.

It is plain state. Invocations and the outbox write down when they want the runner back, the poller's thread rings, and the scheduler
reads. Nothing here calls anything, so that none of them needs to know the others.
"""

from __future__ import annotations

import asyncio

from holdfast.model.admission import holds
from holdfast.model.clock import Clock
from holdfast.model.execution import Execution, State


class Agenda:
    """The reasons for which the scheduler of one runner looks for work again. It is used on the engine's loop."""

    __slots__ = ("_is_virtual", "backlog", "others_wrote", "queued", "rung", "timer_at")

    def __init__(self, clock: Clock) -> None:
        self._is_virtual = clock.virtual
        self.rung = asyncio.Event()
        """Set when the scheduler is to look at once."""
        self.timer_at: int | None = None
        """No known timer is due before this time; None where no timer is known."""
        self.backlog = True
        """An execution may be ready that no runner has claimed. True at first: a dead process may have left some."""
        self.queued = True
        """The store may have an execution to admit: one was enqueued, or a slot came free. True at first."""
        self.others_wrote = False
        """Another process wrote, and this runner has not yet read what it did."""

    def ring(self) -> None:
        """Look at once."""
        self.rung.set()

    def ring_at(self, at: int) -> None:
        """Look at this time, and plan for it at once."""
        self._note(at)
        self.rung.set()

    def plan(self, at: int) -> None:
        """Look at this time, if nothing makes the scheduler look before it."""
        if self.timer_at is None or at < self.timer_at:
            self.ring_at(at)

    def expect(self, header: Execution) -> None:
        """No invocation of this execution runs now: look when its next timer is due, or at once if it is ready."""
        is_ready = header.state is State.READY
        if header.place is not None:
            self.expect_queue(header)
        if header.due_at is not None:
            self._note(header.due_at)
        if is_ready:
            self._note(header.ready_at)
        if is_ready or self._is_virtual:  # the scheduler moves a virtual clock, so it must hear of every timer
            self.rung.set()

    def expect_queue(self, header: Execution) -> None:
        """A write moved an execution of a queue: if it waits in its lane, or holds no slot any more, the store may have one to admit."""
        if header.state is State.DELAYED:
            self.plan(header.ready_at)
        elif not holds(header):
            self.queued = True
            self.rung.set()
        if header.state is State.QUEUED and header.due_at is not None:
            self.plan(header.due_at)

    def hear_others(self) -> None:
        """Another process wrote: look at once, and read what it did."""
        self.others_wrote = True
        self.rung.set()

    def _note(self, at: int) -> None:
        if self.timer_at is None or at < self.timer_at:
            self.timer_at = at

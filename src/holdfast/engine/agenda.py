"""The agenda: when the runner looks for work next.

It is plain state. Invocations, admissions, the timetable and the outbox note in it when the scheduler must look again, the poller lets the
loop ring it, and the scheduler reads it. The agenda calls none of them, so they need not know the scheduler.
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
        """Set when the scheduler must look at once."""
        self.timer_at: int | None = None
        """The time at which the scheduler must look for work at the latest, for example the next known timer; None if no such time is
        known."""
        self.backlog = True
        """Whether there may be a ready execution that no runner has claimed. True at first, because a dead process may have left some."""
        self.queued = True
        """Whether the store may have an execution to admit, for example because one was enqueued or a slot became free. True at first."""
        self.others_wrote = False
        """Whether the next round must read what other processes wrote: one of them has written, or an earlier read failed."""

    def ring(self) -> None:
        """Let the scheduler look for work at once."""
        self.rung.set()

    def ring_at(self, at: int) -> None:
        """Let the scheduler look for work at this time at the latest. The scheduler is also woken now, so that it computes again how long
        it may rest."""
        self._note(at)
        self.rung.set()

    def plan(self, at: int) -> None:
        """Let the scheduler look for work at this time at the latest. Does nothing if the agenda has this time or an earlier one
        already."""
        if self.timer_at is None or at < self.timer_at:
            self.ring_at(at)

    def expect(self, header: Execution) -> None:
        """Note an execution after a write: the scheduler looks for work when the next timer of the execution is due, and also at once if
        the execution is ready."""
        is_ready = header.state is State.READY
        if header.place is not None:
            self.expect_queue(header)
        if header.due_at is not None:
            self._note(header.due_at)
        if is_ready:
            self._note(header.ready_at)
        if is_ready or self._is_virtual:  # the scheduler moves a virtual clock, so it must know every timer
            self.rung.set()

    def expect_queue(self, header: Execution) -> None:
        """Note that a write changed an execution of a queue. If the execution is delayed, the scheduler looks for work when the delay ends.
        If it is not delayed and holds no slot (it waits in its lane, or has given its slot back), the scheduler asks the store at once for
        executions to admit. If it waits in its lane and can expire, the scheduler also looks when that is due."""
        if header.state is State.DELAYED:
            self.plan(header.ready_at)
        elif not holds(header):
            self.queued = True
            self.rung.set()
        if header.state is State.QUEUED and header.due_at is not None:
            self.plan(header.due_at)

    def hear_others(self) -> None:
        """Note that another process wrote: the scheduler reads at once what was written, and looks for work."""
        self.others_wrote = True
        self.rung.set()

    def _note(self, at: int) -> None:
        if self.timer_at is None or at < self.timer_at:
            self.timer_at = at

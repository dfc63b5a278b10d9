"""The part of a store's specification (seam.py) that is about schedules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from holdfast.model.audit import Note
from holdfast.model.places import Only
from holdfast.model.schedules import ScheduleState


class ScheduleStore(Protocol):
    """Schedules (model.schedules). A start may carry its schedule as the start leaves it (`Start.moved`): `commit` writes both or neither.

    Every write names the revision that comes next. The store refuses it if it has another revision than the one before, or if the cursor
    would go back.
    """

    def put_schedule(self, schedule: ScheduleState, notes: Sequence[Note] = ()) -> bool:
        """Write a new schedule (revision 1) or the next revision of one, together with these notes. Returns False, and writes nothing, if
        the revision is not the next one."""
        ...

    def move_schedule(self, schedule: ScheduleState) -> bool:
        """As `put_schedule`, for a runner: target, tenant and input stay as they are."""
        ...

    def remove_schedule(self, name: str, revision: int, notes: Sequence[Note] = ()) -> bool:
        """Remove a schedule that has this revision, and write these notes together with that. Returns False, and writes no note, if there
        is no such schedule."""
        ...

    def schedule(self, name: str) -> ScheduleState | None:
        """The schedule of this name."""
        ...

    def schedules(self, beyond: str, limit: int, tenant: str | None = None) -> Sequence[ScheduleState]:
        """Schedules (of a tenant) in the order of their names, after the name `beyond`."""
        ...

    def due_schedules(self, functions: Sequence[str], now: int, limit: int, only: Only | None = None) -> Sequence[str]:
        """The names of schedules of these functions that a runner must look at now, the longest due first. With `only`, those whose
        executions the runner takes: of its tenants; none if it takes only from some queues."""
        ...

    def waiting_schedules(self, functions: Sequence[str], limit: int, only: Only | None = None) -> Sequence[str]:
        """The names of schedules of these functions with an occurrence that waits for the end of an execution."""
        ...

    def next_schedule(self, functions: Sequence[str], only: Only | None = None) -> int | None:
        """When the next schedule of these functions is due."""
        ...

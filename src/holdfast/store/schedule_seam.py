"""The part of a store's specification (seam.py) that is about schedules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from holdfast.model.audit import Note
from holdfast.model.places import Only
from holdfast.model.schedules import ScheduleState


class ScheduleStore(Protocol):
    """Schedules (model.schedules). A start may also change its schedule (`Start.moved`): `commit` writes both or neither.

    Every write of a schedule carries the new revision. The store refuses the write if the stored revision is not the one before, or if the
    cursor would become smaller.
    """

    def put_schedule(self, schedule: ScheduleState, notes: Sequence[Note] = ()) -> bool:
        """Write a new schedule (revision 1) or the next revision of one, together with these notes. Returns False, and writes nothing, if a
        new schedule has the name of an existing one. For an existing schedule, returns False, and writes nothing, if the stored revision is
        not the one before this revision, or if the stored cursor is later than this cursor."""
        ...

    def move_schedule(self, schedule: ScheduleState) -> bool:
        """Write the next revision of a schedule, for a runner: target, tenant and input stay as they are. Returns False, and writes
        nothing, if the stored revision is not the one before this revision, or if the stored cursor is later than this cursor."""
        ...

    def remove_schedule(self, name: str, revision: int, notes: Sequence[Note] = ()) -> bool:
        """Remove a schedule that has this revision, together with writing these notes. Returns False, and writes no note, if there is no
        schedule with this name and revision."""
        ...

    def schedule(self, name: str) -> ScheduleState | None:
        """The schedule of this name; None if there is none."""
        ...

    def schedules(self, beyond: str, limit: int, tenant: str | None = None) -> Sequence[ScheduleState]:
        """At most `limit` schedules in the order of their names: those after the name `beyond`. If `tenant` is given, only schedules of
        this tenant. A schedule that cannot be read is left out."""
        ...

    def due_schedules(self, functions: Sequence[str], now: int, limit: int, only: Only | None = None) -> Sequence[str]:
        """The names of at most `limit` schedules of these functions that a runner must look at now, the longest due first. `only`: which
        executions the runner takes; None: all. If it takes only some tenants, only schedules of these tenants are returned. If it takes
        only from some queues, none is returned."""
        ...

    def waiting_schedules(self, functions: Sequence[str], limit: int, only: Only | None = None) -> Sequence[str]:
        """The names of at most `limit` schedules of these functions with an occurrence that waits for the end of an execution. `only` is as
        in `due_schedules`: schedules whose executions the runner does not take are left out."""
        ...

    def next_schedule(self, functions: Sequence[str], only: Only | None = None) -> int | None:
        """The earliest time at which a schedule of these functions is due; None if none will be due. `only` is as in `due_schedules`:
        schedules whose executions the runner does not take are left out."""
        ...

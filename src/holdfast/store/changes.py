"""What both backends write outside a batch with the same statements: schedules, and the console's sessions and saved views."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

import msgspec

from holdfast.model.audit import Note
from holdfast.model.browse_errors import TooManyViews
from holdfast.model.console_state import MAX_VIEWS, ConsoleSession, SavedView, checked_view
from holdfast.model.schedules import ScheduleState
from holdfast.store import rows
from holdfast.store.reads import Reads

RunStatement = Callable[[str, Sequence[object] | dict[str, object]], int]
"""Runs the statement of this name, and returns how many rows it changed."""


class Changes(Reads):
    """The part of a store that writes a few rows outside batches. A backend implements the abstract methods."""

    @abstractmethod
    def _change(self, name: str, parameters: Sequence[object]) -> int:
        """Run the statement of this name by itself. Returns how many rows it changed."""

    @abstractmethod
    def _changing(self) -> AbstractContextManager[RunStatement]:
        """A transaction around the `with` block. The block gets the function that runs statements in it."""

    @abstractmethod
    def _put_notes(self, notes: Sequence[Note]) -> None:
        """Add notes to the audit log, inside the transaction of `_changing`."""

    def _notify(self) -> None:
        """Tell the other processes that something has changed. This default does nothing, for a backend whose processes see every write."""


class ScheduleChanges(Changes):
    """The part of a store that writes schedules. A write is accepted only if its revision is the one after the stored revision, and its
    cursor is not before the stored cursor."""

    def put_schedule(self, schedule: ScheduleState, notes: Sequence[Note] = ()) -> bool:
        row = rows.schedule_row(schedule, self._codec)
        with self._changing() as change:
            if schedule.revision == 1:
                written = change("add_schedule", row) == 1
            else:
                written = change("put_schedule", (*row[1:], *rows.guard(schedule))) == 1
            if written:
                self._put_notes(notes)
        if written:
            self._notify()
        return written

    def move_schedule(self, schedule: ScheduleState) -> bool:
        with self._changing() as change:
            return change(*self._moved(schedule)) == 1  # other runners read its next time themselves, so they are not notified

    def remove_schedule(self, name: str, revision: int, notes: Sequence[Note] = ()) -> bool:
        with self._changing() as change:
            removed = change("remove_schedule", (self._text(name), revision)) == 1
            if removed:
                self._put_notes(notes)
        if removed:
            self._notify()
        return removed

    def _moved(self, schedule: ScheduleState) -> tuple[str, rows.Row]:
        """The name and the parameters of the statement with which a runner writes a schedule. If the store has a codec, the statement also
        writes the input again, so that the input is encoded with the current key."""
        if self._codec is not None:
            return "put_schedule", (*rows.schedule_row(schedule, self._codec)[1:], *rows.guard(schedule))
        return "move_schedule", (*rows.moved_row(schedule, None)[3:], *rows.guard(schedule))


class ConsoleChanges(Changes):
    """The part of a store that keeps the sessions and saved views of the console."""

    def put_session(self, session: ConsoleSession) -> None:
        self._change("put_session", msgspec.structs.astuple(session))

    def session(self, session: str) -> ConsoleSession | None:
        found = self._read("console_session", (self._text(session),))
        return ConsoleSession(**dict(zip(rows.COLUMNS["session"], found[0], strict=True))) if found else None

    def remove_session(self, session: str) -> bool:
        return self._change("remove_session", (self._text(session),)) == 1

    def remove_login(self, credential: str, csrf: str) -> int:
        return self._change("remove_login", (self._text(credential), self._text(csrf)))

    def remove_sessions(self, credential: str) -> int:
        return self._change("remove_sessions", (self._text(credential),))

    def views(self, owner: str) -> Sequence[SavedView]:
        return [SavedView(**dict(zip(rows.COLUMNS["view"], row, strict=True))) for row in self._read("views", (self._text(owner),))]

    def put_view(self, view: SavedView) -> None:
        asked = msgspec.structs.asdict(checked_view(view)) | {"most": MAX_VIEWS}
        with self._changing() as change:
            self._lock_views(view.owner)
            if not change("put_view", asked):
                raise TooManyViews

    def remove_view(self, owner: str, name: str) -> bool:
        return self._change("remove_view", (self._text(owner), self._text(name))) == 1

    def _lock_views(self, owner: str) -> None:
        """Let no other process save a view of this owner until the transaction ends. This default does nothing, for a backend that has one
        writer at a time."""

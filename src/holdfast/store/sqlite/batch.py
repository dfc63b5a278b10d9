"""What a batch has decided so far, and whose error it is when a statement fails."""

from __future__ import annotations

import sqlite3
from collections import deque
from typing import Final, cast

from holdfast.model.charging import Counter
from holdfast.model.errors import HoldfastError
from holdfast.model.execution import Change, Execution, View
from holdfast.model.verbs import Write
from holdfast.store import rows
from holdfast.store.isolating import concerns_all, refused
from holdfast.store.sqlite.connecting import explained
from holdfast.store.views import Overlay, RowView

Mark = tuple[int, int, int, dict[str, Counter]]

_OF_A_ROW: Final = (
    "SQLITE_CONSTRAINT",
    "SQLITE_MISMATCH",
    "SQLITE_TOOBIG",
    "SQLITE_RANGE",
    "SQLITE_ERROR",
    "SQLITE_NOMEM",
    "SQLITE_CORRUPT",
)
"""What SQLite says of a value or of a row it was asked for. A page that is damaged concerns those who need it."""
_CLOSED: Final = "Cannot operate on a closed database"


class Batch:
    """What a batch has decided so far."""

    __slots__ = ("bases", "changes", "counters", "events", "followed", "following", "last_key", "names", "views")

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self.events: list[rows.Row] = []
        self.bases: dict[str, RowView] = {}
        """The committed view below each execution the batch has read."""
        self.views: dict[str, View] = {}
        """The latest view of each execution the batch has changed."""
        self.names: dict[tuple[str, str], str] = {}
        self.following: deque[Write] = deque()
        """What earlier writes bring to other executions, not yet decided."""
        self.followed: list[Execution] = []
        self.last_key = 0
        self.counters: dict[str, Counter] = {}
        """As the batch leaves them; made anew by each charge, so that a mark can hold on to it."""

    def mark(self) -> Mark:
        """How far it has come."""
        return len(self.changes), len(self.events), len(self.followed), self.counters

    def undo(self, mark: Mark) -> None:
        """Take back everything decided since a mark."""
        changes, events, followed, self.counters = mark
        for change in reversed(self.changes[changes:]):
            execution = change.header.id
            view = self.views.pop(execution)
            if isinstance(view, Overlay):
                self.views[execution] = view.below
                if change.header.superseded_by is not None:
                    self.names[change.header.function, change.header.name] = execution
            else:
                self.names.pop((change.header.function, change.header.name), None)
                del self.bases[execution]  # made by this entry, so no other entry may find it
        del self.changes[changes:], self.events[events:], self.followed[followed:]
        self.following.clear()


class Blame:
    """Whose error it is when a batch of one file fails, and how it is told."""

    def __init__(self, where: str) -> None:
        self._where = where

    def shared(self, error: Exception) -> HoldfastError | None:
        """What an error is to all entries; None for an error that a single entry may have caused."""
        if not is_shared(error):
            return None
        return explained(error, self._where) if isinstance(error, sqlite3.Error | OSError) else cast("HoldfastError", error)

    def refused(self, write: Write, error: Exception) -> HoldfastError:
        """What the caller of the one entry gets."""
        if isinstance(error, sqlite3.Error) and (getattr(error, "sqlite_errorname", "") or "").startswith("SQLITE_CORRUPT"):
            return explained(error, self._where)
        return refused(write, error)


def is_shared(error: Exception) -> bool:
    """Whether an error concerns all entries of a batch: the file, its lock and its disk do, a value or a row does not."""
    if isinstance(error, HoldfastError):
        return concerns_all(error)
    if isinstance(error, sqlite3.Error):
        name = getattr(error, "sqlite_errorname", None)
        return not name.startswith(_OF_A_ROW) if name else str(error).startswith(_CLOSED)
    return isinstance(error, OSError)

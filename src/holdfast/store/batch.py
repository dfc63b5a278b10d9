"""What a batch has decided so far, in memory: the changes of its entries, and the views that its later entries see. A backend writes it as
rows at the end."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from holdfast.model.charges import Counter
from holdfast.model.errors import HoldfastError
from holdfast.model.execution import Change, View
from holdfast.model.schedules import ScheduleState
from holdfast.model.verbs import Answer, Write
from holdfast.store import rows
from holdfast.store.lane_book import LaneBook
from holdfast.store.seam import Committed
from holdfast.store.views import Overlay, RowView

BatchMark = tuple[int, int, int, dict[str, Counter], dict[str, str | None], int, dict[str, ScheduleState]]


class Batch:
    """What a batch has decided so far."""

    __slots__ = ("_lanes", "bases", "born", "changes", "counters", "events", "followed", "following", "graphs", "moved", "names", "views")

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self.events: list[rows.Row] = []
        self.bases: dict[str, RowView] = {}
        """By id: each execution that the batch has read, as it was before the batch, and each that the batch has made, as it began."""
        self.views: dict[str, View] = {}
        """By id: the latest view of each execution that the batch has made or changed."""
        self.born: set[str] = set()
        """The ids of the executions that the batch has made."""
        self.names: dict[tuple[str, str], str] = {}
        self.following: deque[Write] = deque()
        """Follow-ups of the last entry that are not decided yet."""
        self.followed: list[Change] = []
        """The changes that follow-ups made, and the changes of open executions that a start replaced."""
        self.counters: dict[str, Counter] = {}
        """Counters as the batch leaves them. Each charge makes a new dict, so a mark can keep the old one."""
        self.graphs: dict[str, str | None] = {}
        """The graphs that new executions name, each with the text to store; None if the graph must be in the store already. Like
        `counters`, each change makes a new dict."""
        self._lanes: LaneBook | None = None
        self.moved: dict[str, ScheduleState] = {}
        """Schedules as the batch leaves them. Like `counters`, each change makes a new dict."""

    @property
    def lanes(self) -> LaneBook:
        """What the batch changes in lanes."""
        if self._lanes is None:
            self._lanes = LaneBook()
        return self._lanes

    @property
    def uses_lanes(self) -> bool:
        """Whether the batch has read or changed a lane."""
        return self._lanes is not None and self._lanes.is_used

    def mark(self) -> BatchMark:
        """A point to which `undo` can go back."""
        lanes = 0 if self._lanes is None else self._lanes.mark()
        return len(self.changes), len(self.events), len(self.followed), self.counters, self.graphs, lanes, self.moved

    def committed(self, answers: Sequence[Answer | HoldfastError], *, signalled: bool) -> Committed:
        """The result of the batch, once it is on disk. `signalled`: whether the batch added signals for subscribers."""
        return Committed(answers, [change.header for change in self.followed], signalled, self.followed)

    def undo(self, mark: BatchMark) -> set[str]:
        """Take back everything that was decided since a mark. Returns the ids of executions whose view in memory must be compared with the
        row again. Here the result is empty; a backend may return some."""
        changes, events, followed, self.counters, self.graphs, lanes, self.moved = mark
        if self._lanes is not None:
            self._lanes.undo(lanes)
        for change in reversed(self.changes[changes:]):
            execution = change.header.id
            view = self.views.pop(execution)
            if isinstance(view, Overlay):
                self.views[execution] = view.below
                if change.header.superseded_by is not None:
                    self.names[change.header.function, change.header.name] = execution
            else:
                self.names.pop((change.header.function, change.header.name), None)
                self.born.discard(execution)
                del self.bases[execution]  # the undone entry made this execution, so no other entry may find it
        del self.changes[changes:], self.events[events:], self.followed[followed:]
        self.following.clear()
        return set()

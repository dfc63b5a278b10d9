"""The timeline of one execution. A page asks for a slice of its rows, from a position on, and gets the rows with the axis on which their
bars are drawn."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from holdfast.console.sources.run_logs import logs_of
from holdfast.console.sources.run_secrets import Veil
from holdfast.console.sources.timeline_tree import TimelineEntry, TimelineFilter, TimelineTree
from holdfast.console.sources.timeline_words import Said
from holdfast.console.sources.viewer import CallerSource, Viewer
from holdfast.model.execution import Execution, ExecutionStatus
from holdfast.model.operations import RUN, Operation, Type
from holdfast.pipelines.graph.graph import kind_of
from holdfast.pipelines.graph.graph_json import graph_from
from holdfast.store.seam import ExecutionStore, Filter

PAGE: Final = 200
"""One slice has at most this many rows, if the caller gives no other limit."""
_MOST_TREES: Final = 12
_MOST_OPERATIONS: Final = 120_000
"""All trees in memory together have at most this many operations. One exception: a single tree that is larger is kept, alone."""
_WHOLE_OPERATIONS: Final = 2_000
_WHOLE_BYTES: Final = 8 * 1024 * 1024
"""If an execution has at most _WHOLE_OPERATIONS operations and _WHOLE_BYTES stored bytes, all its payloads are read at once. Of a larger
one, only the payloads of the rows that a page shows are read."""
_MOST_CHILDREN: Final = 1_000
_MOST_READ: Final = 4 * 1024 * 1024
_RANGE: Final = 50
_LATE_MS: Final = 2_000
"""A line that an operation logged may arrive up to this many milliseconds after the operation has changed."""


class TimelineRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The values of one row of a timeline. The page makes texts of times and costs."""

    place: int
    id: str
    depth: int = 0
    verb: str
    name: str = ""
    tail: str = ""
    status: str
    kids: int = 0
    closed: bool = False
    attempts: int = 0
    x0: int = 0
    x1: int = 0
    bar: str = ""
    """What kind of bar the row has: `wait`, `group` or `work`; empty for a log line, which has no bar."""
    took: int | None = None
    """How long the operation took, in milliseconds. If it has not ended: how long it has run until now, or until the end of the execution.
    None for a log line."""
    going: bool = False
    tokens: int | None = None
    cost: int | None = None
    held: int = 0
    held_tokens: int = 0
    run: str = ""
    """The id of the execution to which the row leads: the one that the operation started, or the run whose result it reuses. Empty if there
    is none, or if the caller may not see the execution that was started."""


class TimelineSlice(msgspec.Struct, frozen=True, kw_only=True):
    """Rows from one position on, and the totals of the whole list."""

    revision: int
    total: int
    """How many rows there are with this choice (`TimelineFilter`), in all slices together."""
    operations: int
    counts: dict[str, int]
    at: int
    rows: tuple[TimelineRow, ...]
    ticks: tuple[tuple[int, int], ...]
    folds: tuple[tuple[int, int, int], ...]
    """For each fold: where it begins on the axis, where it ends on the axis, and how many milliseconds it stands for."""
    idle: int
    span: int
    now: int
    """The position of the present on the axis; if the execution has ended, the position of its end."""
    is_over: bool
    selected: int | None = None
    """The position of the row of the operation that was asked for (`wanted`); None if none was asked for, or if it has no row."""
    toggled: tuple[int, ...] = ()


class Trees:
    """The trees of the executions that people look at now. There is a bound for the number of trees, and a bound for all their operations
    together. The tree that was not used for the longest time is dropped first. The tree that was used last is kept even if it alone has
    more operations than the bound."""

    def __init__(self, most: int = _MOST_TREES, operations: int = _MOST_OPERATIONS) -> None:
        self._most = most
        self._operations = operations
        self._kept: OrderedDict[str, tuple[TimelineTree, Mapping[str, Execution]]] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, viewer: Viewer, header: Execution) -> tuple[TimelineTree, Mapping[str, Execution]]:
        """The tree of an execution at the revision of `header`; and the executions that its operations started, by the operation's id, at
        most 1,000."""
        with self._lock:
            kept = self._kept.get(header.id)
        if kept is not None and _is_fresh(kept[0], header):
            made = kept
        else:
            made = _made(viewer, header, None if kept is None else kept[0]), _children(viewer.store, header)
        with self._lock:
            self._kept[header.id] = made
            self._kept.move_to_end(header.id)
            while len(self._kept) > 1 and (
                len(self._kept) > self._most or sum(len(tree.operations) for tree, _ in self._kept.values()) > self._operations
            ):
                self._kept.popitem(last=False)
        return made


def _is_fresh(tree: TimelineTree, header: Execution) -> bool:
    if tree.header.revision != header.revision or tree.header.status is not header.status:
        return False
    return tree.logs is None or tree.logs_at >= header.touched_at + _LATE_MS


def _known_logs(header: Execution, before: TimelineTree | None, now: int) -> TimelineTree | None:
    """The earlier tree, if its log lines can be used again; None if they must be read. While an execution runs, its log lines are read at
    most every two seconds, because reading them may take long."""
    if before is None or before.logs is None or header.status is not ExecutionStatus.RUNNING:
        return None
    return before if now - before.logs_at < _LATE_MS else None


def _made(viewer: Viewer, header: Execution, before: TimelineTree | None) -> TimelineTree:
    store, now, veil = viewer.store, viewer.now, Veil(viewer, header)
    whole = header.operations <= _WHOLE_OPERATIONS and header.stored <= _WHOLE_BYTES
    kinds: dict[str, str] = {}
    if header.graph is not None and (text := store.graph(header.graph)) is not None:
        kinds = {node.name: kind_of(node) for node in graph_from(text).nodes}
    if whole:
        operations, earlier = store.operations(header.id), _known_logs(header, before, now)
        logs = logs_of(viewer, header, operations, veil) if earlier is None else earlier.logs
        tree = TimelineTree(header, operations, kinds, now, veil, whole=True, logs=logs)
        tree.logs_at = now if earlier is None else earlier.logs_at
        return tree
    if before is None:
        return TimelineTree(header, store.outline(header.id), kinds, now, veil, whole=False)
    known = {op.place: op for op in before.operations}
    known |= {op.place: op for op in store.outline(header.id, before.header.revision)}
    tree = TimelineTree(header, [known[place] for place in sorted(known)], kinds, now, veil, whole=False)
    for entry in before.entries:
        at = tree.by_place.get(entry.op.place)
        if at is not None and entry.said is not None and tree.entries[at].op.revision == entry.op.revision:
            tree.entries[at].said, tree.entries[at].status = entry.said, entry.status
    return tree


def _children(store: ExecutionStore, header: Execution) -> dict[str, Execution]:
    found = store.list(Filter(parent=header.id, limit=_MOST_CHILDREN))
    return {child.parent_operation: child for child in reversed(found) if child.parent_operation is not None}


class TimelineSource(CallerSource):
    """Reads timelines for one caller."""

    def slice(
        self, header: Execution, trees: Trees, choice: TimelineFilter, at: int = 0, wanted: str | None = None, limit: int = PAGE
    ) -> TimelineSlice:
        """At most `limit` rows, from the position `at` on; only the last row if `at` is behind it. If `wanted` is given, and the
        operation with this id has a row, `at` is ignored: the result is the slice that contains this row."""
        now = self._viewer.now
        tree, children = trees.of(self._viewer, header)
        scale = tree.scale if tree.is_over else tree.measured(now)
        selected = None
        if wanted is not None and (entry := tree.by_id.get(wanted)) is not None:
            selected, choice = tree.shown_at(entry, choice)
            at = selected - selected % limit
        rows = tree.view(choice)
        at = max(0, min(at, len(rows) - 1))
        shown = [tree.entries[number] for number in rows[at : at + limit]]
        self._read(tree, shown)
        end = header.ended_at or max(now, header.touched_at)
        made = tuple(
            _line(entry) if entry.is_line else self._row(tree, entry, choice, children.get(entry.op.id), scale.place, end)
            for entry in shown
        )
        return TimelineSlice(
            revision=header.revision,
            total=len(rows),
            operations=tree.counts.total(),
            counts=dict(tree.counts),
            at=at,
            rows=made,
            ticks=tuple(scale.ticks()),
            folds=tuple((fold.x0, fold.x1, fold.end - fold.start) for fold in scale.folds),
            idle=scale.idle,
            span=end - header.started_at,
            now=scale.place(end),
            is_over=tree.is_over,
            selected=selected,
            toggled=tuple(sorted(choice.toggled)),
        )

    def _read(self, tree: TimelineTree, shown: Sequence[TimelineEntry]) -> None:
        """Read the payloads of those rows whose payloads have not been read yet, until a bound of bytes is reached."""
        missing = sorted({place for entry in shown if entry.said is None for place in (entry.intent, entry.op.place) if place is not None})
        found: dict[int, Operation] = {}
        left = _MOST_READ
        while missing and left > 0:
            first, last = missing[0], missing[min(_RANGE, len(missing)) - 1]
            some = self._viewer.store.operations(tree.header.id, after=first - 1, limit=min(_RANGE, last - first + 1))
            found |= {op.place: op for op in some}
            left -= sum(len(op.result or "") for op in some)
            reached = some[-1].place if some else last
            missing = [place for place in missing if place > reached]
        for entry in shown:
            op = found.get(entry.op.place)
            if entry.said is None and op is not None:
                entry.op, outline = op, entry.op
                tree.say(entry, None if entry.intent is None else found.get(entry.intent))
                entry.op = outline

    def _row(
        self, tree: TimelineTree, entry: TimelineEntry, choice: TimelineFilter, child: Execution | None, place: Any, end: int
    ) -> TimelineRow:
        op, said = entry.op, entry.said or Said()
        status, name, run = entry.status, entry.name, said.run or ""
        if child is not None:
            run = child.id if self._viewer.may_see(child) else ""
            if op.ended_at is None or (said.status is None and op.sub_type == RUN):
                status = self._viewer.status(child).value if op.ended_at is None or child.summary else status
            if op.sub_type == RUN and tree.header.graph is not None:
                name = "items" if child.function == tree.header.function else child.function
        finish = op.ended_at if op.ended_at is not None else end
        return TimelineRow(
            place=op.place,
            id=op.id,
            depth=entry.depth,
            verb=entry.verb,
            name=name,
            tail=_waited(op) if op.type is Type.WAIT else tree.tail(entry),
            status=status,
            kids=entry.kids,
            closed=tree.is_closed(entry, choice),
            attempts=op.attempt if op.attempt > 1 or (op.ended_at is None and op.attempt) else 0,
            x0=place(op.started_at),
            x1=place(finish),
            bar="wait" if op.type in (Type.WAIT, Type.CALLBACK) else "group" if entry.kids > entry.lines else "work",
            took=finish - op.started_at,
            going=op.ended_at is None and not tree.is_over,
            tokens=said.tokens,
            cost=said.cost,
            held=said.held if op.ended_at is None else 0,
            held_tokens=said.held_tokens if op.ended_at is None else 0,
            run=run if run != tree.header.id else "",
        )


def _line(entry: TimelineEntry) -> TimelineRow:
    """The row of a line that an operation logged."""
    tail = "" if entry.said is None else entry.said.tail
    return TimelineRow(place=entry.op.place, id=entry.op.id, depth=entry.depth, verb=entry.verb, name=entry.name, tail=tail, status="")


def _waited(op: Operation) -> str:
    """How long the author's wait lasts, or lasted, as a text such as `30 s`; empty if that is not known."""
    until = op.due_at or op.ended_at
    if until is None:
        return ""
    seconds = max(0, until - op.started_at) / 1000
    if seconds < 120:
        return f"{round(seconds, 1) if seconds >= 1 else seconds:g} s"
    return (
        f"{seconds / 60:.4g} min" if seconds < 7_200 else f"{seconds / 3600:.4g} h" if seconds < 172_800 else f"{seconds / 86_400:.4g} days"
    )

"""The operations of one execution as a tree of rows, from which slices are cut.

The tree is built anew when the execution has changed, or when new log lines may have arrived. The rows are ordered for people: calls are
under the attempt that made them, and the work of a pipeline's node is under its node. The intent of a
call (what is on disk before the call is made) and its receipt are one row.
Operations that people need not see, such as the timers for the time limits of a pipeline, have no row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from holdfast.console.sources.run_secrets import Veil
from holdfast.console.sources.timeline_scale import Scale
from holdfast.console.sources.timeline_words import LOG, Said, counted, logged, name_of, said_of, stands, verb_of
from holdfast.model.execution import Execution, ExecutionStatus
from holdfast.model.operations import APPROVAL, CANCEL, SERVED, Operation, SubType, Type
from holdfast.pipelines.record.operations import REUSED, TIME_AT, node_time_at
from holdfast.workers.run_operations import ATTEMPT, EFFECTS, INTENT, NODE, RECEIPT, REQUEST

_CROWD: Final = 50
"""If a row has more children than this (log lines do not count), the page hides them at first."""
_CLOSED: Final = frozenset({SubType.MAP.value, SubType.MAP_ITERATION.value})
"""At first the page hides the rows under a map, and the rows under each item of a map."""
_BRANCHES: Final = frozenset({SubType.MAP_ITERATION.value, SubType.PARALLEL_BRANCH.value})
_MOST_DEPTH: Final = 64
_MOST_TRIES: Final = 6
_KEPT_VIEWS: Final = 6
_MOST_LINES: Final = 20
"""At most this many log lines of one operation have a row in the timeline. The panel of the operation shows more of its lines."""
_OPEN: Final = ("person", "running", "retrying", "waiting")
_BAD: Final = frozenset({"failed", "stopped", "blocked", "quarantined"})


class TimelineEntry(msgspec.Struct, kw_only=True, gc=False):
    """One row, before it is written for a page."""

    op: Operation
    verb: str
    name: str
    status: str
    above: int = -1
    """The number of the entry directly above this one in the tree; -1 if there is none."""
    depth: int = 0
    kids: int = 0
    lines: int = 0
    """How many of the entries directly under this one are lines that its operation logged."""
    branches: int = 0
    """How many of the entries directly under this one are items of a map or branches of a parallel. 0 for a map or a parallel whose
    branches have no operations of their own (NestingType.FLAT)."""
    branches_ok: int = 0
    branches_bad: int = 0
    end: int = 0
    """The number of the next entry that is not under this one."""
    closed: bool = False
    """Whether the page hides its children until a person opens the row."""
    intent: int | None = None
    """For a call, the place of the operation with its intent. For an approval, the place of the operation with its request. None for any
    other entry."""
    told: bool = False
    """Whether the status of this entry was copied from an entry under it."""
    said: Said | None = None
    """What the payloads of the operation say; None until they have been read."""

    @property
    def is_line(self) -> bool:
        """Whether it is a row for log lines of its operation: one line, or the row that says how many more there are."""
        return self.verb == LOG


class TimelineFilter(msgspec.Struct, frozen=True):
    """Which rows a person wants to see. With `errors`: rows that failed, stopped, were blocked or quarantined, or are retried. With `text`:
    rows whose verb, name or result contains the text, or whose id begins with it; a result that has not been read yet is not searched. With
    both: rows that match both. The rows that are above a matching row in the tree are shown too."""

    errors: bool = False
    text: str = ""
    toggled: frozenset[int] = frozenset()
    """The places of the operations whose rows a person opened or closed by a click."""

    def flipped(self, place: int | None = None) -> str:
        """The places (`Operation.place`) of the rows that a person opened or closed by a click, as the address of the page has them. With
        `place`: as they would be after one more click, on the row of the operation at that place."""
        return ",".join(map(str, sorted(self.toggled if place is None else self.toggled ^ {place})))


class TimelineTree:
    """The rows of one execution at one revision."""

    def __init__(
        self,
        header: Execution,
        operations: Sequence[Operation],
        kinds: Mapping[str, str],
        now: int,
        veil: Veil,
        *,
        whole: bool,
        logs: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
    ) -> None:
        """`kinds`: the kind of each node, by its name; empty if the execution is not a pipeline's run. `whole`: whether the operations were
        read with their payloads. `logs`: the lines of each operation that logged any, by the id of the operation; None if they were not
        read."""
        self.header = header
        self.operations = operations
        self.is_over = header.status is not ExecutionStatus.RUNNING
        self.entries: list[TimelineEntry] = []
        self._kinds = kinds
        self._veil = veil
        self.logs = logs
        self.logs_at = now
        """When the logs were read."""
        self._views: dict[TimelineFilter, list[int]] = {}
        self._build(operations, whole, logs or {})
        own = [(at, entry) for at, entry in enumerate(self.entries) if not entry.is_line]
        self.by_place = {entry.op.place: at for at, entry in own}
        self.by_id = {entry.op.id: at for at, entry in own}
        self.counts = Counter(entry.status for _, entry in own)
        asked = {entry.above for _, entry in own if entry.status == "person"}  # such a row only shows the question below it
        self.counts -= Counter(entry.status for at, entry in own if at in asked and entry.status == "person")
        self.scale = self.measured(now)

    # --- building

    def _build(self, operations: Sequence[Operation], whole: bool, logs: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
        hidden, intents = self._hidden(operations)
        found: list[TimelineEntry] = []
        number: dict[str, int] = {}
        homes: dict[str, int] = {}
        taken: dict[str | None, list[TimelineEntry]] = {}
        rounds: Counter[str | None] = Counter()
        attempt = -1
        for op in operations:
            if op.id in hidden:
                continue
            entry = TimelineEntry(op=op, verb=self._verb(op), name=name_of(op), status=stands(op, is_over=self.is_over))
            entry.above = self._above(op, number, homes, attempt)
            entry.intent = intents.get(op.id)
            if op.type is Type.CONTEXT and op.sub_type == NODE:
                homes[op.name or ""] = len(found)
                for early in taken.pop(op.name, ()):  # the results that a node reuses are written before the node itself
                    early.above = len(found)
                rounds[op.name] += 1
                if rounds[op.name] > 1:
                    entry.name = f"{entry.name} (round {rounds[op.name]})"
            if op.sub_type == REUSED and entry.above < 0:
                taken.setdefault(op.name, []).append(entry)
            if op.sub_type == ATTEMPT:
                attempt = len(found)
            number[op.id] = len(found)
            found.append(entry)
        if whole:
            by_place = {op.place: op for op in operations}
            for entry in found:
                self.say(entry, None if entry.intent is None else by_place.get(entry.intent))
        for operation, lines in logs.items():
            if operation in number:
                found += self._lines(found[number[operation]], number[operation], lines)
        self._order(found)
        self._pass_up()

    def _lines(self, entry: TimelineEntry, at: int, lines: Sequence[Mapping[str, Any]]) -> list[TimelineEntry]:
        """The rows of the first lines that an operation logged, at most _MOST_LINES. If there are more lines, one more row says how many.
        The rows are under the row of the operation (`entry`, whose number is `at`), after its other children."""
        told = [logged(line) for line in lines[:_MOST_LINES]]
        if len(lines) > _MOST_LINES:
            told.append(("", f"… {len(lines) - _MOST_LINES:,} more"))
        entry.lines = len(told)
        return [TimelineEntry(op=entry.op, verb=LOG, name=level, status="", above=at, said=Said(tail=message)) for level, message in told]

    def _pass_up(self) -> None:
        """Set statuses from the rows below. A row that has not ended gets the status of a row under it that has not ended, because it waits
        for that one; of several, the status that is first in `_OPEN`. A map or a parallel that succeeded although some of its branches
        failed becomes `partial`; branches without rows are not known here."""
        for entry in reversed(self.entries):
            if entry.status == "ok" and entry.branches_bad:
                entry.status = "partial"
            if entry.above >= 0 and entry.status in _OPEN:
                parent = self.entries[entry.above]
                if parent.status in _OPEN and (not parent.told or _OPEN.index(entry.status) < _OPEN.index(parent.status)):
                    parent.status, parent.told = entry.status, True

    def _verb(self, op: Operation) -> str:
        if op.sub_type == NODE and op.type is Type.CONTEXT:
            return self._kinds.get(op.name or "", "node")
        return "undo" if op.sub_type == NODE else verb_of(op)

    def _hidden(self, operations: Sequence[Operation]) -> tuple[set[str], dict[str, int]]:
        """Two results. First, the ids of the operations that have no row of their own. Second, by operation id: for each receipt of a call
        the place (`Operation.place`) of the call's intent, which was written before the call, and for each approval the place of its
        request."""
        timers = {TIME_AT.operation_id} if self._kinds else set()
        for node in self._kinds:
            timers |= {node_time_at(node, number).operation_id for number in range(1, _MOST_TRIES)}
        hidden, halves = set(timers), {}
        before: Operation | None = None
        for op in operations:
            if op.sub_type in (EFFECTS, CANCEL):
                hidden.add(op.id)
            elif op.sub_type == INTENT or (op.sub_type == REQUEST and before is not None and before.sub_type == APPROVAL):
                hidden.add(op.id)
                if op.sub_type == REQUEST and before is not None:
                    halves[before.id] = op.place
            elif op.sub_type == RECEIPT and before is not None and before.sub_type == INTENT and before.name == op.name:
                halves[op.id] = before.place
            before = op
        return hidden, halves

    def _above(self, op: Operation, number: Mapping[str, int], homes: Mapping[str, int], attempt: int) -> int:
        at = number.get(op.parent_id or "", -1)
        if at >= 0 or op.sub_type in (NODE, ATTEMPT):
            return at
        return homes.get(op.name or "", -1) if self._kinds else attempt

    def _order(self, found: list[TimelineEntry]) -> None:
        """Put the rows in the order of the page: each row before the rows under it."""
        below: dict[int, list[int]] = {}
        for at, entry in enumerate(found):
            below.setdefault(entry.above, []).append(at)
            if entry.above >= 0:
                found[entry.above].kids += 1
        position: dict[int, int] = {}
        stack = list(reversed(below.get(-1, [])))
        open_rows: list[TimelineEntry] = []
        while stack:
            at = stack.pop()
            if at < 0:
                open_rows.pop().end = len(self.entries)
                continue
            entry = found[at]
            entry.above = position.get(entry.above, -1)
            entry.depth = min(len(open_rows), _MOST_DEPTH)
            position[at] = len(self.entries)
            self.entries.append(entry)
            self._count(entry)
            entry.closed = entry.kids - entry.lines > _CROWD or (entry.kids > 0 and entry.op.sub_type in _CLOSED)
            open_rows.append(entry)
            stack.append(-1)
            stack.extend(reversed(below.get(at, ())))

    def _count(self, entry: TimelineEntry) -> None:
        if entry.above >= 0 and entry.op.sub_type in _BRANCHES and not entry.is_line:
            parent = self.entries[entry.above]
            parent.branches += 1
            parent.branches_ok += entry.status == "ok"
            parent.branches_bad += entry.status in _BAD

    def find(self, operation: str) -> tuple[int, TimelineEntry] | None:
        """The number and the entry of an operation. If the operation has no row of its own, the number is -1, and the entry is made for
        this call. None if the execution has no such operation."""
        at = self.by_id.get(operation, -1)
        if at >= 0:
            return at, self.entries[at]
        op = next((one for one in self.operations if one.id == operation), None)
        if op is None:
            return None
        return -1, TimelineEntry(op=op, verb=verb_of(op), name=name_of(op), status=stands(op, is_over=self.is_over))

    def say(self, entry: TimelineEntry, half: Operation | None) -> None:
        """Read what the payloads of a row say, and keep it in the entry. If the operation has ended and they say how the work ended, this
        becomes the status of the entry. `half` is the operation that was written before the call (its intent), or the one with the
        request of the approval; None if the row has neither."""
        said = said_of(self._veil.operation(entry.op), None if half is None else self._veil.operation(half))
        if said.status is not None and entry.op.ended_at is not None:
            entry.status = said.status
        entry.said = said

    # --- time

    def measured(self, now: int) -> Scale:
        """The scale of the time axis. The axis begins at the start of the execution and ends at its end, or at `now` if it has not
        ended."""
        header = self.header
        end = header.ended_at if header.ended_at is not None else max(now, header.touched_at)
        return Scale(header.started_at, end, self._busy(end))

    def _busy(self, end: int) -> Iterator[tuple[int, int]]:
        """The spans of time in which something ran, in the order of their starts. Some rows count only at their start and at their end, not
        in between: a row with rows under it, a wait, a callback, an operation with several attempts, and an operation that has not ended
        although the execution has."""
        spans = []
        for entry in self.entries:
            op = entry.op
            if entry.is_line:
                continue
            if entry.kids > entry.lines:
                spans.append((op.started_at, op.started_at))
                if op.ended_at is not None:
                    spans.append((op.ended_at, op.ended_at))
            elif (op.type in SERVED and op.type is not Type.CHAINED_INVOKE) or op.attempt > 1 or (op.ended_at is None and self.is_over):
                spans += [(op.started_at, op.started_at), (op.ended_at or op.started_at, op.ended_at or op.started_at)]
            else:
                spans.append((op.started_at, op.ended_at or end))
        return iter(sorted(spans))

    # --- views

    def view(self, choice: TimelineFilter) -> list[int]:
        """The numbers of the entries that are shown with this choice, in order."""
        found = self._views.get(choice)
        if found is None:
            found = self._filtered(choice) if choice.errors or choice.text else self._unfolded(choice)
            while len(self._views) >= _KEPT_VIEWS:
                self._views.pop(next(iter(self._views)))
            self._views[choice] = found
        return found

    def is_closed(self, entry: TimelineEntry, choice: TimelineFilter) -> bool:
        """Whether this choice hides the rows under a row."""
        return entry.kids > 0 and entry.closed != (entry.op.place in choice.toggled)

    def _unfolded(self, choice: TimelineFilter) -> list[int]:
        found, at, entries = [], 0, self.entries
        while at < len(entries):
            found.append(at)
            entry = entries[at]
            at = entry.end if self.is_closed(entry, choice) else at + 1
        return found

    def _filtered(self, choice: TimelineFilter) -> list[int]:
        """The numbers of the entries that match the filter, and of the entries above them in the tree, in order."""
        wanted, text = set(), choice.text.casefold()
        for at, entry in enumerate(self.entries):
            if choice.errors and entry.status not in _BAD and entry.status != "retrying":
                continue
            if (
                text
                and text not in f"{entry.verb} {entry.name}".casefold()
                and not entry.op.id.startswith(text)
                and not _tail_has(entry, text)
            ):
                continue
            while at >= 0 and at not in wanted:
                wanted.add(at)
                at = self.entries[at].above
        return sorted(wanted)

    def shown_at(self, entry: int, choice: TimelineFilter) -> tuple[int, TimelineFilter]:
        """Where a row is on the page: its position, and the choice for which the position holds. In this choice, all rows above the row in
        the tree are open. If the filter of `choice` hides the row, the returned choice has no filter."""
        toggled, above = set(choice.toggled), self.entries[entry].above
        while above >= 0:
            one = self.entries[above]
            if one.closed != (one.op.place in toggled):
                toggled ^= {one.op.place}
            above = one.above
        opened = msgspec.structs.replace(choice, toggled=frozenset(toggled))
        rows = self.view(opened)
        try:
            return rows.index(entry), opened
        except ValueError:  # the row does not match the choice
            return self.shown_at(entry, TimelineFilter(toggled=frozenset(toggled)))

    def tail(self, entry: TimelineEntry) -> str:
        """What a row shows after its name: for a map or a parallel with rows for its items or branches, their counts; for any other row,
        its result in a few words. Empty if there is none, or if it has not been read."""
        if entry.branches:
            what = "item" if entry.op.sub_type == SubType.MAP.value else "branch"
            return counted(entry.branches, entry.branches_ok, entry.branches_bad, what)
        return "" if entry.said is None else entry.said.tail


def _tail_has(entry: TimelineEntry, text: str) -> bool:
    return entry.said is not None and text in entry.said.tail.casefold()

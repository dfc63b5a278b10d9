"""How a batch is decided. Each entry sees the rows as the earlier entries of the batch leave them. The follow-up writes that an entry
causes are decided with it.

A follow-up (model.follow_ups) is a write to another execution, such as a parent that gets a result, or a child that is started or stopped.
It is committed with its entry or not at all. If an entry fails, only that entry is undone, and the other entries of the batch are still
written.

Both backends share this module. A backend adds how rows are read, how a batch is written, and which errors concern the whole batch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final, Generic, TypeVar

import msgspec

from holdfast.model import codec
from holdfast.model.admission import Enqueue, checked_enqueue
from holdfast.model.charges import Counter, charged
from holdfast.model.errors import ExecutionAlreadyStarted, ExecutionNotFound, HoldfastError, InvalidParameter, LimitReached
from holdfast.model.execution import Birth, Change, Execution, View
from holdfast.model.follow_ups import beyond_limit, follow_ups, refused_by_queue
from holdfast.model.payloads import PayloadCodec, encoded_document, identified
from holdfast.model.places import path
from holdfast.model.queue_errors import QueueFull
from holdfast.model.queues import Mode, QueueRow, QueueSettings
from holdfast.model.rates import RateState
from holdfast.model.schedule_errors import ScheduleChanged
from holdfast.model.schedules import ScheduleState
from holdfast.model.seal import Seal
from holdfast.model.starts import NO_SETTINGS
from holdfast.model.verbs import Answer, Checkpoint, Start, Started, Write
from holdfast.store import rows
from holdfast.store.batch import Batch
from holdfast.store.isolation import own
from holdfast.store.lane_book import DepthReads, check_depth
from holdfast.store.lane_rows import LaneRow, new_lane
from holdfast.store.views import Overlay, RowView

_REMEMBERED: Final = 1000
"""A process that remembers more than this many graphs that it wrote forgets them all at its next commit with a graph."""

B = TypeVar("B", bound=Batch)


class Decisions(ABC, Generic[B]):
    """The part of a store that decides the entries of a batch."""

    seal: Seal
    _codec: PayloadCodec | None
    _views: dict[str, RowView]
    """By id: the executions that a runner of this process has claimed, as the last commit of this process left them."""
    _runner: str | None
    _written_graphs: set[str]
    """The ids of graphs that this process has written itself. These are encoded with the current key of its codec."""

    @abstractmethod
    def _named(self, start: Start, done: B) -> View | None:
        """The execution that has the name of a start and is not superseded; None if there is none."""

    @abstractmethod
    def _view(self, execution: str, done: B) -> RowView:
        """The view of an execution as it was before the batch. It is also put into `done.bases`. Raises ExecutionNotFound if there is no
        such execution."""

    @abstractmethod
    def _new_base(self, header: Execution, done: B) -> RowView:
        """The view of a new execution, which has no row yet. The execution gets its key: the number under which its rows will be stored."""

    @abstractmethod
    def _children(self, parent: str, done: B) -> list[str]:
        """The ids of executions that an execution invoked: those open before the batch, and those that the batch has made or changed."""

    @abstractmethod
    def _counter(self, key: str) -> Counter | None:
        """A counter as it is in the store; None if there is none. Called only for a counter that no entry of the batch has charged yet."""

    @abstractmethod
    def _queue(self, queue: str) -> QueueRow:
        """A queue as it is in the store; a queue without a row has the default settings. Called only for a queue that the batch has not
        read yet."""

    @abstractmethod
    def _lane(self, lane: str) -> LaneRow | None:
        """A lane as it is in the store; None if there is none. Called only for a lane that the batch has not read yet."""

    @abstractmethod
    def _rates_under(self, shared: str | None) -> Sequence[RateState]:
        """The rates that other lanes already share under the key `shared` (none if it is None), for a lane that is not in the store yet."""

    @abstractmethod
    def _oldest(self, queue: str) -> int | None:
        """When the execution that has waited longest in a queue began to wait, in milliseconds since the epoch; None if none waits."""

    @abstractmethod
    def _queued_money(self, queue: str) -> int:
        """The estimated cost of all executions that waited in a queue before the batch, in billionths of a dollar."""

    @abstractmethod
    def _schedule_place(self, name: str) -> tuple[int, int] | None:
        """The revision and the cursor of a schedule; None if there is no such schedule. No other process can change them before the batch
        is written."""

    @abstractmethod
    def _is_shared(self, error: Exception) -> bool:
        """Whether an error that was raised while an entry was decided concerns the whole batch."""

    @abstractmethod
    def _refused(self, write: Write, error: Exception) -> HoldfastError:
        """The error that an entry gets as its answer, if the entry alone failed with this error."""

    def _has_moved(self, execution: str, done: B) -> bool:
        """Whether the row of an execution has changed after the view in memory was made. This default returns False, for a backend whose
        views are always current inside a transaction."""
        return False

    def _entry(self, write: Write, now: int, done: B) -> Answer | HoldfastError:
        """Decide an entry and its follow-ups. If an error concerns only this entry, the error is its answer, and nothing of it is written.
        An error that concerns the whole batch is raised."""
        before = done.mark()
        failed: HoldfastError | None
        answer: Answer | HoldfastError
        try:
            if isinstance(write, Checkpoint) and write.children:
                write = self._admissible(self._afforded(write, now, done), now, done)
            answer = self._decided(write, now, done)
            failed = self._follow(now, done) if done.following else None
        except Exception as error:
            if self._is_shared(error):
                raise
            answer = failed = self._refused(write, error)
        if failed is None:
            return self._as_made(write, answer, done)
        moved = [execution for execution in done.undo(before) if self._has_moved(execution, done)]
        return self._entry(write, now, done) if moved else failed

    def _as_made(self, write: Write, answer: Answer | HoldfastError, done: B) -> Answer | HoldfastError:
        """The final answer to an entry, after its follow-ups are decided. For a start that enqueues, only now it is known whether the
        execution was admitted at once."""
        if isinstance(write, Start) and write.enqueue is not None and isinstance(answer, Started) and answer.created:
            return Started(done.views[write.execution].header, True)
        return answer

    def _afforded(self, write: Checkpoint, now: int, done: B) -> Checkpoint:
        """The same checkpoint, in which the start of a child is replaced by a failure if its charge would go beyond a limit. The charges of
        the checkpoint's earlier children count, too."""
        charging = {at: child for at, child in write.children.items() if isinstance(child, Birth) and child.charges}
        if not charging:
            return write
        counters, children = dict(done.counters), dict(write.children)

        def read(key: str) -> Counter | None:
            return counters.get(key) or self._counter(key)

        try:
            counters |= charged(write.charges, read, now)
        except LimitReached:
            return write  # the checkpoint itself goes beyond a limit, and will be refused
        for at, child in charging.items():
            try:
                counters |= charged(child.charges, read, now)
            except LimitReached as limit:
                children[at] = beyond_limit(limit)
        return msgspec.structs.replace(write, children=children)

    def _admissible(self, write: Checkpoint, now: int, done: B) -> Checkpoint:
        """The same checkpoint, in which the enqueue of a child is replaced by a failure if the queue refuses it. The checkpoint's earlier
        children count, too."""
        enqueued = [(at, child, child.enqueue) for at, child in write.children.items() if isinstance(child, Birth) and child.enqueue]
        if not enqueued:
            return write
        before, children = done.lanes.mark(), dict(write.children)
        for at, child, asked in enqueued:
            start = Start(child.header, child.input, child.by, enqueue=asked)
            try:
                settings, admits = self._placement(start, asked, now, done)
                done.lanes.move(None, start.create(now, settings, admits=admits)[0])
            except (QueueFull, InvalidParameter) as refused:
                children[at] = refused_by_queue(refused)
        done.lanes.undo(before)
        return msgspec.structs.replace(write, children=children)

    def _follow(self, now: int, done: B) -> HoldfastError | None:
        """Decide the follow-ups of an entry. Returns None if all of them are decided. Returns an error if one of them cannot be written;
        the entry itself must not be written then."""
        while done.following:
            before = len(done.changes)
            answer = self._decided(done.following.popleft(), now, done)
            if isinstance(answer, HoldfastError) and not isinstance(answer, ExecutionNotFound):  # a removed execution needs no follow-up
                return answer
            if len(done.changes) > before:
                done.followed.append(done.changes[-1])
        return None

    def _decided(self, write: Write, now: int, done: B) -> Answer | HoldfastError:
        try:
            answer: Answer
            change: Change | None
            if isinstance(write, Start):
                view = self._named(write, done)
                if write.moved is not None:
                    self._check_moves(write.moved, view, done)
                if self._codec is not None:
                    write = identified(write, view, self._codec)
                if view is None:
                    return self._created(write, now, done)
            else:
                view = done.views.get(write.execution) or self._view(write.execution, done)
            change, answer = write.decide(view, now, self.seal)
            if change is not None:
                self._accept(change, done, now)
                if isinstance(write, Start) and change.header.status is not view.header.status:
                    done.followed.append(change)  # the start replaces an open execution, which is not the one that it answers with
                if change.header.place is not None and not change.slight:
                    done.lanes.move(view.header, change)
        except HoldfastError as refusal:
            return own(refusal)
        if change is not None:
            done.views[change.header.id] = Overlay(view, change)
            if change.births or not change.slight:
                done.following.extend(follow_ups(write, view.header, change, lambda parent: self._children(parent, done)))
        return answer

    def _accept(self, change: Change, done: B, now: int) -> None:
        """Add a change to the batch. Its events are encoded into rows here, so if the codec fails, only this entry fails."""
        execution, events = change.header.id, []
        key = done.bases[execution].key
        for event in change.events:
            operation_id = event.operation_id
            place = None if operation_id is None else change.operations[operation_id].place
            detail = None if event.detail is None else codec.dumps(event.detail)
            events.append(rows.event_row(key, event, detail, place, execution, self._codec))
        if change.charges:
            after = charged(change.charges, lambda counter: done.counters.get(counter) or self._counter(counter), now)
            done.counters = done.counters | after
        done.events += events
        done.changes.append(change)

    def _created(self, start: Start, now: int, done: B) -> Answer:
        if start.enqueue is None:
            return self._born(start, now, done, NO_SETTINGS, admits=False)
        before = done.lanes.mark()
        try:
            settings, admits = self._placement(start, start.enqueue, now, done)
            return self._born(start, now, done, settings, admits=admits)
        except BaseException:
            done.lanes.undo(before)
            raise

    def _born(self, start: Start, now: int, done: B, settings: QueueSettings, *, admits: bool) -> Answer:
        change, answer = start.create(now, settings, admits=admits)
        header = change.header
        if header.id in done.bases:
            raise ExecutionAlreadyStarted(f"A new execution cannot have the id {header.id}: another execution has it already.")
        base = done.bases[header.id] = self._new_base(header, done)
        done.born.add(header.id)
        try:
            graph = self._stored_graph(start, done)
            self._accept(change, done, now)
        except BaseException:
            done.born.discard(header.id)
            del done.bases[header.id]
            raise
        if header.place is not None:
            done.lanes.move(None, change)
        if header.graph is not None:
            done.graphs = done.graphs | {header.graph: graph}
        if start.moved is not None:
            done.moved = done.moved | {start.moved.name: start.moved}
        done.views[header.id] = base
        done.names[header.function, header.name] = header.id
        return answer

    def _placement(self, start: Start, asked: Enqueue, now: int, done: B) -> tuple[QueueSettings, bool]:
        """The settings of the queue, and whether the execution is admitted at once.

        It is admitted only if a runner claims it in this write, it has no delay, the queue is not paused, each of its lanes has a free slot
        and is not closed, nothing waits there, and the rates of the lanes allow it. If so, it is counted against these rates. Raises
        QueueFull or InvalidParameter if the queue refuses the execution.
        """
        book = done.lanes
        row, settings = book.queue(asked.queue, self._queue)
        checked_enqueue(asked, settings)
        above = book.lane(asked.queue, self._lane)
        reads = DepthReads(above, lambda: self._oldest(asked.queue), lambda: self._queued_money(asked.queue))
        check_depth(row, settings, book, reads, asked, now)
        lanes = []
        for key in path(asked.lane(start.header)):
            found = book.lane(key, self._lane)
            if found is None:
                found = new_lane(key, settings, start.header, asked, paused=row.mode is Mode.PAUSED)
                book.add(found)
                for rate in self._rates_under(found.shared_rate):  # other lanes may have used the rate up
                    book.shared.setdefault((rate.shared, rate.kind), rate)
            lanes.append(found)
        if start.by is None or asked.delay_ms > 0 or row.mode is Mode.PAUSED:
            return settings, False
        return settings, book.admitted(lanes, asked.units, now)

    def _check_moves(self, moved: ScheduleState, taken: View | None, done: B) -> None:
        """Check that a start may also write its schedule. Raises ScheduleChanged if the schedule is gone, if it has another revision than
        the one that the start was decided on, or if its cursor would become smaller. Raises ExecutionAlreadyStarted if the execution
        `taken` has the name already: then the start begins nothing."""
        if taken is not None:
            raise ExecutionAlreadyStarted
        if moved.name in done.moved:
            raise ScheduleChanged
        there = self._schedule_place(moved.name)
        if there is None or there[0] != moved.revision - 1 or there[1] > moved.cursor:
            raise ScheduleChanged

    def _stored_graph(self, start: Start, done: B) -> str | None:
        """The text of the graph that a start names, for the store; it is encoded if there is a codec. None if the start names no graph, or
        if neither this start nor an earlier start of the batch brings the text."""
        if start.graph is None:
            return None if start.header.graph is None else done.graphs.get(start.header.graph)
        graph = start.graph
        if self._codec is None:
            return graph.text
        return done.graphs.get(graph.id) or encoded_document(self._codec, graph.text, "graph", graph.id)

    def _stale_graphs(self, done: B) -> dict[str, str]:
        """By id: the encoded texts of those graphs of a batch that another process may have written under an older key; none without a
        codec. They are written again, because a graph outlives the executions that the older key wrote, and an operator must be able to
        drop that key."""
        if self._codec is None:
            return {}
        return {graph: text for graph, text in done.graphs.items() if text is not None and graph not in self._written_graphs}

    def _keep(self, done: B) -> None:
        """After COMMIT: of the changed executions, keep the views of those that this process runs, and drop the views of the others."""
        for change in done.changes:
            header = change.header
            base = done.bases[header.id]
            base.keep(change)  # also for an execution that is forgotten: a later change of the same batch may claim it
            if header.runner is not None and header.runner == self._runner:
                self._views[header.id] = base
            else:
                self._views.pop(header.id, None)
        if done.graphs:
            if len(self._written_graphs) > _REMEMBERED:
                self._written_graphs.clear()
            self._written_graphs |= self._stale_graphs(done).keys()

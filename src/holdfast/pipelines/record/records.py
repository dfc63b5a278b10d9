"""Records: what a run has in its journal, and what it is about to write. The interpreter decides only by the records. So in a replay it
makes the same decisions as the first time.

Nodes look here for the results of what they asked for before. What they ask for now is collected, and `rest` writes all of it at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from holdfast.contract.protocol import Response, ResponseUsage
from holdfast.durable.identifier import Identity
from holdfast.durable.journal import Journal, started, succeeded
from holdfast.model.operations import OPEN, RUN, Operation, Type, Update
from holdfast.pipelines.record.operations import REUSED, node_at, reused_at
from holdfast.pipelines.record.responses import child_response
from holdfast.pipelines.record.results import Settled, settled_in, settled_of, settled_update, told_of
from holdfast.pipelines.record.reused import Reused, reused_in
from holdfast.workers.approvals import ApprovalPlace, AskKind, Requested
from holdfast.workers.run_operations import CANCEL_AT, EFFECTS_AT
from holdfast.workers.run_reporters import RunReporter
from holdfast.workers.run_usage import summed

_MOST_UNWRITTEN: Final = 1_000_000


class Records:
    """The records of one run."""

    def __init__(self, journal: Journal, reporter: RunReporter) -> None:
        self.journal = journal
        self.reporter = reporter
        self._facts: list[Update] = []
        self._wishes: list[Update] = []
        """Updates that nodes ask for. They are dropped if the run ends before they are written."""
        self._begun: set[str] = set()
        self._awaited: dict[str, Identity] = {}
        self._settled: dict[tuple[str, int], Settled] = {}
        self._told: list[tuple[str, int, Settled]] = []
        self._asked: list[tuple[ApprovalPlace, AskKind, str]] = []
        self._responses: dict[str, Response] = {}
        self.restarts = False
        """Whether the run restarts an earlier one. If not, no result is reused."""
        self._reused: dict[str, Reused] = {}
        self._unwritten = 0

    # --- what is recorded

    def find(self, at: Identity) -> Operation | None:
        """The recorded operation with this identity; None if it is not recorded."""
        return self.journal.find(at)

    @property
    def by_id(self) -> Mapping[str, Operation]:
        """Every recorded operation by its id."""
        return self.journal.by_id

    def is_closed(self, at: Identity) -> bool:
        """Whether the operation is recorded and has ended."""
        return self.journal.is_closed(at)

    def settled(self, node: str, round: int) -> Settled | None:
        """How a node ended in a round; None if it has not ended."""
        known = self._settled.get((node, round))
        if known is None and (found := self.journal.find(node_at(node, round))) is not None and found.status not in OPEN:
            known = self._settled[node, round] = settled_of(found)
        return known

    def response(self, operation: Operation) -> Response:
        """The response of a child run that has ended, by its operation."""
        known = self._responses.get(operation.id)
        if known is None:
            known = self._responses[operation.id] = child_response(operation)
        return known

    def response_by_id(self, operation_id: str) -> Response:
        """The response of the child run, or the reused response, with this operation id. Raises StopIteration if it is not recorded."""
        known = self._responses.get(operation_id)
        if known is None and operation_id in self._reused:
            known = self._responses[operation_id] = self._reused[operation_id].answer
        return known or self.response(next(operation for operation in self.journal.operations if operation.id == operation_id))

    def reused(self, at: Identity) -> Reused | None:
        """The result of an earlier run that this run has recorded at this place, or will record with the next write; None if there is
        none."""
        if not self.restarts:
            return None
        place = reused_at(at)
        known = self._reused.get(place.operation_id)
        if known is None and (found := self.journal.find(place)) is not None:
            known = self._reused[place.operation_id] = reused_in(found)
        return known

    def place_of(self, at: Identity) -> str:
        """The id of the operation that has the response of the child run at this place: the operation of the child run itself or, if an
        earlier response is reused there, the step that records it."""
        return at.operation_id if self.reused(at) is None else reused_at(at).operation_id

    def runs(self) -> Iterator[Operation]:
        """Every child run, in the order in which they began."""
        return (operation for operation in self.journal.operations if operation.type is Type.CHAINED_INVOKE and operation.sub_type == RUN)

    def usage(self) -> ResponseUsage:
        """What all child runs of this run that have ended used, in sum: also fallbacks, all rounds, retries and undos. What reused
        responses used is not included."""
        used = [self.response(operation).observability.usage for operation in self.runs() if operation.status not in OPEN]
        return summed(used)

    # --- what is about to be written

    def open(self, *timers: Update) -> None:
        """Put these updates, and the update that opens the callback by which a cancel reaches the run, before the other updates of the next
        write. Updates of operations that are already recorded are left out."""
        for update in (started(CANCEL_AT), *timers):
            if not any(operation.id == update.id for operation in self.journal.operations):
                self.journal.write_first(update)

    def begin(self, node: str, round: int) -> None:
        """Add the update that begins a node's context to the next write, unless it is already recorded or added. It is dropped if the run
        ends before that write."""
        at = node_at(node, round)
        if at.operation_id not in self._begun and self.journal.find(at) is None:
            self._begun.add(at.operation_id)
            self._wishes.append(started(at))

    def settle(self, node: str, round: int, settled: Settled) -> None:
        """Add the end of a node to the next write. The method `settled` returns it from now on."""
        update = settled_update(node, round, settled)
        self._settled[node, round] = settled = settled_in(update)  # in the form that a replay will read
        self._facts.append(update)
        self._told.append((node, round, settled))

    def reuse(self, at: Identity, reused: Reused) -> Reused:
        """Add to the next write that the result of an earlier run is reused at this place. Returns `reused`."""
        place = reused_at(at)
        self._reused[place.operation_id] = reused
        text = msgspec.json.encode(reused).decode()
        self._facts.append(succeeded(place, text))
        self._unwritten += len(text)
        return reused

    @property
    def is_full(self) -> bool:
        """Whether the reused results that are not written yet are so large together that they should be written now."""
        return self._unwritten > _MOST_UNWRITTEN

    @property
    def reused_runs(self) -> set[str]:
        """The ids of the child runs of earlier runs whose responses this run has recorded as reused. A reused decision or wait gives an
        empty text in place of an id."""
        return {reused_in(op).run_id for op in self.journal.operations if op.sub_type == REUSED}

    def is_reused(self, operation_id: str) -> bool:
        """Whether the operation with this id (of a child run, or of a step in its place: `place_of`) has a response of an earlier run."""
        known = self._reused.get(operation_id) or next((op for op in self.journal.operations if op.id == operation_id), None)
        return isinstance(known, Reused) or (known is not None and known.sub_type == REUSED)

    def note(self, *updates: Update) -> None:
        """Add these updates to the next write. They are also written if the run ends early meanwhile; updates that were added with `wish`
        are not."""
        self._facts += updates

    def wish(self, *updates: Update) -> None:
        """Add these updates to the next write. They are dropped if the run ends before that write (`drop_wishes`)."""
        self._wishes += updates

    def drop_wishes(self) -> None:
        """Drop the updates of `begin`, `wish`, `ask` and `add_approvers` that are not written yet, and forget the awaited operations. Call
        this when the run ends."""
        self._wishes, self._asked, self._awaited = [], [], {}

    def ask(self, place: ApprovalPlace, request: Requested, within: int) -> None:
        """Add a question to a person to the next write. `within` is its time limit in seconds; 0 means none. The request is written right
        after its callback, because readers look for it there."""
        if EFFECTS_AT.operation_id not in self._begun and self.journal.find(EFFECTS_AT) is None:
            self._begun.add(EFFECTS_AT.operation_id)
            self._wishes.append(started(EFFECTS_AT))
        text = msgspec.json.encode(request).decode()
        self._wishes += [started(place.callback, timeout_seconds=within), succeeded(place.request, text)]
        self._asked.append((place, request.kind, request.tool))

    def add_approvers(self, place: ApprovalPlace, kind: AskKind, tool: str, added: Update) -> None:
        """Add `added`, the update that gives an open question further approvers, to the next write. `place`, `kind` and `tool` are those of
        the question. After the write, observers of the run are told again that it waits for this question."""
        self._wishes.append(added)
        self._asked.append((place, kind, tool))

    @property
    def is_asking(self) -> bool:
        """Whether the next write asks a person, or adds approvers to a question."""
        return bool(self._asked)

    def awaits(self, at: Identity) -> None:
        """Add this operation to those for which the next `rest` waits. `rest` returns when one of them has ended."""
        self._awaited[at.operation_id] = at

    @property
    def awaited(self) -> list[Identity]:
        """The operations for which the next `rest` waits: it returns when one of them has ended."""
        return list(self._awaited.values())

    # --- writing and resting

    async def write(self) -> None:
        """Write all collected updates in one write. Then report to observers the nodes that ended, and the questions that were
        asked or got further approvers."""
        updates = [*self._facts, *self._wishes]
        self._facts, self._wishes, self._unwritten = [], [], 0
        if updates:
            await self.journal.write(*updates)
        told, self._told = self._told, []
        for node, round, settled in told:
            self.reporter.node_ended(node, round, self.journal.find(node_at(node, round)), settled.state, told_of(settled))
        asked, self._asked = self._asked, []
        for place, kind, tool in asked:
            self.reporter.waits_for_person(kind, tool, 1, place.callback.operation_id)

    async def rest(self) -> None:
        """Write all collected updates, and wait until one of the awaited operations has ended. The execution may be suspended meanwhile."""
        await self.write()
        awaited, self._awaited = self.awaited, {}
        await self.journal.until_closed(*awaited)

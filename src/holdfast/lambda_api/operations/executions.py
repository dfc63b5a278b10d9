"""The operations that read executions: one execution, its history, its state for a handler, and lists."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import chain, repeat
from typing import Final

import msgspec

from holdfast.descriptions.executions import arn_of
from holdfast.engine.engine import Engine
from holdfast.lambda_api.operations import checks
from holdfast.lambda_api.operations.lookup import FunctionLookup, durable_config, marked_number
from holdfast.model import codec, wire
from holdfast.model.errors import ExecutionNotFound, InvalidParameter, InvalidToken
from holdfast.model.execution import Execution, ExecutionStatus, State
from holdfast.model.history import event_to_wire
from holdfast.model.ids import Arn, Position
from holdfast.model.operations import Operation, replayed_contexts
from holdfast.model.state_pages import (
    BEGINNING,
    FIRST_OPERATION,
    PAGE_BYTES,
    Mark,
    cut,
    marker,
    read_marker,
    state_mark,
    state_marker,
)
from holdfast.model.wire import Wire
from holdfast.store.seam import ExecutionStore, Filter, HistoryEntry, SealedStore

_CHUNKS: Final = (8, 16, 32, 64, 128)
"""How many events or operations are read with the first, the second, … query for a page. The first queries read few, because a page with
large payloads has only few. The last number is used again for all later queries."""
_MOST_READ: Final = 64
"""For at most this many states that clients read page by page, the ids of the replayed contexts are cached (`_replayed_at`)."""
ELSEWHERE: Final = "Checkpoint token is not valid for the durable execution ARN"


class ListRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The members of a ListDurableExecutionsByFunction request; times are in milliseconds since 1970."""

    function: str | None
    """None: the executions of all functions. AWS does not offer this."""
    qualifier: str | None = None
    name: str | None = None
    statuses: tuple[str, ...] = ()
    started_after: int | None = None
    started_before: int | None = None
    oldest_first: bool = False
    marker: str | None = None
    most: int | None = None
    tenant: str | None = None
    """Only executions of this tenant; None means all tenants."""


def found(store: ExecutionStore, text: str) -> Execution:
    """The execution of an ARN. Raises ExecutionNotFound if there is none, or if another part of the ARN than the id does not match. Raises
    InvalidParameter if the text is not such an ARN."""
    arn = checks.execution_arn(text)
    header = store.find(arn.id) if checks.is_id(arn.id) else None
    if header is None or arn_of(header) != text:
        raise ExecutionNotFound("Durable Execution does not exist")
    return header


def position(store: SealedStore, arn: Arn, token: str) -> Position:
    """The position in a checkpoint token. Raises InvalidToken if the store did not make the token, and InvalidParameter if it belongs to
    another execution."""
    at = store.seal.position(token)
    if at.execution != arn.id:
        raise InvalidParameter(ELSEWHERE)
    return at


class ExecutionReads:
    """The operations that read executions from an engine's store."""

    def __init__(self, engine: Engine, lookup: FunctionLookup) -> None:
        self.engine = engine
        self.lookup = lookup
        self._store = engine.store
        self._replayed: dict[Position, Collection[str]] = {}

    def get(self, arn: str, *, include_data: bool = True) -> Wire:
        """GetDurableExecution: one execution. If `include_data` is False, without its input, its result and its error."""
        header = found(self._store, arn)
        shown = _summary(header) | {
            "Version": header.version,
            "ExecutionDataIncluded": include_data,
            "DurableConfig": durable_config(header.terms),
        }
        if header.trace is not None:
            shown["TraceHeader"] = {"XAmznTraceId": header.trace}
        if not include_data:
            return shown
        given = self._store.input(header.id)
        if given is not None:
            shown["InputPayload"] = given
        if header.status is not ExecutionStatus.RUNNING:
            payload = self._store.result(header)
            if header.status is not ExecutionStatus.SUCCEEDED:
                shown["Error"] = codec.loads(payload or "{}")
            elif payload is not None:
                shown["Result"] = payload
        return shown

    def history(
        self, arn: str, *, include_data: bool = True, newest_first: bool = False, start: str | None = None, most: int | None = None
    ) -> Wire:
        """GetDurableExecutionHistory: a page of the events of an execution. `start` is the marker that the page before gave (None: the
        first page), `most` the page size. If `include_data` is False, the events have no payloads. The ids of events have no gaps, so a
        page is a range of ids."""
        header = found(self._store, arn)
        size = checks.page_size(most)
        kind = "newest" if newest_first else "oldest"
        at = (header.events if newest_first else 0) if not start else marked_number(kind, start, header.events)
        lines, more = self._lines(header, at, size, newest_first=newest_first)
        who = (header.id, header.name)
        events = [event_to_wire(line.event, who, line.operation, include_data=include_data) for line in lines]
        shown: Wire = {"Events": events}
        if more:
            last = lines[-1].event.number
            shown["NextMarker"] = marker(kind, last - 1 if newest_first else last)
        return shown

    def _lines(self, header: Execution, at: int, size: int, *, newest_first: bool) -> tuple[list[HistoryEntry], bool]:
        """Two values: at most `size` events, and whether more events follow. The events begin after the event number `at`; with
        `newest_first`, they begin with the event number `at` and go backwards. If payloads are large, there are fewer than `size`
        events."""
        page: list[HistoryEntry] = []
        room = PAGE_BYTES
        chunks = _chunks()
        while len(page) < size:
            want = min(next(chunks), size - len(page))
            low = max(0, at - want) if newest_first else at
            chunk: Sequence[HistoryEntry] = (
                self._store.history(header.id, low, at - low if newest_first else want) if at or not newest_first else ()
            )
            for line in reversed(chunk) if newest_first else chunk:
                room -= len(line.event.payload or "")
                if page and room < 0:
                    return page, True
                page.append(line)
            if not chunk:
                return page, False
            at = low if newest_first else chunk[-1].event.number
        return page, at > 0 if newest_first else at < header.events

    def state(self, arn: str, token: str, start: str | None, most: int | None) -> Wire:
        """GetDurableExecutionState: a page of the operations of a running execution, for its handler. The first page begins with the
        execution itself and its input. Raises InvalidToken if `token` is not the current checkpoint token of a running execution, and
        InvalidParameter if it is a token of another execution. After this call the token is still valid. `start` is the marker that the
        page before gave (None: the first page)."""
        at = position(self._store, checks.execution_arn(arn), token)
        size = checks.page_size(most)
        header = self._store.find(at.execution)
        current = header is not None and header.state is State.RUNNING and (header.epoch, header.sequence) == (at.epoch, at.sequence)
        if header is None or not current:
            raise InvalidToken
        mark = state_mark(start) if start else BEGINNING
        operations: list[Wire] = []
        room = PAGE_BYTES
        if mark == BEGINNING:
            given = self._store.input(header.id)
            operations.append(wire.execution_to_wire(header, given, wire.seconds))
            size, room = size - 1, room - len(given or "")
        page, more = cut(self._needed(at, mark), mark, most=size, room=room, begun=bool(operations))
        if more is None:
            self._replayed.pop(at, None)
        operations += [wire.operation_to_wire(operation, wire.seconds) for operation in page]
        if more == BEGINNING:
            more = FIRST_OPERATION
        return {"Operations": operations, "NextMarker": "" if more is None else state_marker(more)}

    def _needed(self, at: Position, mark: Mark) -> Iterator[Operation]:
        """The operations that a handler needs, from the place of `mark`, the beginning of a page; they are read from the store as they are
        used. If the mark has a revision, a handler needs every operation that changed after it. Else it needs all operations except the
        children of contexts whose functions a replay does not call again."""
        replayed = None if mark.newer_than else self._replayed_at(at)
        after = mark.after
        for want in _chunks():
            chunk = self._store.operations(at.execution, mark.newer_than, after=after, limit=want)
            for operation in chunk:
                if replayed is None or operation.parent_id is None or operation.parent_id in replayed:
                    yield operation
            if len(chunk) < want:
                return
            after = chunk[-1].place

    def _replayed_at(self, at: Position) -> Collection[str]:
        """The ids of the contexts whose children a replay needs. They are read once for all pages of a state: only the handler closes
        contexts, and then its token changes."""
        found = self._replayed.get(at)
        if found is None:
            found = self._replayed[at] = replayed_contexts(self._store.contexts(at.execution))
            if len(self._replayed) > _MOST_READ:
                del self._replayed[next(iter(self._replayed))]
        return found

    def list(self, asked: ListRequest) -> Wire:
        """ListDurableExecutionsByFunction: a page of the executions of one function, or of all functions (`asked.function` None)."""
        function, version = (
            (None, None) if asked.function is None else self._listed(checks.function_reference(asked.function, asked.qualifier))
        )
        name = None if asked.name is None else checks.execution_name(asked.name)
        if len(asked.statuses) > checks.MAX_STATUSES:
            raise InvalidParameter(f"Statuses: at most {checks.MAX_STATUSES}, and there are {len(asked.statuses)}.")
        words = tuple(status.value for status in ExecutionStatus)
        statuses = tuple(ExecutionStatus(checks.one_of("Statuses", status, words)) for status in asked.statuses)
        size = checks.page_size(asked.most)
        beyond = None
        if asked.marker:
            (beyond,) = (*read_marker("list", asked.marker), None)[:1]
            if beyond is None or not checks.is_id(beyond):
                raise InvalidParameter("Invalid Marker")
        wanted = Filter(
            function=function,
            version=version,
            tenant=asked.tenant,
            name=name,
            statuses=statuses,
            started_after=asked.started_after,
            started_before=asked.started_before,
            oldest_first=asked.oldest_first,
            beyond=beyond,
            limit=size + 1,
        )
        headers = self._store.list(wanted)
        shown: Wire = {"DurableExecutions": [_summary(header) for header in headers[:size]]}
        if len(headers) > size:
            shown["NextMarker"] = marker("list", headers[size - 1].id)
        return shown

    def _listed(self, asked: checks.FunctionReference) -> tuple[str, str | None]:
        """The function and the version that a request names. Without a qualifier, the version is None: all versions, also those that only
        other processes run. Raises FunctionNotFound if there is no such function or version."""
        if asked.qualifier is None and self._store.hosted(asked.name):
            return asked.name, None
        found = self.lookup.find(asked)
        return found.name, None if asked.qualifier is None else found.version


def _chunks() -> Iterator[int]:
    return chain(_CHUNKS, repeat(_CHUNKS[-1]))


def _summary(header: Execution) -> Wire:
    shown: Wire = {
        "DurableExecutionArn": arn_of(header),
        "DurableExecutionName": header.name,
        "FunctionArn": checks.function_arn(header.function, header.version),
        "Status": header.status.value,
        "StartTimestamp": wire.seconds(header.started_at),
    }
    if header.ended_at is not None:
        shown["EndTimestamp"] = wire.seconds(header.ended_at)
    return shown

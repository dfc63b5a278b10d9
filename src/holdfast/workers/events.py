"""The events of a run, for those who follow it: what is in its history, under the numbers it has there, and what is not on disk yet.

accepted · attempt · tool · approval · done      from the history; each has the number of its line, which is its id for ever
progress · log                                   live only, without an id: whoever comes back goes on after the last id he had
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, Final

import msgspec

from holdfast.contract.protocol import response_document
from holdfast.model.errors import StoreBusy
from holdfast.model.execution import Execution, ExecutionStatus, State
from holdfast.model.history import TERMINAL, EventType
from holdfast.model.operations import APPROVAL, Operation, Status
from holdfast.model.threads import Purpose, in_thread
from holdfast.store.seam import Line, Store
from holdfast.workers.approvals import approval_id, decision_of
from holdfast.workers.attempt import AttemptResult
from holdfast.workers.calls import Intent, Receipt
from holdfast.workers.journal import ATTEMPT, INTENT, RECEIPT
from holdfast.workers.looking import response_of
from holdfast.workers.running import Accepted

_POLL_SECONDS: Final = 0.25
"""Another process may have the run: then nobody here is told of what it writes."""
_PAGE: Final = 200
_QUEUE: Final = 256
_FOLLOWERS: Final = 1000
_outcomes = msgspec.json.Decoder(AttemptResult)
_intents = msgspec.json.Decoder(Intent)
_receipts = msgspec.json.Decoder(Receipt)


class RunEvent(msgspec.Struct, frozen=True):
    """One event of a run."""

    id: int | None
    """None: it is nowhere on disk, and never comes again."""
    event: str
    data: Any


class RunEvents:
    """Who follows which run, in this process."""

    def __init__(self, *, queue: int = _QUEUE, followers: int = _FOLLOWERS) -> None:
        self._queue = queue
        self._most = followers
        self._count = 0
        self._followers: dict[str, set[_Follower]] = {}

    def offer(self, run_id: str, event: str, data: Any) -> None:
        """Something that is nowhere on disk yet. A follower who does not keep up loses the oldest of these."""
        for follower in self._followers.get(run_id, ()):
            follower.live.append(RunEvent(None, event, data))
            follower.news.set()

    def nudge(self, run_id: str) -> None:
        """Something was written, or will be in a moment."""
        for follower in self._followers.get(run_id, ()):
            follower.news.set()

    async def follow(self, store: Store, header: Execution, accepted: Accepted, after: int = 0) -> AsyncIterator[RunEvent | None]:
        """The events of a run after an id, then those that come, until it is done; None whenever nothing came for a while.

        A run that was quarantined is not done, and nothing more comes before somebody releases it: its last event is `quarantined`.
        """
        if self._count >= self._most:
            raise StoreBusy("There are too many followers.")
        follower = _Follower(self._queue)
        self._count += 1
        self._followers.setdefault(header.id, set()).add(follower)
        try:
            async for event in _followed(store, header.id, accepted, after, follower):
                yield event
        finally:
            self._count -= 1
            self._followers[header.id].discard(follower)
            if not self._followers[header.id]:
                del self._followers[header.id]


class _Follower:
    def __init__(self, limit: int) -> None:
        self.live: deque[RunEvent] = deque(maxlen=limit)
        self.news = asyncio.Event()


async def _followed(store: Store, run_id: str, accepted: Accepted, after: int, follower: _Follower) -> AsyncIterator[RunEvent | None]:
    while True:
        follower.news.clear()
        while lines := await in_thread(Purpose.STORE, store.history, run_id, after, _PAGE):
            for event in await in_thread(Purpose.STORE, _events, store, run_id, accepted, lines):
                yield event
                if event.event == "done":
                    return
            after = lines[-1].event.number
        while follower.live:
            yield follower.live.popleft()
        header = await in_thread(Purpose.STORE, store.find, run_id)
        if header is None or header.state is State.QUARANTINED:
            yield RunEvent(None, "quarantined", {"run_id": run_id})
            return
        if header.status is not ExecutionStatus.RUNNING and header.state is State.CLOSED and header.events <= after:
            return  # whoever had the last event and comes back has had everything
        try:
            async with asyncio.timeout(_POLL_SECONDS):
                await follower.news.wait()
        except TimeoutError:
            yield None


def _events(store: Store, run_id: str, accepted: Accepted, lines: Sequence[Line]) -> list[RunEvent]:
    return [event for line in lines for event in _told(store, run_id, accepted, line)]


def _told(store: Store, run_id: str, accepted: Accepted, line: Line) -> Iterator[RunEvent]:
    event, operation = line.event, line.operation
    if event.type is EventType.EXECUTION_STARTED:
        yield RunEvent(event.number, "accepted", {**_who(run_id, accepted), "at": event.at})
    elif event.type in TERMINAL:
        header = store.find(run_id)
        if header is not None:
            yield RunEvent(event.number, "done", response_document(response_of(store, header, accepted)))
    elif operation is not None:
        found = _of_operation(run_id, operation, event.type, event.payload)
        if found is not None:
            name, data = found
            yield RunEvent(event.number, name, {**data, "at": event.at})


def _who(run_id: str, accepted: Accepted) -> dict[str, Any]:
    who = {"run_id": run_id, "worker_id": accepted.request.worker_id, "version": accepted.version}
    return who | {"trace_id": accepted.trace_id, "span_id": accepted.span_id}


def _of_operation(run_id: str, operation: Operation, kind: EventType, payload: str | None) -> tuple[str, dict[str, Any]] | None:
    if operation.sub_type == ATTEMPT:
        return "attempt", _attempt(operation, kind)
    if operation.sub_type == INTENT and kind is EventType.STEP_SUCCEEDED:
        return "tool", _intent(operation)
    if operation.sub_type == RECEIPT and kind is EventType.STEP_SUCCEEDED:
        return "tool", _receipt(operation)
    if operation.sub_type == APPROVAL:
        return "approval", _approval(run_id, operation, kind)
    return None


def _attempt(operation: Operation, kind: EventType) -> dict[str, Any]:
    number = int((operation.name or "-0").rpartition("-")[2])
    if kind is EventType.CONTEXT_STARTED:
        return {"attempt": number, "state": "began"}
    text = operation.result if operation.error is None else operation.error.data
    outcome = _outcomes.decode(text or "{}")
    ended = {"attempt": number, "state": "ended", "duration_ms": outcome.duration_ms}
    return ended if outcome.error is None else ended | {"error_code": outcome.error.error_code, "message": outcome.error.message}


def _intent(operation: Operation) -> dict[str, Any]:
    intent = _intents.decode(operation.result or "{}")
    return {"tool": intent.tool, "state": "began", "attempt": intent.attempt, "effect": "write" if intent.write else "read"}


def _receipt(operation: Operation) -> dict[str, Any]:
    receipt = _receipts.decode(operation.result or "{}")
    usage = {
        "tokens": {"input": receipt.usage.input_tokens, "output": receipt.usage.output_tokens},
        "cost_usd": float(receipt.usage.cost_usd),
    }
    ended = {"tool": operation.name, "state": "lost" if receipt.void else "ended", "usage": usage}
    return ended if receipt.error is None else ended | {"error_code": receipt.error.error_code, "message": receipt.error.message}


def _approval(run_id: str, operation: Operation, kind: EventType) -> dict[str, Any]:
    about = {"approval_id": approval_id(run_id, operation.id), "tool": operation.name}
    if kind is EventType.CALLBACK_STARTED:
        return about | {"state": "open", "expires_at": operation.timeout_at}
    decision = decision_of(operation) if operation.status is Status.SUCCEEDED else None
    return about | ({"state": "expired"} if decision is None else {"state": decision.verdict, "decided_by": decision.decided_by})

"""Callers in this process that wait for a run: until the run ends or is quarantined, until it waits for a person, or until the caller's
time is over."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable

from holdfast.contract.protocol import Response, response_from
from holdfast.engine.endings import Ending
from holdfast.engine.engine import Engine
from holdfast.model.errors import ExecutionQuarantined
from holdfast.model.execution import Execution, ExecutionStatus, State
from holdfast.workers.accepted_request import AcceptedRequest
from holdfast.workers.run_lookup import open_approvals, response_of

_POLL_SECONDS = 0.25
"""The seconds between two reads of the store by one waiter. A waiter must read the store, because the run may be in another process, which
does not tell this process that the run waits for a person."""
_SOON_SECONDS = 0.005


class _Waiter:
    """One caller that waits for a run."""

    __slots__ = ("ending", "engine", "header")

    def __init__(self, engine: Engine, header: Execution) -> None:
        self.engine = engine
        self.header = header
        # A run that another process ended before this line is found by the first look at the store.
        self.ending = engine.endings.watch(header.id, live=header.status is ExecutionStatus.RUNNING)

    def look(self, *, patient: bool = True) -> None:
        """Read the run from the store. The caller stops waiting if the run has ended, is quarantined or waits for a person. If the read
        fails, the caller gets the error. If `patient` is False, the caller's time is over, and the caller stops waiting in any case."""
        if self.ending.done():
            return
        try:
            store = self.engine.store
            header = self.header = store.find(self.header.id) or self.header
            resting = header.state is State.SUSPENDED and open_approvals(store, header)
        except Exception as trouble:  # this caller gets the error; the other waiters are still served
            self.give_up()
            self.ending.set_exception(trouble)
            return
        over = header.status is not ExecutionStatus.RUNNING or header.state is State.QUARANTINED
        if resting or over or not patient:
            self.give_up()
            self.ending.set_result(Ending(header, None))

    def give_up(self) -> None:
        """Tell the engine that this caller does not wait for the run's end any more."""
        self.engine.endings.give_up(self.ending)


class Waiters:
    """All callers that wait for runs, on the engine's event loop."""

    def __init__(self) -> None:
        self._waiters: dict[str, list[_Waiter]] = {}
        self._polled: deque[tuple[float, _Waiter]] = deque()
        """When each waiter looks at the store next, and the waiter. One timer serves all of them, because the engine answers most waiters
        before that time."""
        self._polling = False

    async def response(self, engine: Engine, header: Execution, accepted: AcceptedRequest, patience: float | None) -> Response:
        """Wait until the run ends, is quarantined or waits for a person, or until `patience` seconds have passed (None: no limit). Returns
        the run's response if the run has ended, else a response that says that it is under way, quarantined, or what it waits for."""
        waiter = _Waiter(engine, header)
        waiters = self._waiters.setdefault(header.id, [])
        waiters.append(waiter)
        self._poll_later([waiter])
        loop = asyncio.get_running_loop()
        timer = None if patience is None else loop.call_later(max(0.0, patience), lambda: waiter.look(patient=False))
        try:
            last, payload = await waiter.ending
        except ExecutionQuarantined:
            last, payload = engine.store.find(header.id) or header, None
        except BaseException:
            waiter.give_up()
            raise
        finally:
            if timer is not None:
                timer.cancel()
            waiters.remove(waiter)
            if not waiters:
                del self._waiters[header.id]
        if last.status is ExecutionStatus.SUCCEEDED and payload is not None:
            return response_from(payload)
        return response_of(engine.store, last, accepted)

    def _poll_later(self, waiters: Iterable[_Waiter]) -> None:
        loop = asyncio.get_running_loop()
        at = loop.time() + _POLL_SECONDS
        self._polled.extend((at, waiter) for waiter in waiters)
        if self._polled and not self._polling:
            self._polling = True
            loop.call_at(self._polled[0][0], self._poll)

    def _poll(self) -> None:
        """Let each waiter whose time has come read the store. Those that must wait on get a new time, and the timer is set for the
        earliest."""
        self._polling = False
        now, looked = asyncio.get_running_loop().time(), []
        while self._polled and self._polled[0][0] <= now:
            _, waiter = self._polled.popleft()
            waiter.look()
            if not waiter.ending.done():
                looked.append(waiter)
        self._poll_later(looked)

    def waits(self, run_id: str) -> None:
        """Let the callers that wait for this run read the store after some milliseconds. The run begins to wait for a person now; after
        that time it is suspended, and the store shows it."""
        for waiter in self._waiters.get(run_id, ()):
            asyncio.get_running_loop().call_later(_SOON_SECONDS, waiter.look)

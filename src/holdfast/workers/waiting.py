"""Waiting for a run: for its end, or for the moment it waits for a person; as long as whoever waits has patience."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable

from holdfast.contract.protocol import Response, response_from
from holdfast.engine.endings import Ending
from holdfast.engine.engine import Engine
from holdfast.model.errors import ExecutionQuarantined
from holdfast.model.execution import Execution, ExecutionStatus, State
from holdfast.workers.looking import open_approvals, response_of
from holdfast.workers.running import Accepted

_POLL_SECONDS = 0.25
"""Another process may have the run: then nobody here is told that it waits."""
_SOON_SECONDS = 0.005


class _Waiter:
    """Somebody who waits for a run, until its ending is told."""

    __slots__ = ("ending", "engine", "header")

    def __init__(self, engine: Engine, header: Execution) -> None:
        self.engine = engine
        self.header = header
        # What ended elsewhere before we watched is found by the first look at the store.
        self.ending = engine.endings.watch(header.id, live=header.status is ExecutionStatus.RUNNING)

    def look(self, *, patient: bool = True) -> None:
        """See how the run stands; where it rests, and where patience is over, that is what it comes to for now."""
        if self.ending.done():
            return
        try:
            store = self.engine.store
            header = self.header = store.find(self.header.id) or self.header
            resting = header.state is State.SUSPENDED and open_approvals(store, header)
        except Exception as trouble:  # whoever waits shall hear of it; the others are looked for all the same
            self.give_up()
            self.ending.set_exception(trouble)
            return
        over = header.status is not ExecutionStatus.RUNNING or header.state is State.QUARANTINED
        if resting or over or not patient:
            self.give_up()
            self.ending.set_result(Ending(header, None))

    def give_up(self) -> None:
        """The ending is of no interest any more."""
        self.engine.endings.give_up(self.ending)


class Waiting:
    """Those who wait for runs, on the engine's loop."""

    def __init__(self) -> None:
        self._waiters: dict[str, list[_Waiter]] = {}
        self._polled: deque[tuple[float, _Waiter]] = deque()
        """Whom to look for next, and when: one timer for all, because most are told before."""
        self._polling = False

    async def response(self, engine: Engine, header: Execution, accepted: Accepted, patience: float | None) -> Response:
        """What a run came to, or how it stands when it waits for a person or when patience is over."""
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
        """Look for those whose time has come, and for the others when theirs comes."""
        self._polling = False
        now, looked = asyncio.get_running_loop().time(), []
        while self._polled and self._polled[0][0] <= now:
            _, waiter = self._polled.popleft()
            waiter.look()
            if not waiter.ending.done():
                looked.append(waiter)
        self._poll_later(looked)

    def waits(self, run_id: str) -> None:
        """A run begins to wait for a person: tell those who wait for it, soon after it rests."""
        for waiter in self._waiters.get(run_id, ()):
            asyncio.get_running_loop().call_later(_SOON_SECONDS, waiter.look)

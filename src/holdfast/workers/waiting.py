"""Waiting for a run: for its end, or for the moment it waits for a person; as long as whoever waits has patience."""

from __future__ import annotations

import asyncio

from holdfast.contract.protocol import Response, response_from
from holdfast.engine.endings import Ending
from holdfast.engine.engine import Engine
from holdfast.model.execution import Execution, ExecutionStatus, State
from holdfast.workers.looking import open_approvals, response_of
from holdfast.workers.running import Accepted

_POLL_SECONDS = 0.25
"""Another process may have the run: then nobody here is told that it waits."""
_SOON_SECONDS = 0.005


class Waiting:
    """Those who wait for runs, on the engine's loop."""

    def __init__(self) -> None:
        self._waiters: dict[str, set[asyncio.Future[None]]] = {}

    async def response(self, engine: Engine, header: Execution, accepted: Accepted, patience: float | None) -> Response:
        """What a run came to, or how it stands when it waits for a person or when patience is over."""
        loop = asyncio.get_running_loop()
        until = None if patience is None else loop.time() + patience
        # What ended elsewhere before we watched is found by the first look at the store.
        ending = engine.endings.watch(header.id, live=header.status is ExecutionStatus.RUNNING)
        try:
            while True:
                left = _POLL_SECONDS if until is None else min(_POLL_SECONDS, max(0.0, until - loop.time()))
                await self._moved(header.id, ending, left)
                if ending.done():
                    last, payload = ending.result()
                    if last.status is ExecutionStatus.SUCCEEDED and payload is not None:
                        return response_from(payload)
                    return response_of(engine.store, last, accepted)
                header = engine.store.find(header.id) or header
                resting = header.state is State.SUSPENDED and open_approvals(engine.store, header)
                over = header.status is not ExecutionStatus.RUNNING or header.state is State.QUARANTINED
                if resting or over or (until is not None and loop.time() >= until):
                    return response_of(engine.store, header, accepted)
        finally:
            if not ending.done():
                engine.endings.give_up(ending)

    async def _moved(self, run_id: str, ending: asyncio.Future[Ending], seconds: float) -> None:
        if ending.done():
            return
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        self._waiters.setdefault(run_id, set()).add(waiter)

        def ended(_: object) -> None:
            _tell(waiter)

        ending.add_done_callback(ended)
        timer = loop.call_later(seconds, _tell, waiter)
        try:
            await waiter
        finally:
            timer.cancel()
            ending.remove_done_callback(ended)
            self._waiters[run_id].discard(waiter)
            if not self._waiters[run_id]:
                del self._waiters[run_id]

    def waits(self, run_id: str) -> None:
        """A run begins to wait for a person: tell those who wait for it, soon after it rests."""
        for waiter in self._waiters.get(run_id, ()):
            asyncio.get_running_loop().call_later(_SOON_SECONDS, _tell, waiter)


def _tell(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)

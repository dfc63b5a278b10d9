"""Waiting for a run: for its end, or for the moment it waits for a person; as long as whoever waits has patience."""

from __future__ import annotations

import asyncio
from typing import Any

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
        ending = asyncio.ensure_future(engine.ending(header.id))
        try:
            while True:
                left = _POLL_SECONDS if until is None else min(_POLL_SECONDS, max(0.0, until - loop.time()))
                await self._moved(header.id, ending, left)
                if ending.done():
                    over, payload = ending.result()
                    if over.status is ExecutionStatus.SUCCEEDED and payload is not None:
                        return response_from(payload)
                    return response_of(engine.store, over, accepted)
                header = engine.store.find(header.id) or header
                resting = header.state is State.SUSPENDED and open_approvals(engine.store, header)
                if resting or header.state is State.QUARANTINED or (until is not None and loop.time() >= until):
                    return response_of(engine.store, header, accepted)
        finally:
            ending.cancel()

    async def _moved(self, run_id: str, ending: asyncio.Future[Ending], seconds: float) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.setdefault(run_id, set()).add(waiter)
        try:
            ends: set[asyncio.Future[Any]] = {ending, waiter}
            await asyncio.wait(ends, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
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

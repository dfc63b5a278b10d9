"""Who waits for the end of which execution. One that goes on as another is waited for there."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import NamedTuple

from holdfast.engine.quarantines import quarantined
from holdfast.model.errors import EngineClosed, ExecutionNotFound, HoldfastError
from holdfast.model.execution import Execution, ExecutionStatus, State
from holdfast.store.seam import Store

log = logging.getLogger("holdfast.engine")


class Ending(NamedTuple):
    """An execution that is over, and the payload it ended with: its result, or the JSON of its error."""

    header: Execution
    payload: str | None


class Endings:
    """The waiters of one engine, on its loop."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiters: dict[str, list[asyncio.Future[Ending]]] = {}
        self.heard: Callable[[Execution, str | None], None] | None = None
        """Hears of every end that this engine wrote, with its payload if that is at hand."""

    @property
    def awaited(self) -> list[str]:
        """The executions that somebody waits for."""
        return list(self._waiters)

    async def wait(self, execution: str, *, live: bool) -> Ending:
        """Wait until an execution is closed; one that is not live here may be closed already."""
        waiter = self.watch(execution, live=live)
        try:
            return await waiter
        except BaseException:
            self.give_up(waiter)
            raise

    def watch(self, execution: str, *, live: bool) -> asyncio.Future[Ending]:
        """The same for somebody who waits for other things too, and says so when he gives up."""
        waiter: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()
        self._waiters.setdefault(execution, []).append(waiter)
        try:
            if not live:
                header = self._store.find(execution)
                if header is None:
                    raise ExecutionNotFound(f"There is no execution {execution}.")
                self.tell(header)
            return waiter
        except BaseException:
            self.give_up(waiter)
            raise

    def give_up(self, waiter: asyncio.Future[Ending]) -> None:
        """Somebody does not wait any more."""
        for waited, waiters in list(self._waiters.items()):  # all of them: it may have moved on with the execution
            if waiter in waiters:
                waiters.remove(waiter)
                if not waiters:
                    del self._waiters[waited]

    def tell(self, header: Execution, payload: str | None = None, *, ours: bool = False) -> None:
        """Tell those who wait for a result, if this is the end, or if a person must act first; a payload that is not at hand is read."""
        if ours and self.heard is not None and header.status is not ExecutionStatus.RUNNING:
            try:
                self.heard(header, payload)
            except Exception:  # whoever only listens must not keep anybody from an answer
                log.exception("could not tell of the end of %s", header.name)
        aside = header.state is State.QUARANTINED
        waiters = None if header.status is ExecutionStatus.RUNNING and not aside else self._waiters.pop(header.id, None)
        while waiters and header.continued_as is not None:  # they wait for the last one of the chain
            waiters += self._waiters.pop(header.continued_as, [])
            try:
                heir = self._store.find(header.continued_as)
            except HoldfastError as trouble:
                _answer(waiters, trouble)
                return
            self._waiters[header.continued_as] = waiters
            if heir is None or (heir.status is ExecutionStatus.RUNNING and heir.state is not State.QUARANTINED):
                return
            header, payload = heir, None
            waiters = self._waiters.pop(header.id)
        if not waiters:
            return
        if header.state is State.QUARANTINED:
            _answer(waiters, quarantined(self._store, header))
            return
        try:
            ending: Ending | HoldfastError = Ending(header, payload or self._store.result(header))
        except HoldfastError as trouble:
            ending = trouble
        _answer(waiters, ending)

    def close(self) -> None:
        """Nobody will be told any more."""
        closed = EngineClosed("The engine was closed while somebody waited for a result.")
        for waiters in self._waiters.values():
            _answer(waiters, closed)
        self._waiters.clear()


def _answer(waiters: list[asyncio.Future[Ending]], ending: Ending | HoldfastError) -> None:
    for waiter in waiters:
        if not waiter.done():
            if isinstance(ending, HoldfastError):
                waiter.set_exception(ending)
            else:
                waiter.set_result(ending)

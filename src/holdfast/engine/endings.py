"""Endings: answers the callers that wait for the end of an execution. If the execution continues as another one, its callers wait for the
end of that other one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import NamedTuple

from holdfast.engine.quarantine_messages import quarantined
from holdfast.model.errors import EngineClosed, ExecutionNotFound, HoldfastError
from holdfast.model.execution import Execution, ExecutionStatus, State
from holdfast.store.seam import ExecutionStore

log = logging.getLogger("holdfast.engine")


class Ending(NamedTuple):
    """An execution that has ended, and the payload it ended with: its result, or the JSON of its error. The payload is None if it ended
    without one."""

    header: Execution
    payload: str | None


class Endings:
    """Answers the callers of one engine that wait for the end of an execution. It is used on the engine's loop."""

    def __init__(self, store: ExecutionStore) -> None:
        self._store = store
        self._waiters: dict[str, list[asyncio.Future[Ending]]] = {}
        self.heard: Callable[[Execution, str | None], None] | None = None
        """Called for every end that this engine wrote, with the execution and the payload of the end. The payload is None if the engine
        does not have it in memory. It may be called again for the same end, for example when the ended execution is stopped."""

    @property
    def awaited(self) -> list[str]:
        """The ids of the executions that callers wait for."""
        return list(self._waiters)

    async def wait(self, execution: str, *, live: bool) -> Ending:
        """Wait until an execution has ended. If it continued as another one, wait until that other one has ended. `live`: whether an
        invocation of the execution runs in this engine. If it is False, the store is read first, because the execution may have ended
        already. Raises ExecutionNotFound if there is no such execution. Raises ExecutionQuarantined if it is quarantined. Raises
        EngineClosed if the engine closes first."""
        waiter = self.watch(execution, live=live)
        try:
            return await waiter
        except BaseException:
            self.give_up(waiter)
            raise

    def watch(self, execution: str, *, live: bool) -> asyncio.Future[Ending]:
        """A future for the ending of an execution, for a caller that also waits for other things. `live`: whether an invocation of the
        execution runs in this engine; if it is False, the store is read first. The caller must call `give_up` when it no longer waits.
        The future gets an error if the execution is quarantined, if the payload of its end cannot be read, or if the engine closes first.
        Raises ExecutionNotFound if there is no such execution (not checked if `live` is True)."""
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
        """Note that the caller of `watch` does not wait for this future any more."""
        for waited, waiters in list(self._waiters.items()):  # search all lists: a waiter moves to another list when its execution continues
            if waiter in waiters:
                waiters.remove(waiter)
                if not waiters:
                    del self._waiters[waited]

    def tell(self, header: Execution, payload: str | None = None, *, ours: bool = False) -> None:
        """Answer the callers that wait for this execution: with its ending if it has ended, with an error if it is quarantined or if its
        payload cannot be read. If it continued as another execution, its callers wait for that other one. Does nothing if the execution
        still runs. `payload`: the payload of the ending; None: it is read from the store. `ours`: whether this engine wrote the end; only
        then the listener `heard`, if one is set, is called."""
        if ours and self.heard is not None and header.status is not ExecutionStatus.RUNNING:
            try:
                self.heard(header, payload)
            except Exception:  # a listener's error must not keep a caller from its answer
                log.exception("could not tell of the end of %s", header.name)
        aside = header.state is State.QUARANTINED
        waiters = None if header.status is ExecutionStatus.RUNNING and not aside else self._waiters.pop(header.id, None)
        while waiters and header.continued_as is not None:  # callers wait for the last one of the chain
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
        """Give EngineClosed to every caller that still waits, because the engine closes."""
        closed = EngineClosed("The engine was closed while a caller waited for a result.")
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

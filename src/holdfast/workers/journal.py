"""The journal: the operations of a run that the runner places itself.

A durable context numbers its calls. What is written here is found by what it is instead (the receipt of this call of that tool), because
a body may be run again, killed in the middle, or replaced by a person's answer, and must meet its own past in any order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from hashlib import blake2b

from holdfast.durable.awaiting import AsyncState
from holdfast.durable.identifier import Identity
from holdfast.durable.plan import Suspend
from holdfast.model.charging import Charge
from holdfast.model.operations import OPEN, Action, Operation, Type, Update

ATTEMPT, EFFECTS, INTENT, RECEIPT, REQUEST, CANCEL, STEP = "Attempt", "Effects", "Intent", "Receipt", "Request", "Cancel", "BodyStep"
"""The sub-types: what each operation of a run is."""
_NAME_LENGTH = 200


def place(kind: Type, sub_type: str, name: str, *parts: object, parent: Identity | None = None) -> Identity:
    """The operation that these words are the whole identity of."""
    text = "\0".join((sub_type, name, *map(str, parts), parent.operation_id if parent else ""))
    shown = (name if len(name) <= _NAME_LENGTH else f"{name[:_NAME_LENGTH]}…").replace("\0", "\ufffd")  # not every store has that one
    return Identity(blake2b(text.encode(errors="replace")).hexdigest()[:64], kind, sub_type, parent.operation_id if parent else None, shown)


class Journal:
    """Finds and writes the operations of one run."""

    def __init__(self, state: AsyncState) -> None:
        self._state = state
        self._first: list[Update] = []
        """What goes before the next write. A run that is over before anything had to be written leaves only its response."""

    @property
    def operations(self) -> Iterable[Operation]:
        """Everything this run has written, as far as a replay needs it."""
        return self._state.operations.values()

    def find(self, at: Identity) -> Operation | None:
        """The operation at a place, if it is there; another one there is an error."""
        return self._state.look(at)

    async def write(self, *updates: Update, charges: tuple[Charge, ...] = ()) -> None:
        """Write updates together; they are on disk when this returns. With charges a LimitReached may refuse them all."""
        if charges:
            for update in self._taken():
                self._state.record(update)
            await self._state.record_alone(list(updates), charges)
            return
        for update in (*self._taken(), *updates):
            self._state.record(update)
        await self._state.flush()

    def write_later(self, update: Update) -> None:
        """Write soon, with whatever comes next."""
        for one in (*self._taken(), update):
            self._state.record_later(one)

    def write_first(self, update: Update) -> None:
        """Write before whatever comes next, if anything does."""
        self._first.append(update)

    def write_last(self, update: Update) -> None:
        """Write with the run's own end, unless nothing of it is written."""
        if self._state.operations or self._state.unwritten:
            self.write_later(update)

    def _taken(self) -> list[Update]:
        first, self._first = self._first, []
        return first

    async def closed(self, *places: Identity) -> None:
        """Rest until the service has closed one of these: nothing of the run may be going on meanwhile."""
        while True:
            found = [operation for at in places if (operation := self._state.look(at)) is not None]
            if any(operation.status not in OPEN for operation in found):
                return
            await self._state.rest(Suspend(places[0].operation_id, tuple(found[1:])))

    def when_closed(self, at: Identity) -> asyncio.Future[None]:
        """Resolves when the service closes an operation, for somebody who goes on meanwhile."""
        closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def look(_: object) -> None:
            found = self._state.operations.get(at.operation_id)
            if closed.done():
                return
            if found is not None and found.status not in OPEN:
                closed.set_result(None)
            else:
                self._state.when_changed(at.operation_id).add_done_callback(look)

        look(None)
        return closed


def begun(at: Identity, **values: object) -> Update:
    """An update that begins an operation."""
    return at.update(Action.START, **values)


def ended(at: Identity, payload: str) -> Update:
    """An update that ends an operation with a result."""
    return at.update(Action.SUCCEED, payload=payload)

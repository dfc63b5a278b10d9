"""The journal: the operations of a run that the runner places itself.

A durable context numbers its calls. What is written here is found by what it is instead (the receipt of this call of that tool), because
a body may be run again, killed in the middle, or replaced by a person's answer, and must meet its own past in any order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from hashlib import blake2b

from holdfast.durable.awaiting import AsyncState
from holdfast.durable.identifier import Identity
from holdfast.durable.plan import Suspend
from holdfast.model.charging import Charge
from holdfast.model.operations import CANCEL, OPEN, Action, Operation, Type, Update

ATTEMPT, EFFECTS, INTENT, RECEIPT, REQUEST, STEP = "Attempt", "Effects", "Intent", "Receipt", "Request", "BodyStep"
"""The sub-types: what each operation of a run is, beside APPROVAL and CANCEL (holdfast.model.operations)."""
_NAME_LENGTH = 200


def place(kind: Type, sub_type: str, name: str, *parts: object, parent: Identity | None = None) -> Identity:
    """The operation that these words are the whole identity of."""
    text = "\0".join((sub_type, name, *map(str, parts), parent.operation_id if parent else ""))
    shown = (name if len(name) <= _NAME_LENGTH else f"{name[:_NAME_LENGTH]}…").replace("\0", "\ufffd")  # not every store has that one
    return Identity(blake2b(text.encode(errors="replace")).hexdigest()[:64], kind, sub_type, parent.operation_id if parent else None, shown)


CANCEL_AT = place(Type.CALLBACK, CANCEL, "cancel")
"""What somebody answers who cancels the run."""


class Journal:
    """Finds and writes the operations of one run."""

    def __init__(self, state: AsyncState) -> None:
        self._state = state
        self._first: list[Update] = []
        """What goes before the next write. A run that is over before anything had to be written leaves only its response."""
        self._cancelled: Callable[[], None] | None = None
        self._change: asyncio.Future[None] | None = None

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

    @property
    def begun(self) -> bool:
        """Whether anything of the run is written, or about to be."""
        return bool(self._state.operations or self._state.unwritten)

    def _taken(self) -> list[Update]:
        first, self._first = self._first, []
        if first:
            self._listen()
        return first

    async def closed(self, *places: Identity) -> None:
        """Rest until the service has closed one of these: nothing of the run may be going on meanwhile."""
        while True:
            found = [operation for at in places if (operation := self._state.look(at)) is not None]
            if any(operation.status not in OPEN for operation in found):
                return
            await self._state.rest(Suspend(places[0].operation_id, tuple(found[1:])))

    @property
    def cancelled(self) -> bool:
        """Whether somebody cancelled the run."""
        found = self._state.operations.get(CANCEL_AT.operation_id)
        return found is not None and found.status not in OPEN

    def when_cancelled(self, tell: Callable[[], None] | None) -> None:
        """Whom to tell when somebody cancels the run, while he goes on. Of a run that has written nothing the service ends all at once."""
        self._cancelled = tell
        if self.begun:
            self._listen()

    def _listen(self, _: object = None) -> None:
        if self._cancelled is None:
            return
        if self.cancelled:
            self._cancelled()
        elif self._change is None or self._change.done():
            self._change = self._state.when_changed(CANCEL_AT.operation_id)
            self._change.add_done_callback(self._listen)


def begun(at: Identity, **values: object) -> Update:
    """An update that begins an operation."""
    return at.update(Action.START, **values)


def ended(at: Identity, payload: str) -> Update:
    """An update that ends an operation with a result."""
    return at.update(Action.SUCCEED, payload=payload)

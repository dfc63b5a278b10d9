"""The journal: the operations of one execution, for Holdfast's code that runs workers and pipelines.

A durable context numbers its calls, and finds an operation by its place in the order of calls. The code that runs workers and pipelines
chooses the ids of operations itself, and finds an operation by its meaning, such as "the receipt of this call of this tool". The order
would not help there: the body of a worker may run again, die in the middle, or be replaced by a person's answer, so its calls need not come
in the same order each time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b

from holdfast.durable.async_state import AsyncState
from holdfast.durable.context import AsyncDurableContext
from holdfast.durable.identifier import Identity
from holdfast.durable.plan import Suspend
from holdfast.model.charges import Charge
from holdfast.model.clock import Clock
from holdfast.model.execution import Execution
from holdfast.model.ledger import LedgerEntry
from holdfast.model.operations import OPEN, Action, Kind, Operation, Type, Update

_NAME_LENGTH = 200


def identity_of(kind: Type, sub_type: str, name: str, *parts: object, parent: Identity | None = None) -> Identity:
    """The identity of an operation. Its id is made from the sub-type, the name, the parts and the parent, so the same arguments give the
    same identity in every invocation. The name in the identity is cut after 200 characters."""
    text = "\0".join((sub_type, name, *map(str, parts), parent.operation_id if parent else ""))
    shown = (name if len(name) <= _NAME_LENGTH else f"{name[:_NAME_LENGTH]}…").replace("\0", "\ufffd")  # Postgres stores no NUL
    return Identity(blake2b(text.encode(errors="replace")).hexdigest()[:64], kind, sub_type, parent.operation_id if parent else None, shown)


def started(at: Identity, **values: object) -> Update:
    """The update that starts an operation. `values` are further members of the update, by name."""
    return at.update(Action.START, **values)


def succeeded(at: Identity, payload: str) -> Update:
    """The update that ends an operation as succeeded, with `payload` as its result."""
    return at.update(Action.SUCCEED, payload=payload)


class Journal:
    """Finds and writes the operations of one execution."""

    def __init__(self, state: AsyncState) -> None:
        self._state = state
        self._first: list[Update] = []
        """Updates that are written before the updates of this journal's next write. If no write follows, they are not written: an execution
        that ends without any write has only its result."""
        self._listeners: dict[str, Callable[[], None]] = {}
        self._changes: dict[str, asyncio.Future[None]] = {}

    @classmethod
    def of(cls, context: AsyncDurableContext) -> Journal:
        """The journal of the execution to which this context belongs."""
        state = context._scope.state
        assert isinstance(state, AsyncState)
        return cls(state)

    @property
    def header(self) -> Execution:
        """The execution: its id, function, tenant and times."""
        return self._state.header

    @property
    def kind(self) -> Kind | None:
        """What the execution runs, if this runner knows it from the write that started the execution; else None."""
        return self._state.kind

    @property
    def clock(self) -> Clock:
        """The clock of the host that runs the execution."""
        return self._state.clock

    @property
    def operations(self) -> Iterable[Operation]:
        """The operations of the execution that are in memory: at least all that a replay needs."""
        return self._state.operations.values()

    @property
    def by_id(self) -> Mapping[str, Operation]:
        """The operations of `operations`, by their ids."""
        return self._state.operations

    @property
    def has_updates(self) -> bool:
        """Whether the execution has operations on disk, or updates that are about to be written."""
        return bool(self._state.operations or self._state.unwritten)

    def find(self, at: Identity) -> Operation | None:
        """The operation with this identity; None if it is not recorded. Raises NonDeterministicExecutionError if the recorded operation has
        another type, sub-type, name or parent."""
        return self._state.lookup(at)

    def is_closed(self, at: Identity) -> bool:
        """Whether this operation is recorded and has ended."""
        return self._is_closed(at.operation_id)

    def _is_closed(self, operation_id: str) -> bool:
        found = self._state.operations.get(operation_id)
        return found is not None and found.status not in OPEN

    # --- writing

    async def write(self, *updates: Update, charges: tuple[Charge, ...] = (), ledger: tuple[LedgerEntry, ...] = ()) -> None:
        """Write these updates, charges and entries of the ledger together; they are on disk when this returns. Raises LimitReached if a
        charge goes beyond its limit: in that case none of them is written."""
        if charges or ledger:
            for update in self._taken():
                self._state.record(update)
            await self._state.record_alone(list(updates), charges, ledger)
            return
        for update in (*self._taken(), *updates):
            self._state.record(update)
        await self._state.flush()

    def write_later(self, update: Update) -> None:
        """Write this update, and the updates of `write_first`, with the next write or before it. If no write follows within some
        milliseconds, they are written alone. Returns at once."""
        for one in (*self._taken(), update):
            self._state.record_later(one)

    def write_first(self, update: Update) -> None:
        """Keep this update in memory. The next write of this journal writes it before the other updates of that write. If no write follows,
        it is never written."""
        self._first.append(update)

    def _taken(self) -> list[Update]:
        first, self._first = self._first, []
        if first:
            for operation_id in list(self._listeners):
                self._listen(operation_id)
        return first

    # --- waiting

    async def until_closed(self, *places: Identity) -> None:
        """Rest until one of these operations is closed; returns at once if one is closed already. If some of them are recorded, only these
        are waited for. The caller must make sure that no other strand of the execution runs meanwhile."""
        while True:
            found = [operation for at in places if (operation := self._state.lookup(at)) is not None]
            if any(operation.status not in OPEN for operation in found):
                return
            first = found[0].id if found else places[0].operation_id
            await self._state.rest(Suspend(first, tuple(found[1:])))

    def when_closed(self, at: Identity, tell: Callable[[], None] | None) -> None:
        """Call `tell` when this operation is closed; if it is closed already, call it now. The handler continues meanwhile. `tell` may be
        called more than once. A second `tell` for the same operation replaces the first; None removes it.

        While `has_updates` is False, this journal only keeps `tell`. It begins to listen for the operation at the next write that also
        writes updates of `write_first`; a write without such updates does not begin it.
        """
        if tell is None:
            self._listeners.pop(at.operation_id, None)
            return
        self._listeners[at.operation_id] = tell
        if self.has_updates:
            self._listen(at.operation_id)

    def _listen(self, operation_id: str) -> None:
        tell = self._listeners.get(operation_id)
        if tell is None:
            return
        if self._is_closed(operation_id):
            tell()
            return
        change = self._changes.get(operation_id)
        if change is None or change.done():
            change = self._changes[operation_id] = self._state.when_changed(operation_id)
            change.add_done_callback(lambda _: self._listen(operation_id))

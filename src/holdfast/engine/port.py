"""The port, in process: a checkpoint is a method call away from its group commit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar, cast

from holdfast.engine.health import Health
from holdfast.engine.invoke_targets import InvokeTargets
from holdfast.engine.writer import Deliver, Writer
from holdfast.model.charging import Charge
from holdfast.model.errors import DiskFailed, HoldfastError
from holdfast.model.ids import Position
from holdfast.model.operations import Operation, Type, Update, unpruned
from holdfast.model.transitions import NO_CHILDREN, Children
from holdfast.model.verbs import Checkpoint, Checkpointed
from holdfast.store.seam import Store

T = TypeVar("T")


class EnginePort:
    """What a handler in this process writes through."""

    def __init__(self, store: Store, writer: Writer, invoking: InvokeTargets, health: Health) -> None:
        self._store = store
        self._writer = writer
        self._invoking = invoking
        self._health = health

    def checkpoint(self, token: Position, updates: Sequence[Update], client_token: str | None = None) -> Checkpointed:
        """From a handler's thread; returns when it is on disk."""
        children = self._children(token, updates)
        answer = self._writer.call(Checkpoint(token, tuple(updates), client_token, children))
        assert isinstance(answer, Checkpointed)
        return answer

    def checkpoint_soon(
        self,
        token: Position,
        updates: Sequence[Update],
        landed: Callable[[Checkpointed | HoldfastError], None],
        *,
        client_token: str | None = None,
        charges: tuple[Charge, ...] = (),
    ) -> None:
        """From the engine's loop; `landed` gets the answer there, at once when nobody else would run beside."""
        try:
            children = self._children(token, updates)
        except HoldfastError as trouble:
            landed(trouble)
            return
        write = Checkpoint(token, tuple(updates), client_token, children, charges)
        deliver = cast("Deliver", landed)  # a checkpoint is answered by a Checkpointed
        answer = self._writer.write_now(write)
        if answer is None:
            self._writer.submit(write, deliver)
        else:
            deliver(answer)

    def state(self, token: Position, newer_than: int = 0) -> Sequence[Operation]:
        """The operations a replay needs."""
        found = self._read(lambda: self._store.operations(token.execution, newer_than))
        return found if newer_than else unpruned(found)

    def input(self, token: Position) -> str | None:
        """The execution's input as it was given."""
        return self._read(lambda: self._store.input(token.execution))

    def seen(self, token: Position) -> int:
        """The revision that an invocation was last told of: by its latest checkpoint with a client token, else when it began.

        For a host whose handlers write from afar. It is read from the store, because any process may have served that checkpoint.
        """
        header = self._read(lambda: self._store.find(token.execution))
        written = header is not None and header.client is not None and header.client.startswith(f"{token.epoch}.")
        return header.client_revision if header is not None and written else token.revision

    def _children(self, token: Position, updates: Sequence[Update]) -> Children:
        """What the invokes among these updates start; most writes have none."""
        for update in updates:
            if update.type is Type.CHAINED_INVOKE:
                return self._read(lambda: self._invoking.children(token.execution, updates))
        return NO_CHILDREN

    def _read(self, read: Callable[[], T]) -> T:
        """Let the engine know when the disk fails: then it does not count against the execution."""
        try:
            return read()
        except DiskFailed as trouble:
            self._health.fell(trouble)
            raise

"""The port of handlers that run in the engine's process. A checkpoint is a direct call into the engine; its answer comes after the group
commit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, TypeVar, cast

from holdfast.engine.capacity_reservations import CapacityReservations
from holdfast.engine.entries import Deliver
from holdfast.engine.health import Health
from holdfast.engine.invoke_targets import InvokeTargets, starts_another
from holdfast.engine.live_parents import LiveParents
from holdfast.engine.writer import Writer
from holdfast.model import codec
from holdfast.model.charges import Charge
from holdfast.model.errors import DiskFailed, HoldfastError, RunUnavailable
from holdfast.model.execution import Execution
from holdfast.model.ids import Position
from holdfast.model.ledger import LedgerEntry
from holdfast.model.operations import Failure, Kind, Operation, Order, Update, unpruned
from holdfast.model.ports import OnAnswer
from holdfast.model.run_port import Acceptor, EnqueueAsked, RunAsked
from holdfast.model.transitions import NO_CHILDREN, Children
from holdfast.model.verbs import Checkpoint, Checkpointed
from holdfast.store.seam import ExecutionStore

T = TypeVar("T")

_NO_WORKERS: Final = (
    "context.run: this process serves no workers. Give their files to the engine that has the function: "
    '`holdfast.open(..., workers=["worker.py"])`, `holdfast serve functions.py worker.py`, '
    "or `holdfast run functions.py --worker worker.py`."
)


class EnginePort:
    """The port through which a handler in this process reads and writes its execution."""

    def __init__(
        self,
        store: ExecutionStore,
        writer: Writer,
        targets: InvokeTargets,
        health: Health,
        reservations: CapacityReservations,
        parents: LiveParents,
    ) -> None:
        self._store = store
        self._writer = writer
        self._reservations = reservations
        self._parents = parents
        self._targets = targets
        self._health = health
        self._loop = asyncio.get_running_loop()
        self.acceptor: Callable[[], Acceptor | None] = lambda: None
        """Returns the service that accepts runs of workers; None if this engine serves no workers."""

    def checkpoint(self, token: Position, updates: Sequence[Update], client_token: str | None = None) -> Checkpointed:
        children = self._children(token, updates)
        answer = self._writer.call(Checkpoint(token, tuple(updates), client_token, children))
        assert isinstance(answer, Checkpointed)
        return answer

    def checkpoint_soon(
        self,
        token: Position,
        updates: Sequence[Update],
        on_answer: OnAnswer,
        *,
        client_token: str | None = None,
        charges: tuple[Charge, ...] = (),
        ledger: tuple[LedgerEntry, ...] = (),
    ) -> None:
        """If the write is committed or refused at once, `on_answer` is called before this method returns. Raises EngineClosed if the engine
        is closed. An execution that the checkpoint starts, and does not enqueue, is claimed in the same write if its function is hosted
        here and has room. If `client_token` is given, the execution is not claimed: the request may be a repeated one, and a repeated one
        starts nothing."""
        self._parents.writes(token.execution)
        try:
            children = self._children(token, updates)
        except HoldfastError as trouble:
            on_answer(trouble)
            return
        if children and client_token is None:
            children = self._reservations.for_births(children)
            on_answer = self._settling(children, on_answer)
        write = Checkpoint(token, tuple(updates), client_token, children, charges, ledger)
        deliver = cast("Deliver", on_answer)  # a checkpoint is answered by a Checkpointed
        answer = self._writer.write_now(write)
        if answer is None:
            self._writer.submit(write, deliver)
        else:
            deliver(answer)

    def _settling(self, children: Children, on_answer: OnAnswer) -> OnAnswer:
        def both(answer: Checkpointed | HoldfastError) -> None:
            self._reservations.answered(children, answer)
            on_answer(answer)

        return both

    def state(self, token: Position, newer_than: int = 0) -> Sequence[Operation]:
        """If `newer_than` is 0, operations inside a closed context without `replay_children` are left out."""
        found = self._read(lambda: self._store.operations(token.execution, newer_than))
        return found if newer_than else unpruned(found)

    def input(self, token: Position) -> str | None:
        return self._read(lambda: self._store.input(token.execution))

    def seen(self, token: Position) -> int:
        """The last revision of the execution that an invocation knows: the revision after its latest checkpoint, if that one had a client
        token. Otherwise, and before its first checkpoint: the revision of `token`, the first token of the invocation. Hosts whose handlers
        write over HTTP use this. The revision is read from the store, because any process may have received that checkpoint."""
        header = self._read(lambda: self._store.find(token.execution))
        written = header is not None and header.client is not None and header.client.startswith(f"{token.epoch}.")
        return header.client_revision if header is not None and written else token.revision

    async def accept(self, parent: Execution, operation_id: str, asked: RunAsked | EnqueueAsked) -> Order | Failure:
        """Accept a run that a handler asks for, or an execution that a handler enqueues. Returns the order that the handler's checkpoint
        carries, or the failure with which the operation ends. Raises RunUnavailable if a run is asked for and this engine serves no
        workers."""
        acceptor = self.acceptor()
        if isinstance(asked, EnqueueAsked):
            if self._read(lambda: self._targets.function(asked.target, asked.version)) is not None:
                return Order(Kind.FUNCTION, codec.dumps(asked.input), queued=asked.queued)
            if acceptor is None:
                return Failure(f"Function not found: {asked.target}", "ResourceNotFoundException")
        if acceptor is None:
            raise RunUnavailable(_NO_WORKERS)
        try:
            return await acceptor(parent, operation_id, asked)
        except DiskFailed as trouble:
            self._health.fell(trouble)
            raise

    def accept_blocking(self, parent: Execution, operation_id: str, asked: RunAsked | EnqueueAsked) -> Order | Failure:
        """Like `accept`, on the thread of the handler. Blocks until the answer is there."""
        return asyncio.run_coroutine_threadsafe(self.accept(parent, operation_id, asked), self._loop).result()

    def _children(self, token: Position, updates: Sequence[Update]) -> Children:
        """By the id of the operation, for each of these updates that asks for another execution: the execution that it starts, or the
        failure with which the operation ends."""
        for update in updates:
            if starts_another(update):
                return self._read(lambda: self._targets.children(token.execution, updates))
        return NO_CHILDREN

    def _read(self, read: Callable[[], T]) -> T:
        """Read from the store. If the disk fails, the engine pauses, and DiskFailed is raised."""
        try:
            return read()
        except DiskFailed as trouble:
            self._health.fell(trouble)
            raise

"""The port of a function that runs in another process than its service: it writes checkpoints and reads the state by requests of a Lambda
client.

Only the newest token that the service sent is valid, and the port keeps it. Callers get a Position in place of the token; the Position
counts the requests that this port made. If a request fails, CheckpointError or GetExecutionStateError is raised; the error says whether
another invocation may succeed.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

from holdfast.durable.exceptions import BotoClientError, CheckpointError, GetExecutionStateError
from holdfast.durable.remote.client import LambdaClient
from holdfast.durable.types import DurableExecutionArn
from holdfast.model import wire
from holdfast.model.clock import Clock
from holdfast.model.errors import HoldfastError
from holdfast.model.execution import Execution, Terms
from holdfast.model.ids import LATEST, Position
from holdfast.model.operations import Operation, Type, Update
from holdfast.model.ports import Invocation, OnAnswer
from holdfast.model.verbs import Checkpointed

log = logging.getLogger("holdfast.durable")

MAX_UPDATES: Final = 250
MAX_BYTES: Final = 750 * 1024
"""At most this many bytes of updates are sent in one request. An update that is larger than this is sent in a request of its own."""
PAGE: Final = 1000

Told = Mapping[str, Any]


class ServiceClock:
    """The clock of this machine. If the service has shown a later time than this machine, the clock is moved forward by the difference: the
    time of the service decides when a wait is due."""

    virtual = False

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ahead = 0
        self._latest = 0

    def now(self) -> int:
        return max(self._latest, self._clock.now() + self._ahead)  # the clock of the machine may be set back

    def skip_to(self, at: int) -> None:
        """Does nothing: this clock cannot be set."""

    def seen(self, at: int) -> None:
        """Note that the service's clock has reached the time `at`; `now` is not behind it from now on."""
        self._latest = max(self._latest, at)
        self._ahead = max(self._ahead, at - self._clock.now())


class RemotePort:
    """The connection of one invocation to its service."""

    def __init__(self, client: LambdaClient, arn: str, token: str, clock: Clock) -> None:
        self.arn = arn
        self.clock = ServiceClock(clock)
        self.revoked = False
        """Whether the service withdrew the token. Then this invocation must end as PENDING, also if the handler returned or raised."""
        self._client = client
        self._token = token
        self._requests = 0
        self._revision = 0
        self._updated: tuple[str, ...] = ()
        self._execution: Operation | None = None
        self._operations: dict[str, Operation] = {}
        self._thread: ThreadPoolExecutor | None = None
        self._closed = False

    # --- the invocation

    def begin(self, state: Told, updated: Iterable[str] = ()) -> None:
        """Store the operations that the event contains, and fetch those that did not fit into the event. Raises GetExecutionStateError if
        they cannot be fetched. `updated` are the ids of the operations that the service itself changed since the invocation before this
        one."""
        self._updated = tuple(updated)
        if state.get("NextMarker") and not self._token:
            raise GetExecutionStateError("The event has no checkpoint token, so the rest of the execution's state cannot be read.")
        self._learn(self._pages(state, self._token))

    def invocation(self, terms: Terms, request_id: str | None = None) -> Invocation:
        """This invocation, in the form that the code which runs handlers needs. `terms` are those of the function. `request_id` is the id
        that Lambda gave the invocation; None if there is none."""
        identity = self.arn.rpartition("/")[2]
        parts = DurableExecutionArn.from_arn(self.arn)
        execution = self._execution
        started_at = execution.started_at if execution is not None else self.clock.now()
        header = Execution(
            id=identity,
            function=parts.function_name if parts else "",
            version=LATEST,
            name=(execution.name if execution is not None else None) or identity,
            input_hash="",
            terms=terms,
            started_at=started_at,
            deadline=started_at + terms.timeout_seconds * 1000,
            revision=self._revision,
            invocation=request_id,
        )
        return Invocation(
            arn=self.arn,
            header=header,
            token=self._position(),
            fresh=not self._operations,
            input=execution.result if execution is not None else None,
            updated=self._updated,
        )

    def end(self, update: Update) -> None:
        """Write `update`, which says how the execution ended."""
        self.checkpoint(self._position(), [update])

    def close(self) -> None:
        """Refuse all later calls of `checkpoint_soon`, and wait until the requests of earlier calls have ended."""
        self._closed = True
        if self._thread is not None:
            self._thread.shutdown()

    # --- the port

    def input(self, token: Position) -> str | None:
        return self._execution.result if self._execution is not None else None

    def state(self, token: Position, newer_than: int = 0) -> Sequence[Operation]:
        """Those operations that this invocation knows and that changed after the revision `newer_than`."""
        return [operation for operation in self._operations.values() if operation.revision > newer_than]

    def checkpoint(self, token: Position, updates: Sequence[Update], client_token: str | None = None) -> Checkpointed:
        """Write updates, in as many requests as the limits require, and return when the service has stored them. Raises CheckpointError or
        GetExecutionStateError if a request fails. If the service withdraws the token, no error is raised: the answer has the token None,
        and the updates that were not sent yet are not written. `client_token` is not used."""
        changed: dict[str, Operation] = {}
        following: Position | None = token
        for batch in batches(updates):
            changed.update(self._request(batch))
            following = self._position() if self._token else None
            if following is None:
                break
        return Checkpointed(following, tuple(changed.values()), self._revision)

    def checkpoint_soon(self, token: Position, updates: Sequence[Update], on_answer: OnAnswer) -> None:
        """Write updates from a handler's event loop without blocking the loop. A thread calls `checkpoint`; when that has ended,
        `on_answer` is called on the loop with the answer or the error. After `close`, it is called with a CheckpointError."""
        loop = asyncio.get_running_loop()

        def deliver(answered: Future[Checkpointed]) -> None:
            error = answered.exception()
            loop.call_soon_threadsafe(on_answer, answered.result() if error is None else _failure(error))

        if self._closed:
            loop.call_soon(on_answer, CheckpointError("The invocation has ended."))
            return
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="holdfast-checkpoint")
        self._thread.submit(self.checkpoint, token, updates).add_done_callback(deliver)

    def _position(self) -> Position:
        return Position(self.arn, 0, self._requests, self._revision)

    def _request(self, updates: list[wire.Wire]) -> dict[str, Operation]:
        if not self._token:
            raise CheckpointError("This invocation has no checkpoint token any more, so nothing can be written.")
        try:
            answer: Told = self._client.checkpoint_durable_execution(
                DurableExecutionArn=self.arn, CheckpointToken=self._token, Updates=updates
            )
            # After the update that ends the execution, the token is not valid any more: nothing more can be fetched or written.
            over = any(update["Type"] == Type.EXECUTION for update in updates)
            self._token = "" if over else answer.get("CheckpointToken") or ""
            self._requests += 1
            changed = self._learn(self._pages(answer.get("NewExecutionState") or {}, self._token))
        except BotoClientError:
            raise
        except Exception as error:
            raise CheckpointError.from_exception(error) from error
        if not self._token and not over:
            self.revoked = True
            log.warning("%s: the service withdrew the checkpoint token; this invocation ends and is replayed later", self.arn)
        return changed

    def _pages(self, page: Told, token: str) -> Iterator[Told]:
        """The operations on this page and on all pages after it, which this method fetches. If `token` is empty, nothing can be fetched,
        and there are only the operations on this page. Raises GetExecutionStateError if a page cannot be fetched."""
        yield from page.get("Operations") or ()
        while (marker := page.get("NextMarker")) and token:
            try:
                page = self._client.get_durable_execution_state(
                    DurableExecutionArn=self.arn, CheckpointToken=token, Marker=marker, MaxItems=PAGE
                )
            except Exception as error:
                raise GetExecutionStateError.from_exception(error) from error
            yield from page.get("Operations") or ()

    def _learn(self, operations: Iterable[Told]) -> dict[str, Operation]:
        self._revision += 1
        learnt: dict[str, Operation] = {}
        for told in operations:
            operation = wire.operation_from_wire(told, self._revision)
            self.clock.seen(operation.ended_at or operation.started_at)
            if operation.type is Type.EXECUTION:
                self._execution = operation
            else:
                learnt[operation.id] = self._operations[operation.id] = operation
        return learnt


def _failure(error: BaseException) -> HoldfastError:
    return error if isinstance(error, HoldfastError) else CheckpointError(f"The checkpoint could not be made: {error}")


def batches(updates: Sequence[Update]) -> Iterator[list[wire.Wire]]:
    """The updates in lists, one list for each request, within MAX_UPDATES and MAX_BYTES (only an update that is itself larger than
    MAX_BYTES makes a larger list). Without updates there is one empty list: a request that only asks for changes."""
    batch: list[wire.Wire] = []
    size = 0
    for update in updates:
        sent = wire.update_to_wire(update)
        length = len(json.dumps(sent))  # as boto3 writes it
        if batch and (len(batch) == MAX_UPDATES or size + length > MAX_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(sent)
        size += length
    yield batch

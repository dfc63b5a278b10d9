"""A host for handlers of the official SDK: its own threads, its own service-client protocol, our port behind it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

from aws_durable_execution_sdk_python.exceptions import CheckpointError, GetExecutionStateError
from aws_durable_execution_sdk_python.execution import DurableExecutionInvocationInput, DurableExecutionInvocationInputWithClient
from aws_durable_execution_sdk_python.lambda_service import (
    CheckpointOutput,
    CheckpointUpdatedExecutionState,
    Operation,
    OperationUpdate,
    StateOutput,
)

from holdfast.durable.exceptions import wire_name
from holdfast.model import operations as model
from holdfast.model import wire
from holdfast.model.errors import HoldfastError, InvalidToken, LeaseLost, Rejected
from holdfast.model.execution import Execution, Outcome, OutcomeStatus
from holdfast.model.operations import Failure, served_since
from holdfast.model.ports import Invocation, Port
from holdfast.model.seal import Seal

Handler = Callable[[Any, Any], Any]
"""What the official `durable_execution` makes of a function: takes an invocation, returns the Lambda output."""


class Refused(Exception):
    """A refusal in the shape of botocore's ClientError, so that the SDK's own classification decides what it costs."""

    def __init__(self, error: HoldfastError) -> None:
        super().__init__(str(error))
        stale = isinstance(error, LeaseLost | InvalidToken)
        caller = stale or isinstance(error, Rejected)
        message = "Invalid checkpoint token" if stale else str(error)
        self.response = {
            "Error": {"Code": "InvalidParameterValueException" if caller else "ServiceException", "Message": message},
            "ResponseMetadata": {"HTTPStatusCode": 400 if caller else 500},
        }


SEAL = Seal(b"tokens leave the engine here")


class Client:
    """The official DurableServiceClient over a port: both directions go through the wire form."""

    def __init__(self, invocation: Invocation, port: Port, page: int) -> None:
        self._invocation = invocation
        self._port = port
        self._page = page
        self.seen = invocation.header.revision
        header = invocation.header
        self._initial = [
            wire.execution_to_wire(header, port.input(invocation.token), wire.milliseconds),
            *(wire.operation_to_wire(operation, wire.milliseconds) for operation in port.state(invocation.token)),
        ]

    def event(self) -> DurableExecutionInvocationInputWithClient:
        """The invocation's event, cut after its first page."""
        at = self._invocation
        operations, marker = self._cut(0)
        updated = served_since(self._port.state(at.token), at.header.seen)
        sent = wire.invocation_to_wire(at.arn, SEAL.token(at.token), operations, marker, updated)
        event = DurableExecutionInvocationInput.from_json_dict(sent)
        made = DurableExecutionInvocationInputWithClient.from_durable_execution_invocation_input(event, self)
        assert isinstance(made, DurableExecutionInvocationInputWithClient)
        return made

    def _cut(self, start: int) -> tuple[Sequence[wire.Wire], str]:
        end = start + self._page
        return self._initial[start:end], str(end) if end < len(self._initial) else ""

    def checkpoint(
        self, durable_execution_arn: str, checkpoint_token: str, updates: list[OperationUpdate], client_token: str | None
    ) -> CheckpointOutput:
        """CheckpointDurableExecution."""
        try:
            body = {"CheckpointToken": checkpoint_token, "Updates": [update.to_dict() for update in updates], "ClientToken": client_token}
            asked = wire.checkpoint_from_json(json.dumps(body).encode())
            answer = self._port.checkpoint(SEAL.position(asked.token), asked.updates, asked.client_token)
        except HoldfastError as error:
            raise CheckpointError.from_exception(Refused(error)) from error
        self.seen = answer.revision
        changed = [Operation.from_json_dict(wire.operation_to_wire(o, wire.milliseconds)) for o in answer.operations]
        token = answer.token and SEAL.token(answer.token)
        return CheckpointOutput(token, CheckpointUpdatedExecutionState(changed))

    def get_execution_state(
        self, durable_execution_arn: str, checkpoint_token: str, next_marker: str, max_items: int = 1000
    ) -> StateOutput:
        """GetDurableExecutionState, one page."""
        if not next_marker.isdigit():
            raise GetExecutionStateError.from_exception(Refused(Rejected("Invalid Marker")))
        operations, marker = self._cut(int(next_marker))
        return StateOutput([Operation.from_json_dict(operation) for operation in operations], marker)


class OfficialHost:
    """Runs handlers of the official SDK on threads of their own."""

    def __init__(self, handlers: Mapping[str, Handler], *, page: int = 1000) -> None:
        self._handlers = handlers
        self._page = page
        self._running = 0
        self._threads = ThreadPoolExecutor(8, thread_name_prefix="official")

    def invoke(self, invocation: Invocation, port: Port, done: Callable[[Outcome, int], None]) -> None:
        """Begin an invocation."""
        self._running += 1

        def report(ended: asyncio.Future[tuple[Outcome, int]]) -> None:
            self._running -= 1
            if not ended.cancelled():
                done(*ended.result())

        asyncio.wrap_future(self._threads.submit(self._run, invocation, port)).add_done_callback(report)

    def _run(self, invocation: Invocation, port: Port) -> tuple[Outcome, int]:
        client = Client(invocation, port, self._page)
        try:
            context = SimpleNamespace(aws_request_id=invocation.header.invocation)
            output = self._handlers[invocation.header.function](client.event(), context)
        except BaseException as error:
            return Outcome(OutcomeStatus.CRASHED, error=Failure(message=str(error), type=wire_name(error))), client.seen
        return wire.outcome_from_wire(output), client.seen

    def cancel(self, execution: str) -> None:
        """A thread cannot be ended; its next checkpoint is refused."""

    def learn(self, header: Execution, operations: Collection[model.Operation]) -> None:
        """The official SDK learns of changes by its own checkpoints."""

    def recheck(self, execution: str) -> None:
        """Do nothing: an invocation here never stays live while it waits."""

    def idle(self) -> bool:
        """Whether nothing runs here."""
        return self._running == 0

    def close(self) -> None:
        """Wait for what still runs."""
        self._threads.shutdown(wait=True)

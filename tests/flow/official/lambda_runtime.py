"""A Lambda runtime around our engine: a handler gets its event as JSON and reaches the service through a real boto3 client.

Requests are made, signed and read by boto3; only the last step, the network, is replaced: a request ends in the engine's port.
"""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import boto3
from botocore.awsrequest import AWSResponse
from botocore.config import Config

from holdfast.durable.exceptions import wire_name
from holdfast.durable.execution import DurableFunction
from holdfast.model import wire
from holdfast.model.errors import HoldfastError
from holdfast.model.execution import Execution, Outcome, OutcomeStatus
from holdfast.model.operations import Failure, Operation
from holdfast.model.ports import Invocation, Port
from tests.flow.official.host import SEAL, Refused

Answered = tuple[int, dict[str, str], Any]
"""Status, headers and body of an answer."""
Serve = Callable[[str, Mapping[str, Any]], Answered]
"""Answers a request: what is asked for (checkpoint or state), and its members."""

SERVING: dict[str, Serve] = {}
"""Who answers for which execution."""


class _Body:
    def __init__(self, body: bytes) -> None:
        self._body = body

    def stream(self, **_: Any) -> Iterator[bytes]:
        yield self._body


@functools.cache
def lambda_client() -> Any:
    """A boto3 client whose requests are served here. Making one reads boto3's whole model of Lambda, so all tests share it."""
    config = Config(retries={"max_attempts": 0})
    keys = {"aws_access_key_id": "nobody", "aws_secret_access_key": "nothing"}
    client = boto3.client("lambda", region_name="us-east-1", endpoint_url="http://lambda.invalid", config=config, **keys)
    client.meta.events.register("before-send.lambda", _send)
    return client


def _send(request: Any, **_: Any) -> AWSResponse:
    parts = urlsplit(request.url)
    *_, arn, asked = parts.path.split("/")
    members = json.loads(request.body) if request.body else {key: value[0] for key, value in parse_qs(parts.query).items()}
    status, headers, body = SERVING[unquote(arn)](asked, members)
    return AWSResponse(request.url, status, headers, _Body(json.dumps(body).encode()))


def refused(error: HoldfastError) -> Answered:
    """An error as the service sends it."""
    response: dict[str, Any] = Refused(error).response
    told = response["Error"]
    return response["ResponseMetadata"]["HTTPStatusCode"], {"x-amzn-errortype": told["Code"]}, {"message": told["Message"]}


class Service:
    """The API for one invocation."""

    def __init__(self, invocation: Invocation, port: Port, page: int) -> None:
        self._at = invocation
        self._port = port
        self._page = page
        self.seen = invocation.header.revision
        operations = [wire.operation_to_wire(op, wire.milliseconds) for op in port.state(invocation.token)]
        self._initial = [wire.execution_to_wire(invocation.header, port.input(invocation.token), wire.milliseconds), *operations]
        self._in_seconds = [wire.operation_to_wire(op, wire.seconds) for op in port.state(invocation.token)]

    def event(self) -> Any:
        """The invocation's event, as a runtime reads it."""
        event = wire.invocation_to_wire(self._at.arn, SEAL.token(self._at.token), self._initial[: self._page], self._marker(self._page))
        return json.loads(json.dumps(event))

    def _marker(self, end: int) -> str:
        return str(end) if end < len(self._initial) else ""

    def serve(self, asked: str, members: Mapping[str, Any]) -> Answered:
        """Answer one request."""
        try:
            return 200, {}, self._checkpoint(members) if asked == "checkpoint" else self._state(members)
        except HoldfastError as error:
            return refused(error)

    def _checkpoint(self, members: Mapping[str, Any]) -> Any:
        asked = wire.checkpoint_from_json(json.dumps(members).encode())
        answer = self._port.checkpoint(SEAL.position(asked.token), asked.updates, asked.client_token)
        self.seen = answer.revision
        changed = [wire.operation_to_wire(operation, wire.seconds) for operation in answer.operations]
        token = {} if answer.token is None else {"CheckpointToken": SEAL.token(answer.token)}
        return {**token, "NewExecutionState": {"Operations": changed}}

    def _state(self, members: Mapping[str, Any]) -> Any:
        assert SEAL.position(members["CheckpointToken"]) == self._at.token
        start = int(members["Marker"])
        end = start + min(self._page, int(members["MaxItems"]))
        return {"Operations": self._in_seconds[start - 1 : end - 1], "NextMarker": self._marker(end)}


class LambdaRuntime:
    """A host that runs one function as Lambda would."""

    def __init__(self, function: DurableFunction, *, page: int = 1000) -> None:
        self._function = function
        self._page = page
        self._threads = ThreadPoolExecutor(4, thread_name_prefix="lambda")
        function.boto3_client = lambda_client()

    def invoke(self, invocation: Invocation, port: Port, done: Callable[[Outcome, int], None]) -> None:
        """Begin an invocation."""

        def report(ended: asyncio.Future[tuple[Outcome, int]]) -> None:
            if not ended.cancelled():
                done(*ended.result())

        asyncio.wrap_future(self._threads.submit(self._run, invocation, port)).add_done_callback(report)

    def _run(self, invocation: Invocation, port: Port) -> tuple[Outcome, int]:
        service = Service(invocation, port, self._page)
        SERVING[invocation.arn] = service.serve
        context = SimpleNamespace(aws_request_id=invocation.header.invocation)
        try:
            output = json.loads(json.dumps(self._function(service.event(), context)))
        except BaseException as error:
            return Outcome(OutcomeStatus.CRASHED, error=Failure(message=str(error), type=wire_name(error))), service.seen
        return wire.outcome_from_wire(output), service.seen

    def cancel(self, execution: str) -> None:
        """A thread cannot be ended; its next checkpoint is refused."""

    def learn(self, header: Execution, operations: Collection[Operation]) -> None:
        """Do nothing: Lambda sends no message to a running function."""

    def recheck(self, execution: str) -> None:
        """Do nothing: an invocation here never stays live while it waits."""

    def idle(self) -> bool:
        """Whether nothing runs here; these tests do not use it."""
        return True

    def close(self) -> None:
        """Wait for what still runs."""
        self._threads.shutdown()

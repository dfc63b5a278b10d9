"""The entry from a Lambda runtime: one invocation, from its event to its output.

The service sends an ARN, a token and the operations so far. The output tells it SUCCEEDED, FAILED or PENDING. If the invocation failed and
another one may succeed, the error is raised instead, so that the service invokes the function again. AWS's test runner works in the same
way, but its events contain a client that is used in place of boto3's.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from holdfast.durable.exceptions import BackgroundThreadError, BotoClientError, ExecutionError, InvocationError, wire_name
from holdfast.durable.lambda_service import ErrorObject
from holdfast.durable.remote import async_invocation, blocking_invocation
from holdfast.durable.remote.client import InjectedClient, LambdaClient, default_client
from holdfast.durable.remote.invocation import Ended, RemoteFunction
from holdfast.durable.remote.port import RemotePort
from holdfast.model import wire
from holdfast.model.clock import Clock, SystemClock
from holdfast.model.execution import Outcome, OutcomeStatus
from holdfast.model.operations import Action, Failure, Type, Update

log = logging.getLogger("holdfast.durable")

MAX_ANSWER: Final = 6 * 1024 * 1024 - 50
"""The most characters of a result, and of an output with an error. A longer one is written with a checkpoint instead, because Lambda
accepts no output above 6 MiB."""

_NOT_DURABLE = (
    "This durable function was called with something that is not a durable invocation: it has no DurableExecutionArn and CheckpointToken. "
    "On AWS, check that the function has a DurableConfig. Elsewhere start it through an engine: `holdfast.open(path, functions=[...])`, "
    "then `engine.start(name, input)`."
)
_NO_SUCCESSOR = "Lambda's service cannot continue an execution as a new one; only Holdfast can. Start a new execution instead."
_PENDING: Final[wire.Wire] = {"Status": OutcomeStatus.PENDING.value}


class _Asked(NamedTuple):
    """The fields of the event of a durable invocation. `updated` has the ids of the operations that the service changed; `client` is None
    unless AWS's test runner sent one."""

    arn: str
    token: str
    state: Mapping[str, Any]
    updated: Iterable[str]
    client: LambdaClient | None


def answer(function: RemoteFunction, event: Any, lambda_context: Any = None, *, clock: Clock | None = None) -> wire.Wire:
    """Run one invocation, and return its output for the Lambda service. Raises ExecutionError if `event` is not the event of a durable
    invocation. If the invocation failed and another one may succeed, raises the error of the invocation. Raises ExtraMissing if there is no
    client, and boto3 is missing or too old to make one. `clock` None means the machine's clock."""
    asked = _read(event)
    client = asked.client or function.boto3_client or default_client()
    port = RemotePort(client, asked.arn, asked.token, clock or SystemClock())
    try:
        port.begin(asked.state, asked.updated)
    except BotoClientError as error:
        return _unless_retryable(error)
    run = async_invocation.run if function.is_async else blocking_invocation.run
    return _output(port, run(function, port, lambda_context))


def _read(event: Any) -> _Asked:
    client = None
    if hasattr(event, "service_client"):
        client = InjectedClient(event)
        event = event.to_json_dict()
    if isinstance(event, Mapping):
        arn, token, state = event.get("DurableExecutionArn"), event.get("CheckpointToken"), event.get("InitialExecutionState")
        if isinstance(arn, str) and isinstance(token, str) and isinstance(state, Mapping | None):
            return _Asked(arn, token, state or {}, event.get("UpdatedOperationIds") or (), client)
    raise ExecutionError(_NOT_DURABLE)


def _output(port: RemotePort, ended: Ended) -> wire.Wire:
    outcome, error = ended
    if outcome.status is OutcomeStatus.CONTINUED:
        outcome = Outcome(OutcomeStatus.FAILED, error=Failure(_NO_SUCCESSOR, wire_name(ExecutionError)))
    if port.revoked or outcome.status is OutcomeStatus.PENDING:
        return dict(_PENDING)
    if outcome.status is OutcomeStatus.CRASHED:
        if error is None:  # a plugin stopped the invocation
            raise InvocationError((outcome.error and outcome.error.message) or "The invocation was stopped.")
        raise error.source_exception if isinstance(error, BackgroundThreadError) else error
    if outcome.status is OutcomeStatus.SUCCEEDED:
        output: wire.Wire = {"Status": OutcomeStatus.SUCCEEDED.value, "Result": outcome.result}
        large = len(outcome.result or "") > MAX_ANSWER
    else:
        failure = outcome.error or Failure()
        log.error("%s failed: %s", port.arn, failure.message, exc_info=error)
        output = {"Status": OutcomeStatus.FAILED.value, "Error": wire.failure_to_wire(failure)}
        large = len(json.dumps(output)) > MAX_ANSWER
    return _written(port, outcome) if large else output


def _written(port: RemotePort, outcome: Outcome) -> wire.Wire:
    """Write an outcome with a checkpoint, because it is too large for the output. Returns the output, which has only the status of the
    outcome. If the checkpoint fails and another invocation may succeed, the error is raised; if none may, the output fails the execution
    with that error."""
    succeeded = outcome.status is OutcomeStatus.SUCCEEDED
    update = Update(
        id=f"execution-result-{port.clock.now()}",
        type=Type.EXECUTION,
        action=Action.SUCCEED if succeeded else Action.FAIL,
        payload=outcome.result,
        error=outcome.error,
    )
    try:
        port.end(update)
    except BotoClientError as error:
        return _unless_retryable(error)
    return {"Status": OutcomeStatus.SUCCEEDED.value, "Result": ""} if succeeded else {"Status": OutcomeStatus.FAILED.value}


def _unless_retryable(error: BotoClientError) -> wire.Wire:
    """The output that fails the execution with `error`. But if another invocation may succeed, `error` is raised instead."""
    if error.is_retryable():
        raise error
    log.error("The Lambda service refused the call, so the execution fails: %s", error, extra=error.build_logger_extras())
    return {"Status": OutcomeStatus.FAILED.value, "Error": ErrorObject.from_exception(error).to_dict()}

"""The event that a function is invoked with, and the outcome that the function's answer gives for the engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol, cast

import msgspec

from holdfast.lambda_api.runtime.jobs import TOO_LARGE, JobResult
from holdfast.lambda_api.runtime.runtime_description import Runtime
from holdfast.model import codec, wire
from holdfast.model.errors import EngineClosed, HoldfastError, PayloadNotJson
from holdfast.model.execution import Execution, Outcome, OutcomeStatus
from holdfast.model.ids import Position
from holdfast.model.operations import Failure, Operation, served_since
from holdfast.model.ports import Invocation, Port
from holdfast.model.shapes import crowding
from holdfast.model.state_pages import BEGINNING, FIRST_OPERATION, PAGE_BYTES, cut, state_marker

_DEPTH: Final = 500

TokenAt = Callable[[Position], str]
"""Makes the checkpoint token of a position. A token cannot be forged."""
EVENT_RETRY_SECONDS: Final = (60, 120)
"""How many seconds pass before the first and before the second new try of a failed Event invocation of a plain function. As on Lambda,
there are at most two new tries."""


class RevisionPort(Port, Protocol):
    """A port that knows which revision a handler in another process has seen."""

    def seen(self, token: Position) -> int: ...


def seen_by(invocation: Invocation, port: Port) -> int:
    """The last revision that an invocation saw. If it cannot be read, the revision with which the invocation began."""
    try:
        return cast("RevisionPort", port).seen(invocation.token)
    except HoldfastError:
        return invocation.token.revision


def durable_event(invocation: Invocation, port: Port, token: TokenAt, room: int = PAGE_BYTES) -> bytes:
    """The event of a durable function, with the first page of its state. The function asks for the other pages later. `room` is how many
    bytes the input and the operations may have. If the input alone is larger, the event has no operations, and the function asks for all of
    them. `token` makes the checkpoint token."""
    given = _input(invocation, port)
    stored: list[Operation] = [] if invocation.fresh else list(port.state(invocation.token))
    updated = invocation.updated if invocation.updated is not None else served_since(stored, invocation.header.seen)
    left = room - len(given or "")
    operations: list[wire.Wire] = []
    marker = state_marker(BEGINNING)
    if left > 0:
        operations.append(wire.execution_to_wire(invocation.header, given, wire.milliseconds))
        page, rest = cut(stored, FIRST_OPERATION, room=left)
        operations += [wire.operation_to_wire(operation, wire.milliseconds) for operation in page]
        marker = "" if rest is None else state_marker(rest)
    event = wire.invocation_to_wire(invocation.arn, token(invocation.token), operations, marker, updated)
    return msgspec.json.encode(event)


def plain_event(invocation: Invocation, port: Port) -> bytes:
    """The event of a function that is not durable: the input itself, or `{}` if there is no input."""
    return (_input(invocation, port) or "{}").encode()


def _input(invocation: Invocation, port: Port) -> str | None:
    return invocation.input if invocation.input is not None else port.input(invocation.token)


def outcome_of(runtime: Runtime, called: JobResult | Exception, header: Execution) -> Outcome:
    """The outcome of an invocation, for the engine. `called` is the result of the job, or the error with which the job ended."""
    if isinstance(called, EngineClosed):
        return Outcome(OutcomeStatus.INTERRUPTED)
    if isinstance(called, Exception):  # Holdfast's code or the store failed before the function was invoked
        return Outcome(OutcomeStatus.CRASHED, error=Failure(message=str(called), type=type(called).__name__))
    error = called.error
    if not runtime.durable:
        return _plain_outcome(called, header)
    if error is not None:
        # A function error is retried, as on AWS; an answer that is too large would be too large again.
        status = OutcomeStatus.FAILED if error.type == TOO_LARGE else OutcomeStatus.CRASHED
        return Outcome(status, error=codec.readable(error))
    try:
        output = None if crowding(called.payload, _DEPTH) else codec.loads(called.payload)
    except (PayloadNotJson, UnicodeDecodeError):
        output = called.payload.decode(errors="replace")
    return _storable(wire.outcome_from_wire(output))


def _plain_outcome(called: JobResult, header: Execution) -> Outcome:
    """The outcome of a function that is not durable. If the function failed, an Event invocation is tried again, at most twice
    (`header.failures` counts the failures). If a durable function made the invocation, it is not tried again. An answer that is not JSON is
    an error, and is not tried again."""
    if called.error is not None:
        error = codec.readable(called.error)
        if header.parent is None and header.failures < len(EVENT_RETRY_SECONDS):
            return Outcome(OutcomeStatus.CRASHED, error=error, again_seconds=EVENT_RETRY_SECONDS[header.failures])
        return Outcome(OutcomeStatus.FAILED, error=error)
    try:
        text = called.payload.decode()
        codec.check(text, stored=True)
    except (UnicodeDecodeError, PayloadNotJson) as error:
        return Outcome(OutcomeStatus.FAILED, error=Failure(message=f"The function's answer is not JSON: {error}", type=wire.MALFORMED))
    return Outcome(OutcomeStatus.SUCCEEDED, text)


def _storable(outcome: Outcome) -> Outcome:
    try:
        if outcome.result is not None:
            codec.storable(outcome.result)
    except HoldfastError as error:
        return Outcome(OutcomeStatus.FAILED, error=Failure(message=str(error), type=wire.MALFORMED))
    return outcome if outcome.error is None else Outcome(outcome.status, error=codec.readable(outcome.error))

"""Invoke: start an execution, or call a plain function. For a synchronous invocation, wait for the end."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from holdfast.descriptions.executions import arn_of, check_will_end
from holdfast.engine.engine import Engine
from holdfast.lambda_api.operations import checks
from holdfast.lambda_api.operations.lookup import FoundFunction, FunctionLookup, Plain, PlainCall
from holdfast.model import codec
from holdfast.model.errors import ExecutionQuarantined, InvalidParameter, PayloadNotJson, PayloadTooLarge
from holdfast.model.execution import Execution, ExecutionStatus
from holdfast.model.history import EventType
from holdfast.model.shapes import crowding

SYNC_BYTES: Final = 6 * 1024 * 1024
ASYNC_BYTES: Final = 1024 * 1024
SYNC_SECONDS: Final = 900
TAIL_BYTES: Final = 4096
NO_PAYLOAD: Final = b"{}"
"""The payload of an invocation without a payload, as on AWS."""
_TAIL_EVENTS: Final = 20
_DEPTH: Final = 500

Tail = Callable[[Execution], bytes]
"""Returns the last log lines of an execution; empty if they are not known."""

_OVER: Final[Mapping[ExecutionStatus, tuple[str, str]]] = {
    ExecutionStatus.FAILED: ("ExecutionFailed", "The execution failed."),
    ExecutionStatus.TIMED_OUT: ("ExecutionTimedOut", "The execution timed out."),
    ExecutionStatus.STOPPED: ("ExecutionStopped", "The execution was stopped."),
}


class Invoke(msgspec.Struct, frozen=True, kw_only=True):
    """The members of an Invoke request."""

    function: str
    qualifier: str | None = None
    kind: str = "RequestResponse"
    log_type: str = "None"
    client_context: str | None = None
    """JSON in base64. As on AWS, only a function that is not durable gets it, and only in a synchronous invocation."""
    name: str | None = None
    tenant: str | None = None
    trace: str | None = None
    """The trace header of X-Ray."""
    payload: bytes = b""


class Invoked(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to an Invoke."""

    status: int
    version: str
    arn: str | None = None
    error: str | None = None
    """`Unhandled` if the execution or the plain function did not succeed; else None."""
    log: str | None = None
    """The last 4 KB of the log in base64, if a synchronous request asked for them; else None. Also None if the execution is quarantined."""
    payload: bytes = b""
    request: str | None = None
    """The request id of a synchronous call of a plain function; else None."""


class InvokeOperation:
    """The operation Invoke, on an open engine. `plain` calls functions that are not durable; None: they cannot be invoked."""

    def __init__(self, engine: Engine, lookup: FunctionLookup, plain: Plain | None, tail: Tail | None) -> None:
        self._engine = engine
        self._lookup = lookup
        self._plain = plain
        self._tail = tail

    async def invoke(self, asked: Invoke) -> Invoked:
        """Check the request, then start an execution of a durable function, or call a plain function. A synchronous caller waits until the
        execution has ended, also while it is suspended; if the execution is quarantined, the caller gets an error as its result. A dry run
        only checks. Raises InvalidParameter if a durable function is named without a version or an alias, if a synchronous caller invokes
        one whose timeout is above 15 minutes, or if a member of the request is not valid."""
        kind = checks.one_of("InvocationType", asked.kind, ("RequestResponse", "Event", "DryRun"))
        checks.one_of("LogType", asked.log_type, ("None", "Tail"))
        function = checks.function_reference(asked.function, asked.qualifier)
        name = None if asked.name is None else checks.execution_name(asked.name)
        tenant = None if asked.tenant is None else checks.tenant_id(asked.tenant)
        trace = None if not asked.trace else checks.trace_header(asked.trace)
        client_context = None if asked.client_context is None else _client_context(asked.client_context)
        found = self._lookup.draw(function)
        given = asked.payload or NO_PAYLOAD
        if found.terms is None:
            call = PlainCall(
                function=found,
                payload=given,
                waits=kind == "RequestResponse",
                client_context=client_context,
                tenant=tenant,
                trace=trace,
                arn=function.arn,
            )
            return await self._call(call, dry=kind == "DryRun", tail=asked.log_type == "Tail")
        if function.qualifier is None:
            raise InvalidParameter("You cannot invoke a durable function using an unqualified ARN.")
        if kind == "RequestResponse" and found.terms.timeout_seconds > SYNC_SECONDS:
            raise InvalidParameter("You cannot synchronously invoke a durable function with an executionTimeout greater than 15 minutes.")
        payload = payload_text(given, ASYNC_BYTES if kind == "Event" else SYNC_BYTES)
        if kind == "DryRun":
            return Invoked(status=204, version=found.version)
        header = await self.start(found, payload, name=name, tenant=tenant, trace=trace)
        if kind == "Event":
            return Invoked(status=202, version=found.version, arn=arn_of(header))
        return await self._result(header, tail=asked.log_type == "Tail")

    async def start(self, found: FoundFunction, payload: str, **asked: Any) -> Execution:
        """Start an execution, and return it. If an execution of the function already has the given name, with the same input, version and
        tenant, that one is returned. Raises ExecutionAlreadyStarted if one of these three differs, or if the earlier execution is an
        imported copy. `asked` are further arguments of `Engine.start`, such as `name`."""
        return await self._engine.start(found.name, payload, version=found.version, **asked)

    async def _result(self, header: Execution, *, tail: bool) -> Invoked:
        check_will_end(self._engine.store, header)
        try:
            ended, payload = await self._engine.ending(header.id)
        except ExecutionQuarantined as aside:
            # This is an answer, not a service error: clients retry service errors, and a retry without a name would start another
            # execution.
            told = msgspec.json.encode({"errorMessage": str(aside), "errorType": aside.code})
            return Invoked(status=200, version=header.version, arn=arn_of(header), error="Unhandled", payload=told)
        succeeded = ended.status is ExecutionStatus.SUCCEEDED
        log = base64.b64encode(self._logged(ended)[-TAIL_BYTES:]).decode() if tail else None
        answer = (payload or "null").encode() if succeeded else error_answer(ended.status, payload)
        error = None if succeeded else "Unhandled"
        return Invoked(status=200, version=header.version, arn=arn_of(header), error=error, log=log, payload=answer)

    async def _call(self, call: PlainCall, *, dry: bool, tail: bool) -> Invoked:
        """Call a function that is not durable. `dry`: only check the payload. `tail`: the answer has the end of the log, if the caller
        waits."""
        version = call.function.version
        payload_text(call.payload, SYNC_BYTES if call.waits or dry else ASYNC_BYTES)
        if dry:
            return Invoked(status=204, version=version)
        if self._plain is None:
            raise InvalidParameter(f"Function {call.function.name} is not durable. This server runs only durable functions.")
        answer = await self._plain(call)
        if not call.waits:
            return Invoked(status=202, version=version)
        log = base64.b64encode(answer.log[-TAIL_BYTES:]).decode() if tail else None
        return Invoked(status=200, version=version, error=answer.error, log=log, payload=answer.payload, request=answer.request)

    def _logged(self, header: Execution) -> bytes:
        return (self._tail(header) if self._tail is not None else b"") or self._platform_lines(header)

    def _platform_lines(self, header: Execution) -> bytes:
        """The log lines that Lambda itself writes for an invocation, made from the latest events of the execution's history. They are used
        if the log lines of the function are not known."""
        lines = []
        for line in self._engine.store.history(header.id, max(0, header.events - _TAIL_EVENTS), _TAIL_EVENTS):
            if line.event.type is EventType.INVOCATION_COMPLETED:
                told = line.event.detail or {}
                request, took = told["RequestId"], (told["EndTimestamp"] - told["StartTimestamp"]) * 1000
                lines.append(f"START RequestId: {request} Version: {header.version}\nEND RequestId: {request}\n")
                lines.append(f"REPORT RequestId: {request}\tDuration: {took:.2f} ms\n")
        return "".join(lines).encode()


def _client_context(given: str) -> str:
    """The JSON text of a client context, which is given in base64. Raises InvalidParameter if it is not valid."""
    try:
        text = base64.b64decode(given, validate=True).decode()
        check_json(text)
    except (ValueError, PayloadNotJson):
        raise InvalidParameter("Client context must be a valid Base64-encoded JSON object.") from None
    return text


def payload_text(payload: bytes, most: int) -> str:
    """The text of a payload, as the store keeps it; `null` for an empty payload. Raises PayloadTooLarge if it has more than `most` bytes,
    and PayloadNotJson if it is not JSON."""
    if len(payload) > most:
        raise PayloadTooLarge(f"Request must be smaller than {most} bytes for the InvokeFunction operation")
    if not payload:
        return "null"
    try:
        text = payload.decode()
    except UnicodeDecodeError as error:
        raise PayloadNotJson(f"Could not parse request body into json: not UTF-8 at byte {error.start}") from None
    check_json(text)
    return text


def check_json(text: str) -> None:
    """Raise PayloadNotJson if a text is not JSON, or is nested too deeply. The fast parser refuses some valid JSON, so a text that it
    refuses is checked again with the slow parser."""
    try:
        msgspec.json.decode(text, type=msgspec.Raw)  # parse only, build no objects
    except (msgspec.DecodeError, RecursionError):
        if (crowded := crowding(text.encode(errors="replace"), _DEPTH)) is not None:
            raise PayloadNotJson(f"Could not parse request body into json: it {crowded}") from None
        try:
            json.loads(text, parse_constant=_no_constant)
        except (ValueError, RecursionError) as error:
            raise PayloadNotJson(f"Could not parse request body into json: {error}") from None


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


def error_answer(status: ExecutionStatus, payload: str | None) -> bytes:
    """The body of the answer to an invocation that failed, in the form that Lambda gives to an error of a function. `payload` is the stored
    error, or None. If it has no type or no message, these are chosen by `status`."""
    failure = codec.failure_from(payload or "{}")
    kind, message = _OVER[status]
    told: dict[str, Any] = {"errorMessage": failure.message or message, "errorType": failure.type or kind}
    if failure.stack_trace is not None:
        told["stackTrace"] = failure.stack_trace
    if failure.data is not None:
        told["errorData"] = failure.data
    return msgspec.json.encode(told)

"""The Lambda Runtime API (2018-06-01) for one process."""

from __future__ import annotations

import asyncio
import re
from typing import Final

from starlette.types import Receive, Scope, Send

from holdfast.lambda_api.runtime import jobs
from holdfast.lambda_api.runtime.jobs import InvocationRequest, Job, raised
from holdfast.lambda_api.runtime.runtime_process import RuntimeProcess
from holdfast.model.operations import Failure
from holdfast.web.bodies import whole_body
from holdfast.web.refusals import Gone
from holdfast.web.replies import Header, Reply, json_reply
from holdfast.web.routing import path_of

PREFIX: Final = "/2018-06-01/runtime/"
"""Every path of the Runtime API begins with this text."""
_INVOCATION: Final = re.compile(r"invocation/(?P<request>[^/]+)/(?P<what>response|error)")
_MAX_ERROR: Final = 1024 * 1024


async def runtime_api(process: RuntimeProcess, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer one request of a process to the Runtime API."""
    try:
        reply = await _reply(process, scope, receive)
    except Gone:  # an incomplete request is dropped: the process will try again, or die, or reach its timeout
        return
    await reply(scope, receive, send)


async def _reply(process: RuntimeProcess, scope: Scope, receive: Receive) -> Reply:
    method, path = scope["method"], path_of(scope)
    what = path.removeprefix(PREFIX)
    if (method, what) == ("GET", "invocation/next"):
        return await _next(process, scope["client"])
    if (method, what) == ("POST", "init/error"):
        body = await whole_body(receive, _MAX_ERROR)
        process.fail_init(raised(body or b"", _error_type(scope)))
        return _accepted()
    if method == "POST" and (found := _INVOCATION.fullmatch(what)):
        return await _answered(process, found["request"], found["what"], scope, receive)
    return _refusal(404, "NotFound", f"{method} {path:.200} is not part of the Runtime API that is served here.")


async def _next(process: RuntimeProcess, client: tuple[str, int] | None) -> Reply:
    asked = process.ask(client)
    if asked is None:
        why = "The process has an invocation that it has not answered, or another of its requests already waits for the next invocation."
        return _refusal(403, "InvalidStateTransition", why)
    try:
        job, payload = await asked
    except asyncio.CancelledError:
        if not asked.cancelled():
            raise
        return _refusal(410, "Runtime.Ending", "This process is being ended.")
    return Reply(200, payload, _headers(job, process))


def _headers(job: Job, process: RuntimeProcess) -> list[Header]:
    request: InvocationRequest = job.request
    sent = {
        "lambda-runtime-aws-request-id": request.id,
        "lambda-runtime-deadline-ms": str(process.deadline),
        "lambda-runtime-invoked-function-arn": request.arn,
        "lambda-runtime-trace-id": request.trace,
        "lambda-runtime-aws-tenant-id": request.tenant,
        "lambda-runtime-client-context": request.client_context,
        "content-type": "application/json",
    }
    return [(name.encode(), value.encode()) for name, value in sent.items() if value is not None]


async def _answered(process: RuntimeProcess, request: str, what: str, scope: Scope, receive: Receive) -> Reply:
    body = await whole_body(receive, jobs.MAX_RESPONSE)
    if body is None:
        why = f"Response payload size exceeded maximum allowed payload size ({jobs.MAX_RESPONSE} bytes)."
        process.fail(request, Failure(message=why, type=jobs.TOO_LARGE))
        return _refusal(413, "RequestEntityTooLarge", why)
    if what == "response":
        known = process.answer(request, body)
    else:
        known = process.fail(request, raised(body, _error_type(scope)), body)
    return _accepted() if known else _refusal(400, "InvalidRequestID", "Invalid request ID")


def _error_type(scope: Scope) -> str | None:
    for name, value in scope["headers"]:
        if name == b"lambda-runtime-function-error-type":
            return bytes(value).decode(errors="replace")
    return None


def _accepted() -> Reply:
    return json_reply({"status": "OK"}, 202)


def _refusal(status: int, kind: str, why: str) -> Reply:
    return json_reply({"errorType": kind, "errorMessage": why}, status)

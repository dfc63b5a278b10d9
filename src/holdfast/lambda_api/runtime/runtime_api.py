"""The Lambda Runtime API (2018-06-01) for one process. Requests of the process to other paths go to the server's own API."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.lambda_api.runtime import jobs
from holdfast.lambda_api.runtime.jobs import InvocationRequest, Job, raised
from holdfast.lambda_api.runtime.runtime_listener import RequestLost, answer, body_of
from holdfast.lambda_api.runtime.runtime_process import RuntimeProcess
from holdfast.model.operations import Failure

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

_PREFIX: Final = "/2018-06-01/runtime/"
_INVOCATION: Final = re.compile(r"invocation/(?P<request>[^/]+)/(?P<what>response|error)")
_OK: Final = b'{"status":"OK"}'
_MAX_ERROR: Final = 1024 * 1024


def runtime_api(process: RuntimeProcess, others: ASGIApp) -> ASGIApp:
    """The app that the listener of a process serves. It passes requests that are not for the Runtime API to `others`."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope["path"]
        if not path.startswith(_PREFIX):
            await others(scope, receive, send)
            return
        try:
            await _asked(process, scope, receive, send)
        except RequestLost:  # an incomplete request is dropped: the process will try again, or die, or reach its timeout
            return

    return serve


async def _asked(process: RuntimeProcess, scope: Scope, receive: Receive, send: Send) -> None:
    method, what = scope["method"], scope["path"][len(_PREFIX) :]
    if (method, what) == ("GET", "invocation/next"):
        await _next(process, scope["client"], send)
    elif (method, what) == ("POST", "init/error"):
        body = await body_of(receive, _MAX_ERROR)
        process.fail_init(raised(body or b"", _error_type(scope)))
        await answer(send, 202, _OK)
    elif method == "POST" and (found := _INVOCATION.fullmatch(what)):
        await _answered(process, found["request"], found["what"], scope, receive, send)
    else:
        await _refuse(send, 404, "NotFound", f"{method} {scope['path']} is not part of the Runtime API that is served here.")


async def _next(process: RuntimeProcess, client: tuple[str, int] | None, send: Send) -> None:
    asked = process.ask(client)
    if asked is None:
        await _refuse(
            send,
            403,
            "InvalidStateTransition",
            "The process has an invocation that it has not answered, or another of its requests waits for the next one.",
        )
        return
    try:
        job, payload = await asked
    except asyncio.CancelledError:
        if not asked.cancelled():
            raise
        await _refuse(send, 410, "Runtime.Ending", "This process is being ended.")
        return
    await answer(send, 200, payload, _headers(job, process))


def _headers(job: Job, process: RuntimeProcess) -> list[tuple[bytes, bytes]]:
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


async def _answered(process: RuntimeProcess, request: str, what: str, scope: Scope, receive: Receive, send: Send) -> None:
    body = await body_of(receive, jobs.MAX_RESPONSE)
    if body is None:
        why = f"Response payload size exceeded maximum allowed payload size ({jobs.MAX_RESPONSE} bytes)."
        process.fail(request, Failure(message=why, type=jobs.TOO_LARGE))
        await _refuse(send, 413, "RequestEntityTooLarge", why)
        return
    if what == "response":
        known = process.answer(request, body)
    else:
        known = process.fail(request, raised(body, _error_type(scope)), body)
    if known:
        await answer(send, 202, _OK)
    else:
        await _refuse(send, 400, "InvalidRequestID", "Invalid request ID")


def _error_type(scope: Scope) -> str | None:
    for name, value in scope["headers"]:
        if name == b"lambda-runtime-function-error-type":
            return bytes(value).decode(errors="replace")
    return None


async def _refuse(send: Send, status: int, kind: str, why: str) -> None:
    await answer(send, status, msgspec.json.encode({"errorType": kind, "errorMessage": why}))

"""The runtime host: runs every function version in processes of its own, which use the Lambda Runtime API.

    invoke → wait for a warm process → event → its answer → outcome

Each process has a private listener. The listener answers the Runtime API, and passes all other requests (checkpoints, state, callbacks)
to `api`. So a function has no credentials and needs none. All of this runs on one event loop, the engine's.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from holdfast.lambda_api.runtime.function_warnings import runs_on, warnings_of
from holdfast.lambda_api.runtime.interpreters import Interpreters
from holdfast.lambda_api.runtime.invocation_events import TokenAt, durable_event, outcome_of, plain_event, seen_by
from holdfast.lambda_api.runtime.jobs import InvocationRequest, Job, JobResult, checked_header, json_header
from holdfast.lambda_api.runtime.process_output import OutputLog
from holdfast.lambda_api.runtime.process_pool import Pool
from holdfast.lambda_api.runtime.runtime_api import PREFIX, runtime_api
from holdfast.lambda_api.runtime.runtime_description import PoolLimits, Runtime
from holdfast.lambda_api.runtime.runtime_process import RuntimeProcess
from holdfast.model.clock import Clock, SystemClock
from holdfast.model.errors import EngineClosed, FunctionNotFound, TooManyRequests
from holdfast.model.execution import Execution, Outcome
from holdfast.model.ids import IdSource, id_at
from holdfast.model.operations import Operation
from holdfast.model.ports import Invocation, Port
from holdfast.model.threads import Purpose, in_thread
from holdfast.web.error_shapes import shaped
from holdfast.web.refusals import retry_after
from holdfast.web.replies import json_reply
from holdfast.web.routing import path_of

log = logging.getLogger("holdfast.hosts")

_TAILS: Final = 256
"""The last log lines of this many executions are kept, because a caller may ask for them with the result."""
_INVOKE: Final = "/invocations"
_TOO_NESTED: Final = "Too many functions wait for functions that they invoked. Try again later."


async def _nothing(scope: Scope, receive: Receive, send: Send) -> None:
    reply = json_reply({"errorType": "NotFound", "errorMessage": "Nothing but the Runtime API is served here."}, 404)
    await reply(scope, receive, send)


class RuntimeHost:
    """Runs functions in processes. `token` makes the checkpoint tokens for them; `log` is called with the lines of their logs."""

    def __init__(
        self,
        runtimes: Iterable[Runtime],
        *,
        token: TokenAt,
        api: ASGIApp = _nothing,
        log: OutputLog | None = None,
        limits: PoolLimits | None = None,
        clock: Clock | None = None,
        ids: IdSource = id_at,
        interpreters: Interpreters | None = None,
    ) -> None:
        self.api = api
        """The app that answers the processes' requests that are not for the Runtime API. It needs an open engine, so it may be set after
        the host was made."""
        self.log = log
        self.limits = limits or PoolLimits()
        # A deadline is for the processes, which read the machine's clock and not the engine's.
        self.clock = clock or SystemClock()
        self.interpreters = interpreters or Interpreters()
        self._ids = ids
        self._token = token
        self._pool = Pool(self, lambda: ids(self.clock.now()))
        self._running: dict[str, Job] = {}
        self._tails: dict[str, bytes] = {}
        self._closed = False
        self._said: set[str] = set()
        for runtime in runtimes:
            self.put(runtime)

    def app(self, process: RuntimeProcess) -> ASGIApp:
        """The app that the listener of a process serves: the Runtime API, and `api` for all other requests. If too many processes already
        wait for functions that they invoked, a request of this process to invoke a function is refused with 429. It is not refused if this
        process already waits for a function."""

        async def serve(scope: Scope, receive: Receive, send: Send) -> None:
            path = path_of(scope)
            if path.startswith(PREFIX):
                await runtime_api(process, scope, receive, send)
            elif not path.endswith(_INVOKE):
                await self.api(scope, receive, send)
            elif not self._pool.may_invoke(process):  # else functions that invoke functions could start any number of processes
                await shaped(429, "TooManyRequestsException", _TOO_NESTED, headers=retry_after())(scope, receive, send)
            else:
                process.invoking += 1
                try:
                    await self.api(scope, receive, send)
                finally:
                    process.invoking -= 1

        return serve

    # --- functions

    def put(self, runtime: Runtime) -> None:
        """Host a function version, or replace the one that is hosted. Processes of the replaced version end when they have no job and no
        job waits for them. Raises InvalidParameter if the description is not valid (`Runtime.checked`)."""
        self._pool.put(runtime.checked())

    async def try_out(self, runtimes: Iterable[Runtime]) -> None:
        """Log the warnings about these functions (`warnings_of`). To find them, the host tries the interpreters of the functions. If the
        host has logged a warning about the same thing before, it does not log another one."""
        for runtime in runtimes:
            for caution in await in_thread(Purpose.HOUSE, warnings_of, runtime, self.interpreters):
                if caution.about not in self._said:
                    self._said.add(caution.about)
                    log.log(caution.level, "%s", caution.text)

    def runs_on(self, runtime: str) -> str:
        """The interpreter that runs functions of this runtime here, such as `Python 3.13`, if its version differs from the one in the
        runtime's name. Empty if it does not differ; `nothing` if the runtime is not known here or no interpreter can run it. Blocks while
        an interpreter is tried."""
        return runs_on(runtime, self.interpreters)

    def drop(self, function: str, version: str) -> None:
        """Stop hosting a function version. Jobs that run or wait are still done."""
        self._pool.drop(function, version)

    def hosts(self, function: str, version: str) -> bool:
        """Whether this host runs the function version."""
        return self._pool.runtime(function, version) is not None

    def folders(self) -> set[str]:
        """The folders of the code of all hosted versions, and of older versions that still have processes or jobs."""
        return self._pool.folders()

    # --- the engine's side

    def invoke(self, invocation: Invocation, port: Port, done: Callable[[Outcome, int], None]) -> None:
        """Queue an invocation, and return at once; it begins as soon as a process is free. An earlier invocation of the same execution is
        cancelled, and its `done` is not called. When the new invocation ends, `done` is called with the outcome and the last revision that
        the invocation saw.

        Raises FunctionNotFound if the version is not hosted here, and EngineClosed after `close`.
        """
        header = invocation.header
        runtime = self._found(header.function, header.version)
        execution = header.id

        def payload() -> bytes:
            if runtime.durable:
                return durable_event(invocation, port, self._token)
            return plain_event(invocation, port)

        def finished(called: JobResult | Exception) -> None:
            if self._running.get(execution) is job:
                del self._running[execution]
            if isinstance(called, JobResult):
                self._keep_tail(execution, called.tail)
            done(outcome_of(runtime, called, header), seen_by(invocation, port))

        request = InvocationRequest(
            id=header.invocation or execution,
            arn=runtime.arn,
            execution=invocation.arn if runtime.durable else None,
            trace=header.trace or trace_of(execution),  # the same for all invocations of an execution, so that tracers see one trace
            tenant=header.tenant,
        )
        job = Job(request, payload, finished)
        self.cancel(execution)  # an earlier invocation of this execution must not write any more
        self._running[execution] = job
        self._pool.submit(runtime, job)

    def cancel(self, execution: str) -> None:
        """Cancel the invocation of an execution, if one waits or runs: it no longer waits for a process, or its process is killed. The
        `done` that `invoke` got is not called."""
        job = self._running.pop(execution, None)
        if job is not None:
            self._pool.cancel(job)

    def learn(self, header: Execution, operations: Collection[Operation]) -> None:
        """Do nothing: a process learns of changes from the answers to its checkpoints."""

    def recheck(self, execution: str) -> None:
        """Do nothing: an invocation in another process does not stay live while it waits."""

    def idle(self) -> bool:
        """Whether no invocation runs or waits here."""
        return self._pool.is_idle()

    def tail(self, execution: str) -> bytes:
        """The last 4 KB of the log of the most recently ended invocation of an execution. Empty if no invocation of it has ended here, or
        if these lines are not kept any more."""
        return self._tails.get(execution, b"")

    def _keep_tail(self, execution: str, tail: bytes) -> None:
        self._tails.pop(execution, None)
        self._tails[execution] = tail
        if len(self._tails) > _TAILS:
            del self._tails[next(iter(self._tails))]

    # --- plain functions

    async def call(
        self,
        function: str,
        version: str,
        payload: bytes,
        *,
        request: str | None = None,
        client_context: str | None = None,
        tenant: str | None = None,
        trace: str | None = None,
        arn: str | None = None,
    ) -> JobResult:
        """Invoke a function that is not durable, and wait for its result. An error of the function or of its process is in the result; it
        is not raised. If the caller's task is cancelled, the call no longer waits for a process, or its process is killed.

        `request` is the id of the request; None for a new one. `arn` is the ARN that the caller used, with or without an alias; the
        function sees it in its context. Raises FunctionNotFound if the version is not hosted here, TooManyRequests if too many invocations
        wait, InvalidParameter for a value that cannot be sent, and EngineClosed if the host is closed before the result.
        """
        runtime = self._found(function, version)
        if self._pool.waiting >= self.limits.waiting:
            raise TooManyRequests(f"{self.limits.waiting} invocations wait for a process already. Try again later.")
        identity = request or self._ids(self.clock.now())
        made = InvocationRequest(
            id=identity,
            arn=arn or runtime.arn,
            trace=checked_header(trace, "The trace") or trace_of(identity),
            tenant=checked_header(tenant, "The tenant"),
            client_context=json_header(client_context, "The client context"),
        )
        future: asyncio.Future[JobResult] = asyncio.get_running_loop().create_future()

        def finished(called: JobResult | Exception) -> None:
            if future.done():
                return
            if isinstance(called, Exception):
                future.set_exception(called)
            else:
                future.set_result(called)

        job = Job(made, lambda: payload, finished)
        self._pool.submit(runtime, job)
        try:
            return await future
        except asyncio.CancelledError:
            self._pool.cancel(job)
            raise

    def _found(self, function: str, version: str) -> Runtime:
        if self._closed:
            raise EngineClosed
        runtime = self._pool.runtime(function, version)
        if runtime is None:
            raise FunctionNotFound(f"Function {function!r} has no version {version} that this server runs in a process.")
        return runtime

    async def close(self) -> None:
        """End every process. Invocations that wait or run are interrupted: the engine gets the outcome INTERRUPTED, and the callers of
        plain functions get EngineClosed. When this returns, no process is left, except a daemon whose guard another process has killed."""
        self._closed = True
        await self._pool.close()
        self._running.clear()


def trace_of(request: str) -> str:
    """The trace header for a caller that sent none, made from an id: the same id gives the same trace. The id is that of the execution, so
    that all its invocations have one trace; for a plain function, it is that of the request."""
    digits = request.replace("-", "").ljust(32, "0")
    return f"Root=1-{digits[:8]}-{digits[8:32]};Parent={digits[16:32]};Sampled=0"

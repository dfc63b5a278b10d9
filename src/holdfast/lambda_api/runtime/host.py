"""The runtime host: every function version in processes of its own, which speak the Lambda Runtime API.

    invoke → wait for a warm process → event → its answer → outcome

A process reaches us by a listener that is its alone: the Runtime API is there, and whatever else it asks (checkpoints, state, callbacks)
goes to `api`. So a function has no credentials and needs none. Everything here happens on one loop, the engine's.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final

from holdfast.lambda_api.runtime.cautions import cautions_of, runs_on
from holdfast.lambda_api.runtime.description import Limits, Runtime
from holdfast.lambda_api.runtime.events import Token, durable_event, outcome_of, plain_event, seen_by
from holdfast.lambda_api.runtime.interpreters import Interpreters
from holdfast.lambda_api.runtime.jobs import Called, InvocationRequest, Job, checked_header, json_header
from holdfast.lambda_api.runtime.listener import App, Receive, Scope, Send, answer
from holdfast.lambda_api.runtime.output import Log
from holdfast.lambda_api.runtime.pool import Pool
from holdfast.lambda_api.runtime.process import RuntimeProcess
from holdfast.lambda_api.runtime.runtime_api import runtime_api
from holdfast.model.clock import Clock, SystemClock
from holdfast.model.errors import EngineClosed, FunctionNotFound, TooManyRequests
from holdfast.model.execution import Outcome
from holdfast.model.ids import IdSource, id_at
from holdfast.model.ports import Invocation, Port
from holdfast.model.threads import Purpose, in_thread

log = logging.getLogger("holdfast.hosts")

_TAILS: Final = 256
"""Executions whose last lines are kept, for those who wait for them."""


_INVOKE: Final = "/invocations"
_TOO_NESTED: Final = b'{"Type":"User","message":"Too many functions wait for functions that they invoked. Try again later."}'


async def _nothing(scope: Scope, receive: Receive, send: Send) -> None:
    await answer(send, 404, b'{"errorType":"NotFound","errorMessage":"Nothing but the Runtime API is served here."}')


class RuntimeHost:
    """Runs functions in processes."""

    def __init__(
        self,
        runtimes: Iterable[Runtime],
        *,
        token: Token,
        api: App = _nothing,
        log: Log | None = None,
        limits: Limits | None = None,
        clock: Clock | None = None,
        ids: IdSource = id_at,
        interpreters: Interpreters | None = None,
    ) -> None:
        self.api = api
        """Answers what processes ask besides the Runtime API; it may be set once the engine is open, which it needs."""
        self.log = log
        self.limits = limits or Limits()
        # Processes read the machine's clock, whatever the engine's says, and a deadline is for them.
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

    def app(self, process: RuntimeProcess) -> App:
        """What the listener of a process serves."""

        async def others(scope: Scope, receive: Receive, send: Send) -> None:
            if not scope["path"].endswith(_INVOKE):
                await self.api(scope, receive, send)
            elif not self._pool.may_invoke(process):  # whatever it waited for could never get a process
                await answer(send, 429, _TOO_NESTED, [(b"x-amzn-errortype", b"TooManyRequestsException"), (b"retry-after", b"1")])
            else:
                process.invoking += 1
                try:
                    await self.api(scope, receive, send)
                finally:
                    process.invoking -= 1

        return runtime_api(process, others)

    # --- functions

    def put(self, runtime: Runtime) -> None:
        """Host a function version, or its new code: processes of the old code go when they are done."""
        self._pool.put(runtime.checked())

    async def try_out(self, runtimes: Iterable[Runtime]) -> None:
        """Try what these functions would run on, and say what is not as their descriptions want it, each thing once."""
        for runtime in runtimes:
            for caution in await in_thread(Purpose.HOUSE, cautions_of, runtime, self.interpreters):
                if caution.about not in self._said:
                    self._said.add(caution.about)
                    log.log(caution.level, "%s", caution.text)

    def runs_on(self, runtime: str) -> str:
        """What functions of this runtime run on, where that is not what its name says."""
        return runs_on(runtime, self.interpreters)

    def drop(self, function: str, version: str) -> None:
        """Host a function version no longer."""
        self._pool.drop(function, version)

    def hosts(self, function: str, version: str) -> bool:
        """Whether it is hosted here."""
        return self._pool.runtime(function, version) is not None

    def folders(self) -> set[str]:
        """Where code is that is hosted here, or that still runs."""
        return self._pool.folders()

    # --- the engine's side

    def invoke(self, invocation: Invocation, port: Port, done: Callable[[Outcome, int], None]) -> None:
        """Begin an invocation, as soon as there is a process for it."""
        header = invocation.header
        runtime = self._found(header.function, header.version)
        execution = header.id

        def payload() -> bytes:
            if runtime.durable:
                return durable_event(invocation, port, self._token)
            return plain_event(invocation, port)

        def finished(called: Called | Exception) -> None:
            if self._running.get(execution) is job:
                del self._running[execution]
            if isinstance(called, Called):
                self._keep_tail(execution, called.tail)
            done(outcome_of(runtime, called, header), seen_by(invocation, port))

        request = InvocationRequest(
            id=header.invocation or execution,
            arn=runtime.arn,
            execution=invocation.arn if runtime.durable else None,
            trace=header.trace or trace_of(execution),  # the same for all its invocations, so that tracers see one
            tenant=header.tenant,
        )
        job = Job(request, payload, finished)
        self.cancel(execution)  # an earlier invocation that is still here may not write any more
        self._running[execution] = job
        self._pool.submit(runtime, job)

    def cancel(self, execution: str) -> None:
        """End the process that runs an execution; nobody is told."""
        job = self._running.pop(execution, None)
        if job is not None:
            self._pool.cancel(job)

    def nudge(self, execution: str) -> None:
        """A process learns of changes by its own checkpoints."""

    def idle(self) -> bool:
        """Whether nothing runs here."""
        return self._pool.is_idle()

    def tail(self, execution: str) -> bytes:
        """The last 4 KB that an execution's latest invocation logged, if that was not long ago."""
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
    ) -> Called:
        """Invoke a function that is not durable, and wait for what it says. Its own errors are in the answer; who stops waiting ends it.

        `arn` is what its caller called it, with an alias or without anything; the function sees it.
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
        future: asyncio.Future[Called] = asyncio.get_running_loop().create_future()

        def finished(called: Called | Exception) -> None:
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
            raise FunctionNotFound(f"Function {function!r} has no version {version} that runs in processes here.")
        return runtime

    async def close(self) -> None:
        """End every process; when this returns nothing of them is left."""
        self._closed = True
        await self._pool.close()
        self._running.clear()


def trace_of(request: str) -> str:
    """A trace header for a request that came without one."""
    digits = request.replace("-", "").ljust(32, "0")
    return f"Root=1-{digits[:8]}-{digits[8:32]};Parent={digits[16:32]};Sampled=0"

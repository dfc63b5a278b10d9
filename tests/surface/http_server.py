"""A real server for tests: uvicorn on a free loopback port of this process, over an engine of its own thread and loop.

`served` runs functions of ours inline. `AwayHost` runs handlers the way Lambda does: each invocation gets its event as JSON and reaches
the service over HTTP, with boto3.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import queue
import threading
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import boto3
import uvloop
from botocore.config import Config

from holdfast.durable.exceptions import wire_name
from holdfast.durable.execution import DurableFunction
from holdfast.engine.port import EnginePort
from holdfast.lambda_api.operations import LambdaApi
from holdfast.lambda_api.routes.app import make_app
from holdfast.model import wire
from holdfast.model.execution import Execution, Outcome, OutcomeStatus
from holdfast.model.operations import Failure, Operation, served_since
from holdfast.model.ports import Host, Invocation, Port
from holdfast.model.seal import Seal
from holdfast.model.state_pages import FIRST_OPERATION, cut, state_marker
from holdfast.service import engines as opening
from holdfast.service.engines import OpenEngine
from holdfast.service.settings import Settings
from holdfast.store.seam import Filter
from holdfast.web.auth.gate import Gate
from holdfast.web.limits import WebLimits
from holdfast.web.listener import bound, listening
from holdfast.web.routing import Route

T = TypeVar("T")
PATIENCE_SECONDS = 30.0


def client(url: str, **config: Any) -> Any:
    """A boto3 client for this server."""
    keys = {"aws_access_key_id": "nobody", "aws_secret_access_key": "nothing"}
    asked = {"retries": {"max_attempts": 0}, "read_timeout": PATIENCE_SECONDS, "max_pool_connections": 20} | config
    return boto3.client("lambda", region_name="us-east-1", endpoint_url=url, config=Config(**asked), **keys)


class Served:
    """A running server."""

    def __init__(self, url: str, engine: OpenEngine, api: LambdaApi, loop: asyncio.AbstractEventLoop) -> None:
        self.url = url
        self.engine = engine
        self.api = api
        self._loop = loop
        self.lambda_ = client(url)

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        host, _, port = self.url.removeprefix("http://").rpartition(":")
        return host, int(port)

    def do(self, verb: Callable[[], Awaitable[T]]) -> T:
        """Do something on the engine's loop."""

        async def run() -> T:
            return await verb()

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(PATIENCE_SECONDS)

    def invoke(self, function: str, payload: bytes | None = None, **asked: Any) -> Any:
        """Invoke, with the whole payload read."""
        body = {} if payload is None else {"Payload": payload}
        answer = self.lambda_.invoke(FunctionName=function, **body, **asked)
        with contextlib.closing(answer["Payload"]) as stream:
            return answer | {"Payload": stream.read()}

    def token(self, live: Live) -> str:
        """The checkpoint token that an invocation began with."""
        return self.api.engine.store.seal.token(live.position)

    def find(self, arn: str) -> Any:
        """GetDurableExecution."""
        return self.lambda_.get_durable_execution(DurableExecutionArn=arn)

    def ended(self, arn: str) -> Any:
        """Wait until an execution is over, and show it."""
        self.do(lambda: self.api.engine.ending(arn.rpartition("/")[2]))
        return self.find(arn)

    def callback_id(self, arn: str, name: str | None = None) -> str:
        """Wait for an open callback of an execution."""

        async def wait() -> str:
            execution = arn.rpartition("/")[2]
            while True:
                for operation in self.api.engine.store.operations(execution):
                    if operation.callback_id and operation.ended_at is None and name in (None, operation.name):
                        return operation.callback_id
                await asyncio.sleep(0)

        return self.do(wait)

    def rest(self) -> int:
        """Wait until nothing runs, and count."""

        async def wait() -> None:
            while not self.api.engine.idle:
                await asyncio.sleep(0)

        self.do(wait)
        return self.count()

    def count(self) -> int:
        """The revisions of all executions together: it moves with every write."""
        return sum(header.revision for header in self.api.engine.store.list(Filter(limit=10_000)))


@contextlib.contextmanager
def served(
    where: Path | str,
    functions: Sequence[DurableFunction],
    *,
    host: AwayHost | Host | None = None,
    limits: WebLimits | None = None,
    settings: Settings | None = None,
    gate: Gate | None = None,
    more: Sequence[Route] = (),
) -> Iterator[Served]:
    """Start a server, and stop it. `more` routes go before those of the Lambda API."""
    started: list[Served] = []
    up, down = threading.Event(), threading.Event()
    failed: list[BaseException] = []

    async def main() -> None:
        opened = opening.open(str(where), functions=functions, settings=settings)
        if host is not None:
            opened.wrap = lambda _: host
        async with opened as engine:
            api = LambdaApi(engine._engine)
            listener = bound("127.0.0.1", 0)
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            if isinstance(host, AwayHost):
                host.reach(url, engine._engine.store.seal)
            app = make_app(api, limits=limits, more=more, gate=gate)
            async with listening(app, listener, drain_seconds=2):
                started.append(Served(url, engine, api, asyncio.get_running_loop()))
                up.set()
                await asyncio.get_running_loop().run_in_executor(None, down.wait)

    def run() -> None:
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(main())
        except BaseException as error:
            failed.append(error)
        finally:
            up.set()

    thread = threading.Thread(target=run, name="http-server")
    thread.start()
    up.wait()
    try:
        if started:
            yield started[0]
    finally:
        for one in started:
            one.lambda_.close()
        down.set()
        thread.join()
        if isinstance(host, AwayHost):
            host.close()
    if failed:
        raise failed[0]


class SilentHost:
    """A host that only keeps what it is to run: a test makes the requests of its handlers. Functions that are `quick` end at once."""

    def __init__(self, *, quick: Collection[str] = ()) -> None:
        self._quick = quick
        self._invoked: queue.Queue[tuple[Invocation, Callable[[Outcome, int], None]]] = queue.Queue()
        self._port: EnginePort | None = None

    def next(self) -> Live:
        """Wait for the next invocation."""
        invocation, done = self._invoked.get(timeout=PATIENCE_SECONDS)
        assert self._port is not None
        return Live(invocation, done, self._port)

    def invoke(self, invocation: Invocation, port: Port, done: Callable[[Outcome, int], None]) -> None:
        """Keep an invocation."""
        assert isinstance(port, EnginePort)
        self._port = port
        if invocation.header.function in self._quick:
            asyncio.get_running_loop().call_soon(done, Outcome(OutcomeStatus.SUCCEEDED, "1"), invocation.header.revision)
        else:
            self._invoked.put((invocation, done))

    def cancel(self, execution: str) -> None:
        """Nothing runs."""

    def learn(self, header: Execution, operations: Collection[Operation]) -> None:
        """Nothing listens."""

    def recheck(self, execution: str) -> None:
        """Nothing stays live."""

    def idle(self) -> bool:
        """Nothing runs."""
        return True


class Live:
    """An invocation whose handler is the test."""

    def __init__(self, invocation: Invocation, done: Callable[[Outcome, int], None], port: EnginePort) -> None:
        self.arn = invocation.arn
        self.position = invocation.token
        self._done = done
        self._port = port

    def end(self, served: Served, outcome: Outcome) -> None:
        """Let the handler return."""

        async def end() -> None:
            self._done(outcome, self._port.seen(self.position))

        served.do(end)


Handler = Callable[[Any, Any], Any]
"""What a Lambda runtime calls: an event and a context in, an output out."""


class AwayHost:
    """A host whose handlers are elsewhere as far as they can tell: they have an event and an endpoint, nothing else."""

    def __init__(self, handlers: Callable[[Any], Mapping[str, Handler]], *, page: int = 1000) -> None:
        self._make = handlers
        self._page = page
        self._running = 0
        self._threads = ThreadPoolExecutor(8, thread_name_prefix="away")
        self.events: list[Any] = []

    def reach(self, url: str, seal: Seal) -> None:
        """Where the service is."""
        self._seal = seal
        self._client = client(url)
        self._handlers = self._make(self._client)

    def invoke(self, invocation: Invocation, port: Port, done: Callable[[Outcome, int], None]) -> None:
        """Begin an invocation."""
        assert isinstance(port, EnginePort)
        loop = asyncio.get_running_loop()
        self._running += 1

        def report(outcome: Outcome) -> None:
            self._running -= 1
            done(outcome, port.seen(invocation.token))

        event = self._event(invocation, port)
        self.events.append(event)

        def run() -> None:
            loop.call_soon_threadsafe(report, self._run(invocation, event))

        self._threads.submit(run)

    def _event(self, at: Invocation, port: Port) -> Any:
        operations = port.state(at.token)
        page, more = cut(operations, FIRST_OPERATION, most=self._page)
        first = wire.execution_to_wire(at.header, port.input(at.token), wire.milliseconds)
        told = [first, *(wire.operation_to_wire(operation, wire.milliseconds) for operation in page)]
        marker = "" if more is None else state_marker(more)
        updated = served_since(operations, at.header.seen)
        return json.loads(json.dumps(wire.invocation_to_wire(at.arn, self._seal.token(at.token), told, marker, updated)))

    def _run(self, at: Invocation, event: Any) -> Outcome:
        try:
            output = self._handlers[at.header.function](event, SimpleNamespace(aws_request_id=at.header.invocation))
        except BaseException as error:
            return Outcome(OutcomeStatus.CRASHED, error=Failure(message=str(error), type=wire_name(error)))
        return wire.outcome_from_wire(json.loads(json.dumps(output)))

    def cancel(self, execution: str) -> None:
        """A thread cannot be ended; its next checkpoint is refused."""

    def learn(self, header: Execution, operations: Collection[Operation]) -> None:
        """A Lambda function hears of nothing between its invocations."""

    def recheck(self, execution: str) -> None:
        """Nothing stays live."""

    def idle(self) -> bool:
        """Whether nothing runs here."""
        return self._running == 0

    def close(self) -> None:
        """Wait for what still runs."""
        self._threads.shutdown()
        self._client.close()

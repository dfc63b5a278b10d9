"""Opening an engine: `async with holdfast.open(...)`, or the same blocking with `with`."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from holdfast.durable.execution import DurableFunction
from holdfast.engine.engine import Engine
from holdfast.engine.outbox import NO_SUBSCRIBERS
from holdfast.engine.registry import Capacity, Function
from holdfast.hosts.inline import InlineHost
from holdfast.hosts.threads import on_engine_thread
from holdfast.model import codec
from holdfast.model.errors import BlockingCallRefused, ExecutionNotFound, InvalidParameter, PayloadNotJson, Rejected
from holdfast.model.execution import Execution
from holdfast.model.ids import Arn, checked_mention, checked_version
from holdfast.model.operations import Failure
from holdfast.model.payloads import PayloadCodec
from holdfast.model.ports import Host
from holdfast.model.signals import Subscriber, check_subscriber
from holdfast.model.typed import Unwritable, without_models
from holdfast.service.describing import quarantined_of
from holdfast.service.open_execution import OpenExecution
from holdfast.service.portal import Portal
from holdfast.service.settings import Settings
from holdfast.service.tuning import tune
from holdfast.store.backends import open_store, placed
from holdfast.store.seam import Filter

if TYPE_CHECKING:  # whoever runs no workers loads nothing of them
    from holdfast.contract.protocol import Response
    from holdfast.service.worker_runtime import WorkerRuntime, WorkerSettings
    from holdfast.workers.service import WorkerService


def open(
    store: str | os.PathLike[str] | None = None,
    *,
    functions: Sequence[DurableFunction] = (),
    workers: Sequence[str | os.PathLike[str]] = (),
    subscribers: Mapping[str, Subscriber] = NO_SUBSCRIBERS,
    settings: Settings | None = None,
    worker_settings: WorkerSettings | None = None,
    codec: PayloadCodec | None = None,
    migrate: bool = False,
) -> Opening:
    """An engine over a store, to be entered with `async with` or `with`; `:memory:` keeps everything in memory.

    `functions` are durable functions; `workers` are files with a `@worker`, for `run`; `worker_settings` says what they may do.
    `subscribers` are functions by name, each called with a `StatusSignal` whenever an execution of the store begins or ends: in order, at
    least once, from the first time a name is given until `unsubscribe`, also for what happened while nobody was there.
    `codec` encodes payloads in the file (`holdfast.AesGcm` encrypts them); it is the settings' unless given.
    `migrate` brings a Postgres store of an older release up to date first, as `holdfast db migrate` does; a file always is.
    """
    settings = settings or Settings()
    if codec is not None:
        settings = msgspec.structs.replace(settings, codec=codec)
    if migrate:
        settings = msgspec.structs.replace(settings, migrate=True)
    where = placed(os.fspath(store) if store is not None else settings.store)
    for function in functions:
        if not isinstance(function, DurableFunction):
            raise InvalidParameter(f"{function!r} is not a durable function. Decorate it with @durable_execution.")
    for name, receive in subscribers.items():
        check_subscriber(name, receive)
    return Opening(where, functions, subscribers, settings, _runtime(workers, worker_settings, where) if workers else None)


def _runtime(workers: Sequence[str | os.PathLike[str]], worker_settings: WorkerSettings | None, where: str) -> WorkerRuntime:
    from holdfast.service.worker_runtime import WorkerRuntime, WorkerSettings, home_beside

    return WorkerRuntime(workers, worker_settings or WorkerSettings(), home_beside(where))


class EngineNotEntered(Rejected, AttributeError):
    """What `holdfast.open` gives was used without `with`."""

    code = "engine_not_entered"


class Opening:
    """An engine about to be entered."""

    if not TYPE_CHECKING:  # a type checker knows without us that these are not here

        def __getattr__(self, name: str) -> NoReturn:
            if name.startswith("_") or not hasattr(OpenEngine, name):
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
            raise EngineNotEntered(
                f"`{name}` was asked of `holdfast.open(...)` itself, which opens nothing. Write `with holdfast.open(...) as engine:` and "
                f"`engine.{name}` inside; in `async def` code `async with holdfast.open(...) as engine:`."
            )

        def __await__(self) -> NoReturn:
            raise EngineNotEntered("`await holdfast.open(...)` opens nothing. Write `async with holdfast.open(...) as engine:`.")

    def __init__(
        self,
        where: str,
        functions: Sequence[DurableFunction],
        subscribers: Mapping[str, Subscriber],
        settings: Settings,
        runtime: WorkerRuntime | None = None,
    ) -> None:
        self.runtime = runtime
        self._where = where
        self._functions = functions
        self._subscribers = subscribers
        self._settings = settings
        self.wrap: Callable[[InlineHost], Host] = lambda host: host
        """Puts something between the engine and its host; holdfast.testing does."""
        self._portal: Portal | None = None
        self._engine: OpenEngine | None = None

    async def __aenter__(self) -> OpenEngine:
        functions, runtime = self._functions, self.runtime
        if runtime is not None:
            await runtime.open()
            functions = [*functions, *runtime.functions()]
        self._engine = await OpenEngine.create(self._where, functions, self._subscribers, self._settings, self.wrap, runtime)
        return self._engine

    async def __aexit__(self, *_: object) -> None:
        assert self._engine is not None
        await self._engine.close()

    def __enter__(self) -> BlockingEngine:
        self._portal = Portal()
        try:
            self._engine = self._portal.call(self.__aenter__)
        except BaseException:
            self._portal.close()
            raise
        return BlockingEngine(self._engine, self._portal)

    def __exit__(self, *_: object) -> None:
        assert self._portal is not None
        try:
            self._portal.call(self.__aexit__)
        finally:
            self._portal.close()


class OpenEngine:
    """Start and follow executions. Made by `holdfast.open`."""

    def __init__(
        self, engine: Engine, host: InlineHost, functions: Sequence[DurableFunction], runtime: WorkerRuntime | None = None
    ) -> None:
        self._runtime = runtime
        self._functions = {(function.name, function.version): function for function in functions}
        self._engine = engine
        self._host = host
        self._store = engine.store

    @classmethod
    async def create(
        cls,
        where: str,
        functions: Sequence[DurableFunction],
        subscribers: Mapping[str, Subscriber],
        settings: Settings,
        wrap: Callable[[InlineHost], Host],
        runtime: WorkerRuntime | None = None,
    ) -> OpenEngine:
        """Wire an engine and let it join its store."""
        if settings.tune:
            tune()
        runner = settings.ids(settings.clock.now())
        store = open_store(where, runner, settings.codec, migrate=settings.migrate)
        try:
            clock = store.clock(settings.clock)
            host = InlineHost(functions, clock=clock, threads=settings.threads, park=settings.park)
            engine = Engine(
                store,
                registered(functions, settings),
                wrap(host),
                clock=clock,
                ids=settings.ids,
                chance=settings.chance(),
                runner=runner,
                subscribers=subscribers,
                observers=settings.observers,
            )
            if runtime is not None:
                runtime.attach(engine)
            await engine.open()
        except BaseException:
            store.close()
            raise
        return cls(engine, host, functions, runtime)

    async def close(self) -> None:
        """Stop running; what is under way goes on with the next engine that opens this store."""
        try:
            await self._engine.close()
        finally:
            if self._runtime is not None:
                await self._runtime.close()
            self._host.close()
            self._store.close()

    async def start(
        self,
        function: str | DurableFunction,
        input: object = None,
        *,
        name: str | None = None,
        version: int | str | None = None,
        on_failed: str = "find",
    ) -> OpenExecution:
        """Start an execution. The same name with the same input finds the one that is there.

        With `on_failed="restart"` a name whose execution failed, timed out or was stopped is started again, with any input; the old
        execution stays, marked `superseded_by` the new one.
        """
        wanted = None if version is None else checked_version(version)
        if isinstance(function, DurableFunction):
            called, wanted = function.name, wanted or function.version
        else:
            called = function
        header = await self._engine.start(called, codec.dumps(_written(input)), name=name, version=wanted, on_failed=on_failed)
        return OpenExecution(self._engine, header, self._functions)

    async def run(
        self,
        worker: str,
        inputs: Mapping[str, Any],
        *,
        version: str | None = None,
        idempotency_key: str | None = None,
        constraints: Mapping[str, Any] | None = None,
        run_timeout_seconds: float | None = None,
        trace: Mapping[str, Any] | None = None,
        tenant: str = "default",
        user: str | None = None,
        wait: float | None = None,
    ) -> Response:
        """Run a worker and wait for its response: its end, or that it waits for a person; after `wait` seconds, how it stands.

        A request that does not fit is answered, with `invalid_request`, as over HTTP; nothing is raised.
        """
        asked: dict[str, Any] = {"worker_id": worker, "inputs": inputs}
        may = {"version": version, "idempotency_key": idempotency_key, "constraints": constraints, "trace": trace, "user": user}
        asked |= {key: value for key, value in {**may, "run_timeout_seconds": run_timeout_seconds}.items() if value is not None}
        return await self.worker_service.ask(asked, tenant, wait)

    @property
    def worker_service(self) -> WorkerService:
        """Everything that can be asked of the workers that are served here."""
        if self._runtime is None:
            raise InvalidParameter('No workers are served here: open the engine with workers=["worker.py"].')
        return self._runtime.worker_service

    async def get(self, execution: str) -> OpenExecution:
        """An execution by ARN or id."""
        wanted = Arn.parse(execution).id if checked_mention(execution).startswith("arn:") else execution
        header = self._store.find(wanted)
        if header is None:
            raise ExecutionNotFound(f"There is no execution {execution}.")
        return OpenExecution(self._engine, header, self._functions)

    async def release(self, function: str | DurableFunction) -> int:
        """Let all quarantined executions of a function run again, and say how many there were."""
        called = function.name if isinstance(function, DurableFunction) else function
        count = 0
        for header in quarantined_of(self._store, called):
            with contextlib.suppress(InvalidParameter):  # released by somebody else meanwhile
                await self._engine.release(header.id)
                count += 1
        return count

    async def list(self, wanted: Filter | None = None) -> Sequence[Execution]:
        """Executions, newest first."""
        return self._store.list(wanted or Filter())

    async def succeed_callback(self, callback_id: str, result: str | bytes | None = None) -> None:
        """Answer a callback; the text is handed on as it is."""
        await self._engine.answer(callback_id, None if result is None else codec.text_of(result, "A callback's result"))

    async def fail_callback(self, callback_id: str, message: str | None = None, error_type: str | None = None) -> None:
        """Answer a callback with an error."""
        await self._engine.answer(callback_id, error=Failure(message=message, type=error_type))

    async def heartbeat_callback(self, callback_id: str) -> None:
        """Say that somebody still works on a callback."""
        await self._engine.heartbeat(callback_id)

    async def unsubscribe(self, subscriber: str) -> None:
        """Forget a subscriber, in every process, with the signals it has not had; without that they are kept for it for ever."""
        self._store.unsubscribe(subscriber)


def _written(input: object) -> object:
    try:
        return without_models(input)
    except (Unwritable, RecursionError) as error:
        raise PayloadNotJson(f"The input cannot be written as JSON: {error}.") from None


def registered(functions: Sequence[DurableFunction], settings: Settings) -> list[Function]:
    """Functions of this process, as an engine knows them: those of a colour share their places."""
    coroutines, threads = Capacity(settings.live), Capacity(settings.threads)
    room = [coroutines if f.is_async else threads for f in functions]
    return [Function(name=f.name, version=f.version, terms=f.terms, slots=s, kind=f.kind) for f, s in zip(functions, room, strict=True)]


def _blocking(verb: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
    """The same verb, waiting for its answer."""

    def call(self: BlockingEngine | BlockingExecution, *args: Any, **kwargs: Any) -> Any:
        if on_engine_thread():
            raise BlockingCallRefused(
                f"`{verb.__name__}` was called on a thread of the engine, where it would wait for itself. "
                "In a handler use durable calls; to start other executions use an engine of your own process."
            )
        answer = self._portal.call(lambda: verb(self._inner, *args, **kwargs))
        return BlockingExecution(answer, self._portal) if isinstance(answer, OpenExecution) else answer

    call.__name__ = verb.__name__
    call.__doc__ = verb.__doc__
    return call


class BlockingEngine:
    """The same verbs, blocking."""

    def __init__(self, inner: OpenEngine, portal: Portal) -> None:
        self._inner = inner
        self._portal = portal

    start = _blocking(OpenEngine.start)
    run = _blocking(OpenEngine.run)
    get = _blocking(OpenEngine.get)
    release = _blocking(OpenEngine.release)
    list = _blocking(OpenEngine.list)
    succeed_callback = _blocking(OpenEngine.succeed_callback)
    fail_callback = _blocking(OpenEngine.fail_callback)
    heartbeat_callback = _blocking(OpenEngine.heartbeat_callback)
    unsubscribe = _blocking(OpenEngine.unsubscribe)


class BlockingExecution:
    """The same verbs, blocking."""

    def __init__(self, inner: OpenExecution, portal: Portal) -> None:
        self._inner = inner
        self._portal = portal
        self.id, self.name, self.arn = inner.id, inner.name, inner.arn

    result = _blocking(OpenExecution.result)
    status = _blocking(OpenExecution.status)
    describe = _blocking(OpenExecution.describe)
    history = _blocking(OpenExecution.history)
    export = _blocking(OpenExecution.export)
    stop = _blocking(OpenExecution.stop)
    release = _blocking(OpenExecution.release)

"""Opens an engine: with `async with holdfast.open(...)` for async programs, and with `with` for blocking ones."""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NoReturn, TypeVar

from holdfast.durable.execution import DurableFunction
from holdfast.engine.engine import Engine
from holdfast.engine.outbox import NO_SUBSCRIBERS
from holdfast.hosts.inline import InlineHost
from holdfast.model.errors import InvalidParameter, Rejected
from holdfast.model.payloads import PayloadCodec
from holdfast.model.ports import Host
from holdfast.model.schedules import Origin
from holdfast.model.signals import Subscriber, check_subscriber
from holdfast.queues.declarations import Queue
from holdfast.schedules.declarations import Schedule, check_declared
from holdfast.schedules.store_schedules import left_over
from holdfast.service.open_engine.blocking_engine import BlockingEngine as BlockingEngine
from holdfast.service.open_engine.blocking_engine import BlockingExecution as BlockingExecution
from holdfast.service.open_engine.loop_thread import LoopThread
from holdfast.service.open_engine.open_engine import OpenEngine as OpenEngine
from holdfast.service.open_engine.open_execution import OpenExecution as OpenExecution
from holdfast.service.settings import Settings, settings_for_open
from holdfast.store.backends import placed

if TYPE_CHECKING:  # a program without workers does not load their modules
    from holdfast.service.runtimes.worker_runtime import WorkerRuntime, WorkerSettings

log = logging.getLogger("holdfast.service")
_T = TypeVar("_T")


def open(
    store: str | os.PathLike[str] | None = None,
    *,
    functions: Sequence[DurableFunction] = (),
    workers: Sequence[str | os.PathLike[str]] = (),
    queues: Sequence[Queue] = (),
    schedules: Sequence[Schedule] = (),
    subscribers: Mapping[str, Subscriber] = NO_SUBSCRIBERS,
    settings: Settings | None = None,
    worker_settings: WorkerSettings | None = None,
    codec: PayloadCodec | None = None,
    migrate: bool = False,
) -> EngineOpening:
    """Prepare an engine on a store. It opens when you enter the result: `async with holdfast.open(...) as engine:`, or `with` for blocking
    calls.

    `store` is the path of a file, the address of a Postgres database, or `:memory:`, which keeps everything in memory. None: the store of
    the settings. `functions` are the durable functions that this engine runs. `workers` are files that declare workers or pipelines, for
    `engine.run`; `worker_settings` says what these may do. `queues` are declared in the store. What an operator has set for a queue wins
    over its declaration. `schedules` start functions, workers and pipelines at certain times. What an operator has changed or paused wins
    over this declaration. `subscribers` are functions by name. When an execution of the store begins, is quarantined or ends, one of the
    open engines that have the subscriber calls it with a `StatusSignal`: in order, and at least once. A subscription lasts from the first
    time its name is given until `unsubscribe`. Signals from a time when no engine with this subscriber was open are delivered when one
    opens. `codec` encodes the payloads in the store (`holdfast.AesGcm` encrypts them). None: the codec of the settings. `migrate` first
    updates a Postgres store of an older release, as `holdfast db migrate` does. A SQLite file is always updated."""
    _check_kinds(store, functions, workers, worker_settings)
    operators = {} if worker_settings is None else worker_settings.queues
    settings = settings_for_open(settings or Settings(), codec, queues, operators, migrate=migrate)
    where = placed(os.fspath(store) if store is not None else settings.store)
    for function in functions:
        if not isinstance(function, DurableFunction):
            raise InvalidParameter(f"{function!r} is not a durable function. Decorate it with @durable_execution.")
    for name, receive in subscribers.items():
        check_subscriber(name, receive)
    check_declared(schedules)
    runtime = _runtime(workers, worker_settings, where) if workers else None
    return EngineOpening(where, functions, subscribers, settings, runtime, schedules)


def _check_kinds(store: object, functions: object, workers: object, worker_settings: object) -> None:
    """Raise InvalidParameter for an argument of a wrong type, with the right form. Python's own error would point to a line of Holdfast."""
    if store is not None and not isinstance(store, str | os.PathLike):
        raise InvalidParameter(f"The store is {store!r:.80}; name a file, an address or ':memory:'.")
    for name, given in (("functions", functions), ("workers", workers)):
        if isinstance(given, str | os.PathLike | DurableFunction):
            raise InvalidParameter(f"{name} is {given!r:.80}; write a list, {name}=[...].")
    if worker_settings is not None and not hasattr(worker_settings, "queues"):
        told = "write holdfast.read_operator(file=Path('holdfast.toml'))"
        raise InvalidParameter(f"worker_settings is {worker_settings!r:.80}; {told}.")


def _runtime(workers: Sequence[str | os.PathLike[str]], worker_settings: WorkerSettings | None, where: str) -> WorkerRuntime:
    from holdfast.service.runtimes.worker_runtime import WorkerRuntime, WorkerSettings, home_beside

    return WorkerRuntime(workers, worker_settings or WorkerSettings(), home_beside(where))


class EngineNotEntered(Rejected, AttributeError):
    """The result of `holdfast.open` was used without `with`."""

    code = "engine_not_entered"


class EngineOpening:
    """The result of `holdfast.open`: an engine that is not entered yet."""

    if not TYPE_CHECKING:  # a type checker reports these missing attributes itself

        def __getattr__(self, name: str) -> NoReturn:
            if name.startswith("_") or not hasattr(OpenEngine, name):
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
            raise EngineNotEntered(
                f"`{name}` was used on the result of `holdfast.open(...)`, which is not open. Write `with holdfast.open(...) as engine:` "
                f"and `engine.{name}` inside; in `async def` code `async with holdfast.open(...) as engine:`."
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
        schedules: Sequence[Schedule] = (),
    ) -> None:
        self.runtime = runtime
        self._schedules = schedules
        self.operators_schedules: Sequence[Schedule] = ()
        """The schedules of the operator's file, for an engine without workers. With workers, the settings of the worker runtime have
        them."""
        self.declares = True
        """Whether the engine writes its schedules into the store when it opens."""
        self.warns = True
        """Whether the engine logs which schedules are no longer declared."""
        self._where, self._functions, self._subscribers, self._settings = where, functions, subscribers, settings
        self.wrap: Callable[[InlineHost], Host] = lambda host: host
        """Returns the host that the engine uses, made from the inline host; for holdfast.testing."""
        self._loop_thread: LoopThread | None = None
        self._engine: OpenEngine | None = None

    async def __aenter__(self) -> OpenEngine:
        functions, runtime = self._functions, self.runtime
        try:
            if runtime is not None:
                await runtime.open()
                functions = [*functions, *runtime.functions()]
            parts = (self._where, functions, self._subscribers, self._settings, self.wrap, runtime, self._declared())
            self._engine = await OpenEngine.create(*parts)
        except BaseException:
            if runtime is not None:
                await runtime.close()
            raise
        if self.warns:
            self._warn_of_left_over([function.name for function in functions])
        return self._engine

    def _warn_of_left_over(self, functions: Sequence[str]) -> None:
        """Log a warning for each schedule of these functions that was declared earlier and is not declared now. If this program declares no
        schedules, nothing is logged: another program may declare them."""
        declared = self.schedules
        for warning in left_over(self.engine.store, [one.name for one in declared], functions) if declared else ():
            log.warning("%s", warning)

    @property
    def schedules(self) -> list[Schedule]:
        """The schedules that the engine writes into the store when it opens: those of the program, of the operator's file and of workers'
        pages. Empty if the engine must not write its schedules (`declares` is False)."""
        return [schedule for schedule, _ in self._declared()]

    def _declared(self) -> list[tuple[Schedule, Origin]]:
        of_file = [(schedule, Origin.TOML) for schedule in self.operators_schedules] if self.runtime is None else self.runtime.schedules()
        return [*((schedule, Origin.CODE) for schedule in self._schedules), *of_file] if self.declares else []

    async def __aexit__(self, *_: object) -> None:
        assert self._engine is not None
        await self._engine.close()

    def __enter__(self) -> BlockingEngine:
        self._loop_thread = LoopThread()
        try:
            self._engine = self._loop_thread.call(self.__aenter__)
        except BaseException:
            self._loop_thread.close()
            raise
        return BlockingEngine(self._engine, self._loop_thread)

    def __exit__(self, *_: object) -> None:
        assert self._loop_thread is not None
        try:
            self._loop_thread.call(self.__aexit__)
        finally:
            self._loop_thread.close()

    def call(self, make: Callable[[OpenEngine], Awaitable[_T]]) -> _T:
        """Call `make` with the engine, await what it returns, on the engine's event loop, and return the result. Blocks. The engine must
        have been opened with `with`; for tests."""
        assert self._loop_thread is not None
        engine = self._engine
        assert engine is not None
        return self._loop_thread.call(lambda: make(engine))

    @property
    def engine(self) -> Engine:
        """The internal engine behind the public methods. It exists only inside the `with` block. For Holdfast's own commands."""
        assert self._engine is not None
        return self._engine._engine

    def inside(self, call: Callable[[Engine], _T]) -> _T:
        """Call a function with the internal engine, on the engine's event loop, and return the result. Blocks. The engine must have been
        opened with `with`; for tests."""
        assert self._loop_thread is not None

        async def called() -> _T:
            return call(self.engine)

        return self._loop_thread.call(called)

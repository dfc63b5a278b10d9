"""The Lambda service: one engine for the functions of the program and for deployed functions. This module builds all objects of the
service.

    open → deploy → change functions → drain → close

Functions of the program run inline. Deployed functions run in processes, and are added, changed and deleted while the engine runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import tempfile
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from holdfast.durable.execution import DurableFunction
from holdfast.engine.engine import Engine
from holdfast.engine.outbox import NO_SUBSCRIBERS
from holdfast.engine.registry import Capacity, Function, Registry
from holdfast.hosts.choosing_host import ChoosingHost
from holdfast.hosts.inline import InlineHost
from holdfast.lambda_api.functions.deployed import DeployedFunctions
from holdfast.lambda_api.functions.function_folder import CodeCache, FunctionFolder, folder_of
from holdfast.lambda_api.functions.function_records import EVENT, NOT_DURABLE, Code, DeployedFunction, Version, runtime_of
from holdfast.lambda_api.functions.served_functions import ServedFunctions
from holdfast.lambda_api.logs import segments
from holdfast.lambda_api.logs.inline_logs import InlineLogs
from holdfast.lambda_api.logs.log_operations import Logs
from holdfast.lambda_api.logs.log_writer import LogWriter
from holdfast.lambda_api.logs.segments import LogRetention
from holdfast.lambda_api.operations import LambdaApi
from holdfast.lambda_api.operations.lookup import PlainAnswer, PlainCall
from holdfast.lambda_api.runtime.process_output import OutputLine, OutputLog
from holdfast.lambda_api.runtime.runtime_description import PoolLimits
from holdfast.lambda_api.runtime.runtime_host import RuntimeHost
from holdfast.lambda_api.templates.descriptions import CodeSource, DescribedFunction, FolderCode, TextCode, ZipCode
from holdfast.lambda_api.templates.file_watch import printed_to
from holdfast.model.execution import ExecutionStatus
from holdfast.model.ids import LATEST
from holdfast.model.signals import Subscriber
from holdfast.model.threads import Purpose, in_thread
from holdfast.queues.store_queues import warn_of_new_queues
from holdfast.service.drain import drained
from holdfast.service.open_engine.interpreter_tuning import tune
from holdfast.service.open_engine.registered import registered
from holdfast.service.settings import Settings
from holdfast.store.backends import open_store
from holdfast.store.seam import Filter, Hosted

if TYPE_CHECKING:  # a server without workers loads none of their code
    from starlette.types import ASGIApp

    from holdfast.service.runtimes.worker_runtime import WorkerRuntime

log = logging.getLogger("holdfast.service")
T = TypeVar("T")
_BESIDE: Final = ("", "-wal", "-shm", "-journal", "-holdfast", ".functions", ".logs", ".workers")
"""The name of the store's file and one of these endings give the names of the store's own files and folders. They are never code of a
function, even if the function's code is in the same folder."""


class Serving:
    """The Lambda service while it runs."""

    def __init__(
        self,
        engine: Engine,
        deployed: DeployedFunctions,
        processes: RuntimeHost,
        own: Registry,
        heard: InlineLogs,
        keeper: LogWriter,
        settings: Settings,
        workers: Collection[str] = (),
    ) -> None:
        self.engine = engine
        warn_of_new_queues(engine)
        self.deployed = deployed
        self.lookup = ServedFunctions(deployed, own, settings.chance().random, workers)
        self.api = LambdaApi(
            engine,
            lookup=self.lookup,
            plain=self._call,
            tail=lambda header: processes.tail(header.id) or heard.tail(header.id),
            ids=settings.ids,
        )
        self.logs = Logs(keeper, settings.clock, self.lookup.knows)
        self._processes = processes
        self.leave_out = (*_files_of(settings.store), keeper.folder.root.resolve(), *printed_to())
        """Files and folders that are left out when the folder of a function's code is copied: those of the store and of the logs, and the
        files to which this process prints."""
        self.first_look = CodeCache()
        """Remembers the code that was read while the service opened, so that the same code is not read again for functions that are
        deployed at the start of the server."""
        self._capacities: dict[str, Capacity] = {}
        self._hosted: dict[str, dict[str, Version]] = {}
        self._changing = asyncio.Lock()
        self._under_way: set[asyncio.Task[Any]] = set()

    # --- changes of functions

    async def change(self, name: str, verb: Callable[[], T], looked: CodeCache | None = None) -> T:
        """Call `verb`, which changes the function `name` in the folder of deployed functions. Then make the engine run the function as it
        is after the change. Returns what `verb` returned. If `verb` raises an error, nothing else is done, and the error is raised.

        `verb` runs in a thread. Changes run one after the other. A change is completed even if the task of its caller is cancelled. Code
        that `looked` remembers is not read again.
        """

        async def changed() -> T:
            async with self._changing:
                answer = await in_thread(Purpose.HOUSE, verb)
                await self._host(name, looked or CodeCache())
                return answer

        task = asyncio.create_task(changed())
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return await asyncio.shield(task)

    async def settle(self) -> None:
        """Wait until all changes of functions that are under way (`change`) have ended. Call this before the store and the folders are
        closed."""
        await asyncio.gather(*self._under_way, return_exceptions=True)

    async def deploy(self, wanted: DescribedFunction, looked: CodeCache | None = None) -> DeployedFunction:
        """Deploy a function as a template or a file describes it, and return its entry. Functions that are deployed together share
        `looked`, so that the same code is read only once."""
        seen = looked or CodeCache()

        def verb() -> DeployedFunction:
            code = self.code_of(wanted.code, seen)
            return self.deployed.deploy(wanted.name, wanted.config, code, aliases=wanted.aliases, publish=wanted.publish, tags=wanted.tags)

        return await self.change(wanted.name, verb, seen)

    async def forget_old(self, name: str, keep: int) -> None:
        """Delete old published versions of a function, because `--reload` makes many. These stay: the `keep` versions with the highest
        numbers, each version that an alias names, and each version that has an execution which has not ended.

        If the function has more than `keep` versions, code that no version of any function uses is deleted too, unless a process still runs
        it.
        """
        entry = self.deployed.needed(name)
        named = {version for alias in entry.aliases.values() for version in (alias.version, *alias.weights)}
        numbers = sorted(map(int, entry.versions))
        old = numbers[: max(0, len(numbers) - keep)]
        for version in [str(number) for number in old if str(number) not in named]:
            running = Filter(function=name, version=version, statuses=(ExecutionStatus.RUNNING,), limit=1)
            if not await in_thread(Purpose.HOUSE, self.engine.store.list, running):
                await self.change(name, functools.partial(self.deployed.delete, name, version))
        if old:
            running_code = {Path(folder).name for folder in self._processes.folders()}
            await self.change(name, functools.partial(self.deployed.sweep, running_code))

    def code_of(self, source: CodeSource, looked: CodeCache | None = None) -> Code:
        """Copy code into the folder of deployed functions, if it is not there yet, and return its record. Code that `looked` remembers is
        not read again. Blocks."""
        keeper = self.deployed.keeper
        match source:
            case FolderCode(folder):
                return keeper.add_folder(folder.resolve(), self.leave_out, looked)
            case ZipCode(file):
                return keeper.add_zip_file(file.resolve(), looked)
            case TextCode(name, text):
                return keeper.add_text(name, text, looked)

    async def host_all(self) -> None:
        """Make the engine run all deployed functions, and tell it which versions were deleted."""
        for entry in self.deployed.everything():
            there = {one.version for one in entry.everything()}
            for version in {LATEST, *map(str, range(1, entry.last + 1))} - there:
                self.engine.registry.gone.add((entry.name, version))
            await self._host(entry.name, self.first_look)

    async def _host(self, name: str, looked: CodeCache) -> None:
        entry = self.deployed.entry(name)
        versions = entry.everything() if entry is not None and name not in self.lookup.reserved else []
        wanted = {one.version: one for one in versions if not self.lookup.is_own(name, one.version)}
        before = self._hosted.get(name, {})
        registry = self.engine.registry
        for version in before.keys() - wanted.keys():
            registry.remove(name, version)
            self._processes.drop(name, version)
        fresh = [one for version, one in wanted.items() if before.get(version) != one]
        for one in await self._changed(name, fresh, looked):
            fresh.remove(one)
            del wanted[one.version]
        runtimes = [runtime_of(name, one, str(self.deployed.folder(one))) for one in fresh]
        await self._processes.try_out(runtimes)
        for one, runtime in zip(fresh, runtimes, strict=True):
            self._processes.put(runtime)
            registry.put(self._function(name, one))
        self._hosted[name] = wanted
        for key in [key for key in registry.aliases if key[0] == name]:
            del registry.aliases[key]
        if entry is not None:
            registry.aliases.update({(name, alias.name): alias.version for alias in entry.aliases.values()})
        if fresh:
            terms = [Hosted(name, one.version, one.config.terms or NOT_DURABLE) for one in fresh]
            await in_thread(Purpose.HOUSE, self.engine.store.publish, terms)
            self.engine.look_for_work()

    def runs_on(self, runtime: str) -> str:
        """The interpreter that runs functions of this runtime here, such as `Python 3.13`, if its version differs from the one in the
        runtime's name. Empty if it does not differ; `nothing` if the runtime is not known here or no interpreter can run it. Blocks while
        an interpreter is tried."""
        return self._processes.runs_on(runtime)

    async def _changed(self, name: str, fresh: Sequence[Version], looked: CodeCache) -> list[Version]:
        """The versions in `fresh` whose code on disk has changed since it was deployed. The server does not run these versions. For each of
        them it logs an error, and a caller of the version gets the same text."""
        found = []
        for one in fresh:
            self.lookup.changed.pop((name, one.version), None)
            if not await in_thread(Purpose.HOUSE, self.deployed.keeper.intact, one.code, looked):
                why = f"The code of {name}:{one.version} in {self.deployed.folder(one)} is not what was deployed, so it is not run."
                self.lookup.changed[name, one.version] = f"{why} Restore that folder, or deploy the function again."
                log.error("error[code_changed]: %s", self.lookup.changed[name, one.version])
                found.append(one)
        return found

    def _function(self, name: str, one: Version) -> Function:
        capacity = self._capacities.setdefault(name, Capacity(self._processes.limits.per_function))
        return Function(name=name, version=one.version, terms=one.config.terms or NOT_DURABLE, capacity=capacity)

    # --- functions that are not durable

    async def _call(self, call: PlainCall) -> PlainAnswer:
        found = call.function
        if not call.waits:  # an execution on disk: the function is called even if the server ends before the call
            await self.engine.start(
                found.name, call.payload.decode(), version=found.version, terms=EVENT, tenant=call.tenant, trace=call.trace
            )
            return PlainAnswer(payload=b"")
        called = await self._processes.call(
            found.name,
            found.version,
            call.payload,
            client_context=call.client_context,
            tenant=call.tenant,
            trace=call.trace,
            arn=call.arn,
        )
        error = None if called.error is None else "Unhandled"
        return PlainAnswer(payload=called.payload, error=error, log=called.tail, request=called.request)

    # --- the end

    async def drain(self, seconds: float) -> bool:
        """Let the engine claim no more executions, and wait at most `seconds` until every invocation has been suspended or has ended.
        Returns True if all of them have, and False if some still run or wait after that time."""
        return await drained(self.engine, seconds)


@contextlib.asynccontextmanager
async def open_serving(
    functions: Sequence[DurableFunction],
    *,
    settings: Settings,
    private_app: Callable[[LambdaApi], ASGIApp],
    subscribers: Mapping[str, Subscriber] = NO_SUBSCRIBERS,
    log: OutputLog | None = None,
    limits: PoolLimits | None = None,
    retention: LogRetention | None = None,
    runtime: WorkerRuntime | None = None,
) -> AsyncIterator[Serving]:
    """Open the service on the store of `settings`, and close it when the block ends. `functions` are those of the program, which run
    inline. `private_app` makes the app that answers the requests of the functions' processes, and `log` gets the lines of these processes.
    `runtime` has the workers, if there are any. No caller can invoke a worker as a function."""
    if settings.tune:
        tune()
    runner = settings.ids(settings.clock.now())
    async with contextlib.AsyncExitStack() as stack:
        store = open_store(settings.store, runner, settings.codec)
        stack.callback(store.close)
        clock = store.clock(settings.clock)
        keeper, logs = _keepers(stack, settings, retention or LogRetention())
        deployed, worker_functions = DeployedFunctions(keeper, clock=clock, ids=settings.ids), await _worker_functions(stack, runtime)
        inline = InlineHost([*functions, *worker_functions], clock=clock, threads=settings.threads, resting=settings.resting)
        stack.callback(inline.close)
        leaving = asyncio.Event()

        def told(lines: list[OutputLine]) -> None:
            if leaving.is_set():  # the service closes and kills its processes: each end would be logged as an error
                return
            logs.put(lines)
            if log is not None:
                log(lines)

        processes = RuntimeHost((), token=store.seal.token, log=told, limits=limits)
        stack.push_async_callback(processes.close)
        heard, known = stack.enter_context(InlineLogs(inline, logs.put, settings.clock, runner)), registered(functions, settings)
        engine = Engine(
            store,
            [*known, *registered(worker_functions, settings)],
            ChoosingHost((heard, processes)),
            clock=clock,
            ids=settings.ids,
            chance=settings.chance(),
            runner=runner,
            subscribers=subscribers,
            observers=settings.observers,
            queues=[queue.row() for queue in settings.queues],
        )
        if runtime is not None:
            runtime.attach(engine)
        await engine.open()
        stack.push_async_callback(engine.close)
        serving = Serving(engine, deployed, processes, Registry(known), heard, logs, settings, [one.name for one in worker_functions])
        stack.push_async_callback(serving.settle)
        processes.api = private_app(serving.api)
        await serving.host_all()
        stack.callback(leaving.set)
        yield serving


async def _worker_functions(stack: contextlib.AsyncExitStack, runtime: WorkerRuntime | None) -> Sequence[DurableFunction]:
    """Open the worker runtime and return the durable functions of its workers; () without a worker runtime. The stack closes the worker
    runtime after the engine."""
    if runtime is None:
        return ()
    await runtime.open()
    stack.push_async_callback(runtime.close)
    return runtime.functions()


def _keepers(stack: contextlib.AsyncExitStack, settings: Settings, retention: LogRetention) -> tuple[FunctionFolder, LogWriter]:
    """The folder of deployed functions, and the writer of the logs. For a store in memory, their folders are temporary."""

    def temporary() -> Path:
        return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-")))

    keeper = FunctionFolder(folder_of(settings.store) or temporary())
    stack.callback(keeper.close)
    folder = segments.LogFolder(segments.folder_of(settings.store) or temporary(), retention)
    logs = LogWriter(folder, settings.clock)  # not the store's clock: the lines of processes have the time of this machine
    stack.callback(logs.close)
    return keeper, logs


def _files_of(store: str) -> tuple[Path, ...]:
    return () if "://" in store or store == ":memory:" else tuple(Path(f"{store}{end}").resolve() for end in _BESIDE)

"""Serving: one engine over functions of the program and deployed ones, with everything around it but HTTP itself.

    open → deploy → (changes come) → drain → close

Functions of the program run inline; deployed ones run in processes, and come and go while the engine runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from holdfast.durable.execution import DurableFunction
from holdfast.engine.engine import Engine
from holdfast.engine.outbox import NO_SUBSCRIBERS
from holdfast.engine.registry import Capacity, Function, Registry
from holdfast.hosts.choosing import ChoosingHost
from holdfast.hosts.inline import InlineHost
from holdfast.lambda_api.functions.deployed import DeployedFunctions
from holdfast.lambda_api.functions.folder import Keeper, Looked, folder_of
from holdfast.lambda_api.functions.records import EVENT, NOT_DURABLE, Code, Entry, Version, runtime_of
from holdfast.lambda_api.functions.served import ServedFunctions
from holdfast.lambda_api.logs import segments
from holdfast.lambda_api.logs.api import Logs
from holdfast.lambda_api.logs.inline import InlineLogs
from holdfast.lambda_api.logs.segments import Retention
from holdfast.lambda_api.logs.writer import LogKeeper
from holdfast.lambda_api.operations import LambdaApi
from holdfast.lambda_api.operations.lookup import PlainAnswer, PlainCall
from holdfast.lambda_api.runtime.description import Limits
from holdfast.lambda_api.runtime.host import RuntimeHost
from holdfast.lambda_api.runtime.output import Line, Log
from holdfast.lambda_api.templates.descriptions import CodeSource, Described, FolderCode, TextCode, ZipCode
from holdfast.lambda_api.templates.file_watch import printed_to
from holdfast.model.execution import ExecutionStatus
from holdfast.model.ids import LATEST
from holdfast.model.signals import Subscriber
from holdfast.model.threads import Purpose, in_thread
from holdfast.service.engines import registered
from holdfast.service.settings import Settings
from holdfast.service.tuning import tune
from holdfast.store.backends import open_store
from holdfast.store.seam import Filter, Hosted

if TYPE_CHECKING:  # whoever serves no workers loads nothing of them
    from holdfast.service.worker_runtime import WorkerRuntime

log = logging.getLogger("holdfast.service")
T = TypeVar("T")
App = Callable[[Any, Any, Any], Awaitable[None]]
"""An ASGI app."""
_LOOK_SECONDS: Final = 0.05
_BESIDE: Final = ("", "-wal", "-shm", "-journal", "-holdfast", ".functions", ".logs", ".workers")
"""What a store's file has beside it, which is no code of anybody."""


class Serving:
    """A service that runs."""

    def __init__(
        self,
        engine: Engine,
        deployed: DeployedFunctions,
        processes: RuntimeHost,
        own: Registry,
        heard: InlineLogs,
        keeper: LogKeeper,
        settings: Settings,
        workers: Collection[str] = (),
    ) -> None:
        self.engine = engine
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
        """Files that are beside somebody's code, and none of it."""
        self.first_look = Looked()
        """What is read while the service begins, for those who deploy then."""
        self._slots: dict[str, Capacity] = {}
        self._hosted: dict[str, dict[str, Version]] = {}
        self._changing = asyncio.Lock()
        self._under_way: set[asyncio.Task[Any]] = set()

    # --- functions that come and go

    async def change(self, name: str, verb: Callable[[], T], looked: Looked | None = None) -> T:
        """Change a function in the catalogue, then here. Changes come one after the other, off the loop; one that has begun is
        finished, also if whoever wanted it is gone."""

        async def changed() -> T:
            async with self._changing:
                answer = await in_thread(Purpose.HOUSE, verb)
                await self._host(name, looked or Looked())
                return answer

        task = asyncio.create_task(changed())
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return await asyncio.shield(task)

    async def settle(self) -> None:
        """Let changes end that are under way: they write to what is about to be closed."""
        await asyncio.gather(*self._under_way, return_exceptions=True)

    async def deploy(self, wanted: Described, looked: Looked | None = None) -> Entry:
        """Have a function as a target describes it. Functions that are deployed together share `looked`, so that code is read once."""
        seen = looked or Looked()

        def verb() -> Entry:
            code = self.code_of(wanted.code, seen)
            return self.deployed.deploy(wanted.name, wanted.config, code, aliases=wanted.aliases, publish=wanted.publish, tags=wanted.tags)

        return await self.change(wanted.name, verb, seen)

    async def forget_old(self, name: str, keep: int) -> None:
        """Delete versions before the newest `keep` that no alias names and no execution needs: who saves often makes many. Code goes
        with the last version that has it, or later, when no process runs it any more."""
        entry = self.deployed.needed(name)
        named = {version for alias in entry.aliases.values() for version in (alias.version, *alias.weights)}
        old = sorted(map(int, entry.versions))[:-keep]
        for version in [str(number) for number in old if str(number) not in named]:
            running = Filter(function=name, version=version, statuses=(ExecutionStatus.RUNNING,), limit=1)
            if not await in_thread(Purpose.HOUSE, self.engine.store.list, running):
                await self.change(name, functools.partial(self.deployed.delete, name, version))
        if old:
            running_code = {Path(folder).name for folder in self._processes.folders()}
            await self.change(name, functools.partial(self.deployed.sweep, running_code))

    def code_of(self, source: CodeSource, looked: Looked | None = None) -> Code:
        """Take code into the catalogue; blocks."""
        keeper = self.deployed.keeper
        match source:
            case FolderCode(folder):
                return keeper.add_folder(folder.resolve(), self.leave_out, looked)
            case ZipCode(file):
                return keeper.add_zip_file(file.resolve(), looked)
            case TextCode(name, text):
                return keeper.add_text(name, text, looked)

    async def host_all(self) -> None:
        """Run everything that is in the catalogue, and know what was deleted from it."""
        for entry in self.deployed.everything():
            there = {one.version for one in entry.everything()}
            for version in {LATEST, *map(str, range(1, entry.last + 1))} - there:
                self.engine.registry.gone.add((entry.name, version))
            await self._host(entry.name, self.first_look)

    async def _host(self, name: str, looked: Looked) -> None:
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
            self.engine.backlog = True
            self.engine.look()

    def runs_on(self, runtime: str) -> str:
        """What functions of this runtime run on here, where that is not what its name says."""
        return self._processes.runs_on(runtime)

    async def _changed(self, name: str, fresh: Sequence[Version], looked: Looked) -> list[Version]:
        """Those whose code is not what was deployed: the server does not run them, and tells callers and the operator why."""
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
        slots = self._slots.setdefault(name, Capacity(self._processes.limits.per_function))
        return Function(name=name, version=one.version, terms=one.config.terms or NOT_DURABLE, slots=slots)

    # --- functions that are not durable

    async def _call(self, call: PlainCall) -> PlainAnswer:
        found = call.function
        if not call.waits:  # the promise that it will be called is kept on disk, as an execution of one call
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
        """Begin nothing new, and let what runs come to where it can be left; whether it all did."""
        self.engine.registry.shut()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while True:
                    if self.engine.idle:
                        return True
                    await asyncio.sleep(_LOOK_SECONDS)
        return False


@contextlib.asynccontextmanager
async def open_serving(
    functions: Sequence[DurableFunction],
    *,
    settings: Settings,
    private_app: Callable[[LambdaApi], App],
    subscribers: Mapping[str, Subscriber] = NO_SUBSCRIBERS,
    log: Log | None = None,
    limits: Limits | None = None,
    retention: Retention | None = None,
    runtime: WorkerRuntime | None = None,
) -> AsyncIterator[Serving]:
    """A service over a store. `private_app` makes what processes of functions may ask; `log` gets what they print, besides being kept.

    `runtime` has workers. Their runs are executions too, but no caller can invoke them as functions: a run is accepted, or it is none.
    """
    if settings.tune:
        tune()
    runner = settings.ids(settings.clock.now())
    async with contextlib.AsyncExitStack() as stack:
        store = open_store(settings.store, runner, settings.codec)
        stack.callback(store.close)
        clock = store.clock(settings.clock)
        keeper, logs = _keepers(stack, settings, retention or Retention())
        deployed, worker_functions = DeployedFunctions(keeper, clock=clock, ids=settings.ids), await _worker_functions(stack, runtime)
        inline = InlineHost([*functions, *worker_functions], clock=clock, threads=settings.threads, park=settings.park)
        stack.callback(inline.close)
        leaving = asyncio.Event()

        def told(lines: list[Line]) -> None:
            if leaving.is_set():  # else each process that is ended would complain that it was
                return
            logs.put(lines)
            if log is not None:
                log(lines)

        processes = RuntimeHost((), token=store.seal.token, log=told, limits=limits)
        stack.push_async_callback(processes.close)
        heard = stack.enter_context(InlineLogs(inline, logs.put, settings.clock, runner))
        known = registered(functions, settings)
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
    """The functions that workers are, with everything that their runs need until the engine has closed."""
    if runtime is None:
        return ()
    await runtime.open()
    stack.push_async_callback(runtime.close)
    return runtime.functions()


def _keepers(stack: contextlib.AsyncExitStack, settings: Settings, retention: Retention) -> tuple[Keeper, LogKeeper]:
    """What is kept in folders beside the store: deployed functions, and logs."""

    def temporary() -> Path:
        return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-")))

    keeper = Keeper(folder_of(settings.store) or temporary())
    stack.callback(keeper.close)
    folder = segments.Folder(segments.folder_of(settings.store) or temporary(), retention)
    logs = LogKeeper(folder, settings.clock)  # what processes print has the time of this machine, too
    stack.callback(logs.close)
    return keeper, logs


def _files_of(store: str) -> tuple[Path, ...]:
    return () if "://" in store or store == ":memory:" else tuple(Path(f"{store}{end}").resolve() for end in _BESIDE)

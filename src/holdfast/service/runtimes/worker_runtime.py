"""WorkerRuntime: makes workers from their files, with their tools and jails, and connects them to an engine."""

from __future__ import annotations

import asyncio
import logging
import os
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import msgspec

from holdfast.author_files.worker_search import PAGE, declares_pipelines, served_files
from holdfast.contract.page_reader import MAX_PAGE_BYTES, read
from holdfast.costs.estimates import Estimates
from holdfast.durable.execution import DurableFunction
from holdfast.engine.engine import Engine
from holdfast.files import private
from holdfast.hosts import cpu_shares
from holdfast.hosts.sandbox.server_limits import ServerLimits
from holdfast.hosts.toolhost.tool_host import ToolHost
from holdfast.library import find
from holdfast.model.clock import SystemClock
from holdfast.model.errors import InvalidParameter
from holdfast.model.schedules import Origin
from holdfast.model.threads import Purpose, in_thread
from holdfast.pipelines.run.run import Pipelines
from holdfast.pipelines.run.served_pipeline import ServedPipeline
from holdfast.queues.declarations import QueueTable
from holdfast.schedules.declarations import Schedule, page_schedule
from holdfast.service.runtimes.pipeline_runtime import PipelineRuntime, with_their_workers
from holdfast.service.runtimes.worker_signals import Signals, SignalSettings
from holdfast.workers.accept import ServedVersion
from holdfast.workers.artifacts import Artifacts
from holdfast.workers.packages import Package, PackagedWorker, Packages, WorkerChanged, WorkerInvalid
from holdfast.workers.policy import Policy
from holdfast.workers.run import Worker
from holdfast.workers.service import WorkerService
from holdfast.workers.storage.choice import open_storage
from holdfast.workers.storage.folder import Folder
from holdfast.workers.tools.author_tool import AuthorTool
from holdfast.workers.tools.cassettes import Cassette, CassetteSettings
from holdfast.workers.tools.declarations import Declared
from holdfast.workers.tools.fetch_url import FetchSettings, FetchUrl
from holdfast.workers.tools.language_model import LanguageModel, ModelSettings
from holdfast.workers.tools.parameters import ParameterStore, parameters_from
from holdfast.workers.tools.read_repo import ReadRepo, RepoSettings
from holdfast.workers.tools.refused_tool import RefusedTool
from holdfast.workers.tools.seam import Tool
from holdfast.workers.tools.secrets import EnvironmentSecrets, Redactor, Secrets, secrets_from

_log = logging.getLogger("holdfast.service")
_OLD_WORKERS = 4
"""At most this many workers with older code keep a process ready for their next attempt. Any other worker with older code starts a process
when a run needs it."""


class ToolSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings for the tools that workers' authors wrote. These tools run outside the sandbox."""

    allow: tuple[str, ...] = ()
    """The tools that `holdfast serve` and `holdfast runner` may run: `TOOL` for a tool of any worker, or `WORKER:TOOL`. Tools of Holdfast's
    own library need no entry."""

    def allows(self, worker: str, tool: str) -> bool:
        """Whether `allow` names this tool of this worker."""
        return tool in self.allow or f"{worker}:{tool}" in self.allow


class WorkerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The operator's settings for workers, as holdfast.toml gives them."""

    policy: Policy = Policy()
    fetch: FetchSettings = FetchSettings()
    model: ModelSettings = ModelSettings()
    parameters: str | None = None
    """Where the tool `parameter_store` reads: a TOML or JSON file, or `ssm:/prefix/` for AWS's Parameter Store. None: there is no such
    tool."""
    repos: Mapping[str, RepoSettings] = {}
    """Folders that the tool `read_repo` may read, by name."""
    secrets: tuple[str, ...] = ()
    """Where secrets of tools are looked up: files, folders, or `ssm:/prefix/` for AWS's Parameter Store. The environment comes first."""
    artifacts: str | None = None
    """Where artifacts are stored: an address such as `s3://bucket/prefix`, or a folder. None: in a folder beside the store."""
    cassette: CassetteSettings = CassetteSettings()
    signals: SignalSettings = SignalSettings()
    tools: ToolSettings = ToolSettings()
    queues: Mapping[str, QueueTable] = {}
    """The queues that the file declares, by name. Each setting in them wins over the same setting in code."""
    schedules: tuple[Schedule, ...] = ()
    """The schedules of the file. An engine that opens writes them into its store."""


class WorkerRuntime:
    """The workers of one engine."""

    def __init__(self, files: Sequence[str | os.PathLike[str]], settings: WorkerSettings, home: Path | None) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="holdfast-") if home is None else None
        self._home = Path(self._temporary.name) if self._temporary is not None else home or Path()
        if home is not None and home.exists():
            private.own_folder(home)
        self._settings = settings
        self._packages = Packages(self._home / "packages")
        self.replaced: Callable[[Tool], Tool] = lambda tool: tool
        """Returns the tool that is used in place of a tool; by default the tool itself. For holdfast.testing."""
        self.server_limits = ServerLimits(settings.policy.bodies_memory_mb, settings.policy.bodies_processes, cpu_shares.shared())
        self.admits: Callable[[str, Declared], str | None] = lambda worker, tool: None
        """Says why an author's tool may not run outside the sandbox; None if it may. By default every tool may, because a program that
        opens an engine is its own operator. The commands set other functions, which refuse tools that the user or operator does not
        allow."""
        self.chosen: Collection[str] | None = None
        """The ids of the workers and pipelines that this process runs; None: all. With a pipeline, it also runs the workers that the
        pipeline's nodes name. Runs of the others are accepted, but another process must run them."""
        self._closing = AsyncExitStack()
        """Closes what `open` opened, in the reverse order."""
        self._made: dict[tuple[str, str], PackagedWorker] = {}
        self._old: list[PackagedWorker] = []
        """Workers of older versions, in the order in which runs used them, the latest last."""
        self._files = served_files([_file_of(file) for file in files])
        self._pipelines = [file for file in self._files if declares_pipelines(file)]
        self._found = self._read()
        if not self._found and not self._pipelines and files:
            raise InvalidParameter("These files declare no worker and no pipeline. Give the file of a worker or of a pipeline.")
        self.pipelines: Sequence[ServedPipeline] = ()
        """The pipelines that are served; empty until the runtime is open."""
        self.pipeline_runtime = PipelineRuntime(self._packages, settings.policy, self.server_limits)

    @property
    def packages(self) -> Sequence[Package]:
        """The packages of the workers in the files. A package is a copy of a worker's files."""
        return self._found

    async def open(self) -> WorkerService:
        """Open everything that runs need, before the engine starts, and return the service of the workers. If an error is raised,
        everything that was opened is closed again. Raises InvalidParameter if two different files declare the same version of a worker, and
        PipelineInvalid if a pipeline has errors."""
        try:
            return await self._opened()
        except BaseException:
            await self.close()
            raise

    async def _opened(self) -> WorkerService:
        settings = self._settings
        where = settings.artifacts  # opened first: if it is wrong, there is nothing else to close
        storage = Folder(self._home / "artifacts") if where is None else await in_thread(Purpose.HOUSE, open_storage, where)
        self.signals = Signals(settings.signals, SystemClock())
        self._closing.push_async_callback(in_thread, Purpose.HOUSE, self.signals.close)
        self._secrets = Secrets([EnvironmentSecrets(os.environ), *(secrets_from(text) for text in settings.secrets)])
        self._cassette = Cassette(settings.cassette, Redactor({"model_key": settings.model.api_key or ""}))
        self._built_in = self._built()
        for close in [close for tool in self._built_in.values() if (close := getattr(tool, "close", None)) is not None]:
            self._closing.push_async_callback(close)
        self._host = ToolHost()
        self._closing.push_async_callback(self._host.close)
        self._closing.push_async_callback(self.pipeline_runtime.steps.close)
        policy = settings.policy
        kept = Artifacts(storage, policy.artifact_bytes)
        interpreter = Pipelines(self.pipeline_runtime.graphs, self.pipeline_runtime.steps)
        self.worker_service = WorkerService(
            policy=policy, artifacts=kept, find=self._loaded, observer=self.signals.observer, pipelines=interpreter.run
        )
        self.estimates = self.worker_service.estimates = Estimates(self.worker_service.served, settings.model, policy)
        for package in self._found:
            known = self.worker_service.served.get(package.contract.worker_id, {}).get(package.contract.version)
            if known is not None and known.package != package.name:
                told = f"{package.contract.worker_id} {package.contract.version}"
                raise InvalidParameter(f"Two of these files declare {told}: give one of them another worker_id, or another version.")
            self.worker_service.serve(self._worker(package))
        self.pipelines = await self.pipeline_runtime.built(self._pipelines, self._found)
        for pipeline in self.pipelines:
            self.worker_service.serve(pipeline)
        return self.worker_service

    def functions(self) -> list[DurableFunction]:
        """The workers and pipelines that this process runs, as durable functions."""
        wanted = None if self.chosen is None else with_their_workers(self.chosen, self.pipelines)
        return [function for function in self.worker_service.functions() if wanted is None or function.name in wanted]

    def schedules(self) -> list[tuple[Schedule, Origin]]:
        """The schedules of the operator's file, and those on the pages of the workers and pipelines that are served, each with its origin.
        If several versions of a worker are served, only the schedule of the version that was added last counts."""
        found = [(schedule, Origin.TOML) for schedule in self._settings.schedules]
        for versions in self.worker_service.served.values():
            contract = list(versions.values())[-1].worker.contract
            if contract.schedule is not None:
                found.append((page_schedule(contract.worker_id, contract.schedule), Origin.PAGE))
        return found

    def attach(self, engine: Engine) -> None:
        """Give the workers the engine that runs them, and its store."""
        self.estimates.store = engine.store
        self.worker_service.attach(engine)
        self.pipeline_runtime.graphs.store = engine.store

    def _read(self) -> list[Package]:
        found: list[Package] = []
        for file in self._files:
            if file.suffix != PAGE:
                found += self._packages.add(file, needs_worker=file not in self._pipelines)
            elif file not in self._pipelines:
                raise _no_pipeline(file)
        return found

    async def renew(self) -> Sequence[Package]:
        """Read the files again. New runs get the changed code; runs that have begun keep their code. Returns the packages of workers with
        new content. Raises InvalidParameter if a file declares a worker that was not served before, WorkerInvalid if a worker has errors,
        and PipelineInvalid if a pipeline has errors; new runs then get the code that they got before."""
        known, found = {package.name for package in self._found}, await in_thread(Purpose.HOUSE, self._read)
        changed = [package for package in found if package.name not in known]
        for package in changed:
            if package.contract.worker_id not in self.worker_service.served:
                told = f"This server did not know {package.contract.worker_id} when it started, and it cannot add a worker while it runs."
                raise InvalidParameter(f"{told} Restart the server to serve it.")
        pipelines = await self.pipeline_runtime.built(self._pipelines, found)
        ready: list[ServedVersion] = [*map(self._worker, changed), *pipelines]
        for served in ready:
            self.worker_service.serve(served)
        self._found = found
        await self.worker_service.follow_rates()
        current = {package.name for package in found}
        for worker in [worker for worker in self._made.values() if worker.package not in current]:
            await worker.rest()
        return changed

    async def warm(self) -> None:
        """Start a process for each worker, with the code that was read last, so that its next attempt need not wait for a process."""
        await asyncio.gather(*(self._worker(package).warm() for package in self._found))

    async def close(self) -> None:
        """End the bodies and the processes of tools, and close connections."""
        async with AsyncExitStack() as closing:  # closes in reverse order; if one fails, the others are still closed
            if self._temporary is not None:
                closing.callback(self._temporary.cleanup)
            closing.push_async_callback(self._closing.aclose)
            made, self._made = self._made, {}
            for worker in made.values():
                closing.push_async_callback(worker.close)

    def _built(self) -> dict[str, Tool]:
        settings = self._settings
        made: list[Tool] = [FetchUrl(settings.fetch), LanguageModel(settings.model)]
        if settings.parameters is not None:
            made.append(ParameterStore(parameters_from(settings.parameters)))
        if settings.repos:
            made.append(ReadRepo(settings.repos))
        return {tool.name: self.replaced(self._cassette.wrap(tool)) for tool in made}

    def _worker(self, package: Package) -> PackagedWorker:
        key = package.name, package.contract.worker_id  # a file may declare several workers
        worker = self._made.get(key)
        if worker is None:
            worker = self._made[key] = PackagedWorker(
                package, self._settings.policy, self._built_in, partial(self._author_tool, package.contract.worker_id), self.server_limits
            )
        return worker

    def _author_tool(self, worker: str, declared: Declared, file: Path, paths: tuple[str, ...]) -> Tool:
        refusal = self.admits(worker, declared)
        if refusal is not None:
            return RefusedTool(declared, refusal)
        return self.replaced(self._cassette.wrap(AuthorTool(declared, file, self._host, self._secrets, paths)))

    async def _loaded(self, worker_id: str, package: str) -> Worker:
        """The worker with the code that an older run is pinned to. Raises WorkerChanged if the stored copy of this code has changed."""
        worker = self._made.get((package, worker_id))
        if worker is None:
            try:
                worker = self._worker(await in_thread(Purpose.HOUSE, self._packages.load, package, worker_id))
            except WorkerChanged as changed:
                _log.error("error[%s]: %s", changed.code, changed)
                raise
        self._old = [*(other for other in self._old if other is not worker), worker]
        for other in self._old[:-_OLD_WORKERS]:
            await other.rest()  # this does not end an attempt that runs
        return worker


def _file_of(worker: str | os.PathLike[str]) -> Path:
    """The file that a caller names: by its path, or, if there is no such file, by the id of a worker of Holdfast's library."""
    path = Path(worker)
    return path if path.exists() else find(os.fspath(worker)) or path


def _no_pipeline(page: Path) -> WorkerInvalid:
    """The error for a page that is given alone and is no pipeline, or that does not exist."""
    if not page.is_file():
        return WorkerInvalid(f"There is no file {page}.")
    with page.open("rb") as opened:
        problems = read(opened.read(MAX_PAGE_BYTES + 1)).errors
    agent = next((problem.message for problem in problems if problem.code == "agent_definition"), None)
    told = agent or "It has no `Pipeline spec`, so it is not a pipeline. A worker's page is served with its Python file."
    return WorkerInvalid(f"{page}: {told}")


def home_beside(store: str) -> Path | None:
    """The folder for the packages and artifacts of a store: beside its file; for a Postgres database, in the current folder. None for
    `:memory:`."""
    if store == ":memory:":
        return None
    return Path("holdfast.workers").absolute() if "://" in store else Path(f"{store}.workers").absolute()

"""The worker runtime: workers with their packages, tools and jails, wired to an engine. The only place that builds them."""

from __future__ import annotations

import asyncio
import logging
import os
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import msgspec

from holdfast.durable.execution import DurableFunction
from holdfast.engine.engine import Engine
from holdfast.files import private
from holdfast.hosts.sandbox.together import Together
from holdfast.hosts.toolhost.host import ToolHost
from holdfast.library import find
from holdfast.model.clock import SystemClock
from holdfast.model.errors import InvalidParameter
from holdfast.model.threads import Purpose, in_thread
from holdfast.service.observing import Signals, SignalSettings
from holdfast.workers.artifacts import Artifacts
from holdfast.workers.packages import Package, PackagedWorker, Packages, WorkerChanged
from holdfast.workers.policy import Policy
from holdfast.workers.running import Worker
from holdfast.workers.service import WorkerService
from holdfast.workers.storing.choice import open_storage
from holdfast.workers.storing.folder import Folder
from holdfast.workers.tools.author import AuthorTool
from holdfast.workers.tools.cassettes import Cassette, CassetteSettings
from holdfast.workers.tools.declaring import Declared
from holdfast.workers.tools.fetching import FetchSettings, FetchUrl
from holdfast.workers.tools.language_model import LanguageModel, ModelSettings
from holdfast.workers.tools.parameters import ParameterStore, parameters_from
from holdfast.workers.tools.refused import RefusedTool
from holdfast.workers.tools.seam import Tool
from holdfast.workers.tools.secrets import EnvironmentSecrets, Redactor, Secrets, secrets_from

_log = logging.getLogger("holdfast.service")
_OLD_WORKERS = 4
"""So many workers that only older runs need keep a stub and a spare; the others start them again when they are needed."""


class ToolSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Tools of workers' authors, which run outside the sandbox."""

    allow: tuple[str, ...] = ()
    """Those that `holdfast serve` may run: `TOOL`, or `WORKER:TOOL`."""

    def allows(self, worker: str, tool: str) -> bool:
        """Whether a tool of a worker is among them."""
        return tool in self.allow or f"{worker}:{tool}" in self.allow


class WorkerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the operator says about workers: limits and policy, and where tools find what they need."""

    policy: Policy = Policy()
    fetch: FetchSettings = FetchSettings()
    model: ModelSettings = ModelSettings()
    parameters: str | None = None
    """A TOML or JSON file for the tool `parameter_store`, or `ssm:/prefix/`."""
    secrets: tuple[str, ...] = ()
    """Files, folders or `ssm:/prefix/` that secrets of tools are looked for in, after the environment."""
    artifacts: str | None = None
    """Where artifacts lie: an address such as `s3://bucket/prefix`, or a folder; None: beside the store."""
    cassette: CassetteSettings = CassetteSettings()
    signals: SignalSettings = SignalSettings()
    tools: ToolSettings = ToolSettings()


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
        """Puts something in a tool's place; holdfast.testing does."""
        self.together = Together(settings.policy.bodies_memory_mb, settings.policy.bodies_processes)
        self.admits: Callable[[str, Declared], str | None] = lambda worker, tool: None
        """Why an author's tool may not run outside the sandbox, or None where it may. A program that opens an engine is the operator, so
        by itself every tool may; the command line asks whether its folder is trusted."""
        self._made: dict[tuple[str, str], PackagedWorker] = {}
        self._old: list[PackagedWorker] = []
        """Those that older runs needed, the latest last."""
        self._files = files
        self._found = self._read()
        if not self._found and files:
            raise InvalidParameter("There is no worker in these files.")

    @property
    def packages(self) -> Sequence[Package]:
        """What was found in the files."""
        return self._found

    async def open(self) -> WorkerService:
        """Everything that runs need, before the engine runs any."""
        settings = self._settings
        where = settings.artifacts  # tried first: when it is wrong, nothing has been opened yet
        storage = Folder(self._home / "artifacts") if where is None else await in_thread(Purpose.HOUSE, open_storage, where)
        self._host = ToolHost()
        self._secrets = Secrets([EnvironmentSecrets(os.environ), *(secrets_from(text) for text in settings.secrets)])
        self._cassette = Cassette(settings.cassette, Redactor({"model_key": settings.model.api_key or ""}))
        self._built_in = self._built()
        policy = settings.policy
        self.signals = Signals(settings.signals, SystemClock())
        kept = Artifacts(storage, policy.artifact_bytes)
        self.worker_service = WorkerService(policy=policy, artifacts=kept, find=self._loaded, observer=self.signals.observer)
        for package in self._found:
            known = self.worker_service.served.get(package.contract.worker_id, {}).get(package.contract.version)
            if known is not None and known.package != package.name:
                told = f"{package.contract.worker_id} {package.contract.version}"
                raise InvalidParameter(f"Two of these files declare {told}: give one of them another worker_id, or another version.")
            self.worker_service.serve(self._worker(package))
        return self.worker_service

    def functions(self) -> list[DurableFunction]:
        """The durable functions that the workers are."""
        return self.worker_service.functions()

    def attach(self, engine: Engine) -> None:
        """The engine runs now."""
        self.worker_service.attach(engine)

    def _read(self) -> list[Package]:
        return [package for file in self._files for package in self._packages.add(_file_of(file))]

    async def renew(self) -> Sequence[Package]:
        """Take in the files as they are now: what has changed is what new runs get, and runs that began stay with what they had."""
        known, found = {package.name for package in self._found}, await in_thread(Purpose.HOUSE, self._read)
        changed = [package for package in found if package.name not in known]
        for package in changed:
            if package.contract.worker_id not in self.worker_service.served:
                raise InvalidParameter(f"{package.contract.worker_id} is new here: start the server again to serve it.")
        for package in changed:
            self.worker_service.serve(self._worker(package))
        self._found = found
        current = {package.name for package in found}
        for worker in [worker for worker in self._made.values() if worker.package not in current]:
            await worker.rest()
        return changed

    async def warm(self) -> None:
        """Have a spare of every worker ready, as its file is now."""
        await asyncio.gather(*(self._worker(package).warm() for package in self._found))

    async def close(self) -> None:
        """End bodies, tool processes and connections."""
        async with AsyncExitStack() as closing:  # the last one pushed is closed first; one that fails keeps none of the others open
            if self._temporary is not None:
                closing.callback(self._temporary.cleanup)
            closing.push_async_callback(in_thread, Purpose.HOUSE, self.signals.close)
            for tool in self._built_in.values():
                close = getattr(tool, "close", None)
                if close is not None:
                    closing.push_async_callback(close)
            closing.push_async_callback(self._host.close)
            for worker in self._made.values():
                closing.push_async_callback(worker.close)

    def _built(self) -> dict[str, Tool]:
        settings = self._settings
        made: list[Tool] = [FetchUrl(settings.fetch), LanguageModel(settings.model)]
        if settings.parameters is not None:
            made.append(ParameterStore(parameters_from(settings.parameters)))
        return {tool.name: self.replaced(self._cassette.wrap(tool)) for tool in made}

    def _worker(self, package: Package) -> PackagedWorker:
        key = package.name, package.contract.worker_id  # a file may declare several
        worker = self._made.get(key)
        if worker is None:
            worker = self._made[key] = PackagedWorker(
                package, self._settings.policy, self._built_in, partial(self._author_tool, package.contract.worker_id), self.together
            )
        return worker

    def _author_tool(self, worker: str, declared: Declared, file: Path, paths: tuple[str, ...]) -> Tool:
        refusal = self.admits(worker, declared)
        if refusal is not None:
            return RefusedTool(declared, refusal)
        return self.replaced(self._cassette.wrap(AuthorTool(declared, file, self._host, self._secrets, paths)))

    async def _loaded(self, worker_id: str, package: str) -> Worker:
        """The worker that an older run is pinned to."""
        worker = self._made.get((package, worker_id))
        if worker is None:
            try:
                worker = self._worker(await in_thread(Purpose.HOUSE, self._packages.load, package, worker_id))
            except WorkerChanged as changed:
                _log.error("error[%s]: %s", changed.code, changed)
                raise
        self._old = [*(other for other in self._old if other is not worker), worker]
        for other in self._old[:-_OLD_WORKERS]:
            await other.rest()  # unless it is at work
        return worker


def _file_of(worker: str | os.PathLike[str]) -> Path:
    """A worker's file: the one of that path, else the library's worker of that id."""
    path = Path(worker)
    return path if path.exists() else find(os.fspath(worker)) or path


def home_beside(store: str) -> Path | None:
    """Where snapshots and artifacts of a store are kept: beside its file, or for a database in the current folder; nowhere for memory."""
    if store == ":memory:":
        return None
    return Path("holdfast.workers").absolute() if "://" in store else Path(f"{store}.workers").absolute()

"""Packages: reads a worker's file and page without running the file, and stores a snapshot of all files that the worker's body may see. A
run is pinned to a snapshot.

A package is named `HASH/module.py`: the hash of all files that the body may see, and the file that contains the body. Two packages with the
same name have the same code.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import SourceFileLoader
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import TYPE_CHECKING

import msgspec

from holdfast.contract.page_reader import read
from holdfast.contract.refusals import ContractInvalid
from holdfast.contract.terms import Contract, RunLimits
from holdfast.hosts.sandbox.admitted_files import check_page
from holdfast.hosts.sandbox.jail import Jail, TighterLimits
from holdfast.hosts.sandbox.sandbox import Sandbox
from holdfast.hosts.sandbox.server_limits import ServerLimits
from holdfast.hosts.sandbox.snapshot import gather, intact, snapshot, stays_behind
from holdfast.hosts.sandbox.visible_folders import packages, readable
from holdfast.model.errors import Rejected
from holdfast.model.graphs import GraphText
from holdfast.model.operations import Kind
from holdfast.workers.attempt import Body
from holdfast.workers.inline import InlineBody
from holdfast.workers.policy import Policy
from holdfast.workers.tools.declarations import Declarations, Declared, DeclaredWorker, declarations_of
from holdfast.workers.tools.seam import Tool

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_ENTRY = "holdfast.workers.body.main:enter"
_PRELOAD = ("asyncio", "holdfast.workers.body.main")
MakeTool = Callable[[Declared, Path, tuple[str, ...]], Tool]


class WorkerInvalid(Rejected):
    """The file declares no worker that can be run: a file is missing, or a declaration has mistakes."""

    code = "worker_invalid"


class WorkerMissing(Rejected):
    """The code that a run is pinned to is not on this machine."""

    code = "worker_not_found"


class WorkerChanged(Rejected):
    """The snapshot of the code that a run is pinned to was changed on disk."""

    code = "package_changed"


class Kept(msgspec.Struct, frozen=True):
    """The snapshot of an author's file, together with all other files that its code may see."""

    folder: Path
    file: PurePosixPath

    @property
    def name(self) -> str:
        """The name of the package: `HASH/module.py`."""
        return f"{self.folder.name}/{self.file}"

    @property
    def module(self) -> str:
        """The name of the module that the sandbox imports."""
        return _module(self.file)


class Package(msgspec.Struct, frozen=True, kw_only=True):
    """One worker: what its file and its page say about it, and where the snapshot is."""

    name: str
    folder: Path
    file: PurePosixPath
    contract: Contract
    body: DeclaredWorker
    tools: tuple[Declared, ...]
    warnings: tuple[str, ...] = ()
    left_behind: tuple[str, ...] = ()
    """Modules beside the worker's file that its body does not get, each with the reason."""
    source: Path | None = None
    """The author's file; None for a package that was loaded from its snapshot."""

    @property
    def module(self) -> str:
        """The name of the module that the sandbox imports."""
        return _module(self.file)


def _module(file: PurePosixPath) -> str:
    return ".".join(file.with_suffix("").parts)


class Packages:
    """The snapshots of the code of workers, all in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def add(self, file: Path, *, needs_worker: bool = True) -> list[Package]:
        """Store a snapshot of a worker's file as the file is now. Returns one package for each worker that the file declares.

        Raises WorkerInvalid if the file or a page is missing, if a declaration is wrong, or, with `needs_worker`, if the file declares no
        worker. Raises ContractInvalid if a page is wrong. Raises IncludeRefused or InvalidParameter if a file may not be copied
        (`check_page`, `gather`).
        """
        if not file.is_file():
            raise WorkerInvalid(f"There is no file {file}.")
        declared = _declared(file.read_bytes(), str(file), needs_worker=needs_worker)
        found = []
        for body in declared.workers:
            page = check_page(file, body.page)
            if not page.is_file():
                raise WorkerInvalid(f"{file}, line {body.line}: the page {body.page} of {body.function} is not in the folder of the file.")
            kept = self.keep(file, [page], body.include)
            package = _package(kept.folder, kept.file, body, declared)
            found.append(msgspec.structs.replace(package, left_behind=tuple(stays_behind(file)), source=file))
        return found

    def keep(self, file: Path, pages: Sequence[Path] = (), include: Sequence[str] = ()) -> Kept:
        """Store a snapshot of a file as it is now, together with the modules beside it, the pages, and the files that `include` names."""
        files = gather(file, pages[0] if pages else None, include)
        for page in pages[1:]:
            files |= gather(file, page)
        inside = next(name for name, path in files.items() if path.resolve() == file.resolve())
        return Kept(snapshot(files, self._folder), PurePosixPath(inside))

    def find(self, name: str, what: str) -> Kept | None:
        """The snapshot with the package name `name`; None if it is not on this machine. Raises WorkerChanged if its files were changed:
        they do not fit the hash in its name. Blocks, because it reads all files. `what` names the code in the error."""
        hashed, _, inside = name.partition("/")
        folder, file = self._folder / hashed, PurePosixPath(inside)
        if not hashed.isalnum() or file.is_absolute() or ".." in file.parts or not (folder / file).is_file():
            return None
        if not intact(folder):
            raise WorkerChanged(
                f"The code of {what} in {folder} was changed after the run began, so it is not run. "
                "Restore that folder from a backup, or start a new run."
            )
        return Kept(folder, file)

    def load(self, name: str, worker_id: str) -> Package:
        """The package with this name, which a run of the worker `worker_id` is pinned to. Raises WorkerMissing if the package is not on
        this machine or does not declare this worker, and WorkerChanged if its files were changed. Raises WorkerInvalid or ContractInvalid
        if this version of Holdfast does not accept its file or its page. Blocks, because it reads all files."""
        kept = self.find(name, f"this run of {worker_id}")
        if kept is not None:
            declared = _declared((kept.folder / kept.file).read_bytes(), name)
            for package in (_package(kept.folder, kept.file, body, declared) for body in declared.workers):
                if package.contract.worker_id == worker_id:
                    return package
        raise WorkerMissing(
            f"The code of this run of {worker_id}, {name!r:.200}, is not on this machine. Copy the snapshots here, or start a new run."
        )


def _declared(source: bytes, where: str, *, needs_worker: bool = True) -> Declarations:
    declared = declarations_of(source)
    if declared.problems:
        told = "\n".join(f"{where}, line {problem.line}: {problem.message}" for problem in declared.problems)
        raise WorkerInvalid(told)
    if needs_worker and not declared.workers:
        raise WorkerInvalid(f'{where} declares no worker: mark its function with @worker("page.md").')
    return declared


def _package(folder: Path, file: PurePosixPath, body: DeclaredWorker, declared: Declarations) -> Package:
    page = PurePosixPath(body.page).name
    reading = read((folder / page).read_text(encoding="utf-8", errors="replace"))
    if reading.contract is None:
        told = "\n".join(f"{body.page}: {problem}" for problem in reading.errors)
        raise ContractInvalid(told, reading.errors)
    return Package(
        name=f"{folder.name}/{file}",
        folder=folder,
        file=file,
        contract=reading.contract,
        body=body,
        tools=declared.tools,
        warnings=tuple(map(str, reading.warnings)),
    )


class _Uncached(SourceFileLoader):
    """Loads a module without writing compiled code, because that would change the snapshot."""

    def set_data(self, path: str, data: ReadableBuffer, *, _mode: int = 0) -> None:
        """Write no compiled code."""


def imported(folder: Path, file: PurePosixPath) -> ModuleType:
    """Import the module of a snapshot into this process: for trusted code and for tests."""
    name, path = f"holdfast_inline_{folder.name[:16]}_{_module(file).replace('.', '_')}", str(folder / file)
    spec = importlib.util.spec_from_file_location(name, path, loader=_Uncached(name, path))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


class PackagedWorker:
    """A package with what its runs need: its tools, and a jail for its bodies."""

    def __init__(
        self, package: Package, policy: Policy, built_in: Mapping[str, Tool], make_tool: MakeTool, server_limits: ServerLimits | None = None
    ) -> None:
        self._package = package
        self._policy = policy
        self.contract = package.contract
        made = {declared.name: make_tool(declared, package.folder / package.file, (str(package.folder),)) for declared in package.tools}
        self.tools: Mapping[str, Tool] = {**built_in, **made}
        self.approvals = frozenset(declared.name for declared in package.tools if declared.approval)
        self._server_limits = server_limits
        self._jailed: Sandbox | None = None
        self._inline: Callable[..., object] | None = None

    @property
    def worker(self) -> PackagedWorker:
        """This object itself: it is both the served version (accept.ServedVersion) and the worker."""
        return self

    @property
    def kind(self) -> Kind:
        """Always a worker: a pipeline is not a package."""
        return Kind.WORKER

    @property
    def graph_text(self) -> GraphText | None:
        """Always None: a worker has no graph."""
        return None

    @property
    def package(self) -> str:
        """The name of the package that its runs are pinned to."""
        return self._package.name

    async def turn(self, tenant: str, seconds: float) -> None:
        """Wait until this tenant may start another body. Raises Overloaded if that takes longer than `seconds`. An inline body never
        waits."""
        if self._policy.isolation != "inline":
            await self._sandbox().turn(tenant, seconds)

    async def body(self, limits: RunLimits, timeout: float, tenant: str) -> Body:
        """Start a new body: in the jail, or in this process if the isolation is `inline`. Its time limit of `timeout` seconds begins with
        this call."""
        if self._policy.isolation == "inline":
            return InlineBody(self._function(), timeout)
        tighter = TighterLimits(memory_mb=limits.max_memory_mb, cpu_seconds=limits.max_cpu_seconds, no_children=not limits.allow_subprocess)
        return await self._sandbox().attempt(timeout, limits.idle_timeout_seconds, tighter, tenant=tenant)

    async def warm(self) -> None:
        """Start the jail, and a spare body if there is capacity for one, before the first request. Does nothing if the isolation is
        `inline`."""
        if self._policy.isolation != "inline":
            await self._sandbox().start()

    async def rest(self) -> None:
        """End the process that starts bodies in this worker's sandbox, and the spare body that waits there, unless an attempt of this
        worker is under way. The next attempt starts both again."""
        if self._jailed is not None:
            await self._jailed.rest()

    async def close(self) -> None:
        """End the jail of this worker and every body in it."""
        if self._jailed is not None:
            await self._jailed.close()

    def _sandbox(self) -> Sandbox:
        """The one jail of this worker, made at the first call. A request with tighter limits uses the same jail; its tighter limits hold
        only for the attempts of its run."""
        if self._jailed is None:
            self._jailed = Sandbox(self._jail(), self._server_limits)
        return self._jailed

    def _jail(self) -> Jail:
        policy, package, limits = self._policy, self._package, self.contract.limits
        return Jail(
            package=package.folder,
            entry=_ENTRY,
            arguments=(package.module, package.body.function),
            path=packages(),
            readable=readable(),
            preload=_PRELOAD,
            memory_mb=policy.memory_mb if limits.max_memory_mb is None else limits.max_memory_mb,
            cpu_seconds=limits.timeout_seconds if limits.max_cpu_seconds is None else limits.max_cpu_seconds,
            scratch_mb=policy.scratch_mb,
            allow_children=limits.allow_subprocess,
            isolation="process" if policy.isolation == "process" else "all",
        )

    def _function(self) -> Callable[..., object]:
        """The body's function, imported into this process: for trusted workers and for tests."""
        if self._inline is None:
            module = imported(self._package.folder, self._package.file)
            self._inline = getattr(module, self._package.body.function)
        return self._inline

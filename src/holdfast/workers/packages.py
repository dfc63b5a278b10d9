"""Packages: a worker's file and page, read without running them, and the snapshot that a run is pinned to.

A package is named `HASH/module.py`: the content of everything the body may see, and where to begin. The same name is the same worker.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.machinery import SourceFileLoader
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import msgspec

from holdfast.contract.refusals import ContractInvalid
from holdfast.contract.renderings import read
from holdfast.contract.terms import Contract, Limits
from holdfast.hosts.sandbox.admitting import check_page
from holdfast.hosts.sandbox.description import Jail, Tighter
from holdfast.hosts.sandbox.sandbox import Sandbox
from holdfast.hosts.sandbox.snapshot import gather, intact, snapshot, stays_behind
from holdfast.hosts.sandbox.surroundings import packages, readable
from holdfast.hosts.sandbox.together import Together
from holdfast.model.errors import Rejected
from holdfast.workers.attempt import Body
from holdfast.workers.inline import InlineBody
from holdfast.workers.policy import Policy
from holdfast.workers.tools.declaring import Declarations, Declared, DeclaredWorker, declarations_of
from holdfast.workers.tools.seam import Tool

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_ENTRY = "holdfast.workers.body.main:enter"
_PRELOAD = ("asyncio", "holdfast.workers.body.main")
MakeTool = Callable[[Declared, Path, tuple[str, ...]], Tool]


class WorkerInvalid(Rejected):
    """The file declares no worker that can be run."""

    code = "worker_invalid"


class WorkerMissing(Rejected):
    """The code that a run is pinned to is not here."""

    code = "worker_not_found"


class WorkerChanged(Rejected):
    """The code that a run is pinned to is not what it was."""

    code = "package_changed"


class Package(msgspec.Struct, frozen=True, kw_only=True):
    """A worker as its files say."""

    name: str
    folder: Path
    file: PurePosixPath
    contract: Contract
    body: DeclaredWorker
    tools: tuple[Declared, ...]
    warnings: tuple[str, ...] = ()
    left_behind: tuple[str, ...] = ()
    """Modules beside the worker's own that its body does not get, each with the reason."""
    source: Path | None = None
    """The file as it lies with its author; None for a package that was found in its snapshot."""

    @property
    def module(self) -> str:
        """What the sandbox imports."""
        return ".".join(self.file.with_suffix("").parts)


class Packages:
    """Snapshots, all in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def add(self, file: Path) -> list[Package]:
        """Take in a worker's file as it is now; every worker it declares."""
        if not file.is_file():
            raise WorkerInvalid(f"There is no file {file}.")
        declared = _declared(file.read_bytes(), str(file))
        found = []
        for body in declared.workers:
            page = check_page(file, body.page)
            if not page.is_file():
                raise WorkerInvalid(f"{file}, line {body.line}: the page {body.page} of {body.function} is not beside it.")
            files = gather(file, page, body.include)
            kept = snapshot(files, self._folder)
            inside = next(name for name, path in files.items() if path.resolve() == file.resolve())
            package = _package(kept, PurePosixPath(inside), body, declared)
            found.append(msgspec.structs.replace(package, left_behind=tuple(stays_behind(file)), source=file))
        return found

    def load(self, name: str, worker_id: str) -> Package:
        """The package of this name, which some run is pinned to. Blocks: all of it is compared with its name before any of it runs."""
        hashed, _, inside = name.partition("/")
        folder, file = self._folder / hashed, PurePosixPath(inside)
        if hashed.isalnum() and not file.is_absolute() and ".." not in file.parts and (folder / file).is_file():
            if not intact(folder):
                raise WorkerChanged(
                    f"The code of this run of {worker_id} in {folder} is not what the run began with, so it is not run. "
                    "Restore that folder from a backup, or start the run anew."
                )
            declared = _declared((folder / file).read_bytes(), name)
            for package in (_package(folder, file, body, declared) for body in declared.workers):
                if package.contract.worker_id == worker_id:
                    return package
        raise WorkerMissing(f"The code of this run of {worker_id}, {name!r:.200}, is not on this machine.")


def _declared(source: bytes, where: str) -> Declarations:
    declared = declarations_of(source)
    if declared.problems:
        told = "\n".join(f"{where}, line {problem.line}: {problem.message}" for problem in declared.problems)
        raise WorkerInvalid(told)
    if not declared.workers:
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
    """Loads a module and keeps no compiled code of it: that would lie in the snapshot, which is what a run is pinned to."""

    def set_data(self, path: str, data: ReadableBuffer, *, _mode: int = 0) -> None:
        """Nothing is written."""


class PackagedWorker:
    """A package with everything its runs need: its tools, and a jail for its bodies."""

    def __init__(
        self, package: Package, policy: Policy, built_in: Mapping[str, Tool], make_tool: MakeTool, together: Together | None = None
    ) -> None:
        self._package = package
        self._policy = policy
        self.contract = package.contract
        made = {declared.name: make_tool(declared, package.folder / package.file, (str(package.folder),)) for declared in package.tools}
        self.tools: Mapping[str, Tool] = {**built_in, **made}
        self.approvals = frozenset(declared.name for declared in package.tools if declared.approval)
        self._together = together
        self._jailed: Sandbox | None = None
        self._inline: Callable[..., object] | None = None

    @property
    def worker(self) -> PackagedWorker:
        """It is its own worker."""
        return self

    @property
    def package(self) -> str:
        """The name its runs are pinned to."""
        return self._package.name

    async def body(self, limits: Limits, timeout: float) -> Body:
        """A fresh body in its jail."""
        if self._policy.isolation == "inline":
            return InlineBody(self._function(), timeout)
        tighter = Tighter(memory_mb=limits.max_memory_mb, cpu_seconds=limits.max_cpu_seconds, no_children=not limits.allow_subprocess)
        return await self._sandbox().attempt(timeout, limits.idle_timeout_seconds, tighter)

    async def warm(self) -> None:
        """Have a spare ready before the first request."""
        if self._policy.isolation != "inline":
            await self._sandbox().start()

    async def rest(self) -> None:
        """Keep nothing ready: nobody is expected to ask for this one."""
        if self._jailed is not None:
            await self._jailed.rest()

    async def close(self) -> None:
        """End every body and its jail."""
        if self._jailed is not None:
            await self._jailed.close()

    def _sandbox(self) -> Sandbox:
        """The one jail of this worker: what a request tightens holds for its attempt, and makes no jail of its own."""
        if self._jailed is None:
            self._jailed = Sandbox(self._jail(), self._together)
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
        """The body's function in this very process: for workers one trusts, and for tests."""
        if self._inline is None:
            import importlib.util
            import sys

            name, file = f"holdfast_inline_{self._package.folder.name[:16]}", str(self._package.folder / self._package.file)
            spec = importlib.util.spec_from_file_location(name, file, loader=_Uncached(name, file))
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            sys.modules[spec.name] = module
            spec.loader.exec_module(module)
            self._inline = getattr(module, self._package.body.function)
        return self._inline

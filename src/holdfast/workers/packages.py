"""Packages: a worker's file and page, read without running them, and the snapshot that a run is pinned to.

A package is named `HASH/module.py`: the content of everything the body may see, and where to begin. The same name is the same worker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath

import msgspec

from holdfast.contract.reading import read
from holdfast.contract.refusals import ContractInvalid
from holdfast.contract.terms import Contract, Limits
from holdfast.hosts.sandbox.description import Jail
from holdfast.hosts.sandbox.sandbox import Sandbox
from holdfast.hosts.sandbox.snapshot import gather, snapshot
from holdfast.hosts.sandbox.surroundings import packages, readable
from holdfast.model.errors import Rejected
from holdfast.workers.attempt import Body
from holdfast.workers.inline import InlineBody
from holdfast.workers.policy import Policy
from holdfast.workers.tools.declaring import Declarations, Declared, DeclaredWorker, declarations_of
from holdfast.workers.tools.seam import Tool

_ENTRY = "holdfast.workers.body.main:enter"
_MOST_JAILS = 4
_PRELOAD = ("asyncio", "holdfast.workers.body.main")
MakeTool = Callable[[Declared, Path, tuple[str, ...]], Tool]


class WorkerInvalid(Rejected):
    """The file declares no worker that can be run."""

    code = "worker_invalid"


class WorkerMissing(Rejected):
    """The code that a run is pinned to is not here."""

    code = "worker_not_found"


class Package(msgspec.Struct, frozen=True, kw_only=True):
    """A worker as its files say."""

    name: str
    folder: Path
    file: PurePosixPath
    contract: Contract
    body: DeclaredWorker
    tools: tuple[Declared, ...]
    warnings: tuple[str, ...] = ()

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
            page = file.parent / body.page
            if not page.is_file():
                raise WorkerInvalid(f"{file}, line {body.line}: the page {body.page} of {body.function} is not beside it.")
            files = gather(file, page, body.include)
            kept = snapshot(files, self._folder)
            inside = next(name for name, path in files.items() if path.resolve() == file.resolve())
            found.append(_package(kept, PurePosixPath(inside), body, declared))
        return found

    def load(self, name: str, worker_id: str) -> Package:
        """The package of this name, which some run is pinned to."""
        hashed, _, inside = name.partition("/")
        folder, file = self._folder / hashed, PurePosixPath(inside)
        if hashed.isalnum() and not file.is_absolute() and ".." not in file.parts and (folder / file).is_file():
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


class PackagedWorker:
    """A package with everything its runs need: its tools, and a jail for its bodies."""

    def __init__(self, package: Package, policy: Policy, built_in: Mapping[str, Tool], make_tool: MakeTool) -> None:
        self._package = package
        self._policy = policy
        self.contract = package.contract
        made = {declared.name: make_tool(declared, package.folder / package.file, (str(package.folder),)) for declared in package.tools}
        self.tools: Mapping[str, Tool] = {**built_in, **made}
        self.approvals = frozenset(declared.name for declared in package.tools if declared.approval)
        self._jails: dict[Jail, Sandbox] = {}
        self._closing: set[asyncio.Future[None]] = set()
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
        return await self._sandbox(limits).attempt(timeout, limits.idle_timeout_seconds)

    async def warm(self) -> None:
        """Have a spare ready before the first request."""
        if self._policy.isolation != "inline":
            await self._sandbox(self.contract.limits).start()

    async def rest(self) -> None:
        """Keep nothing ready: nobody is expected to ask for this one."""
        for sandbox in list(self._jails.values()):
            await sandbox.rest()

    async def close(self) -> None:
        """End every body and its jail."""
        for sandbox in self._jails.values():
            await sandbox.close()
        await asyncio.gather(*self._closing)

    def _sandbox(self, limits: Limits) -> Sandbox:
        """The jail for these limits. Requests may ask for ever new ones: of those nobody is in, only the latest are kept."""
        jail = self._jail(limits)
        sandbox = self._jails.pop(jail, None) or Sandbox(jail)
        others = [other for other, kept in self._jails.items() if kept.idle]
        for other in others[: max(0, len(self._jails) + 1 - _MOST_JAILS)]:
            closing = asyncio.ensure_future(self._jails.pop(other).close())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)
        self._jails[jail] = sandbox
        return sandbox

    def _jail(self, limits: Limits) -> Jail:
        policy, package = self._policy, self._package
        return Jail(
            package=package.folder,
            entry=_ENTRY,
            arguments=(package.module, package.body.function),
            path=packages(),
            readable=readable(),
            preload=_PRELOAD,
            memory_mb=limits.max_memory_mb or policy.memory_mb,
            cpu_seconds=limits.max_cpu_seconds or self.contract.limits.timeout_seconds,
            scratch_mb=policy.scratch_mb,
            allow_children=limits.allow_subprocess,
            isolation="process" if policy.isolation == "process" else "all",
        )

    def _function(self) -> Callable[..., object]:
        """The body's function in this very process: for workers one trusts, and for tests."""
        if self._inline is None:
            import importlib.util
            import sys

            spec = importlib.util.spec_from_file_location(
                f"holdfast_inline_{self._package.folder.name[:16]}", self._package.folder / self._package.file
            )
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            sys.modules[spec.name] = module
            spec.loader.exec_module(module)
            self._inline = getattr(module, self._package.body.function)
        return self._inline

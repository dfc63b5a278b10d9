"""Allowed tools of `holdfast serve` and `holdfast runner`: a tool of a worker's author runs only if the operator's file names it.

Unknown clients call a server, so it is not enough that one user trusts the folder of a worker at a terminal: `[tools] allow` names each
tool in a file that all operators of the server can read. If another user could change the folder of a tool, the tool does not run.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.author_files.author_code import author_code
from holdfast.cli.arguments import StorePlace
from holdfast.cli.consent import Consent, operators_settings, store_request
from holdfast.hosts.sandbox.snapshot import ours
from holdfast.operator.files import OperatorFiles
from holdfast.operator.folder_ownership import faults_of
from holdfast.operator.trust import ToolsNotAllowed, check_fit
from holdfast.service.runtimes.worker_runtime import ToolSettings, WorkerRuntime, WorkerSettings

if TYPE_CHECKING:
    from holdfast.workers.packages import Package
    from holdfast.workers.tools.declarations import Declared


def serve_settings(
    workers: Sequence[Path], place: StorePlace, isolation: str | None, config: Path | None, *, trust: bool
) -> tuple[WorkerSettings, OperatorFiles]:
    """The operator's settings for these workers, and the files from which they come. May ask the user for trust.

    If a worker has tools, and neither the command nor HOLDFAST_STORE names a store, the user must trust the current folder: without trust
    this raises TrustNeeded. Settings of the folder's holdfast.toml that need trust are ignored if the folder is not trusted.
    """
    has_tools = any(author_code(worker) is not None for worker in workers)
    return operators_settings(isolation, config, Consent(trust=trust), store_request(place) if has_tools else ())


class AllowedTools:
    """The tools that a server may run. Call `check` at the start, and again before the server reads changed files."""

    def __init__(self, runtime: WorkerRuntime, settings: WorkerSettings) -> None:
        self._runtime = runtime
        self._tools = settings.tools
        self._ready = {package.contract.worker_id for package in runtime.packages if _ready(package)}
        self._fit: set[str] = set()
        runtime.admits = self._admits

    def check(self) -> None:
        """Raise TrustRefused if a worker has tools and another user could change its folder or its files. A worker without tools may be in
        a folder that another user could change; if its file gets tools later, these tools do not run."""
        fit = set()
        for package in self._runtime.packages:
            source = package.source
            if source is None or _ready(package):
                continue
            code = author_code(source)
            if code is not None:
                check_fit(code.folder, code.files)
            if code is not None or not faults_of(source.resolve().parent, [source]):
                fit.add(package.contract.worker_id)
        self._fit = fit

    def _admits(self, worker: str, tool: Declared) -> str | None:
        if worker in self._ready or (worker in self._fit and self._tools.allows(worker, tool.name)):
            return None
        if worker not in self._fit and self._tools.allows(worker, tool.name):
            return f"Another user could change the folder of {worker}, so its tools do not run."
        return f'The operator of this server does not allow {tool.name}. To allow it: [tools] allow = ["{worker}:{tool.name}"].'


def check_allowed(packages: Iterable[Package], settings: WorkerSettings, files: OperatorFiles) -> None:
    """Raise ToolsNotAllowed if a worker could call a tool that the operator's file does not allow. The error shows the lines to add to that
    file. If the lines are already in a holdfast.toml that is ignored because its folder is not trusted, the error shows the command that
    trusts the folder."""
    missing = sorted({name for package in packages for name in not_allowed(package, settings.tools)})
    if missing:
        raise ToolsNotAllowed(_lines(missing, settings, files))


def not_allowed(package: Package, tools: ToolSettings) -> list[str]:
    """The tools that a worker could call and the operator does not allow, each as `WORKER:TOOL`, the form of `[tools] allow`."""
    if _ready(package):
        return []
    worker = package.contract.worker_id
    granted = {grant.name for grant in package.contract.limits.tools}  # a tool that the worker's page does not name never runs
    return [f"{worker}:{tool.name}" for tool in package.tools if tool.name in granted and not tools.allows(worker, tool.name)]


def _ready(package: Package) -> bool:
    return package.source is not None and ours(package.source)


def _lines(missing: list[str], settings: WorkerSettings, files: OperatorFiles) -> str:
    allowed = [*settings.tools.allow, *missing]
    told = [f"These tools run outside the sandbox, and the operator's file does not allow them: {', '.join(missing)}."]
    local = files.local
    if local is not None and files.whole is not None and all(files.whole.tools.allows(*_parts(name)) for name in missing):
        folder = local.resolve().parent
        told.append(f"{local} allows them, but this setting is ignored, because {folder} is not trusted.")
        told.append(f"If you trust what is there: {shlex.join(['holdfast', 'trust', str(folder)])} (or add --trust).")
    else:
        told += [f"In {files.file}, or in a file that --config names, write:", "[tools]", f"allow = {json.dumps(allowed)}"]
    return "\n".join(told)


def _parts(name: str) -> tuple[str, str]:
    worker, _, tool = name.rpartition(":")
    return worker, tool

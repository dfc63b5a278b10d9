"""The workers of `holdfast serve`: loads them, serves them over HTTP, prints them, and reloads changed files."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from holdfast.cli.terminal import print_table, printable, say
from holdfast.contract.checking import checker_of
from holdfast.contract.example_inputs import example_inputs
from holdfast.model.errors import DuplicateFunction, HoldfastError
from holdfast.model.threads import Purpose, in_thread

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.cli.allowed_tools import AllowedTools
    from holdfast.cli.arguments import StorePlace
    from holdfast.console.server_process import ServerProcess
    from holdfast.contract.terms import Contract
    from holdfast.durable.execution import DurableFunction
    from holdfast.lambda_api.serving import Serving
    from holdfast.lambda_api.templates.descriptions import FoundTargets
    from holdfast.queues.declarations import QueueTable
    from holdfast.server.subscribers import ServerSubscribers
    from holdfast.service.runtimes.worker_runtime import WorkerRuntime, WorkerSettings
    from holdfast.web.limits import WebLimits
    from holdfast.web.routing import Route

IsolationOption = Annotated[
    str | None,
    typer.Option(
        "--isolation",
        metavar="LEVEL",
        help="How workers are isolated: all (the default), process, or inline, which is no isolation. Without it: as holdfast.toml says.",
    ),
]


class ServeWorkers:
    """The workers of one server."""

    def __init__(self, runtime: WorkerRuntime, settings: WorkerSettings, allowing: AllowedTools) -> None:
        self.runtime = runtime
        self._allowing = allowing
        self._settings = settings
        self._isolation = settings.policy.isolation
        self._warming: asyncio.Task[None] | None = None

    @classmethod
    def of(cls, found: FoundTargets, place: StorePlace, isolation: str | None, config: Path | None, *, trust: bool) -> ServeWorkers | None:
        """The workers of the targets; None if the targets have none. May ask the user for trust.

        Raises ToolsNotAllowed, TrustNeeded or TrustRefused if a worker has tools that may not run. Raises DuplicateFunction if a worker has
        the same name as a function, or if several functions have the same name.
        """
        if not found.workers:
            return None
        from holdfast.author_files.worker_search import served_files
        from holdfast.cli.allowed_tools import AllowedTools, check_allowed, serve_settings
        from holdfast.service.runtimes.worker_runtime import WorkerRuntime, home_beside

        settings, files = serve_settings(served_files(found.workers), place, isolation, config, trust=trust)
        if find_spec("prometheus_client") is not None:
            settings = msgspec.structs.replace(settings, signals=msgspec.structs.replace(settings.signals, metrics=True))
        runtime = WorkerRuntime(found.workers, settings, home_beside(place.where))
        check_allowed(runtime.packages, settings, files)
        allowing = AllowedTools(runtime, settings)
        allowing.check()
        ids = {package.contract.worker_id for package in runtime.packages}
        names = [*ids, *(one.name for one in found.deployed), *{one.name for one in found.inline}]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise DuplicateFunction(f"Several targets have a worker or a function {', '.join(twice)}. Serve only one of them.")
        for package in runtime.packages:
            provided = [f"`{tool.name}` is not a built-in tool" for tool in package.tools]
            for warning in package.warnings:
                if any(known in warning for known in provided):
                    continue  # the worker's file declares this tool
                say(f"{package.contract.worker_id}: {printable(warning)}")
            for line in package.left_behind:
                say(f"warning: {package.contract.worker_id}: {printable(line)}")
        if settings.policy.isolation == "inline":
            say("warning: isolation is inline: workers run in this very process, see what it sees, and cannot be killed")
        return cls(runtime, settings, allowing)

    def routes(self, service: Serving, limits: WebLimits) -> Sequence[Route]:
        """The routes of the worker protocol. This call also begins to prepare a process for each worker, in a task."""
        from holdfast.server.protocol.routes import worker_routes
        from holdfast.server.protocol.served_workers import ServedWorkers

        self._warming = asyncio.create_task(self._warm())
        return worker_routes(ServedWorkers(self.runtime.worker_service, service.engine.store, service.engine.clock, limits))

    @property
    def queues(self) -> Mapping[str, QueueTable]:
        """The queues that the operator's file declares."""
        return self._settings.queues

    def metrics_text(self) -> str:
        """The metrics of workers, in the text format of Prometheus. Raises InvalidParameter if metrics are off."""
        return self.runtime.signals.metrics_text()

    async def _warm(self) -> None:
        """Prepare a process for each worker, so that the first request need not wait for it. If that fails, print the reason as a
        warning."""
        try:
            await self.runtime.warm()
        except HoldfastError as error:
            say(f"warning: error[{error.code}]: {error}")

    async def renew(self) -> None:
        """Reload changed files of workers. Calls of a new tool are refused if `[tools] allow` did not name it when the server started.

        Raises TrustRefused, and reloads nothing, if a worker has tools and another user could now change its folder. Raises the errors of
        `WorkerRuntime.renew` if a changed file has mistakes.
        """
        from holdfast.cli.allowed_tools import not_allowed

        await in_thread(Purpose.HOUSE, self._allowing.check)
        for package in await self.runtime.renew():
            say(f"{package.contract.worker_id} {package.contract.version} has changed; new runs get it")
            for name in not_allowed(package, self._settings.tools):
                say(f"warning: [tools] allow of the operator's file lacks {name}: its calls are refused until the server starts with it")
        await self._warm()

    async def leave(self) -> None:
        """Stop preparing processes for workers, if that still goes on."""
        if self._warming is not None:
            self._warming.cancel()
            await asyncio.gather(self._warming, return_exceptions=True)

    # --- output

    def print(self) -> None:
        """Print the served workers and pipelines and, unless the isolation is `inline`, the limits of the server."""
        contracts = [package.contract for package in self.runtime.packages]
        rows = [(one.worker_id, one.version, self._isolation, _limited(one)) for one in contracts]
        if rows:
            print_table(["WORKER", "VERSION", "ISOLATION", "LIMITS"], rows, folds="LIMITS")
        if pipelines := [(one.graph.pipeline_id, one.graph.version, str(len(one.graph.nodes))) for one in self.runtime.pipelines]:
            print_table(["PIPELINE", "VERSION", "NODES"], pipelines, folds="PIPELINE")
        if self._isolation != "inline":
            say(self.runtime.server_limits.described())

    def print_try(self, url: str, *, needs_credentials: bool) -> None:
        """Print a command that calls the first pipeline, else the first worker. It has example inputs, if these fit the schema."""
        served = [*(one.worker.contract for one in self.runtime.pipelines), *(package.contract for package in self.runtime.packages)]
        contract = served[0]
        token = " -H 'Authorization: Bearer TOKEN'" if needs_credentials else ""
        inputs = example_inputs(contract.input_schema)
        fits = checker_of(contract.input_schema).fits(inputs)
        body = json.dumps({"inputs": inputs}, ensure_ascii=False).replace("'", "'\\''")
        print("Try a worker with:" if fits else 'Try a worker; write its inputs into the file request.json, as {"inputs": {…}}:')
        data = f"'{printable(body)}'" if fits else "@request.json"
        print(f"  curl -s {url}/v1/workers/{contract.worker_id}/invoke{token} -d {data}")


def served_beside(
    workers: ServeWorkers | None, functions: Sequence[DurableFunction], service: Serving, subscribers: ServerSubscribers
) -> ServerProcess:
    """What this server serves, for the pages of its console."""
    from holdfast.console.server_process import ServerProcess

    runs, engine = None if workers is None else workers.runtime.worker_service, service.engine
    return ServerProcess(
        asyncio.get_running_loop(),
        workers=runs,
        functions=functions,
        look_for_work=engine.look_for_work,
        logs=service.logs.of_execution,
        dead_letters=subscribers.dead_letters,
    )


def _limited(contract: Contract) -> str:
    limits = contract.limits
    told = [f"{limits.timeout_seconds:g} s"]
    if limits.max_tokens is not None:
        told.append(f"{limits.max_tokens:,} tokens")
    if limits.max_cost_usd is not None:
        told.append(f"${limits.max_cost_usd}")
    if limits.tools:
        told.append("tools: " + " ".join(tool.name for tool in limits.tools))
    return ", ".join(told)

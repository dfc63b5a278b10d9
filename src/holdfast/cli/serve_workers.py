"""The workers of `holdfast serve`: hired, put on HTTP, shown, and renewed when their files change."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from holdfast.cli.terminal import print_table, printable, say
from holdfast.model.errors import DuplicateFunction, HoldfastError
from holdfast.model.threads import Purpose, in_thread

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.cli.allowing import Allowing
    from holdfast.cli.arguments import StorePlace
    from holdfast.contract.terms import Contract
    from holdfast.lambda_api.serving import Serving
    from holdfast.lambda_api.templates.descriptions import Found
    from holdfast.server.protocol.app import WorkerProtocol
    from holdfast.service.worker_runtime import WorkerRuntime, WorkerSettings
    from holdfast.web.app import App
    from holdfast.web.asgi import ASGIApp

IsolationOption = Annotated[
    str | None,
    typer.Option(
        "--isolation",
        metavar="LEVEL",
        help="How workers are locked in: all (the default), process, or inline, which is not at all. Without it: as holdfast.toml says.",
    ),
]
_EXAMPLES = {"string": "…", "integer": 1, "number": 1, "boolean": True, "array": [], "object": {}}


class Workers:
    """The workers of one server."""

    def __init__(self, runtime: WorkerRuntime, settings: WorkerSettings, allowing: Allowing) -> None:
        self.runtime = runtime
        self._allowing = allowing
        self._settings = settings
        self._isolation = settings.policy.isolation
        self._protocol: WorkerProtocol | None = None
        self._warming: asyncio.Task[None] | None = None

    @classmethod
    def of(cls, found: Found, place: StorePlace, isolation: str | None, config: Path | None, *, trust: bool) -> Workers | None:
        """Those that the targets have, if any. Inline they are only where the operator has said so, in a word or in his file."""
        if not found.workers:
            return None
        from holdfast.cli.allowing import Allowing, check_allowed, serve_settings
        from holdfast.service.worker_runtime import WorkerRuntime, home_beside

        settings, files = serve_settings(found.workers, place, isolation, config, trust=trust)
        if find_spec("prometheus_client") is not None:
            settings = msgspec.structs.replace(settings, signals=msgspec.structs.replace(settings.signals, metrics=True))
        runtime = WorkerRuntime(found.workers, settings, home_beside(place.where))
        check_allowed(runtime.packages, settings, files)
        allowing = Allowing(runtime, settings)
        allowing.check()
        ids = {package.contract.worker_id for package in runtime.packages}
        names = [*ids, *(one.name for one in found.deployed), *{one.name for one in found.inline}]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise DuplicateFunction(f"Several targets have a worker and a function {', '.join(twice)}. Serve one of them.")
        for package in runtime.packages:
            provided = [f"`{tool.name}` is no built-in tool" for tool in package.tools]
            for warning in package.warnings:
                if any(known in warning for known in provided):
                    continue  # its file has it
                say(f"{package.contract.worker_id}: {printable(warning)}")
            for line in package.left_behind:
                say(f"warning: {package.contract.worker_id}: {printable(line)}")
        if settings.policy.isolation == "inline":
            say("warning: isolation is inline: workers run in this very process, see what it sees, and cannot be killed")
        return cls(runtime, settings, allowing)

    def around(self, app: ASGIApp, service: Serving, main: App, functions: Callable[[], str]) -> ASGIApp:
        """The app with the worker protocol beside it; `functions` are the metrics of those, which /metrics shows after those of workers."""
        from holdfast.server.protocol.app import with_workers
        from holdfast.server.protocol.handling import Handling

        engine = service.engine

        def metrics() -> str:
            return self.runtime.signals.metrics_text() + functions()

        handling = Handling(self.runtime.worker_service, engine.store, engine.clock, limits=main.limits, metrics=metrics)
        self._protocol = with_workers(app, handling, main.request_id)
        self._warming = asyncio.create_task(self._warm())
        return self._protocol

    async def _warm(self) -> None:
        """Have a spare ready before the first request; whoever asks is told why that is not possible, and so is the operator."""
        try:
            await self.runtime.warm()
        except HoldfastError as error:
            say(f"warning: error[{error.code}]: {error}")

    async def renew(self) -> None:
        """Take in changed files. A folder that others could change by now is not taken in, and a tool that is new there is refused."""
        from holdfast.cli.allowing import not_allowed

        await in_thread(Purpose.HOUSE, self._allowing.check)
        for package in await self.runtime.renew():
            say(f"{package.contract.worker_id} {package.contract.version} has changed; new runs get it")
            for name in not_allowed(package, self._settings.tools):
                say(f"warning: [tools] allow of the operator's file lacks {name}: its calls are refused until the server starts with it")
        await self._warm()

    async def leave(self) -> None:
        """Nobody waits any longer."""
        if self._protocol is not None:
            self._protocol.close()
        if self._warming is not None:
            self._warming.cancel()
            await asyncio.gather(self._warming, return_exceptions=True)

    # --- what people see

    def print(self) -> None:
        """What is served."""
        contracts = [package.contract for package in self.runtime.packages]
        rows = [(one.worker_id, one.version, self._isolation, _limited(one)) for one in contracts]
        print_table(["WORKER", "VERSION", "ISOLATION", "LIMITS"], rows, folds="LIMITS")
        if self._isolation != "inline":
            say(self.runtime.together.told())

    def print_try(self, url: str, *, needs_credentials: bool) -> None:
        """A line to try the first of them with."""
        contract = self.runtime.packages[0].contract
        token = " -H 'Authorization: Bearer TOKEN'" if needs_credentials else ""
        body = json.dumps({"inputs": _example(contract.input_schema)}, ensure_ascii=False).replace("'", "'\\''")
        print("Try a worker with:")
        print(f"  curl -s {url}/v1/workers/{contract.worker_id}/invoke{token} -d '{printable(body)}'")


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


def _example(schema: dict[str, Any]) -> dict[str, Any]:
    """Inputs of the right names, for people to fill in."""
    known = schema.get("properties")
    required = schema.get("required")
    if not isinstance(known, dict) or not isinstance(required, list):
        return {}
    return {name: _value(known.get(name)) for name in required if isinstance(name, str)}


def _value(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return "…"
    for word in ("examples", "enum"):
        if isinstance(schema.get(word), list) and schema[word]:
            return schema[word][0]
    kind = schema.get("type")
    return _EXAMPLES.get(kind if isinstance(kind, str) else "", "…")

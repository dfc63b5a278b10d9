"""`holdfast serve`: Lambda's API for functions of templates, Python files and folders, and the worker protocol for workers.

find → open → deploy → listen → (reload) → drain
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import typer

from holdfast.cli.arguments import CodecOption, ConfigOption, StoreOption, StorePlace, TrustOption
from holdfast.cli.function_logs import FunctionLogPrinter, print_function_logs, set_function_log_level
from holdfast.cli.keys_secret import with_taken
from holdfast.cli.operators_queues import operators_queues
from holdfast.cli.serve_console import console_routes
from holdfast.cli.serve_output import print_served
from holdfast.cli.serve_schedules import ServerDeclarations, schedules_of_file
from holdfast.cli.serve_workers import IsolationOption, ServeWorkers, served_beside
from holdfast.cli.server_loop import server_loop
from holdfast.cli.terminal import printable, say, warn_of_root
from holdfast.model.clock import SystemClock
from holdfast.model.errors import HoldfastError, InvalidParameter
from holdfast.model.threads import Purpose, in_thread
from holdfast.service.settings import Settings

if TYPE_CHECKING:
    from holdfast.lambda_api.runtime.process_output import OutputLine
    from holdfast.lambda_api.serving import Serving
    from holdfast.lambda_api.templates.descriptions import FoundTargets
    from holdfast.lambda_api.templates.file_watch import FileStamps
    from holdfast.schedules.declarations import Schedule
    from holdfast.service.runtimes.function_signals import FunctionSignals
    from holdfast.web.auth.gate import Gate
    from holdfast.web.limits import WebLimits
    from holdfast.web.routing import Route

DRAIN_SECONDS: Final = 5.0
LOG_MEGABYTES: Final = 256
LOG_DAYS: Final = 14
_ANSWER_SECONDS: Final = 2
_HARD_SPACE: Final = "\u00a0"
"""The character with which Lambda indents tracebacks."""
_KEPT_VERSIONS: Final = 20
"""With --reload, each change makes a new version of a function. The versions with the highest numbers are kept, this many. An older
version is kept only if an alias names it or an execution runs it."""


TargetsArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="TARGET...",
        help="A SAM or CloudFormation template, a Python file or module with durable functions, a worker's file or the id of a ready"
        " worker, or a folder with such files.",
    ),
]
HostOption = Annotated[str, typer.Option("--host", metavar="ADDRESS", help="The address to listen on. Any but loopback needs credentials.")]
PortOption = Annotated[int, typer.Option("--port", metavar="PORT", help="The port to listen on; 0 takes any free port.", min=0, max=65535)]
HostsOption = Annotated[
    list[str] | None,
    typer.Option("--allow-host", metavar="NAME", help="Another host name of this server. May be given several times."),
]
OriginsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-origin", metavar="ORIGIN", help="A web origin that may use the server, like https://a.example. May be given several times."
    ),
]
MegabytesOption = Annotated[
    int, typer.Option("--log-megabytes", metavar="N", help="How many megabytes of function logs are kept in all; 0 keeps none.", min=0)
]
DaysOption = Annotated[int, typer.Option("--log-days", metavar="N", help="How many days function logs are kept.", min=1, max=3650)]
ParametersOption = Annotated[
    list[str] | None, typer.Option("--parameter", metavar="NAME=VALUE", help="A template's parameter. May be given several times.")
]
SignalsOption = Annotated[
    str | None, typer.Option("--signals", metavar="FILE", help="A TOML file of sinks, which are told when executions begin and end.")
]


class ServeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of the command line."""

    targets: Sequence[str]
    host: str
    port: int
    place: StorePlace
    reload: bool
    parameters: Mapping[str, str]
    isolation: str | None
    config: Path | None
    trust: bool
    allow_deploy: bool = False
    allowed_hosts: Sequence[str] = ()
    allowed_origins: Sequence[str] = ()
    signals: str | None = None
    log_megabytes: int = LOG_MEGABYTES
    log_days: int = LOG_DAYS
    when_served: Callable[[str, ServeWorkers | None], Awaitable[None]] | None = None
    """Called with the server's address and its workers as soon as the server listens."""


def serve(
    targets: TargetsArgument = None,
    host: HostOption = "127.0.0.1",
    port: PortOption = 9001,
    reload: Annotated[bool, typer.Option("--reload", help="Publish changed code as a new version, while it is served.")] = False,
    allow_deploy: Annotated[
        bool, typer.Option("--allow-deploy", help="Let every user of this machine deploy functions if no credentials are needed.")
    ] = False,
    allow_host: HostsOption = None,
    allow_origin: OriginsOption = None,
    signals: SignalsOption = None,
    log_megabytes: MegabytesOption = LOG_MEGABYTES,
    log_days: DaysOption = LOG_DAYS,
    parameter: ParametersOption = None,
    isolation: IsolationOption = None,
    trust: TrustOption = False,
    config: ConfigOption = None,
    store: StoreOption = None,
    codec: CodecOption = None,
) -> None:
    """Serve functions as AWS Lambda does, so that AWS's own clients and SDKs can use them, and workers over HTTP.

    Ctrl-C or SIGTERM ends the server: it waits at most 5 seconds until running work can be stopped. That work goes on in another runner of
    the store, or when the store is served again.
    """
    if not targets and not allow_deploy:
        raise InvalidParameter("There is nothing to serve: name a template, a Python file, a worker or a folder, or use --allow-deploy.")
    options = ServeOptions(
        targets=targets or (),
        host=host,
        port=port,
        place=StorePlace.of(store, codec),
        reload=reload,
        allow_deploy=allow_deploy,
        allowed_hosts=allow_host or (),
        allowed_origins=allow_origin or (),
        signals=signals,
        log_megabytes=log_megabytes,
        log_days=log_days,
        parameters=read_parameters(parameter or ()),
        isolation=isolation,
        config=config,
        trust=trust,
    )
    serve_until_told(options)


def serve_until_told(options: ServeOptions) -> None:
    """Serve until Ctrl-C or SIGTERM ends the server. Raises ExtraMissing if the packages of `holdfast[server]` are not installed."""
    new_loop = server_loop("holdfast serve")
    began = SystemClock().now()
    found = _find(options)
    # The command may ask for trust here, and Ctrl-C ends the question.
    workers = ServeWorkers.of(found, options.place, options.isolation, options.config, trust=options.trust)
    schedules = () if workers is not None else schedules_of_file(options.isolation, options.config, trust=options.trust)
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(_serve(options, found, workers, schedules, began))


def read_parameters(given: Sequence[str]) -> dict[str, str]:
    """The parameters of templates by name, from texts NAME=VALUE. Raises InvalidParameter for another text."""
    found = {}
    for one in given:
        name, equals, value = one.partition("=")
        if not name or not equals:
            raise InvalidParameter(f"--parameter: {one!r} is not NAME=VALUE.")
        found[name] = value
    return found


async def _serve(
    options: ServeOptions, found: FoundTargets, workers: ServeWorkers | None, schedules: Sequence[Schedule], began: int
) -> None:
    """`began`: when this process began to read the files of the targets."""
    from holdfast.lambda_api.logs.segments import LogRetention
    from holdfast.lambda_api.routes.app import make_app
    from holdfast.lambda_api.serving import open_serving
    from holdfast.lambda_api.templates.file_watch import look
    from holdfast.server.subscribers import ServerSubscribers
    from holdfast.service.runtimes.function_signals import FunctionSignals
    from holdfast.web.limits import WebLimits
    from holdfast.web.listener import listening

    leaving = told_to_leave()
    warn_of_root()
    measured = FunctionSignals(os.environ)
    operators = operators_queues(options.config, trust=options.trust) if workers is None else workers.queues
    declared = ServerDeclarations(operators, schedules)
    settings = Settings(store=options.place.where, codec=options.place.codec(), observers=measured.observers, queues=declared.queues(found))
    subscribers = ServerSubscribers.read(options.signals, os.environ, settings.clock)
    set_function_log_level()
    print_function_logs(FunctionLogPrinter())
    opening = open_serving(
        found.inline,
        settings=settings,
        private_app=make_app,
        subscribers=subscribers.subscribers,
        log=print_lines,
        retention=LogRetention(max_bytes=options.log_megabytes * 1024 * 1024, max_days=options.log_days),
        runtime=None if workers is None else workers.runtime,
    )
    with contextlib.closing(_listener(options)) as listener:
        async with subscribers, measured, opening as service, contextlib.AsyncExitStack() as beside:
            gate, limits = _gate(options, service), WebLimits()
            served = served_beside(workers, found.inline, service, subscribers)
            pages = await beside.enter_async_context(console_routes(settings, gate, service.engine.clock, served))
            more = _routes(service, settings, measured, workers, limits)
            more += [*subscribers.routes(service.engine.store), *pages]
            app = make_app(service.api, more=more, limits=limits, gate=gate)
            seen = await in_thread(Purpose.HOUSE, look, found.watched, service.leave_out, began) if options.reload else None
            for described in found.deployed:
                await service.deploy(described, service.first_look)
            declared.declare(service, workers, found)
            async with listening(app, listener, drain_seconds=_ANSWER_SECONDS):
                url = url_of(options.host, listener.getsockname()[1])
                print_served(options.place.where, service, url, gate, workers, deploys=options.allow_deploy)
                if options.when_served is not None:
                    await options.when_served(url, workers)
                await _until(leaving, options, service, found, workers, declared, seen)
                subscribers.end()
                app.close()
                if workers is not None:
                    await workers.leave()
            await gate.close()
            say("leaving: waiting until running work can be stopped")
            if not await service.drain(DRAIN_SECONDS):
                say("some of it could not be stopped in time; it goes on from its last checkpoint when the store is served again")


def _routes(
    service: Serving, settings: Settings, measured: FunctionSignals, workers: ServeWorkers | None, limits: WebLimits
) -> list[Route]:
    """The routes beside Lambda's own: deploys, logs, queues, workers, metrics and schedules."""
    from holdfast.lambda_api.routes.deploy import DeployRoutes
    from holdfast.lambda_api.routes.logs import LogRoutes
    from holdfast.server.metrics import MetricsRoutes
    from holdfast.server.protocol.queues import Queues
    from holdfast.server.schedules import ScheduleRoutes

    found: list[Route] = [*DeployRoutes(service).routes(), *LogRoutes(service.logs).routes()]
    measured.watch(service.engine.store, service.engine.clock)
    found += Queues(service.engine, settings.ids, None if workers is None else workers.runtime.worker_service).routes()
    if workers is None:
        found += MetricsRoutes(measured.text).routes()
    else:
        found += [*workers.routes(service, limits), *MetricsRoutes(lambda: workers.metrics_text() + measured.text()).routes()]
    found += ScheduleRoutes(service.engine.store, service.engine.clock, service.engine.look_for_work).routes()
    return found


def _gate(options: ServeOptions, service: Serving) -> Gate:
    from holdfast.web.auth.gate import open_gate
    from holdfast.web.auth.secret import KeysSecrets

    return open_gate(
        service.engine.store,
        host=options.host,
        clock=service.engine.clock,
        allow_deploy=options.allow_deploy,
        hosts=options.allowed_hosts,
        origins=options.allowed_origins,
        secrets=KeysSecrets(with_taken(), options.place.where),
    )


def _listener(options: ServeOptions) -> socket.socket:
    from holdfast.web.listener import bound

    try:
        return bound(options.host, options.port)
    except OSError as error:
        raise cannot_listen(options.host, options.port, error) from None


def cannot_listen(host: str, port: int, error: OSError, option: str = "--port") -> InvalidParameter:
    """The error of an address on which no server can listen, with what to do. `option` is the option that names the port."""
    cures = {errno.EADDRINUSE: f"Name another port with {option}, 0 for any free one, or end the program that listens there."}
    cures[errno.EACCES] = f"A port below 1024 needs a privilege: name another with {option}."
    cure = cures.get(error.errno or 0, "Name an address of this machine with --host.")
    return InvalidParameter(f"{host}:{port} cannot be listened on: {error.strerror}. {cure}")


def _find(options: ServeOptions, warned: Sequence[str] = ()) -> FoundTargets:
    """The functions and workers of the targets. Prints warnings about them, except those in `warned`."""
    from holdfast.lambda_api.templates.targets import find_all

    with contextlib.redirect_stdout(sys.stderr):
        found = find_all(options.targets, options.parameters, processes=options.reload)
    for warning in found.warnings:
        if warning not in warned:
            say(f"warning: {printable(warning)}")
    if options.reload:  # every change becomes a new version
        found = msgspec.structs.replace(found, deployed=tuple(msgspec.structs.replace(one, publish=True) for one in found.deployed))
    return found


def told_to_leave() -> asyncio.Event:
    """An event that SIGTERM or Ctrl-C sets. A second signal ends the program at once; that loses nothing that was acknowledged."""
    leaving = asyncio.Event()
    loop = asyncio.get_running_loop()

    def leave() -> None:
        leaving.set()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, leave)
    return leaving


async def _until(
    leaving: asyncio.Event,
    options: ServeOptions,
    service: Serving,
    found: FoundTargets,
    workers: ServeWorkers | None,
    declared: ServerDeclarations,
    seen: FileStamps | None,
) -> None:
    """Wait until the server must leave. With --reload, publish changes of the files meanwhile. `seen`: the files as they were before the
    server read them."""
    if not options.reload:
        await leaving.wait()
        return
    from holdfast.lambda_api.functions.function_folder import CodeCache
    from holdfast.lambda_api.templates.file_watch import changes

    async def reload() -> None:
        watched, warned = [*found.watched], found.warnings
        async for _ in changes(watched, service.leave_out, seen):
            try:
                current = await in_thread(Purpose.HOUSE, _find, options, warned)
                watched[:], warned = current.watched, current.warnings
                looked = CodeCache()
                for described in current.deployed:
                    before = service.deployed.entry(described.name)
                    after = await service.deploy(described, looked)
                    if before is None or before.last != after.last:
                        say(f"{described.name} is version {after.last} now")
                        await service.forget_old(described.name, _KEPT_VERSIONS)
                if workers is not None:
                    await workers.renew()
                declared.declare(service, workers, current)
            except HoldfastError as error:
                say(f"not reloaded: error[{error.code}]: {error}")

    reloading = asyncio.create_task(reload())
    ending = asyncio.create_task(leaving.wait())
    try:
        await asyncio.wait({reloading, ending}, return_when=asyncio.FIRST_COMPLETED)
        if reloading.done():
            reloading.result()
    finally:
        reloading.cancel()
        ending.cancel()


# --- output


def url_of(host: str, port: int) -> str:
    """The address at which a browser on this machine reaches a server with this host and port."""
    reached = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{reached}]:{port}" if ":" in reached else f"http://{reached}:{port}"


def print_lines(lines: list[OutputLine]) -> None:
    """Print the output of functions to stderr, because stdout is for the command's own result."""
    for line in lines:
        for part in line.text.splitlines() or [""]:  # a record may have several lines
            say(f"{line.function}: {printable(part.replace(_HARD_SPACE, ' ').expandtabs(4).rstrip())}")

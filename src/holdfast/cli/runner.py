"""`holdfast runner`: runs functions, workers and pipelines of a store, without HTTP. Any number of runners may share a store.

find → choose → open → (work) → drain
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from holdfast.cli import completion
from holdfast.cli.arguments import CodecOption, ConfigOption, StoreOption, StorePlace, TrustOption
from holdfast.cli.function_logs import FunctionLogPrinter, print_function_logs, set_function_log_level
from holdfast.cli.operators_queues import operators_queues
from holdfast.cli.runner_metrics import metrics_page
from holdfast.cli.serve import DRAIN_SECONDS, told_to_leave
from holdfast.cli.serve_schedules import schedules_of_file, warn_of_left_over
from holdfast.cli.serve_workers import IsolationOption, ServeWorkers
from holdfast.cli.terminal import print_table, printable, say, warn_of_root
from holdfast.model.errors import FunctionNotFound, InvalidParameter
from holdfast.model.places import Only, checked_queue
from holdfast.queues.declarations import declared_together
from holdfast.queues.store_queues import meant_queue
from holdfast.service.drain import drained
from holdfast.service.engines import EngineOpening
from holdfast.service.engines import open as open_engine
from holdfast.service.runtimes.function_signals import FunctionSignals
from holdfast.service.settings import Settings
from holdfast.store.seam import Hosted, QueueStore
from holdfast.store.shown_address import shown

if TYPE_CHECKING:
    from holdfast.lambda_api.templates.descriptions import FoundTargets

RunnerTargetsArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="TARGET...",
        help="A Python file or module with durable functions, a file of workers or pipelines, the id of a ready worker, or a folder.",
    ),
]
FunctionOption = Annotated[
    list[str] | None,
    typer.Option(
        "--function", metavar="NAME", help="Run only this function. May be given several times.", autocompletion=completion.functions
    ),
]
OnlyWorkersOption = Annotated[
    list[str] | None, typer.Option("--worker", metavar="ID", help="Run only this worker. May be given several times.")
]
PipelineOption = Annotated[
    list[str] | None,
    typer.Option("--pipeline", metavar="ID", help="Run only this pipeline, and the workers of its nodes. May be given several times."),
]
QueueOption = Annotated[
    list[str] | None,
    typer.Option(
        "--queue",
        metavar="NAME",
        help="Take only runs of this queue, and what they invoke; leave all schedules to other runners. May be given several times.",
        autocompletion=completion.queues,
    ),
]
TenantOption = Annotated[
    list[str] | None,
    typer.Option(
        "--tenant",
        metavar="NAME",
        help="Take runs and schedules of this tenant only. May be given several times.",
        autocompletion=completion.tenants,
    ),
]
AtOnceOption = Annotated[
    int | None,
    typer.Option("--at-once", metavar="N", min=1, max=100_000, help="Run at most this many at once, functions and workers together."),
]


MetricsPortOption = Annotated[
    int | None,
    typer.Option(
        "--metrics-port",
        metavar="PORT",
        min=0,
        max=65535,
        help="Show the metrics at http://127.0.0.1:PORT/metrics, to every user of this machine; 0 takes any free port.",
    ),
]


class RunnerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of the command line."""

    targets: Sequence[str]
    functions: Collection[str]
    workers: Collection[str]
    pipelines: Collection[str]
    only: Only | None
    at_once: int | None
    place: StorePlace
    isolation: str | None
    config: Path | None
    trust: bool
    metrics_port: int | None

    @property
    def chosen(self) -> frozenset[str] | None:
        """The names of functions, workers and pipelines that the user chose to run; None if the user chose none: then everything that the
        targets have is run."""
        return frozenset((*self.functions, *self.workers, *self.pipelines)) or None


def runner(
    targets: RunnerTargetsArgument,
    function: FunctionOption = None,
    worker: OnlyWorkersOption = None,
    pipeline: PipelineOption = None,
    queue: QueueOption = None,
    tenant: TenantOption = None,
    at_once: AtOnceOption = None,
    isolation: IsolationOption = None,
    trust: TrustOption = False,
    config: ConfigOption = None,
    metrics_port: MetricsPortOption = None,
    store: StoreOption = None,
    codec: CodecOption = None,
) -> None:
    """Run what waits in a store: queued runs, timers, and what other runners left. Without --metrics-port it listens on no port.

    A runner is like a `celery worker` of Celery, or a process after DBOS.launch(). Start as many as you like, together with `holdfast
    serve` and with programs that open the same store. `--queue` is Celery's -Q, `--at-once` its -c.

    Ends with Ctrl-C or SIGTERM: it takes nothing new, waits a few seconds for what runs, and leaves the rest to other runners.
    """
    only = Only(frozenset(map(checked_queue, queue or ())), frozenset(tenant or ()))
    options = RunnerOptions(
        targets=targets,
        functions=function or (),
        workers=worker or (),
        pipelines=pipeline or (),
        only=only if only != Only() else None,
        at_once=at_once,
        place=StorePlace.of(store, codec),
        isolation=isolation,
        config=config,
        trust=trust,
        metrics_port=metrics_port,
    )
    options.place.check_lasting("A store in memory belongs to one program, and has nothing that a runner could run.")
    found = _found(options)
    workers = ServeWorkers.of(found, options.place, options.isolation, options.config, trust=options.trust)
    _check_chosen(options, found, workers)
    try:
        from uvloop import new_event_loop
    except ImportError:  # only `holdfast[server]` brings it
        from asyncio import new_event_loop  # type: ignore[assignment]
    with asyncio.Runner(loop_factory=new_event_loop) as loop:
        loop.run(_run(options, found, workers))


def _found(options: RunnerOptions) -> FoundTargets:
    """The functions and workers of the targets. Raises InvalidParameter if a target is a template: only a server runs its functions."""
    from holdfast.lambda_api.templates.targets import find_all

    with contextlib.redirect_stdout(sys.stderr):
        found = find_all(options.targets, {})
    for warning in found.warnings:
        say(f"warning: {printable(warning)}")
    if found.deployed:
        names = ", ".join(one.name for one in found.deployed[:5])
        raise InvalidParameter(
            f"{names}: functions of templates run in `holdfast serve`. A runner takes Python files, modules and workers."
        )
    return found


def _check_chosen(options: RunnerOptions, found: FoundTargets, workers: ServeWorkers | None) -> None:
    """Raise FunctionNotFound for a chosen name that the targets do not have: otherwise the runner would wait for ever, and the user would
    not see the mistake. If the targets have workers, names of pipelines are checked later, when these are loaded."""
    runtime = None if workers is None else workers.runtime
    ids = set() if runtime is None else {package.contract.worker_id for package in runtime.packages}
    kinds: tuple[tuple[str, Collection[str], Collection[str] | None], ...] = (
        ("--function", options.functions, {one.name for one in found.inline}),
        ("--worker", options.workers, ids),
        ("--pipeline", options.pipelines, None if runtime is not None else ()),  # pipelines are known when the runtime is open
    )
    for option, wanted, known in kinds:
        unknown = [] if known is None else sorted(set(wanted) - set(known))
        if unknown:
            told = ", ".join(sorted(known or ())) or "none"
            raise FunctionNotFound(f"{option}: the targets have no {', '.join(unknown)}. Known: {told}.")


async def _run(options: RunnerOptions, found: FoundTargets, workers: ServeWorkers | None) -> None:
    leaving = told_to_leave()
    warn_of_root()
    set_function_log_level()
    print_function_logs(FunctionLogPrinter())
    measured = FunctionSignals(os.environ)
    opening = _opening(options, found, workers, measured)
    if options.metrics_port is not None:
        measured.check()
    async with measured, opening:
        engine = opening.engine
        measured.watch(engine.store, engine.clock)
        async with metrics_page(options.metrics_port, lambda: _metrics(measured, workers)) as metrics:
            _check_pipelines(options, workers)
            _print_hosted(options, engine.registry.hosted(), metrics)
            await _work(options, opening, leaving)


def _metrics(measured: FunctionSignals, workers: ServeWorkers | None) -> str:
    return ("" if workers is None else workers.metrics_text()) + measured.text()


async def _work(options: RunnerOptions, opening: EngineOpening, leaving: asyncio.Event) -> None:
    """Let the open engine run until a signal sets `leaving`. Then claim nothing new, and wait a few seconds for what still runs."""
    _warn_of_queues(options, opening.engine.store)
    warn_of_left_over(opening.engine, opening.schedules, set())
    await leaving.wait()
    say("leaving: waiting until running work can be stopped")
    if not await drained(opening.engine, DRAIN_SECONDS):
        say("some of it could not be stopped in time; it goes on from its last checkpoint on another runner")


def _opening(options: RunnerOptions, found: FoundTargets, workers: ServeWorkers | None, measured: FunctionSignals) -> EngineOpening:
    operators = operators_queues(options.config, trust=options.trust) if workers is None else workers.queues
    schedules = schedules_of_file(options.isolation, options.config, trust=options.trust) if workers is None else ()
    settings = Settings(
        codec=options.place.codec(),
        observers=measured.observers,
        at_once=options.at_once,
        only=options.only,
        queues=declared_together(found.queues, operators),
    )
    functions = [one for one in found.inline if options.chosen is None or one.name in options.functions]
    opening = open_engine(options.place.where, functions=functions, schedules=found.schedules, settings=settings)
    opening.operators_schedules, opening.warns = schedules, False  # this command prints the warnings itself
    if workers is not None:
        workers.runtime.chosen = options.chosen and frozenset((*options.workers, *options.pipelines))
        opening.runtime = workers.runtime
    return opening


def _check_pipelines(options: RunnerOptions, workers: ServeWorkers | None) -> None:
    known = set() if workers is None else {one.graph.pipeline_id for one in workers.runtime.pipelines}
    unknown = sorted(set(options.pipelines) - known)
    if unknown:
        raise FunctionNotFound(f"--pipeline: the targets have no {', '.join(unknown)}. Known: {', '.join(sorted(known)) or 'none'}.")


def _warn_of_queues(options: RunnerOptions, store: QueueStore) -> None:
    """Warn about queues of --queue that are not in the store: a runner that waits for a queue with a misspelled name looks like a runner
    that has nothing to do."""
    for queue in sorted((options.only or Only()).queues):
        if store.queue(queue) is None:
            near = meant_queue(store, queue)
            say(f"warning: queue {queue} is not in this store; the runner waits for runs that are pushed into it.{near}")


def _print_hosted(options: RunnerOptions, hosted: Sequence[Hosted], metrics: str | None) -> None:
    print(f"running what waits in {shown(options.place.where)}")
    print_table(["RUNS", "VERSION", "KIND"], [(one.function, one.version, one.kind.value) for one in hosted], folds="RUNS")
    only = options.only or Only()
    for what, names in (("queues", only.queues), ("tenants", only.tenants)):
        if names:
            print(f"only {what} {', '.join(map(printable, sorted(names)))}")
    if options.at_once is not None:
        print(f"at most {options.at_once} at once")
    if metrics is not None:
        print(f"metrics: {metrics}")
    sys.stdout.flush()

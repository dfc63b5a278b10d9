"""`holdfast run`: runs a durable function or a worker to its end, or continues an existing execution.

    load → find or start → follow → print

A kill at any moment loses nothing that was recorded: the same command with the same name or key continues the execution.
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from holdfast.author_files.function_loader import LoadedFunction, load
from holdfast.cli.arguments import CodecOption, ConfigOption, StoreOption, StorePlace, TrustOption, read_json
from holdfast.cli.exit_codes import ExitCode
from holdfast.cli.foreground_run import RunOptions, WorkerOptions, follow
from holdfast.cli.function_logs import print_function_logs
from holdfast.cli.show import error_line
from holdfast.cli.terminal import moment, print_document, say
from holdfast.cli.workers import WorkerRunOptions, declares_workers, run_worker
from holdfast.descriptions.executions import Description, arn_of
from holdfast.model import codec
from holdfast.model.errors import ExecutionNotFound, InvalidParameter
from holdfast.model.execution import Execution, ExecutionStatus

_CODES = {"FAILED": "execution_failed", "TIMED_OUT": "execution_timed_out", "STOPPED": "execution_stopped"}


RunIsolationOption = Annotated[
    str | None,
    typer.Option(
        "--isolation", metavar="LEVEL", help="How a worker is isolated: all (the default), process, or inline, which is no isolation."
    ),
]


WorkerFilesOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--worker",
        metavar="FILE",
        help="A worker that the function runs with context.run, by file or id. Workers that the file names need no option.",
    ),
]


KeyOption = Annotated[
    str | None,
    typer.Option("--key", metavar="KEY", help="A worker's idempotency key: the same key with the same inputs runs once."),
]


AgainOption = Annotated[
    bool,
    typer.Option("--again", help="Start --name again if its execution failed, timed out or was stopped. The old execution stays."),
]


ConstraintsOption = Annotated[
    str | None, typer.Option("--constraints", metavar="JSON|@FILE", help="Tighter limits for this run of a worker.")
]


EstimateOption = Annotated[bool, typer.Option("--estimate", help="Print what the run of a worker or pipeline may cost, and run nothing.")]


def run(
    target: Annotated[
        str,
        typer.Argument(
            metavar="FILE[:NAME]",
            help="A durable function, as orders.py:process_order or shop.orders:process_order, or a worker."
            " FILE alone is enough if it declares only one.",
        ),
    ],
    input_: Annotated[
        str | None,
        typer.Option(
            "--input",
            metavar="JSON|@FILE|-",
            help="The event as JSON, or from a file or stdin. Without it: the input of the execution that --name finds, else {}.",
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="NAME", help="Names the execution, so that the same command again finds it. Without it: a new id."),
    ] = None,
    key: KeyOption = None,
    constraints: ConstraintsOption = None,
    isolation: RunIsolationOption = None,
    worker: WorkerFilesOption = None,
    user: Annotated[str | None, typer.Option("--user", metavar="NAME", help="The user for whom a worker runs.")] = None,
    again: AgainOption = False,
    estimate: EstimateOption = False,
    detach: Annotated[bool, typer.Option("--detach", help="Store the execution, print its ARN, and leave it for a later runner.")] = False,
    json_output: Annotated[bool, typer.Option("--json", help="Print one JSON document about the execution, however it ended.")] = False,
    trust: TrustOption = False,
    config: ConfigOption = None,
    store: StoreOption = None,
    codec_address: CodecOption = None,
) -> None:
    """Run a durable function or a worker to its end and print its result as JSON.

    If a run of a worker waits for a person, the command ends with exit code 4. After the decision, or if the command was killed or
    interrupted, the same command with the same --name (for a worker: with the same --key) continues the execution. While a durable function
    runs, the program hosts every durable function of the file. Their output goes to stderr, because stdout is for the result; their logs
    through context.logger go to stderr too, unless the file configures logging.
    """
    place = StorePlace.of(store, codec_address)
    is_worker = declares_workers(target)
    _check_again(again, name, is_worker=is_worker, estimate=estimate)
    if is_worker:
        named = name if key is None else key  # an empty key is refused: the user meant to give one
        more = {"isolation": isolation, "user": user, "place": place, "config": config, "trust": trust}
        options = WorkerRunOptions.of(target, input_, named, constraints, **more)
        raise typer.Exit(run_worker(options, json_output=json_output, detach=detach, estimate=estimate))
    payload = None if input_ is None else codec.dumps(read_json("--input", input_))
    asked = RunOptions(target, payload, name, place, again, WorkerOptions(tuple(worker or ()), isolation, config, trust))
    with contextlib.redirect_stdout(sys.stderr):
        loaded = load(target)
        print_function_logs()
        told = None if detach else follow(asked, loaded)
    if told is None:
        _print_left(*_left(asked, loaded), json_output=json_output)
    else:
        _print_ending(told, json_output=json_output)


def _check_again(again: bool, name: str | None, *, is_worker: bool, estimate: bool) -> None:
    if estimate and not is_worker:
        raise InvalidParameter("--estimate is for workers and pipelines: their contracts have caps. A durable function has none.")
    if again and is_worker:
        raise InvalidParameter("--again is for durable functions. To run a worker again, give another --key.")
    if again and name is None:
        raise InvalidParameter("--again needs --name: without a name every run is a new execution.")


def _left(options: RunOptions, loaded: LoadedFunction) -> tuple[Execution, bool]:
    """Write an execution that a runner will run later, or find the execution that has this name. Returns the execution, and whether this
    call wrote it."""
    options.place.check_lasting("--detach needs a store that stays: a store in memory ends with this program.")
    function = loaded.function
    with options.place.client(create=True) as client:
        payload = options.payload
        if payload is None and options.name is not None:
            with contextlib.suppress(ExecutionNotFound):
                found = client.get(f"{function.name}/{options.name}")
                if not options.again:
                    return found, False
                payload = codec.dumps(client.describe(found.id).input)
        started = client.start(function, codec.loads(payload or "{}"), name=options.name, on_failed=options.on_failed)
        return started.header, started.created


def _print_left(header: Execution, created: bool, *, json_output: bool) -> None:
    if json_output:
        print_document({"arn": arn_of(header), "function": header.function, "name": header.name, "created": created})
    else:
        print(arn_of(header))
        say(f"{'left for a runner' if created else 'was there already'}: {header.function}/{header.name}")


def _print_ending(told: Description, *, json_output: bool) -> None:
    succeeded = told.status == ExecutionStatus.SUCCEEDED
    if json_output:
        print_document(
            {
                "arn": told.arn,
                "function": told.function,
                "name": told.name,
                "status": told.status,
                "started_at": moment(told.started_at),
                "ended_at": moment(told.ended_at),
                "result": told.result,
                "error": msgspec.to_builtins(told.error),
            }
        )
    elif succeeded:
        print_document(told.result)
    if not succeeded:
        say(f"error[{_CODES[told.status]}]: {error_line(told.error, told.failed_in)}")
        raise typer.Exit(ExitCode.UNSUCCESSFUL)

"""`holdfast replay`: runs code on recorded data, to see whether it still does the same. Nothing is written.

RUN, or a document and a worker's file     runs the worker's bodies again, with the receipts of the run
a document and a durable function          runs the function on the records of the execution
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from holdfast.author_files.function_loader import load
from holdfast.cli.arguments import CodecOption, ConfigOption, JsonOption, StoreOption, StorePlace, TrustOption
from holdfast.cli.exit_codes import ExitCode
from holdfast.cli.terminal import print_document, printable, say, working
from holdfast.cli.workers import declares_workers
from holdfast.durable.exceptions import NonDeterministicExecutionError
from holdfast.exports.replaying import replay as replayed
from holdfast.model.errors import InvalidParameter

if TYPE_CHECKING:
    from holdfast.workers.replay import RunReplay


def replay(
    what: Annotated[
        str, typer.Argument(metavar="RUN|FILE", help="A worker's run, or a document that `executions export` made, with its data.")
    ],
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="[FILE[:FUNCTION]]",
            help="The code to run: a durable function as for `holdfast run`, or a worker's file. Without it: the code that the run used.",
        ),
    ] = None,
    isolation: Annotated[
        str | None, typer.Option("--isolation", metavar="LEVEL", help="How a worker is isolated, as for `holdfast run`.")
    ] = None,
    json_output: JsonOption = False,
    trust: TrustOption = False,
    config: ConfigOption = None,
    store: StoreOption = None,
    codec: CodecOption = None,
) -> None:
    """Run code on recorded data, and tell where it differs from the records.

    Nothing is written. For a durable function, no step's body runs. A worker's bodies run in their jail, and the receipts of the run answer
    their calls; a call without a receipt is refused and shown. The exit code is 0 if the code matches the records, and 1 if it does not.
    """
    if target is None or declares_workers(target):
        told = _replay_run(what, target, isolation, StorePlace.of(store, codec), config, trust=trust)
        _print_run(told, json_output=json_output)
        return
    with contextlib.redirect_stdout(sys.stderr):
        function = load(target).function
        try:
            with working("replaying", only_in_terminal=True):
                ran = replayed(Path(what), function)
        except NonDeterministicExecutionError as mismatch:
            say(f"error[{mismatch.code}]: {printable(str(mismatch))}")
            raise typer.Exit(ExitCode.UNSUCCESSFUL) from None
    if json_output:
        print_document(msgspec.to_builtins(ran))
    else:
        print(f"{'matches' if ran.matches else 'does not match'}: {printable(ran.why)}")
    if not ran.matches:
        raise typer.Exit(ExitCode.UNSUCCESSFUL)


def _replay_run(what: str, target: str | None, isolation: str | None, place: StorePlace, config: Path | None, *, trust: bool) -> RunReplay:
    """Replay a worker's run. No tool runs, so the folder need not be trusted. A holdfast.toml of an untrusted folder may only tighten
    settings."""
    from holdfast.cli.consent import Consent, operators_settings
    from holdfast.service.runtimes.worker_replays import exported_run, replay_run

    document = Path(what)
    if document.is_file():
        if target is None:
            raise InvalidParameter(f"{what} is a document: name the code to run on it, as `holdfast replay {what} FILE`.")
        finished = exported_run(document)
    else:
        with place.client() as client:
            finished = client.runs.finished(what)
    files = [] if target is None else [target.partition(":")[0]]
    settings, _ = operators_settings(isolation, config, Consent(trust=trust))
    with working("replaying", only_in_terminal=True):
        return asyncio.run(replay_run(finished, place.where, settings, files))


def _print_run(told: RunReplay, *, json_output: bool) -> None:
    if json_output:
        print_document({"matches": told.matches, **msgspec.to_builtins(told)})
    else:
        counted = f"{told.attempts} attempt{'s' * (told.attempts != 1)}, {told.receipts} receipt{'s' * (told.receipts != 1)}"
        print(f"{'matches' if told.matches else 'does not match'}: {told.worker_id} run {told.run_id}, {counted}")
        for difference in told.differences:
            print(f"  attempt {difference.attempt}: {printable(difference.message)}")
        for note in told.notes:
            print(f"  {printable(note)}")
    if not told.matches:
        raise typer.Exit(ExitCode.UNSUCCESSFUL)

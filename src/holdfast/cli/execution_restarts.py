"""`holdfast executions restart`: a new execution of a durable function that begins with a part of the history of another one."""

from __future__ import annotations

import contextlib
import sys
from typing import Annotated

import typer

from holdfast.cli.arguments import CodecOption, ExecutionArgument, JsonOption, StoreOption, StorePlace, read_json
from holdfast.cli.exit_codes import ExitCode
from holdfast.cli.run_restarts import YesOption, agreed
from holdfast.cli.terminal import print_document, printable, say
from holdfast.descriptions.executions import arn_of
from holdfast.durable.exceptions import NonDeterministicExecutionError
from holdfast.model import codec as texts

_MOST_NAMES = 20


def restart(
    execution: ExecutionArgument,
    target: Annotated[str, typer.Argument(metavar="FILE[:FUNCTION]", help="The code to run: a durable function as for `holdfast run`.")],
    operation: Annotated[
        str,
        typer.Option("--from", metavar="OPERATION", help="The operation that runs again: its name, or its id if several have this name."),
    ],
    input_: Annotated[
        str | None, typer.Option("--input", metavar="JSON|@FILE|-", help="Another event for the new execution. Without it: the same.")
    ] = None,
    yes: YesOption = False,
    json_output: JsonOption = False,
    store: StoreOption = None,
    codec: CodecOption = None,
) -> None:
    """Restart an execution from an operation: start a new execution that begins with the history before that operation.

    The command runs the code on that part of the history first; no step's body runs then. If the code does not match the history, nothing
    starts. Operations that had ended before this one began are kept. This operation, those after it, and those that were still open run
    again. The old execution stays, superseded by the new one. A runner that hosts the function runs the new execution.
    """
    from holdfast.author_files.function_loader import load

    place = StorePlace.of(store, codec)
    given = None if input_ is None else texts.dumps(read_json("--input", input_))
    with place.client() as client, contextlib.redirect_stdout(sys.stderr):
        function, found = load(target).function, client.get(execution)
        try:
            prepared = client.restarts.prepare_execution(found.id, function, operation, given)
        except NonDeterministicExecutionError as mismatch:
            say(f"error[{mismatch.code}]: {printable(str(mismatch))}")
            raise typer.Exit(ExitCode.UNSUCCESSFUL) from None
        names = ", ".join(prepared.again[:_MOST_NAMES]) + (", …" if len(prepared.again) > _MOST_NAMES else "")
        count = len(prepared.prefix.operations)
        say(f"kept: {count} operation{'s' * (count != 1)}; run again: {printable(names)}")
        if not yes:
            words = ["executions", "restart", execution, target, "--from", operation, *([] if input_ is None else ["--input", input_])]
            agreed("Start the new execution?", place.command(*words, "--yes"))
        header = client.restarts.restart_execution(prepared)
    if json_output:
        print_document({"arn": arn_of(header), "id": header.id, "name": header.name, "restarts": found.id, "from": operation})
        return
    print(arn_of(header))
    say(f"started: {header.function}/{header.name} goes on as soon as a runner that hosts {header.function} has room")

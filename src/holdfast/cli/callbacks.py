"""`holdfast callbacks`: lists and answers the callbacks that executions wait for. A process that runs the execution notices the answer by
itself."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

from holdfast.cli import completion
from holdfast.cli.arguments import CodecOption, ErrorMessageOption, ErrorTypeOption, LinesOption, StoreOption, StorePlace, read_text
from holdfast.cli.terminal import distance, moment, print_line, print_table, say, span_of
from holdfast.model.clock import SystemClock

app = typer.Typer(help="List and answer callbacks that executions wait for.", no_args_is_help=True, rich_markup_mode=None)

CallbackIdArgument = Annotated[
    str, typer.Argument(metavar="CALLBACK_ID", help="The callback's id, as `holdfast callbacks list` prints it.")
]


@app.command("list")
def list_(
    function: Annotated[
        str | None,
        typer.Option(
            "--function", metavar="NAME", help="Only callbacks of this function's executions.", autocompletion=completion.functions
        ),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="At most this many callbacks.")] = 50,
    json_lines: LinesOption = False,
    store: StoreOption = None,
    codec: CodecOption = None,
) -> None:
    """List callbacks that wait for an answer, those of the oldest execution first."""
    with StorePlace.of(store, codec).client() as client:
        found = list(client.callbacks(function, limit))
    now = SystemClock().now()
    if json_lines:
        for one in found:
            print_line({**msgspec.to_builtins(one), "started_at": moment(one.started_at), "due_at": moment(one.due_at)})
    elif not found:
        say("no callback waits for an answer")
    else:
        print_table(
            ("NAME", "EXECUTION", "AGE", "EXPIRES", "CALLBACK ID"),
            [
                (
                    one.name or "",
                    f"{one.function}/{one.execution}",
                    span_of(max(0, now - one.started_at)),
                    "never" if one.due_at is None else distance(one.due_at, now),
                    one.callback_id,
                )
                for one in found
            ],
            folds="CALLBACK ID",
        )


@app.command("succeed")
def succeed(
    callback_id: CallbackIdArgument,
    result: Annotated[
        str | None,
        typer.Option(
            "--result",
            metavar="TEXT|@FILE|-",
            help="The answer: a text, or the content of a file or of stdin. The handler gets it unchanged. Without it: None.",
        ),
    ] = None,
    store: StoreOption = None,
    codec: CodecOption = None,
) -> None:
    """Answer a callback. Only the first answer is accepted; a later one is refused."""
    text = None if result is None else read_text("--result", result)
    with StorePlace.of(store, codec).client() as client:
        header = client.succeed_callback(callback_id, text)
    say(f"answered: {header.function}/{header.name} goes on")


@app.command("fail")
def fail(
    callback_id: CallbackIdArgument,
    error_message: ErrorMessageOption = None,
    error_type: ErrorTypeOption = None,
    store: StoreOption = None,
    codec: CodecOption = None,
) -> None:
    """Answer a callback with an error. The error is raised in the function, at the place where it waits for the callback."""
    with StorePlace.of(store, codec).client() as client:
        header = client.fail_callback(callback_id, error_message, error_type)
    say(f"answered with an error: {header.function}/{header.name} goes on")


@app.command("heartbeat")
def heartbeat(callback_id: CallbackIdArgument, store: StoreOption = None, codec: CodecOption = None) -> None:
    """Send a heartbeat for a callback: its heartbeat timeout starts again, its overall timeout does not."""
    with StorePlace.of(store, codec).client() as client:
        header = client.heartbeat_callback(callback_id)
    say(f"heartbeat taken: {header.function}/{header.name} goes on waiting")

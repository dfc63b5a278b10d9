"""`holdfast callbacks`: answer what an execution waits for. Whoever runs it notices by itself."""

from __future__ import annotations

from typing import Annotated

import typer

from holdfast.cli.arguments import CodecOption, ErrorMessageOption, ErrorTypeOption, Place, StoreOption, read_text
from holdfast.cli.terminal import say
from holdfast.model.operations import Failure

app = typer.Typer(help="Answer callbacks that executions wait for.", no_args_is_help=True, rich_markup_mode=None)

IdArgument = Annotated[str, typer.Argument(metavar="CALLBACK_ID", help="The callback's id, as `holdfast executions show` prints it.")]


@app.command("succeed")
def succeed(
    callback_id: IdArgument,
    result: Annotated[
        str | None,
        typer.Option("--result", metavar="TEXT|@FILE|-", help="The answer, handed on as it is: a text, a file's, or stdin's."),
    ] = None,
    store: StoreOption = None,
    codec: CodecOption = None,
) -> None:
    """Answer a callback. The first answer counts; a later one is refused."""
    text = None if result is None else read_text("--result", result)
    with Place.of(store, codec).client() as client:
        header = client.succeed_callback(callback_id, text)
    say(f"answered: {header.function}/{header.name} goes on")


@app.command("fail")
def fail(
    callback_id: IdArgument,
    error_message: ErrorMessageOption = None,
    error_type: ErrorTypeOption = None,
    store: StoreOption = None,
    codec: CodecOption = None,
) -> None:
    """Answer a callback with an error, which is raised where the function waits."""
    with Place.of(store, codec).client() as client:
        header = client.fail_callback(callback_id, Failure(message=error_message, type=error_type))
    say(f"answered with an error: {header.function}/{header.name} goes on")


@app.command("heartbeat")
def heartbeat(callback_id: IdArgument, store: StoreOption = None, codec: CodecOption = None) -> None:
    """Say that somebody still works on a callback: its heartbeat timeout begins anew, its overall timeout does not."""
    with Place.of(store, codec).client() as client:
        header = client.heartbeat_callback(callback_id)
    say(f"heartbeat taken: {header.function}/{header.name} goes on waiting")

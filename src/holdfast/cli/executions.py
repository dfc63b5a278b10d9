"""`holdfast executions`: show, stop, release, restart, export and import executions. A runner runs executions, not these commands."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from holdfast.cli import completion
from holdfast.cli import show as shown
from holdfast.cli.arguments import (
    CodecOption,
    ErrorMessageOption,
    ErrorTypeOption,
    ExecutionArgument,
    JsonOption,
    LinesOption,
    StoreOption,
    StorePlace,
)
from holdfast.cli.execution_restarts import restart
from holdfast.cli.terminal import print_document, print_line, say, working, write_private
from holdfast.exports.importing import read
from holdfast.model.clock import SystemClock
from holdfast.model.errors import InvalidParameter
from holdfast.model.execution import ExecutionStatus
from holdfast.store.seam import Filter

app = typer.Typer(help="Look at executions; stop, release, restart, export or import them.", no_args_is_help=True, rich_markup_mode=None)
app.command("restart")(restart)
_STATUSES = ", ".join(ExecutionStatus)


@app.command("list")
def list_(
    function: Annotated[
        str | None,
        typer.Option("--function", metavar="NAME", help="Only executions of this function.", autocompletion=completion.functions),
    ] = None,
    version: Annotated[
        str | None, typer.Option("--version", metavar="VERSION", help="Only executions of this version: a number, or $LATEST.")
    ] = None,
    status: Annotated[
        list[str] | None,
        typer.Option("--status", metavar="STATUS", help=f"Only executions with this status: {_STATUSES}. May be given several times."),
    ] = None,
    name: Annotated[str | None, typer.Option("--name", metavar="NAME", help="Only executions of this name.")] = None,
    parent: Annotated[
        str | None, typer.Option("--parent", metavar="EXECUTION", help="Only executions that this one invoked: its ARN, id or name.")
    ] = None,
    queue: Annotated[
        str | None, typer.Option("--queue", metavar="NAME", help="Only executions of this queue.", autocompletion=completion.queues)
    ] = None,
    started_after: Annotated[
        str | None,
        typer.Option("--started-after", metavar="TIME", help="Only executions started after this time: ISO 8601, UTC without a zone."),
    ] = None,
    started_before: Annotated[
        str | None,
        typer.Option("--started-before", metavar="TIME", help="Only executions started before this time: ISO 8601, UTC without a zone."),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="At most this many executions.")] = 50,
    oldest_first: Annotated[bool, typer.Option("--oldest-first", help="Oldest first. Without it: newest first.")] = False,
    json_lines: LinesOption = False,
    store: StoreOption = None,
    codec: CodecOption = None,
) -> None:
    """List executions, newest first unless --oldest-first is given."""
    wanted = Filter(
        function=function,
        version=version,
        name=name,
        queue=queue,
        statuses=_statuses(status or []),
        started_after=_time("--started-after", started_after),
        started_before=_time("--started-before", started_before),
        oldest_first=oldest_first,
        limit=limit,
    )
    with StorePlace.of(store, codec).client() as client:
        found = client.list(wanted if parent is None else msgspec.structs.replace(wanted, parent=client.get(parent).id))
        if json_lines:
            for header in found:
                print_line(shown.execution_json(header, client.trouble(header)))
        else:
            shown.executions_table([(header, client.trouble(header)) for header in found], SystemClock().now())


def _statuses(given: list[str]) -> tuple[ExecutionStatus, ...]:
    try:
        return tuple(ExecutionStatus(text.upper()) for text in given)
    except ValueError as error:
        raise InvalidParameter(f"--status: {error}. There are {_STATUSES}.") from None


def _time(option: str, text: str | None) -> int | None:
    """The time that an ISO 8601 text names, in milliseconds since 1970; None for None. A time without a zone is in UTC. `option` is the
    option that the error names."""
    if text is None:
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidParameter(f"{option}: {text!r} is not a time. Write it like 2026-11-15T21:46:40Z.") from None
    return round((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)


@app.command("show")
def show(execution: ExecutionArgument, json_output: JsonOption = False, store: StoreOption = None, codec: CodecOption = None) -> None:
    """Show an execution: its data, its state, why it waits, and what can wake it."""
    place = StorePlace.of(store, codec)
    with place.client() as client:
        header = client.get(execution)
        told, operations = client.describe(header.id), client.operations(header.id)
    if json_output:
        print_document(shown.description_json(told, operations))
    else:
        shown.description_page(told, shown.status_line(header), operations, place, SystemClock().now())


@app.command("history")
def history(
    execution: ExecutionArgument,
    no_data: Annotated[bool, typer.Option("--no-data", help="Leave inputs, results and errors out.")] = False,
    json_lines: LinesOption = False,
    store: StoreOption = None,
    codec: CodecOption = None,
) -> None:
    """Show every event of an execution, in order."""
    with working("reading the history"), StorePlace.of(store, codec).client() as client:
        found = client.get(execution)
        events, trouble = client.history(found.id, include_data=not no_data), client.trouble(found)
    if json_lines:
        for event in events:
            print_line(event.wire())
    else:
        shown.history_table(events, trouble)


@app.command("export")
def export(
    execution: ExecutionArgument,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write to this file, which only you may read. Without it: to stdout."),
    ] = None,
    without_data: Annotated[
        bool, typer.Option("--without-data", help="Leave inputs, results and errors out. Such a document can be read, but not replayed.")
    ] = False,
    store: StoreOption = None,
    codec: CodecOption = None,
) -> None:
    """Export an execution as one JSON document, for `executions import` and `replay`.

    The document contains inputs, results and errors as plain text, also if the store encrypts them, unless --without-data is given.
    """
    with working("exporting"), StorePlace.of(store, codec).client() as client:
        document = client.export(execution, include_data=not without_data)
    if output is None:
        print_document(document)
        return
    write_private(output, document)
    say(f"exported: {document['execution']['function']}/{document['execution']['name']} is in {output}")


@app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A document that `executions export` made.")],
    json_output: JsonOption = False,
    store: StoreOption = None,
    codec: CodecOption = None,
) -> None:
    """Import an exported execution as a copy to read. No runner runs it, and none of its timers fires.

    Importing the same document again changes nothing.
    """
    with working(f"importing {file}"):
        read(file)  # before the store is opened, so that a bad document creates no file
        with StorePlace.of(store, codec).client(create=True) as client:
            copy = client.import_execution(file)
    header = copy.header
    if json_output:
        print_document(shown.execution_json(header))
    else:
        say(f"{'imported' if copy.created else 'was there already'}: {header.function}/{header.name}")


@app.command("stop")
def stop(
    execution: ExecutionArgument,
    error_message: ErrorMessageOption = None,
    error_type: ErrorTypeOption = None,
    json_output: JsonOption = False,
    store: StoreOption = None,
    codec: CodecOption = None,
) -> None:
    """Stop an execution now, with the status STOPPED. The executions below it are stopped too, and runs below it are cancelled, except
    those that were invoked with `cascade=False`. If another execution continues this one, that one is stopped instead. An execution that
    has ended does not change."""
    with StorePlace.of(store, codec).client() as client:
        done = client.stop(execution, error_message, error_type)
    header = done.header
    if json_output:
        print_document(shown.execution_json(header))
    elif done.stopped:
        say(f"stopped: {header.function}/{header.name}")
    else:
        say(f"nothing to stop: {header.function}/{header.name} is over ({header.status.value})")


@app.command("release")
def release(
    execution: Annotated[
        str | None, typer.Argument(metavar="[NAME|ARN]", help="The execution: its name, function/name, id or ARN.")
    ] = None,
    function: Annotated[
        str | None,
        typer.Option(
            "--function",
            metavar="NAME",
            help="Instead of one execution: all quarantined executions of this function.",
            autocompletion=completion.functions,
        ),
    ] = None,
    json_output: JsonOption = False,
    store: StoreOption = None,
    codec: CodecOption = None,
) -> None:
    """Let a quarantined execution run again, or all quarantined executions of a function.

    Repair the cause first: `executions show` names it. If you name one execution, it may also be one that
    waits for its next try after its runners died.
    """
    if (execution is None) is (function is None):
        raise InvalidParameter("Name one execution, or say --function NAME for all quarantined executions of a function.")
    with StorePlace.of(store, codec).client() as client:
        if execution is None:
            with working("releasing"):
                count = client.release_all(function or "")
            told = f"released: {count} of {function}" if count else f"nothing to release: no execution of {function} is quarantined"
            print_document({"function": function, "released": count}) if json_output else say(told)
            return
        header = client.release(execution)
    if json_output:
        print_document(shown.execution_json(header))
    else:
        say(f"released: {header.function}/{header.name} waits for a runner")

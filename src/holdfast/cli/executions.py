"""`holdfast executions`: look at executions, and stop or release them, from any process and without running any."""

from __future__ import annotations

from typing import Annotated

import typer

from holdfast.cli import show as shown
from holdfast.cli.arguments import (
    ErrorMessageOption,
    ErrorTypeOption,
    ExecutionArgument,
    JsonOption,
    LinesOption,
    Place,
    StoreOption,
)
from holdfast.cli.terminal import print_document, print_line, say
from holdfast.model.clock import SystemClock
from holdfast.model.errors import InvalidParameter
from holdfast.model.execution import ExecutionStatus
from holdfast.model.operations import Failure
from holdfast.service.client import Client
from holdfast.store.seam import Filter

app = typer.Typer(help="Look at executions; stop or release them.", no_args_is_help=True, rich_markup_mode=None)
_STATUSES = ", ".join(ExecutionStatus)


@app.command("list")
def list_(
    function: Annotated[str | None, typer.Option("--function", metavar="NAME", help="Only executions of this function.")] = None,
    status: Annotated[
        list[str] | None,
        typer.Option("--status", metavar="STATUS", help=f"Only executions with this status: {_STATUSES}. May be given several times."),
    ] = None,
    name: Annotated[str | None, typer.Option("--name", metavar="NAME", help="Only executions of this name.")] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="At most so many.")] = 50,
    oldest_first: Annotated[bool, typer.Option("--oldest-first", help="Oldest first. Without it: newest first.")] = False,
    json_lines: LinesOption = False,
    store: StoreOption = None,
) -> None:
    """List executions, newest first."""
    wanted = Filter(function=function, name=name, statuses=_statuses(status or []), oldest_first=oldest_first, limit=limit)
    with Client.open(Place.of(store).where) as client:
        found = client.list(wanted)
        if json_lines:
            for header in found:
                print_line(shown.execution_json(header))
        else:
            shown.executions_table(list(found), SystemClock().now())


def _statuses(given: list[str]) -> tuple[ExecutionStatus, ...]:
    try:
        return tuple(ExecutionStatus(text.upper()) for text in given)
    except ValueError as error:
        raise InvalidParameter(f"--status: {error}. There are {_STATUSES}.") from None


@app.command("show")
def show(execution: ExecutionArgument, json_output: JsonOption = False, store: StoreOption = None) -> None:
    """Show an execution: what it is, where it stands, why it waits, and who can wake it."""
    place = Place.of(store)
    with Client.open(place.where) as client:
        found = client.find(execution).id
        told, operations = client.describe(found), client.operations(found)
    if json_output:
        print_document(shown.description_json(told, operations))
    else:
        shown.description_page(told, operations, place, SystemClock().now())


@app.command("history")
def history(
    execution: ExecutionArgument,
    no_data: Annotated[bool, typer.Option("--no-data", help="Leave inputs, results and errors out.")] = False,
    json_lines: LinesOption = False,
    store: StoreOption = None,
) -> None:
    """Show every event of an execution, in order."""
    with Client.open(Place.of(store).where) as client:
        events = client.history(execution, include_data=not no_data)
    if json_lines:
        for event in events:
            print_line(event)
    else:
        shown.history_table(events)


@app.command("stop")
def stop(
    execution: ExecutionArgument,
    error_message: ErrorMessageOption = None,
    error_type: ErrorTypeOption = None,
    json_output: JsonOption = False,
    store: StoreOption = None,
) -> None:
    """End an execution now, as STOPPED. One that is over stays as it is."""
    with Client.open(Place.of(store).where) as client:
        header, ended = client.stop(execution, Failure(message=error_message, type=error_type))
    if json_output:
        print_document(shown.execution_json(header))
    elif ended:
        say(f"stopped: {header.function}/{header.name}")
    else:
        say(f"nothing to stop: {header.function}/{header.name} is over ({header.status.value})")


@app.command("release")
def release(execution: ExecutionArgument, json_output: JsonOption = False, store: StoreOption = None) -> None:
    """Let a quarantined execution run again; its runner died too often, so mend the cause first."""
    with Client.open(Place.of(store).where) as client:
        header = client.release(execution)
    if json_output:
        print_document(shown.execution_json(header))
    else:
        say(f"released: {header.function}/{header.name} waits for a runner")

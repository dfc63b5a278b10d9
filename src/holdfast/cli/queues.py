"""`holdfast queues`: look at queues, fill them, pause and limit them, and start parked runs again. These commands never run anything."""

from __future__ import annotations

from typing import Annotated

import typer

from holdfast.cli import completion
from holdfast.cli import queue_pages as pages
from holdfast.cli.arguments import CodecOption, ConfigOption, JsonOption, LinesOption, StoreOption, StorePlace, TrustOption
from holdfast.cli.exit_codes import ExitCode
from holdfast.cli.terminal import print_document, print_line, printable, say, working
from holdfast.model.clock import SystemClock
from holdfast.model.errors import InvalidParameter
from holdfast.model.queues import Mode
from holdfast.queues.documents import parked_document, queue_document, settings_document
from holdfast.queues.documents import queue_page as page_document
from holdfast.queues.setting_names import read_assignment
from holdfast.queues.store_queues import QueueView, new_queue

app = typer.Typer(help="Look at queues; fill, pause and limit them; start parked runs again.", no_args_is_help=True, rich_markup_mode=None)

QueueArgument = Annotated[str, typer.Argument(metavar="QUEUE", help="The name of the queue.", autocompletion=completion.queues)]
TargetArgument = Annotated[
    str,
    typer.Argument(metavar="TARGET", help="A function that the store knows, or FILE:NAME; a worker or pipeline by file or id."),
]
KeyFieldOption = Annotated[
    str | None,
    typer.Option(
        "--key-field",
        metavar="NAME",
        help="The member of each input that is its idempotency key. The same push again then pushes only what is missing.",
    ),
]
_ALL = 1 << 62


@app.command("list")
def list_(json_lines: LinesOption = False, store: StoreOption = None, codec: CodecOption = None) -> None:
    """List queues: how many runs wait, hold a slot and are parked, and how fast each queue drains."""
    with StorePlace.of(store, codec).client() as client:
        found = list(client.queues.list(limit=_ALL))
    if json_lines:
        for view in found:
            print_line(queue_document(view))
    else:
        pages.queues_table(found, SystemClock().now())


@app.command("show")
def show(
    queue: QueueArgument,
    lanes: Annotated[int, typer.Option("--lanes", metavar="N", min=0, max=10_000, help="At most this many lanes.")] = 50,
    json_output: JsonOption = False,
    store: StoreOption = None,
    codec: CodecOption = None,
) -> None:
    """Show a queue: its counts, the settings of code and operator and those in force, and its lanes with their limits."""
    with StorePlace.of(store, codec).client() as client:
        view = client.queues.get(queue, lanes=lanes)
    if json_output:
        print_document(page_document(view))
    else:
        pages.queue_page(view, SystemClock().now())


@app.command("push")
def push(
    queue: QueueArgument,
    target: TargetArgument,
    inputs: Annotated[str, typer.Argument(metavar="@FILE|-", help="The inputs, one JSON document on each line: a file, or stdin.")],
    key_field: KeyFieldOption = None,
    lane_field: Annotated[
        str | None, typer.Option("--lane-field", metavar="NAME", help="The member of each input that is the key of its lane.")
    ] = None,
    units_field: Annotated[
        str | None,
        typer.Option(
            "--units-field", metavar="NAME", help="The member of each input that is how many tokens it may use, for rates of tokens."
        ),
    ] = None,
    tenant: Annotated[str | None, typer.Option("--tenant", metavar="NAME", help="The tenant of the runs.")] = None,
    same: Annotated[
        str, typer.Option("--same", metavar="WORD", help="What to do if a key was pushed before: existing, replace or refuse.")
    ] = "existing",
    delay: Annotated[
        float, typer.Option("--delay", metavar="SECONDS", help="How long the runs are delayed before they enter their lanes.")
    ] = 0.0,
    ttl: Annotated[float | None, typer.Option("--ttl", metavar="SECONDS", help="How long a run may wait before it expires.")] = None,
    head_start: Annotated[
        float, typer.Option("--head-start", metavar="SECONDS", help="Admit the runs as if they had been enqueued this much earlier.")
    ] = 0.0,
    json_output: JsonOption = False,
    trust: TrustOption = False,
    config: ConfigOption = None,
    store: StoreOption = None,
    codec: CodecOption = None,
) -> None:
    """Push many runs into a queue: up to a thousand in each commit, of a worker or pipeline up to two hundred. A line with a mistake is
    named by its number, and the others are pushed.

    Queues that the operator's file declares, and for a function also those that its file declares, are written into the store first.
    Nothing is run, and no schedule is declared.

    If the command is interrupted, run it again: with --key-field it finds what it has pushed.
    """
    from holdfast.cli.queue_push import PushCommand

    place = StorePlace.of(store, codec)
    command = PushCommand.of(
        queue,
        target,
        inputs,
        place,
        key_field=key_field,
        lane_field=lane_field,
        units_field=units_field,
        tenant=tenant,
        same=same,
        delay=delay,
        ttl=ttl,
        head_start=head_start,
        config=config,
        trust=trust,
    )
    raise typer.Exit(command.run(json_output=json_output))


@app.command("pause")
def pause(queue: QueueArgument, json_output: JsonOption = False, store: StoreOption = None, codec: CodecOption = None) -> None:
    """Pause a queue: it accepts runs and admits none. Runs that hold a slot go on."""
    with StorePlace.of(store, codec).client() as client:
        _print_mode(client.queues.pause(queue), json_output=json_output)


@app.command("resume")
def resume(queue: QueueArgument, json_output: JsonOption = False, store: StoreOption = None, codec: CodecOption = None) -> None:
    """Let a paused or draining queue accept and admit runs again."""
    with StorePlace.of(store, codec).client() as client:
        _print_mode(client.queues.resume(queue), json_output=json_output)


@app.command("drain")
def drain(queue: QueueArgument, json_output: JsonOption = False, store: StoreOption = None, codec: CodecOption = None) -> None:
    """Drain a queue: it admits the runs that wait and accepts no new ones, until it is resumed."""
    with StorePlace.of(store, codec).client() as client:
        _print_mode(client.queues.drain(queue), json_output=json_output)


def _print_mode(view: QueueView, *, json_output: bool) -> None:
    row = view.row
    words = {
        Mode.OPEN: "accepts and admits runs",
        Mode.PAUSED: "accepts runs and admits none",
        Mode.DRAINING: "admits the runs that wait and accepts no new ones",
    }
    if json_output:
        print_document({"queue": row.name, "mode": row.mode.value})
    else:
        say(f"{row.mode.value}: queue {row.name} {words[row.mode]}")


@app.command("set")
def set_(
    queue: QueueArgument,
    settings: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME=VALUE...]", help="at_once=5 per_tenant.at_once=2 rates=100/m … `none` removes a limit."),
    ] = None,
    reset: Annotated[
        list[str] | None,
        typer.Option(
            "--reset",
            metavar="NAME",
            help="Remove the operator's value, so that the declared value is in force again. May be given several times.",
        ),
    ] = None,
    json_output: JsonOption = False,
    store: StoreOption = None,
    codec: CodecOption = None,
) -> None:
    """Set settings of a queue, also while it is used. What is set here wins over what code and holdfast.toml declare, until it is reset.

    Names: at_once, rates, per_tenant.at_once, per_tenant.rates, per_key.at_once, per_key.rates, waiting, ordered, most_waiting,
    most_waiting_usd, oldest, ttl, parks. Several rates are separated by commas.
    """
    said = dict(read_assignment(text) for text in settings or ())
    with StorePlace.of(store, codec).client() as client:
        near = new_queue(client.queues, queue)
        row = client.queues.set(queue, said, reset or ()).row
    if near is not None:
        say(f"note: queue {row.name} is new here: no runner and no program has declared it.{near}")
    if json_output:
        print_document({"queue": row.name, "settings": settings_document(row)})
    else:
        say(f"set: queue {row.name}: {printable(', '.join([*(settings or ()), *(f'{name} reset' for name in reset or ())]))}")


@app.command("parked")
def parked(
    queue: Annotated[
        str | None, typer.Argument(metavar="[QUEUE]", help="Only runs of this queue.", autocompletion=completion.queues)
    ] = None,
    error: Annotated[str | None, typer.Option("--error", metavar="CODE", help="Only runs that failed with this code.")] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="At most this many runs.")] = 50,
    json_lines: LinesOption = False,
    store: StoreOption = None,
    codec: CodecOption = None,
) -> None:
    """List parked runs, the oldest first, with the code and the message of each error."""
    with StorePlace.of(store, codec).client() as client:
        found = list(client.queues.parked(queue, error=error, limit=limit))
    if json_lines:
        for run in found:
            print_line(parked_document(run))
    else:
        pages.parked_table(found, SystemClock().now())


@app.command("redrive")
def redrive(
    runs: Annotated[list[str] | None, typer.Argument(metavar="[RUN...]", help="Parked runs, by their ids.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Instead of single runs: all parked runs, or those of --queue and --error.")] = False,
    queue: Annotated[
        str | None, typer.Option("--queue", metavar="QUEUE", help="With --all: only runs of this queue.", autocompletion=completion.queues)
    ] = None,
    error: Annotated[str | None, typer.Option("--error", metavar="CODE", help="With --all: only runs that failed with this code.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count the runs.")] = False,
    json_output: JsonOption = False,
    store: StoreOption = None,
    codec: CodecOption = None,
) -> None:
    """Start parked runs again, under the same keys and in the same queues. The command first prints how many it found. The parked runs stay
    in the store, superseded by the new ones."""
    if every is bool(runs):
        raise InvalidParameter("Name parked runs by their ids, or give --all, alone or with --queue and --error.")
    if (queue or error) and not every:
        raise InvalidParameter("--queue and --error are for --all.")
    with StorePlace.of(store, codec).client() as client:
        found = (
            [run.header for run in client.queues.parked(queue, error=error, limit=_ALL)]
            if every
            else [client.get(run) for run in runs or ()]
        )
        say(f"{len(found)} {'run' if len(found) == 1 else 'runs'} to start again")
        with working("starting again"):
            done = () if dry_run else client.queues.redrive(found)
    refused = [one for one in done if one.error is not None]
    if json_output:
        started = [{"parked": one.parked, "started": one.started} for one in done if one.error is None]
        errors = [{"parked": one.parked, "error": one.error.code, "message": str(one.error)} for one in refused if one.error]
        print_document({"found": len(found), "started": started, "refused": errors})
    elif not dry_run:
        for one in refused:
            say(f"not started again: {one.parked}: {one.error}")
        say(f"started again: {len(done) - len(refused)}")
    if refused:
        raise typer.Exit(ExitCode.UNSUCCESSFUL)

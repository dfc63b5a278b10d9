"""`holdfast schedules`: what starts at which time. These commands start nothing: they read and write schedules in the store. The runners
that host the functions start what is due."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli import completion
from holdfast.cli.arguments import CodecOption, JsonOption, LinesOption, StoreOption, StorePlace, read_json
from holdfast.cli.terminal import distance, print_document, print_line, print_table, printable, say, seconds, shortened, working
from holdfast.model.clock import SystemClock

if TYPE_CHECKING:
    from holdfast.model.schedules import ScheduleState

app = typer.Typer(help="Start functions, workers and pipelines at certain times.", no_args_is_help=True, rich_markup_mode=None)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The schedule's name.", autocompletion=completion.schedules)]
_MOST_TIMES = 100


@app.command("add")
def add(
    name: NameArgument,
    run: Annotated[str, typer.Argument(metavar="TARGET", help="The name of the function, worker or pipeline that it starts.")],
    cron: Annotated[str | None, typer.Option("--cron", metavar="EXPRESSION", help="Five fields: '0 2 * * *' is 02:00 every day.")] = None,
    every: Annotated[str | None, typer.Option("--every", metavar="DURATION", help="An interval instead: 30s, 15m, 2h, 1d.")] = None,
    zone: Annotated[str, typer.Option("--zone", metavar="ZONE", help="The zone of --cron, such as Europe/Berlin.")] = "UTC",
    value: Annotated[str, typer.Option("--input", metavar="JSON|@FILE|-", help="The input: JSON, a file, or - for stdin.")] = "{}",
    version: Annotated[str | None, typer.Option("--version", metavar="VERSION", help="Only this version of the target.")] = None,
    tenant: Annotated[str | None, typer.Option("--tenant", metavar="TENANT", help="The tenant that it runs for.")] = None,
    overlap: Annotated[
        str, typer.Option("--overlap", metavar="WORD", help="What happens if the run before is not over: skip, queue, replace or allow.")
    ] = "skip",
    catch_up: Annotated[
        str,
        typer.Option(
            "--catch-up", metavar="WORD", help="What happens with occurrences that no runner started in time: latest, none, all, or all:N."
        ),
    ] = "latest",
    clock: Annotated[
        str, typer.Option("--clock", metavar="WORD", help="When clocks change: once (each wall time once) or real (each moment).")
    ] = "once",
    jitter: Annotated[
        str | None, typer.Option("--jitter", metavar="DURATION", help="Begin at a random moment, at most this much later.")
    ] = None,
    start: Annotated[str | None, typer.Option("--start", metavar="TIME", help="Start nothing before: 2026-03-01T00:00:00Z.")] = None,
    end: Annotated[str | None, typer.Option("--end", metavar="TIME", help="Start nothing after.")] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Change the schedule if there is one of this name.")] = False,
    json: JsonOption = False,
    store: StoreOption = None,
    codec: CodecOption = None,
) -> None:
    """Add a schedule. It wins over what code, pages and holdfast.toml declare."""
    from holdfast.schedules.declarations import Schedule

    asked = Schedule(
        name,
        run,
        cron=cron,
        every=every,
        zone=zone,
        input=read_json("--input", value),
        version=version,
        tenant=tenant,
        overlap=overlap,
        catch_up=catch_up,
        clock=clock,
        jitter=jitter,
        start=start,
        end=end,
    )
    with StorePlace.of(store, codec).client(create=True) as client:
        state = client.schedules.add(asked, replace=replace)
        is_known = client.is_hosted(run)
    if not is_known:
        say(f"warning: no runner has hosted {printable(run)} with this store yet; the schedule waits for one that does")
    if json:
        _print_json(state)
        return
    _print_times(state, 5)


@app.command("list")
def list_(json_lines: LinesOption = False, store: StoreOption = None, codec: CodecOption = None) -> None:
    """List the schedules by name."""
    from holdfast.schedules.documents import described, expression

    now = SystemClock().now()
    with StorePlace.of(store, codec).client() as client:
        found = list(client.schedules.list())
    if json_lines:
        for state in found:
            print_line(described(state, now))
        return
    if not found:
        say("there are no schedules")
        return
    rows = [
        (x.name, expression(x.definition.timing), x.definition.function, _next(x), _last(x), x.definition.overlap.value, _origin(x))
        for x in found
    ]
    print_table(("NAME", "WHEN", "RUNS", "NEXT", "LAST", "OVERLAP", "FROM"), rows, folds="LAST")


@app.command("show")
def show(name: NameArgument, json: JsonOption = False, store: StoreOption = None, codec: CodecOption = None) -> None:
    """Show a schedule: its next times, how the last occurrences were handled, and what an operator changed."""
    with StorePlace.of(store, codec).client() as client:
        state = client.schedules.get(name)
    if json:
        _print_json(state)
        return
    _print_shown(state)


@app.command("next")
def next_(
    name: NameArgument,
    count: Annotated[int, typer.Option("--count", metavar="N", help="How many times.", min=1, max=_MOST_TIMES)] = 5,
    json: JsonOption = False,
    store: StoreOption = None,
    codec: CodecOption = None,
) -> None:
    """Print the next times of a schedule; none while it is paused."""
    with StorePlace.of(store, codec).client() as client:
        state = client.schedules.get(name)
    if json:
        from holdfast.schedules.documents import iso, next_times

        print_document([iso(at) for at in next_times(state, SystemClock().now(), count)])
        return
    _print_times(state, count)


@app.command("pause")
def pause(name: NameArgument, store: StoreOption = None, codec: CodecOption = None) -> None:
    """Pause a schedule: what is due is not started until it is resumed. `run-now` and `backfill` still start runs. Running executions go
    on."""
    with StorePlace.of(store, codec).client() as client:
        client.schedules.pause(name)
    say(f"paused {name}")


@app.command("resume")
def resume(
    name: NameArgument,
    catch_up: Annotated[
        bool, typer.Option("--catch-up", help="Start what was due during the pause, as far as the schedule's catch-up setting says.")
    ] = False,
    store: StoreOption = None,
    codec: CodecOption = None,
) -> None:
    """Resume a paused schedule. Without --catch-up, what was due during the pause is not started, nor what waited for an earlier occurrence
    to end."""
    with StorePlace.of(store, codec).client() as client:
        state = client.schedules.resume(name, catch_up=catch_up)
    say(f"resumed {name}")
    _print_times(state, 1)


@app.command("run-now")
def run_now(name: NameArgument, store: StoreOption = None, codec: CodecOption = None) -> None:
    """Ask for one run now, also if another one still runs or the schedule is paused. A runner that hosts the target starts it."""
    with StorePlace.of(store, codec).client() as client:
        state = client.schedules.run_now(name)
    say(f"asked for one run of {state.definition.function}: a runner that hosts it starts it")


@app.command("backfill")
def backfill(
    name: NameArgument,
    begin: Annotated[str, typer.Argument(metavar="FROM", help="A date, or a time with its zone: 2026-03-01T00:00:00Z.")],
    end: Annotated[str, typer.Argument(metavar="TO", help="Up to this time; the time itself is not included.")],
    store: StoreOption = None,
    codec: CodecOption = None,
) -> None:
    """Ask for what was due in a span of time, by the expression that was in force then. What ran already, and is still in the store, is not
    started again. A runner that hosts the target starts the runs.

    A date such as 2026-03-01 is midnight in the schedule's zone: FROM 2026-03-01 TO 2026-03-08 is the first seven days of March.
    """
    from holdfast.schedules.declarations import span_of
    from holdfast.schedules.documents import in_zone

    with working("looking for what was due"), StorePlace.of(store, codec).client() as client:
        timing = client.schedules.get(name).definition.timing
        first, last = span_of(("FROM", "TO"), begin, end, timing)
        done = client.schedules.backfill(name, first, last)
    span = f"from {in_zone(first, timing)} up to {in_zone(last, timing)}"
    runs = f"{done.due} {'run' if done.due == 1 else 'runs'} of {done.schedule.definition.function}"
    say(f"asked for {runs}, due {span}: a runner that hosts it starts them" if done.due else f"nothing was due {span}")


@app.command("remove")
def remove(name: NameArgument, store: StoreOption = None, codec: CodecOption = None) -> None:
    """Remove a schedule. Executions that it started go on. A schedule that code, a page or holdfast.toml declares stays removed until you
    add it again."""
    with StorePlace.of(store, codec).client() as client:
        client.schedules.remove(name)
    say(f"removed {name}")


# --- output


def _print_json(state: ScheduleState) -> None:
    from holdfast.schedules.documents import described

    print_document(described(state, SystemClock().now()))


def _print_times(state: ScheduleState, count: int) -> None:
    from holdfast.schedules.documents import in_zone, next_times

    now = SystemClock().now()
    times = next_times(state, now, count)
    for at in times:
        print(f"{in_zone(at, state.definition.timing)} ({distance(at, now)})")
    if not times:
        say("it is paused" if state.paused else "there is no next time")


def _print_shown(state: ScheduleState) -> None:
    from holdfast.model.schedule_times import in_words
    from holdfast.schedules.documents import definition_told, expression

    definition = state.definition
    told = definition_told(definition)
    lines = [
        ("runs", definition.function + (f" version {definition.version}" if definition.version else "")),
        ("when", f"{expression(definition.timing)}: {in_words(definition.timing)}"),
        ("overlap", told["overlap"]),
        ("catch-up", told["catch_up"]),
        ("input", shortened(state.input, 200)),
        ("from", _origin(state)),
    ]
    if definition.tenant is not None:
        lines.insert(1, ("tenant", definition.tenant))
    if state.paused:
        lines.append(("paused", f"by {state.paused_by}" if state.paused_by else "yes"))
    if state.changed_by is not None:
        lines.append(("changed", f"by {state.changed_by}, {seconds(state.changed_at or 0)}"))
    if state.declared is not None:
        where = "" if state.declared_origin is None else f"{state.declared_origin.value}: "
        lines.append(("declared", f"{where}{expression(state.declared.timing)}, {state.declared.function} (does not count)"))
    if state.waiting:
        lines.append(("waiting", ", ".join(map(seconds, state.waiting[:5])) + (" …" if len(state.waiting) > 5 else "")))
    if state.asked:
        lines.append(("asked for", f"{len(state.asked)} runs that no runner has started yet"))
    print(printable(state.name))
    for key, value in lines:
        print(f"  {key:<10} {printable(value)}")
    print("next")
    _print_times(state, 5)
    if state.recent:
        print_table(
            ("TIME", "OUTCOME", "EXECUTION", "WHY"),
            [(seconds(x.at), _outcome(x.outcome, x.how.value), x.execution or "-", x.why or "-") for x in state.recent],
            folds="WHY",
        )


def _outcome(outcome: str, how: str) -> str:
    return outcome if how == "due" else f"{outcome} ({how})"


def _next(state: ScheduleState) -> str:
    from holdfast.schedules.documents import next_times

    times = next_times(state, SystemClock().now(), 1)
    return "paused" if state.paused else seconds(times[0]) if times else "never"


def _last(state: ScheduleState) -> str:
    line = state.recent[0] if state.recent else None
    return "-" if line is None else f"{_outcome(line.outcome, line.how.value)} {seconds(line.at)}"


def _origin(state: ScheduleState) -> str:
    return f"{state.origin.value} (changed)" if state.declared is not None else state.origin.value

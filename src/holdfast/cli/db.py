"""`holdfast db`: commands for operators of a store: migrate, check, back up, restore and measure it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.arguments import CodecOption, JsonOption, StoreOption, StorePlace
from holdfast.cli.exit_codes import ExitCode
from holdfast.cli.terminal import print_document, print_table, printable, say, working
from holdfast.model.clock import SystemClock
from holdfast.model.ids import id_at
from holdfast.model.payloads import PayloadCodec
from holdfast.store.backends import is_sqlite_file, open_maintenance
from holdfast.store.maintenance import Maintenance
from holdfast.store.shown_address import shown

app = typer.Typer(help="Migrate, check, back up, restore and measure a store.", no_args_is_help=True, rich_markup_mode=None)


def _kept(place: StorePlace, codec: PayloadCodec | None = None) -> Maintenance:
    return open_maintenance(place.where, id_at(SystemClock().now()), codec)


@app.command("migrate")
def migrate(
    after: Annotated[
        bool,
        typer.Option(
            "--after",
            help="Postgres: apply, in a second run, the steps that older code does not support. First stop every process of older code.",
        ),
    ] = False,
    json: JsonOption = False,
    store: StoreOption = None,
    codec: CodecOption = None,
) -> None:
    """Update a store of an older release.

    A SQLite file is also migrated when a program opens it as a store. A Postgres store is migrated only by this command, or by a program
    that opens it with `migrate=True`.
    """
    place = StorePlace.of(store, codec)
    with working(f"migrating {shown(place.where)}"):
        done = _kept(place, place.codec()).migrate(after=after)
    if json:
        steps = [{"number": step.number, "words": step.words, "after": step.after} for step in done.steps]
        waiting = [{"number": step.number, "words": step.words} for step in done.waiting]
        numbers = {"version": done.now.version, "least": done.now.least}
        print_document(numbers | {"was": done.before.version, "steps": steps, "waiting": waiting})
        return
    for step in done.steps:
        say(f"applied {step.number:03d} {step.words}" + (" (after)" if step.after else ""))
    say(f"{shown(place.where)} has schema version {done.now.version}, for code of version {done.now.least} or newer")
    if done.waiting:
        named = ", ".join(f"{step.number:03d} {step.words}" for step in done.waiting)
        say(f"still to be applied when no older code runs any more: {named}. Then: {place.command('db', 'migrate', '--after')}")


@app.command("check")
def check(
    quick: Annotated[bool, typer.Option("--quick", help="Leave out the slowest check: whether indexes fit their tables.")] = False,
    json: JsonOption = False,
    store: StoreOption = None,
) -> None:
    """Look for damage in a store; it may be in use. Nothing is changed. Prints a line for each finding. With findings, the exit code is
    3."""
    place = StorePlace.of(store, None)
    with working(f"checking {shown(place.where)}"):
        found = _kept(place).check(quick=quick)
    if json:
        findings = [finding._asdict() for finding in found.findings]
        print_document({"version": found.numbers.version, "least": found.numbers.least, "behind": found.behind, "findings": findings})
    else:
        for finding in found.findings:
            print(printable(f"{finding.name}: {finding.where}: {finding.wrong}"))
        old = ", of an older release: it must be migrated" if found.behind else ""
        said = f"{len(found.findings)} findings" if found.findings else "sound"
        say(f"{shown(place.where)} is of schema version {found.numbers.version}{old}; {said}")
    if found.findings:
        raise typer.Exit(ExitCode.TROUBLE)


@app.command("backup")
def backup(
    target: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write the copy to.")],
    force: Annotated[bool, typer.Option("--force", help="Replace the target file if it exists.")] = False,
    store: StoreOption = None,
) -> None:
    """Copy a SQLite store as it is now into a file that only its owner may read. The store may be in use. For a Postgres store, the error
    shows the command of pg_dump that copies it."""
    place = StorePlace.of(store, None)
    with working(f"copying {shown(place.where)} to {target}"):
        _kept(place).backup(target, replace=force)
    say(f"{shown(place.where)} is copied to {target}")


@app.command("restore")
def restore(
    source: Annotated[Path, typer.Argument(metavar="FILE", help="A copy that `holdfast db backup` or a migration made.")],
    store: StoreOption = None,
) -> None:
    """Replace a SQLite store by a copy, while no process has the store open. The old store is kept beside it. For a Postgres store, the
    error shows the command of pg_restore that does this."""
    place = StorePlace.of(store, None)
    with working(f"restoring {shown(place.where)} from {source}"):
        aside = _kept(place).restore(source)
    say(f"{shown(place.where)} has the content of {source} now" + (f"; {_told(aside)} is kept as {aside}" if aside else ""))


def _told(aside: Path) -> str:
    """What a restore has replaced, in words."""
    return "the old store" if is_sqlite_file(aside) else "the old file, which is not a SQLite database,"


@app.command("size")
def size(json: JsonOption = False, store: StoreOption = None) -> None:
    """Show how large a store is, table by table, and how much of it retention will remove."""
    place = StorePlace.of(store, None)
    with working(f"measuring {shown(place.where)}"):
        found = _kept(place).size(SystemClock().now())
    if json:
        tables = [table._asdict() for table in found.tables]
        print_document(found._asdict() | {"tables": tables, "over": found.over._asdict(), "kept": found.kept._asdict()})
        return
    rows = [(table.name, f"{table.rows:,}", "-" if table.bytes is None else f"{table.bytes:,}") for table in found.tables]
    print_table(("TABLE", "ROWS", "BYTES"), rows, folds="TABLE")
    beside = [] if found.log is None else [f"{found.log:,} in the write-ahead log", f"{found.free or 0:,} free inside the file"]
    say(", ".join([f"{found.bytes:,} bytes in all", *beside]))
    say(f"{found.over.executions:,} executions ({found.over.bytes:,} bytes of payload) are past their retention: runners remove them")
    say(f"{found.kept.executions:,} executions ({found.kept.bytes:,} bytes of payload) are over and kept until their retention ends")

"""`holdfast cost`: what runs have cost, and what a run may cost."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from holdfast.cli import completion
from holdfast.cli.arguments import CodecOption, ConfigOption, JsonOption, StoreOption, StorePlace, TrustOption, read_json
from holdfast.cli.estimates import Estimated, money_of
from holdfast.cli.terminal import print_document, print_table, say, working
from holdfast.model.errors import InvalidParameter

if TYPE_CHECKING:
    from holdfast.costs.reports import CostLine, CostReport

_LEFT_OUT: Final = "more lines are left out: {:,} are shown; name fewer dimensions or days"


def cost(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="RUN|FILE",
            help="A run by its id: what it has cost, with all runs below it. Or the file of a pipeline or worker, or the id of a ready"
            " worker: what a run of it may cost. Without it: what all runs have cost.",
        ),
    ] = None,
    input_: Annotated[
        str | None,
        typer.Option("--input", metavar="JSON|@FILE|-", help="The inputs of the run to estimate: items of their lists are counted."),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option("--by", metavar="NAMES", help="What to sum by: day, tenant, pipeline, node, worker, model; for one run also run."),
    ] = None,
    since: Annotated[str | None, typer.Option("--since", metavar="DAY|Nd", help="From this UTC day on, or the last N days.")] = None,
    until: Annotated[str | None, typer.Option("--until", metavar="DAY", help="Up to and including this UTC day.")] = None,
    tenant: Annotated[
        str | None, typer.Option("--tenant", metavar="NAME", help="Only this tenant.", autocompletion=completion.tenants)
    ] = None,
    pipeline: Annotated[str | None, typer.Option("--pipeline", metavar="ID", help="Only this pipeline, or this one of FILE.")] = None,
    json_output: JsonOption = False,
    csv_output: Annotated[bool, typer.Option("--csv", help="Print comma-separated values for spreadsheets.")] = False,
    trust: TrustOption = False,
    config: ConfigOption = None,
    store: StoreOption = None,
    codec: CodecOption = None,
) -> None:
    """Show what runs have cost, by the ledger, or what a run may cost before it begins.

    If the answer of a call was lost, its cost is taken to be the amount that it had reserved; such calls are shown under UNKNOWN. Calls
    under OPEN have begun and have not ended.
    """
    if json_output and csv_output:
        raise InvalidParameter("--json and --csv are two forms of the same answer: give one of them.")
    place = StorePlace.of(store, codec)
    if target is not None and _is_file(target):
        if by or since or until or tenant or csv_output:
            raise InvalidParameter("An estimate is not summed: leave out --by, --since, --until, --tenant and --csv.")
        inputs = None if input_ is None else read_json("--input", input_)
        file, _, named = target.partition(":")
        Estimated(Path(file), pipeline or named or None, inputs, place, config, trust=trust).show(json_output=json_output)
        return
    if input_ is not None:
        raise InvalidParameter("--input is for an estimate: name the file of a pipeline or worker.")
    from holdfast.costs.reports import csv_rows

    with working("summing up"), place.client() as client:
        report = client.cost(run=target, by=by, since=since, until=until, tenant=tenant, pipeline=pipeline)
    if json_output:
        print_document(report.document())
    elif csv_output:
        csv.writer(sys.stdout, lineterminator="\n").writerows(csv_rows(report))
        if report.truncated:
            say(_LEFT_OUT.format(len(report.lines)))
    else:
        _print_report(report)


def _is_file(target: str) -> bool:
    from holdfast.cli.workers import declares_workers

    path = Path(target.partition(":")[0])
    if path.suffix == ".py" and not path.exists():
        raise InvalidParameter(f"There is no file {path}.")
    return declares_workers(target)


def _print_report(report: CostReport) -> None:
    if not report.lines:
        say("nothing was spent: the ledger has no call that matches")
        return
    names = [name.value.upper() for name in report.by]
    columns = (*names, "CALLS", "INPUT", "CACHED", "OUTPUT", "REASONING", "COST", "UNKNOWN", "OPEN")
    rows = [(*(part or "-" for part in line.group), *_cells(line)) for line in report.lines]
    if report.truncated:
        rows.append((_LEFT_OUT.format(len(report.lines)), *("" for _ in columns[1:])))
    rows.append((*(("all",) + ("",) * (len(names) - 1) if names else ()), *_cells(report.total)))
    print_table(columns, rows, folds=names[0] if names else "CALLS")


def _cells(line: CostLine) -> tuple[str, ...]:
    tokens = (line.calls, line.input_tokens, line.cached_tokens, line.output_tokens, line.reasoning_tokens)
    cost = "no price" if not line.nanos and line.input_tokens + line.output_tokens else money_of(line.nanos)
    return (*(f"{count:,}" for count in tokens), cost, _apart(line.unknown), _apart(line.open))


def _apart(part: Any) -> str:
    return "-" if not part.calls else f"{part.calls:,} call{'s' * (part.calls != 1)}, {money_of(part.nanos)}"

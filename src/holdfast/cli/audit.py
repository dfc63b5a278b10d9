"""`holdfast audit`: who did what, on what, from where, when, and with which result."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated, Final

import typer

from holdfast.cli.arguments import CodecOption, LinesOption, StoreOption, StorePlace
from holdfast.cli.terminal import moment, print_line, print_table, say, seconds
from holdfast.model.audit import Noted, NoteFilter, NoteKind
from holdfast.model.clock import SystemClock
from holdfast.model.errors import InvalidParameter

_SPAN: Final = re.compile(r"([0-9]{1,6})([smhd])")
_UNITS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def audit(
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="TIME|SPAN", help="Only lines since this time: 2026-01-31T12:00:00Z, or 7d or 90m ago."),
    ] = None,
    who: Annotated[str | None, typer.Option("--who", metavar="NAME", help="Only lines of this credential's id, or of local:USER.")] = None,
    what: Annotated[
        str | None, typer.Option("--what", metavar="VERB", help="Only lines with this verb or operation, as the list prints it.")
    ] = None,
    outcome: Annotated[
        str | None, typer.Option("--outcome", metavar="TEXT", help="Only lines with this outcome, as the list prints it.")
    ] = None,
    kind: Annotated[str | None, typer.Option("--kind", metavar="KIND", help="Only decisions, or only refusals: decision, refusal.")] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="At most this many lines, the newest first.")] = 50,
    json_output: LinesOption = False,
    store: StoreOption = None,
    codec: CodecOption = None,
) -> None:
    """Show the audit log: the decisions of people and keys, and what a server refused.

    A line is kept for HOLDFAST_AUDIT_DAYS days; for 400 days if this variable is not set. No command changes or removes a line.
    """
    wanted = NoteFilter(since=_moment(since), who=who, what=what, outcome=outcome, kind=_kind(kind), limit=limit)
    with StorePlace.of(store, codec).client() as client:
        found = list(client.audit(wanted))
    if json_output:
        for noted in found:
            print_line(_document(noted))
    elif not found:
        say("the audit log has no line that matches")
    else:
        print_table(["AT", "KIND", "WHO", "WHAT", "ON", "FROM", "OUTCOME", "TIMES"], [_row(noted) for noted in found], folds="ON")


def _row(noted: Noted) -> tuple[str, ...]:
    note = noted.note
    told = (note.who, note.what, note.on or "-", note.origin or "-", note.outcome)
    return (seconds(note.at), note.kind.value, *told, str(note.times))


def _document(noted: Noted) -> dict[str, object]:
    note = noted.note
    return {
        "number": noted.number,
        "at": moment(note.at),
        "kind": note.kind.value,
        "who": note.who,
        "what": note.what,
        "on": note.on,
        "from": note.origin,
        "outcome": note.outcome,
        "tenant": note.tenant,
        "times": note.times,
    }


def _kind(text: str | None) -> NoteKind | None:
    if text is None:
        return None
    if text not in tuple(NoteKind):
        raise InvalidParameter(f"--kind: {text!r:.50} is not a kind; give {' or '.join(NoteKind)}.")
    return NoteKind(text)


def _moment(text: str | None) -> int | None:
    """The time of `--since`, in milliseconds since 1970. The text is a time, in UTC if it names no zone, or a span before now, such as
    `7d`. Returns None for None. Raises InvalidParameter for another text."""
    if text is None:
        return None
    span = _SPAN.fullmatch(text)
    if span is not None:
        return SystemClock().now() - int(span[1]) * _UNITS[span[2]]
    try:
        at = datetime.fromisoformat(text)
        return round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise InvalidParameter(f"--since: {text!r:.50} is neither a time such as 2026-01-31T12:00:00Z nor a span such as 7d.") from None

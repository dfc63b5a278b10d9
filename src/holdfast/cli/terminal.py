"""Terminal output: results on stdout, everything else on stderr. If stdout is not a terminal, tables have no colours, and no line is
folded."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import stat
import sys
import threading
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from holdfast.files import private
from holdfast.model.errors import InvalidParameter

_WIDE = 100_000
_LONG_SECONDS = 1.0
"""If stderr is not a terminal, a command that takes longer than this many seconds prints a line that says what it does (`working`)."""
_STEERS = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that could control a terminal, besides those that JSON escapes: DEL, the C1 control characters, marks that change the writing
direction, line separators, and lone surrogates."""
_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))
_STYLES = {"SUCCEEDED": "green", "FAILED": "red", "TIMED_OUT": "red", "STOPPED": "yellow", "RUNNING": "cyan"}


def say(text: str) -> None:
    """Print a line for people on stderr."""
    print(text, file=sys.stderr)


@contextlib.contextmanager
def working(what: str, *, only_in_terminal: bool = False) -> Iterator[None]:
    """Show what a command does (`what`) while the block runs. If stderr is a terminal, a spinner shows it until the block ends. If not, one
    line is printed on stderr when the block has taken a second.

    With `only_in_terminal`, this line is not printed. Commands whose output programs compare use this, because they may take a second on a
    busy machine.
    """
    told = f"{printable(what)} …"
    if sys.stderr.isatty():
        with Console(stderr=True, highlight=False).status(Text(told)):
            yield
        return
    if only_in_terminal:
        yield
        return
    timer = threading.Timer(_LONG_SECONDS, say, [told])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def warn_of_root() -> None:
    """Warn if this process runs as root: code that escapes from a root process controls the machine."""
    if os.geteuid() == 0:
        say("warning: this runs as root: a fault in it, or in what it runs, could change anything here. Run it as an ordinary user.")


def print_document(value: object) -> None:
    """Print one JSON document, indented, on stdout."""
    print(_calm(json.dumps(value, indent=2, ensure_ascii=False)))


def write_private(path: Path, value: object) -> None:
    """Write one JSON document to a file that only the user may read. The rights of a device or a pipe are not changed. Raises
    InvalidParameter if the file cannot be written."""
    text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    try:
        with os.fdopen(private.open_given(path, os.O_WRONLY), "wb") as file:
            if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                file.truncate()
            file.write(text.encode())
    except OSError as error:
        raise InvalidParameter(f"{path} could not be written: {error.strerror}.") from None


def print_line(value: object) -> None:
    """Print one JSON document on one line."""
    print(_calm(json.dumps(value, separators=(",", ":"), ensure_ascii=False)))


def _calm(text: str) -> str:
    """The same JSON value, with every character that could control a terminal escaped: json itself escapes only those below the space."""
    return _STEERS.sub(lambda found: json.dumps(found[0])[1:-1], text)


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, folds: str) -> None:
    """Print a table on stdout. If stdout is a terminal, the column named `folds` is wrapped so that the table fits. If not, each column has
    its full width."""
    watched = sys.stdout.isatty()
    table = Table(box=None, pad_edge=False, header_style="bold" if watched else "")
    for column in columns:
        table.add_column(column, overflow="fold", no_wrap=column != folds)
    for row in rows:
        table.add_row(*(Text(printable(cell), style=_STYLES.get(cell, "") if watched else "") for cell in row))
    if watched:
        Console(highlight=False).print(table)
        return
    page = io.StringIO()
    Console(file=page, width=_WIDE, color_system=None, force_terminal=False, highlight=False).print(table)
    print("\n".join(line.rstrip() for line in page.getvalue().splitlines()))


def printable(text: str) -> str:
    """The text on one line. Every character that cannot be printed is escaped as in JSON, so that untrusted text cannot control a
    terminal."""
    return "".join(char if char.isprintable() else json.dumps(char)[1:-1] for char in text)


def shortened(text: str, limit: int = 100) -> str:
    """The text, with at most `limit` characters. A longer text is cut, and its last three characters are `...`."""
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


def moment(at: int | None) -> str | None:
    """A time, given in milliseconds since 1970, as ISO 8601 in UTC with milliseconds; None for None."""
    if at is None:
        return None
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def seconds(at: int) -> str:
    """A time, given in milliseconds since 1970, as ISO 8601 in UTC without fractions of a second."""
    return datetime.fromtimestamp(at // 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def distance(at: int, now: int) -> str:
    """A time relative to now, such as `in 5 min` or `2 h ago`. Both times are in milliseconds since 1970."""
    span = span_of(abs(at - now))
    return f"in {span}" if at > now else f"{span} ago"


def span_of(milliseconds: int) -> str:
    """A duration in its largest one or two units: `2 h 5 min`, `40 s`, `704 ms`."""
    parts = []
    for size, unit in _UNITS:
        count, milliseconds = divmod(milliseconds, size)
        if count:
            parts.append(f"{count} {unit}")
        elif parts:
            break
    return " ".join(parts[:2]) or f"{milliseconds} ms"

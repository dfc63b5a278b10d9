"""The terminal: results on stdout, everything else on stderr; plain and stable where nobody watches."""

from __future__ import annotations

import io
import json
import os
import re
import stat
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from holdfast.files import private
from holdfast.model.errors import InvalidParameter

_WIDE = 100_000
_STEERS = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""DEL, the second set of controls, marks that turn the direction of writing, line separators, and what is no character."""
_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))
_STYLES = {"SUCCEEDED": "green", "FAILED": "red", "TIMED_OUT": "red", "STOPPED": "yellow", "RUNNING": "cyan"}


def say(text: str) -> None:
    """A line for people."""
    print(text, file=sys.stderr)


def warn_of_root() -> None:
    """Whatever breaks out of a process of root has the machine."""
    if os.geteuid() == 0:
        say("warning: this runs as root: a fault in it, or in what it runs, could change anything here. Run it as an ordinary user.")


def print_document(value: object) -> None:
    """One JSON document."""
    print(_calm(json.dumps(value, indent=2, ensure_ascii=False)))


def write_private(path: Path, value: object) -> None:
    """One JSON document in a file that nobody else may read."""
    text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    try:
        with os.fdopen(private.open_given(path, os.O_WRONLY), "wb") as file:
            if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                file.truncate()
            file.write(text.encode())
    except OSError as error:
        raise InvalidParameter(f"{path} could not be written: {error.strerror}.") from None


def print_line(value: object) -> None:
    """One line of JSON lines."""
    print(_calm(json.dumps(value, separators=(",", ":"), ensure_ascii=False)))


def _calm(text: str) -> str:
    """JSON that says the same and cannot steer a terminal: json itself escapes the controls below the space, and no others."""
    return _STEERS.sub(lambda found: json.dumps(found[0])[1:-1], text)


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, folds: str) -> None:
    """Columns for people: in a terminal one of them folds so that all fit, elsewhere they are as wide as they must be."""
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
    """Text of unknown origin, on one line and unable to steer the terminal."""
    return "".join(char if char.isprintable() else json.dumps(char)[1:-1] for char in text)


def shortened(text: str, limit: int = 100) -> str:
    """The beginning of a long text."""
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


def moment(at: int | None) -> str | None:
    """A time as machines and people both read it: ISO 8601 in UTC."""
    if at is None:
        return None
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def seconds(at: int) -> str:
    """A time for a table, to the second."""
    return datetime.fromtimestamp(at // 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def distance(at: int, now: int) -> str:
    """A time as seen from now: `in 5 min`, `2 h ago`."""
    span = span_of(abs(at - now))
    return f"in {span}" if at > now else f"{span} ago"


def span_of(milliseconds: int) -> str:
    """How long, in the two largest units that fit."""
    parts = []
    for size, unit in _UNITS:
        count, milliseconds = divmod(milliseconds, size)
        if count:
            parts.append(f"{count} {unit}")
        elif parts:
            break
    return " ".join(parts[:2]) or f"{milliseconds} ms"

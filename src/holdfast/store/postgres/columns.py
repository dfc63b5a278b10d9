"""Rows as columns: Postgres gets many rows as a few arrays, so that a statement is the same for any number of rows.

This module writes arrays as text. The driver would inspect every value, and would have to guess the type of a column that has only NULLs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from holdfast.store.rows import Row

KINDS: Final[Mapping[str, str]] = {
    "executions": "nttttt" + "nnnn" + "ttnt" + "nntt" + "nnnnn" + "tt" + "nnnnnnnnn" + "tnnntnt" + "ttnt" + "ttnnnnnnn" + "tttnnn",
    "changes": "nnttnnnnn" + "ttnnnnnnnnntnnn" + "tn" + "ttnnn" + "ttnnn",
    "touches": "nnnnnnnnn",
    "operations": "ntttntttnnnnnnnnn",
    "events": "nntnnpt",
    "signals": "tttttnntn",
    "notes": "nttttttt" + "nn",
    "ledger": "nn" + "ttttttttttt" + "nnnnnnn" + "tt" + "n",
    "ledger_days": "n" + "tttttt" + "nnnnnnnnn",
    "graphs": "tp",
    "lanes": "tnnnn" + "nnnnfn",
    "rates": "ttnnn",
    "cooled": "tn",
    "new_lanes": "ttttttnnt",
    "new_rates": "ttnn",
}
"""By the name of a table, or of rows that a statement gets: one letter for each column. n is a whole number, f is a number with a fraction,
t is a text, p is a payload."""

_TYPES: Final = {"n": "bigint[]", "f": "double precision[]", "t": "text[]", "p": "text[]"}
_MARK: Final = "\x01"
_NUL, _MARKED_NUL, _MARKED_MARK = "\0", _MARK + "0", _MARK + "1"


def placeholders(table: str) -> str:
    """The SQL of the arguments of an `unnest` that makes rows from arrays: one placeholder for each column. `table` is a key of `KINDS`."""
    return ", ".join(f"%({table}_{n})s::{_TYPES[kind]}" for n, kind in enumerate(KINDS[table]))


def arguments(table: str, rows: Sequence[Row]) -> dict[str, str]:
    """The values for the placeholders of a table. `rows` must have at least one row."""
    columns = zip(_NAMES[table], zip(*rows, strict=True), strict=True)
    return {name: _column(write, values) for (name, write), values in columns}


def _column(write: Callable[[Iterable[Any]], str], values: tuple[Any, ...]) -> str:
    """The text of an array of these values. If all values are equal, as in most columns of a large batch, the text of one value is
    repeated."""
    if values.count(values[0]) < len(values):
        return write(values)
    return "{" + ",".join([write(values[:1])[1:-1]] * len(values)) + "}"


def numbers(values: Iterable[Any]) -> str:
    """The text of a Postgres array of integers; None becomes NULL. Raises TypeError for a value that is neither an int nor None: its text
    might be read as two values, and then the following rows would get wrong values."""
    return "{" + ",".join(["NULL" if value is None else int.__repr__(value) for value in values]) + "}"


def _fractions(values: Iterable[Any]) -> str:
    return "{" + ",".join(["NULL" if value is None else float.__repr__(value) for value in values]) + "}"


def texts(values: Iterable[Any]) -> str:
    """The text of a Postgres array of texts; None becomes NULL."""
    return "{" + ",".join(["NULL" if value is None else _quoted(value) for value in values]) + "}"


def _payloads(values: Iterable[Any]) -> str:
    return "{" + ",".join(["NULL" if value is None else _quoted(_marked(value)) for value in values]) + "}"


def _quoted(text: str) -> str:
    if "\\" in text:
        text = text.replace("\\", "\\\\")
    return '"' + str.replace(text, '"', '\\"') + '"'


def _marked(payload: str) -> str:
    """The payload, in which two characters stand for each NUL, because Postgres cannot store a NUL in a text. `unmarked` undoes this. JSON
    never has a NUL, but the text that an author's serdes writes may have one."""
    if _NUL in payload or _MARK in payload:
        return payload.replace(_MARK, _MARKED_MARK).replace(_NUL, _MARKED_NUL)
    return payload


def unmarked(payload: str | None) -> str | None:
    """The payload as it was before `_marked` replaced its NULs; None stays None."""
    if payload is None or _MARK not in payload:
        return payload
    return payload.replace(_MARKED_NUL, _NUL).replace(_MARKED_MARK, _MARK)


_WRITERS: Final[Mapping[str, Callable[[Iterable[Any]], str]]] = {"n": numbers, "f": _fractions, "t": texts, "p": _payloads}
_NAMES: Final = {table: [(f"{table}_{n}", _WRITERS[kind]) for n, kind in enumerate(kinds)] for table, kinds in KINDS.items()}
"""For each table: the name of the placeholder of each column, and the function that writes its array."""

"""Pages of tables, as data: columns, cells of a few kinds, forms of a few fields. One template (table.html) shows them all.

A page says what it shows; it writes no HTML. Rows stand in the order of their source, by name or by time, and a page of rows ends with the
address of the next page. Pure.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Final

import msgspec

MOST_ROWS: Final = 500
"""The most rows that a table shows at once."""
_NUMBER: Final = re.compile(r"-?[0-9]+([.][0-9]+)?")
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


class Text(msgspec.Struct, frozen=True):
    """A text. A long one is cut on the page, and its beginning is shown where the pointer rests."""

    kind: ClassVar[str] = "text"
    text: str
    mono: bool = False
    muted: bool = False
    title: str = ""
    wraps: bool = False


class Number(msgspec.Struct, frozen=True):
    """A number, perhaps of a most: `3 of 5`."""

    kind: ClassVar[str] = "number"
    value: float | None
    of: int | None = None
    unit: str = ""
    quiet: bool = True
    """Zero is shown faintly, so that other numbers stand out."""


class Money(msgspec.Struct, frozen=True):
    """An amount in billionths of a dollar."""

    kind: ClassVar[str] = "money"
    nanos: int | None


class Time(msgspec.Struct, frozen=True):
    """A moment, as a date and a time in UTC."""

    kind: ClassVar[str] = "time"
    at: int | None


class Age(msgspec.Struct, frozen=True):
    """How long ago a moment was."""

    kind: ClassVar[str] = "age"
    at: int | None


class Until(msgspec.Struct, frozen=True):
    """How long it is to a moment that comes."""

    kind: ClassVar[str] = "until"
    at: int | None


class Mark(msgspec.Struct, frozen=True):
    """A standing: the shape and the colour of `word`, with a label of its own where that says more."""

    kind: ClassVar[str] = "mark"
    word: str
    label: str = ""
    title: str = ""


class Link(msgspec.Struct, frozen=True):
    """A text that leads to a page of the console, by its path without the prefix."""

    kind: ClassVar[str] = "link"
    text: str
    to: str
    mono: bool = False


class Spark(msgspec.Struct, frozen=True):
    """A row of small bars, the newest at the right."""

    kind: ClassVar[str] = "spark"
    values: tuple[int, ...]
    title: str = ""

    @property
    def bars(self) -> list[tuple[int, float]]:
        """The place and the height (0 to 16) of each bar."""
        most = max(self.values, default=0) or 1
        return [(place * 4, round(value / most * 16, 1)) for place, value in enumerate(self.values) if value > 0]


class Bar(msgspec.Struct, frozen=True):
    """A bar of two parts, each as a share of the longest bar of the table (0 to 1)."""

    kind: ClassVar[str] = "bar"
    first: float
    second: float = 0.0
    title: str = ""

    @property
    def widths(self) -> tuple[float, float]:
        """The widths of both parts in a drawing of width 100. What there is, is seen."""
        return tuple(0.0 if part <= 0 else max(0.75, round(min(part, 1.0) * 100, 2)) for part in (self.first, self.second))  # type: ignore[return-value]


class Chips(msgspec.Struct, frozen=True):
    """Short words side by side."""

    kind: ClassVar[str] = "chips"
    texts: tuple[str, ...]


class Pile(msgspec.Struct, frozen=True):
    """Cells one below the other."""

    kind: ClassVar[str] = "pile"
    cells: tuple[Cell, ...]


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """A field of a form."""

    kind: ClassVar[str] = "field"
    name: str
    label: str
    value: str = ""
    type: str = "text"
    """text, number, date, datetime-local, search, select, checks or hidden."""
    options: tuple[tuple[str, str], ...] = ()
    """Values with their labels, of a select or of checks."""
    chosen: tuple[str, ...] = ()
    """Of checks: those that are on."""
    hint: str = ""
    placeholder: str = ""
    required: bool = False
    bare: bool = False
    """In a cell of a table: the column's head is the label for the eye."""


class Button(msgspec.Struct, frozen=True, kw_only=True):
    """A form of one button, or a link that looks like one."""

    label: str
    to: str
    needs: str = ""
    """What the caller must be allowed to do; the button is left out for others."""
    style: str = "small"
    fields: Mapping[str, str] = {}
    confirm: str = ""
    is_link: bool = False


class Actions(msgspec.Struct, frozen=True):
    """Buttons."""

    kind: ClassVar[str] = "actions"
    buttons: tuple[Button, ...]


Cell = Text | Number | Money | Time | Age | Until | Mark | Link | Spark | Bar | Chips | Pile | Field | Actions

NOTHING: Final = Text("—", muted=True)


class Column(msgspec.Struct, frozen=True):
    """The head of a column."""

    label: str
    number: bool = False
    fill: bool = False
    """It takes the width that is left."""
    title: str = ""


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """Rows under columns."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    total: tuple[Cell, ...] = ()
    empty: str = "There is nothing."
    hint: str = ""
    first: str = ""
    """The address of the first page, if this is another one."""
    following: str = ""
    """The address of the next page, if there is one."""
    following_label: str = "Next"
    narrow: bool = False
    """It is as wide as its cells, not as the page."""
    cut: str = ""
    """What is left out, as a sentence."""


class Form(msgspec.Struct, frozen=True, kw_only=True):
    """A form. It is left out for callers who may not send it."""

    to: str
    fields: tuple[Field, ...] = ()
    submit: str = "Send"
    needs: str = ""
    style: str = "primary"
    get: bool = False
    """It asks for a page, and changes nothing."""
    back: str = ""
    """The address of the page to go back to, with nothing done."""


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a page: a heading, a sentence, facts, a table, a form around or below it."""

    id: str
    title: str = ""
    note: str = ""
    """Words between backticks are shown as code."""
    buttons: tuple[Button, ...] = ()
    facts: tuple[tuple[str, Cell], ...] = ()
    table: Table | None = None
    form: Form | None = None
    wraps: bool = False
    """The form is around the table: its fields stand in the cells."""
    live: bool = False
    """It is asked for again when something changes."""
    every: int = 0
    """It is asked for again each so many seconds."""
    secret: str = ""
    """A text that is shown this once, to be copied."""


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """A whole page."""

    title: str
    path: str
    """The page's own path with its query, for parts that are asked for again."""
    lead: str = ""
    above: tuple[tuple[str, str], ...] = ()
    """The pages above it: labels with their paths."""
    mark: Mark | None = None
    buttons: tuple[Button, ...] = ()
    tabs: tuple[tuple[str, str, bool], ...] = ()
    """Other views of the same: a label, an address, and whether it is the one that is shown."""
    filters: Form | None = None
    csv: str = ""
    problem: str = ""
    notice: str = ""
    sections: tuple[Section, ...] = ()

    def section(self, wanted: str) -> Section | None:
        """The section of this id."""
        return next((one for one in self.sections if one.id == wanted), None)


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> bytes:
    """A table for spreadsheets. No text in it is taken for a formula."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(columns)
    writer.writerows([harmless(cell) for cell in row] for row in rows)
    return out.getvalue().encode("utf-8", "replace")


def harmless(cell: object) -> str:
    """A cell that a spreadsheet does not take for a formula. Numbers stay as they are."""
    text = "" if cell is None else str(cell)
    return f"'{text}" if text.startswith(_FORMULA) and not _NUMBER.fullmatch(text) else text

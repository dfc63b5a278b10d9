"""Pages of tables, as data: columns, cells of a few kinds, forms of a few fields. One template (table.html) shows them all.

A page says what it shows, and writes no HTML. Rows are in the order in which the source returns them. If there are more rows, a link to the
next page, or a sentence that says so, is under the last row. Pure.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Final

import msgspec

MOST_ROWS: Final = 500
"""Pages put at most this many rows into one table."""
_NUMBER: Final = re.compile(r"-?[0-9]+([.][0-9]+)?")
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


class TextCell(msgspec.Struct, frozen=True):
    """A text. The page cuts a long text. While the pointer is on the cell, the page shows `title`; without a `title`, more of the long
    text."""

    kind: ClassVar[str] = "text"
    text: str
    mono: bool = False
    muted: bool = False
    title: str = ""
    wraps: bool = False


class Number(msgspec.Struct, frozen=True):
    """A number. With `of`, a limit, it is shown as `3 of 5`. If the number is None, a dash is shown."""

    kind: ClassVar[str] = "number"
    value: float | None
    of: int | None = None
    unit: str = ""
    quiet: bool = True
    """Whether a zero without a limit is shown in a pale colour, so that other numbers are easier to see."""


class Money(msgspec.Struct, frozen=True):
    """An amount in billionths of a dollar. None is shown as a dash."""

    kind: ClassVar[str] = "money"
    nanos: int | None


class Time(msgspec.Struct, frozen=True):
    """A moment, as a date and a time in UTC. `at` is in milliseconds since 1970; None is shown as a dash."""

    kind: ClassVar[str] = "time"
    at: int | None


class Age(msgspec.Struct, frozen=True):
    """How long ago a moment was. `at` is in milliseconds since 1970; None is shown as a dash."""

    kind: ClassVar[str] = "age"
    at: int | None


class Until(msgspec.Struct, frozen=True):
    """How long it is until a moment in the future; the word `over` if the moment has passed. `at` is in milliseconds since 1970; None is
    shown as a dash."""

    kind: ClassVar[str] = "until"
    at: int | None


class StatusMark(msgspec.Struct, frozen=True):
    """A status, drawn with the shape and the colour of the status `word`. The text beside it is `label`, or `word` if `label` is empty."""

    kind: ClassVar[str] = "mark"
    word: str
    label: str = ""
    title: str = ""


class LinkCell(msgspec.Struct, frozen=True):
    """A link with this text. `to` is the path of a page of the console, without the console's prefix. While the pointer is on the link, the
    page shows `title`; without a `title`, more of a long text."""

    kind: ClassVar[str] = "link"
    text: str
    to: str
    mono: bool = False
    title: str = ""


class Spark(msgspec.Struct, frozen=True):
    """A row of small bars, one for each value; the newest value is at the right."""

    kind: ClassVar[str] = "spark"
    values: tuple[int, ...]
    title: str = ""

    @property
    def bars(self) -> list[tuple[int, float]]:
        """For each bar: its horizontal position, and its height (at most 16). A value of 0 has no bar."""
        most = max(self.values, default=0) or 1
        return [(place * 4, round(value / most * 16, 1)) for place, value in enumerate(self.values) if value > 0]


class Bar(msgspec.Struct, frozen=True):
    """A bar of two parts. The length of each part is a share, 0 to 1, of the whole width."""

    kind: ClassVar[str] = "bar"
    first: float
    second: float = 0.0
    title: str = ""

    @property
    def widths(self) -> tuple[float, float]:
        """The widths of the first and the second part in a drawing of width 100. A part above 0 is always wide enough to be seen."""
        return tuple(0.0 if part <= 0 else max(0.75, round(min(part, 1.0) * 100, 2)) for part in (self.first, self.second))  # type: ignore[return-value]


class Chips(msgspec.Struct, frozen=True):
    """Short words side by side."""

    kind: ClassVar[str] = "chips"
    texts: tuple[str, ...]


class Pile(msgspec.Struct, frozen=True):
    """A cell that holds several cells, one below the other."""

    kind: ClassVar[str] = "pile"
    cells: tuple[Cell, ...]


class ConsoleField(msgspec.Struct, frozen=True, kw_only=True):
    """A field of a form."""

    kind: ClassVar[str] = "field"
    name: str
    label: str
    value: str = ""
    type: str = "text"
    """The kind of the field: text, number, date, datetime-local, search, select, checks or hidden."""
    options: tuple[tuple[str, str], ...] = ()
    """The options of a select or of checks, each as (value, label)."""
    chosen: tuple[str, ...] = ()
    """For checks: the values that are ticked."""
    hint: str = ""
    placeholder: str = ""
    required: bool = False
    bare: bool = False
    """Whether the field has no visible label: it is in a cell of a table, and the head of the column says what it is."""


class Button(msgspec.Struct, frozen=True, kw_only=True):
    """A button that sends a form, or a link that looks like a button (`is_link`)."""

    label: str
    to: str
    needs: str = ""
    """The permission that the caller needs; empty if every caller may use the button. The page shows the button only to callers who have
    the permission."""
    style: str = "small"
    fields: Mapping[str, str] = {}
    confirm: str = ""
    is_link: bool = False


class Actions(msgspec.Struct, frozen=True):
    """A cell with buttons."""

    kind: ClassVar[str] = "actions"
    buttons: tuple[Button, ...]


Cell = TextCell | Number | Money | Time | Age | Until | StatusMark | LinkCell | Spark | Bar | Chips | Pile | ConsoleField | Actions

NOTHING: Final = TextCell("—", muted=True)


class Column(msgspec.Struct, frozen=True):
    """The head of a column."""

    label: str
    number: bool = False
    fill: bool = False
    """Whether this column takes all the width that the other columns do not need."""
    title: str = ""


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """Rows under columns. Below them is the row `total`, if it is not empty."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    total: tuple[Cell, ...] = ()
    empty: str = "There is nothing."
    hint: str = ""
    first: str = ""
    """The address of the first page; empty if this is the first page."""
    following: str = ""
    """The address of the next page; empty if there is no next page."""
    following_label: str = "Next"
    narrow: bool = False
    """Whether the table is only as wide as its cells, and not as wide as the page."""
    cut: str = ""
    """A sentence that says which rows the table leaves out; empty if it has all rows."""


class ConsoleForm(msgspec.Struct, frozen=True, kw_only=True):
    """A form. The page shows it only to callers who may send it."""

    to: str
    fields: tuple[ConsoleField, ...] = ()
    submit: str = "Send"
    needs: str = ""
    style: str = "primary"
    get: bool = False
    """Whether the form only asks for a page (GET) and changes nothing."""
    back: str = ""
    """The address of the page to which a person goes who does not want to send the form."""


class ConsoleSection(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a page: a heading, a sentence, facts, a table, and a form around the table or below it."""

    id: str
    title: str = ""
    note: str = ""
    """A text below the title. Words between backticks are shown as code."""
    buttons: tuple[Button, ...] = ()
    facts: tuple[tuple[str, Cell], ...] = ()
    table: Table | None = None
    form: ConsoleForm | None = None
    wraps: bool = False
    """Whether the form is around the table, so that its fields are in cells of the table. If False, the form is below the table."""
    live: bool = False
    """Whether an open page asks for this section again when the store has changed."""
    every: int = 0
    """An open page asks for this section again every so many seconds; 0: never."""
    secret: str = ""
    """A secret, such as a new token, that only this reply shows, so that a person can copy it."""


class ConsolePage(msgspec.Struct, frozen=True, kw_only=True):
    """A whole page."""

    title: str
    path: str
    """The path of this page with its query. An open page uses it to ask for its sections again."""
    lead: str = ""
    above: tuple[tuple[str, str], ...] = ()
    """The pages that lead to this one, outermost first, each as (label, path)."""
    mark: StatusMark | None = None
    buttons: tuple[Button, ...] = ()
    tabs: tuple[tuple[str, str, bool], ...] = ()
    """The views of this page, each as (label, address, whether this view is shown now)."""
    filters: ConsoleForm | None = None
    csv: str = ""
    problem: str = ""
    notice: str = ""
    sections: tuple[ConsoleSection, ...] = ()

    def section(self, wanted: str) -> ConsoleSection | None:
        """The section with this id; None if the page has no such section."""
        return next((one for one in self.sections if one.id == wanted), None)


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> bytes:
    """A table as CSV, in UTF-8. Each cell, except those with the names of the columns, goes through `harmless`, so that a spreadsheet does
    not run it as a formula."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(columns)
    writer.writerows([harmless(cell) for cell in row] for row in rows)
    return out.getvalue().encode("utf-8", "replace")


def harmless(cell: object) -> str:
    """The text of a cell for a CSV file. A text that a spreadsheet could read as a formula gets a `'` in front. A number is written as it
    is. None becomes an empty text."""
    text = "" if cell is None else str(cell)
    return f"'{text}" if text.startswith(_FORMULA) and not _NUMBER.fullmatch(text) else text

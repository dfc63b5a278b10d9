"""Reads the lines of a Pipeline spec as rows and trees. Indentation shows which line belongs to which key. A page that was copied from a
rendered text may have lost its indentation; then the known keys show which line belongs to which node.

A value that begins with a bracket may have several lines, with and without indentation. On a page that lost its indentation, every other
value of a node must be on the line of its key, so that the reader never guesses.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Final, NamedTuple

from holdfast.contract.notes import PageNotes, meant, shown
from holdfast.contract.page import PIPELINE_SPEC, PageLine
from holdfast.contract.spec import TEXTS
from holdfast.pipelines.page.trees import (
    MAX_DEPTH,
    STRING,
    Keyed,
    Listed,
    PageUnreadable,
    Scalar,
    Tree,
    open_brackets,
    text_in,
    without_comment,
)

_KEY: Final = re.compile(rf"(?:({STRING})|([A-Za-z0-9_$][\w.$-]*))(?:[ \t]*\([^()]*\))?[ \t]*:(?:[ \t]+(.*)|[ \t]*)", re.S)
_BULLET: Final = re.compile(r"([-*•–])(?:([ \t]+)(.*)|[ \t]*)", re.S)
_GOES_ON: Final = re.compile(r"[\[{]|(?:const|concat|text)\(")
_FOLDED: Final = re.compile(r"[|>][+-]?\d?")


class SpecRow(NamedTuple):
    """One line of a spec. A value between brackets that has several lines is one row, together with its key."""

    line: int
    indent: int
    """The column at which the text begins, from 0."""
    text: str

    @property
    def item(self) -> SpecRow | None:
        """The text after the row's bullet, as a row; None for a row without a bullet."""
        hit = _BULLET.fullmatch(self.text)
        if hit is None:
            return None
        return SpecRow(self.line, self.indent + 1 + len((hit[2] or "").expandtabs(4)), hit[3] or "")

    @property
    def keyed(self) -> tuple[str, str] | None:
        """The key and the text after it; None if the row is not of the form `key: value`."""
        hit = _KEY.fullmatch(self.text)
        try:
            return None if hit is None else (hit[2] if hit[1] is None else text_in(hit[1], self.line), (hit[3] or "").strip())
        except PageUnreadable:  # a key in quotes with an escape that JSON does not know
            return None


class SpecParts(NamedTuple):
    """A Pipeline spec in two parts: the keys that a worker.md has too, and the keys of the graph."""

    contract: tuple[PageLine, ...]
    graph: dict[str, list[SpecRow]]
    """For each key of the graph: the row of the key and the rows that belong to it."""
    flat: bool
    """Whether the page lost its indentation."""


def rows_of(lines: Sequence[PageLine], notes: PageNotes) -> list[SpecRow]:
    """The rows of a spec, without blank lines, comment lines, and the lines `---` and `...`. If a bracket is never closed, that is noted as
    a problem, and its row and the rows after it are left out."""
    rows: list[SpecRow] = []
    waiting = iter(
        [line for line in lines if line.text.strip() and line.text.lstrip()[0] != "#" and line.text.strip() not in ("---", "...")]
    )
    for line in waiting:
        text = line.text.expandtabs(4)
        row = SpecRow(line.number, len(text) - len(text.lstrip()), text.strip())
        inner = row.item or row
        key, value = inner.keyed or ("", inner.text)
        if key in TEXTS or not _GOES_ON.match(value):
            rows.append(row)
            continue
        pieces, open_ = [without_comment(row.text)], open_brackets(without_comment(value))
        while open_ and (more := next(waiting, None)) is not None:
            pieces += [""] * (more.number - row.line - len(pieces)) + [without_comment(more.text)]
            open_ = open_brackets(pieces[-1], open_)
        if open_:
            told = "The value that begins here never ends: a closing bracket is missing, or the page is cut off."
            notes.error("value_cut_off", PIPELINE_SPEC, row.line, told)
        else:
            rows.append(row._replace(text="\n".join(pieces)) if len(pieces) > 1 else row)
    return rows


def parts_of(
    rows: Sequence[SpecRow], graph_keys: Collection[str], other_keys: Collection[str], inner: Collection[str], notes: PageNotes
) -> SpecParts:
    """Split the rows by their top-level keys: `graph_keys` and `other_keys`, the keys of the contract. `inner` are the keys of nodes: on a
    page without indentation they show which rows belong to a node. An unknown key, and a key of the graph that is given twice, are noted as
    problems and left out. But on a page without indentation, an unknown key that does not come after a key of the graph is put into the
    contract part, and is no problem here."""
    keys = [row for row in rows if row.item is None and row.keyed is not None]
    base = min((row.indent for row in keys), default=0)
    flat = all(row.indent <= base for row in keys)
    contract: list[PageLine] = []
    graph: dict[str, list[SpecRow]] = {}
    top, left_out = "", False
    for row in rows:
        key = row.keyed[0] if row.item is None and row.keyed is not None else None
        if key is not None and (row.indent <= base if not flat else not (top == "nodes" and key in inner)):
            left_out = False
            if key in graph:
                _twice(key, row.line, graph[key][0].line, notes)
                left_out = True
            elif key in graph_keys:
                top, graph[key] = key, [row]
                continue
            elif key in other_keys or (flat and top not in graph):
                top = key
            else:
                _unknown(key, row.line, (*graph_keys, *other_keys, *(inner if flat and top == "nodes" else ())), notes)
                left_out = True
        if left_out:
            continue
        if top in graph:
            graph[top].append(row)
        else:
            contract.append(PageLine(row.line, " " * row.indent + row.text.replace("\n", " ")))
    return SpecParts(tuple(contract), graph, flat)


def _unknown(key: str, line: int, known: Collection[str], notes: PageNotes) -> None:
    near = " Did you mean `pipeline_id`?" if key == "worker_id" else meant(key, known)
    notes.error("unknown_field", PIPELINE_SPEC, line, f"`{shown(key)}` is not a key of a Pipeline spec.{near}")


def _twice(key: str, line: int, first: int, notes: PageNotes) -> None:
    told = f"`{shown(key)}` is given a second time; the first is on line {first}. Keep one."
    notes.error("duplicate_field", PIPELINE_SPEC, line, told)


def tree_of(rows: Sequence[SpecRow], notes: PageNotes, *, flat: bool) -> Tree | None:
    """The value of a top-level key, read from its row and the rows that belong to it. None if it has no readable value; that is noted as a
    problem. `flat`: whether the page lost its indentation."""
    head = rows[0]
    key, value = head.keyed or ("", "")
    if value and len(rows) > 1:
        notes.error(
            "spec_line", PIPELINE_SPEC, rows[1].line, f"This line belongs to `{shown(key)}`, which already has a value on line {head.line}."
        )
        return None
    if value:
        return Scalar(value, head.line)
    if len(rows) == 1:
        notes.error("field_missing", PIPELINE_SPEC, head.line, f"`{shown(key)}` has no value.")
        return None
    reader = _Reader(rows[1:], notes)
    if not flat:
        return reader.whole()
    if key == "nodes":
        return reader.flat_nodes(head.line)
    told = f"The page has lost its indentation, so `{shown(key)}` must have its value on its own line, or between brackets: {{…}}."
    notes.error("spec_line", PIPELINE_SPEC, rows[1].line, told)
    return None


class _Reader:
    """Reads rows into a tree: by their indentation, or (`flat_nodes`) the nodes of a page without indentation. The depth is bounded, so it
    may recurse."""

    def __init__(self, rows: Sequence[SpecRow], notes: PageNotes) -> None:
        self._rows = list(rows)
        self._notes = notes
        self._at = 0

    def whole(self) -> Tree | None:
        tree = self._value(1)
        if self._at < len(self._rows):
            self._error("indentation", self._rows[self._at].line, "This line is indented less than the first line of its block.")
        return tree

    def _value(self, depth: int) -> Tree | None:
        first = self._rows[self._at]
        if depth > MAX_DEPTH:
            self._error("too_deep", first.line, f"The lines are nested more than {MAX_DEPTH} levels deep.")
            self._skip(0)
            return None
        return self._keyed(first.indent, depth) if first.item is None else self._listed(first.indent, depth)

    def _listed(self, indent: int, depth: int) -> Listed:
        line, items = self._rows[self._at].line, list[Tree]()
        while (row := self._next()) is not None and row.indent == indent and (body := row.item) is not None:
            if not body.text:
                self._at += 1
                inner = self._below(indent, depth)
                if inner is None:
                    self._error("spec_line", row.line, "There is nothing after this bullet. Write the item after it, or remove it.")
            elif body.item is None and body.keyed is None:
                self._at += 1
                inner = Scalar(body.text, body.line)
            else:
                self._rows[self._at] = body
                inner = self._value(depth + 1)
            items += [] if inner is None else [inner]
            self._deeper(indent)
        return Listed(items, line)

    def _keyed(self, indent: int, depth: int) -> Keyed:
        line, entries, lines = self._rows[self._at].line, dict[str, Tree](), dict[str, int]()
        while (row := self._next()) is not None and row.indent == indent and row.item is None:
            self._at += 1
            pair = self._pair(row)
            if pair is None:
                continue
            key, value = pair
            inner: Tree | None = Scalar(value, row.line) if value else self._below(indent, depth, bullets=True)
            if value:
                self._deeper(indent, folded=_FOLDED.fullmatch(value) is not None)
            if key in entries:
                _twice(key, row.line, lines[key], self._notes)
            elif inner is None:
                self._error("field_missing", row.line, f"`{shown(key)}` has no value.")
            else:
                entries[key], lines[key] = inner, row.line
            self._deeper(indent)
        return Keyed(entries, line, lines)

    def _pair(self, row: SpecRow) -> tuple[str, str] | None:
        pair = row.keyed
        if pair is None:
            told = f"`{shown(row.text)}` is neither `key: value` nor an item of a list. Is the page cut off here?"
            self._error("spec_line", row.line, told)
        return pair

    def _below(self, indent: int, depth: int, *, bullets: bool = False) -> Tree | None:
        """The block below a row in the column `indent`; None if there is none. With `bullets`, the block may also be a list that begins in
        the same column."""
        row = self._next()
        if row is not None and (row.indent > indent or (bullets and row.indent == indent and row.item is not None)):
            return self._value(depth + 1)
        return None

    def _deeper(self, indent: int, *, folded: bool = False) -> None:
        """If the next rows are indented more than `indent`, note that as a problem and skip them. `folded`: the value above is `|` or `>`,
        so the problem says how to write the text."""
        row = self._next()
        if row is not None and row.indent > indent:
            told = "This line is indented more than the line that it could belong to."
            cure = " Write the text on one line, in double quotes." if folded else ""
            self._error("indentation", row.line, f"{told}{cure}")
            self._skip(indent + 1)

    def _skip(self, indent: int) -> None:
        while (row := self._next()) is not None and row.indent >= indent:
            self._at += 1

    def _next(self) -> SpecRow | None:
        return self._rows[self._at] if self._at < len(self._rows) else None

    def _error(self, code: str, line: int, message: str) -> None:
        self._notes.error(code, PIPELINE_SPEC, line, message)

    def flat_nodes(self, line: int) -> Listed:
        """The nodes of a page without indentation: a node begins with `- name: …`, and each of its values is on the line of its key; or a
        node is `- {…}`."""
        return Listed(list(self._flat_nodes()), line)

    def _flat_nodes(self) -> Iterator[Tree]:
        node: Keyed | None = None
        for row in self._rows:
            body = row.item
            if body is not None and body.text.startswith("{"):
                yield from [] if node is None else [node]
                yield Scalar(body.text, body.line)
                node = None
                continue
            pair = self._pair(body or row)
            if pair is None:
                continue
            key, value = pair
            if body is not None and key != "name":
                told = "The page has lost its indentation, so each node must begin with `- name: …`, and lists need brackets: […]."
                self._error("spec_line", row.line, told)
            elif body is not None:
                if node is not None:
                    yield node
                node = Keyed({}, row.line, {})
            if node is None:
                self._error("spec_line", row.line, "This line belongs to no node. A node begins with `- name: …`.")
            elif not value:
                told = (
                    f"The page has lost its indentation, so `{shown(key)}` must have its value on its own line, or between brackets: {{…}}."
                )
                self._error("spec_line", row.line, told)
            elif key in node.entries:
                _twice(key, row.line, node.lines[key], self._notes)
            else:
                node.entries[key], node.lines[key] = Scalar(value, row.line), row.line
        if node is not None:
            yield node

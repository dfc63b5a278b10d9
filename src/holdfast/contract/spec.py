"""Reads the Worker spec. It looks like YAML, but it is read line by line, by its known keys, because YAML's own rules fail on real pages.

In YAML `version: 1.0` would be a number and `purpose: one: two` an error, and a page may have lost all its indentation. Here the
indentation says which line belongs to which key; on a page without indentation the known keys say it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast.contract.notes import PageNotes, meant, shown
from holdfast.contract.page import SPEC, PageLine, Section
from holdfast.contract.words import is_open, unquoted, value_of, without_comment

TEXTS = ("worker_id", "version", "purpose")
BOUNDS = (
    "timeout_seconds", "run_timeout_seconds", "idle_timeout_seconds", "max_tokens", "max_cost_usd", "max_tool_calls", "tool_quotas",
    "max_cpu_seconds", "max_memory_mb", "allow_subprocess", "tools_allowed", "egress", "approvals_required", "rate_limit",
    "schedule",
)  # fmt: skip
GROUPS: dict[str, tuple[str, ...]] = {
    "constraints": BOUNDS,
    "retries": ("max_attempts", "backoff", "initial_delay_seconds", "max_delay_seconds"),
    "observability": ("trace_id", "log_fields"),
}
LISTS = ("inputs", "outputs")
TOP = (*TEXTS, *LISTS, *GROUPS)
OWNER = {key: group for group, keys in GROUPS.items() for key in keys}
"""The group of each key that belongs to a group."""
_KEY = re.compile(r"([\"'`]?)([A-Za-z_$][\w.$-]*)\1(?:\s*\((?P<flag>[^()]*)\))?[ \t]*:(?:[ \t]+(?P<value>.*)|[ \t]*)")
_MOST_LINES = 100
"""An inline list or map has at most this many lines."""
_BULLET = re.compile(r"([ \t]*)[-*•–](?:[ \t]+(.*)|[ \t]*)")


class Given(msgspec.Struct):
    """A value of the page, with its line and its section."""

    value: Any
    line: int
    section: str = SPEC
    items: list[Given] = []
    """The lines below the key, if the key has no value on its own line."""


class Spec(msgspec.Struct):
    """The values of a spec, by their keys."""

    line: int = 1
    texts: dict[str, Given] = {}
    fields: dict[str, list[Given]] = {}
    """The fields under `inputs` and `outputs`, each as a text `name: type`."""
    groups: dict[str, dict[str, Given]] = {}
    lines: dict[str, int] = {}
    """The line numbers of the keys `inputs` and `outputs`."""


def read_spec(section: Section, notes: PageNotes) -> Spec:
    """The spec in a section. Problems are noted: lines that cannot be read, keys that are there twice, and unknown keys."""
    lines = section.block("yaml", "yml", "")
    return _SpecReader(section.line, lines, notes).read()


def _indent(text: str) -> int:
    text = text.expandtabs(4)
    return len(text) - len(text.lstrip())


class _SpecReader:
    def __init__(self, line: int, lines: Sequence[PageLine], notes: PageNotes) -> None:
        self._lines = [one for one in lines if one.text.strip() and one.text.lstrip()[0] != "#" and one.text.strip() not in ("---", "...")]
        self._notes = notes
        self._spec = Spec(line, {}, {}, {group: {} for group in GROUPS}, {})
        keys = [one for one in self._lines if not _BULLET.fullmatch(one.text) and _KEY.fullmatch(one.text.strip())]
        self._base = min((_indent(one.text) for one in keys), default=0)
        self._flat = all(_indent(one.text) <= self._base for one in keys)
        self._top = ""
        """The top-level key of the current line."""
        self._retries_indent = -1
        """The indentation of a `retries` inside the constraints; lines that are deeper belong to it."""
        self._open: Given | None = None
        """The key that the next items belong to."""
        self._open_key, self._open_indent = "", 0

    def read(self) -> Spec:
        index = 0
        while index < len(self._lines):
            line = self._lines[index]
            index += 1
            if self._goes_on(line):
                continue
            text = line.text
            bullet = _BULLET.fullmatch(text)
            body = (bullet.group(2) or "") if bullet else text.strip()
            last = min(len(self._lines), index + _MOST_LINES)
            while index < last and _is_open_value(body):
                body += " " + self._lines[index].text.strip()
                index += 1
            if bullet:
                self._item(PageLine(line.number, body))
            else:
                self._keyed(line, body)
        for name, given in self._spec.texts.items():
            given.value = _text(name, given)
        return self._spec

    def _goes_on(self, line: PageLine) -> bool:
        """Whether this line continues the purpose, which is free text. If it does, the line is added to the purpose."""
        purpose = self._spec.texts.get("purpose")
        if self._top != "purpose" or purpose is None or purpose is not self._open:
            return False
        more = _KEY.fullmatch(line.text.strip()) is None or (not self._flat and _indent(line.text) > self._base)
        if more:
            purpose.items.append(Given(line.text.strip(), line.number))
        return more

    def _keyed(self, line: PageLine, body: str) -> None:
        hit = _KEY.fullmatch(body)
        if hit is None:
            self._stray(line)
            return
        key, value = hit.group(2), hit.group("value") or ""
        if self._is_top(key, line):
            self._top_level(key, value, line)
        else:
            self._nested(key, value, line, body)

    def _is_top(self, key: str, line: PageLine) -> bool:
        if not self._flat:
            return _indent(line.text) <= self._base
        if self._top in GROUPS and key in GROUPS[self._top]:
            return False
        if key in TOP or key in OWNER:
            return True
        # An unknown name is a field of the open list or an entry of the open group; if none is open, it is a key of its own.
        return not (self._top in LISTS or self._top in GROUPS)

    def _top_level(self, key: str, value: str, line: PageLine) -> None:
        self._open, self._retries_indent = None, -1
        if key in TEXTS:
            self._top = key
            given = Given(value, line.number)
            self._put(self._spec.texts, key, given)
            self._open = given if key == "purpose" else None
        elif key in LISTS:
            self._top = key
            self._fields(key, value, line.number)
        elif key in GROUPS:
            self._top = key
            self._group(key, value, line.number)
        elif key in OWNER:
            self._top = OWNER[key]
            self._bound(self._top, key, value, line)
        else:
            self._top = key
            told = f"`{shown(key)}` is not a key of a Worker spec, and is ignored.{meant(key, (*TOP, *OWNER))}"
            self._notes.warning("unknown_field", SPEC, line.number, told)

    def _fields(self, key: str, value: str, line: int) -> None:
        if key in self._spec.fields:
            self._twice(key, line, self._spec.lines[key])
        self._spec.lines[key] = line
        items = self._spec.fields[key] = []
        self._open = Given(None, line, SPEC, items)
        match value_of(value):
            case list() as names:
                items.extend(Given(name, line) for name in names)
            case dict() as types:
                items.extend(Given(f"{name}: {kind}", line) for name, kind in types.items())
            case None:
                pass
            case _:
                self._notes.error("spec_line", SPEC, line, f"`{key}` must be a list: below it, one line `- name: type` for each field.")

    def _group(self, key: str, value: str, line: int) -> None:
        match value_of(value):
            case dict() as given:
                for name, one in given.items():
                    self._put(self._spec.groups[key], name, Given(one, line))
            case None:
                pass
            case _:
                self._notes.error("spec_line", SPEC, line, f"`{key}` must be a group of keys. Write the keys below it, one on each line.")

    def _nested(self, key: str, value: str, line: PageLine, body: str) -> None:
        indent = _indent(line.text)
        if self._top in LISTS:
            self._spec.fields[self._top].append(Given(body, line.number))
        elif self._top in TEXTS:
            self._stray(line)
        elif self._top not in GROUPS:
            return  # below a key that is ignored
        elif self._is_entry(indent, key) and self._open is not None:
            self._open.items.append(Given(body, line.number))
        elif self._top == "constraints" and key == "retries":
            self._open, self._retries_indent = None, indent
            self._group("retries", value, line.number)
        else:
            self._bound("retries" if 0 <= self._retries_indent < indent else self._top, key, value, line)

    def _is_entry(self, indent: int, key: str) -> bool:
        """Whether a line is an entry of the key above it, such as `fetch_url: 5` below `tool_quotas:`. The key above must have no value on
        its own line. On a page with indentation, an entry is deeper than the key. On a page without, only `tool_quotas` has entries, and a
        line with a known key is not an entry."""
        if self._open is None or self._open.value is not None:
            return False
        return indent > self._open_indent if not self._flat else self._open_key == "tool_quotas" and key not in OWNER

    def _bound(self, group: str, key: str, value: str, line: PageLine) -> None:
        given = Given(value_of(value), line.number, SPEC, [])
        self._put(self._spec.groups[group], key, given)
        self._open, self._open_key, self._open_indent = given, key, _indent(line.text)
        if key not in GROUPS[group]:
            told = f"`{shown(key)}` is not a key of `{group}`, and is ignored.{meant(key, (*GROUPS[group], *TOP))}"
            self._notes.warning("unknown_field", SPEC, line.number, told)

    def _item(self, line: PageLine) -> None:
        if self._open is None or self._open.value is not None:
            if self._top in TOP:
                self._stray(line)
            return
        self._open.items.append(Given(line.text.strip(), line.number))

    def _put(self, where: dict[str, Given], key: str, given: Given) -> None:
        if key in where:
            self._twice(key, given.line, where[key].line)
        else:
            where[key] = given

    def _twice(self, key: str, line: int, first: int) -> None:
        self._notes.error("duplicate_field", SPEC, line, f"`{shown(key)}` is given a second time; the first is on line {first}. Keep one.")

    def _stray(self, line: PageLine) -> None:
        told = f"`{shown(line.text.strip())}` is neither `key: value` nor an item of a list. Is the page cut off here?"
        self._notes.error("spec_line", SPEC, line.number, told)


def _is_open_value(body: str) -> bool:
    hit = _KEY.fullmatch(body)
    return is_open(without_comment(hit.group("value") or "")) if hit and hit.group(2) not in TEXTS else False


def _text(name: str, given: Given) -> str:
    """The text of a key, without quotes around it and without a comment: `1.0` stays `1.0`. In a purpose nothing is a comment: it keeps its
    colons and hash signs, and its lines become one line."""
    value = str(given.value)
    if name != "purpose":
        return unquoted(without_comment(value))
    first = "" if re.fullmatch(r"[>|][+-]?\d?", value.strip()) else value
    return unquoted(" ".join(part for part in (first.strip(), *(str(item.value) for item in given.items)) if part))

"""Reads the JSON of a page strictly, and notes the lines of its keys, so that an error can name the line."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from typing import Any, NoReturn

import msgspec

from holdfast.contract.notes import PageNotes, shown
from holdfast.contract.page import PageLine, Section

MAX_DEPTH = 60
_PLACED_DEPTH = 8
_TOLD_TWICE = 20
_LARGEST = 2**63
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"?|[{}\[\]:,]', re.S)
_COLON = re.compile(r"\s*:")
_AFTER = re.compile(r"\s*[{}\[\],\"]")
_TRAILING = re.compile(r",\s*([}\]])")

BlockPath = tuple[str, ...]


class JsonBlock(msgspec.Struct, frozen=True):
    """A JSON value of the page, the line where it begins, and the lines of its keys by their paths."""

    value: Any
    line: int
    places: dict[BlockPath, int]

    def at(self, *path: str) -> int:
        """The line of the key at this path. If that line is not known: the line of the nearest key that contains it, or else the line where
        the block begins."""
        while path:
            if path in self.places:
                return self.places[path]
            path = path[:-1]
        return self.line


class _Unfit(ValueError):
    """A number that a contract cannot contain: NaN, an infinite number, or one that is too large."""


def read_json(section: Section, notes: PageNotes) -> JsonBlock | None:
    """The JSON under a heading; None if it cannot be read, with the reason noted."""
    lines = section.block("json", "jsonc", "")
    begin = next((index for index, line in enumerate(lines) if line.text.lstrip()[:1] in ("{", "[")), None)
    if begin is None:
        at = next((line.number for line in lines if line.text.strip()), section.line)
        told = "There is no JSON here. Write a JSON object, in a ```json block for instance; or is the page cut off?"
        notes.error("json_missing", section.name, at, told)
        return None
    return _Block(section.name, lines[begin:], notes).read()


class _Block:
    def __init__(self, name: str, lines: Sequence[PageLine], notes: PageNotes) -> None:
        self._name = name
        self._first = lines[0].number
        self._text = "\n".join(line.text for line in lines)
        self._notes = notes
        self._twice: list[str] = []

    def read(self) -> JsonBlock | None:
        """The value; None if it cannot be read, with the reason noted."""
        start = len(self._text) - len(self._text.lstrip())
        places, deep = _places(self._text, self._first)
        if deep is not None:
            self._failed("json_too_deep", deep, f"The JSON is nested more than {MAX_DEPTH} levels deep. Make it flatter.")
            return None
        decoder = json.JSONDecoder(object_pairs_hook=self._once, parse_constant=_no_number, parse_float=_number, parse_int=_integer)
        try:
            value, end = decoder.raw_decode(self._text, start)
            json.dumps(value, ensure_ascii=False).encode()
        except json.JSONDecodeError as error:
            self._told(error)
            return None
        except UnicodeEncodeError:
            self._failed("json_invalid", 0, "A string contains one half of a surrogate pair. Write the whole character.")
            return None
        except (ValueError, RecursionError) as error:
            self._failed("json_invalid", 0, f"The JSON cannot be used: {error}.")
            return None
        for key in dict.fromkeys(self._twice[:_TOLD_TWICE]):
            line = self._line(_last(self._text, key))
            self._notes.error("json_duplicate_key", self._name, line, f'The key "{shown(key)}" is there twice in one object. Keep one.')
        if after := _AFTER.match(self._text, end):
            self._failed("json_invalid", after.end() - 1, "The JSON ends before this character. Is there a brace too many?")
            return None
        return JsonBlock(value, self._first, places)

    def _told(self, error: json.JSONDecodeError) -> None:
        if error.pos >= len(self._text.rstrip()) or (error.msg.startswith("Unterminated string") and "\n" not in self._text[error.pos :]):
            told = "The JSON ends in the middle. Is the page cut off, or a closing brace missing?"
            self._failed("json_cut_off", max(0, len(self._text.rstrip()) - 1), told)
            return
        at, what, hint = error.pos, error.msg, ""
        # Python 3.13 reports the comma; older versions report the character after it. The message is the same on each version.
        comma = at if self._text.startswith(",", at) else len(self._text[:at].rstrip()) - 1
        if closing := _TRAILING.match(self._text, comma):
            at, what, hint = closing.end() - 1, f"a comma before {closing[1]}", " Remove the comma."
        elif self._text[at : at + 1] == "'":
            hint = " Write strings with \", not with '."
        elif self._text.startswith(("//", "/*", "#"), at):
            hint = " JSON has no comments."
        column = at - (self._text.rfind("\n", 0, at) + 1) + 1
        self._failed("json_invalid", at, f"This is not JSON: {what} (column {column}).{hint}")

    def _failed(self, code: str, offset: int, message: str) -> None:
        self._notes.error(code, self._name, self._line(offset), message)

    def _line(self, offset: int) -> int:
        return self._first + self._text.count("\n", 0, offset)

    def _once(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) < len(pairs):
            seen = set[str]()
            for key, _ in pairs:
                if key in seen:
                    self._twice.append(key)
                seen.add(key)
        return made


def _no_number(text: str) -> NoReturn:
    raise _Unfit(f"{text} is not a JSON number")


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise _Unfit(f"the number {shown(text)} is too large")
    return value


def _integer(text: str) -> int:
    if len(text) > 20 or not -_LARGEST <= (value := int(text)) < _LARGEST:
        raise _Unfit(f"the number {shown(text)} is too large")
    return value


def _last(text: str, key: str) -> int:
    """The offset of the last place in the text at which the key is written; 0 if it is not found, because it is written with escapes."""
    return max(0, text.rfind(json.dumps(key, ensure_ascii=False)))


def _places(text: str, first: int) -> tuple[dict[BlockPath, int], int | None]:
    """Two values: the line of each key that is at most _PLACED_DEPTH levels deep, by its path; and the offset where the nesting becomes too
    deep, or None if it never does.
    """
    places: dict[BlockPath, int] = {}
    path: list[str] = []  # for each open bracket: the key before it
    key, counted, line = "", 0, first
    for token in _TOKEN.finditer(text):
        sign = token.group()[0]
        if sign in "{[":
            path.append(key)
            key = ""
            if len(path) > MAX_DEPTH:
                return places, token.start()
        elif sign in "}]":
            if path:
                path.pop()
            if not path:
                break
        elif sign == '"' and len(path) <= _PLACED_DEPTH and _COLON.match(text, token.end()):
            line, counted = line + text.count("\n", counted, token.start()), token.start()
            key = token.group()[1:-1]
            places.setdefault((*path[1:], key), line)
    return places, None

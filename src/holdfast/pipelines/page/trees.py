"""Trees: the values of a Pipeline spec before their types are known, and the inline forms `{key: value}`, `[value]`, `word(value)`.

Nothing is evaluated, and the time is in proportion to the length of the text. A text that cannot be read raises PageUnreadable, with its
line.
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_right
from typing import Any, Final, TypeAlias

import msgspec

from holdfast.contract.notes import shown

MAX_DEPTH: Final = 48
"""A value on a page is nested at most this many levels deep. The limit for a template is lower (graph/templates.py)."""
STRING: Final = r'"(?:[^"\\\n]|\\[^\n])*"'
_INDEX: Final = rf"\[[ \t]*(?:{STRING}|[0-9]{{1,9}}|\*)[ \t]*\]"
_TOKEN: Final = re.compile(rf"{STRING}|{_INDEX}|[^\"\[\](){{}},]+|.", re.S)
_KEY: Final = re.compile(rf"\s*(?:({STRING})|([A-Za-z0-9_][A-Za-z0-9_-]*))[ \t]*:")
_BLANK: Final = re.compile(r"\s*")
_PIECE: Final = re.compile(rf"{STRING}|[\[\](){{}}]|(?<!\S)\#|[^\"\[\](){{}}#]+|.", re.S)
_NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]{0,999})(\.[0-9]{1,999})?([eE][+-]?[0-9]{1,5})?")
_OPENS, _CLOSES = "[({", "])}"


class PageUnreadable(Exception):
    """The text cannot be read without guessing. The error has a sentence that says what is wrong, the line, and the code of the problem."""

    def __init__(self, what: str, line: int, code: str = "bad_value") -> None:
        super().__init__(what)
        self.what = what
        self.line = line
        self.code = code


class Scalar(msgspec.Struct, frozen=True):
    """A text whose meaning depends on the field to which it belongs."""

    text: str
    line: int


class WordCall(msgspec.Struct, frozen=True):
    """A word with values in brackets: `concat(a, b)`, `inputs.limit.default(5)`."""

    word: str
    given: list[Tree]
    line: int


class Listed(msgspec.Struct, frozen=True):
    """A list."""

    items: list[Tree]
    line: int


class Keyed(msgspec.Struct, frozen=True):
    """An object. Keys are in the order of the page."""

    entries: dict[str, Tree]
    line: int
    lines: dict[str, int]
    """The line of each key."""


Tree: TypeAlias = Scalar | WordCall | Listed | Keyed


def without_comment(text: str) -> str:
    """The text before its comment, without spaces around it. A comment begins with a # outside of quotes, at the beginning of the text or
    after a space."""
    at = 0
    for piece in _PIECE.finditer(text):
        if piece.group() == "#" and (at == 0 or text[at - 1].isspace()):
            return text[:at].strip()
        at = piece.end()
    return text.strip()


def open_brackets(text: str, before: int = 0) -> int:
    """How many brackets are open at the end of a line, if `before` brackets were open at its beginning. Brackets in quotes are ignored. 0
    if the line closes more brackets than were open."""
    for piece in _PIECE.finditer(text):
        found = piece.group()
        before += (found in _OPENS) - (found in _CLOSES)
        if before < 0:
            return 0
    return before


def inline(scalar: Scalar) -> Tree:
    """The tree of a text on one line (without its comment) or on several. Raises PageUnreadable if the text cannot be read."""
    text = without_comment(scalar.text) if "\n" not in scalar.text else scalar.text.strip()
    if not text:
        raise PageUnreadable("A value is missing. Write it, or remove its key or its bullet.", scalar.line)
    return _Inline(text, scalar.line).whole()


class _Inline:
    """One inline value. Its depth is bounded, so it may recurse."""

    def __init__(self, text: str, line: int) -> None:
        self._text = text
        self._first = line
        self._ends = [hit.start() for hit in re.finditer("\n", text)]
        self._at = 0

    def whole(self) -> Tree:
        made = self._value(1)
        self._skip()
        if self._at < len(self._text):
            raise self._wrong(f"`{shown(self._text[self._at :][:99], 40)}` comes after its end")
        return made

    def _value(self, depth: int) -> Tree:
        if depth > MAX_DEPTH:
            raise self._wrong(f"it is nested more than {MAX_DEPTH} levels deep", "too_deep")
        self._skip()
        match self._text[self._at : self._at + 1]:
            case "[":
                line = self._line()
                return Listed(self._values("]", depth), line)
            case "{":
                return self._keyed(depth)
            case _:
                return self._scalar(depth)

    def _values(self, closing: str, depth: int) -> list[Tree]:
        """Read the values between brackets, from the opening bracket to the closing one."""
        items: list[Tree] = []
        self._at += 1
        while not self._closed(closing):
            items.append(self._value(depth + 1))
            self._parted(closing)
        return items

    def _keyed(self, depth: int) -> Keyed:
        line, entries, lines = self._line(), dict[str, Tree](), dict[str, int]()
        self._at += 1
        while not self._closed("}"):
            hit = _KEY.match(self._text, self._at)
            if hit is None:
                raise self._wrong(f"there is no `key: value` at `{shown(self._text[self._at :][:99], 40)}`")
            self._skip()
            key = hit[2] if hit[1] is None else text_in(hit[1], self._line())
            if key in entries:
                raise self._wrong(f"the key `{shown(key)}` is twice in one object", "duplicate_field")
            lines[key] = self._line()
            self._at = hit.end()
            entries[key] = self._value(depth + 1)
            self._parted("}")
        return Keyed(entries, line, lines)

    def _scalar(self, depth: int) -> Scalar | WordCall:
        start, line = self._at, self._line()
        for token in _TOKEN.finditer(self._text, start):
            sign = token.group()
            if sign == "(":
                self._at = token.start()
                return WordCall(self._text[start : token.start()].strip(), self._values(")", depth), line)
            if sign == "," or sign in _CLOSES:
                break
            if sign == '"':
                raise self._wrong("a text in double quotes is not closed on its line")
            if sign in _OPENS:
                found = shown(self._text[token.start() :][:99], 40)
                raise self._wrong(f"`{found}` is neither an index nor a value; write an index as [0], and a comma between two values")
            self._at = token.end()
        text = self._text[start : self._at].strip()
        if not text:
            raise self._wrong("a value is missing")
        return Scalar(text, line)

    def _closed(self, sign: str) -> bool:
        self._skip()
        if self._at >= len(self._text):
            raise self._wrong(f"`{sign}` is missing", "value_cut_off")
        if self._text[self._at] != sign:
            return False
        self._at += 1
        return True

    def _parted(self, sign: str) -> None:
        """Skip the comma after a value. The last value needs no comma. Raises PageUnreadable if there is neither a comma nor the closing
        bracket `sign`."""
        self._skip()
        if self._text.startswith(",", self._at):
            self._at += 1
        elif self._at >= len(self._text):
            raise self._wrong(f"`{sign}` is missing", "value_cut_off")
        elif not self._text.startswith(sign, self._at):
            raise self._wrong(f"`,` or `{sign}` is missing at `{shown(self._text[self._at :][:99], 40)}`")

    def _skip(self) -> None:
        blank = _BLANK.match(self._text, self._at)
        self._at = blank.end() if blank else self._at

    def _line(self) -> int:
        return self._first + bisect_right(self._ends, self._at - 1)

    def _wrong(self, what: str, code: str = "bad_value") -> PageUnreadable:
        return PageUnreadable(f"The value cannot be read: {what}.", self._line(), code)


def text_in(quoted: str, line: int) -> str:
    """The text of a JSON string. Raises PageUnreadable, with this line, if it is not one."""
    try:
        text = json.loads(quoted)
        text.encode()
    except (ValueError, UnicodeEncodeError):
        raise PageUnreadable(f"{shown(quoted)} is not a JSON string. Write it in double quotes, with the escapes of JSON.", line) from None
    return str(text)


def plain_value(scalar: Scalar) -> Any:
    """The value of a text in quotes, a number, true, false or null. Raises PageUnreadable for any other text, and for a number that is too
    large."""
    text = scalar.text
    if text.startswith('"'):
        if not re.fullmatch(STRING, text):
            raise PageUnreadable(f"{shown(text)} is not a text. Write one double quote before it and one after it.", scalar.line)
        return text_in(text, scalar.line)
    if _NUMBER.fullmatch(text):
        value = json.loads(text)
        if isinstance(value, float) and not math.isfinite(value):
            raise PageUnreadable(f"The number {shown(text)} is too large.", scalar.line)
        return value
    if text in ("true", "false", "null"):
        return json.loads(text)
    raise PageUnreadable(f"`{shown(text)}` is not a value here. Write a text in double quotes, a number, true, false or null.", scalar.line)


def constant(tree: Tree) -> Any:
    """The JSON value of a tree. Raises PageUnreadable if the tree is not JSON, for example if it has references, calls or texts without
    quotes."""
    match inline(tree) if isinstance(tree, Scalar) else tree:
        case Keyed(entries=entries):
            return {key: constant(inner) for key, inner in entries.items()}
        case Listed(items=items):
            return [constant(inner) for inner in items]
        case WordCall(word=word, line=line):
            raise PageUnreadable(f"`{shown(word)}(…)` is not allowed here. Write JSON.", line)
        case Scalar() as scalar:
            return plain_value(scalar)

"""Reads the small parts of a spec's lines: lists, `(optional)`, types, numbers, rates."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from holdfast.contract.terms import RateLimit

TYPES = ("string", "number", "integer", "boolean", "object", "array", "null", "any")
OTHER_TYPES = {
    "str": "string", "text": "string", "int": "integer", "float": "number", "double": "number", "bool": "boolean",
    "dict": "object", "map": "object", "json": "object", "list": "array", "none": "null",
}  # fmt: skip
_OPTIONAL = re.compile(r"\(\s*optional\b[^()]*\)|\([^()]*,\s*optional\s*\)", re.I)
_NUMBER = re.compile(r"[+-]?(\d+|\d+\.\d*|\.\d+)([eE][+-]?\d{1,3})?")
_COMMENT = re.compile(r"(^|\s)#.*$")
_CLOSES = {"[": "]", "{": "}", "(": ")"}
_RATE = re.compile(
    r"(\d{1,9})\s*(?:/|\bper\b|\ba\b|\bevery\b)\s*(\d{1,6})?\s*"
    r"(milliseconds?|ms|seconds?|secs?|s|minutes?|mins?|m|hours?|hrs?|h|days?|d)\b",
    re.I,
)
_LONGEST_RATE = 200
_EXAMPLE = re.compile(r"\bexample\b|\be\.\s?g\.", re.I)
_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}


class SpecType(NamedTuple):
    """The type that a line of the spec names."""

    type: str
    """One of TYPES, or `enum`, or the word of the line if it is no known type."""
    optional: bool
    enum: tuple[str, ...] = ()


def without_optional(text: str) -> tuple[str, bool]:
    """The text without its bracket `(optional)`, `(optional …)` or `(…, optional)`, and whether it had one."""
    bare = _OPTIONAL.sub("", text)
    return bare.strip(), bare != text


def without_comment(text: str) -> str:
    """The text without its comment. A comment begins with a `#` outside of quotes, at the beginning or after white space."""
    if not _COMMENT.search(text):
        return text.strip()
    mark = ""
    for index, char in enumerate(text):
        if mark:
            mark = "" if char == mark else mark
        elif char in "\"'" and (index == 0 or text[index - 1] in " [{(,:"):
            mark = char
        elif char == "#" and (index == 0 or text[index - 1].isspace()):
            return text[:index].strip()
    return text.strip()


def unquoted(text: str) -> str:
    """The text without white space at its ends, and without quotes around it. Quotes are removed only if they enclose the whole text."""
    text = text.strip()
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "\"'":
        inner = text[1:-1]
        if text[0] == "'":
            return inner.replace("''", "'") if "'" not in inner.replace("''", "") else text
        return re.sub(r'\\(["\\])', r"\1", inner) if not re.search(r'(?<!\\)"', inner.replace("\\\\", "")) else text
    return text


def split_list(text: str) -> list[str]:
    """The parts of a list, without their quotes; empty parts are left out. A comma inside brackets or quotes does not separate parts."""
    return [unquoted(part) for part in _parts(text) if part.strip()]


def _parts(text: str) -> Iterator[str]:
    part, mark, blank, waiting = "", "", True, []
    for char in text:
        if mark:
            mark = "" if char == mark else mark
        elif char in "\"'" and blank:
            mark = char
        elif char in _CLOSES:
            waiting.append(_CLOSES[char])
        elif waiting and char == waiting[-1]:
            waiting.pop()
        elif char == "," and not waiting:
            yield part
            part, blank = "", True
            continue
        blank = blank and char.isspace()
        part += char
    yield part


def is_open(text: str) -> bool:
    """Whether this text begins with a list or a map that does not end in it. If so, the next line of the page belongs to that list or
    map."""
    return text[:1] in ("[", "{") and text.count("[") + text.count("{") > text.count("]") + text.count("}")


def value_of(text: str) -> Any:
    """The value of a scalar, an inline list or an inline map in a spec: a number, a boolean, a text, None, a list of texts, or a map of
    values. A list or a map inside a map stays a text."""
    text = without_comment(text)
    if text.startswith("[") and text.endswith("]"):
        return split_list(text[1:-1])
    if text.startswith("{") and text.endswith("}"):
        pairs = (part.partition(":") for part in _parts(text[1:-1]) if part.strip())
        return {unquoted(key): value_of(value) if value.strip()[:1] not in ("{", "[") else value.strip() for key, _, value in pairs}
    if _NUMBER.fullmatch(text) and len(text) <= 40:
        return float(text) if re.search(r"[.eE]", text) else int(text)
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    return None if text.lower() in ("", "null", "~") else unquoted(text)


def type_of(text: str) -> SpecType:
    """The type of an input or output: `string`, `object (optional)`, `enum(a, b)`."""
    text, optional = without_optional(without_comment(text))
    if re.match(r"enum\s*\(", text, re.I):
        inner, closed = _bracketed(text[text.index("(") + 1 :])
        return SpecType("enum", optional, tuple(split_list(inner)) if closed else ())
    word = re.match(r"[\"'`]?([A-Za-z_]+)", text)
    name = word.group(1) if word else text
    return SpecType(name.lower() if name.lower() in TYPES else name, optional)


def _bracketed(text: str) -> tuple[str, bool]:
    """The text before the bracket `)` that closes the list, and True; the whole text and False if there is no such bracket."""
    open_, mark, last = 1, "", ","
    for index, char in enumerate(text):
        if mark:
            mark = "" if char == mark else mark
        elif char in "\"'" and last == ",":
            mark = char
        else:
            open_ += {"(": 1, ")": -1}.get(char, 0)
        if open_ == 0:
            return text[:index], True
        last = last if char.isspace() else char
    return text, False


def rate_of(text: str) -> RateLimit | None:
    """The rate in a text such as `10/min per tenant` or `per-tenant (example: 10/min)`; None if there is none. The rate is for each tenant,
    unless the text says `per user`."""
    text = text[:_LONGEST_RATE]
    hit = _RATE.search(text)
    if not hit or int(hit.group(1)) == 0 or (hit.group(2) and int(hit.group(2)) == 0):
        return None
    unit = hit.group(3).lower()
    seconds = _UNITS["ms" if unit.startswith(("ms", "milli")) else unit[0]] * int(hit.group(2) or 1)
    per_user = re.search(r"\bper[-\s]+user\b", text, re.I) is not None
    return RateLimit(int(hit.group(1)), seconds, "user" if per_user else "tenant", _EXAMPLE.search(text) is not None)

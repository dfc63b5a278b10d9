"""Undoes the encodings of a text, one layer at a time. Each part of the result can be mapped back to the part of the original text that it
came from.

A secret may be percent-encoded, escaped as in JSON or HTML, in base64 (also in lines) or in hexadecimal, or in two of these at once. Each
layer is undone once for the whole text, so the cost grows with the text and not with the number of possible encodings.
"""

from __future__ import annotations

import binascii
import html
import re
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

_ESCAPES: Final = re.compile(
    r"""(?P<percent>(?:%[0-9A-Fa-f]{2})+)            # %2F, %c3%a9
      | (?P<unicode>(?:\\u[0-9A-Fa-f]{4})+)          # \u00e9, and pairs of surrogates
      | (?P<bytes>(?:\\x[0-9A-Fa-f]{2})+)            # \xc3\xa9, as Python shows bytes; \xe9 in JavaScript
      | \\(?P<short>["\\/bfnrt'])
      | (?P<entity>&(?:\#[0-9]{1,7}|\#[xX][0-9A-Fa-f]{1,6}|amp|lt|gt|quot|apos|sol|plus|equals|colon|percnt|lowbar|dollar|num|excl|ast
            |lpar|rpar|comma|period|semi|quest|commat|lsqb|lbrack|bsol|rsqb|rbrack|Hat|grave|lcub|lbrace|verbar|vert|rcub|rbrace);)
    """,
    re.VERBOSE,
)
_SHORT: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_WRAPPED: Final = re.compile(r"(?<=[A-Za-z0-9+/_-])[ \t]*\r?\n[ \t]*(?=[A-Za-z0-9+/_=-])")
_BASE64: Final = re.compile(r"[A-Za-z0-9+/_-]{12,}")
_HEX: Final = re.compile(r"[0-9A-Fa-f]{2}(?:[ :]?[0-9A-Fa-f]{2}){7,}")
_TIMES: Final = 16
_FREE: Final = 8 * 1024
_MAY_BE_ESCAPED: Final = re.compile(r"[%\\&]")

StartEnd = tuple[int, int]
Locate = Callable[[int, int], StartEnd]
"""A function that takes the start and the end of a part of a view, and returns the start and the end of the part of the text from which it
was made."""


class DecodedText(NamedTuple):
    """A text with one or more layers of encoding undone."""

    text: str
    place: Locate


def undone(text: str, layers: int) -> Iterator[DecodedText]:
    """Views of the text: first those with one layer of encoding undone, then those with two, up to `layers`. There are no further views
    when all views together have about 16 times as many characters as the text, and 8 KiB more."""
    budget = _TIMES * len(text) + _FREE
    waiting: deque[tuple[DecodedText, int]] = deque([(DecodedText(text, lambda start, end: (start, end)), 0)])
    met = {text}
    """The texts of the views that were made already. Undoing layers in another order often gives the same text, which is not used again."""
    while waiting:
        above, depth = waiting.popleft()
        for view in views(above.text):
            if view.text in met:
                continue
            met.add(view.text)
            budget -= len(view.text)
            if budget < 0:
                return
            found = DecodedText(view.text, _through(view.place, above.place))
            yield found
            if depth + 1 < layers:
                waiting.append((found, depth + 1))


def _through(inner: Locate, outer: Locate) -> Locate:
    """A function that maps the start and the end of a part of a decoded text: first with `inner`, then the result with `outer`. So it leads
    back through two layers of encoding."""
    return lambda start, end: outer(*inner(start, end))


def views(text: str) -> Iterator[DecodedText]:
    """The text with one kind of encoding undone, for each kind that it seems to have: at most four views."""
    if _MAY_BE_ESCAPED.search(text):
        yield from _replaced(text, _ESCAPES, _unescape)
    if "\n" in text:
        yield from _replaced(text, _WRAPPED, lambda _: "")  # joins lines; the next layer decodes the long line as base64
    yield from _replaced(text, _BASE64, _from_base64)
    yield from _replaced(text, _HEX, _from_hex)


def _replaced(text: str, pattern: re.Pattern[str], by: Callable[[re.Match[str]], str]) -> Iterator[DecodedText]:
    """One view: the text with each match of `pattern` replaced by what `by` returns for it. No view if nothing matches."""
    parts: list[str] = []
    marks: list[tuple[int, int, int, int]] = []
    end = length = 0
    for hit in pattern.finditer(text):
        made = by(hit)
        start = hit.start()
        parts += (text[end:start], made)
        length += start - end
        marks.append((length, length + len(made), start, hit.end()))
        length += len(made)
        end = hit.end()
    if marks:
        parts.append(text[end:])
        yield DecodedText("".join(parts), _Back(marks))


class _Back:
    """Maps places of a view to places of the text from which it was made. A place inside a replaced part (such as decoded base64) maps to
    the whole part."""

    def __init__(self, marks: list[tuple[int, int, int, int]]) -> None:
        self._marks = marks
        self._starts = [mark[0] for mark in marks]

    def __call__(self, start: int, end: int) -> StartEnd:
        return self._at(start, last=False), self._at(end - 1, last=True)

    def _at(self, place: int, *, last: bool) -> int:
        index = bisect_right(self._starts, place) - 1
        if index < 0:
            return place + last
        _, over, source, ends = self._marks[index]
        if place < over:
            return ends if last else source
        return ends + place - over + last


def _unescape(hit: re.Match[str]) -> str:
    if hit["percent"] is not None:
        return bytes.fromhex(hit["percent"].replace("%", "")).decode("utf-8", "replace")
    if hit["unicode"] is not None:
        return bytes.fromhex(hit["unicode"].replace("\\u", "")).decode("utf-16-be", "replace")
    if hit["bytes"] is not None:
        return _from_bytes(bytes.fromhex(hit["bytes"].replace("\\x", "")))
    if hit["short"] is not None:
        return _SHORT.get(hit["short"], hit["short"])
    return html.unescape(hit["entity"])


def _from_bytes(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def _from_base64(hit: re.Match[str]) -> str:
    text = hit.group().replace("-", "+").replace("_", "/")
    text = text[: len(text) - (len(text) % 4 == 1)]
    try:
        return binascii.a2b_base64(text + "=" * (-len(text) % 4)).decode("utf-8", "replace")
    except binascii.Error:
        return hit.group()


def _from_hex(hit: re.Match[str]) -> str:
    return bytes.fromhex(hit.group().replace(":", "")).decode("utf-8", "replace")

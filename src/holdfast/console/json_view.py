"""JSON as a page shows it: indented, coloured by kind, and cut where it is too long or too deep.

The server renders it, because a browser would lose digits of large numbers. A text that is not JSON is shown as plain text.
"""

from __future__ import annotations

import json
from typing import Any, Final

from markupsafe import Markup

from holdfast.web.plain_html import shown

_MOST_CHARACTERS: Final = 200_000
"""A longer text is not parsed: the page shows its beginning as plain text."""
_MOST_LINES: Final = 1_000
_MOST_MEMBERS: Final = 200
_MOST_TEXT: Final = 2_000
_MOST_DEPTH: Final = 30
_CUT: Final = 20_000


class _Number(str):
    """The digits of a number, as they were written."""


class _Full(Exception):
    """Raised when the value has more lines than the page may show."""


def json_html(text: str | None, most_lines: int = _MOST_LINES) -> Markup:
    """A JSON text as HTML, cut after `most_lines` lines. None is shown as the word "nothing". If a text is not JSON or is too long, its
    beginning is shown as plain text."""
    if text is None:
        return Markup('<span class="muted">nothing</span>')
    if len(text) > _MOST_CHARACTERS:
        return _plain(text)
    try:
        value = json.loads(text, parse_int=_Number, parse_float=_Number, parse_constant=_Number)
    except (ValueError, RecursionError):
        return _plain(text)
    return value_html(value, most_lines)


def value_html(value: Any, most_lines: int = _MOST_LINES) -> Markup:
    """A value that was read from JSON, as HTML, cut after `most_lines` lines. Long texts, long lists and deep values inside it are cut,
    too."""
    writer = _Writer(most_lines)
    try:
        writer.value(value, 0)
    except _Full:
        writer.parts.append(f'\n<span class="muted">… cut after {most_lines:,} lines</span>')
    return Markup(f'<pre class="json" tabindex="0">{"".join(writer.parts)}</pre>')


def _plain(text: str) -> Markup:
    cut = f'\n<span class="muted">… cut: {len(text):,} characters in all</span>' if len(text) > _CUT else ""
    return Markup(f'<pre class="json" tabindex="0">{shown(text[:_CUT])}{cut}</pre>')


class _Writer:
    def __init__(self, most_lines: int) -> None:
        self.parts: list[str] = []
        self._left = most_lines

    def _line(self, depth: int) -> None:
        self._left -= 1
        if self._left < 0:
            raise _Full
        self.parts.append("\n" + "  " * depth)

    def value(self, value: Any, depth: int) -> None:
        match value:
            case dict():
                members = [
                    (f'<span class="key">{shown(_cut(json.dumps(str(key), ensure_ascii=False)))}</span>: ', one)
                    for key, one in value.items()
                ]
                self._members("{", members, "}", depth)
            case list():
                self._members("[", [("", one) for one in value], "]", depth)
            case bool() | None:
                self.parts.append(f'<span class="word">{json.dumps(value)}</span>')
            case _Number() | int() | float():
                self.parts.append(f'<span class="number">{shown(_cut(str(value)))}</span>')
            case _:
                self.parts.append(f'<span class="text">{shown(_cut(json.dumps(str(value), ensure_ascii=False)))}</span>')

    def _members(self, begin: str, members: list[tuple[str, Any]], end: str, depth: int) -> None:
        if not members:
            self.parts.append(begin + end)
            return
        if depth >= _MOST_DEPTH:
            self.parts.append(f'{begin}<span class="muted">… {len(members):,} deeper</span>{end}')
            return
        self.parts.append(begin)
        for at, (label, one) in enumerate(members[:_MOST_MEMBERS], 1):
            self._line(depth + 1)
            self.parts.append(label)
            self.value(one, depth + 1)
            if at < len(members):
                self.parts.append(",")
        if len(members) > _MOST_MEMBERS:
            self._line(depth + 1)
            self.parts.append(f'<span class="muted">… {len(members) - _MOST_MEMBERS:,} more</span>')
        self._line(depth)
        self.parts.append(end)


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}… ({len(text):,} characters)"

"""How values are laid out on a page: on one line if the line is short, else with one member on each line between the brackets.

A value of several lines is always between brackets, so that it can be read also from a page that lost its indentation.
"""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple, TypeAlias

WIDTH: Final = 110
_STEP: Final = "  "


class Group(NamedTuple):
    """A list, an object or a call: its members between an opening and a closing bracket. Each member has the text before it: `key: ` in an
    object, else empty."""

    opening: str
    members: list[tuple[str, Doc]]
    closing: str

    def __str__(self) -> str:
        return f"{self.opening}{', '.join(f'{before}{member}' for before, member in self.members)}{self.closing}"


Doc: TypeAlias = "str | Group"
"""A value that is not laid out yet: a text that stays on one line, or a Group that may be put on several lines."""


def laid_out(doc: Doc, before: str, indent: str = "") -> str:
    """The text `before` followed by a value, on one line or on several. All lines after the first begin with at least `indent`."""
    line = f"{before}{doc}"
    if isinstance(doc, str) or not doc.members or len(line) <= WIDTH:
        return line
    last = len(doc.members) - 1
    inner = indent + _STEP
    lines = [laid_out(member, f"{inner}{key}", inner) + ("," if at < last else "") for at, (key, member) in enumerate(doc.members)]
    return "\n".join([f"{before}{doc.opening}", *lines, f"{indent}{doc.closing}"])


def quoted(text: str) -> str:
    """A text as a JSON string in double quotes. Characters that cannot be printed are escaped."""
    written = json.dumps(text, ensure_ascii=False)
    return written if written.isprintable() else "".join(each if each.isprintable() else json.dumps(each)[1:-1] for each in written)


def value_doc(value: Any) -> Doc:
    """A JSON value, ready to be laid out on a page."""
    if isinstance(value, dict):
        return Group("{", [(f"{quoted(key)}: ", value_doc(inner)) for key, inner in value.items()], "}")
    if isinstance(value, list | tuple):
        return Group("[", [("", value_doc(inner)) for inner in value], "]")
    return quoted(value) if isinstance(value, str) else json.dumps(value)

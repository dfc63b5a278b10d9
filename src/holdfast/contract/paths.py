"""Paths into JSON values: `.field`, `["any field"]`, `[0]` and `[*]`, as text and as parts.

A part is a field's name, the index of a list, or `EACH`, which stands for every element of a list.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, Final, TypeAlias

EACH: Final = "*"
"""The part that stands for each element of a list. A field with this name cannot be reached."""
MAX_PARTS: Final = 32
MAX_FIELD: Final = 256
"""In a path, the name of a field has at most this many characters."""
MAX_INDEX: Final = 1_000_000
Part: TypeAlias = str | int
ValuePath: TypeAlias = tuple[Part, ...]

_PLAIN: Final = re.compile(r"[^\s.\[\]\"*]+")
_NEXT: Final = re.compile(r"\.([^\s.\[\]\"*]+)|\[(\d{1,7})\]|(\[\*\])|\[(\"(?:[^\"\\]|\\.)*\")\]", re.ASCII)
_FORMS: Final = 'A path is made of .field, ["any field"], [0] and [*]: `.offers[*].price`'


class PathInvalid(ValueError):
    """The text is not a path."""


def path_of(text: str) -> ValuePath:
    """The parts of a path that an author wrote. Raises PathInvalid if the text is not a path."""
    parts: list[Part] = []
    at = 0
    while at < len(text):
        found = _NEXT.match(text, at)
        if found is None:
            raise PathInvalid(f"The path {text!r:.80} is not understood from {text[at:]!r:.40} on. {_FORMS}.")
        parts.append(_part(found))
        at = found.end()
    if (flaw := flaw_of(parts)) is not None:
        raise PathInvalid(f"The path {text!r:.80} {flaw}.")
    return tuple(parts)


def _part(found: re.Match[str]) -> Part:
    if found[1] is not None:
        return found[1]
    if found[2] is not None:
        return int(found[2])
    if found[3] is not None:
        return EACH
    try:
        name = json.loads(found[4])
    except ValueError:
        name = EACH
    if name == EACH:
        raise PathInvalid(
            f"{found[0]:.80} does not name a field: the text is not a JSON string, or it is the name *, which is reserved. {_FORMS}."
        )
    return str(name)


def text_of(path: Iterable[Part]) -> str:
    """A path as an author writes it; `path_of` reads it back."""
    return "".join(map(_shown, path))


def path_of_pointer(pointer: str, value: Any) -> str:
    """The path, as rules write it, for a JSON pointer into this value: `.offers[0].price` for `/offers/0/price`. A number is an index if
    the value has a list there; else it is the name of a field."""
    parts: list[Part] = []
    for escaped in pointer.split("/")[1:]:
        name = escaped.replace("~1", "/").replace("~0", "~")
        if isinstance(value, list) and name.isdecimal():
            parts.append(int(name))
            value = value[int(name)] if int(name) < len(value) else None
        else:
            parts.append(name)
            value = value.get(name) if isinstance(value, dict) else None
    return text_of(parts)


def _shown(part: Part) -> str:
    if isinstance(part, int):
        return f"[{part}]"
    if part == EACH:
        return "[*]"
    return f".{part}" if _PLAIN.fullmatch(part) else f"[{json.dumps(part)}]"


def flaw_of(path: Any) -> str | None:
    """Why a value is not a path, as the second half of a sentence; None if it is a path."""
    if not isinstance(path, list | tuple):
        return "is not a list of parts"
    if len(path) > MAX_PARTS:
        return f"has {len(path)} parts; at most {MAX_PARTS} are allowed"
    for part in path:
        if isinstance(part, bool) or not isinstance(part, str | int):
            return f"has the part {part!r:.40}; a part is the name of a field, an index or {EACH!r}"
        if isinstance(part, str) and len(part) > MAX_FIELD:
            return f"has a name of {len(part)} characters; at most {MAX_FIELD} are allowed"
        if isinstance(part, int) and not 0 <= part < MAX_INDEX:
            return f"has the index {str(part)[:20]}; an index is at least 0 and below {MAX_INDEX}"
    return None

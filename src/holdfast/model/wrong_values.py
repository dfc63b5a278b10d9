"""Rewrites msgspec's error about a wrong value in the words of people who write settings."""

from __future__ import annotations

import re
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

import msgspec

_FORM: Final = re.compile(r"(?P<what>.*?)(?: - at `(?P<key>key in )?\$(?P<path>.*)`)?", re.S)
_KINDS: Final = re.compile(r"Expected `(?P<wanted>[^`]+)`, got `(?P<got>[^`]+)`")
_MISSING: Final = re.compile(r"Object missing required field (`[^`]+`)")
_WORDS: Final = {
    "int": "a whole number",
    "float": "a number",
    "str": "a text",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
    "null": "nothing",
    "datetime": "a time",
    "date": "a day",
}


def wrong_value(error: msgspec.ValidationError, kind: Any) -> str:
    """What is wrong, in words and without a full stop at the end: "`memory_mb` is a text, and must be a whole number". `kind` is the type
    of the whole document that msgspec read."""
    found = _FORM.fullmatch(str(error))
    assert found is not None
    path = (found["path"] or "").lstrip(".")
    name = f"`{path}`" if path else "it"
    kinds = _KINDS.fullmatch(found["what"])
    if kinds is not None:
        wanted = " or ".join(_WORDS.get(word, word) for word in kinds["wanted"].split(" | ") if word != "null")
        return f"{name} is {_WORDS.get(kinds['got'], kinds['got'])}, and must be {wanted}"
    missing = _MISSING.fullmatch(found["what"])
    if missing is not None:
        return f"{name} lacks {missing[1]}"
    allowed = _allowed(kind, path)
    if allowed and found["what"].startswith("Invalid enum value "):
        return f"{name} is {found['what'].removeprefix('Invalid enum value ')}; write one of {', '.join(allowed)}"
    return f"{name}: {found['what']}" if path else found["what"]


def _allowed(kind: Any, path: str) -> tuple[str, ...]:
    """The allowed texts of a setting whose type is a Literal; empty for any other setting."""
    for name in path.split("."):
        try:
            kind = get_type_hints(kind)[name]
        except (KeyError, TypeError, NameError):
            return ()
    return tuple(map(str, get_args(kind))) if get_origin(kind) is Literal else ()

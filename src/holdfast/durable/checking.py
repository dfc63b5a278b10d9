"""What authors hand to durable calls, checked at the call: a wrong value fails on its author's own line, before anything is recorded.

A text of a class of its own (an enum's member, say) is taken as the text it is, a number likewise: a store and the wire know plain ones.
"""

from __future__ import annotations

import math
from typing import Final

from holdfast.durable.exceptions import ValidationError

MAX_NAME: Final = 256
"""What the service takes for the name of an operation."""


def name(given: object, call: str, what: str = "name") -> str | None:
    """The name of an operation, if it has one."""
    if given is None:
        return None
    text = given if type(given) is str else _plain(given, call, what)
    if len(text) > MAX_NAME:
        raise ValidationError(f"{call}: {what} has {len(text)} characters; a name has at most {MAX_NAME}.")
    if text.isascii() and "\0" not in text:
        return text
    return _written(text, call, what)


def text(given: object, call: str, what: str) -> str:
    """A text that must be there: the name of a function, a payload as a serdes wrote it."""
    return _written(given if type(given) is str else _plain(given, call, what), call, what)


def optional_text(given: object, call: str, what: str) -> str | None:
    """A text that may be missing."""
    return None if given is None else text(given, call, what)


def seconds(duration: object, call: str, what: str = "duration") -> int:
    """The whole seconds of a duration: ours, or anything else that can say them."""
    say = getattr(duration, "to_seconds", None)
    if not callable(say):
        raise ValidationError(f"{call}: {what} is {shown(duration)}; it must be a Duration, for example Duration.from_seconds(5).")
    return whole(say(), call, what)


def whole(given: object, call: str, what: str) -> int:
    """A whole number; fractions are cut off."""
    if type(given) is int:
        return given
    if isinstance(given, bool) or not isinstance(given, int | float) or not math.isfinite(given):
        raise ValidationError(f"{call}: {what} is {shown(given)}; it must be a whole number of seconds.")
    return int(given)


def shown(given: object) -> str:
    """A value and its type, as a message says them."""
    try:
        said = f"{given!r:.60}"
    except Exception:  # a user's __repr__ is user code
        said = "a value"
    return f"{said} ({type(given).__name__})"


def _plain(given: object, call: str, what: str) -> str:
    if not isinstance(given, str):
        raise ValidationError(f"{call}: {what} is {shown(given)}; it must be a str.")
    return str.__str__(given)


def _written(text: str, call: str, what: str) -> str:
    """The text, if every store can hold it."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValidationError(f"{call}: {what} is not valid Unicode: {error.reason} (at {error.start}).") from None
    if "\0" in text:
        raise ValidationError(f"{call}: {what} has a NUL character (at {text.index(chr(0))}), which no name may have.")
    return text

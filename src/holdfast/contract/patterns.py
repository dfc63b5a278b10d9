"""Regular expressions from untrusted authors. Matching takes time in proportion to the length of the text, and bounded memory."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final

import re2

MAX_CHARACTERS: Final = 1_000
"""A pattern has at most this many characters."""
_MEMORY: Final = 512 * 1024
"""One compiled pattern, with its search, uses at most this many bytes."""
_KEPT: Final = 1_024
_UNICODE: Final = re.compile(r"\\u\{?([0-9a-fA-F]{4,6})\}?")
_LARGEST_PROGRAM: Final = 4_000


def matcher(pattern: str) -> Any | None:
    """The compiled pattern; None if it is not a pattern of RE2 (look-around, for example), or is too large."""
    return _compiled(pattern) if len(pattern) <= MAX_CHARACTERS else None


def program_size(pattern: str) -> int:
    """About how many steps the matching of one character of a text can take. For a pattern that `matcher` refuses, a fixed large number."""
    found = matcher(pattern)
    return _LARGEST_PROGRAM if found is None else max(1, int(found.programsize))


@lru_cache(maxsize=_KEPT)
def _compiled(pattern: str) -> Any | None:
    options = re2.Options()
    options.max_mem = _MEMORY
    options.log_errors = False
    try:
        return re2.compile(_UNICODE.sub(r"\\x{\1}", pattern), options)  # ECMAScript writes a character as \uXXXX
    except (re2.error, UnicodeError):  # a lone surrogate is no UTF-8
        return None

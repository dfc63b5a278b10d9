"""Untrusted texts as HTML: cut, escaped, and without characters that hide other characters or change the direction of text."""

from __future__ import annotations

from html import escape
from typing import Final

_MOST: Final = 50_000


def shown(text: str) -> str:
    """An untrusted text as HTML, cut after 50,000 characters. Characters that cannot be printed, except line ends and tabs, are shown as
    Python escapes, such as `\\x1b`."""
    cut = text if len(text) <= _MOST else f"{text[:_MOST]}… (cut: the text has {len(text):,} characters)"
    return escape("".join(one if one.isprintable() or one in "\n\t" else one.encode("unicode_escape").decode() for one in cut))

"""Beginnings of secrets: how many characters at the end of a text must be held back until more text arrives, so that no part of a secret is
shown.

A text that arrives in parts may be cut inside a secret. The end of such a text is held back if a secret, in one of its usual forms, begins
with it. The last word of the text is held back too, with the words before it that may belong to the same encoding, such as base64 in lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

_HEAD: Final = 4
_MOST_CODED: Final = 4 * 1024
"""At most this many characters of words that may be encoded are held back. A longer word is searched and shown in parts."""
_CODED: Final = re.compile(r".*[%\\&].*|.{12,}|[0-9A-Fa-f]{1,2}(?::[0-9A-Fa-f]{1,2})*:?", re.DOTALL)
"""Matches a word that may be encoded: a word with an escape, a word of 12 or more characters, or pairs of hexadecimal digits with `:`
between them."""
_WORD: Final = re.compile(r"[!-~]+")


class Beginnings:
    """The beginnings of the forms that secrets may have in a text."""

    def __init__(self, forms: Iterable[str]) -> None:
        self._heads: dict[str, list[str]] = {}
        for form in sorted({form for form in forms if form}):
            self._heads.setdefault(form[:_HEAD], []).append(form)
        self.longest = max((len(form) for named in self._heads.values() for form in named), default=0)
        """The length of the longest form; 0 if there is no secret."""

    def held(self, text: str) -> int:
        """How many characters at the end of the text may belong to a secret that continues after the text."""
        return 0 if not self.longest else max(self._begun(text), _coded(text))

    def _begun(self, text: str) -> int:
        """How many characters at the end of the text are equal to the beginning of a longer form of a secret; 0 if none are."""
        for at in range(max(0, len(text) - self.longest + 1), len(text)):
            left, head = len(text) - at, text[at : at + _HEAD]
            if left < _HEAD:
                if any(len(known) > left and known.startswith(head) for known in self._heads):
                    return left
            elif any(len(form) > left and text.startswith(form[:left], at) for form in self._heads.get(head, ())):
                return left
        return 0


def _coded(text: str) -> int:
    """The length of the end of the text that may belong to one encoding: the word at its end, which may be incomplete, and the words before
    it that look encoded. Encodings are ASCII, so text in Chinese characters is not held back."""
    tail = text[-_MOST_CODED:]
    begin = len(tail)
    for word in reversed(list(_WORD.finditer(tail))):
        if word.end() < len(tail) and not _CODED.fullmatch(word[0]):
            break
        begin = word.start()
    return len(tail) - begin

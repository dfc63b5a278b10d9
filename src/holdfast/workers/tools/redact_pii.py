"""redact_pii: personal data becomes placeholders such as `[email-1]`, the same placeholder for the same value in every text of a call.

The result has the value behind each placeholder, so that code that may see the values can map a text with placeholders back.
A placeholder that occurs in the given texts is not used: if a stranger writes `[email-1]`, mapping back does not put another person's value
there.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from holdfast.workers.tools.personal_data import Names, Span, found_in, names_of
from holdfast.workers.tools.seam import ToolFailed

MOST_CHARACTERS: Final = 1_000_000
"""All texts of one call have at most this many characters."""
_NAME: Final[Mapping[str, Any]] = {"type": "string", "minLength": 1, "maxLength": 200}
ARGUMENTS: Final[Mapping[str, Any]] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["texts"],
    "properties": {
        "texts": {"type": "array", "maxItems": 10_000, "items": {"type": "string"}},
        "names": {
            "type": "array",
            "maxItems": 1_000,
            "items": {"anyOf": [_NAME, {"type": "array", "minItems": 1, "maxItems": 10, "items": _NAME}]},
        },
    },
}
PLACEHOLDER: Final = re.compile(r"\[(?:email|iban|ip|card|phone|name)-\d+\]")


def redact_pii(texts: Sequence[str], names: Sequence[str | Sequence[str]] = ()) -> dict[str, Any]:
    """The texts with placeholders, the value behind each placeholder, and how many values of each kind there are."""
    if sum(map(len, texts)) > MOST_CHARACTERS:
        told = f"redact_pii takes texts of at most {MOST_CHARACTERS:,} characters in all."
        raise ToolFailed("tool_failed", told, details={"reason": "too_large"})
    persons = [[name] if isinstance(name, str) else list(name) for name in names]
    placeholders = _Placeholders(texts, persons)
    tree = names_of(persons)
    redacted = [_redacted(text, tree, placeholders) for text in texts]
    return {"texts": redacted, "values": placeholders.values, "counts": dict(placeholders.counts)}


def _redacted(text: str, tree: Names, placeholders: _Placeholders) -> str:
    made, at = [], 0
    for span in found_in(text, tree):
        made += [text[at : span.start], placeholders.of(text, span)]
        at = span.end
    return "".join([*made, text[at:]])


class _Placeholders:
    """The placeholder of each value, numbered in the order of their first places."""

    def __init__(self, texts: Sequence[str], persons: Sequence[Sequence[str]]) -> None:
        self.values: dict[str, str] = {}
        self.counts: Counter[str] = Counter()
        self._persons = persons
        self._known: dict[tuple[str, object], str] = {}
        self._taken = {hit.group() for text in texts for hit in PLACEHOLDER.finditer(text)}
        self._numbers: Counter[str] = Counter()

    def of(self, text: str, span: Span) -> str:
        """The placeholder of a value. A name is mapped back to its first form."""
        value = text[span.start : span.end] if span.person < 0 else self._persons[span.person][0]
        same = span.person if span.person >= 0 else _same(value, span.kind)
        if (span.kind, same) not in self._known:
            self._known[span.kind, same] = made = self._next(span.kind)
            self.values[made] = value
            self.counts[span.kind] += 1
        return self._known[span.kind, same]

    def _next(self, kind: str) -> str:
        while True:
            self._numbers[kind] += 1
            made = f"[{kind}-{self._numbers[kind]}]"
            if made not in self._taken:
                return made


def _same(value: str, kind: str) -> str:
    """A form in which two spellings of the same value are equal: an address without capitals, a number without groups."""
    return value.casefold() if kind in ("email", "ip") else "".join(sign for sign in value.casefold() if sign.isalnum())

"""redact_pii: replaces personal data by placeholders such as `[email-1]`. The same value gets the same placeholder in every text of a call.

The result has the value behind each placeholder, so that code that may see the values can put them back into a text with placeholders. A
placeholder that occurs in the given texts is not used for a value: if the author of a text wrote `[email-1]`, no value of another person is
put there later.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from holdfast.workers.tools.personal_data import Names, Span, found_in, names_of
from holdfast.workers.tools.seam import ToolFailed

MOST_CHARACTERS: Final = 1_000_000
"""All texts of one call together may have at most this many characters."""
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
    """The texts with placeholders, the value behind each placeholder, and how many different values of each kind there are. `names` are the
    names to replace, each as a text or as a list of the forms of one name. Raises ToolFailed if the texts are too long."""
    if sum(map(len, texts)) > MOST_CHARACTERS:
        told = f"redact_pii accepts texts of at most {MOST_CHARACTERS:,} characters in all."
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
    """The placeholder of each value. Placeholders of one kind are numbered in the order in which their values first occur."""

    def __init__(self, texts: Sequence[str], persons: Sequence[Sequence[str]]) -> None:
        self.values: dict[str, str] = {}
        self.counts: Counter[str] = Counter()
        self._persons = persons
        self._known: dict[tuple[str, object], str] = {}
        self._taken = {hit.group() for text in texts for hit in PLACEHOLDER.finditer(text)}
        self._numbers: Counter[str] = Counter()

    def of(self, text: str, span: Span) -> str:
        """The placeholder of the value at a place of a text. If the value is a name with several forms, the value behind its placeholder is
        the form that was given first."""
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
    """A form that is equal for two spellings of the same value: an address in lower case, a number without the signs between its groups."""
    return value.casefold() if kind in ("email", "ip") else "".join(sign for sign in value.casefold() if sign.isalnum())

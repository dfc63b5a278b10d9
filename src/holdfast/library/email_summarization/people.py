"""The names of the people in a thread: from its headers (`From: Ann Lee <…>`, `On Monday Ann Lee <…> wrote:`), and from the caller.

A name is looked for in full and by its parts, because people use both. If two people share a part of a name, that part becomes an entry of
its own, because it is not known whom it means.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, Final

_HEADER: Final = re.compile(r"[ \t>*_]*(?:from|to|cc|bcc|reply-to|sender|von|an|kopie|de|para|à)[*_]*:", re.IGNORECASE)
_WROTE: Final = re.compile(r"(?:wrote|schrieb|écrit|escribió)[^:]{0,40}:\s*$", re.IGNORECASE)
_ADDRESS: Final = re.compile(r"<[^<>\s@]{1,64}@")
_ENDS_NAME: Final = re.compile(r"[<>\";:]")
_MOST_NAME: Final = 100
_NOT_A_NAME: Final = re.compile(r"^.*\d|[^\w.' ,-]|_")
_MOST_LINE: Final = 2_000
_MOST_PERSONS: Final = 500
_SHORTEST_PART: Final = 3
_MOST_PARTS: Final = 9


def persons_in(thread: str, context: dict[str, Any]) -> list[list[str]]:
    """The names in the thread and in `context`, the customer's context. Each list has the forms of one person's name, the full one first. A
    part that several persons' names share is a list of its own, after the persons."""
    full = [name for name in _given(context) if name.strip()]
    for line in thread.split("\n"):
        line = line[:_MOST_LINE].rstrip("\r")
        if _HEADER.match(line) or _WROTE.search(line):
            full += [_name(line[max(0, hit.start() - _MOST_NAME) : hit.start()]) for hit in _ADDRESS.finditer(line)]
    names = list(dict.fromkeys(name[:200] for name in full if len(name) > 1))[:_MOST_PERSONS]
    shared = Counter(part for name in names for part in {part.casefold() for part in _parts(name)})
    persons = [[name, *(part for part in _parts(name) if shared[part.casefold()] == 1)] for name in names]
    alone = dict.fromkeys(part for name in names for part in _parts(name) if shared[part.casefold()] > 1)
    return [*persons, *([part] for part in alone)][: 2 * _MOST_PERSONS]


def _given(context: dict[str, Any]) -> list[str]:
    """The names that the caller gives: `name` and `names` of the customer's context."""
    more = context.get("names")
    return [name for name in [context.get("name"), *(more if isinstance(more, list) else ())] if isinstance(name, str)]


def _name(before: str) -> str:
    """The name before an address in a header line, without a date and without characters that names do not have."""
    return _NOT_A_NAME.sub(" ", _ENDS_NAME.split(before.rstrip(' \t"'))[-1]).strip(" \t,.'-")


def _parts(name: str) -> list[str]:
    words = [word.strip(".',") for word in name.replace(",", " ").split()]
    return [word for word in words if len(word) >= _SHORTEST_PART][:_MOST_PARTS] if len(words) > 1 else []

"""The question that the list of runs answers: what a person searches for. People type it in this form, and the address of the page has it
in the same form: `status:failed worker:web-scrape since:24h acme`.

A word with a colon is a qualifier. A value with spaces is written in `"…"`. All other words together are one text: an id, or the beginning
of an id or of a name. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

import msgspec

from holdfast.model.errors import InvalidParameter
from holdfast.model.shown_status import ShownStatus
from holdfast.store.browse import Browse

LONGEST: Final = 1000
MOST_WORDS: Final = 50
FACETS: Final[Mapping[str, str]] = {
    "status": "status",
    "worker": "worker",
    "pipeline": "pipeline",
    "function": "function",
    "queue": "queue",
    "tenant": "tenant",
    "error": "error_code",
    "version": "version",
}
"""The qualifiers that a person can also set with the facets at the left of the list. For each, the field by whose values the store counts
executions (store.browse.Facet)."""
TIMES: Final = ("since", "until")
_WORD: Final = re.compile(r'(?:(\w+):)?(?:"((?:[^"\\]|\\.)*)"|(\S+))')
_SPAN: Final = re.compile(r"(\d{1,5})([smhdw])")
_UNIT_MS: Final = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """A question, which is a search in the list of runs: values of qualifiers, the two times `since` and `until`, and the text."""

    values: tuple[tuple[str, str], ...] = ()
    since: str = ""
    until: str = ""
    text: str = ""
    everything: bool = False
    """True for `is:any`: the list also has executions that other executions started. If False, the list has those only if the question
    gives a worker, a pipeline or a text."""

    def of(self, key: str) -> tuple[str, ...]:
        """The values that the question gives for a qualifier in FACETS; empty if it gives none."""
        return tuple(value for name, value in self.values if name == key)

    def toggled(self, key: str, value: str) -> Query:
        """The same question with this value of the qualifier `key` added. If the question has the value already, the value is removed
        instead."""
        pair = (key, value)
        values = tuple(one for one in self.values if one != pair) if pair in self.values else (*self.values, pair)
        return msgspec.structs.replace(self, values=values)

    def without(self, key: str) -> Query:
        """The same question without the qualifier `key`: without that time if `key` is `since` or `until`, else without all values of the
        qualifier."""
        if key in TIMES:
            return msgspec.structs.replace(self, **{key: ""})
        return msgspec.structs.replace(self, values=tuple(one for one in self.values if one[0] != key))

    def __str__(self) -> str:
        words = [f"{key}:{_quoted(value)}" for key, value in self.values]
        words += [f"{key}:{_quoted(value)}" for key, value in (("since", self.since), ("until", self.until)) if value]
        words += ["is:any"] if self.everything else []
        words += [_written(self.text, MOST_WORDS - len(words))] if self.text else []
        return " ".join(words)

    def browse(self, now: int) -> Browse:
        """The question in the form that the store reads. A span such as 24h is counted back from `now`, which is in milliseconds."""
        return Browse(
            statuses=tuple(map(ShownStatus, self.of("status"))),
            functions=self.of("worker") + self.of("function"),
            pipelines=self.of("pipeline"),
            queues=self.of("queue"),
            tenants=self.of("tenant"),
            error_codes=self.of("error"),
            versions=self.of("version"),
            text=self.text or None,
            since=moment_of(self.since, now) if self.since else None,
            until=moment_of(self.until, now) if self.until else None,
            roots=not self.everything and not self.of("pipeline") and not self.of("worker") and not self.text,
        )


def query_from(text: str) -> Query:
    """Read a question from a text. Raises InvalidParameter if the text is too long or has too many words, or if it has an unknown
    qualifier, an unknown value of `status` or `is`, or a time that cannot be read. The error says what is allowed."""
    if len(text) > LONGEST:
        raise InvalidParameter(f"A question has at most {LONGEST} characters, but this one has {len(text)}.")
    values: list[tuple[str, str]] = []
    times = {"since": "", "until": ""}
    free: list[str] = []
    everything = False
    words = list(_WORD.finditer(text))
    if len(words) > MOST_WORDS:
        raise InvalidParameter(f"A question has at most {MOST_WORDS} words, but this one has {len(words)}.")
    for found in words:
        key, value = found[1], found[3] if found[2] is None else re.sub(r"\\(.)", r"\1", found[2])
        if key is None:
            free.append(value)
        elif key in FACETS:
            values.append((key, _checked(key, value)))
        elif key in times:
            moment_of(value, 0)
            times[key] = value
        elif key == "is":
            everything = _is_any(value)
        else:
            known = ", ".join([*FACETS, *TIMES])
            raise InvalidParameter(
                f"{key!r:.50} is not a qualifier. The qualifiers are {known}, and is:any. If a text has a colon, put it in double quotes."
            )
    return Query(values=tuple(dict.fromkeys(values)), text=" ".join(free), everything=everything, **times)


def quoted(key: str, value: str) -> str:
    """One qualifier with its value, as a person types it."""
    return f"{key}:{_quoted(value)}"


def _checked(key: str, value: str) -> str:
    if key == "status" and value not in set(ShownStatus):
        raise InvalidParameter(f"{value!r:.50} is not a status. The statuses are {', '.join(ShownStatus)}.")
    return value


def _is_any(value: str) -> bool:
    if value != "any":
        raise InvalidParameter(
            f"{value!r:.50} is not a value of 'is'. The only value is 'any': is:any also lists runs that other runs started."
        )
    return True


def _quoted(value: str) -> str:
    if value and not re.search(r'[\s"\\]', value):
        return value
    return _escaped(value)


def _escaped(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _written(text: str, room: int) -> str:
    """The free text of a question as a person types it: in double quotes if it would otherwise be read in another way, or as more words
    than `room`."""
    words = list(_WORD.finditer(text))
    plain = all(found[1] is None and found[3] is not None for found in words) and " ".join(found[0] for found in words) == text
    return text if plain and len(words) <= room else _escaped(text)


def moment_of(text: str, now: int) -> int:
    """The time that a text means, in milliseconds since 1970. The text is a date or a time in ISO 8601, or a span such as 24h, which means
    the time that long before `now`. A time without a zone is in UTC. Raises InvalidParameter for any other text."""
    span = _SPAN.fullmatch(text)
    if span is not None:
        return now - int(span[1]) * _UNIT_MS[span[2]]
    try:
        at = datetime.fromisoformat(text)
        return round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise InvalidParameter(
            f"{text!r:.50} is not a time. Write a span such as 15m, 24h or 7d, or a time such as 2026-01-31 or 2026-01-31T12:00."
        ) from None

"""The audit log: who did what, on what, from where, when, and with which outcome.

A note records a decision of a person or of a credential, or a refusal. The note of a decision is written in the same transaction as the
decision, or (for a few decisions, such as a login) directly after it. Notes are never changed; each has a time from which on it may be
removed. They contain names and ids, no payloads and no secrets.
"""

from __future__ import annotations

import getpass
import re
from collections.abc import Mapping
from functools import cache
from typing import Final

import msgspec

from holdfast.model.errors import InvalidParameter
from holdfast.model.operations import Word

DAYS_VARIABLE: Final = "HOLDFAST_AUDIT_DAYS"
KEPT_DAYS: Final = 400
_MOST_DAYS: Final = 36_500
_LONGEST: Final = 200
_DAY_MS: Final = 86_400_000
_DAYS: Final = re.compile(r"0*([0-9]{1,6})")
_TOKEN: Final = re.compile(r"hf_[A-Za-z0-9_-]{20,}")


class NoteKind(Word):
    """What a note records."""

    DECISION = "decision"
    REFUSAL = "refusal"


class Note(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One line of the audit log. Times are in milliseconds since 1970-01-01 UTC."""

    at: int
    kind: NoteKind
    who: str
    """The id of a credential, `local:USER` for a user of the machine, or `link:PERSON`. In a refusal it may be a name that the caller only
    claims to have, `anonymous`, or `(many)`: a note that counts refusals of many callers."""
    what: str
    """What was done or asked for, such as `restart`."""
    on: str = ""
    """The id or name of the execution, approval, credential, function or other object that the action was for."""
    origin: str = ""
    """Where the request came from: a network address, or `cli`; empty if it is not known."""
    outcome: str
    """The outcome of the action, in a few words."""
    tenant: str | None = None
    times: int = 1
    """How many refusals this note stands for; 1 for a decision. In each minute, the first refusal of a kind has a note of its own, and a
    second note counts the further ones of that minute. If there are too many kinds, one note of `(many)` counts the rest."""
    expires_at: int
    """From this time on the note may be removed."""


Notes = tuple[Note, ...]


class Noted(msgspec.Struct, frozen=True):
    """A note with its number in the store."""

    number: int
    """Notes are numbered in the order in which they are written; a refusal is written later than it happens. A number is never used
    again."""
    note: Note


class NoteFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which notes to read. They are read by time, the newest first; of notes of the same time, the one that was written last is first. A
    member that is None does not restrict."""

    since: int | None = None
    who: str | None = None
    what: str | None = None
    outcome: str | None = None
    kind: NoteKind | None = None
    before: int | None = None
    """Only notes that follow the note with this number in this order. For the next page, it is the number of the last note on the page
    before."""
    limit: int = 100
    """At most this many notes."""


class Actor(msgspec.Struct, frozen=True, kw_only=True):
    """Who acts, and from where. Its methods make the notes of what this actor did or was refused."""

    who: str
    origin: str
    tenant: str | None = None
    days: int = KEPT_DAYS
    """For how many days the notes of this actor are kept."""

    def did(self, what: str, on: str, outcome: str, now: int) -> tuple[Note, ...]:
        """The note of a decision of this actor at the time `now`: what it did, on which object, and with which outcome. It is a tuple with
        one element, because the `notes` of a write are a tuple."""
        return (self._note(NoteKind.DECISION, what, on, outcome, now),)

    def refused(self, what: str, on: str, outcome: str, now: int) -> Note:
        """The note of a refusal at the time `now`: what this actor asked for, on which object, and with which outcome."""
        return self._note(NoteKind.REFUSAL, what, on, outcome, now)

    def _note(self, kind: NoteKind, what: str, on: str, outcome: str, now: int) -> Note:
        tenant = None if self.tenant is None else bounded(self.tenant)
        return Note(
            at=now,
            kind=kind,
            who=bounded(self.who),
            what=bounded(what),
            on=bounded(on),
            origin=bounded(self.origin),
            outcome=bounded(outcome),
            tenant=tenant,
            expires_at=now + self.days * _DAY_MS,
        )


def bounded(text: str) -> str:
    """A text that any client may have chosen, made safe for a note: it is cut if it is long, and characters that are not printable are
    escaped.

    A token in the text is replaced by `hf_…`: a caller may have sent it in the wrong place.
    """
    text = _TOKEN.sub("hf_…", text)
    cut = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
    if cut.isprintable():
        return cut
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in cut)[: 2 * _LONGEST]


@cache
def principal() -> str:
    """The name of an actor without a credential: `local:USER`, where USER is the user of the machine who runs this process (`local:unknown`
    if the system does not know the user's name). Nothing in a request can change it."""
    try:
        return f"local:{getpass.getuser()}"
    except (KeyError, OSError):
        return "local:unknown"


def kept_days(environment: Mapping[str, str]) -> int:
    """For how many days notes are kept: the value of `HOLDFAST_AUDIT_DAYS`, else 400. Raises InvalidParameter if the value is not
    allowed."""
    given = environment.get(DAYS_VARIABLE)
    if not given:
        return KEPT_DAYS
    read = _DAYS.fullmatch(given)
    days = 0 if read is None else int(read[1])
    if not 1 <= days <= _MOST_DAYS:
        raise InvalidParameter(f"{DAYS_VARIABLE} is {given!r:.50}; give a whole number of days from 1 to {_MOST_DAYS:,}.")
    return days

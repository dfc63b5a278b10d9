"""The audit log: who did what, on what, from where, when, and with which outcome.

A note tells of a decision of a person or a key, or of a refusal. A decision's note travels with the write that decides, so that both are
on disk or neither is. Notes are only added; each says when it may be forgotten. They hold names and ids, no payloads and no secrets.
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
_TOKEN: Final = re.compile(r"hf_[A-Za-z0-9_-]{20,}")


class NoteKind(Word):
    """What a note tells of."""

    DECISION = "decision"
    REFUSAL = "refusal"


class Note(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One line of the audit log."""

    at: int
    kind: NoteKind
    who: str
    """The id of a credential, or `local:USER`. For a refusal: the name that the caller claims to have."""
    what: str
    on: str = ""
    """An execution, an approval, a credential, a function: by its id or name."""
    origin: str = ""
    """Where it came from: an address, or `cli`."""
    outcome: str
    tenant: str | None = None
    times: int = 1
    """How many refusals this note stands for. The first refusal of a kind has a note of its own, which is not counted again."""
    expires_at: int


Notes = tuple[Note, ...]


class Noted(msgspec.Struct, frozen=True):
    """A note as the store has it."""

    number: int
    """Notes are numbered in the order of writing. A number is never used again."""
    note: Note


class NoteFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which notes to read, newest first."""

    since: int | None = None
    who: str | None = None
    what: str | None = None
    outcome: str | None = None
    kind: NoteKind | None = None
    before: int | None = None
    """Only notes with smaller numbers: where the last page ended."""
    limit: int = 100


class Actor(msgspec.Struct, frozen=True, kw_only=True):
    """Who acts, and from where: makes the notes of what is done."""

    who: str
    origin: str
    tenant: str | None = None
    days: int = KEPT_DAYS

    def did(self, what: str, on: str, outcome: str, now: int) -> tuple[Note, ...]:
        """The note of a decision, as a write takes it."""
        return (self._note(NoteKind.DECISION, what, on, outcome, now),)

    def refused(self, what: str, on: str, outcome: str, now: int) -> Note:
        """The note of a refusal."""
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
    """A text that any client may have chosen, made fit for a store: of bounded length, on one line, without unprintable characters.

    A token in it, which a caller sent in the wrong place, is left out.
    """
    text = _TOKEN.sub("hf_…", text)
    cut = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
    if cut.isprintable():
        return cut
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in cut)[: 2 * _LONGEST]


@cache
def principal() -> str:
    """The actor if no caller logs in: the user of the machine. Nothing in a request can change that."""
    try:
        return f"local:{getpass.getuser()}"
    except (KeyError, OSError):
        return "local:unknown"


def kept_days(environment: Mapping[str, str]) -> int:
    """For how many days notes are kept: `HOLDFAST_AUDIT_DAYS`, else 400."""
    given = environment.get(DAYS_VARIABLE)
    if not given:
        return KEPT_DAYS
    if not given.isdecimal() or not 1 <= int(given[:6]) <= _MOST_DAYS:
        raise InvalidParameter(f"{DAYS_VARIABLE} is {given!r:.50}; give a whole number of days from 1 to {_MOST_DAYS:,}.")
    return int(given)

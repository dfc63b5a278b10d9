"""Looking after a store: what an operator does with it, beside what runs in it. Each backend does it in its own way."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from holdfast.store.migrating import Numbers, Step


class Migrated(NamedTuple):
    """What a migration did."""

    before: Numbers
    now: Numbers
    steps: Sequence[Step]
    waiting: Sequence[Step]
    """Halves that are applied when no code from before runs any more."""


class Finding(NamedTuple):
    """Something that must be true of every store and is not true of this one."""

    name: str
    """Which of the questions found it; names are stable."""
    where: str
    """An execution's id, or what else is meant."""
    wrong: str


class Checked(NamedTuple):
    """What a check found."""

    numbers: Numbers
    behind: bool
    """The schema is that of an older release."""
    findings: Sequence[Finding]


class Table(NamedTuple):
    """A table with its indexes."""

    name: str
    rows: int
    bytes: int | None
    """None where the database does not tell."""


class Removable(NamedTuple):
    """Executions that are over, and the bytes of their payloads."""

    executions: int
    bytes: int


class Sizes(NamedTuple):
    """How large a store is."""

    tables: Sequence[Table]
    bytes: int
    log: int | None
    """The write-ahead log beside the file."""
    free: int | None
    """Inside the file, for what is written next."""
    over: Removable
    """What retention removes by itself as soon as a runner has time."""
    kept: Removable
    """What retention removes later."""


class Keeping(Protocol):
    """A store in the hands of its operator."""

    def migrate(self, *, after: bool) -> Migrated:
        """Apply the pending halves of steps that only add; with `after` those that code from before cannot bear."""
        ...

    def check(self, *, quick: bool) -> Checked:
        """Look for damage, at one moment, while others write; nothing is changed. A quick check leaves out what takes longest."""
        ...

    def size(self, now: int) -> Sizes:
        """How large it is, and what retention can remove."""
        ...

    def backup(self, target: Path, *, replace: bool) -> None:
        """Copy the store, as it is at one moment, into a file for its owner alone, while others write."""
        ...

    def restore(self, source: Path) -> Path | None:
        """Put a copy in the store's place, while no process has the store open. Answers where the replaced store is kept."""
        ...

"""Maintenance: what an operator does with a store: migrate, check, measure, back up, restore. Each backend does it in its own way."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from holdfast.model.clock import Clock
from holdfast.store.schema_migrations import MigrationStep, Numbers


class Migrated(NamedTuple):
    """What a migration did."""

    before: Numbers
    now: Numbers
    steps: Sequence[MigrationStep]
    waiting: Sequence[MigrationStep]
    """After-halves that are not applied yet. An operator applies them when no older code runs any more."""


class Finding(NamedTuple):
    """Something that must be true of every store and is not true of this one."""

    name: str
    """The name of the check that found it; names are stable."""
    where: str
    """An execution's id, or the name of the table or page."""
    wrong: str


class CheckReport(NamedTuple):
    """What a check found."""

    numbers: Numbers
    behind: bool
    """Whether the schema is that of an older release."""
    findings: Sequence[Finding]


class Table(NamedTuple):
    """A table with its indexes."""

    name: str
    rows: int
    bytes: int | None
    """None if the database does not tell."""


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
    """Free bytes inside the file, which the next writes use."""
    over: Removable
    """What retention removes by itself as soon as a runner has time."""
    kept: Removable
    """What retention removes later."""


class StoreReport(NamedTuple):
    """The result of a quick look at a store."""

    numbers: Numbers
    newest: int
    """The newest schema version that this code knows."""
    behind: bool
    """Whether the schema is that of an older release."""
    bytes: int
    ahead_ms: int | None
    """How far the database's clock is ahead of this machine's. None if the store has no clock of its own."""


class Maintenance(Protocol):
    """The commands of an operator on one store."""

    def look(self, machine: Clock) -> StoreReport:
        """Open the store and read its version numbers. A large store takes no longer than a small one, and nothing is changed or
        migrated."""
        ...

    def migrate(self, *, after: bool) -> Migrated:
        """Apply the pending before-halves of steps; with `after`, the pending after-halves."""
        ...

    def check(self, *, quick: bool) -> CheckReport:
        """Look for damage, at one moment, while other processes write; nothing is changed. A quick check leaves out the slowest checks."""
        ...

    def size(self, now: int) -> Sizes:
        """How large it is, and what retention can remove."""
        ...

    def backup(self, target: Path, *, replace: bool) -> None:
        """Copy the store, as it is at one moment, into a file that only its owner can read, while other processes write."""
        ...

    def restore(self, source: Path) -> Path | None:
        """Put a copy in the store's place, while no process has the store open. Returns the path at which the replaced store is kept."""
        ...

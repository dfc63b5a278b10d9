"""Maintenance: the commands of an operator on a store: look at it, migrate, check, measure, back up and restore it. Each backend implements
`Maintenance`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from holdfast.model.clock import Clock
from holdfast.store.schema_migrations import MigrationStep, Numbers


class Migrated(NamedTuple):
    """What a migration did: the schema numbers before the migration (`before`) and after it (`now`), and the halves of steps that it
    applied (`steps`): before-halves, which only add to the schema, and after-halves, with which older code does not work."""

    before: Numbers
    now: Numbers
    steps: Sequence[MigrationStep]
    waiting: Sequence[MigrationStep]
    """The after-halves of steps that this migration has not applied. An operator applies them when no process of older code runs any
    more."""


class Finding(NamedTuple):
    """Something that must be true of every store and is not true of this one."""

    name: str
    """The name of the check that found it; names are stable."""
    where: str
    """What the finding is about: the id of an execution, or something else, such as `lane emails`, `day 20410`, the name of a table, or
    `pages`."""
    wrong: str


class CheckReport(NamedTuple):
    """What a check found."""

    numbers: Numbers
    behind: bool
    """Whether the schema is older than the newest one that this code knows."""
    findings: Sequence[Finding]


class TableSize(NamedTuple):
    """The size of a table: the number of its rows, and the bytes of the table and its indexes."""

    name: str
    rows: int
    bytes: int | None
    """None if the database does not tell the size."""


class Removable(NamedTuple):
    """A number of closed executions and of imported copies, and the bytes of their payloads."""

    executions: int
    bytes: int


class Sizes(NamedTuple):
    """How large a store is."""

    tables: Sequence[TableSize]
    bytes: int
    log: int | None
    """The bytes of the write-ahead log beside the SQLite file; None for Postgres."""
    free: int | None
    """Free bytes inside the SQLite file, which the next writes use; None for Postgres."""
    over: Removable
    """Closed executions whose retention time is over. The upkeep of runners removes them, a few at a time."""
    kept: Removable
    """Closed executions whose retention time is not over yet."""


class StoreReport(NamedTuple):
    """What `Maintenance.look` found."""

    numbers: Numbers
    newest: int
    """The newest schema version that this code knows."""
    behind: bool
    """Whether the schema is older than the newest one that this code knows."""
    bytes: int
    ahead_ms: int | None
    """How many milliseconds the database's clock is ahead of this machine's clock; negative if it is behind. None for SQLite, which uses
    the machine's clock."""


class Maintenance(Protocol):
    """The commands of an operator on one store."""

    def look(self, machine: Clock) -> StoreReport:
        """Open the store, and read its version numbers, its size, and (Postgres) how far its clock is ahead of `machine`, the clock of this
        machine. Nothing is changed or migrated. Raises StoreNotFound if there is no store. It takes no longer for a large store than for a
        small one."""
        ...

    def migrate(self, *, after: bool) -> Migrated:
        """Apply the before-halves of all steps that are not applied yet. If `after` is True, apply the after-halves instead. SQLite always
        applies both halves, whatever `after` is. Raises StoreNotFound if there is no store, and StoreInUse if other processes must be
        stopped first. Raises StoreNotMigrated if `after` is True and before-halves of a Postgres store are not applied yet."""
        ...

    def check(self, *, quick: bool) -> CheckReport:
        """Look for damage while other processes may write. The check sees the store as it is at one moment, and changes nothing. `quick`:
        for SQLite, leave out the slowest test of the pages; for Postgres, it makes no difference."""
        ...

    def size(self, now: int) -> Sizes:
        """How large the store is, and how much of it retention can remove."""
        ...

    def backup(self, target: Path, *, replace: bool) -> None:
        """Copy the store, in the state of one moment, into a file that only its owner can read, while other processes may write. Raises
        InvalidParameter if `target` exists and `replace` is False, if `target` is the store itself, or if it cannot be written. Raises
        NotPrivate if other users can replace files in its folder. For Postgres it always raises InvalidParameter, with the command of
        Postgres's own tool."""
        ...

    def restore(self, source: Path) -> Path | None:
        """Replace the store by the copy `source`. Raises StoreInUse if a process has the store open. Returns the path at which the replaced
        store is kept; None if there was no store. For Postgres it always raises InvalidParameter, with the command of Postgres's own
        tool."""
        ...

"""Migrations: the numbered steps from one schema to the next, and which code may use which schema.

A store keeps two numbers. `version` is the number of the last step that was applied to it. `least` is the number of the oldest code that
may use it; the number of a code is that of the newest schema which this code knows. A step has one half or both:

- `NNN_words.before.sql` only adds: tables, indexes, columns that may be NULL or have a default. Older code still works. It is
  applied before new code is deployed, and makes NNN the store's `version`.
- `NNN_words.after.sql` makes changes with which older code does not work. It is applied when no older code runs any more, and makes NNN
  the `least`.

A before-half relies on no after-half: all pending before-halves are applied first, and all pending after-halves later.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from importlib import resources
from typing import Final, NamedTuple

from holdfast.model.errors import StoreBroken, StoreUnsuitable

_DIGITS: Final = 9
_NAME: Final = re.compile(r"(\d{3})_(\w+)\.(before|after)\.sql")
_COMMENT: Final = re.compile(r"^\s*--.*\n?", re.M)


class Numbers(NamedTuple):
    """The two numbers that a store keeps about its schema."""

    version: int
    least: int


def number(told: object) -> int:
    """A schema number, from the value that a store keeps. Raises StoreBroken if the value is not a whole number of at most 9 digits."""
    text = str(told) if isinstance(told, int | str) else ""
    if not (text.isascii() and text.isdecimal() and len(text) <= _DIGITS):
        raise StoreBroken(f"The store is damaged: {told!r:.50} is not a valid number of a schema. Put a good copy in its place.")
    return int(text)


class MigrationStep(NamedTuple):
    """One half of a numbered step. `after` is True for an after-half and False for a before-half. `words` is the name of the step, `text`
    is the SQL of this half."""

    number: int
    after: bool
    words: str
    text: str

    def statements(self) -> list[str]:
        """The SQL statements of this half, one by one. In the file, each statement ends with a semicolon at the end of a line."""
        return [statement.strip() for statement in _COMMENT.sub("", self.text).split(";\n") if statement.strip()]


def known(question: str, columns: Mapping[str, int], version: int) -> str:
    """The text of a query, changed for a store of an older schema `version`: a column that the schema does not have yet becomes NULL.
    `columns` has the version that added each column."""
    missing = [column for column, since in columns.items() if version < since]
    return re.sub(rf"\b({'|'.join(missing)})\b", "NULL", question) if missing else question


class SchemaStatus(Enum):
    """Whether a store must be migrated before it is used."""

    USABLE = "usable"
    BEHIND = "behind"
    """The store must be migrated before it is used."""


class SchemaLineage:
    """The schemas of one backend: the oldest schema that can be migrated, the newest schema that this code knows, and all steps from the
    one to the other."""

    def __init__(self, package: str, *, oldest: int, newest: int) -> None:
        self.oldest = oldest
        self.newest = newest
        self._package = package

    def steps(self) -> Sequence[MigrationStep]:
        """All halves of steps, in the order of their numbers; of one number, the before-half comes first."""
        found = []
        for file in (resources.files(self._package) / "migrations").iterdir():
            named = _NAME.fullmatch(file.name)
            if named is not None:
                found.append(MigrationStep(int(named[1]), named[3] == "after", named[2].replace("_", " "), file.read_text()))
        return sorted(found)

    def fresh(self) -> Numbers:
        """The numbers of a new store, whose schema includes every step."""
        return Numbers(self.newest, max((step.number for step in self.steps() if step.after), default=self.oldest + 1))

    def pending(self, numbers: Numbers, *, after: bool) -> Sequence[MigrationStep]:
        """The halves that are not applied yet: the after-halves if `after` is True, else the before-halves."""
        done = numbers.least if after else numbers.version
        return [step for step in self.steps() if step.after is after and step.number > done]

    def status(self, where: str, numbers: Numbers) -> SchemaStatus:
        """Whether a store with these numbers must be migrated before it is used. Raises StoreUnsuitable, with what to do, if this code can
        neither use nor migrate it."""
        if numbers.version < self.oldest:
            raise StoreUnsuitable(
                f"{where} has schema version {numbers.version}; this Holdfast migrates version {self.oldest} and newer. "
                "Let its executions end under the Holdfast that made it, or copy them with `holdfast executions export` and `import`."
            )
        if numbers.least > self.newest:
            raise StoreUnsuitable(
                f"{where} has schema version {numbers.version} and may be used by code of version {numbers.least} or newer; this Holdfast "
                f"has version {self.newest}. Install the Holdfast that migrated it, or restore a copy from before that migration."
            )
        return SchemaStatus.BEHIND if numbers.version < self.newest else SchemaStatus.USABLE

    def needs_all_stopped(self, numbers: Numbers) -> bool:
        """Whether code of the oldest schema may still use the store. All its processes must be stopped before the migration: that code does
        not even work with a schema to which the first step has only added something."""
        return numbers.version <= self.oldest


def told(steps: Iterable[MigrationStep]) -> str:
    """The numbers and names of the steps on one line, for a log or an error."""
    return ", ".join(f"{step.number:03d} {step.words}" for step in steps)

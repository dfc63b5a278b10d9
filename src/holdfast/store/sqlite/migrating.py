"""Migrating the file when it is opened: no other process has it open, a copy is kept, and all steps are one transaction."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Final

from holdfast.model.errors import StoreInUse
from holdfast.store.migrating import Lineage, Numbers, number, told
from holdfast.store.sqlite.copying import copy_to, free_name
from holdfast.store.sqlite.sharing import holders

SCHEMA_VERSION: Final = 9
SINCE: Final = {"superseded_by": 9, "quarantine": 9}
"""The columns that checks.sql asks for and that older schemas do not have."""
LINEAGE: Final = Lineage("holdfast.store.sqlite", oldest=6, newest=SCHEMA_VERSION)

log = logging.getLogger("holdfast.store")


def numbers_of(connection: sqlite3.Connection, sql: Mapping[str, str]) -> Numbers:
    """What a store says of its schema; one of 0.1.0 says only its version."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    least = connection.execute(sql["get_meta"], ("least",)).fetchone()
    return Numbers(version, version if least is None else number(least[0]))


def migrate(connection: sqlite3.Connection, where: str, numbers: Numbers, sql: Mapping[str, str]) -> None:
    """Bring the schema up to ours, inside the transaction of a caller who holds the file's write lock.

    No code from before runs, because no other process has the file open: the halves that wait for that are applied at once.
    """
    check_unused(where, f"has schema version {numbers.version} and must be migrated to {LINEAGE.newest}")
    before, after = LINEAGE.pending(numbers, after=False), LINEAGE.pending(numbers, after=True)
    copy = free_name(Path(f"{where}.before-{LINEAGE.newest}"))
    with closing(sqlite3.connect(where, isolation_level=None)) as source:
        copy_to(source, copy, replace=True)  # the name is free, and no other process makes such files while we hold the lock
    try:
        for step in (*before, *after):
            for statement in step.statements():
                connection.execute(statement)
            if step.after:
                connection.execute(sql["put_meta"], ("least", step.number))
            else:
                connection.execute(f"PRAGMA user_version = {step.number}")
    except BaseException:
        copy.unlink()
        raise
    log.warning("%s is migrated from schema version %s (%s). As it was before: %s", where, numbers.version, told([*before, *after]), copy)


def check_unused(where: str, why: str) -> None:
    """Refuse what must not happen while another process has the file open."""
    found = holders(Path(f"{where}-holdfast"))
    if found:
        named = ", ".join(f"{member} (process {process})" if process else member for member, process in sorted(found.items()))
        raise StoreInUse(f"{where} {why}, but it is open elsewhere: {named}. Stop every process that has it open, then try again.")

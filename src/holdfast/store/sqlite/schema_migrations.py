"""Migrates the file when it is opened. No other process may have it open, a copy of the old file is kept, and all steps are one
transaction."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Final

from holdfast.model.errors import StoreInUse
from holdfast.store.schema_migrations import Numbers, SchemaLineage, number, told
from holdfast.store.sqlite.backup import copy_to, free_name
from holdfast.store.sqlite.presence import holders

SCHEMA_VERSION: Final = 18
SINCE: Final = {"superseded_by": 9, "quarantine": 9, "queue": 12, "lane": 12, "order_at": 12, "parked": 12, "shared_rate": 17}
"""The columns that checks.sql reads and that older schemas do not have. The value is the schema version that added the column."""
CHECKED_SINCE: Final = {
    "graphs_missing": 10,
    "graphs_unused": 10,
    "lanes_miscounted": 12,
    "lanes_lost": 12,
    "rates_lost": 12,
    "lanes_money": 14,
    "ledger_sums": 14,
    "ledger_ends": 14,
    "summaries_contradict": 15,
}
"""The queries of checks.sql that need tables or columns which older schemas do not have. The value is the first schema version that the
query can check."""
LINEAGE: Final = SchemaLineage("holdfast.store.sqlite", oldest=6, newest=SCHEMA_VERSION)

log = logging.getLogger("holdfast.store")


def numbers_of(connection: sqlite3.Connection, sql: Mapping[str, str]) -> Numbers:
    """The schema numbers of a store. A store of the oldest schema has no `least`; for such a store, `least` is equal to `version`."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    least = connection.execute(sql["get_meta"], ("least",)).fetchone()
    return Numbers(version, version if least is None else number(least[0]))


def migrate(connection: sqlite3.Connection, where: str, numbers: Numbers, sql: Mapping[str, str]) -> None:
    """Bring the schema to this code's version. The caller has begun a write transaction, and commits it afterwards. A copy of the old file
    is kept beside it. Raises StoreInUse if another process has the file open.

    Because no other process has it open, no older code runs: the before-halves and the after-halves are applied in one transaction.
    """
    check_unused(where, f"has schema version {numbers.version} and must be migrated to {LINEAGE.newest}")
    before, after = LINEAGE.pending(numbers, after=False), LINEAGE.pending(numbers, after=True)
    copy = free_name(Path(f"{where}.before-{LINEAGE.newest}"))
    with closing(sqlite3.connect(where, isolation_level=None)) as source:
        copy_to(source, copy, replace=True)  # the name is free: the lock keeps other processes from making such files
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
    log.warning(
        "%s is migrated from schema version %s (%s). The old file is kept as %s", where, numbers.version, told([*before, *after]), copy
    )


def check_unused(where: str, why: str) -> None:
    """Raise StoreInUse if another process has the file open. `why` is a part of the error's message: what the caller wants to do with the
    file."""
    found = holders(Path(f"{where}-holdfast"))
    if found:
        named = ", ".join(f"{member} (process {process})" if process else member for member, process in sorted(found.items()))
        raise StoreInUse(f"{where} {why}, but it is open elsewhere: {named}. Stop every process that has it open, then try again.")

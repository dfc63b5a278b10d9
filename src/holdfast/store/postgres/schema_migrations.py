"""Migrates a schema: one process at a time, in one transaction, and only when an operator or a program asks for it.

A fleet is upgraded while it runs: an operator applies the before-halves, replaces the processes one by one, and then applies the
after-halves. The after-halves are refused as long as a runner of older code has a lease. Only an upgrade from the oldest schema needs
all processes to be stopped.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Final

from holdfast.model.errors import StoreInUse, StoreNotMigrated
from holdfast.store.postgres.address import Address
from holdfast.store.postgres.session import Session
from holdfast.store.schema_migrations import MigrationStep, Numbers, SchemaLineage, number, told

SCHEMA_VERSION: Final = 16
SINCE: Final = {"superseded_by": 7, "quarantine": 7, "queue": 10, "lane": 10, "order_at": 10, "parked": 10, "shared_rate": 15}
"""The columns that checks.sql reads and that older schemas do not have. The value is the schema version that added the column."""
CHECKED_SINCE: Final = {
    "graphs_missing": 8,
    "graphs_unused": 8,
    "lanes_miscounted": 10,
    "lanes_lost": 10,
    "rates_lost": 10,
    "lanes_money": 12,
    "ledger_sums": 12,
    "ledger_ends": 12,
    "summaries_contradict": 13,
}
"""The queries of checks.sql that need tables or columns which older schemas do not have. The value is the first schema version that the
query can check."""
LINEAGE: Final = SchemaLineage("holdfast.store.postgres", oldest=4, newest=SCHEMA_VERSION)

log = logging.getLogger("holdfast.store")


def numbers_of(metas: Mapping[str, str]) -> Numbers:
    """The schema numbers of a store. A store of the oldest schema has no `least`; for such a store, `least` is equal to `version`."""
    version = number(metas["schema"])
    return Numbers(version, number(metas.get("least", version)))


def migrate(session: Session, address: Address, sql: Mapping[str, str], numbers: Numbers, *, after: bool) -> Sequence[MigrationStep]:
    """Apply the before-halves that are not applied yet, and return them. If `after` is True, this is done with the after-halves instead.
    The caller has begun a transaction and holds the lock `making` (queries.sql). Raises StoreInUse if a runner whose older code would not
    work with the new schema has a lease. Raises StoreNotMigrated if `after` is True and there are before-halves that are not applied."""
    steps = LINEAGE.pending(numbers, after=after)
    if after and (first := LINEAGE.pending(numbers, after=False)):
        raise StoreNotMigrated(
            f"{address.shown} has schema version {numbers.version}, and these steps are not applied yet: {told(first)}. "
            "Run `holdfast db migrate` without --after first."
        )
    if not steps:
        return ()
    if after:
        _check_gone(session, address, sql, steps[-1].number)
    elif LINEAGE.needs_all_stopped(numbers):
        _check_gone(session, address, sql, None)
    for step in steps:
        session.run(step.text.encode(), prepare=False)
    key = "least" if after else "schema"
    session.run(sql["put_meta"].encode(), (key, str(steps[-1].number)), prepare=False)
    log.warning("%s is migrated from schema version %s: %s", address.shown, numbers.version, told(steps))
    return steps


def _check_gone(session: Session, address: Address, sql: Mapping[str, str], least: int | None) -> None:
    """Raise StoreInUse if a runner of older code has a lease; until the transaction ends, no runner can join. `least`: code with a smaller
    number is older code. None: every runner counts as one of older code, because runners of the oldest schema do not tell their version."""
    session.run(sql["keep_runners"].encode(), prepare=False)
    found = session.run(sql["leases" if least is None else "old_leases"].encode(), None if least is None else (least,), prepare=False)
    if not found:
        return
    named = ", ".join(f"{runner} (its lease ends in {seconds} s)" for runner, seconds in found)
    what = f"code of schema version {LINEAGE.oldest}" if least is None else f"code older than schema version {least}"
    raise StoreInUse(
        f"{address.shown} cannot be migrated while a runner of {what} works on it: {named}. "
        "Stop every process of that code; the lease of one that was killed ends by itself."
    )

"""Migrating a schema: by one process at a time, in one transaction, and only when an operator or a program asked for it.

A fleet is upgraded without a stop: the halves that only add come first, then each process is replaced, then come the halves that code from
before cannot bear. Those are refused as long as a runner of such code has a lease.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Final

from holdfast.model.errors import StoreInUse
from holdfast.store.migrating import Lineage, Numbers, Step, number, told
from holdfast.store.postgres.address import Address
from holdfast.store.postgres.session import Session

SCHEMA_VERSION: Final = 7
SINCE: Final = {"superseded_by": 7, "quarantine": 7}
"""The columns that checks.sql asks for and that older schemas do not have."""
LINEAGE: Final = Lineage("holdfast.store.postgres", oldest=4, newest=SCHEMA_VERSION)

log = logging.getLogger("holdfast.store")


def numbers_of(metas: Mapping[str, str]) -> Numbers:
    """What a store says of its schema; one of 0.1.0 says only its version."""
    version = number(metas["schema"])
    return Numbers(version, number(metas.get("least", version)))


def migrate(session: Session, address: Address, sql: Mapping[str, str], numbers: Numbers, *, after: bool) -> Sequence[Step]:
    """Apply the pending halves, inside the transaction of a caller who holds the lock of makers; answers with them."""
    steps = LINEAGE.pending(numbers, after=after)
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
    """Refuse while a runner of older code has a lease, and let none join meanwhile. None is for 0.1.0, whose runners do not say what they
    are."""
    session.run(sql["keep_runners"].encode(), prepare=False)
    found = session.run(sql["leases" if least is None else "old_leases"].encode(), None if least is None else (least,), prepare=False)
    if not found:
        return
    named = ", ".join(f"{runner} (its lease ends in {seconds} s)" for runner, seconds in found)
    what = "release 0.1.0" if least is None else f"code older than schema version {least}"
    raise StoreInUse(
        f"{address.shown} cannot be migrated while a runner of {what} works on it: {named}. "
        "Stop every process of that code; the lease of one that was killed ends by itself."
    )

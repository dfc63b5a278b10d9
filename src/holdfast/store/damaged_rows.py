"""Lists of rows in which a row may be damaged: the store leaves the damaged row out, logs it, and lists the others."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from holdfast.model.credentials import Credential
from holdfast.model.errors import CodecFailed, HoldfastError, RowDamaged
from holdfast.model.execution import Execution
from holdfast.model.payloads import PayloadCodec
from holdfast.model.schedules import ScheduleState
from holdfast.store import rows
from holdfast.store.seam import Filter

log = logging.getLogger("holdfast.store")

_ID: Final = 1
_MOST_TOLD: Final = 1_000
_told: set[object] = set()
"""The ids of damaged executions and the names of damaged schedules that this process has logged. A list is read many times, but each of
them is logged only once. After 1,000 of them, no further one is logged."""


def readable_page(wanted: Filter, ask: Callable[[Filter], Sequence[rows.Row]]) -> list[Execution]:
    """The executions of a page, without damaged rows. For each damaged row, one more execution is read. So a page with fewer executions
    than `wanted.limit` is the last page, unless the id of the last row is damaged."""
    found: list[Execution] = []
    while len(found) < wanted.limit:
        room = wanted.limit - len(found)
        page = ask(msgspec.structs.replace(wanted, limit=room))
        whole = len(found) + len(page)
        for row in page:
            header = readable_execution(row)
            if header is not None:
                found.append(header)
        if len(page) < room or len(found) == whole or not isinstance(page[-1][_ID], str):
            break
        wanted = msgspec.structs.replace(wanted, beyond=page[-1][_ID])
    return found


def readable_execution(row: rows.Row) -> Execution | None:
    """The execution of a row. None if the row is damaged, which is logged once for each execution."""
    try:
        if bytes in map(type, row):  # a text that could not be decoded
            raise RowDamaged(
                "A row of the store is damaged: one of its values is not a valid text. Put a good copy of the store in its place."
            )
        return rows.execution_from(row)
    except RowDamaged as damaged:
        _tell("execution", row[_ID], damaged)
        return None


def _tell(what: str, name: object, damaged: HoldfastError) -> None:
    if name not in _told and len(_told) < _MOST_TOLD:
        _told.add(name)
        log.error("%s %r is left out of lists: %s", what, name, damaged)


def readable_schedules(found: Sequence[rows.Row], codec: PayloadCodec | None) -> list[ScheduleState]:
    """The schedules that can be read. The others are left out; each is logged once."""
    states = []
    for row in found:
        try:
            states.append(rows.schedule_from(row, codec))
        except (RowDamaged, CodecFailed) as damaged:
            _tell("schedule", row[0], damaged)
    return states


def readable_credentials(found: Sequence[rows.Row]) -> list[Credential]:
    """The credentials that can be read. A damaged credential is left out, so no caller can use it; each call logs it again.

    Raises RowDamaged if there are credentials and none can be read: a server without credentials serves every caller on its machine, so a
    store with only damaged credentials must not look like a store without any.
    """
    made: list[Credential] = []
    trouble: RowDamaged | None = None
    for row in found:
        try:
            made.append(rows.credential_from(row))
        except RowDamaged as damaged:
            trouble = damaged
            log.error("credential %r cannot be read, so no caller can use it; create it again", row[0])
    if trouble is not None and not made:
        raise trouble
    return made

"""Lists of rows, of which one may be damaged: the store leaves the damaged row out, logs it, and lists the others."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from holdfast.model.credentials import Credential
from holdfast.model.errors import RowDamaged
from holdfast.model.execution import Execution
from holdfast.store import rows
from holdfast.store.seam import Filter

log = logging.getLogger("holdfast.store")

_ID: Final = 1
_MOST_TOLD: Final = 1_000
_told: set[object] = set()
"""Damaged rows that this process has told of: lists are asked for again and again."""


def readable_page(wanted: Filter, ask: Callable[[Filter], Sequence[rows.Row]]) -> list[Execution]:
    """The executions of a page. Where one is damaged another takes its place, so that a page which is not full is still the last one."""
    found: list[Execution] = []
    while len(found) < wanted.limit:
        room = wanted.limit - len(found)
        page = ask(msgspec.structs.replace(wanted, limit=room))
        whole = len(found) + len(page)
        for row in page:
            try:
                found.append(_execution(row))
            except RowDamaged as damaged:
                _tell(row[_ID], damaged)
        if len(page) < room or len(found) == whole or not isinstance(page[-1][_ID], str):
            break
        wanted = msgspec.structs.replace(wanted, beyond=page[-1][_ID])
    return found


def _execution(row: rows.Row) -> Execution:
    if bytes in map(type, row):  # what could not be read as a text
        raise RowDamaged("A row of the store is damaged: a text of it is none.")
    return rows.execution_from(row)


def _tell(execution: object, damaged: RowDamaged) -> None:
    if execution not in _told and len(_told) < _MOST_TOLD:
        _told.add(execution)
        log.error("execution %r is left out of lists: %s", execution, damaged)


def readable_credentials(found: Sequence[rows.Row]) -> list[Credential]:
    """The credentials that can be read: a damaged one admits no caller, and all others stay as good as they were.

    If none can be read, that is an error: a store without credentials lets this machine ask without one, and this is not such a store.
    """
    made: list[Credential] = []
    trouble: RowDamaged | None = None
    for row in found:
        try:
            made.append(rows.credential_from(row))
        except RowDamaged as damaged:
            trouble = damaged
            log.error("credential %r cannot be read, and admits no caller; make it anew", row[0])
    if trouble is not None and not made:
        raise trouble
    return made

"""Pages of executions, of which one may be damaged: it is left out and told of, and the others are listed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from holdfast.model.errors import RowDamaged
from holdfast.model.execution import Execution
from holdfast.store.seam import Filter
from holdfast.store.sqlite import rows

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

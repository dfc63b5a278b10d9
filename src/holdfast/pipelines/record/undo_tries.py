"""What the tries of an undo have undone: of a map or a supervise node, a try may undo a part and fail for the rest.

Each such try is recorded as a step. If the rest is never undone, because a person leaves it or the run is stopped, a restart knows by these
steps what it must do again. When all is undone, the step of `undone_at` says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from holdfast.durable.identifier import Identity
from holdfast.durable.journal import identity_of, succeeded
from holdfast.model import json_structs
from holdfast.model.operations import Operation, Type
from holdfast.pipelines.record.operations import NodePosition
from holdfast.pipelines.record.records import Records

UNDO_TRY: Final = "UndoTry"
"""The sub-type of the step."""


class UndoTry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was undone of a node in one round."""

    round: int
    items: tuple[int, ...] = ()
    """The indexes of a map's items."""
    runs: tuple[str, ...] = ()
    """The ids of the runs of workers that a supervisor chose."""


def note_undo_try(records: Records, position: NodePosition, *, items: Iterable[int] = (), runs: Iterable[str] = ()) -> None:
    """Add to the next write what this try of an undo has undone, unless it is recorded already or nothing was undone."""
    made = UndoTry(round=position.round, items=tuple(items), runs=tuple(runs))
    at = _undo_try_at(position)
    if (made.items or made.runs) and records.find(at) is None:
        records.note(succeeded(at, msgspec.json.encode(made).decode()))


def undone_in_part(operations: Iterable[Operation], node: str, round: int) -> UndoTry:
    """What the recorded tries of the undo of a node have undone in one round, all tries together."""
    found: Sequence[UndoTry] = [_decoder.decode(op.result or "") for op in operations if (op.sub_type, op.name) == (UNDO_TRY, node)]
    here = [one for one in found if one.round == round]
    return UndoTry(round=round, items=tuple(i for one in here for i in one.items), runs=tuple(run for one in here for run in one.runs))


def _undo_try_at(position: NodePosition) -> Identity:
    return identity_of(Type.STEP, UNDO_TRY, position.node, position.round, position.try_number)


_decoder = json_structs.decoder(UndoTry)

"""The identity of an operation, with which a replay checks that it finds the same operation again. The id of a durable call follows from
its place in the order of calls of its context; the id of a branch from its index, and that of a patch marker from its name. Workers and
pipelines choose the ids of their operations (journal.py)."""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

import msgspec

from holdfast.durable.history_mismatch import other_operation
from holdfast.model.operations import Action, Operation, Type, Update


def operation_id(prefix: str | None, number: int) -> str:
    """The id of call number `number` in a context, or of the branch with the index `number` in a batch. `prefix` is the id of that context
    or batch; None for the handler's own context. The name of the call does not change the id."""
    text = f"{prefix}-{number}" if prefix else str(number)
    return blake2b(text.encode()).hexdigest()[:64]


PATCH: Final = "Patch"
"""The sub-type of the marker that `context.patched` records. The marker is a step that has succeeded. No other call makes steps of this
sub-type."""


def patch_id(prefix: str | None, name: str) -> str:
    """The id of the marker that `context.patched` records under this name. `prefix` is the id of the context, None for the handler's own
    context. A marker takes no number in the order of calls, so the ids of the other operations do not change."""
    return blake2b(f"{prefix or ''}/patch/{name}".encode()).hexdigest()[:64]


class Identity(msgspec.Struct, frozen=True, gc=False):
    """The operation that a durable call asks for. In a replay it is compared with the recorded operation that has the same id."""

    operation_id: str
    type: Type
    sub_type: str
    parent_id: str | None = None
    name: str | None = None

    def update(self, action: Action, **values: object) -> Update:
        """An update that asks for `action` on this operation. `values` are further members of the Update, by name."""
        return Update(
            id=self.operation_id,
            type=self.type,
            action=action,
            sub_type=self.sub_type,
            name=self.name,
            parent_id=self.parent_id,
            **values,  # type: ignore[arg-type]
        )

    def check(self, recorded: Operation) -> None:
        """Raise NonDeterministicExecutionError if `recorded`, the operation with this id in the history, differs from this identity in
        type, sub-type, name or parent."""
        if (
            recorded.type is self.type
            and recorded.sub_type == self.sub_type
            and (recorded.name or None) == (self.name or None)
            and recorded.parent_id == self.parent_id
        ):
            return
        recorded_as = described(recorded.type, recorded.sub_type, recorded.name, recorded.parent_id)
        asked_for = described(self.type, self.sub_type, self.name, self.parent_id)
        raise other_operation(recorded_as, asked_for, self.operation_id)


def described(kind: Type, sub_type: str | None, name: str | None, parent_id: str | None = None) -> str:
    """An operation as error messages name it, such as `Step 'charge'`. If `parent_id` is given, the text also names the context with this
    id."""
    where = f" inside context {parent_id[:8]}" if parent_id else ""
    return f"{sub_type or kind.value} {name!r}{where}" if name else f"unnamed {sub_type or kind.value}{where}"

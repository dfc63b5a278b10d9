"""Chained invokes: which execution an invoke starts. It starts with the checkpoint that asks for it (model.chaining)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.engine.registry import Registry, latest
from holdfast.model import codec
from holdfast.model.clock import Clock
from holdfast.model.errors import InvalidParameter, Rejected
from holdfast.model.execution import Birth, new_execution
from holdfast.model.ids import FunctionName, IdSource
from holdfast.model.operations import Failure, Kind, Type, Update
from holdfast.model.transitions import Children
from holdfast.store.seam import Hosted, Store


class InvokeTargets:
    """Finds the targets of chained invokes: functions hosted here, then those that any other process of the store has hosted."""

    def __init__(self, store: Store, registry: Registry, clock: Clock, ids: IdSource) -> None:
        self._store = store
        self._registry = registry
        self._clock = clock
        self._ids = ids

    def children(self, parent: str, updates: Sequence[Update]) -> Children:
        """What each invoke among these updates starts."""
        return {update.id: self._child(parent, update) for update in updates if update.type is Type.CHAINED_INVOKE}

    def _child(self, parent: str, update: Update) -> Birth | Failure:
        try:
            target, order = self._target(update.function_name or ""), update.order
            if target is None or target.kind is not (Kind.FUNCTION if order is None else order.kind):
                return _unknown(update)  # a worker is no function: whatever a payload holds, it was not accepted
            payload = codec.storable(order.input if order is not None else "{}" if update.payload is None else update.payload)
            return self._birth(parent, update, target, payload)
        except Rejected as refused:  # trouble with the store is no answer
            kind = "InvalidParameterValueException" if isinstance(refused, InvalidParameter) else type(refused).__name__
            return Failure(str(refused), kind)

    def _birth(self, parent: str, update: Update, target: Hosted, payload: str) -> Birth:
        now = self._clock.now()
        who = {"tenant": update.tenant_id or None, "trace": update.trace_id or None}
        header = new_execution(self._ids(now), None, target.function, target.version, payload=payload, now=now, terms=target.terms, **who)
        return Birth(
            msgspec.structs.replace(header, parent=parent, parent_operation=update.id, cascade=update.cascade), payload, target.kind
        )

    def _target(self, name: str) -> Hosted | None:
        function = FunctionName.parse(name)
        if function.version is not None:
            function = function._replace(version=self._registry.aliases.get((function.name, function.version), function.version))
        here = {hosted.version: hosted for hosted in self._registry.hosted() if hosted.function == function.name}
        known = here or self._elsewhere(function.name)
        if function.version is not None and function.version not in known:
            known = self._elsewhere(function.name)
        return known.get(function.version or latest(known)) if known else None

    def _elsewhere(self, name: str) -> dict[str, Hosted]:
        hosted = self._store.hosted(name)
        return {one.version: one for one in hosted if (one.function, one.version) not in self._registry.gone}


def _unknown(update: Update) -> Failure:
    return Failure(f"Function not found: {update.function_name}", "ResourceNotFoundException")

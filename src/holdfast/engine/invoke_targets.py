"""Chained invokes: finds the function that an invoke calls, and makes the execution for it. The checkpoint that contains the invoke also
starts that execution (model.follow_ups)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.engine.enqueues import NewQueues
from holdfast.engine.registry import Registry, latest
from holdfast.model import codec
from holdfast.model.admission import Enqueue
from holdfast.model.clock import Clock
from holdfast.model.errors import InvalidParameter, Rejected
from holdfast.model.execution import Birth
from holdfast.model.ids import FunctionName, IdSource
from holdfast.model.life import new_execution
from holdfast.model.operations import RUN, Failure, Kind, Type, Update
from holdfast.model.transitions import Children
from holdfast.store.seam import FunctionStore, Hosted


class InvokeTargets:
    """Finds the functions that chained invokes call. First it looks among the functions hosted here, then among those that any process of
    the store has published."""

    def __init__(self, store: FunctionStore, registry: Registry, clock: Clock, ids: IdSource, new_queues: NewQueues) -> None:
        self._store = store
        self._registry = registry
        self._clock = clock
        self._ids = ids
        self._new_queues = new_queues

    def children(self, parent: str, updates: Sequence[Update]) -> Children:
        """By the id of the operation, for each of these updates that asks for another execution: the execution that it starts, or the
        failure with which the operation ends."""
        found: dict[str, Hosted | None] = {}
        return {update.id: self._child(parent, update, found) for update in updates if starts_another(update)}

    def function(self, name: str, version: str | None) -> Hosted | None:
        """The function (no worker, no pipeline) of a name and a version or alias, hosted here or published by any process; None if there is
        none. If `version` is None, the version `$LATEST` is taken, or the highest number if there is no `$LATEST`; versions of other
        processes count only if none is hosted here."""
        found = self._target(name if version is None else f"{name}:{version}")
        return found if found is not None and found.kind is Kind.FUNCTION else None

    def _child(self, parent: str, update: Update, found: dict[str, Hosted | None]) -> Birth | Failure:
        if update.error is not None and update.sub_type == RUN:
            return update.error  # the worker service refused the request
        try:
            name, order = update.function_name or "", update.order
            if name not in found:
                found[name] = self._target(name)
            target = found[name]
            if target is None or target.kind is not (Kind.FUNCTION if order is None else order.kind):
                return _unknown(update)  # a worker cannot be started like a function: its run needs an accepted order
            payload = codec.storable(order.input if order is not None else "{}" if update.payload is None else update.payload)
            return self._birth(parent, update, target, payload)
        except Rejected as refused:  # errors of the store are raised, and do not fail the operation
            kind = "InvalidParameterValueException" if isinstance(refused, InvalidParameter) else type(refused).__name__
            return Failure(str(refused), kind)

    def _birth(self, parent: str, update: Update, target: Hosted, payload: str) -> Birth:
        now, order = self._clock.now(), update.order
        terms, tenant, trace = target.terms, update.tenant_id, update.trace_id
        if order is not None:
            terms, tenant, trace = order.terms or terms, order.tenant or tenant, order.trace or trace
        who = {"tenant": tenant or None, "trace": trace or None}
        header = new_execution(self._ids(now), None, target.function, target.version, payload=payload, now=now, terms=terms, **who)
        if order is not None and order.queued is not None:
            asked = Enqueue(**msgspec.structs.asdict(order.queued))
            self._new_queues.check(asked.queue)
            return Birth(header, payload, target.kind, charges=order.charges, graph=order.graph, enqueue=asked)
        header = msgspec.structs.replace(header, parent=parent, parent_operation=update.id, cascade=update.cascade)
        if order is None:
            return Birth(header, payload, target.kind)
        return Birth(header, payload, target.kind, charges=order.charges, graph=order.graph)

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


def starts_another(update: Update) -> bool:
    """Whether an update asks for another execution: an invoke, a run of a worker or a pipeline, or an enqueue does."""
    return update.type is Type.CHAINED_INVOKE or update.order is not None


def _unknown(update: Update) -> Failure:
    return Failure(f"Function not found: {update.function_name}", "ResourceNotFoundException")

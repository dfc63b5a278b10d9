"""map: one function for every item, in branches that run concurrently."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from holdfast.durable import argument_checks
from holdfast.durable.concurrency.models import BatchResult
from holdfast.durable.config import MapConfig
from holdfast.durable.decorators import named
from holdfast.durable.hints import BatchOf
from holdfast.durable.identifier import Identity
from holdfast.durable.operation.batch import BatchKind, Branch, batch
from holdfast.durable.plan import Plan
from holdfast.durable.scope import Scope
from holdfast.model.operations import SubType, Type

_MAP: Final = BatchKind(SubType.MAP_ITERATION, "map-item-", "MapResult")


def map_call(
    scope: Scope, inputs: Sequence[Any], func: Callable[..., Any], name: str | None, config: MapConfig[Any] | None
) -> tuple[Identity, Plan[BatchResult[Any]]]:
    """Check the arguments of `context.map`. Returns the identity of the call, and its plan."""
    if config is not None:
        config.completion_config.validate_for_total(len(inputs))
    argument_checks.function(func, "map")
    at = scope.next_identity(Type.CONTEXT, SubType.MAP.value, named(argument_checks.name(name, "map"), func))
    return at, map_items(at, scope, inputs, func, config or MapConfig())


def map_items(
    at: Identity, scope: Scope, inputs: Sequence[Any], func: Callable[..., Any], config: MapConfig[Any]
) -> Plan[BatchResult[Any]]:
    """Run `func(context, item, index, inputs)` for the items concurrently, until the batch is complete, and return its result."""

    def bound(index: int, item: Any) -> Callable[[Any], Any]:
        def run(context: Any) -> Any:
            return func(context, item, index, inputs)

        run._original = func  # type: ignore[attr-defined]
        return run

    def branches() -> list[Branch]:
        namer = config.item_namer
        names = [
            argument_checks.name(namer(item, index), "map", f"item_namer's name of item {index}") if namer else None
            for index, item in enumerate(inputs)
        ]
        return [Branch(bound(index, item), names[index]) for index, item in enumerate(inputs)]

    return batch(at, scope, _MAP, branches, config, BatchOf(lambda _: func))

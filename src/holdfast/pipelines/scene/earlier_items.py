"""What a map of a restarted run reads from earlier runs: the map's shards there, their items, and the results of these items."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from holdfast.pipelines.graph.graph import MapNode
from holdfast.pipelines.restart.items import EarlierItems, ItemForerunners, earlier_shards, matched
from holdfast.pipelines.scene.environment import RunService
from holdfast.pipelines.scene.scene import Scene
from holdfast.workers.accepted_request import AcceptedRequest

WORK: Final = "work"
"""The name of the part in which a map runs its worker. Its undo is another part."""


async def earlier_items(scene: Scene, items: Sequence[Any], part: str) -> EarlierItems | None:
    """What earlier runs did for the items of a map in this part of its work; None if no earlier run has a shard of the map for this part.
    Results of undos are not reused."""
    run, node, round = scene.run_state, scene.node, scene.position.round
    forerunners = run.forerunners
    if forerunners is None or not isinstance(node, MapNode):
        return None
    shards, counts = earlier_shards(forerunners, node, round, part)
    if not shards:
        return None
    before: dict[int, list[Any]] = {}
    for shard, accepted in shards:
        before[shard.first] = await run.values.opened(accepted.request.inputs.get("task.items"))
    found = forerunners.reuse(node, round) if counts and part == WORK else None
    return EarlierItems(
        shards=tuple(shard for shard, _ in shards),
        reuse="none" if found is None else found[1],
        is_fresh=forerunners.is_fresh(node.name, round),
        is_whole=found is None,
        places=matched(items, [item for first in sorted(before) for item in before[first]]),
    )


async def item_forerunners(
    items: EarlierItems | None, first: int, accepted: AcceptedRequest, service: RunService
) -> ItemForerunners | None:
    """What earlier runs did for the items of a shard that begins at index `first`; None if `items` is None."""
    if items is None:
        return None
    found = [await service.earlier_run(shard.run_id, accepted.tenant) for shard in items.shards]
    return ItemForerunners(accepted, items, first, [run for run in found if run is not None])

"""What a map of a restarted run reads from earlier runs: the map's shards there, their items, and the results of these items."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from holdfast.pipelines.graph.graph import MapNode
from holdfast.pipelines.restart.items import EarlierItems, ItemForerunners, earlier_maps, matched
from holdfast.pipelines.scene.environment import RunService
from holdfast.pipelines.scene.scene import Scene
from holdfast.workers.accepted_request import AcceptedRequest
from holdfast.workers.earlier_runs import EarlierRun

WORK: Final = "work"
"""The name of the part in which a map runs its worker. Its undo is another part."""


async def earlier_items(scene: Scene, items: Sequence[Any], part: str) -> EarlierItems | None:
    """What earlier runs did for the items of a map in this part of its work; None if no earlier run has a shard of the map for this
    part."""
    run, node, round = scene.run_state, scene.node, scene.position.round
    forerunners = run.forerunners
    if forerunners is None or not isinstance(node, MapNode):
        return None
    found: list[EarlierItems] = []
    for past in earlier_maps(forerunners, node, round, part):
        before: dict[int, list[Any]] = {}
        for shard, accepted in past.shards:
            before[shard.first] = await run.values.opened(accepted.request.inputs.get("task.items"))
        places = matched(items, [item for first in sorted(before) for item in before[first]])
        found.append(msgspec.structs.replace(past.items, places=places))
        if places is None and past.is_complete:
            break  # it has a result for each item, so that the runs before it are not needed
    return msgspec.structs.replace(found[0], older=tuple(found[1:])) if found else None


async def item_forerunners(
    items: EarlierItems | None, first: int, accepted: AcceptedRequest, service: RunService
) -> ItemForerunners | None:
    """What earlier runs did for the items of a shard that begins at index `first`; None if `items` is None."""
    if items is None:
        return None
    found: list[list[EarlierRun]] = []
    for one in (items, *items.older):
        runs = [await service.earlier_run(shard.run_id, accepted.tenant) for shard in one.shards]
        found.append([run for run in runs if run is not None])
    return ItemForerunners(accepted, items, first, found)
